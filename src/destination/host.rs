//! The only parser of hosts: a DNS name or an IP literal, normalised once.

use std::{
    borrow::Borrow,
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    sync::Arc,
};

/// A host in canonical form; equal hosts are equal values.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Host {
    /// A DNS name.
    Name(Name),
    /// An IP literal.
    Ip(IpAddr),
}

/// A DNS name in canonical form: lower case, no final dot, at most 253 octets (RFC 1035 section
/// 2.3.4), labels of letters, digits, hyphens and underscores.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Name(Arc<str>);

/// Why text is not a host that this proxy accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HostError {
    /// Nothing is there.
    #[error("the host is empty")]
    Empty,
    /// RFC 1035 section 2.3.4: 63 octets a label, 253 in all.
    #[error("the host is longer than a DNS name can be")]
    TooLong,
    /// A label is empty: two dots in a row, or a leading dot.
    #[error("the host has an empty label")]
    EmptyLabel,
    /// A character that is not a letter, digit, hyphen or underscore (IDN: write the xn-- form).
    #[error(
        "the host has a character that a DNS name cannot have; write an internationalised name in its xn-- form"
    )]
    Character,
    /// RFC 952, RFC 1123 section 2.1: a label neither begins nor ends with a hyphen.
    #[error("a label of the host begins or ends with a hyphen")]
    Hyphen,
    /// `2130706433`, `0x7f.1`, `127.1`: some resolvers read these as addresses, so we read none.
    #[error("the host looks like an address but is not one in canonical form")]
    Numeric,
    /// Brackets hold an IPv6 address and nothing else (RFC 3986 section 3.2.2).
    #[error("brackets hold only an IPv6 address without a zone")]
    Brackets,
}

impl Host {
    /// Reads a host as it stands in an authority: a name, a dotted-quad IPv4 address, or an IPv6
    /// address in brackets. One final dot of a name is removed.
    pub fn parse(text: &str) -> Result<Self, HostError> {
        if let Some(rest) = text.strip_prefix('[') {
            let inner = rest.strip_suffix(']').ok_or(HostError::Brackets)?;
            let address: Ipv6Addr = inner.parse().map_err(|_| HostError::Brackets)?;
            return Ok(Self::Ip(address.into()));
        }
        if let Ok(address) = text.parse::<Ipv4Addr>() {
            return Ok(Self::Ip(address.into()));
        }
        Name::parse(text).map(Self::Name)
    }

    /// The DNS name, unless this is an IP literal.
    pub fn name(&self) -> Option<&Name> {
        match self {
            Self::Name(name) => Some(name),
            Self::Ip(_) => None,
        }
    }
}

impl fmt::Display for Host {
    /// As in an authority: an IPv6 address stands in brackets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => name.fmt(f),
            Self::Ip(IpAddr::V4(address)) => address.fmt(f),
            Self::Ip(IpAddr::V6(address)) => write!(f, "[{address}]"),
        }
    }
}

impl Name {
    /// Reads a DNS name; upper case is folded and one final dot removed.
    pub fn parse(text: &str) -> Result<Self, HostError> {
        let text = text.strip_suffix('.').unwrap_or(text);
        if text.is_empty() {
            return Err(HostError::Empty);
        }
        if text.len() > 253 {
            return Err(HostError::TooLong);
        }
        let mut last: &[u8] = b"";
        for label in text.as_bytes().split(|octet| *octet == b'.') {
            check_label(label)?;
            last = label;
        }
        let hexadecimal = last.starts_with(b"0x") || last.starts_with(b"0X");
        if hexadecimal || last.iter().all(u8::is_ascii_digit) {
            return Err(HostError::Numeric);
        }
        // Most names come in lower case, and are copied once.
        Ok(Self(
            if text.bytes().any(|octet| octet.is_ascii_uppercase()) {
                text.to_ascii_lowercase().into()
            } else {
                text.into()
            },
        ))
    }

    /// The canonical text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether this name has no dot: such a name is never looked up by a search list here.
    pub fn is_single_label(&self) -> bool {
        self.top_level().len() == self.0.len()
    }

