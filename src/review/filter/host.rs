//! Whether a host is one that is asked for.

use crate::{
    destination::Host,
    policy::{HostPattern, Pattern, Ports},
};

/// A pattern, and what every host that it matches ends in.
#[derive(Debug)]
pub(super) struct HostTest {
    pattern: Pattern,
    /// None for an address, which has more than one spelling.
    end: Option<Box<[u8]>>,
}

impl HostTest {
    pub(super) fn of(pattern: &Pattern) -> Self {
        let name = match &pattern.hosts {
            HostPattern::Exact(host) => host.name(),
            HostPattern::Below(name) | HostPattern::AtOrBelow(name) => Some(name),
        };
        Self {
            end: name.map(|name| name.as_str().as_bytes().into()),
            pattern: pattern.clone(),
        }
    }

    /// Whether it can match `host` at all, as cheaply as can be told.
    pub(super) fn is_near(&self, host: &[u8]) -> bool {
        let Some(end) = &self.end else {
            return host
                .iter()
                .all(|b| b.is_ascii_hexdigit() || b".:[]".contains(b));
        };
        let host = host.strip_suffix(b".").unwrap_or(host);
        let at = host.len().checked_sub(end.len());
        let own = at.and_then(|at| host.get(at..));
        own.is_some_and(|own| own.eq_ignore_ascii_case(end))
    }

    /// A query has no port.
    pub(super) fn covers(&self, host: &Host, port: Option<u16>) -> bool {
        let has_port = match &self.pattern.ports {
            Ports::Any | Ports::Web => true,
            Ports::Http(own) | Ports::Https(own) => port == Some(*own),
            Ports::Listed(own) => port.is_some_and(|port| own.contains(&port)),
        };
        has_port && self.pattern.hosts.matches(host)
    }
}
