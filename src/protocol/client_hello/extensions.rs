//! A walk over the bytes of a ClientHello (RFC 8446 section 4.1.2) for what rustls does not tell.
//! Every step is bounds-checked, and what does not add up gives nothing.

/// Record type handshake, message type `client_hello`.
const HANDSHAKE: u8 = 0x16;
const CLIENT_HELLO: u8 = 1;

/// The extensions that matter here.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Extensions {
    /// The one host name of `server_name` (RFC 6066 section 3).
    pub(super) server_name: Option<Vec<u8>>,
    /// Whether the name that can be seen may not be the one that is meant.
    pub(super) ech: bool,
}

impl Extensions {
    /// Of the ClientHello that `records` begin with, which may lie in many records.
    pub(super) fn of_first_message(records: &[u8]) -> Option<Self> {
        let message = first_message(records)?;
        let mut hello = Reader(&message);
        hello.take(2 + 32)?; // legacy_version and random
        hello.vector8()?; // legacy_session_id
        hello.vector16()?; // cipher_suites
        hello.vector8()?; // legacy_compression_methods
        if hello.0.is_empty() {
            return Some(Self::default());
        }
        let mut extensions = Reader(hello.vector16()?);
        if !hello.0.is_empty() {
            return None;
        }
        let mut found = Self::default();
        while !extensions.0.is_empty() {
            let kind = extensions.u16()?;
            let body = extensions.vector16()?;
            match kind {
                // Security: a second one could name another host.
                0 if found.server_name.is_some() => return None,
                0 => found.server_name = Some(host_name(body)?),
                _ => found.ech |= hides_the_name(kind),
            }
        }
        Some(found)
    }
}

/// RFC 9849, its drafts 13 (the same number) down to 7, and ESNI (draft-ietf-tls-esni-01 to 06).
fn hides_the_name(extension: u16) -> bool {
    matches!(extension, 0xfe08..=0xfe0d | 0xff02..=0xff04 | 0xffce)
}

/// The one `host_name` of a `server_name` extension.
fn host_name(extension: &[u8]) -> Option<Vec<u8>> {
    let mut extension = Reader(extension);
    let mut list = Reader(extension.vector16()?);
    let kind = list.u8()?;
    let name = list.vector16()?;
    let alone = kind == 0 && list.0.is_empty() && extension.0.is_empty();
    alone.then(|| name.to_vec())
}

/// The body of the first handshake message, put together from its records.
fn first_message(records: &[u8]) -> Option<Vec<u8>> {
    let (mut records, mut bytes) = (Reader(records), Vec::new());
    loop {
        if records.u8()? != HANDSHAKE {
            return None;
        }
        records.take(2)?; // legacy_record_version
        bytes.extend_from_slice(records.vector16()?);
        let mut message = Reader(&bytes);
        let (Some(kind), Some(length)) = (message.u8(), message.u24()) else {
            continue;
        };
        if kind != CLIENT_HELLO {
            return None;
        }
        if let Some(body) = message.take(length) {
            return Some(body.to_vec());
        }
    }
}

/// What is left to read.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, left) = self.0.split_at_checked(length)?;
        self.0 = left;
        Some(taken)
    }

    fn u8(&mut self) -> Option<u8> {
        self.take(1)?.first().copied()
    }

    fn u16(&mut self) -> Option<u16> {
        self.take(2)?.try_into().ok().map(u16::from_be_bytes)
    }

    fn u24(&mut self) -> Option<usize> {
        let (high, low) = (self.u8()?, self.u16()?);
        Some(usize::from(high) << 16 | usize::from(low))
    }

    /// A vector with a length of one byte before it.
    fn vector8(&mut self) -> Option<&'a [u8]> {
        let length = self.u8()?;
        self.take(length.into())
    }

    /// A vector with a length of two bytes before it.
    fn vector16(&mut self) -> Option<&'a [u8]> {
        let length = self.u16()?;
        self.take(length.into())
    }
}
