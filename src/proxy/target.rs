//! The request target as it may be recorded: without its query and without user information,
//! which may hold secrets.

use std::borrow::Cow;

use crate::{
    destination::{Destination, Host, parse_port, split_authority},
    protocol::{RequestHead, Route},
    record::{Asked, MAX_FIELD, Via, encode::clipped},
};

/// What was asked by a request whose route is known.
pub(super) fn routed(via: Via, head: &RequestHead, route: &Route) -> Asked {
    let raw = raw_target(via, head);
    Asked {
        via,
        method: Some(kept(&head.method)),
        destination: Some(route.destination.clone()),
        target: (!is_canonical(&raw, via, route)).then(|| kept(&raw)),
        path: route.path.as_deref().map(kept),
    }
}

/// What was asked by a request that is not routed, though it may be known where it wants to go.
pub(super) fn unrouted(via: Via, head: &RequestHead, destination: Option<Destination>) -> Asked {
    Asked {
        via,
        method: Some(kept(&head.method)),
        destination,
        target: Some(kept(&raw_target(via, head))),
        path: None,
    }
}

/// What was asked when nothing of it could be read.
pub(super) fn unread(via: Via) -> Asked {
    Asked {
        via,
        method: None,
        destination: None,
        target: None,
        path: None,
    }
}

/// As much of a text as the record will show: it is kept as long as its exchange lasts.
fn kept(text: &str) -> String {
    if text.len() <= MAX_FIELD {
        return text.to_owned();
    }
    clipped(text, MAX_FIELD).to_string()
}

/// On the transparent road Host says where to; everywhere else the request target does.
fn raw_target(via: Via, head: &RequestHead) -> Cow<'_, str> {
    let host = if via == Via::Host {
        head.fields.all("host").next()
    } else {
        None
    };
    match host.map(String::from_utf8_lossy) {
        Some(Cow::Borrowed(host)) => without_secrets(host),
        Some(Cow::Owned(host)) => Cow::Owned(without_secrets(&host).into_owned()),
        None => without_secrets(&head.target),
    }
}

fn is_canonical(raw: &str, via: Via, route: &Route) -> bool {
    let destination = &route.destination;
    match via {
        Via::Connect => is_authority(raw, destination),
        Via::Host | Via::Sni => is_host(raw, destination) || is_authority(raw, destination),
        Via::Http => {
            let path = route.path.as_deref().unwrap_or_default();
            let written = match raw.strip_prefix("http://") {
                None => raw,
                Some(rest) => {
                    let end = rest.find('/').unwrap_or(rest.len());
                    let (authority, written) = rest.split_at_checked(end).unwrap_or((rest, ""));
                    if !is_host(authority, destination) && !is_authority(authority, destination) {
                        return false;
                    }
                    written
                }
            };
            written == path || (written.is_empty() && path == "/")
        }
    }
}

/// Whether this is how the host of `destination` is displayed.
fn is_host(text: &str, destination: &Destination) -> bool {
    match &destination.host {
        Host::Name(name) => text == name.as_str(),
        Host::Ip(_) => text == destination.host.to_string(),
    }
}

/// Whether this is how `destination` is displayed; a port is read in one spelling only.
fn is_authority(text: &str, destination: &Destination) -> bool {
    split_authority(text).is_ok_and(|(host, port)| {
        is_host(host, destination)
            && port.is_some_and(|port| parse_port(port) == Ok(destination.port))
    })
}

/// The text without its query or fragment, and with `***` for user information.
///
/// Security: a password may hold any of `/?#@`, so one that is not escaped looks like a path or a
/// query. Nothing before an `@` is kept, unless a plain authority shows that a path has begun; and
/// what follows an `@` behind a `?` or `#` may be a piece of a query.
fn without_secrets(raw: &str) -> Cow<'_, str> {
    let (scheme, rest) = split_scheme(raw);
    let end = rest.find(['?', '#']).unwrap_or(rest.len());
    let (before, query) = rest.split_at_checked(end).unwrap_or((rest, ""));
    let path_begins = if scheme.is_empty() {
        rest.starts_with('/')
    } else {
        is_plain(before.split('/').next().unwrap_or_default())
    };
    if path_begins || !rest.contains('@') {
        // Security: were it not at the end, nothing would be kept.
        return raw.strip_suffix(query).unwrap_or_default().into();
    }
    match before.rsplit_once('@') {
        Some((_, after)) if !query.contains('@') => format!("{scheme}***@{after}").into(),
        Some(_) | None => format!("{scheme}***").into(),
    }
}

/// The scheme with its `://` where it is one that we know, and the rest.
fn split_scheme(raw: &str) -> (&str, &str) {
    for length in ["http://".len(), "https://".len()] {
        if let Some((scheme, rest)) = raw.split_at_checked(length)
            && (scheme.eq_ignore_ascii_case("http://") || scheme.eq_ignore_ascii_case("https://"))
        {
            return (scheme, rest);
        }
    }
    ("", raw)
}

