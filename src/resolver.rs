//! `Resolver::resolve` turns a destination into `VettedAddrs`: look up once, within one budget,
//! and vet the whole answer.

pub mod cache;
pub mod lookup;

use std::{net::IpAddr, sync::Arc, time::Duration};

use ipnet::IpNet;

pub use self::lookup::{Answer, HickoryLookup, Lookup, LookupError};
use crate::destination::{AddressGuard, BlockedAddress, Destination, Surroundings, VettedAddrs};

/// Looks up and vets.
pub struct Resolver {
    lookup: Arc<dyn Lookup>,
    timeout: Duration,
    // the helper adds the bounded cache
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
        Self { lookup, timeout }
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
        let _ = (
            destination,
            guard,
            surroundings,
            exceptions,
            &self.lookup,
            self.timeout,
        );
        todo!()
    }
}
