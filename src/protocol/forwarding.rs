//! Heads as we send them on: rebuilt from what was judged, hop-by-hop and identity fields
//! removed (RFC 9110 section 7.6), Host from the destination.

use std::borrow::Cow;

use super::{Fields, Framing, HeadError, RequestHead, ResponseHead, Route, Version};

/// What becomes of the client's connection after a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    /// The next request may follow.
    KeepAlive,
    /// It is closed.
    Close,
    /// Both ends speak WebSocket from here on.
    WebSocket,
}

/// Our pseudonym in Via (RFC 9110 section 7.6.3). It is the same in every instance, and a request
/// that bears it is a loop, whatever the number of instances in it: the client's own Via is not
/// passed on, so nothing finer would be seen. Two instances in a row therefore forward TLS for
/// each other, but not plain HTTP.
pub const PSEUDONYM: &str = "eclusa";

/// Whether the request has already passed through this proxy, or another of its kind.
pub fn is_loop(head: &RequestHead) -> bool {
    head.fields.list("via").any(|member| {
        let mut words = member.split(|byte| matches!(byte, b' ' | b'\t'));
        words.any(|word| word.eq_ignore_ascii_case(PSEUDONYM.as_bytes()))
    })
}

/// Whether `name` (lower case) speaks of NTLM or Negotiate, which log in a connection and not a
/// request (RFC 4559 section 6): whatever follows on it acts as that user.
pub fn logs_in_connection(fields: &Fields, name: &str) -> bool {
    fields.list(name).any(|member| {
        let scheme = member.split(|byte| matches!(byte, b' ' | b'\t')).next();
        scheme.is_some_and(|scheme| {
            scheme.eq_ignore_ascii_case(b"ntlm") || scheme.eq_ignore_ascii_case(b"negotiate")
        })
    })
}

/// The head sent to the origin. `framing` is how the body is sent on; the origin is spoken to in
/// HTTP/1.1 and may keep the connection.
pub fn request_head(head: &RequestHead, route: &Route, framing: Framing) -> Vec<u8> {
    let mut out = Head::new(&head.fields);
    out.line(&[&head.method, " ", &route.origin_form, " HTTP/1.1"]);
    let destination = &route.destination;
    // Security: Host comes from what policy judged, never from the client (RFC 9112 section
    // 3.2.2).
    match destination.port {
        80 => out.field("host", destination.host.to_string().as_bytes()),
        _ => out.field("host", destination.to_string().as_bytes()),
    }
    for (name, value) in head.fields.iter() {
        match name {
            "host" => {}
            "expect" if !head.expects_continue() => {}
            "max-forwards" if &*head.method == "OPTIONS" => {
                out.field(name, one_less(value).as_bytes());
            }
            _ if is_identity(&as_read_by_cgi(name)) => {}
            _ => out.end_to_end(name, value),
        }
    }
    out.via(head.version);
    if head.is_websocket_upgrade() {
        out.websocket();
    }
    out.framing(framing);
    out.end()
}

/// Refuses a response that the client must not see: `upstream_error`.
///
/// # Errors
/// A 407, which would make the client think that our password is wrong, or 101 that switches to
/// something which was not asked for.
pub fn check_response(response: &ResponseHead, request: &RequestHead) -> Result<(), HeadError> {
    match response.status {
        407 => Err(HeadError::Malformed(
            "the origin answered 407, which is for proxies alone",
        )),
        // Security: what follows a 101 is relayed unread, so both must have meant WebSocket.
        101 if !(request.is_websocket_upgrade() && response.is_websocket_upgrade()) => Err(
            HeadError::Malformed("the origin switched protocols without being asked"),
        ),
        _ => Ok(()),
    }
}

/// The head sent to the client, of a response that passed `check_response`. `framing` is how the
/// body is sent on: `Framing::towards` of the origin's. `then` is not told by an interim response.
pub fn response_head(head: &ResponseHead, framing: Framing, then: Then) -> Vec<u8> {
    let mut out = Head::new(&head.fields);
    out.line(&["HTTP/1.1 ", &head.status.to_string(), " ", &head.phrase]);
    for (name, value) in head.fields.iter() {
        // Security: an origin does not speak with the proxy's voice (`Head::end_to_end` drops
        // every `proxy-` field), nor offer a way around it (RFC 7838).
        if name != "alt-svc" {
            out.end_to_end(name, value);
        }
    }
    out.via(head.version);
    match then {
        Then::WebSocket => out.websocket(),
        Then::Close if !head.is_interim() => out.field("connection", b"close"),
        Then::Close | Then::KeepAlive => {}
    }
    // To HEAD, and in a 304, the length is that of the body which is not there (RFC 9110 section
    // 8.6); a 1xx or 204 has none.
    let told = match framing {
        Framing::Empty if head.status == 304 || head.status / 100 != 1 && head.status != 204 => {
            super::body::declared(&head.fields, head.version)
                .ok()
                .flatten()
                .filter(|declared| matches!(declared, Framing::Length(_)))
                .unwrap_or(framing)
        }
        Framing::Empty | Framing::Length(_) | Framing::Chunked | Framing::UntilClose => framing,
    };
    out.framing(told);
    out.end()
}

