//! Transparent TLS: the server name of the ClientHello says where to. Nothing is dialled before
//! the hello passed and was authorised.

use tokio::time::Instant;

use super::{
    hello::{self, NoHello},
    session::Session,
    tunnel::{Undialled, dial},
};
use crate::{
    destination::Destination,
    egress::{Permit, Tunnel},
    policy::Reason,
    protocol::ClientHello,
    record::{Asked, Outcome, Via},
};

/// Serves a connection up to the point where bytes may flow; none when it was refused.
pub(super) async fn open(mut session: Session, deadline: Instant) -> Option<Box<Tunnel>> {
    session.first_byte(deadline).await?;
    let hello = match hello::receive(&mut session.client, deadline).await {
        Ok(hello) => hello,
        Err(NoHello::Closed | NoHello::Late | NoHello::NotTls) => {
            return refuse(session, asked(None, None), Reason::NotTls).await;
        }
    };
    let destination = match hello.destination() {
        Ok(destination) => destination,
        Err(reason) => return refuse(session, asked(None, hello.server_name), reason).await,
    };
    let asked = asked(Some(destination), hello.server_name.clone());
    let authorizer = &session.proxy.authorizer;
    match authorizer.authorize(&session.connection, asked).await {
        Ok(permit) => permitted(session, hello, permit).await,
        Err(_recorded) => {
            hello::cut(session.client).await;
            None
        }
    }
}

fn asked(destination: Option<Destination>, server_name: Option<String>) -> Asked {
    let canonical = destination
        .as_ref()
        .map(|destination| destination.host.to_string());
    Asked {
        via: Via::Sni,
        method: None,
        destination,
        target: server_name.filter(|name| Some(name) != canonical.as_ref()),
        path: None,
    }
}

async fn refuse(session: Session, asked: Asked, reason: Reason) -> Option<Box<Tunnel>> {
    let authorizer = &session.proxy.authorizer;
    authorizer.refuse_silently(&session.connection, asked, reason);
    hello::cut(session.client).await;
    None
}

async fn permitted(
    mut session: Session,
    hello: ClientHello,
    permit: Permit,
) -> Option<Box<Tunnel>> {
    if let Err(reason) = hello::check(hello, &permit) {
        drop(permit.fail(Outcome::Refused, reason, None));
        hello::cut(session.client).await;
        return None;
    }
    match dial(permit, &mut session.client).await {
        Ok((upstream, permit)) => Some(Box::new(Tunnel {
            client: session.client,
            upstream,
            permit,
        })),
        Err(Undialled::Denied(_recorded)) => {
            hello::cut(session.client).await;
            None
        }
        Err(Undialled::Ended) => {
            session.client.abort();
            None
        }
    }
}
