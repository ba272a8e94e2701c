//! What one content is told from another by.

use crate::record::Digest;

/// The SHA-256 of `content` in lower-case hexadecimal.
pub fn fingerprint(content: &[u8]) -> String {
    Digest::of(content).to_string()
}
