//! One upstream server: how it is asked, what it says, and whether it is in trouble.

use std::{
    fmt,
    net::{IpAddr, SocketAddr},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use hickory_net::{
    NetError,
    proto::{
        op::{DnsRequest, DnsRequestOptions, DnsResponse, Query, ResponseCode},
        rr::{Name, RecordType},
    },
    runtime::TokioRuntimeProvider,
    udp::UdpClientStream,
    xfer::{DnsRequestSender, FirstAnswer},
};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::{sync::Semaphore, time::Instant};

use super::{
    LookupError, LookupSetupError,
    chain::{Chain, Step},
    connection::{Connection, Protocol},
};
use crate::config::Upstream;

/// Failures in a row after which a server is in trouble: one may be the fault of a single zone.
const FAILURES: u32 = 3;

/// How long a server in trouble is asked last.
const TROUBLE: Duration = Duration::from_secs(30);

/// The most datagram queries under way, each with sockets of its own; more wait, within their
/// budget.
const DATAGRAM_QUERIES: usize = 512;

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
    datagrams: Option<Datagrams>,
    connection: Connection,
    failures: Mutex<Failures>,
}

/// Queries by UDP, each from a port and with an id of its own.
struct Datagrams {
    address: SocketAddr,
    patience: Duration,
    places: Semaphore,
}

#[derive(Debug, Default)]
struct Failures {
    in_a_row: u32,
    last: Option<Instant>,
}

impl Server {
    /// A server that has `patience` for a query before the next server is asked.
    pub(super) fn new(
        upstream: &Upstream,
        patience: Duration,
        config: &Arc<ClientConfig>,
    ) -> Result<Self, LookupSetupError> {
        let config = Arc::clone(config);
        let (label, address, protocol) = match upstream {
            Upstream::System => {
                let what = "the system's servers are to be read from their file".to_owned();
                return Err(LookupSetupError(what));
            }
            Upstream::Udp(address) => (format!("udp://{address}"), *address, Protocol::Tcp),
            Upstream::Tls { address, name } => {
                let label = format!("tls://{address}#{name}");
                let name = server_name(name)?;
                (label, *address, Protocol::Tls { config, name })
            }
            Upstream::Https {
                address,
                name,
                path,
            } => {
                server_name(name)?;
                let label = format!("https://{address}{path}#{name}");
                let (name, path) = (Arc::clone(name), Arc::clone(path));
                (label, *address, Protocol::Https { config, name, path })
            }
        };
        let datagrams = matches!(protocol, Protocol::Tcp).then(|| Datagrams {
            address,
            patience,
            places: Semaphore::new(DATAGRAM_QUERIES),
        });
        Ok(Self {
            label,
            datagrams,
            connection: Connection::new(address, protocol, patience),
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
        let response = self.send(Query::query(name, kind)).await.map_err(|error| {
            tracing::debug!(server = %self.label, %error, "look-up failed");
            match error {
                NetError::Timeout => Trouble::Timeout,
                other => Trouble::Unreachable(other.to_string()),
            }
        })?;
        match response.metadata.response_code {
            ResponseCode::NoError | ResponseCode::NXDomain => Ok(response),
            code => Err(Trouble::Refused(format!("the resolver answered: {code}"))),
        }
    }

    async fn send(&self, query: Query) -> Result<DnsResponse, NetError> {
        if let Some(datagrams) = &self.datagrams {
            match datagrams.send(query.clone()).await {
                Ok(response) if !response.metadata.truncation => return Ok(response),
                // RFC 7766 section 5: a truncated answer is asked for again over TCP. So is one to
                // a name in another case: it may be forged, or the server does not keep the case.
                Ok(_) | Err(NetError::QueryCaseMismatch) => {}
                Err(error) => return Err(error),
            }
        }
        let request = DnsRequest::from_query(query, DnsRequestOptions::default());
        let response = self.connection.send(&request).await?;
        if response.metadata.truncation {
            return Err(NetError::Truncated);
        }
        Ok(response)
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
            tracing::warn!(server = %self.label, why, "resolver in trouble");
        }
    }

    fn failures(&self) -> std::sync::MutexGuard<'_, Failures> {
        self.failures.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Datagrams {
    async fn send(&self, query: Query) -> Result<DnsResponse, NetError> {
        let _place = self.places.acquire().await.map_err(|_| NetError::Busy)?;
        let mut options = DnsRequestOptions::default();
        // draft-vixie-dnsext-dns0x20: a forger must guess the case of the name too.
        options.case_randomization = true;
        let request = DnsRequest::from_query(query, options);
        let mut stream = UdpClientStream::builder(self.address, TokioRuntimeProvider::default())
            .with_timeout(Some(self.patience))
            .build();
        stream.send_message(request).first_answer().await
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Server").field(&self.label).finish()
    }
}

/// The name that a certificate must bear, if a certificate can bear it.
fn server_name(name: &Arc<str>) -> Result<ServerName<'static>, LookupSetupError> {
    match ServerName::try_from(&**name) {
        Ok(name) => Ok(name.to_owned()),
        Err(error) => {
            let what = format!("resolver.servers: {name:?}: {error}");
            Err(LookupSetupError(what))
        }
    }
}
