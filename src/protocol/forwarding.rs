//! Heads as we send them on: rebuilt from what was judged, hop-by-hop and identity fields
//! removed (RFC 9110 section 7.6), Host from the destination.

use super::{Framing, RequestHead, ResponseHead, Route};

/// The head sent to the origin.
pub fn request_head(head: &RequestHead, route: &Route, framing: Framing) -> Vec<u8> {
    let _ = (head, route, framing);
    todo!()
}

/// The head sent to the client; 407 and forged proxy fields of the origin never pass.
pub fn response_head(head: &ResponseHead, framing: Framing) -> Vec<u8> {
    let _ = (head, framing);
    todo!()
}
