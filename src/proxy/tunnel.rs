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
    egress::{self, Peer, Permit, Tunnel},
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
    let (mut client, _, _) = client.split();
    let dialled = tokio::select! {
        biased;
        outcome = permit.ended() => Err(outcome),
        () = client_watch::gone(&mut client) => Err(Outcome::ClientClosed),
        dialled = egress::connect(&permit) => Ok(dialled),
    };
    match dialled {
        Ok(Ok(stream)) => Ok((Peer::new(stream), permit)),
        Ok(Err(error)) => {
            let detail = Some(error.to_string());
            let denial = permit.fail(Outcome::Refused, error.reason(), detail);
            Err(Undialled::Denied(Denial {
                is_unroutable: error.proxy_status_error() == UNROUTABLE_ERROR,
                ..denial
            }))
        }
        Err(outcome) => {
            permit.finish(outcome);
            Err(Undialled::Ended)
        }
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
    // The client is told 200 only when the origin has accepted: a client that knows several
    // addresses falls back to the next one only if it sees the failure.
    let (upstream, permit) = match dial(permit, &mut session.client).await {
        Ok(dialled) => dialled,
        Err(Undialled::Denied(denial)) => return deny(session, &denial).await,
        Err(Undialled::Ended) => {
            session.client.abort();
            return Opened::Nothing;
        }
    };
    let mut client = session.client;
    let deadline = Instant::now() + permit.limits().header_timeout;
    permit.note_status(200);
    let checked = tokio::select! {
        biased;
        outcome = permit.ended() => Err(Stopped::Ended(outcome)),
        checked = establish(&mut client, &permit, deadline) => checked,
    };
    match checked {
        Ok(()) => Opened::Tunnel(Box::new(Tunnel {
            client,
            upstream,
            permit,
        })),
        Err(Stopped::Ended(outcome)) => {
            permit.finish(outcome);
            client.abort();
            Opened::Nothing
        }
        Err(Stopped::Refused(reason)) => {
            // The origin's connection goes first: it saw nothing, and need not wait.
            drop(upstream);
            drop(permit.fail(Outcome::Refused, reason, None));
            hello::cut(client).await;
            Opened::Nothing
        }
    }
}

/// Why a dialled tunnel does not flow.
enum Stopped {
    Ended(Outcome),
    Refused(Reason),
}

/// Answers 200 and receives the ClientHello, unless the tunnel may be anything.
async fn establish(client: &mut Peer, permit: &Permit, deadline: Instant) -> Result<(), Stopped> {
    let answer = client.stream.write_all(ESTABLISHED);
    match timeout_at(deadline, answer).await {
        Ok(Ok(())) => {}
        Ok(Err(_)) | Err(_) => return Err(Stopped::Ended(Outcome::ClientClosed)),
    }
    if permit.is_opaque() {
        return Ok(());
    }
    match hello::receive(client, deadline).await {
        Ok(hello) => hello::check(hello, permit).map_err(Stopped::Refused),
        Err(NoHello::NotTls | NoHello::Late) => Err(Stopped::Refused(Reason::NotTls)),
        Err(NoHello::Closed) => Err(Stopped::Ended(Outcome::ClientClosed)),
    }
}
