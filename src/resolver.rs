//! `Resolver::resolve` turns a destination into `VettedAddrs`: look up once, within one budget,
//! and vet the whole answer.

pub mod cache;
pub mod lookup;

use std::{net::IpAddr, sync::Arc, time::Duration};

use ipnet::IpNet;
use tokio::time;

use self::cache::Cache;
pub use self::lookup::{
    Answer, HickoryLookup, Lookup, LookupError, LookupSetupError, name_servers,
};
use crate::destination::{
    AddressGuard, BlockedAddress, Destination, Host, Name, Surroundings, VettedAddrs,
};

/// The most addresses that an answer may have. Names in earnest use have a few dozen; more would
/// only blow up the record and the dialling of whoever asks.
const MAX_ADDRESSES: usize = 256;

/// Looks up and vets.
#[derive(Debug)]
pub struct Resolver {
    lookup: Arc<dyn Lookup>,
    timeout: Duration,
    cache: Cache,
}

/// A vetted answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resolved {
    /// What may be dialled.
    pub vetted: VettedAddrs,
    /// The answer as it came, for the record.
    pub answer: Vec<IpAddr>,
}

/// Why a destination has no vetted addresses.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ResolveError {
    /// The name does not exist, has no address, or the upstream failed.
    #[error("no address for {name}: {why}")]
    Failed {
        /// The name looked up.
        name: String,
        /// What the upstream said.
        why: String,
    },
    /// The budget was spent.
    #[error("no answer within {0:?}")]
    Timeout(Duration),
    /// One address of the answer is forbidden.
    #[error("{blocked}")]
    Blocked {
        /// The address and the rule.
        blocked: BlockedAddress,
        /// The whole answer, for the record.
        answer: Vec<IpAddr>,
    },
}

impl Resolver {
    /// A resolver over `lookup` with a budget for each whole look-up.
    pub fn new(lookup: Arc<dyn Lookup>, timeout: Duration) -> Self {
        Self {
            lookup,
            timeout,
            cache: Cache::default(),
        }
    }

    /// The vetted addresses of `destination`; an IP literal is vetted without a look-up. The
    /// answer may come from the cache; vetting never does.
    pub async fn resolve(
        &self,
        destination: &Destination,
        guard: &AddressGuard,
        surroundings: &Surroundings,
        exceptions: &[IpNet],
    ) -> Result<Resolved, ResolveError> {
        let answer = self.look_up(destination).await?;
        Resolved::vet(answer, destination, guard, surroundings, exceptions)
    }

    /// The first half of `resolve`, for a caller that reads what is ours between the two: the
    /// answer, not yet vetted.
    pub async fn look_up(&self, destination: &Destination) -> Result<Vec<IpAddr>, ResolveError> {
        match &destination.host {
            Host::Name(name) => self.addresses(name).await,
            Host::Ip(address) => Ok(vec![*address]),
        }
    }

    async fn addresses(&self, name: &Name) -> Result<Vec<IpAddr>, ResolveError> {
        let asked = self.cache.get_or_ask(name, || self.ask(name));
        // Whoever joins a look-up under way has a budget of its own.
        match time::timeout(self.timeout, asked).await {
            Ok(Ok(addresses)) => Ok(addresses),
            Ok(Err(LookupError::Timeout)) | Err(_) => Err(ResolveError::Timeout(self.timeout)),
            Ok(Err(error @ (LookupError::NoAddress | LookupError::Failed(_)))) => {
                Err(ResolveError::Failed {
                    name: name.to_string(),
                    why: error.to_string(),
                })
            }
        }
    }

    async fn ask(&self, name: &Name) -> Result<Answer, LookupError> {
        let answer = time::timeout(self.timeout, self.lookup.lookup(name))
            .await
            .unwrap_or(Err(LookupError::Timeout))?;
        match answer.addresses.len() {
            0 => Err(LookupError::NoAddress),
            1..=MAX_ADDRESSES => Ok(answer),
            _ => Err(LookupError::Failed(format!(
                "the answer has more than {MAX_ADDRESSES} addresses"
            ))),
        }
    }
}

impl Resolved {
    /// The second half of `resolve`.
    ///
    /// Security: vet the whole answer, each time; a client may try any address in it, and what is
    /// ours may have changed since it was looked up.
    pub fn vet(
        answer: Vec<IpAddr>,
        destination: &Destination,
        guard: &AddressGuard,
        surroundings: &Surroundings,
        exceptions: &[IpNet],
    ) -> Result<Self, ResolveError> {
        match guard.vet(surroundings, destination, &answer, exceptions) {
            Ok(vetted) => Ok(Self { vetted, answer }),
            Err(blocked) => Err(ResolveError::Blocked { blocked, answer }),
        }
    }
}

#[cfg(test)]
mod tests;
