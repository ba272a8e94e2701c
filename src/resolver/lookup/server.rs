//! One upstream server: how it is reached, what it says, and whether it is in trouble.

use std::{
    fmt,
    net::{IpAddr, SocketAddr},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use hickory_resolver::{
    NameServerPool, PoolContext, TlsConfig,
    config::{ConnectionConfig, NameServerConfig, ResolverOpts, ServerOrderingStrategy},
    net::{
        DnsError, NetError,
        runtime::TokioRuntimeProvider,
        xfer::{DnsHandle, FirstAnswer},
    },
    proto::{
        op::{DnsRequestOptions, DnsResponse, Query},
        rr::{Name, RecordType},
    },
};
use rustls::ClientConfig;
use rustls_pki_types::ServerName;
use tokio::time::Instant;

use super::{
    LookupError, LookupSetupError,
    chain::{Chain, Step},
};
use crate::config::Upstream;

/// Failures in a row after which a server is in trouble: one may be the fault of a single zone.
const FAILURES: u32 = 3;

/// How long a server in trouble is asked last.
const TROUBLE: Duration = Duration::from_secs(30);

/// Requests under way on one TCP or TLS connection; beyond it hickory waits and tries again.
const ACTIVE_REQUESTS: usize = 512;

/// The addresses of one family.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) addresses: Vec<IpAddr>,
    pub(super) ttl: Duration,
}

/// Why a server gave no addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Trouble {
    /// It answered, and another server would say the same.
    Final(LookupError),
    /// It answered that it cannot or will not: SERVFAIL, REFUSED and the like.
    Refused(String),
    /// It cannot be reached, is not who it should be, or does not speak DNS; for operators.
    Unreachable(String),
    /// It did not answer.
    Timeout,
}

/// One upstream server.
pub(super) struct Server {
    label: String,
    pool: NameServerPool<TokioRuntimeProvider>,
    failures: Mutex<Failures>,
}

#[derive(Debug, Default)]
struct Failures {
    in_a_row: u32,
    last: Option<Instant>,
}

impl Server {
    pub(super) fn new(
        upstream: &Upstream,
        timeout: Duration,
        tls: &ClientConfig,
    ) -> Result<Self, LookupSetupError> {
        let (label, address, connections) = match upstream {
            Upstream::System => {
                let what = "the system's servers are read from a file".to_owned();
                return Err(LookupSetupError(what));
            }
            // TCP is for answers that UDP truncates (RFC 7766).
            Upstream::Udp(address) => (
                format!("udp://{address}"),
                address,
                vec![ConnectionConfig::udp(), ConnectionConfig::tcp()],
            ),
            Upstream::Tls { address, name } => (
                format!("tls://{address}#{}", server_name(name)?),
                address,
                vec![ConnectionConfig::tls(Arc::clone(name))],
            ),
            Upstream::Https {
                address,
                name,
                path,
            } => (
                format!("https://{address}{path}#{}", server_name(name)?),
                address,
                vec![ConnectionConfig::https(
                    Arc::clone(name),
                    Some(Arc::clone(path)),
                )],
            ),
        };
        let servers = [name_server(*address, connections)];
        let tls = TlsConfig {
            config: tls.clone(),
        };
        let context = PoolContext::new(options(timeout), tls);
        let provider = TokioRuntimeProvider::default();
        Ok(Self {
            label,
            pool: NameServerPool::from_config(servers, Arc::new(context), provider),
            failures: Mutex::default(),
        })
    }

    /// The addresses of `name` of one family; aliases that the server leaves open are asked for.
    pub(super) async fn addresses(&self, name: &Name, kind: RecordType) -> Result<Found, Trouble> {
        let mut chain = Chain::new(name);
        loop {
            let response = self.ask(chain.tail.clone(), kind).await?;
            match chain.follow(&response, kind) {
                Step::Addresses(addresses, ttl) => return Ok(Found { addresses, ttl }),
                Step::Ask => {}
                Step::NoAddress => return Err(Trouble::Final(LookupError::NoAddress)),
                Step::TooLong => {
                    let what = "the name's aliases form a loop or are too many".to_owned();
                    return Err(Trouble::Final(LookupError::Failed(what)));
                }
            }
        }
    }

    async fn ask(&self, name: Name, kind: RecordType) -> Result<DnsResponse, Trouble> {
        let query = Query::query(name, kind);
        let answer = self.pool.lookup(query, DnsRequestOptions::default());
        answer.first_answer().await.map_err(|error| {
            tracing::debug!(server = %self.label, %error, "look-up failed");
            match error {
                NetError::Dns(DnsError::NoRecordsFound(_)) => {
                    Trouble::Final(LookupError::NoAddress)
                }
                NetError::Dns(DnsError::ResponseCode(code)) => {
                    Trouble::Refused(format!("the resolver answered: {code}"))
                }
                NetError::Timeout => Trouble::Timeout,
                other => Trouble::Unreachable(other.to_string()),
            }
        })
    }

    /// Whether the server failed several times in a row, of late.
    pub(super) fn is_down(&self, now: Instant) -> bool {
        let failures = self.failures();
        failures.in_a_row >= FAILURES
            && failures
                .last
                .is_some_and(|last| now.saturating_duration_since(last) < TROUBLE)
    }

    pub(super) fn note_answer(&self) {
        *self.failures() = Failures::default();
    }

    pub(super) fn note_failure(&self, why: &str, now: Instant) {
        let mut failures = self.failures();
        failures.in_a_row = failures.in_a_row.saturating_add(1);
        failures.last = Some(now);
        if failures.in_a_row == FAILURES {
            tracing::warn!(server = %self.label, why, "resolver in trouble, asked last for a while");
        }
    }

    fn failures(&self) -> std::sync::MutexGuard<'_, Failures> {
        self.failures.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Server").field(&self.label).finish()
    }
}

/// The name that a certificate must bear, if a certificate can bear it.
fn server_name(name: &Arc<str>) -> Result<&str, LookupSetupError> {
    match ServerName::try_from(&**name) {
        Ok(_) => Ok(name),
        Err(error) => Err(LookupSetupError(format!(
            "resolver.servers: {name:?}: {error}"
        ))),
    }
}

fn name_server(address: SocketAddr, mut connections: Vec<ConnectionConfig>) -> NameServerConfig {
    for connection in &mut connections {
        connection.port = address.port();
    }
    // What it says of a name that does not exist holds.
    NameServerConfig::new(address.ip(), true, connections)
}

fn options(timeout: Duration) -> ResolverOpts {
    let mut options = ResolverOpts::default();
    options.timeout = timeout;
    options.num_concurrent_reqs = 1;
    options.max_active_requests = ACTIVE_REQUESTS;
    options.server_ordering_strategy = ServerOrderingStrategy::UserProvidedOrder;
    // draft-vixie-dnsext-dns0x20: a forger must guess the case too; a server that does not keep it
    // is asked over TCP.
    options.case_randomization = true;
    options
}
