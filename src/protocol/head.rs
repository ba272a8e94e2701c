//! The head of an HTTP/1.x message (RFC 9112), read strictly: what two parsers could read
//! differently is refused before anything is routed.

use crate::policy::Reason;

/// `HTTP/1.0` or `HTTP/1.1`; nothing else is spoken here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Version {
    /// HTTP/1.0
    Http10,
    /// HTTP/1.1
    Http11,
}

/// The fields of a head, in order, names in lower case.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fields(Vec<(Box<str>, Box<[u8]>)>);

/// A request head.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestHead {
    /// The method, a token (RFC 9110 section 5.6.2), case kept.
    pub method: Box<str>,
    /// The request target exactly as sent.
    pub target: Box<str>,
    /// The version.
    pub version: Version,
    /// The fields.
    pub fields: Fields,
}

/// A response head.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResponseHead {
    /// 100 to 599.
    pub status: u16,
    /// The reason phrase, visible ASCII only.
    pub phrase: Box<str>,
    /// The version.
    pub version: Version,
    /// The fields.
    pub fields: Fields,
}

/// Why bytes are not an acceptable head.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeadError {
    /// Malformed or ambiguous; the text says what, for the client and the record.
    #[error("{0}")]
    Malformed(&'static str),
    /// Over the limit of bytes or fields.
    #[error("the head is larger than {limit} bytes or has too many fields")]
    TooLarge {
        /// `limits.max_header_bytes`.
        limit: usize,
    },
}

impl HeadError {
    /// `bad_request` or `header_too_large`.
    pub fn reason(&self) -> Reason {
        match self {
            Self::Malformed(_) => Reason::BadRequest,
            Self::TooLarge { .. } => Reason::HeaderTooLarge,
        }
    }
}

impl RequestHead {
    /// Reads a head from the start of `bytes`; `Ok(None)` asks for more bytes, else the head and
    /// its length.
    pub fn parse(bytes: &[u8], limit: usize) -> Result<Option<(Self, usize)>, HeadError> {
        let _ = (bytes, limit);
        todo!()
    }
}

impl ResponseHead {
    /// Reads a head from the start of `bytes`, as `RequestHead::parse` does.
    pub fn parse(bytes: &[u8], limit: usize) -> Result<Option<(Self, usize)>, HeadError> {
        let _ = (bytes, limit);
        todo!()
    }
}

impl Fields {
    /// Every value of `name` (lower case), in order.
    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a [u8]> {
        self.0
            .iter()
            .filter(move |(n, _)| &**n == name)
            .map(|(_, v)| &**v)
    }
}
