//! The chunked coding (RFC 9112 section 7.1), byte by byte.

use super::{Decoded, HeadError, content};

/// Hexadecimal digits of a chunk size: 16 fill a `u64`.
const MAX_DIGITS: u8 = 16;

/// Bytes of chunk extensions in one body. Nobody uses them; unbounded, they are free work.
const MAX_EXTENSIONS: usize = 16 * 1024;

/// Bytes of the trailer section of one body.
const MAX_TRAILERS: usize = 8 * 1024;

/// Where in a chunked body the next byte stands.
#[derive(Debug)]
pub(super) struct Chunked {
    at: At,
    extensions: usize,
    trailers: usize,
}

#[derive(Clone, Copy, Debug)]
enum At {
    /// In the size line, after so many digits.
    Size {
        size: u64,
        digits: u8,
    },
    /// In the extensions of a chunk of this size.
    Extension {
        size: u64,
    },
    /// Before the LF of the size line.
    SizeLf {
        size: u64,
    },
    /// In the content; so many bytes are left.
    Data {
        left: u64,
    },
    /// After the content.
    DataCr,
    DataLf,
    /// At the start of a line after the last chunk.
    TrailerStart,
    /// Within a trailer field, which is dropped.
    Trailer,
    TrailerLf,
    /// Before the last LF.
    EndLf,
    Done,
}

impl Chunked {
    pub(super) fn new() -> Self {
        Self {
            at: At::Size { size: 0, digits: 0 },
            extensions: 0,
            trailers: 0,
        }
    }

    pub(super) fn is_done(&self) -> bool {
        matches!(self.at, At::Done)
    }

    pub(super) fn decode(&mut self, input: &[u8]) -> Result<Decoded, HeadError> {
        for (skip, byte) in input.iter().enumerate() {
            match self.at {
                At::Done => return Ok(Decoded::End { skip }),
                At::Data { left } => {
                    let there = input.len() - skip;
                    let data = usize::try_from(left).map_or(there, |left| left.min(there));
                    self.at = match left.saturating_sub(u64::try_from(data).unwrap_or(u64::MAX)) {
                        0 => At::DataCr,
                        left => At::Data { left },
                    };
                    return Ok(content(skip, data));
                }
                at => self.at = self.step(at, *byte)?,
            }
        }
        let skip = input.len();
        if self.is_done() {
            return Ok(Decoded::End { skip });
        }
        Ok(Decoded::More { skip })
    }

    /// Where the body stands after one byte of framing.
    fn step(&mut self, at: At, byte: u8) -> Result<At, HeadError> {
        Ok(match (at, byte) {
            (At::Size { size, digits }, _) if byte.is_ascii_hexdigit() => {
                longer_size(size, digits, byte)?
            }
            (At::Size { digits: 0, .. }, _) => {
                return Err(HeadError::Malformed("a chunk has no size"));
            }
            (At::Size { size, .. }, b';') => At::Extension { size },
            (At::Size { size, .. } | At::Extension { size }, b'\r') => At::SizeLf { size },
            // Security: a control character here, LF above all, ends the line for some parsers
            // and not for others; so does whitespace before the extension.
            (At::Extension { size }, b'!'..=b'~') => {
                count(&mut self.extensions, MAX_EXTENSIONS)?;
                At::Extension { size }
            }
            (At::SizeLf { size: 0 } | At::TrailerLf, b'\n') => At::TrailerStart,
            (At::SizeLf { size }, b'\n') => At::Data { left: size },
            (At::DataCr, b'\r') => At::DataLf,
            (At::DataLf, b'\n') => At::Size { size: 0, digits: 0 },
            (At::TrailerStart, b'\r') => At::EndLf,
            (At::Trailer, b'\r') => At::TrailerLf,
            (At::TrailerStart, b'!'..=b'~') | (At::Trailer, b'\t' | b' '..=b'~' | 0x80..) => {
                count(&mut self.trailers, MAX_TRAILERS)?;
                At::Trailer
            }
            (At::EndLf, b'\n') => At::Done,
            (At::Size { .. } | At::Extension { .. } | At::SizeLf { .. }, _) => {
                return Err(HeadError::Malformed("a chunk's size line is malformed"));
            }
            (At::Data { .. } | At::DataCr | At::DataLf, _) => {
                return Err(HeadError::Malformed("a chunk is longer than its size"));
            }
            (At::TrailerStart | At::Trailer | At::TrailerLf | At::EndLf | At::Done, _) => {
                return Err(HeadError::Malformed("the trailer section is malformed"));
            }
        })
    }
}

fn longer_size(size: u64, digits: u8, byte: u8) -> Result<At, HeadError> {
    let digit = char::from(byte).to_digit(16).map(u64::from);
    let longer = digit.and_then(|digit| size.checked_mul(16)?.checked_add(digit));
    match longer {
        Some(size) if digits < MAX_DIGITS => Ok(At::Size {
            size,
            digits: digits + 1,
        }),
        _ => Err(HeadError::Malformed("a chunk size is too long")),
    }
}

fn count(bytes: &mut usize, most: usize) -> Result<(), HeadError> {
    *bytes += 1;
    if *bytes > most {
        return Err(HeadError::Malformed(
            "there are too many bytes of chunk extensions or trailers",
        ));
    }
    Ok(())
}
