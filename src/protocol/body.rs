//! How the body of a message ends (RFC 9112 section 6), and a chunked decoder that drops
//! trailers and extensions. Bodies are streamed; nothing here buffers one.

use super::{HeadError, RequestHead, ResponseHead};

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
        let _ = head;
        todo!()
    }

    /// The framing of the response to a request with `method`.
    pub fn of_response(head: &ResponseHead, method: &str) -> Result<Self, HeadError> {
        let _ = (head, method);
        todo!()
    }
}

/// Takes a body off a stream of bytes, whatever its framing.
#[derive(Debug)]
pub struct BodyDecoder {
    // the helper fills in the state
}

/// What a decoder made of some bytes.
#[derive(Debug, PartialEq, Eq)]
pub enum Decoded {
    /// `skip` bytes of framing, then `data` bytes of content follow in the input.
    Data {
        /// Framing bytes to pass over.
        skip: usize,
        /// Content bytes after them.
        data: usize,
    },
    /// The body ended; `skip` bytes of framing were its end.
    End {
        /// Framing bytes to pass over.
        skip: usize,
    },
    /// `skip` bytes of framing were taken, more input is needed.
    More {
        /// Framing bytes to pass over.
        skip: usize,
    },
}

impl BodyDecoder {
    /// A decoder at the start of a body.
    pub fn new(framing: Framing) -> Self {
        let _ = framing;
        todo!()
    }

    /// Reads on in `input`, which begins where the last call ended.
    pub fn decode(&mut self, input: &[u8]) -> Result<Decoded, HeadError> {
        let _ = input;
        todo!()
    }
}
