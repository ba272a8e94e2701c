//! A refusal as the agent sees it: status, `Proxy-Status` (RFC 9209) and a problem document
//! (RFC 9457). It says what was refused and what to ask for, never the allowlist.

use std::time::Duration;

use crate::{
    destination::Destination,
    policy::Reason,
    record::{Id, RunId},
};

/// A refusal; it is recorded by whoever made it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denial {
    /// Why.
    pub reason: Reason,
    /// The id of its record.
    pub id: Id,
    /// The client's run.
    pub run: Option<RunId>,
    /// Where the request wanted to go, where that could be read.
    pub destination: Option<Destination>,
    /// What is wrong, beyond the reason: for malformed requests and failures.
    pub detail: Option<String>,
    /// For `rate_limited`: when to try again.
    pub retry_after: Option<Duration>,
}

impl Denial {
    /// The HTTP status of `reason`; none where the connection is cut without one.
    pub fn status_of(reason: Reason) -> Option<u16> {
        let _ = reason;
        todo!()
    }

    /// The whole HTTP/1.1 response, which says `Connection: close`; to HEAD without its body.
    pub fn to_response(&self, method: &str) -> Vec<u8> {
        let _ = method;
        todo!()
    }
}