/// A head in the making.
struct Head {
    bytes: Vec<u8>,
    /// What Connection lists, in lower case, sorted.
    nominated: Vec<Vec<u8>>,
}

impl Head {
    fn new(from: &Fields) -> Self {
        let options = from.list("connection");
        let mut nominated: Vec<_> = options.map(<[u8]>::to_ascii_lowercase).collect();
        nominated.sort_unstable();
        Self {
            bytes: Vec::with_capacity(1024),
            nominated,
        }
    }

    fn line(&mut self, parts: &[&str]) {
        for part in parts {
            self.bytes.extend_from_slice(part.as_bytes());
        }
        self.bytes.extend_from_slice(b"\r\n");
    }

    fn field(&mut self, name: &str, value: &[u8]) {
        self.bytes.extend_from_slice(name.as_bytes());
        self.bytes.extend_from_slice(b": ");
        self.bytes.extend_from_slice(value);
        self.bytes.extend_from_slice(b"\r\n");
    }

    /// A field of the other side, unless it is for one hop only, by its name or because Connection
    /// says so. Host and the framing are not touched by that: they are never copied.
    fn end_to_end(&mut self, name: &str, value: &[u8]) {
        let nominated = |option: &Vec<u8>| option.as_slice().cmp(name.as_bytes());
        if !is_hop_by_hop(&as_read_by_cgi(name))
            && self.nominated.binary_search_by(nominated).is_err()
        {
            self.field(name, value);
        }
    }

    fn via(&mut self, received: Version) {
        let version = match received {
            Version::Http10 => "1.0",
            Version::Http11 => "1.1",
        };
        self.line(&["via: ", version, " ", PSEUDONYM]);
    }

    fn websocket(&mut self) {
        self.field("connection", b"upgrade");
        self.field("upgrade", b"websocket");
    }

    fn framing(&mut self, framing: Framing) {
        match framing {
            Framing::Empty | Framing::UntilClose => {}
            Framing::Length(length) => {
                self.field("content-length", length.to_string().as_bytes());
            }
            Framing::Chunked => self.field("transfer-encoding", b"chunked"),
        }
    }

    fn end(mut self) -> Vec<u8> {
        self.bytes.extend_from_slice(b"\r\n");
        self.bytes
    }
}

/// The name as CGI and WSGI programs see it, where `X_Real_IP` and `X-Real-IP` are the same.
fn as_read_by_cgi(name: &str) -> Cow<'_, str> {
    if name.contains('_') {
        name.replace('_', "-").into()
    } else {
        name.into()
    }
}

/// Fields for one hop, for proxies, or made anew (RFC 9110 section 7.6.1, RFC 9112 section 6):
/// sorted.
const HOP_BY_HOP: &[&str] = &[
    "connection",
    "content-length",
    "http2-settings",
    "keep-alive",
    // In a CGI program it becomes HTTP_PROXY (httpoxy, CVE-2016-5385).
    "proxy",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

fn is_hop_by_hop(name: &str) -> bool {
    HOP_BY_HOP.binary_search(&name).is_ok() || name.starts_with("proxy-")
}

/// Fields by which a client tells who it is, or which host or path it means, in the
/// place of a proxy: sorted.
const IDENTITY: &[&str] = &[
    "cf-connecting-ip",
    "cf-connecting-ipv6",
    "cf-pseudo-ipv4",
    "client-ip",
    "fastly-client-ip",
    "fly-client-ip",
    "forwarded",
    "forwarded-for",
    "remote-addr",
    "true-client-ip",
    "via",
    "wl-proxy-client-ip",
    "x-azure-clientip",
    "x-azure-socketip",
    "x-client-ip",
    "x-client-real-ip",
    "x-cluster-client-ip",
    "x-host",
    "x-http-host-override",
    "x-original-forwarded-for",
    "x-original-host",
    "x-original-url",
    "x-originating-ip",
    "x-proxyuser-ip",
    "x-real-ip",
    "x-remote-addr",
    "x-remote-ip",
    "x-rewrite-url",
    "x-smokescreen-role",
    "x-true-client-ip",
];

fn is_identity(name: &str) -> bool {
    const PREFIXES: &[&str] = &["x-eclusa-", "x-envoy-", "x-forwarded", "x-sandbox-"];
    IDENTITY.binary_search(&name).is_ok() || PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

/// Max-Forwards for the next hop (RFC 9110 section 7.6.2); routing refuses what is not a number
/// above zero.
fn one_less(value: &[u8]) -> String {
    let text = String::from_utf8_lossy(value);
    text.parse::<u64>()
        .unwrap_or_default()
        .saturating_sub(1)
        .to_string()
}

#[cfg(test)]
mod tests;
