//! How the body of a message ends (RFC 9112 section 6), and a chunked decoder that drops
//! trailers and extensions. Bodies are streamed; nothing here buffers one.

use std::num::NonZeroUsize;

use super::{Fields, HeadError, RequestHead, ResponseHead, Version};

mod chunked;

use self::chunked::Chunked;

/// How a body ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// There is none.
    Empty,
    /// After this many bytes.
    Length(u64),
    /// After the last chunk.
    Chunked,
    /// When the origin closes; responses only.
    UntilClose,
}

impl Framing {
    /// The framing of a request; Content-Length with Transfer-Encoding, two Content-Length lines,
    /// and any coding but exactly `chunked` are refused.
    pub fn of_request(head: &RequestHead) -> Result<Self, HeadError> {
        Ok(declared(&head.fields, head.version)?.unwrap_or(Self::Empty))
    }

    /// The framing of the response to a request with `method`. `Empty` says that the status or
    /// the method rules a body out, whatever the fields say.
    pub fn of_response(head: &ResponseHead, method: &str) -> Result<Self, HeadError> {
        let declared = declared(&head.fields, head.version)?;
        let bodyless = matches!(head.status, 100..=199 | 204 | 304)
            || method == "HEAD"
            || (method == "CONNECT" && matches!(head.status, 200..=299));
        if bodyless {
            return Ok(Self::Empty);
        }
        Ok(declared.unwrap_or(Self::UntilClose))
    }

    /// How a response body that came so is framed for a client of `version`. What ends with the
    /// connection becomes chunked where the client understands that, so that it can tell the end
    /// from a cut.
    #[must_use]
    pub fn towards(self, version: Version) -> Self {
        match (self, version) {
            (Self::Chunked | Self::UntilClose, Version::Http10) => Self::UntilClose,
            (Self::Chunked | Self::UntilClose, Version::Http11) => Self::Chunked,
            (Self::Empty | Self::Length(_), Version::Http10 | Version::Http11) => self,
        }
    }
}

/// The framing that the fields declare: `Length` or `Chunked`, or nothing.
pub(super) fn declared(fields: &Fields, version: Version) -> Result<Option<Framing>, HeadError> {
    let length = fields.all("content-length").next().is_some();
    let coding = fields.all("transfer-encoding").next().is_some();
    // Security: whichever of the two a parser believes, another believes the other, and the rest
    // of the body becomes a request that nobody judged (RFC 9112 section 6.1).
    if length && coding {
        return Err(HeadError::Malformed(
            "there is Content-Length and Transfer-Encoding",
        ));
    }
    if coding {
        if version == Version::Http10 {
            return Err(HeadError::Malformed("Transfer-Encoding in HTTP/1.0"));
        }
        if !fields.is_only("transfer-encoding", "chunked") {
            return Err(HeadError::Malformed(
                "Transfer-Encoding is not exactly `chunked`",
            ));
        }
        return Ok(Some(Framing::Chunked));
    }
    if !length {
        return Ok(None);
    }
    let value = fields.one("content-length").and_then(decimal);
    match value {
        Some(length) => Ok(Some(Framing::Length(length))),
        None => Err(HeadError::Malformed(
            "Content-Length is not one plain decimal number",
        )),
    }
}

/// Digits and nothing else: `u64::from_str` alone would take a sign.
fn decimal(value: &[u8]) -> Option<u64> {
    let digits = !value.is_empty() && value.iter().all(u8::is_ascii_digit);
    let text = std::str::from_utf8(value).ok().filter(|_| digits)?;
    text.parse().ok()
}

/// Takes a body off a stream of bytes, whatever its framing.
#[derive(Debug)]
pub struct BodyDecoder(State);

#[derive(Debug)]
enum State {
    /// This many bytes of content are still to come; none: the body ended.
    Length(u64),
    Chunked(Chunked),
    UntilClose,
}

/// What a decoder made of some bytes.
#[derive(Debug, PartialEq, Eq)]
pub enum Decoded {
    /// `skip` bytes of framing, then `data` bytes of content follow in the input; the next call
    /// begins after both.
    Data {
        /// Framing bytes to pass over.
        skip: usize,
        /// Content bytes after them, at least one.
        data: usize,
    },
    /// The body ended; `skip` bytes of framing were its end.
    End {
        /// Framing bytes to pass over.
        skip: usize,
    },
    /// `skip` bytes of framing were taken (all there were), more input is needed.
    More {
        /// Framing bytes to pass over.
        skip: usize,
    },
}

impl BodyDecoder {
    /// A decoder at the start of a body.
    pub fn new(framing: Framing) -> Self {
        Self(match framing {
            Framing::Empty => State::Length(0),
            Framing::Length(length) => State::Length(length),
            Framing::Chunked => State::Chunked(Chunked::new()),
            Framing::UntilClose => State::UntilClose,
        })
    }

    /// Reads on in `input`, which begins where the last call ended. After `End`, it says `End`
    /// again and takes nothing.
    ///
    /// # Errors
    /// The chunked coding is broken, or its extensions or trailers are over their limits.
    pub fn decode(&mut self, input: &[u8]) -> Result<Decoded, HeadError> {
        match &mut self.0 {
            State::Length(0) => Ok(Decoded::End { skip: 0 }),
            State::Length(left) => {
                let data = usize::try_from(*left).map_or(input.len(), |left| left.min(input.len()));
                *left = left.saturating_sub(u64::try_from(data).unwrap_or(u64::MAX));
                Ok(content(0, data))
            }
            State::Chunked(chunked) => chunked.decode(input),
            State::UntilClose => Ok(content(0, input.len())),
        }
    }

    /// Whether the body is whole when the peer ends the stream here. What ends any other way than
    /// whole was cut, and must not look whole to whoever gets it.
    pub fn is_whole_at_end_of_stream(&self) -> bool {
        match &self.0 {
            State::Length(left) => *left == 0,
            State::Chunked(chunked) => chunked.is_done(),
            State::UntilClose => true,
        }
    }
}

/// `Data`, unless there is none.
fn content(skip: usize, data: usize) -> Decoded {
    if data == 0 {
        Decoded::More { skip }
    } else {
        Decoded::Data { skip, data }
    }
}

/// The line that begins a chunk of `length` bytes; after the content comes `CHUNK_END`. A length
/// of zero would end the body, so there is none.
pub fn chunk_header(length: NonZeroUsize) -> String {
    format!("{length:x}\r\n")
}

/// What follows the content of a chunk.
pub const CHUNK_END: &[u8] = b"\r\n";

/// What ends a chunked body, without trailers.
pub const LAST_CHUNK: &[u8] = b"0\r\n\r\n";

#[cfg(test)]
mod tests;
