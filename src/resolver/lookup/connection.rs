//! One TCP, TLS or HTTPS connection to a server, opened when it is needed and shared by all.

use std::{future::Future, net::SocketAddr, pin::Pin, sync::Arc, time::Duration};

use hickory_net::{
    NetError,
    h2::HttpsClientStream,
    proto::op::{DnsRequest, DnsResponse},
    runtime::TokioRuntimeProvider,
    tcp::TcpClientStream,
    tls::tls_exchange,
    xfer::{DnsExchange, DnsHandle, FirstAnswer},
};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::{
    sync::{Mutex, Semaphore},
    time,
};

/// The most queries under way; more wait, within their budget. hickory keeps a queue of 32 messages
/// for a connection and refuses what is beyond.
const QUERIES: usize = 32;

/// How a connection is opened.
#[derive(Clone, Debug)]
pub(super) enum Protocol {
    /// RFC 7766.
    Tcp,
    /// RFC 7858.
    Tls {
        config: Arc<ClientConfig>,
        name: ServerName<'static>,
    },
    /// RFC 8484.
    Https {
        config: Arc<ClientConfig>,
        name: Arc<str>,
        path: Arc<str>,
    },
}

type Exchange = DnsExchange<TokioRuntimeProvider>;

/// The connection to one server, if there is one.
pub(super) struct Connection {
    address: SocketAddr,
    protocol: Protocol,
    patience: Duration,
    provider: TokioRuntimeProvider,
    places: Semaphore,
    // Locked while connecting, so that all wait for the one connection.
    current: Mutex<Current>,
}

#[derive(Default)]
struct Current {
    exchange: Option<Exchange>,
    generation: u64,
}

/// A connection to send one query on.
struct Lease {
    exchange: Exchange,
    generation: u64,
    is_new: bool,
}

impl Connection {
    /// A query has `patience` on a connection; on one that was there before it has half of that,
    /// and then tries a new one.
    pub(super) fn new(address: SocketAddr, protocol: Protocol, patience: Duration) -> Self {
        Self {
            address,
            protocol,
            patience,
            provider: TokioRuntimeProvider::default(),
            places: Semaphore::new(QUERIES),
            current: Mutex::default(),
        }
    }

    /// Sends a query and waits for the answer. A server may close a connection at any time (RFC
    /// 7766 section 6.2.4), and a dead one may not even say so: then a new one is opened, once.
    pub(super) async fn send(&self, request: &DnsRequest) -> Result<DnsResponse, NetError> {
        let _place = self.places.acquire().await.map_err(|_| NetError::Busy)?;
        let mut spent = None;
        loop {
            let lease = self.lease(spent).await?;
            let patience = if lease.is_new {
                self.patience
            } else {
                self.patience / 2
            };
            let answer = lease.exchange.send(request.clone()).first_answer();
            let error = match time::timeout(patience, answer).await {
                Ok(Ok(response)) => return Ok(response),
                Ok(Err(error)) => error,
                Err(_) => NetError::Timeout,
            };
            if lease.is_new || spent.is_some() {
                self.discard(lease.generation).await;
                return Err(error);
            }
            spent = Some(lease.generation);
        }
    }

    /// The connection, unless it is the one `spent`; then a new one.
    async fn lease(&self, spent: Option<u64>) -> Result<Lease, NetError> {
        let mut current = self.current.lock().await;
        let is_spent = spent == Some(current.generation);
        if let Some(exchange) = current.exchange.as_ref().filter(|_| !is_spent) {
            return Ok(Lease {
                exchange: exchange.clone(),
                generation: current.generation,
                is_new: false,
            });
        }
        current.exchange = None;
        let exchange = self.open().await?;
        current.exchange = Some(exchange.clone());
        current.generation += 1;
        Ok(Lease {
            exchange,
            generation: current.generation,
            is_new: true,
        })
    }

    async fn discard(&self, generation: u64) {
        let mut current = self.current.lock().await;
        if current.generation == generation {
            current.exchange = None;
        }
    }

    fn open(&self) -> Pin<Box<dyn Future<Output = Result<Exchange, NetError>> + Send>> {
        let (address, patience) = (self.address, self.patience);
        let provider = self.provider.clone();
        match self.protocol.clone() {
            Protocol::Tcp => Box::pin(TcpClientStream::exchange(
                address,
                None,
                patience,
                Some(QUERIES),
                provider,
            )),
            Protocol::Tls { config, name } => {
                let config = (*config).clone();
                let queries = Some(QUERIES);
                Box::pin(tls_exchange(
                    address, name, config, patience, queries, provider,
                ))
            }
            Protocol::Https { config, name, path } => {
                let mut stream = HttpsClientStream::builder(config, provider);
                stream.request_timeout(patience);
                Box::pin(stream.exchange(address, name, path))
            }
        }
    }
}
