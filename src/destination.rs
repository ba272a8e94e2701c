//! Where a request wants to go: a host, a port and the way it will be spoken to.

pub mod address;
pub mod guard;
pub mod host;

use std::fmt;

pub use self::{
    address::AddressClass,
    guard::{AddressGuard, BlockedAddress, Surroundings, VettedAddrs},
    host::{Host, HostError, Name},
};

/// How the origin is spoken to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Scheme {
    /// Plain HTTP, judged request by request.
    Http,
    /// A tunnel: TLS, or anything at all where the rule says `opaque`.
    Https,
}

impl Scheme {
    /// The scheme as it stands in a URL, without `://`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
        }
    }
}

/// What policy judges: one host, one port, one scheme.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Destination {
    /// How the origin is spoken to.
    pub scheme: Scheme,
    /// The origin's name or address, in canonical form.
    pub host: Host,
    /// The origin's TCP port, 1 to 65535.
    pub port: u16,
}

impl Destination {
    /// Reads `host:port` as RFC 9110 section 7.1 writes an authority, without userinfo. The port
    /// is required.
    pub fn parse_authority(scheme: Scheme, text: &str) -> Result<Self, AuthorityError> {
        let (host, port) = split_authority(text)?;
        let port = port.ok_or(AuthorityError::MissingPort)?;
        Ok(Self {
            scheme,
            host: Host::parse(host)?,
            port: parse_port(port)?,
        })
    }
}

impl fmt::Display for Destination {
    /// `host:port`, with brackets around an IPv6 address.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

/// Why text is not an authority that this proxy accepts.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AuthorityError {
    /// The host part is not acceptable.
    #[error(transparent)]
    Host(#[from] HostError),
    /// There is no `:port`.
    #[error("the port is missing: write host:port, for example example.com:443")]
    MissingPort,
    /// The port is not 1 to 65535 in plain decimal digits.
    #[error("the port is not a number from 1 to 65535")]
    BadPort,
    /// `user@host` is never accepted.
    #[error("user information before the host is not accepted")]
    Userinfo,
}

/// Splits `host[:port]` without judging either part; an IPv6 address keeps its brackets.
pub fn split_authority(text: &str) -> Result<(&str, Option<&str>), AuthorityError> {
    let octets = text.as_bytes();
    if octets.contains(&b'@') {
        return Err(AuthorityError::Userinfo);
    }
    let after_host = match memchr::memrchr(b']', octets) {
        Some(bracket) => bracket + 1,
        None => memchr::memchr(b':', octets).unwrap_or(text.len()),
    };
    let (host, rest) = text
        .split_at_checked(after_host)
        .ok_or(AuthorityError::BadPort)?;
    match rest.strip_prefix(':') {
        Some(port) => Ok((host, Some(port))),
        None if rest.is_empty() => Ok((host, None)),
        None => Err(AuthorityError::BadPort),
    }
}

/// A port: one to five ASCII digits, no sign, no leading zero, 1 to 65535.
pub fn parse_port(text: &str) -> Result<u16, AuthorityError> {
    let plain = (1..=5).contains(&text.len())
        && text.bytes().all(|b| b.is_ascii_digit())
        && !text.starts_with('0');
    if !plain {
        return Err(AuthorityError::BadPort);
    }
    text.parse().map_err(|_| AuthorityError::BadPort)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// What is nearly a host, and often one.
    fn nearly_a_host() -> impl Strategy<Value = String> {
        prop_oneof![
            "[a-zA-Z0-9_-]{1,6}(\\.[a-zA-Z0-9_-]{1,6}){0,3}\\.?",
            "[0-9a-fx.]{1,12}",
            any::<std::net::IpAddr>().prop_map(|address| match address {
                std::net::IpAddr::V4(v4) => v4.to_string(),
                std::net::IpAddr::V6(v6) => format!("[{v6}]"),
            }),
            "\\[[0-9a-fA-F:.%]{2,16}\\]",
            "\\PC{0,12}",
        ]
    }

    proptest! {
        #[test]
        fn what_is_parsed_is_shown_as_what_parses_to_it(
            host in nearly_a_host(),
            port in "[0-9+]{0,6}",
        ) {
            let Ok(parsed) = Host::parse(&host) else { return Ok(()) };
            let shown = parsed.to_string();
            prop_assert_eq!(Host::parse(&shown), Ok(parsed.clone()));
            // In another case, and a name with its final dot, it is the same host.
            prop_assert_eq!(Host::parse(&host.to_ascii_uppercase()), Ok(parsed.clone()));
            if parsed.name().is_some() {
                prop_assert_eq!(Host::parse(&format!("{shown}.")), Ok(parsed.clone()));
            }
            let authority = format!("{host}:{port}");
            let destination = Destination::parse_authority(Scheme::Https, &authority);
            prop_assert_eq!(destination.is_ok(), parse_port(&port).is_ok(), "{}", authority);
            if let Ok(destination) = destination {
                prop_assert_eq!(&destination.host, &parsed);
                let again = Destination::parse_authority(Scheme::Https, &destination.to_string());
                prop_assert_eq!(again, Ok(destination));
            }
        }
    }

    #[test]
    fn an_authority_is_a_host_and_a_plain_port() {
        for text in ["allowed.example:443", "192.0.2.1:1", "[2001:db8::1]:65535"] {
            let destination = Destination::parse_authority(Scheme::Https, text).unwrap();
            assert_eq!(destination.to_string(), text);
        }
    }

    #[test]
    fn odd_ports_and_hosts_are_refused() {
        for (text, expected) in [
            ("allowed.example", AuthorityError::MissingPort),
            ("allowed.example:", AuthorityError::BadPort),
            ("allowed.example:0", AuthorityError::BadPort),
            ("allowed.example:0443", AuthorityError::BadPort),
            ("allowed.example:+443", AuthorityError::BadPort),
            ("allowed.example:65536", AuthorityError::BadPort),
            ("allowed.example:65979", AuthorityError::BadPort),
            ("allowed.example:4294967739", AuthorityError::BadPort),
            ("allowed.example:443:80", AuthorityError::BadPort),
            ("[::1]tail:443", AuthorityError::BadPort),
            ("a@allowed.example:443", AuthorityError::Userinfo),
            ("a@b@allowed.example:443", AuthorityError::Userinfo),
        ] {
            let found = Destination::parse_authority(Scheme::Https, text);
            assert_eq!(found, Err(expected), "{text}");
        }
    }
}
