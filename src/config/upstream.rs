//! `resolver.servers`: where names are looked up.

#[cfg(test)]
mod tests;

use std::{
    fmt,
    net::{IpAddr, SocketAddr},
};

use super::Upstream;
use crate::destination::{Host, parse_port, split_authority};

/// What belongs in the list, for messages.
pub(super) const EXPECTED: &str =
    "\"system\", udp://IP[:PORT], tls://IP[:PORT]#NAME or https://IP[:PORT]/dns-query#NAME";

/// Reads one server.
pub(super) fn parse(text: &str) -> Result<Upstream, String> {
    if text == "system" {
        return Ok(Upstream::System);
    }
    let Some((scheme, rest)) = text.split_once("://") else {
        return Err(match text.parse::<IpAddr>() {
            Ok(address) => format!(
                "{text:?} has no scheme; write \"udp://{}\"",
                Host::Ip(address)
            ),
            Err(_) => format!("{text:?} is not a server; write {EXPECTED}"),
        });
    };
    match scheme {
        "udp" => Ok(Upstream::Udp(address(text, rest, 53)?)),
        "tls" => {
            let (rest, name) = split_name(text, rest)?;
            Ok(Upstream::Tls {
                address: address(text, rest, 853)?,
                name: name.into(),
            })
        }
        "https" => {
            let (rest, name) = split_name(text, rest)?;
            let Some(slash) = rest.find('/') else {
                return Err(format!(
                    "{text:?} has no path; write \"https://{rest}/dns-query#{name}\""
                ));
            };
            let (authority, path) = rest.split_at_checked(slash).unwrap_or((rest, ""));
            Ok(Upstream::Https {
                address: address(text, authority, 443)?,
                name: name.into(),
                path: url_path(text, path)?.into(),
            })
        }
        _ => Err(format!("{text:?} has an unknown scheme; write {EXPECTED}")),
    }
}

/// Splits off `#NAME`: the server is dialled by address, so its certificate needs a name.
fn split_name<'t>(text: &str, rest: &'t str) -> Result<(&'t str, String), String> {
    let Some((rest, name)) = rest.split_once('#') else {
        return Err(format!(
            "{text:?} does not say which name the server's certificate must bear; write \
             \"{text}#NAME\""
        ));
    };
    match Host::parse(name) {
        Ok(Host::Name(name)) => Ok((rest, name.as_str().to_owned())),
        Ok(Host::Ip(address)) => Ok((rest, address.to_string())),
        Err(error) => Err(format!(
            "the certificate name {name:?} of {text:?} is wrong: {error}"
        )),
    }
}

fn address(text: &str, authority: &str, default_port: u16) -> Result<SocketAddr, String> {
    let wrong = |why: String| format!("{text:?} is not a server: {why}; write {EXPECTED}");
    let (host, port) = split_authority(authority).map_err(|error| wrong(error.to_string()))?;
    let port = match port {
        Some(port) => parse_port(port).map_err(|error| wrong(error.to_string()))?,
        None => default_port,
    };
    match Host::parse(host) {
        Ok(Host::Ip(ip)) if ip.is_unspecified() || ip.is_multicast() => {
            Err(wrong(format!("{ip} is no server's address")))
        }
        Ok(Host::Ip(ip)) => Ok(SocketAddr::new(ip, port)),
        Ok(Host::Name(name)) => Err(wrong(format!(
            "{name} is a name, and there is nothing to look it up with"
        ))),
        Err(error) => Err(wrong(error.to_string())),
    }
}

/// A path of visible ASCII without a query (RFC 8484 section 4.1 takes POST to it).
fn url_path<'t>(text: &str, path: &'t str) -> Result<&'t str, String> {
    let plain = |byte: u8| byte.is_ascii_graphic() && !b"?#\"<>\\^`{|}".contains(&byte);
    if path.bytes().all(plain) {
        Ok(path)
    } else {
        Err(format!(
            "the path {path:?} of {text:?} has a character that a path cannot have"
        ))
    }
}

impl fmt::Display for Upstream {
    /// As it would be written in `resolver.servers`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::System => f.write_str("system"),
            Self::Udp(address) => write!(f, "udp://{address}"),
            Self::Tls { address, name } => write!(f, "tls://{address}#{name}"),
            Self::Https {
                address,
                name,
                path,
            } => write!(f, "https://{address}{path}#{name}"),
        }
    }
}
