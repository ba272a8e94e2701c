//! A destination as an operator writes it: in `[[tests]]`, and on the command line of `check`.

#[cfg(test)]
mod tests;

use std::net::Ipv6Addr;

use crate::destination::{Destination, Host, Scheme, parse_port, split_authority};

/// Reads `https://host/path`, `http://host`, `host:port`, or `host` for its port 443. Without a
/// scheme, port 80 means plain HTTP, as it does in a CONNECT. Path, query and fragment are read
/// over: policy judges the host and the port.
pub fn parse(text: &str) -> Result<Destination, String> {
    let wrong = |why: &str| format!("{text:?} is not a destination: {why}");
    if text.chars().any(|c| c.is_control() || c.is_whitespace()) {
        return Err(wrong("it has a space or a control character"));
    }
    if let Ok(address) = text.parse::<Ipv6Addr>() {
        return Err(wrong(&format!(
            "write an IPv6 address in brackets: [{address}]:443"
        )));
    }
    let (scheme, rest) = match text.split_once("://") {
        Some(("https", rest)) => (Some(Scheme::Https), rest),
        Some(("http", rest)) => (Some(Scheme::Http), rest),
        Some((scheme, _)) => {
            return Err(wrong(&format!("{scheme:?} is neither http nor https")));
        }
        None => (None, text),
    };
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at_checked(end).unwrap_or((rest, ""));
    if scheme.is_none() && !path.is_empty() {
        return Err(wrong(&format!("write https://{rest}")));
    }
    let (host, port) = split_authority(authority).map_err(|error| wrong(&error.to_string()))?;
    let host = Host::parse(host).map_err(|error| wrong(&error.to_string()))?;
    let port = port
        .map(parse_port)
        .transpose()
        .map_err(|error| wrong(&error.to_string()))?;
    let scheme = scheme.unwrap_or(match port {
        Some(80) => Scheme::Http,
        Some(_) | None => Scheme::Https,
    });
    let port = port.unwrap_or(match scheme {
        Scheme::Http => 80,
        Scheme::Https => 443,
    });
    Ok(Destination { scheme, host, port })
}
