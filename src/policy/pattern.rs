//! Patterns of hosts and ports as an operator writes them.

mod parse;

use std::fmt;

use crate::destination::{AuthorityError, Destination, Host, HostError, Name, Scheme};

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
    /// The port is not acceptable, or there is userinfo.
    #[error(transparent)]
    Authority(AuthorityError),
    /// Nothing is there.
    #[error("the pattern is empty: write a host, for example api.example.com")]
    Empty,
    /// White space or a control character.
    #[error("a pattern has no blanks or control characters: write one host")]
    Blank,
    /// `*`, `*.*`, `.`: all there is.
    #[error("a catch-all is not accepted: name the hosts, or a wildcard over a domain of yours")]
    CatchAll,
    /// `a.*.example`, `api*.example`.
    #[error("a star stands only in front of a whole domain, as in *.example.com")]
    Star,
    /// Under a public suffix (publicsuffix.org, private section included) anyone gets a name.
    #[error(
        "{0} is a public suffix, under which strangers get names of their own: name hosts, or write a wildcard over a domain below it"
    )]
    PublicSuffix(String),
    /// `localhost`, and the names and addresses of cloud metadata.
    #[error("{0} leads to the machine itself or to its cloud's credentials and is never allowed")]
    NeverAllowed(Host),
    /// Names of the local site match no wildcard.
    #[error("names in {0} belong to the local site and match no wildcard: write each name out")]
    SpecialZone(&'static str),
    /// Something other than `http://` and `https://`.
    #[error("{0}:// is not a scheme that is known here: write http://, https:// or host:port")]
    UnknownScheme(String),
    /// A path, a query or a fragment after the host.
    #[error(
        "a pattern ends with the host or port, since HTTPS cannot be judged by its path: write {0}"
    )]
    Path(String),
    /// A CIDR range where a host belongs.
    #[error(
        "{0} is a range of addresses, not a host: give a rule with the host's name these `addresses`, or block the range in `addresses.blocked`"
    )]
    Range(String),
    /// An address in a spelling that is not its own.
    #[error("an address is written in its canonical form: write {0}")]
    NotCanonical(String),
    /// `2001:db8::1:443` is an address, and is an address with a port.
    #[error("it is not clear where the address ends: write {0} or {1}")]
    AmbiguousPort(String, String),
}

impl From<AuthorityError> for PatternError {
    fn from(error: AuthorityError) -> Self {
        match error {
            AuthorityError::Host(error) => Self::Host(error),
            AuthorityError::MissingPort | AuthorityError::BadPort | AuthorityError::Userinfo => {
                Self::Authority(error)
            }
        }
    }
}

impl Pattern {
    /// Reads an entry of an `allow` list.
    pub fn parse_allow(text: &str) -> Result<Self, PatternError> {
        let pattern = parse::pattern(text, Ports::Web)?;
        parse::check_allow(&pattern.hosts)?;
        Ok(pattern)
    }

    /// Reads an entry of a `deny` list: without port or scheme it covers every port and scheme,
    /// and a wildcard may stand over a public suffix.
    pub fn parse_deny(text: &str) -> Result<Self, PatternError> {
        parse::pattern(text, Ports::Any)
    }

    /// Whether the pattern covers `destination`. The index answers the same without a scan; that
    /// an allowing wildcard spares special names is for the policy to say.
    pub fn matches(&self, destination: &Destination) -> bool {
        self.hosts.matches(&destination.host)
            && self.ports.cover(destination.scheme, destination.port)
    }
}

impl fmt::Display for Pattern {
    /// As it would be written in the list it came from.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hosts = &self.hosts;
        match &self.ports {
            Ports::Web | Ports::Any => hosts.fmt(f),
            Ports::Http(80) => write!(f, "http://{hosts}"),
            Ports::Https(443) => write!(f, "https://{hosts}"),
            Ports::Http(port) => write!(f, "http://{hosts}:{port}"),
            Ports::Https(port) => write!(f, "https://{hosts}:{port}"),
            ports @ Ports::Listed(_) => write!(f, "{hosts}:{ports}"),
        }
    }
}

impl HostPattern {
    /// Whether the pattern covers `host`. A v4-mapped literal is the IPv4 address that it maps.
    pub fn matches(&self, host: &Host) -> bool {
        match (self, host) {
            (Self::Exact(Host::Ip(own)), Host::Ip(other)) => {
                own.to_canonical() == other.to_canonical()
            }
            (Self::Exact(own), other) => own == other,
            (Self::AtOrBelow(base), Host::Name(name)) => name.is_at_or_below(base.as_str()),
            (Self::Below(base), Host::Name(name)) => {
                name != base && name.is_at_or_below(base.as_str())
            }
            (Self::Below(_) | Self::AtOrBelow(_), Host::Ip(_)) => false,
        }
    }
}

impl fmt::Display for HostPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exact(host) => host.fmt(f),
            Self::Below(base) => write!(f, "*.{base}"),
            Self::AtOrBelow(base) => write!(f, ".{base}"),
        }
    }
}

impl Ports {
    /// Whether `port`, spoken to by `scheme`, is among them.
    pub fn cover(&self, scheme: Scheme, port: u16) -> bool {
        match self {
            Self::Any => true,
            Self::Web => port == 443 || port == 80,
            Self::Http(own) => scheme == Scheme::Http && port == *own,
            Self::Https(own) => scheme == Scheme::Https && port == *own,
            Self::Listed(own) => own.contains(&port),
        }
    }

    /// Every port and scheme; none for `Any`, which is all of them.
    pub fn listed(&self) -> Option<Vec<(u16, Scheme)>> {
        let both = |ports: &[u16]| {
            ports
                .iter()
                .flat_map(|port| [(*port, Scheme::Http), (*port, Scheme::Https)])
                .collect()
        };
        match self {
            Self::Any => None,
            Self::Web => Some(both(&[443, 80])),
            Self::Http(port) => Some(vec![(*port, Scheme::Http)]),
            Self::Https(port) => Some(vec![(*port, Scheme::Https)]),
            Self::Listed(ports) => Some(both(ports)),
        }
    }
}

impl fmt::Display for Ports {
    /// As in a sentence, and as after the colon of a pattern: `443,80`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => f.write_str("every port"),
            Self::Web => f.write_str("443,80"),
            Self::Http(port) => write!(f, "{port} by http://"),
            Self::Https(port) => write!(f, "{port} by https://"),
            Self::Listed(ports) => {
                for (at, port) in ports.iter().enumerate() {
                    let comma = if at == 0 { "" } else { "," };
                    write!(f, "{comma}{port}")?;
                }
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests;
