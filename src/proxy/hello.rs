//! Receives a ClientHello and holds it against what was authorised. Not a byte flows in either
//! direction before that.

use tokio::time::{Instant, timeout_at};

use super::linger;
use crate::{
    destination::Host,
    egress::{Peer, Permit},
    policy::{EchMode, Reason},
    protocol::{
        ClientHello, HelloReader,
        client_hello::{MAX_HELLO, UNRECOGNIZED_NAME},
    },
};

/// Why there is no ClientHello; with the number of bytes that came instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoHello {
    /// The client closed.
    Closed(usize),
    /// It was not whole in time.
    Late(usize),
    /// It is something else, or too large.
    NotTls,
}

/// Receives a ClientHello; every byte of it stays among the received bytes, for the origin.
pub(super) async fn receive(client: &mut Peer, deadline: Instant) -> Result<ClientHello, NoHello> {
    let mut reader = HelloReader::new();
    let mut taken = 0;
    let reading = async {
        loop {
            if client.received.is_empty() && client.fill().await.unwrap_or(0) == 0 {
                return Err(NoHello::Closed(taken));
            }
            let bytes = client.received.unread();
            // What follows a hello may be large (TLS early data); it does not count as hello.
            let most = bytes.len().min(MAX_HELLO - taken);
            let (piece, _) = bytes.split_at_checked(most).unwrap_or((bytes, &[]));
            let read = reader.push(piece).map_err(|_| NoHello::NotTls)?;
            taken += most;
            client.received.consume(most);
            if let Some(hello) = read {
                return Ok(hello);
            }
            if taken >= MAX_HELLO {
                return Err(NoHello::NotTls);
            }
        }
    };
    let hello = timeout_at(deadline, reading).await;
    let hello = hello.unwrap_or(Err(NoHello::Late(taken)))?;
    client.received.put_back(reader.into_bytes());
    Ok(hello)
}

/// Holds a ClientHello against the permit, and notes for the record what it shows.
pub(super) fn check(hello: ClientHello, permit: &Permit) -> Result<(), Reason> {
    let verdict = judge(&hello, &permit.destination().host, permit.ech());
    permit.note_hello(hello.server_name, hello.ech);
    verdict
}

fn judge(hello: &ClientHello, host: &Host, ech: EchMode) -> Result<(), Reason> {
    match (&hello.server_name, host) {
        // RFC 6066 section 3: an address is not sent as a server name.
        (None, Host::Ip(_)) => {}
        (None, Host::Name(_)) => return Err(Reason::SniMissing),
        // Security: CONNECT target = SNI, or nothing flows.
        (Some(name), host) => {
            if Host::parse(name).as_ref() != Ok(host) {
                return Err(Reason::SniMismatch);
            }
        }
    }
    match (hello.ech, ech) {
        // Security: the name that counts may be hidden inside (RFC 9849).
        (true, EchMode::Refuse) => Err(Reason::EchRefused),
        (true, EchMode::Allow) | (false, EchMode::Refuse | EchMode::Allow) => Ok(()),
    }
}

/// Closes a connection that speaks TLS, or should.
pub(super) async fn cut(client: Peer) {
    linger::send_and_close(client, &UNRECOGNIZED_NAME).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tunnel_names_its_destination_and_hides_nothing() {
        use EchMode::{Allow, Refuse};
        for (name, host, ech, mode, expected) in [
            (Some("a.example"), "a.example", false, Refuse, Ok(())),
            (Some("A.Example."), "a.example", false, Refuse, Ok(())),
            (
                Some("b.example"),
                "a.example",
                false,
                Refuse,
                Err(Reason::SniMismatch),
            ),
            (
                Some("x.a.example"),
                "a.example",
                false,
                Refuse,
                Err(Reason::SniMismatch),
            ),
            (
                Some("a.example"),
                "192.0.2.1",
                false,
                Refuse,
                Err(Reason::SniMismatch),
            ),
            (None, "a.example", false, Refuse, Err(Reason::SniMissing)),
            (None, "192.0.2.1", false, Refuse, Ok(())),
            (None, "[2001:db8::1]", false, Refuse, Ok(())),
            (
                Some("a.example"),
                "a.example",
                true,
                Refuse,
                Err(Reason::EchRefused),
            ),
            (Some("a.example"), "a.example", true, Allow, Ok(())),
            (
                Some("b.example"),
                "a.example",
                true,
                Allow,
                Err(Reason::SniMismatch),
            ),
        ] {
            let hello = ClientHello {
                server_name: name.map(str::to_owned),
                ech,
            };
            let host = Host::parse(host).unwrap();
            assert_eq!(
                judge(&hello, &host, mode),
                expected,
                "{name:?} {host} {ech} {mode:?}"
            );
        }
    }
}
