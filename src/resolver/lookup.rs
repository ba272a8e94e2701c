//! The `Lookup` seam: hickory-resolver, or a scripted fake.

use std::{fmt, future::Future, net::IpAddr, pin::Pin, time::Duration};

use crate::{config, destination::Name};

/// What an upstream answered for a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Every A and AAAA address, in the order given.
    pub addresses: Vec<IpAddr>,
    /// How long it may be kept.
    pub ttl: Duration,
}

/// Why an upstream gave no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LookupError {
    /// NXDOMAIN, or no address.
    #[error("the name has no address")]
    NoAddress,
    /// SERVFAIL, REFUSED, a CNAME loop, a broken answer, an unreachable server.
    #[error("{0}")]
    Failed(String),
    /// No server answered in time.
    #[error("no server answered in time")]
    Timeout,
}

/// Looks up the addresses of an absolute name: no search list, no hosts file, no other servers
/// than those configured.
pub trait Lookup: fmt::Debug + Send + Sync + 'static {
    /// Asks for A and AAAA.
    fn lookup<'a>(
        &'a self,
        name: &'a Name,
    ) -> Pin<Box<dyn Future<Output = Result<Answer, LookupError>> + Send + 'a>>;
}

/// hickory-resolver over the configured servers.
#[derive(Debug)]
pub struct HickoryLookup {}

impl HickoryLookup {
    /// Prepares the servers; nothing is sent yet.
    ///
    /// # Errors
    /// An unreadable `/etc/resolv.conf` or `ca`, named.
    pub fn new(settings: &config::Resolver) -> Result<Self, LookupSetupError> {
        let _ = settings;
        todo!()
    }
}

/// Why the upstream servers cannot be set up.
#[derive(Debug, thiserror::Error)]
#[error("failed to set up the resolver: {0}")]
pub struct LookupSetupError(pub String);
