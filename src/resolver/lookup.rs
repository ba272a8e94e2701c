//! The `Lookup` seam: hickory's transports, or a scripted fake.

mod chain;
mod connection;
mod server;
mod system;

use std::{
    fmt,
    future::Future,
    net::IpAddr,
    pin::{Pin, pin},
    sync::Arc,
    time::Duration,
};

use hickory_net::proto::rr::{Name as DnsName, RecordType};
use rustls::pki_types::{CertificateDer, pem::PemObject};
use rustls::{ClientConfig, RootCertStore, crypto::ring};
use tokio::time::{self, Instant};

use self::server::{Found, Server, Trouble};
pub use self::system::name_servers;
use crate::{
    config::{self, Upstream},
    destination::Name,
};

/// What an upstream answered for a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Every A and AAAA address, in the order given.
    pub addresses: Vec<IpAddr>,
    /// How long it may be kept.
    pub ttl: Duration,
}

/// Why an upstream gave no answer. An agent reads these, so they do not name the upstream.
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

/// How long the second family may take once the first has answered with addresses: some zones
/// never answer AAAA.
const GRACE: Duration = Duration::from_secs(1);

/// How long half an answer is kept at most: the other half may be back soon.
const HALF_TTL: Duration = Duration::from_secs(30);

/// The configured servers, asked through hickory's transports; what is asked, of whom and for how
/// long is decided here. Answers are not kept.
#[derive(Debug)]
pub struct HickoryLookup {
    servers: Vec<Server>,
    timeout: Duration,
}

impl HickoryLookup {
    /// Prepares the servers; nothing is sent yet. The system's servers are read now and not again.
    ///
    /// # Errors
    /// An unreadable `/etc/resolv.conf` or `ca`, named.
    pub fn new(settings: &config::Resolver) -> Result<Self, LookupSetupError> {
        let tls = Arc::new(tls_config(settings)?);
        let mut upstreams = Vec::new();
        for upstream in &settings.servers {
            match upstream {
                Upstream::System => {
                    upstreams.extend(name_servers()?.into_iter().map(Upstream::Udp));
                }
                Upstream::Udp(_) | Upstream::Tls { .. } | Upstream::Https { .. } => {
                    upstreams.push(upstream.clone());
                }
            }
        }
        if upstreams.is_empty() {
            return Err(LookupSetupError("no server is configured".to_owned()));
        }
        let patience = settings.timeout / u32::try_from(upstreams.len()).unwrap_or(u32::MAX);
        let servers = upstreams
            .iter()
            .map(|upstream| Server::new(upstream, patience, &tls));
        Ok(Self {
            servers: servers.collect::<Result<_, _>>()?,
            timeout: settings.timeout,
        })
    }

    async fn ask(&self, name: &Name) -> Result<Answer, LookupError> {
        let deadline = Instant::now() + self.timeout;
        // With its final dot the name is absolute (RFC 1034 section 3.1).
        let name = DnsName::from_ascii(format!("{name}."))
            .map_err(|_| LookupError::Failed("the name cannot be asked for".to_owned()))?;
        let ipv4 = self.ask_servers(&name, RecordType::A, deadline);
        let ipv6 = self.ask_servers(&name, RecordType::AAAA, deadline);
        both(ipv4, ipv6, deadline).await
    }

    /// Asks the servers in their order until one answers; what is left of the time is shared out
    /// evenly among those not yet asked.
    async fn ask_servers(
        &self,
        name: &DnsName,
        kind: RecordType,
        deadline: Instant,
    ) -> Result<Found, LookupError> {
        let mut order: Vec<&Server> = self.servers.iter().collect();
        // A server in trouble is asked last for a while; the sort is stable.
        order.sort_by_cached_key(|server| server.is_down(Instant::now()));
        let mut left = u32::try_from(order.len()).unwrap_or(u32::MAX);
        let mut last = LookupError::Timeout;
        for server in order {
            let share = deadline.saturating_duration_since(Instant::now()) / left.max(1);
            left = left.saturating_sub(1);
            let asked = time::timeout(share, server.addresses(name, kind)).await;
            match asked.unwrap_or(Err(Trouble::Timeout)) {
                Ok(found) => {
                    server.note_answer();
                    return Ok(found);
                }
                Err(Trouble::Final(error)) => {
                    server.note_answer();
                    return Err(error);
                }
                Err(Trouble::Refused(why)) => {
                    server.note_answer();
                    last = LookupError::Failed(why);
                }
                Err(Trouble::Timeout) => {
                    server.note_failure("no answer in time", Instant::now());
                    last = LookupError::Timeout;
                }
                Err(Trouble::Unreachable(why)) => {
                    server.note_failure(&why, Instant::now());
                    last = LookupError::Failed("the resolver cannot be used".to_owned());
                }
            }
        }
        Err(last)
    }
}