/// Whether this is `host[:port]` and nothing else.
fn is_plain(authority: &str) -> bool {
    split_authority(authority).is_ok_and(|(host, port)| {
        Host::parse(host).is_ok() && port.is_none_or(|port| parse_port(port).is_ok())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::{route_absolute, route_connect, route_origin};

    #[test]
    fn queries_and_user_information_are_not_recorded() {
        for (raw, recorded) in [
            ("allowed.example:443", "allowed.example:443"),
            ("user:secret@allowed.example:443", "***@allowed.example:443"),
            ("a@b@allowed.example:443", "***@allowed.example:443"),
            ("http://h.example/p?token=x", "http://h.example/p"),
            ("http://h.example?token=x", "http://h.example"),
            ("http://h.example/#x", "http://h.example/"),
            ("http://h.example:80/a@b?c@d", "http://h.example:80/a@b"),
            ("HTTP://[2001:db8::1]/a@b", "HTTP://[2001:db8::1]/a@b"),
            ("ftp://h.example/p", "ftp://h.example/p"),
            ("/p@q?x", "/p@q"),
            ("*", "*"),
        ] {
            assert_eq!(without_secrets(raw), recorded, "{raw}");
        }
    }

    #[test]
    fn nothing_of_a_password_with_reserved_characters_is_recorded() {
        for (raw, recorded) in [
            ("user:pa/ss@h:443", "***@h:443"),
            ("user:12/34@h:443", "***@h:443"),
            ("user:se#cret@h:443", "***"),
            ("user:pa://ss@h:443", "***@h:443"),
            ("u:p/w@h", "***@h"),
            ("h:443?token=a@b", "***"),
            (
                "http://user:pa/ss@allowed.example/",
                "http://***@allowed.example/",
            ),
            ("http://user:sec?ret@allowed.example/", "http://***"),
            ("http://user:sec#ret@allowed.example/", "http://***"),
            ("http://u:p@ss/w@h.example/", "http://***@h.example/"),
            ("http://u:p@h.example/?mail=a@b", "http://***"),
            ("http://u:p@h.example/a?token=x", "http://***@h.example/a"),
            ("https://u:p/w@h.example/", "https://***@h.example/"),
            ("ftp://u:p@h.example/", "***@h.example/"),
            ("://u:p@h", "***@h"),
        ] {
            assert_eq!(without_secrets(raw), recorded, "{raw}");
        }
    }

    fn parsed(target: &str, host: &str) -> RequestHead {
        let method = if target.contains('/') {
            "GET"
        } else {
            "CONNECT"
        };
        let request = format!("{method} {target} HTTP/1.1\r\nHost: {host}\r\n\r\n");
        RequestHead::parse(request.as_bytes(), 65_536)
            .unwrap()
            .unwrap()
            .0
    }

    #[test]
    fn a_target_is_recorded_where_it_is_not_the_destination_as_displayed() {
        for (target, host, is_recorded) in [
            ("allowed.example:443", "allowed.example", false),
            ("[2001:db8::1]:443", "[2001:db8::1]", false),
            ("192.0.2.1:443", "192.0.2.1", false),
            ("Allowed.example:443", "allowed.example", true),
            ("allowed.example.:443", "allowed.example", true),
            ("[2001:DB8::1]:443", "[2001:db8::1]", true),
            ("[2001:db8:0::1]:443", "[2001:db8::1]", true),
            ("http://h.example/p", "h.example", false),
            ("http://h.example/p?token=x", "h.example", false),
            ("http://h.example:80/p/q", "h.example", false),
            ("http://h.example:8080", "h.example:8080", false),
            ("http://h.example:8080/", "h.example:8080", false),
            ("http://h.example", "h.example", false),
            ("http://h.example?token=x", "h.example", false),
            ("HTTP://h.example/p", "h.example", true),
            ("http://H.example/p", "h.example", true),
            ("http://h.example./p", "h.example", true),
        ] {
            let head = parsed(target, host);
            let (via, route) = if target.contains('/') {
                (Via::Http, route_absolute(&head))
            } else {
                (Via::Connect, route_connect(&head))
            };
            let asked = routed(via, &head, &route.unwrap());
            let recorded = is_recorded.then(|| target.to_owned());
            assert_eq!(asked.target, recorded, "{target}");
        }
    }

    #[test]
    fn a_host_is_recorded_where_it_is_not_the_destination_as_displayed() {
        for (host, recorded) in [
            ("h.example", None),
            ("h.example:80", None),
            ("[2001:db8::1]", None),
            ("H.example", Some("H.example")),
            ("h.example.:80", Some("h.example.:80")),
        ] {
            let head = parsed("/p", host);
            let asked = routed(Via::Host, &head, &route_origin(&head, None).unwrap());
            assert_eq!(asked.target.as_deref(), recorded, "{host}");
        }
        let head = parsed("/p?q", "h.example");
        let route = route_origin(&head, None).unwrap();
        assert_eq!(routed(Via::Http, &head, &route).target, None);
    }

    #[test]
    fn a_long_target_is_kept_only_as_far_as_it_is_recorded() {
        let request = format!("GET http://h.example/{} HTTP/1.0\r\n\r\n", "x".repeat(9999));
        let parsed = RequestHead::parse(request.as_bytes(), 65_536).unwrap();
        let asked = unrouted(Via::Http, &parsed.unwrap().0, None);
        let target = asked.target.unwrap();
        assert!(target.len() < MAX_FIELD + 32, "{} bytes", target.len());
        assert!(target.ends_with("…(10016 bytes)"), "{target}");
        assert_eq!(kept(&target), target, "cut once");
    }
}