    /// This name and every name above it, nearest first: `a.b.c`, `b.c`, `c`.
    pub fn ancestors(&self) -> impl Iterator<Item = &str> {
        std::iter::successors(Some(&*self.0), |name| {
            name.split_once('.').map(|(_, parent)| parent)
        })
    }

    /// How many labels it has, 1 to 127.
    pub fn label_count(&self) -> usize {
        1 + self.0.bytes().filter(|byte| *byte == b'.').count()
    }

    /// Whether this name is `zone` itself or lies below it, compared label by label.
    pub fn is_at_or_below(&self, zone: &str) -> bool {
        match self.0.strip_suffix(zone) {
            Some(above) => above.is_empty() || above.ends_with('.'),
            None => false,
        }
    }

    /// Names that belong to the local site or host and so match no wildcard: those in a special
    /// zone, and names without a dot.
    pub fn is_special(&self) -> bool {
        self.is_single_label() || self.special_zone().is_some()
    }

    /// The zone of the local site or host that holds this name: the special-use names (IANA
    /// Special-Use Domain Names registry, RFC 6761) that resolvers treat locally, and their kind.
    /// `example` and `test` stay ordinary: they lead nowhere.
    pub fn special_zone(&self) -> Option<&'static str> {
        /// RFC 6761, 6762, 7686, 9476; `internal` by ICANN resolution 2024.07.29.06; the others
        /// are common in private networks (ICANN SAC113, RFC 6762 G).
        const TOP_LEVEL: &[&str] = &[
            "localhost",
            "local",
            "internal",
            "onion",
            "invalid",
            "alt",
            "intranet",
            "private",
            "corp",
            "home",
            "lan",
            "localdomain",
        ];
        /// RFC 6761, 8375, 8880, 9462, 9665.
        const BELOW_ARPA: &[&str] = &[
            "home.arpa",
            "in-addr.arpa",
            "ip6.arpa",
            "ipv4only.arpa",
            "resolver.arpa",
            "service.arpa",
        ];
        match self.top_level() {
            "arpa" => BELOW_ARPA
                .iter()
                .copied()
                .find(|zone| self.is_at_or_below(zone)),
            top => TOP_LEVEL.iter().copied().find(|zone| *zone == top),
        }
    }

    /// `localhost` and the names of cloud metadata services, which no entry may name.
    pub fn is_never_allowed(&self) -> bool {
        let names: &[&str] = match self.top_level() {
            "localhost" | "metadata" | "instance-data" => return true,
            "internal" => &[
                "metadata.google.internal",
                "metadata.azure.internal",
                "instance-data.ec2.internal",
            ],
            "goog" => &["metadata.goog"],
            "com" => &[
                "metadata.azure.com",
                "metadata.tencentyun.com",
                "metadata.platformequinix.com",
            ],
            "net" => &["metadata.packet.net"],
            _ => &[],
        };
        names.iter().any(|zone| self.is_at_or_below(zone))
    }

    /// The last label. It is short, so that looking for its dot from the end is quick.
    fn top_level(&self) -> &str {
        let dot = self.0.bytes().rposition(|octet| octet == b'.');
        dot.and_then(|dot| self.0.get(dot + 1..)).unwrap_or(&self.0)
    }
}

impl Borrow<str> for Name {
    /// A table keyed by names can be asked with any of a name's ancestors.
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn check_label(label: &[u8]) -> Result<(), HostError> {
    if label.is_empty() {
        return Err(HostError::EmptyLabel);
    }
    if label.len() > 63 {
        return Err(HostError::TooLong);
    }
    if !label
        .iter()
        .all(|octet| octet.is_ascii_alphanumeric() || matches!(octet, b'-' | b'_'))
    {
        return Err(HostError::Character);
    }
    if label.starts_with(b"-") || label.ends_with(b"-") {
        return Err(HostError::Hyphen);
    }
    Ok(())
}

#[cfg(test)]
mod tests;
