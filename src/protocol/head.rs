//! The head of an HTTP/1.x message (RFC 9112), read strictly: what two parsers could read
//! differently is refused before anything is routed. `httparse` splits a head into its parts; what
//! it lets through and others would read differently is refused here, on the raw bytes.

mod fields;
mod scan;

use std::mem::MaybeUninit;

use httparse::ParserConfig;

pub use self::fields::Fields;
use self::scan::Scan;
use super::body;
use crate::policy::Reason;

/// `HTTP/1.0` or `HTTP/1.1`; nothing else is spoken here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Version {
    /// HTTP/1.0
    Http10,
    /// HTTP/1.1
    Http11,
}

/// A request head. One that `parse` made has at most one Host (exactly one in HTTP/1.1), and a
/// body that ends in one way only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestHead {
    /// The method, a token (RFC 9110 section 5.6.2) of at most 32 bytes, case kept.
    pub method: Box<str>,
    /// The request target exactly as sent: visible ASCII, not empty.
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
    /// The reason phrase, visible ASCII and spaces only.
    pub phrase: Box<str>,
    /// The version.
    pub version: Version,
    /// The fields.
    pub fields: Fields,
}

/// Why bytes are not an acceptable head or body.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeadError {
    /// Malformed or ambiguous; the text says what, for the client and the record.
    #[error("{0}")]
    Malformed(&'static str),
    /// Over the limit of bytes or fields.
    #[error("the head is larger than {limit} bytes or has more than 128 fields")]
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

/// The most fields of one head.
const MAX_FIELDS: usize = 128;

impl RequestHead {
    /// Reads a head from the start of `bytes`; `Ok(None)` asks for more bytes, else the head and
    /// its length. What can be refused from a part is refused at once, so that a client that
    /// speaks something else is not left waiting.
    ///
    /// An empty line before the request is refused, although RFC 9112 section 2.2 would have a
    /// server ignore one: no client of today sends it, and the PROXY protocol begins so.
    pub fn parse(bytes: &[u8], limit: usize) -> Result<Option<(Self, usize)>, HeadError> {
        scan::check_first_bytes(bytes)?;
        let Some(raw) = Scan::REQUEST.head(bytes, limit)? else {
            return Ok(None);
        };
        let mut slots = [const { MaybeUninit::uninit() }; MAX_FIELDS];
        let mut request = httparse::Request::new(&mut []);
        let parser = ParserConfig::default();
        let parsed = parser.parse_request_with_uninit_headers(&mut request, raw, &mut slots);
        scan::complete(parsed, raw, limit)?;
        let (Some(method), Some(target), Some(minor)) =
            (request.method, request.path, request.version)
        else {
            return Err(HeadError::Malformed("the request line is incomplete"));
        };
        let head = Self {
            method: method.into(),
            target: target.into(),
            version: version(minor),
            fields: Fields::new(request.headers),
        };
        head.check()?;
        Ok(Some((head, raw.len())))
    }

    /// Whether the connection ends after this exchange. HTTP/1.0 is never kept alive here.
    pub fn wants_close(&self) -> bool {
        self.version == Version::Http10 || self.fields.lists("connection", "close")
    }

    /// Whether this asks for WebSocket (RFC 6455 section 4.1), the one protocol to which a
    /// connection may switch. Any other Upgrade (h2c, TLS) is not passed on.
    pub fn is_websocket_upgrade(&self) -> bool {
        self.version == Version::Http11
            && &*self.method == "GET"
            && self.fields.lists("connection", "upgrade")
            && self.fields.is_only("upgrade", "websocket")
            && self.fields.one("sec-websocket-key").is_some()
            && self.fields.all("content-length").next().is_none()
            && self.fields.all("transfer-encoding").next().is_none()
    }

    /// Whether the client waits for `100 Continue` before it sends its body; never in HTTP/1.0
    /// (RFC 9110 section 10.1.1).
    pub fn expects_continue(&self) -> bool {
        self.version == Version::Http11 && self.fields.is_only("expect", "100-continue")
    }

    fn check(&self) -> Result<(), HeadError> {
        let hosts = self.fields.all("host").count();
        // Security: the first and the last Host are two destinations (RFC 9112 section 3.2).
        if hosts > 1 {
            return Err(HeadError::Malformed("there is more than one Host field"));
        }
        if hosts == 0 && self.version == Version::Http11 {
            return Err(HeadError::Malformed("HTTP/1.1 needs a Host field"));
        }
        let expects = self.fields.all("expect").next().is_some();
        if expects && !self.fields.is_only("expect", "100-continue") {
            return Err(HeadError::Malformed(
                "Expect holds something else than 100-continue",
            ));
        }
        body::declared(&self.fields, self.version)?;
        Ok(())
    }
}

impl ResponseHead {
    /// Reads a head from the start of `bytes`, as `RequestHead::parse` does.
    pub fn parse(bytes: &[u8], limit: usize) -> Result<Option<(Self, usize)>, HeadError> {
        const PREFIX: &[u8] = b"HTTP/1.";
        if bytes.iter().zip(PREFIX).any(|(byte, known)| byte != known) {
            return Err(HeadError::Malformed("the origin does not speak HTTP/1"));
        }
        let Some(raw) = Scan::RESPONSE.head(bytes, limit)? else {
            return Ok(None);
        };
        let mut slots = [const { MaybeUninit::uninit() }; MAX_FIELDS];
        let mut response = httparse::Response::new(&mut []);
        let parser = ParserConfig::default();
        let parsed = parser.parse_response_with_uninit_headers(&mut response, raw, &mut slots);
        scan::complete(parsed, raw, limit)?;
        let (Some(status @ 100..=599), Some(minor)) = (response.code, response.version) else {
            return Err(HeadError::Malformed("the status is not 100 to 599"));
        };
        let phrase = response.reason.unwrap_or_default();
        let head = Self {
            status,
            phrase: phrase.chars().filter(|c| matches!(c, ' '..='~')).collect(),
            version: version(minor),
            fields: Fields::new(response.headers),
        };
        body::declared(&head.fields, head.version)?;
        Ok(Some((head, raw.len())))
    }

    /// Whether the origin's connection ends after this response: it says so, or what follows it
    /// is in doubt.
    pub fn wants_close(&self) -> bool {
        // Security: a body that the status rules out would be read as the next response.
        let bodyless = self.is_interim() || self.status == 204;
        let doubtful = match body::declared(&self.fields, self.version) {
            Ok(None | Some(body::Framing::Length(0))) => false,
            Ok(Some(_)) | Err(_) => bodyless,
        };
        self.version == Version::Http10 || self.fields.lists("connection", "close") || doubtful
    }

    /// Whether another response to the same request follows (RFC 9110 section 15.2).
    pub fn is_interim(&self) -> bool {
        self.status < 200 && self.status != 101
    }

    /// Whether the origin switches to WebSocket and to nothing else.
    pub fn is_websocket_upgrade(&self) -> bool {
        self.status == 101
            && self.version == Version::Http11
            && self.fields.lists("connection", "upgrade")
            && self.fields.is_only("upgrade", "websocket")
    }
}

fn version(minor: u8) -> Version {
    // httparse gives 0 or 1, and refuses everything else.
    if minor == 0 {
        Version::Http10
    } else {
        Version::Http11
    }
}

#[cfg(test)]
mod tests;
