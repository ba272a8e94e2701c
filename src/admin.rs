//! The admin socket: HTTP over a unix socket for health, metrics, reload and runs; and the
//! Prometheus listener. Neither ever answers a sandbox.

pub mod client;
pub mod health;
pub mod reload;

mod api;
mod metrics;
mod request;
mod slots;
mod socket;

use std::{convert::Infallible, net::SocketAddr, pin::Pin, sync::Arc, time::Duration};

use bytes::Bytes;
use http_body_util::Full;
use hyper::{Request, Response, body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::UnixListener,
};

pub use self::{
    health::Health,
    reload::Reloader,
    request::{RunRequest, SlotLine, SlotRequest},
    socket::{SocketError, bind},
};

use crate::{
    drain::Tasks,
    egress::{Authorizer, Endpoint},
    listener::{Accepted, Listener},
};

/// From accept to the end of a request's head.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);

/// What the admin API acts on.
#[derive(Clone)]
pub struct Admin {
    /// Runs, limits and records.
    pub authorizer: Arc<Authorizer>,
    /// Reads the configuration again.
    pub reloader: Arc<Reloader>,
    /// Whether all is well.
    pub health: Arc<Health>,
}

impl Admin {
    /// Serves the unix socket until the drain of `tasks` begins.
    pub async fn serve(self, socket: UnixListener, tasks: Tasks) {
        loop {
            let accepted = tokio::select! {
                accepted = socket.accept() => accepted,
                () = tasks.stopping().cancelled() => return,
            };
            match accepted {
                Ok((stream, _)) => tasks.spawn(answer(stream, self.clone().responder())),
                Err(error) => {
                    tracing::warn!(%error, "cannot accept an admin connection");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            }
        }
    }

    fn responder(
        self,
    ) -> impl Fn(Request<Incoming>) -> BoxFuture<Response<Full<Bytes>>> + Send + Sync + 'static
    {
        move |request| {
            let admin = self.clone();
            Box::pin(async move { api::respond(&admin, request).await })
        }
    }

    /// Serves `/metrics` on its own listener until the drain of `tasks` begins.
    pub async fn serve_metrics(self, listener: Listener, tasks: Tasks) {
        let spawn_on = tasks.clone();
        listener
            .run(tasks, move |accepted| {
                if self.is_sandbox(&accepted) {
                    return;
                }
                let admin = self.clone();
                spawn_on.spawn(answer(accepted.stream, move |request| {
                    let response = api::metrics_only(&admin, &request);
                    async move { response }
                }));
            })
            .await;
    }

    /// Security: a client of ours never reads the counters of others. Loopback is this host's own.
    fn is_sandbox(&self, accepted: &Accepted) -> bool {
        let from = Endpoint {
            peer: accepted.peer.ip(),
            local: accepted.local.ip(),
        };
        !from.peer.is_loopback() && self.authorizer.knows(from)
    }
}

type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Answers the requests of one connection.
async fn answer<S, F, R>(stream: S, respond: F)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    F: Fn(Request<Incoming>) -> R + Send + Sync + 'static,
    R: Future<Output = Response<Full<Bytes>>> + Send,
{
    let service = service_fn(|request| {
        let response = respond(request);
        async move { Ok::<_, Infallible>(response.await) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), service);
    if let Err(error) = connection.await {
        tracing::debug!(%error, "admin connection ended early");
    }
}

/// The addresses that the proxy is bound to, by listener.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Bound {
    /// The forward proxy.
    pub proxy: Vec<SocketAddr>,
    /// The DNS server, UDP and TCP.
    pub dns: Vec<SocketAddr>,
    /// Transparent TLS.
    pub https: Vec<SocketAddr>,
    /// Transparent HTTP.
    pub http: Vec<SocketAddr>,
    /// Prometheus.
    pub metrics: Vec<SocketAddr>,
}

impl Bound {
    /// Every address, with the listener's name.
    pub fn all(&self) -> impl Iterator<Item = (&'static str, SocketAddr)> {
        let Self {
            proxy,
            dns,
            https,
            http,
            metrics,
        } = self;
        [
            ("proxy", proxy),
            ("dns", dns),
            ("https", https),
            ("http", http),
            ("metrics", metrics),
        ]
        .into_iter()
        .flat_map(|(name, addresses)| addresses.iter().map(move |address| (name, *address)))
    }
}
