//! Patterns of hosts and ports as an operator writes them.

use std::fmt;

use crate::destination::{Destination, Host, HostError, Name};

/// Which hosts, compared label by label.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum HostPattern {
    /// `api.example.com` or an IP literal: that host and no other.
    Exact(Host),
    /// `*.example.com`: every name below, at any depth, not the name itself.
    Below(Name),
    /// `.example.com`: the name itself and every name below.
    AtOrBelow(Name),
}

/// Which ports.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Ports {
    /// An allow without port or scheme: 443 and 80.
    Web,
    /// A deny without port or scheme: every port and scheme.
    Any,
    /// `http://host[:PORT]`: that port or 80, plain HTTP only.
    Http(u16),
    /// `https://host[:PORT]`: that port or 443, a tunnel only.
    Https(u16),
    /// `host:PORT`, or the `ports` of a rule.
    Listed(Vec<u16>),
}

/// A host pattern with its ports.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Pattern {
    /// Which hosts.
    pub hosts: HostPattern,
    /// Which ports.
    pub ports: Ports,
}

/// Why text is not a pattern; the message says what to write instead.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    /// The host part is not acceptable.
    #[error(transparent)]
    Host(#[from] HostError),
    // the helper adds the rest: catch-all, public suffix (named), star inside, never-allowed
    // name, bad port, path after the host, unknown scheme, special name under a wildcard
}

impl Pattern {
    /// Reads an entry of an `allow` list.
    pub fn parse_allow(text: &str) -> Result<Self, PatternError> {
        let _ = text;
        todo!()
    }

    /// Reads an entry of a `deny` list: without port or scheme it covers every port and scheme,
    /// and a wildcard may stand over a public suffix.
    pub fn parse_deny(text: &str) -> Result<Self, PatternError> {
        let _ = text;
        todo!()
    }

    /// Whether the pattern covers `destination`. The index answers the same without a scan.
    pub fn matches(&self, destination: &Destination) -> bool {
        let _ = destination;
        todo!()
    }
}

impl fmt::Display for Pattern {
    /// As it would be written in the list it came from.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let _ = f;
        todo!()
    }
}
