//! The request target as it may be recorded: without its query and without user information,
//! which may hold secrets.

use crate::{
    destination::Scheme,
    protocol::{RequestHead, Route},
    record::{Asked, Via},
};

/// What was asked by a request whose route is known.
pub(super) fn routed(via: Via, head: &RequestHead, route: &Route) -> Asked {
    let raw = raw_target(via, head);
    Asked {
        via,
        method: Some(head.method.to_string()),
        destination: Some(route.destination.clone()),
        target: Some(raw).filter(|raw| !is_canonical(raw, via, route)),
        path: route.path.as_ref().map(ToString::to_string),
    }
}

/// What was asked by a request that cannot be routed.
pub(super) fn unrouted(via: Via, head: &RequestHead) -> Asked {
    Asked {
        via,
        method: Some(head.method.to_string()),
        destination: None,
        target: Some(raw_target(via, head)),
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

/// On the transparent road Host says where to; everywhere else the request target does.
fn raw_target(via: Via, head: &RequestHead) -> String {
    let host = head.fields.all("host").next();
    match (via, host) {
        (Via::Host, Some(host)) => without_secrets(&String::from_utf8_lossy(host)),
        (Via::Host | Via::Connect | Via::Http | Via::Sni, _) => without_secrets(&head.target),
    }
}

fn is_canonical(raw: &str, via: Via, route: &Route) -> bool {
    let destination = &route.destination;
    let authority = destination.to_string();
    let host = destination.host.to_string();
    let path = route.path.as_deref().unwrap_or_default();
    match via {
        Via::Connect => raw == authority,
        Via::Host | Via::Sni => raw == host || raw == authority,
        Via::Http => {
            let written = raw
                .strip_prefix(Scheme::Http.as_str())
                .and_then(|raw| raw.strip_prefix("://"))
                .map_or(Some(raw), |raw| {
                    raw.strip_prefix(&authority)
                        .or_else(|| raw.strip_prefix(&host))
                });
            written.is_some_and(|written| written == path || (written.is_empty() && path == "/"))
        }
    }
}

/// The text without a query or fragment, and with `***` for user information.
fn without_secrets(raw: &str) -> String {
    let raw = raw.split(['?', '#']).next().unwrap_or_default();
    let (scheme, rest) = raw
        .split_once("://")
        .map_or(("", raw), |(scheme, rest)| (scheme, rest));
    let separator = if scheme.is_empty() { "" } else { "://" };
    let (authority, path) = rest.find('/').map_or((rest, ""), |at| rest.split_at(at));
    match authority.rsplit_once('@') {
        None => format!("{scheme}{separator}{authority}{path}"),
        Some((_, host)) => format!("{scheme}{separator}***@{host}{path}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_and_user_information_are_not_recorded() {
        for (raw, recorded) in [
            ("allowed.example:443", "allowed.example:443"),
            ("user:secret@allowed.example:443", "***@allowed.example:443"),
            ("a@b@allowed.example:443", "***@allowed.example:443"),
            ("http://h.example/p?token=x", "http://h.example/p"),
            ("http://h.example?token=x", "http://h.example"),
            ("http://h.example/#x", "http://h.example/"),
            ("http://u:p@h.example/a@b", "http://***@h.example/a@b"),
            ("/p@q?x", "/p@q"),
            ("://u:p@h", "***@h"),
        ] {
            assert_eq!(without_secrets(raw), recorded, "{raw}");
        }
    }
}
