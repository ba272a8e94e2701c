//! Everything that is listened on, bound before anything is served.

use std::{io, net::SocketAddr, path::PathBuf, sync::Arc};

use tokio::net::UnixListener;

use super::BindError;
use crate::{
    admin::{self, Bound},
    config::Config,
    dns::DnsServer,
    listener::Listener,
    proxy::Road,
    workers::Worker,
};

/// What one worker listens on.
pub(super) type Roads = Vec<(Road, Listener)>;

/// The listeners.
pub(super) struct Listeners {
    /// For clients, by worker.
    pub(super) roads: Vec<Roads>,
    pub(super) dns: Vec<DnsServer>,
    pub(super) metrics: Option<Listener>,
    pub(super) socket: Option<(UnixListener, PathBuf)>,
    pub(super) bound: Bound,
}

impl Listeners {
    /// Binds what `config` names: for clients on every one of `workers`, all else on the runtime of
    /// the caller.
    ///
    /// # Errors
    /// The first that cannot be bound, or there is none for clients.
    pub(super) async fn bind(config: &Config, workers: &[Arc<Worker>]) -> Result<Self, BindError> {
        let listen = &config.listen;
        let uplink = listen.dangerously_listen_on_uplink;
        let mut bound = Bound::default();
        let mut roads: Vec<Roads> = workers.iter().map(|_| Roads::new()).collect();
        for (name, road, addresses, bound) in [
            ("proxy", Road::Forward, &listen.proxy, &mut bound.proxy),
            ("https", Road::Https, &listen.https, &mut bound.https),
            ("http", Road::Http, &listen.http, &mut bound.http),
        ] {
            for address in addresses {
                let (address, listeners) = Listener::bind_each(*address, uplink, workers)
                    .map_err(|source| cannot_bind(name, *address, source))?;
                bound.push(address);
                for (roads, listener) in roads.iter_mut().zip(listeners) {
                    roads.push((road, listener));
                }
            }
        }
        let mut dns = Vec::with_capacity(listen.dns.len());
        for address in &listen.dns {
            let server = DnsServer::bind(*address, &config.dns, uplink)
                .map_err(|source| cannot_bind("dns", *address, source))?;
            bound.dns.push(server.local_addr());
            dns.push(server);
        }
        if dns.is_empty() && roads.iter().all(Vec::is_empty) {
            return Err(BindError::NothingToServe);
        }
        let mut metrics = None;
        if let Some(address) = listen.metrics {
            // The operator named one address for the counters, which is then served as it is.
            let (address, listener) = Listener::bind(address, true)
                .and_then(|listener| Ok((listener.local_addr()?, listener)))
                .map_err(|source| cannot_bind("metrics", address, source))?;
            bound.metrics.push(address);
            metrics = Some(listener);
        }
        let socket = match &listen.admin {
            Some(path) => Some((admin::bind(path).await?, path.clone())),
            None => None,
        };
        Ok(Self {
            roads,
            dns,
            metrics,
            socket,
            bound,
        })
    }
}

fn cannot_bind(listener: &'static str, address: SocketAddr, source: io::Error) -> BindError {
    BindError::Listener {
        listener,
        address,
        source,
    }
}
