//! One client connection of any listener: read a head or a ClientHello, authorise, answer.

mod body;
mod client_watch;
mod exchange;
mod forward;
mod head;
mod hello;
mod linger;
mod pool;
mod session;
mod target;
mod transparent;
mod tunnel;

use std::{future::Future, sync::Arc, time::Duration};

use tokio::{
    sync::Semaphore,
    time::{Instant, sleep},
};

use self::{
    forward::{Form, Served},
    pool::Pool,
    session::{Patience, Session},
    tunnel::Opened,
};
use crate::{
    drain::Tasks,
    egress::{Authorizer, ClientKey, Endpoint, Peer, Tunnel, relay},
    listener::Accepted,
    protocol::{Denial, client_hello::UNRECOGNIZED_NAME},
    record::Via,
};

/// How many connections are turned away politely at a time; beyond it they are just closed, so
/// that a flood over the limit does not itself hold connections open.
const TURNED_AWAY: usize = 64;

/// How often idle upstream connections are looked through.
const SWEEP: Duration = Duration::from_secs(5);

/// What a listener speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Road {
    /// The forward proxy: CONNECT and absolute-form.
    Forward,
    /// Transparent TLS, routed by SNI.
    Https,
    /// Transparent HTTP, routed by Host.
    Http,
}

impl Road {
    /// As records name it, unless the request is a CONNECT.
    fn via(self) -> Via {
        match self {
            Self::Forward => Via::Http,
            Self::Https => Via::Sni,
            Self::Http => Via::Host,
        }
    }
}

/// Serves client connections; one value for all of them, which holds the pool of upstream
/// connections for plain HTTP.
pub struct Proxy {
    authorizer: Arc<Authorizer>,
    tasks: Tasks,
    pool: Pool,
    turning_away: Semaphore,
}

impl Proxy {
    /// A proxy that asks `authorizer`, and ends its keep-alive connections when `tasks` stop.
    pub fn new(authorizer: Arc<Authorizer>, tasks: Tasks) -> Arc<Self> {
        let proxy = Arc::new(Self {
            authorizer,
            tasks,
            pool: Pool::default(),
            turning_away: Semaphore::new(TURNED_AWAY),
        });
        let swept = Arc::clone(&proxy);
        proxy.tasks.spawn(async move { swept.sweep().await });
        proxy
    }

    /// Serves one connection to its end, and drops `place` then. What comes before a tunnel is
    /// boxed, so that one that merely relays does not carry the room that its opening needed.
    pub fn serve<P: Send>(
        self: Arc<Self>,
        road: Road,
        accepted: Accepted,
        place: P,
    ) -> impl Future<Output = ()> + Send {
        let opening = Box::pin(self.open(road, accepted));
        async move {
            let tunnel = opening.await;
            if let Some(tunnel) = tunnel {
                relay(tunnel).await;
            }
            drop(place);
        }
    }

    /// Serves a connection to its end, or to where it becomes a tunnel.
    async fn open(self: Arc<Self>, road: Road, accepted: Accepted) -> Option<Box<Tunnel>> {
        let forced = self.tasks.forced().clone();
        tokio::select! {
            // In this order: an exchange that is told to end says so in its record.
            biased;
            tunnel = self.admit(road, accepted) => tunnel,
            () = forced.cancelled() => None,
        }
    }

    async fn admit(self: Arc<Self>, road: Road, accepted: Accepted) -> Option<Box<Tunnel>> {
        let from = Endpoint {
            peer: accepted.peer.ip(),
            local: accepted.local.ip(),
        };
        let client = Peer::new(accepted.stream);
        match self.authorizer.admit(from, &target::unread(road.via())) {
            Ok(connection) => {
                let lifetime = self.authorizer.limits().lifetime;
                let session = Session {
                    proxy: self,
                    connection: Arc::new(connection),
                    client,
                    via: road.via(),
                    closes_at: accepted.at + lifetime,
                };
                session.serve(road, accepted.at).await
            }
            Err(denial) => {
                self.turn_away(road, client, denial).await;
                None
            }
        }
    }

    async fn turn_away(&self, road: Road, client: Peer, denial: Denial) {
        let Ok(_place) = self.turning_away.try_acquire() else {
            return;
        };
        match road {
            Road::Forward | Road::Http => {
                linger::send_and_close(client, &denial.to_response("")).await;
            }
            Road::Https => linger::send_and_close(client, &UNRECOGNIZED_NAME).await,
        }
    }

    async fn sweep(&self) {
        loop {
            tokio::select! {
                () = self.tasks.stopping().cancelled() => break,
                () = sleep(SWEEP) => self.sweep_once(),
            }
        }
        self.pool.close();
    }

    /// Security: a connection is not kept for a run that has ended, nor for a policy that is no
    /// longer in force.
    fn sweep_once(&self) {
        let in_force = self.authorizer.generation();
        let runs = self.authorizer.runs();
        self.pool.forget(|client, generation| {
            let has_ended = match client {
                ClientKey::Run(id) => runs.find(id).is_none(),
                ClientKey::Address(_) => false,
            };
            has_ended || generation < in_force
        });
        self.pool.sweep();
    }
}

impl Session {
    /// Serves a connection that was admitted.
    async fn serve(self, road: Road, accepted_at: Instant) -> Option<Box<Tunnel>> {
        let deadline = accepted_at + self.proxy.authorizer.limits().header_timeout;
        match road {
            Road::Https => Box::pin(transparent::open(self, deadline)).await,
            Road::Forward => self.requests(Form::Absolute, deadline).await,
            Road::Http => self.requests(Form::Origin, deadline).await,
        }
    }

    /// Serves requests until the connection ends or becomes a tunnel.
    async fn requests(self, form: Form, deadline: Instant) -> Option<Box<Tunnel>> {
        let patience = Patience::Until(deadline);
        let (session, connect) = match forward::serve(self, form, patience).await? {
            Served::Connect(session, connect) => (session, connect),
            Served::Tunnel(tunnel) => return Some(tunnel),
        };
        match Box::pin(tunnel::open(session, connect)).await {
            Opened::Nothing => None,
            Opened::Tunnel(tunnel) => Some(tunnel),
            Opened::Plain(session, destination, deadline) => {
                let patience = Patience::Until(deadline);
                let inside = Form::Within(destination);
                match forward::serve(session, inside, patience).await? {
                    Served::Tunnel(tunnel) => Some(tunnel),
                    // Inside, a CONNECT is a request like any other, so none comes back.
                    Served::Connect(..) => None,
                }
            }
        }
    }
}

#[cfg(test)]
mod simulation;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workers::Place;

    fn size<A, B, C, D, F>(_: fn(A, B, C, D) -> F) -> usize {
        size_of::<F>()
    }

    /// What every open tunnel costs; a stage that is not boxed shows here.
    #[test]
    fn the_task_of_a_connection_is_small() {
        let bytes = size(Proxy::serve::<Place>);
        assert!(bytes <= 1024, "{bytes} bytes");
    }
}
