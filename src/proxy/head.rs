//! Receives the head of a message from a connection.

use tokio::net::tcp::ReadHalf;

use crate::{egress::Received, protocol::HeadError};

/// Why there is no head.
#[derive(Debug)]
pub(super) enum NoHead {
    /// The peer closed or reset; what it sent before is still among the received bytes.
    Ended,
    /// What was received is not an acceptable head.
    Invalid(HeadError),
}

/// Receives one head of at most `limit` bytes and takes it from the received bytes; `touched` is
/// called whenever something arrived.
///
/// The caller sets the deadline. A head that comes byte by byte is not parsed at every byte, so
/// that its cost stays in proportion to its length.
pub(super) async fn receive<T>(
    from: &mut ReadHalf<'_>,
    received: &mut Received,
    limit: usize,
    parse: impl Fn(&[u8], usize) -> Result<Option<(T, usize)>, HeadError>,
    touched: impl Fn(),
) -> Result<(T, usize), NoHead> {
    let mut seen = 0;
    loop {
        let bytes = received.unread();
        let length = bytes.len();
        if length > 0 && (seen == 0 || length > limit || ends_within(bytes, seen)) {
            if let Some((head, taken)) = parse(bytes, limit).map_err(NoHead::Invalid)? {
                received.consume(taken);
                return Ok((head, taken));
            }
            if length > limit {
                return Err(NoHead::Invalid(HeadError::TooLarge { limit }));
            }
        }
        seen = length;
        match received.fill(from).await {
            Ok(0) | Err(_) => return Err(NoHead::Ended),
            Ok(_) => touched(),
        }
    }
}

/// Whether an empty line ends in `bytes` behind the first `seen` ones.
fn ends_within(bytes: &[u8], seen: usize) -> bool {
    let fresh = bytes.get(seen.saturating_sub(2)..).unwrap_or_default();
    memchr::memmem::find(fresh, b"\n\r\n").is_some()
        || memchr::memmem::find(fresh, b"\n\n").is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_empty_line_is_found_wherever_the_bytes_are_cut() {
        for text in ["GET / HTTP/1.1\r\n\r\n", "GET / HTTP/1.1\n\n"] {
            for seen in 0..text.len() {
                assert!(ends_within(text.as_bytes(), seen), "{text:?} {seen}");
            }
        }
        assert!(!ends_within(b"GET / HTTP/1.1\r\nHost: a\r\n", 1));
    }
}
