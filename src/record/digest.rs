//! SHA-256 as text, the one place that makes it.

use std::fmt;

use ring::digest::{Context, SHA256};

/// A SHA-256 in lower-case hexadecimal, as `sha256sum` prints it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Digest([u8; Self::LEN]);

impl Digest {
    /// The length of its text.
    pub const LEN: usize = 64;

    /// The digest of nothing that is known.
    pub(super) const ZERO: Self = Self([b'0'; Self::LEN]);

    /// Reads its text.
    pub(super) fn read(text: &[u8; Self::LEN]) -> Option<Self> {
        // No byte ends the scan early, so that it takes many at a time.
        let is_hex = (text.iter()).fold(true, |hex, byte| {
            hex & matches!(byte, b'0'..=b'9' | b'a'..=b'f')
        });
        is_hex.then_some(Self(*text))
    }

    /// The digest of `content`.
    pub fn of(content: &[u8]) -> Self {
        let mut hashing = Hashing::default();
        hashing.update(content);
        hashing.finish()
    }

    /// Its text.
    pub fn as_bytes(&self) -> &[u8; Self::LEN] {
        &self.0
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(str::from_utf8(&self.0).map_err(|_| fmt::Error)?)
    }
}

/// A digest in the making, of content that comes in pieces.
pub struct Hashing(Context);

impl Hashing {
    /// Takes in the next piece.
    pub fn update(&mut self, piece: &[u8]) {
        self.0.update(piece);
    }

    /// The digest of all pieces.
    pub fn finish(self) -> Digest {
        let Digest(mut text) = Digest::ZERO;
        let (pairs, _) = text.as_chunks_mut();
        for (pair, byte) in pairs.iter_mut().zip(self.0.finish().as_ref()) {
            *pair = hexadecimal(*byte);
        }
        Digest(text)
    }
}

impl Default for Hashing {
    fn default() -> Self {
        Self(Context::new(&SHA256))
    }
}

impl fmt::Debug for Hashing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hashing").finish_non_exhaustive()
    }
}

/// A byte as two lower-case hexadecimal digits.
pub(super) fn hexadecimal(byte: u8) -> [u8; 2] {
    [byte >> 4, byte & 0xf].map(|half| match half {
        0..=9 => b'0' + half,
        _ => b'a' + half - 10,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_is_what_sha256sum_prints_also_in_pieces() {
        let expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(Digest::of(b"abc").to_string(), expected);
        let mut hashing = Hashing::default();
        for piece in [b"a", b"b", b"c"] {
            hashing.update(piece);
        }
        assert_eq!(hashing.finish(), Digest::of(b"abc"));
    }
}
