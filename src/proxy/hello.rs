//! Receives a ClientHello and holds it against what was authorised. Not a byte flows in either
//! direction before that.

use tokio::time::{Instant, timeout_at};

use super::linger;
use crate::{
    egress::{Peer, Permit},
    policy::Reason,
    protocol::{ClientHello, HelloReader, client_hello::UNRECOGNIZED_NAME},
};

/// Why there is no ClientHello.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoHello {
    /// The client closed.
    Closed,
    /// It was not whole in time.
    Late,
    /// It is something else, or too large.
    NotTls,
}

/// Receives a ClientHello; every byte of it stays among the received bytes, for the origin.
pub(super) async fn receive(client: &mut Peer, deadline: Instant) -> Result<ClientHello, NoHello> {
    let mut reader = HelloReader::new();
    let reading = async {
        loop {
            if client.received.is_empty() && client.fill().await.unwrap_or(0) == 0 {
                return Err(NoHello::Closed);
            }
            let bytes = client.received.unread();
            let length = bytes.len();
            let read = reader.push(bytes).map_err(|_| NoHello::NotTls)?;
            client.received.consume(length);
            if let Some(hello) = read {
                return Ok(hello);
            }
        }
    };
    let hello = timeout_at(deadline, reading).await;
    let hello = hello.unwrap_or(Err(NoHello::Late))?;
    client.received.put_back(reader.into_bytes());
    Ok(hello)
}

/// Holds a ClientHello against the permit, and notes for the record what it shows.
pub(super) fn check(hello: ClientHello, permit: &Permit) -> Result<(), Reason> {
    // Security: CONNECT target = SNI, or nothing flows.
    let verdict = hello.check(permit.destination(), permit.ech());
    permit.note_hello(hello.server_name, hello.ech);
    verdict
}

/// Closes a connection that speaks TLS, or should.
pub(super) async fn cut(client: Peer) {
    linger::send_and_close(client, &UNRECOGNIZED_NAME).await;
}
