//! Reads patterns: `api.example.com`, `*.example.com`, `.example.com`, each with `:PORT`,
//! `http://` or `https://`.

use std::net::{IpAddr, Ipv6Addr};

use ipnet::IpNet;

use super::{HostPattern, Pattern, PatternError, Ports};
use crate::destination::{
    AddressClass, Host, Name, Scheme, address::classify, parse_port, split_authority,
};

/// Reads a pattern; `bare` are its ports when it names neither port nor scheme.
pub(super) fn pattern(text: &str, bare: Ports) -> Result<Pattern, PatternError> {
    if text.trim().is_empty() {
        return Err(PatternError::Empty);
    }
    if text.contains(|c: char| c.is_whitespace() || c.is_control()) {
        return Err(PatternError::Blank);
    }
    let (scheme, rest) = split_scheme(text)?;
    refuse_path(rest)?;
    refuse_stray_star(rest)?;
    let (hosts, port) = split_hosts(rest)?;
    let ports = match (scheme, port) {
        (None, None) => bare,
        (None, Some(port)) => Ports::Listed(vec![port]),
        (Some(Scheme::Http), port) => Ports::Http(port.unwrap_or(80)),
        (Some(Scheme::Https), port) => Ports::Https(port.unwrap_or(443)),
    };
    Ok(Pattern { hosts, ports })
}

/// Refuses what an allow must not name, however it is spelled.
pub(super) fn check_allow(hosts: &HostPattern) -> Result<(), PatternError> {
    let (name, is_wildcard) = match hosts {
        HostPattern::Exact(Host::Ip(address)) => return check_allowed_literal(*address),
        HostPattern::Exact(Host::Name(name)) => (name, false),
        HostPattern::Below(base) | HostPattern::AtOrBelow(base) => (base, true),
    };
    // Security: loopback and metadata names stay closed, also as the base of a wildcard.
    if name.is_never_allowed() {
        return Err(PatternError::NeverAllowed(Host::Name(name.clone())));
    }
    let suffix = || PatternError::PublicSuffix(name.to_string());
    if !is_wildcard {
        let is_bare = name.is_single_label() && is_public_suffix(name.as_str(), Unlisted::Spare);
        return if is_bare { Err(suffix()) } else { Ok(()) };
    }
    if let Some(zone) = name.special_zone() {
        return Err(PatternError::SpecialZone(zone));
    }
    // `*.elb.amazonaws.com` in the list makes every name below its base a public suffix.
    let below = format!("some-label.{name}");
    if is_public_suffix(name.as_str(), Unlisted::Count) || is_public_suffix(&below, Unlisted::Spare)
    {
        return Err(suffix());
    }
    Ok(())
}

/// The address guard refuses a cloud's control address in any case; saying so here is kinder.
fn check_allowed_literal(address: IpAddr) -> Result<(), PatternError> {
    match classify(address, &[]) {
        AddressClass::Metadata(_) => Err(PatternError::NeverAllowed(Host::Ip(address))),
        AddressClass::Public | AddressClass::Special(_) => Ok(()),
    }
}

/// What to make of a top-level domain under no rule of the list but its default `*`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Unlisted {
    /// It is somebody's all the same.
    Count,
    /// It may be a host of the local site.
    Spare,
}

fn is_public_suffix(name: &str, unlisted: Unlisted) -> bool {
    psl::suffix(name.as_bytes()).is_some_and(|suffix| {
        suffix.as_bytes() == name.as_bytes() && (suffix.is_known() || unlisted == Unlisted::Count)
    })
}

fn split_scheme(text: &str) -> Result<(Option<Scheme>, &str), PatternError> {
    match text.split_once("://") {
        None => Ok((None, text)),
        // RFC 3986 section 3.1: a scheme is compared without regard to case.
        Some((scheme, rest)) if scheme.eq_ignore_ascii_case("http") => {
            Ok((Some(Scheme::Http), rest))
        }
        Some((scheme, rest)) if scheme.eq_ignore_ascii_case("https") => {
            Ok((Some(Scheme::Https), rest))
        }
        Some((scheme, _)) => Err(PatternError::UnknownScheme(scheme.to_owned())),
    }
}

fn refuse_path(rest: &str) -> Result<(), PatternError> {
    let Some((host, _)) = rest.split_once(['/', '?', '#', '\\']) else {
        return Ok(());
    };
    Err(if rest.parse::<IpNet>().is_ok() {
        PatternError::Range(rest.to_owned())
    } else if host.is_empty() {
        PatternError::Empty
    } else {
        PatternError::Path(host.to_owned())
    })
}

fn refuse_stray_star(rest: &str) -> Result<(), PatternError> {
    let host = rest.split(':').next().unwrap_or_default();
    if !host.is_empty() && host.bytes().all(|byte| byte == b'*' || byte == b'.') {
        return Err(PatternError::CatchAll);
    }
    if rest.strip_prefix("*.").unwrap_or(rest).contains('*') {
        return Err(PatternError::Star);
    }
    Ok(())
}

fn split_hosts(rest: &str) -> Result<(HostPattern, Option<u16>), PatternError> {
    if let Some(base) = rest.strip_prefix("*.") {
        let (base, port) = split_port(base)?;
        return Ok((HostPattern::Below(Name::parse(base)?), port));
    }
    if let Some(base) = rest.strip_prefix('.') {
        let (base, port) = split_port(base)?;
        return Ok((HostPattern::AtOrBelow(Name::parse(base)?), port));
    }
    if let Ok(address) = rest.parse::<Ipv6Addr>() {
        refuse_ambiguous_port(rest)?;
        let host = canonical(address.into(), &format!("[{rest}]"))?;
        return Ok((HostPattern::Exact(host), None));
    }
    let (text, port) = split_port(rest)?;
    let host = match Host::parse(text)? {
        Host::Ip(address) => canonical(address, text)?,
        host @ Host::Name(_) => host,
    };
    Ok((HostPattern::Exact(host), port))
}

fn split_port(text: &str) -> Result<(&str, Option<u16>), PatternError> {
    let (host, port) = split_authority(text)?;
    Ok((host, port.map(parse_port).transpose()?))
}

fn canonical(address: IpAddr, written: &str) -> Result<Host, PatternError> {
    let host = Host::Ip(address.to_canonical());
    let canonical = host.to_string();
    if canonical == written {
        Ok(host)
    } else {
        Err(PatternError::NotCanonical(canonical))
    }
}

/// `2001:db8::1:443` reads as an address, and as `[2001:db8::1]` with a port.
fn refuse_ambiguous_port(text: &str) -> Result<(), PatternError> {
    let Some((address, port)) = text.rsplit_once(':') else {
        return Ok(());
    };
    if address.parse::<Ipv6Addr>().is_ok() && parse_port(port).is_ok() {
        return Err(PatternError::AmbiguousPort(
            format!("[{text}]"),
            format!("[{address}]:{port}"),
        ));
    }
    Ok(())
}