impl Lookup for HickoryLookup {
    fn lookup<'a>(
        &'a self,
        name: &'a Name,
    ) -> Pin<Box<dyn Future<Output = Result<Answer, LookupError>> + Send + 'a>> {
        Box::pin(self.ask(name))
    }
}

/// Waits for both families: until `deadline`, and for `GRACE` once one has addresses.
async fn both(
    ipv4: impl Future<Output = Result<Found, LookupError>>,
    ipv6: impl Future<Output = Result<Found, LookupError>>,
    deadline: Instant,
) -> Result<Answer, LookupError> {
    let (mut ipv4, mut ipv6) = (pin!(ipv4), pin!(ipv6));
    let (mut a, mut aaaa) = (None, None);
    let mut until = deadline;
    while a.is_none() || aaaa.is_none() {
        let first = tokio::select! {
            biased;
            result = &mut ipv4, if a.is_none() => a.insert(result),
            result = &mut ipv6, if aaaa.is_none() => aaaa.insert(result),
            () = time::sleep_until(until) => break,
        };
        if first.is_ok() {
            until = until.min(Instant::now() + GRACE);
        }
    }
    let late = Err(LookupError::Timeout);
    merge(a.unwrap_or_else(|| late.clone()), aaaa.unwrap_or(late))
}

/// Addresses of one family are an answer, whatever became of the other; a failure counts for more
/// than the absence of addresses, since it may hide some.
fn merge(
    a: Result<Found, LookupError>,
    aaaa: Result<Found, LookupError>,
) -> Result<Answer, LookupError> {
    match (a, aaaa) {
        (Ok(mut a), Ok(aaaa)) => {
            a.addresses.extend(aaaa.addresses);
            Ok(answer(a.addresses, a.ttl.min(aaaa.ttl)))
        }
        (Ok(found), Err(LookupError::NoAddress)) | (Err(LookupError::NoAddress), Ok(found)) => {
            Ok(answer(found.addresses, found.ttl))
        }
        (Ok(half), Err(_)) | (Err(_), Ok(half)) => {
            Ok(answer(half.addresses, half.ttl.min(HALF_TTL)))
        }
        (Err(LookupError::NoAddress), Err(error)) | (Err(error), Err(_)) => Err(error),
    }
}

fn answer(addresses: Vec<IpAddr>, ttl: Duration) -> Answer {
    Answer { addresses, ttl }
}

/// TLS for `tls` and `https` servers: the ring provider, and the roots of `ca` in place of
/// Mozilla's.
fn tls_config(settings: &config::Resolver) -> Result<ClientConfig, LookupSetupError> {
    let mut roots = RootCertStore::empty();
    match &settings.ca {
        None => roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned()),
        Some(path) => {
            let fail = |why: &dyn fmt::Display| {
                LookupSetupError(format!("resolver.ca {}: {why}", path.display()))
            };
            for certificate in CertificateDer::pem_file_iter(path).map_err(|error| fail(&error))? {
                let certificate = certificate.map_err(|error| fail(&error))?;
                roots.add(certificate).map_err(|error| fail(&error))?;
            }
            if roots.is_empty() {
                return Err(fail(&"holds no certificate"));
            }
        }
    }
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| LookupSetupError(error.to_string()))?;
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}

/// Why the upstream servers cannot be set up.
#[derive(Debug, thiserror::Error)]
#[error("failed to set up the resolver: {0}")]
pub struct LookupSetupError(pub String);

#[cfg(test)]
mod tests;
