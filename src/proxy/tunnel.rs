//! CONNECT: authorise, dial, answer 200, check the ClientHello, then relay.

use tokio::{
    io::AsyncWriteExt,
    time::{Instant, timeout_at},
};

use super::{
    client_watch,
    hello::{self, NoHello},
    session::Session,
    target,
};
use crate::{
    destination::{Destination, Scheme},
    egress::{self, ConnectError, Peer, Permit, Tunnel},
    policy::Reason,
    protocol::{Denial, RequestHead, denial::UNROUTABLE_ERROR, route_connect},
    record::{Outcome, Via},
};

const ESTABLISHED: &[u8] = b"HTTP/1.1 200 Connection established\r\n\r\n";

/// What a CONNECT led to.
pub(super) enum Opened {
    /// Nothing: it was refused and the connection is closed.
    Nothing,
    /// A tunnel that was checked and may flow.
    Tunnel(Box<Tunnel>),
    /// Plain HTTP to one destination: every request in it is authorised by itself.
    Plain(Session, Destination, Instant),
}

/// Why nothing was dialled.
pub(super) enum Undialled {
    /// No vetted address could be reached; what the client is told.
    Denied(Denial),
    /// The exchange ended meanwhile.
    Ended,
}

/// Serves a CONNECT up to the point where bytes may flow.
pub(super) async fn open(session: Session, head: RequestHead) -> Opened {
    let route = match route_connect(&head) {
        Ok(route) => route,
        Err(error) => {
            let asked = target::unrouted(Via::Connect, &head, error.destination);
            let detail = Some(error.detail);
            session
                .refuse(asked, &head.method, error.reason, detail)
                .await;
            return Opened::Nothing;
        }
    };
    let asked = target::routed(Via::Connect, &head, &route);
    match route.destination.scheme {
        Scheme::Http => {
            let authorizer = &session.proxy.authorizer;
            match authorizer.precheck(&session.connection, &asked) {
                Ok(()) => plain(session, route.destination).await,
                Err(denial) => deny(session, &denial).await,
            }
        }
        Scheme::Https => {
            let authorizer = &session.proxy.authorizer;
            match authorizer.authorize(&session.connection, asked).await {
                Ok(permit) => tunnel(session, permit).await,
                Err(denial) => deny(session, &denial).await,
            }
        }
    }
}

/// Dials what was permitted, unless `client` goes away; gives the permit back with the connection.
pub(super) async fn dial(permit: Permit, client: &mut Peer) -> Result<(Peer, Permit), Undialled> {
    let reached = tokio::select! {
        biased;
        outcome = permit.ended() => Err(Unreached::Ended(outcome)),
        reached = reach(&permit, client) => reached,
    };
    match reached {
        Ok(upstream) => Ok((upstream, permit)),
        Err(Unreached::Failed(error)) => Err(Undialled::Denied(failed(permit, &error))),
        Err(Unreached::Ended(outcome)) => {
            permit.finish(outcome);
            Err(Undialled::Ended)
        }
    }
}

/// Why there is no connection to the origin.
enum Unreached {
    Failed(ConnectError),
    Ended(Outcome),
}

async fn reach(permit: &Permit, client: &mut Peer) -> Result<Peer, Unreached> {
    let (mut client, _, _) = client.split();
    tokio::select! {
        biased;
        () = client_watch::gone(&mut client) => Err(Unreached::Ended(Outcome::ClientClosed)),
        dialled = egress::connect(permit) => dialled.map(Peer::new).map_err(Unreached::Failed),
    }
}

fn failed(permit: Permit, error: &ConnectError) -> Denial {
    let denial = permit.fail(Outcome::Refused, error.reason(), Some(error.to_string()));
    Denial {
        is_unroutable: error.proxy_status_error() == UNROUTABLE_ERROR,
        ..denial
    }
}

async fn deny(session: Session, denial: &Denial) -> Opened {
    session.deny(denial, "CONNECT").await;
    Opened::Nothing
}

/// CONNECT to port 80 carries plain HTTP: WebSocket clients and older Node send it. Nothing is
/// dialled for the CONNECT itself.
async fn plain(mut session: Session, destination: Destination) -> Opened {
    let deadline = Instant::now() + session.proxy.authorizer.limits().header_timeout;
    let answer = session.client.stream.write_all(ESTABLISHED);
    match timeout_at(deadline, answer).await {
        Ok(Ok(())) => Opened::Plain(session, destination, deadline),
        Ok(Err(_)) | Err(_) => Opened::Nothing,
    }
}

async fn tunnel(mut session: Session, permit: Permit) -> Opened {
    // One watch over all of it: every further one would set a clock.
    let established = tokio::select! {
        biased;
        outcome = permit.ended() => Err(Stopped::Ended(outcome)),
        established = establish(&mut session.client, &permit) => established,
    };
    match established {
        Ok(upstream) => Opened::Tunnel(Box::new(Tunnel {
            client: session.client,
            upstream,
            permit,
        })),
        Err(Stopped::Failed(error)) => deny(session, &failed(permit, &error)).await,
        Err(Stopped::Ended(outcome)) => {
            permit.finish(outcome);
            session.client.abort();
            Opened::Nothing
        }
        Err(Stopped::Refused(reason)) => {
            drop(permit.fail(Outcome::Refused, reason, None));
            hello::cut(session.client).await;
            Opened::Nothing
        }
    }
}

/// Why a tunnel does not flow.
enum Stopped {
    Failed(ConnectError),
    Ended(Outcome),
    Refused(Reason),
}

impl From<Unreached> for Stopped {
    fn from(unreached: Unreached) -> Self {
        match unreached {
            Unreached::Failed(error) => Self::Failed(error),
            Unreached::Ended(outcome) => Self::Ended(outcome),
        }
    }
}

/// Dials, answers 200 and receives the ClientHello, unless the tunnel may be anything. The origin
/// of a tunnel that is refused saw nothing, and its connection goes first.
async fn establish(client: &mut Peer, permit: &Permit) -> Result<Peer, Stopped> {
    // The client is told 200 only when the origin has accepted: a client that knows several
    // addresses falls back to the next one only if it sees the failure.
    let upstream = reach(permit, client).await?;
    let deadline = Instant::now() + permit.limits().header_timeout;
    permit.note_status(200);
    let answer = client.stream.write_all(ESTABLISHED);
    match timeout_at(deadline, answer).await {
        Ok(Ok(())) => {}
        Ok(Err(_)) | Err(_) => return Err(Stopped::Ended(Outcome::ClientClosed)),
    }
    if permit.is_opaque() {
        return Ok(upstream);
    }
    match hello::receive(client, deadline).await {
        Ok(hello) => hello::check(hello, permit).map_err(Stopped::Refused)?,
        Err(NoHello::NotTls | NoHello::Late) => return Err(Stopped::Refused(Reason::NotTls)),
        Err(NoHello::Closed) => return Err(Stopped::Ended(Outcome::ClientClosed)),
    }
    Ok(upstream)
}
