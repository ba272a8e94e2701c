//! The request target and Host (RFC 9112 section 3.2) to a `Destination`; what disagrees or could
//! be read in two ways is refused.

use super::RequestHead;
use crate::{destination::Destination, policy::Reason};

/// Where a request goes and what the origin is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// The destination, from the request target alone (or from Host on the transparent road).
    pub destination: Destination,
    /// The origin-form target for the origin, `/path?query`; empty for CONNECT.
    pub origin_form: Box<str>,
    /// The path without its query, for the record; none for CONNECT.
    pub path: Option<Box<str>>,
}

/// Why a request cannot be routed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{detail}")]
pub struct RouteError {
    /// `bad_request`, `host_mismatch` or `method_not_allowed`.
    pub reason: Reason,
    /// What is wrong and what to do, for the client.
    pub detail: String,
}

/// `CONNECT host:port` on the proxy port.
pub fn route_connect(head: &RequestHead) -> Result<Route, RouteError> {
    let _ = head;
    todo!()
}

/// `GET http://host/path` on the proxy port.
pub fn route_absolute(head: &RequestHead) -> Result<Route, RouteError> {
    let _ = head;
    todo!()
}

/// `GET /path` with Host: on the transparent port 80 (`within` is none, the port is 80), or inside
/// a CONNECT to port 80, where Host must name `within`.
pub fn route_origin(head: &RequestHead, within: Option<&Destination>) -> Result<Route, RouteError> {
    let _ = (head, within);
    todo!()
}
