//! The first bytes of a tunnel to the server name of a TLS ClientHello, over
//! `rustls::server::Acceptor`, with a bounds-checked walk for Encrypted Client Hello.

use crate::policy::Reason;

/// What a ClientHello shows of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientHello {
    /// The server name, as it stands there; none when there is none (or it is not a name).
    pub server_name: Option<String>,
    /// Whether it carries Encrypted Client Hello (extension 0xfe0d, RFC 9849).
    pub ech: bool,
}

/// Reads a ClientHello from bytes as they arrive, and keeps every byte for the origin.
pub struct HelloReader {
    bytes: Vec<u8>,
}

/// The largest ClientHello accepted, with its record headers, in bytes.
pub const MAX_HELLO: usize = 16 * 1024;

impl HelloReader {
    /// Nothing read yet.
    pub fn new() -> Self {
        Self { bytes: Vec::new() }
    }

    /// Takes more bytes; `Ok(None)` asks for more.
    ///
    /// # Errors
    /// `not_tls`: it is not a ClientHello, or over `MAX_HELLO`.
    pub fn push(&mut self, bytes: &[u8]) -> Result<Option<ClientHello>, Reason> {
        let _ = bytes;
        todo!()
    }

    /// Every byte taken, to be sent to the origin once the hello has passed.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }
}

/// The fatal alert `unrecognized_name` (RFC 6066 section 3) in its record, sent before a cut.
pub const UNRECOGNIZED_NAME: [u8; 7] = [0x15, 0x03, 0x03, 0x00, 0x02, 0x02, 0x70];
