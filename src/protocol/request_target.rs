//! The request target and Host (RFC 9112 section 3.2) to a `Destination`; what disagrees or could
//! be read in two ways is refused. It reads the target as it was sent: no URL library, which would
//! repair it, stands between.

use super::{Framing, HeadError, RequestHead};
use crate::{
    destination::{Destination, Host, Scheme, parse_port, split_authority},
    policy::Reason,
};

/// Where a request goes and what the origin is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// The destination, from the request target alone (or from Host on the transparent road).
    pub destination: Destination,
    /// The origin-form target for the origin, `/path?query`, or `*`; empty for CONNECT.
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
    /// What is wrong and what to do, for the client. It holds nothing that the client sent: what
    /// cannot be routed may be a secret in the wrong place.
    pub detail: String,
    /// Where the request wanted to go, where that could be read all the same.
    pub destination: Option<Destination>,
}

impl RouteError {
    fn towards(self, destination: Option<Destination>) -> Self {
        Self {
            destination,
            ..self
        }
    }
}

/// `CONNECT host:port` on the proxy port. To port 80 the scheme is `Http`: such a tunnel is read
/// as plain HTTP, request by request.
pub fn route_connect(head: &RequestHead) -> Result<Route, RouteError> {
    if &*head.method != "CONNECT" {
        return Err(bad_request("this is not CONNECT"));
    }
    // Security: a body would be the first bytes of the tunnel for the one and not for the other
    // (RFC 9110 section 9.3.6).
    match Framing::of_request(head)? {
        Framing::Empty | Framing::Length(0) => {}
        Framing::Length(_) | Framing::Chunked | Framing::UntilClose => {
            return Err(bad_request("CONNECT has no body"));
        }
    }
    if head.target.contains('/') {
        return Err(bad_request(
            "CONNECT takes host:port and not a URL, for example example.com:443",
        ));
    }
    let mut destination = Destination::parse_authority(Scheme::Https, &head.target)
        .map_err(|error| bad_request(error.to_string()))?;
    if destination.port == 80 {
        destination.scheme = Scheme::Http;
    }
    check_host(head, &head.target, &destination)
        .map_err(|error| error.towards(Some(destination.clone())))?;
    Ok(Route {
        destination,
        origin_form: "".into(),
        path: None,
    })
}

/// `GET http://host/path` on the proxy port.
pub fn route_absolute(head: &RequestHead) -> Result<Route, RouteError> {
    check_method(head).map_err(|error| {
        let named = absolute_form(head).ok();
        error.towards(named.map(|named| named.destination))
    })?;
    if head.target.starts_with('/') || &*head.target == "*" {
        return Err(bad_request(
            "this is a forward proxy, not a web server: ask for http://host/path, or use CONNECT",
        ));
    }
    let named = absolute_form(head)?;
    check_host(head, named.authority, &named.destination)
        .map_err(|error| error.towards(Some(named.destination.clone())))?;
    Ok(plain(named.destination, named.origin_form))
}

/// `GET /path` with Host: on the transparent port 80 (`within` is none, the port is 80), or inside
/// a CONNECT to port 80, where Host must name `within`. An absolute-form target is taken too (RFC
/// 9112 section 3.2.2), where it names the same.
pub fn route_origin(head: &RequestHead, within: Option<&Destination>) -> Result<Route, RouteError> {
    let destination = place(head, within);
    check_method(head).map_err(|error| error.towards(destination.clone().ok()))?;
    let destination = destination?;
    let is_origin_form =
        head.target.starts_with('/') || (&*head.target == "*" && &*head.method == "OPTIONS");
    if is_origin_form {
        check_no_fragment(&head.target)?;
        return Ok(plain(destination, head.target.clone()));
    }
    let named = absolute_form(head)?;
    if named.destination != destination {
        let error = mismatch("the request target names another destination than Host");
        return Err(error.towards(Some(destination)));
    }
    Ok(plain(destination, named.origin_form))
}

/// Where a request in origin-form goes: where its connection leads, and as Host says.
fn place(head: &RequestHead, within: Option<&Destination>) -> Result<Destination, RouteError> {
    let plainly = |within: &Destination| Destination {
        scheme: Scheme::Http,
        ..within.clone()
    };
    let named = named_by_host(head).map_err(|error| error.towards(within.map(plainly)))?;
    let (host, port) = match (named, within) {
        (None, None) => {
            return Err(bad_request(
                "without a Host field nothing says where this goes",
            ));
        }
        (None, Some(within)) => return Ok(plainly(within)),
        (Some(named), _) => named,
    };
    let destination = within.map_or_else(
        || Destination {
            scheme: Scheme::Http,
            host: host.clone(),
            port: 80,
        },
        plainly,
    );
    if host != destination.host || port.is_some_and(|port| port != destination.port) {
        let error = mismatch(within.map_or(
            "Host names another port than 80, at which this arrived",
            |_| "Host names another destination than the tunnel",
        ));
        return Err(error.towards(Some(destination)));
    }
    Ok(destination)
}

impl From<HeadError> for RouteError {
    fn from(error: HeadError) -> Self {
        Self {
            reason: error.reason(),
            detail: error.to_string(),
            destination: None,
        }
    }
}

fn plain(destination: Destination, origin_form: Box<str>) -> Route {
    let path = origin_form.split('?').next().unwrap_or_default().into();
    Route {
        destination,
        origin_form,
        path: Some(path),
    }
}

