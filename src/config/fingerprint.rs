//! What one content is told from another by.

use ring::digest::{SHA256, digest};

/// The SHA-256 of `content` in lower-case hexadecimal.
pub fn fingerprint(content: &[u8]) -> String {
    hexadecimal(digest(&SHA256, content).as_ref())
}

/// Bytes in lower-case hexadecimal.
pub fn hexadecimal(bytes: &[u8]) -> String {
    bytes
        .iter()
        .flat_map(|byte| [byte >> 4, byte & 0xf])
        .filter_map(|half| char::from_digit(u32::from(half), 16))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fingerprint_is_what_sha256sum_prints() {
        assert_eq!(
            fingerprint(b"abc"),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
    }
}
