//! Where a head ends, and what can be refused before it does.

use super::{HeadError, MAX_FIELDS};

/// The longest method, in bytes; the longest registered one has 17.
const MAX_METHOD: usize = 32;

/// The first bytes of the PROXY protocol, version 2.
const PROXY_V2: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";

const BARE_LF: HeadError = HeadError::Malformed("a line ends in LF without CR");

/// Finds the end of one kind of head.
pub(super) struct Scan {
    check_first_line: fn(&[u8]) -> Result<(), HeadError>,
}

impl Scan {
    pub(super) const REQUEST: Self = Self {
        check_first_line: check_request_line,
    };
    pub(super) const RESPONSE: Self = Self {
        check_first_line: check_status_line,
    };

    /// The bytes up to and with the empty line; none when that is not there yet.
    pub(super) fn head<'a>(
        &self,
        bytes: &'a [u8],
        limit: usize,
    ) -> Result<Option<&'a [u8]>, HeadError> {
        let window = bytes.get(..limit).unwrap_or(bytes);
        let mut start = 0;
        for (number, lf) in memchr::memchr_iter(b'\n', window).enumerate() {
            let line = window.get(start..lf).and_then(|l| l.strip_suffix(b"\r"));
            // Security: a lone LF ends a line for some parsers and not for others (RFC 9112
            // section 2.2). A lone CR does not pass httparse.
            let line = line.ok_or(BARE_LF)?;
            start = lf + 1;
            if number == 0 {
                (self.check_first_line)(line)?;
            } else if line.is_empty() {
                return Ok(window.get(..start));
            } else if number > MAX_FIELDS {
                return Err(HeadError::TooLarge { limit });
            }
        }
        if window.len() >= limit {
            return Err(HeadError::TooLarge { limit });
        }
        Ok(None)
    }
}

/// What `httparse` made of `raw`, which holds a whole head.
pub(super) fn complete(
    parsed: httparse::Result<usize>,
    raw: &[u8],
    limit: usize,
) -> Result<(), HeadError> {
    Err(HeadError::Malformed(match parsed {
        Ok(httparse::Status::Complete(length)) if length == raw.len() => return Ok(()),
        Err(httparse::Error::TooManyHeaders) => return Err(HeadError::TooLarge { limit }),
        Ok(httparse::Status::Complete(_) | httparse::Status::Partial) => {
            "the head ends in more than one place"
        }
        Err(httparse::Error::HeaderName) => {
            "a field name is not a token right before its colon, or a field is folded"
        }
        Err(httparse::Error::HeaderValue) => "a field value has a control character",
        Err(httparse::Error::NewLine) => "a line does not end in CR LF",
        Err(httparse::Error::Version) => "only HTTP/1.0 and HTTP/1.1 are spoken here",
        Err(httparse::Error::Status) => "the status line is malformed",
        Err(httparse::Error::Token) => "the first line is malformed",
    }))
}

/// Refuses what cannot become a request, as soon as it can be seen.
pub(super) fn check_first_bytes(bytes: &[u8]) -> Result<(), HeadError> {
    Err(HeadError::Malformed(match bytes {
        [0x04 | 0x05, ..] => {
            "this is SOCKS, and the proxy speaks HTTP: write http:// in the proxy setting"
        }
        [0x16, ..] => {
            "this is TLS, and the proxy speaks plain HTTP: write http:// in the proxy setting"
        }
        _ if bytes.starts_with(PROXY_V2) || bytes.starts_with(b"PROXY ") => {
            "the PROXY protocol is not accepted: nobody says here whom a connection is for"
        }
        [b'\r' | b'\n', ..] => "there is an empty line before the request",
        _ if bytes.starts_with(b"PRI ") => {
            "this is HTTP/2, and only HTTP/1.0 and HTTP/1.1 are spoken here"
        }
        _ => return check_method(bytes),
    }))
}

fn check_method(bytes: &[u8]) -> Result<(), HeadError> {
    let head = bytes.get(..=MAX_METHOD).unwrap_or(bytes);
    let method = head.split(|byte| *byte == b' ').next().unwrap_or_default();
    if method.len() > MAX_METHOD {
        return Err(HeadError::Malformed("the method is longer than 32 bytes"));
    }
    let begins = head.is_empty() || !method.is_empty();
    if begins && method.iter().all(|byte| is_token(*byte)) {
        return Ok(());
    }
    Err(HeadError::Malformed("this is not an HTTP request"))
}

fn check_request_line(line: &[u8]) -> Result<(), HeadError> {
    let mut parts = line.split(|byte| *byte == b' ');
    let parts = (parts.next(), parts.next(), parts.next(), parts.next());
    let (target, version) = match parts {
        (Some(_), Some(target), Some(version), None) => (target, version),
        (Some(_), Some(_), None, None) => {
            return Err(HeadError::Malformed(
                "the request line has no version: HTTP/0.9 is not spoken here",
            ));
        }
        _ => {
            return Err(HeadError::Malformed(
                "the request line is not a method, a target and a version with one space between",
            ));
        }
    };
    if target.is_empty() || !target.iter().all(u8::is_ascii_graphic) {
        return Err(HeadError::Malformed(
            "the request target has a character that is not visible ASCII",
        ));
    }
    check_version(version)
}

fn check_status_line(line: &[u8]) -> Result<(), HeadError> {
    check_version(line.split(|byte| *byte == b' ').next().unwrap_or_default())
}

fn check_version(version: &[u8]) -> Result<(), HeadError> {
    if matches!(version, b"HTTP/1.0" | b"HTTP/1.1") {
        return Ok(());
    }
    Err(HeadError::Malformed(
        "only HTTP/1.0 and HTTP/1.1 are spoken here",
    ))
}

/// A character of a token (RFC 9110 section 5.6.2).
fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}