/// Refuses methods that do not go on as plain HTTP.
fn check_method(head: &RequestHead) -> Result<(), RouteError> {
    let method = &*head.method;
    // Security: TRACE, and TRACK of older IIS, send back the head with all that was added to it
    // on the way. Methods are case-sensitive, and some origins do not know that.
    if method.eq_ignore_ascii_case("TRACE") || method.eq_ignore_ascii_case("TRACK") {
        return Err(method_not_allowed("TRACE and TRACK are never forwarded"));
    }
    if method == "CONNECT" {
        return Err(method_not_allowed("CONNECT is for the proxy port alone"));
    }
    if method.eq_ignore_ascii_case("CONNECT") {
        return Err(bad_request("methods are case-sensitive: write CONNECT"));
    }
    // RFC 9110 section 7.6.2: not forwarded at zero; the next hop is told one less.
    let mut left = head.fields.all("max-forwards");
    if method == "OPTIONS" && left.any(|value| !is_above_zero(value)) {
        return Err(bad_request("Max-Forwards forbids to forward this"));
    }
    Ok(())
}

fn is_above_zero(value: &[u8]) -> bool {
    value.iter().all(u8::is_ascii_digit) && value.iter().any(|digit| *digit != b'0')
}

/// What a request target in absolute-form names.
struct Named<'a> {
    destination: Destination,
    /// The text that `destination` was read from.
    authority: &'a str,
    origin_form: Box<str>,
}

/// Reads `http://host[:port][/path][?query]`.
fn absolute_form(head: &RequestHead) -> Result<Named<'_>, RouteError> {
    let target = &*head.target;
    let Some((scheme, rest)) = target.split_once("://") else {
        return Err(bad_request(
            "the request target is not a URL: ask for http://host/path, or use CONNECT host:port",
        ));
    };
    if scheme.eq_ignore_ascii_case("https") {
        return Err(bad_request(
            "https:// is not sent to a proxy in the clear: use CONNECT host:port and TLS inside",
        ));
    }
    if !scheme.eq_ignore_ascii_case("http") {
        return Err(bad_request(
            "only http:// is forwarded: for anything else use CONNECT host:port",
        ));
    }
    check_no_fragment(target)?;
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    let (authority, rest) = rest.split_at_checked(end).unwrap_or((rest, ""));
    let (host, port) =
        split_authority(authority).map_err(|error| bad_request(error.to_string()))?;
    let port = port.map_or(Ok(80), parse_port);
    let destination = Destination {
        scheme: Scheme::Http,
        host: Host::parse(host).map_err(|error| bad_request(error.to_string()))?,
        port: port.map_err(|error| bad_request(error.to_string()))?,
    };
    let origin_form = match rest {
        // RFC 9112 section 3.2.4: OPTIONS of the server itself.
        "" if &*head.method == "OPTIONS" => "*".into(),
        "" => "/".into(),
        rest if rest.starts_with('?') => format!("/{rest}").into(),
        rest => rest.into(),
    };
    Ok(Named {
        destination,
        authority,
        origin_form,
    })
}

/// RFC 9110 section 7.1: a fragment is never sent; one parser cuts it off and another does not.
fn check_no_fragment(target: &str) -> Result<(), RouteError> {
    if target.contains('#') {
        return Err(bad_request("the request target has a fragment"));
    }
    Ok(())
}

/// Host must name what the target names. Its port may be missing: Java, aiohttp and others never
/// write it; the origin gets ours in any case.
fn check_host(
    head: &RequestHead,
    authority: &str,
    destination: &Destination,
) -> Result<(), RouteError> {
    // Nearly every client repeats the authority that `destination` was read from.
    if head.fields.one("host") == Some(authority.as_bytes()) {
        return Ok(());
    }
    let Some((host, port)) = named_by_host(head)? else {
        return Ok(());
    };
    // Security: behind one address, Host chooses the site (RFC 9112 section 3.2.2).
    if host != destination.host || port.is_some_and(|port| port != destination.port) {
        return Err(mismatch(
            "the Host field names another destination than the request target",
        ));
    }
    Ok(())
}

/// What Host names; none where there is no Host, which only HTTP/1.0 may do without.
fn named_by_host(head: &RequestHead) -> Result<Option<(Host, Option<u16>)>, RouteError> {
    let unacceptable = |what: String| bad_request(format!("in the Host field, {what}"));
    let mut all = head.fields.all("host");
    let value = match (all.next(), all.next()) {
        (None, _) => return Ok(None),
        (Some(value), None) => value,
        (Some(_), Some(_)) => return Err(bad_request("there is more than one Host field")),
    };
    let text =
        std::str::from_utf8(value).map_err(|_| unacceptable("the text is not UTF-8".to_owned()))?;
    let (host, port) = split_authority(text).map_err(|error| unacceptable(error.to_string()))?;
    let host = Host::parse(host).map_err(|error| unacceptable(error.to_string()))?;
    let port = port.map(parse_port).transpose();
    let port = port.map_err(|error| unacceptable(error.to_string()))?;
    Ok(Some((host, port)))
}

fn bad_request(detail: impl Into<String>) -> RouteError {
    RouteError {
        reason: Reason::BadRequest,
        detail: detail.into(),
        destination: None,
    }
}

fn mismatch(detail: &str) -> RouteError {
    RouteError {
        reason: Reason::HostMismatch,
        detail: detail.to_owned(),
        destination: None,
    }
}

fn method_not_allowed(detail: &str) -> RouteError {
    RouteError {
        reason: Reason::MethodNotAllowed,
        detail: detail.to_owned(),
        destination: None,
    }
}

#[cfg(test)]
mod tests;
