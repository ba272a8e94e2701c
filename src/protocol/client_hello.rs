//! The first bytes of a tunnel to the server name of a TLS ClientHello, over
//! `rustls::server::Acceptor`, with a bounds-checked walk for Encrypted Client Hello.
//!
//! Only the first ClientHello is read. A server that answers it with HelloRetryRequest gets a
//! second one; what a client may change there reaches the vetted address all the same, as with
//! domain fronting, which cannot be seen without interception either.

mod extensions;

use rustls::server::{Accepted, Acceptor};

use self::extensions::Extensions;
use crate::{
    destination::{Destination, Host, Scheme},
    policy::{EchMode, Reason},
};

/// What a ClientHello shows of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientHello {
    /// The server name, as it stands there; none when there is none.
    pub server_name: Option<String>,
    /// Whether it carries Encrypted Client Hello (extension 0xfe0d, RFC 9849), a draft of that, or
    /// its forerunner ESNI.
    pub ech: bool,
}

impl ClientHello {
    /// Whether a tunnel to `destination` may begin with this.
    ///
    /// # Errors
    /// `ech_refused`, `sni_missing` or `sni_mismatch`, in this order: with ECH the name that can be
    /// seen is not the one that is meant.
    pub fn check(&self, destination: &Destination, ech: EchMode) -> Result<(), Reason> {
        self.check_ech(ech)?;
        match (&self.server_name, &destination.host) {
            // RFC 6066 section 3: an address is not a server name, so none is due.
            (None, Host::Ip(_)) => Ok(()),
            (None, Host::Name(_)) => Err(Reason::SniMissing),
            // Security: behind one address, the server name chooses the site.
            (Some(name), host) => match Host::parse(name) {
                Ok(named @ Host::Name(_)) if named == *host => Ok(()),
                Ok(_) | Err(_) => Err(Reason::SniMismatch),
            },
        }
    }

    /// The destination on the transparent road, where the server name is all there is: port 443 of
    /// a DNS name.
    ///
    /// # Errors
    /// `sni_missing` where there is none or it is not a DNS name; `ech` is judged afterwards, by
    /// `check`, under the policy of the client.
    pub fn destination(&self) -> Result<Destination, Reason> {
        let name = self.server_name.as_deref().ok_or(Reason::SniMissing)?;
        match Host::parse(name) {
            Ok(host @ Host::Name(_)) => Ok(Destination {
                scheme: Scheme::Https,
                host,
                port: 443,
            }),
            Ok(Host::Ip(_)) | Err(_) => Err(Reason::SniMissing),
        }
    }

    fn check_ech(&self, ech: EchMode) -> Result<(), Reason> {
        match ech {
            EchMode::Refuse if self.ech => Err(Reason::EchRefused),
            EchMode::Refuse | EchMode::Allow => Ok(()),
        }
    }
}

/// Reads a ClientHello from bytes as they arrive, and keeps every byte for the origin.
#[derive(Default)]
pub struct HelloReader {
    bytes: Vec<u8>,
    acceptor: Acceptor,
    found: Option<ClientHello>,
}

/// The largest ClientHello accepted, with its record headers, in bytes. Post-quantum key shares
/// make about 2,000; what follows the ClientHello does not count.
pub const MAX_HELLO: usize = 16 * 1024;

impl HelloReader {
    /// Nothing read yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes more bytes; `Ok(None)` asks for more. Bytes after the ClientHello are kept as well.
    ///
    /// # Errors
    /// `not_tls`: it is not a ClientHello, or over `MAX_HELLO`. What cannot become one is refused
    /// at its first byte.
    pub fn push(&mut self, bytes: &[u8]) -> Result<Option<ClientHello>, Reason> {
        let room = MAX_HELLO.saturating_sub(self.bytes.len());
        let fresh = bytes.get(..room).unwrap_or(bytes);
        self.bytes.extend_from_slice(bytes);
        if self.found.is_some() {
            return Ok(self.found.clone());
        }
        check_first_bytes(&self.bytes)?;
        if let Some(accepted) = self.accept(fresh)? {
            self.found = Some(self.judge(&accepted)?);
        } else if self.bytes.len() >= MAX_HELLO {
            return Err(Reason::NotTls);
        }
        Ok(self.found.clone())
    }

    /// Every byte taken, to be sent to the origin once the hello has passed.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// What rustls makes of the ClientHello, once it is whole.
    fn accept(&mut self, mut bytes: &[u8]) -> Result<Option<Accepted>, Reason> {
        while !bytes.is_empty() {
            self.acceptor
                .read_tls(&mut bytes)
                .map_err(|_| Reason::NotTls)?;
            let accepted = self.acceptor.accept().map_err(|_| Reason::NotTls)?;
            if accepted.is_some() {
                return Ok(accepted);
            }
        }
        Ok(None)
    }

    /// What the same bytes show that rustls does not tell.
    fn judge(&self, accepted: &Accepted) -> Result<ClientHello, Reason> {
        let hello = accepted.client_hello();
        let Some(extensions) = Extensions::of_first_message(&self.bytes) else {
            return Err(Reason::NotTls);
        };
        let seen = extensions.server_name.map(String::from_utf8).transpose();
        let seen = seen.map_err(|_| Reason::NotTls)?;
        // Security: the name is judged only where two readings agree on it. rustls tells names in
        // canonical form, and none for an address.
        let agree = match (hello.server_name(), &seen) {
            (Some(name), Some(seen)) => {
                Host::parse(seen).is_ok_and(|seen| Host::parse(name) == Ok(seen))
            }
            (None, Some(seen)) => seen.parse::<std::net::IpAddr>().is_ok(),
            (None, None) => true,
            (Some(_), None) => false,
        };
        if !agree {
            return Err(Reason::NotTls);
        }
        Ok(ClientHello {
            server_name: seen,
            ech: extensions.ech,
        })
    }
}

/// The fatal alert `unrecognized_name` (RFC 6066 section 3) in its record, sent before a cut.
pub const UNRECOGNIZED_NAME: [u8; 7] = [0x15, 0x03, 0x03, 0x00, 0x02, 0x02, 0x70];

/// A handshake record, TLS 1.x, that begins with a ClientHello; each byte is judged as it comes.
fn check_first_bytes(bytes: &[u8]) -> Result<(), Reason> {
    let hello = match bytes {
        [kind, version, _, _, _, message, ..] => (*kind, *version, *message) == (0x16, 3, 1),
        [kind, version, ..] => (*kind, *version) == (0x16, 3),
        [kind] => *kind == 0x16,
        [] => true,
    };
    if hello { Ok(()) } else { Err(Reason::NotTls) }
}

#[cfg(test)]
mod tests;
