//! Values written as text: durations, sizes, addresses, ranges, paths.

#[cfg(test)]
mod tests;

use std::{
    net::{IpAddr, SocketAddr},
    ops::RangeInclusive,
    path::{Component, Path, PathBuf},
    time::Duration,
};

use ipnet::{IpNet, Ipv6Net};

/// The units of a duration, longest first, in milliseconds.
const TIMES: &[(&str, u64)] = &[
    ("d", 86_400_000),
    ("h", 3_600_000),
    ("m", 60_000),
    ("s", 1_000),
    ("ms", 1),
];

/// The units of a size, in bytes: IEC 80000-13 binary prefixes and SI decimal ones.
const SIZES: &[(&str, u64)] = &[
    ("GiB", 1 << 30),
    ("GB", 1_000_000_000),
    ("MiB", 1 << 20),
    ("MB", 1_000_000),
    ("KiB", 1 << 10),
    ("kB", 1_000),
    ("B", 1),
];

/// Reads `30s`, `1h30m` or `500ms`, the one spelling of times in configuration, options and calls.
///
/// # Errors
/// What is wrong with it and how it is written.
pub fn duration(text: &str, range: &RangeInclusive<Duration>) -> Result<Duration, String> {
    let millis = parse_duration(text).ok_or_else(|| match text.parse::<u64>() {
        Ok(number) => format!("{text:?} has no unit; write \"{number}s\" for seconds"),
        Err(_) => format!("{text:?} is not a duration; write for example \"30s\", \"5m\" or \"1h\" (ms, s, m, h, d)"),
    })?;
    let duration = Duration::from_millis(millis);
    if range.contains(&duration) {
        Ok(duration)
    } else {
        let (least, most) = (show_duration(*range.start()), show_duration(*range.end()));
        Err(format!("{text:?} is out of range: write {least} to {most}"))
    }
}

fn parse_duration(text: &str) -> Option<u64> {
    let mut rest = text;
    let mut longest = u64::MAX;
    let mut total = 0_u64;
    while !rest.is_empty() {
        let (number, after) = split_digits(rest)?;
        let unit_end = after.find(|c: char| !c.is_ascii_alphabetic());
        let (unit, after) = after.split_at_checked(unit_end.unwrap_or(after.len()))?;
        let (_, millis) = TIMES.iter().find(|(name, _)| *name == unit)?;
        // `1m30m` and `30s1h` are slips.
        if *millis >= longest {
            return None;
        }
        longest = *millis;
        total = total.checked_add(number.checked_mul(*millis)?)?;
        rest = after;
    }
    (longest != u64::MAX).then_some(total)
}

/// A time as `duration` reads it, in one unit.
pub fn show_duration(duration: Duration) -> String {
    let millis = duration.as_millis();
    let unit = TIMES
        .iter()
        .find(|(_, size)| millis.is_multiple_of(u128::from(*size)) && millis > 0);
    let (name, size) = unit.unwrap_or(&("ms", 1));
    format!("{}{name}", millis / u128::from(*size))
}

/// `64 KiB`, `50MB`, `512 B`; `0` alone needs no unit.
pub(super) fn size(text: &str, range: &RangeInclusive<u64>) -> Result<u64, String> {
    let bytes = parse_size(text).ok_or_else(|| match text.parse::<u64>() {
        Ok(number) => format!("{text:?} has no unit; write \"{number} B\" for bytes, or KiB, MiB, GiB"),
        Err(_) => format!("{text:?} is not a size; write for example \"64 KiB\" or \"100 MB\" (B, KiB, MiB, GiB; kB, MB, GB)"),
    })?;
    if range.contains(&bytes) {
        Ok(bytes)
    } else {
        let (least, most) = (show_size(*range.start()), show_size(*range.end()));
        Err(format!("{text:?} is out of range: write {least} to {most}"))
    }
}

fn parse_size(text: &str) -> Option<u64> {
    if text == "0" {
        return Some(0);
    }
    let (number, unit) = split_digits(text)?;
    let unit = unit.strip_prefix(' ').unwrap_or(unit);
    let (_, bytes) = SIZES.iter().find(|(name, _)| *name == unit)?;
    number.checked_mul(*bytes)
}

/// As it would be written, in one unit.
pub(super) fn show_size(bytes: u64) -> String {
    let unit = SIZES
        .iter()
        .find(|(_, size)| bytes.is_multiple_of(*size) && bytes > 0);
    match unit {
        Some((name, size)) => format!("{} {name}", bytes / size),
        None => "0".to_owned(),
    }
}

fn split_digits(text: &str) -> Option<(u64, &str)> {
    let end = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let (digits, rest) = text.split_at_checked(end)?;
    Some((digits.parse().ok()?, rest))
}

/// `IP:PORT` of a listener; port 0 lets the system choose.
pub(super) fn socket(text: &str) -> Result<SocketAddr, String> {
    let socket = text.parse::<SocketAddr>().map_err(|_| socket_hint(text))?;
    match socket.ip() {
        IpAddr::V4(ip) if ip.is_broadcast() || ip.is_multicast() => Err(format!(
            "{text:?} is not an address that a listener can have"
        )),
        IpAddr::V6(ip) if ip.is_multicast() => Err(format!(
            "{text:?} is not an address that a listener can have"
        )),
        IpAddr::V4(_) | IpAddr::V6(_) => Ok(socket),
    }
}

fn socket_hint(text: &str) -> String {
    if let Ok(ip) = text.parse::<IpAddr>() {
        let example = SocketAddr::new(ip, 3128);
        return format!("{text:?} has no port; write for example \"{example}\"");
    }
    if let Some((_, rest)) = text.split_once("://") {
        return format!("{text:?} has a scheme, which a listener does not; write \"{rest}\"");
    }
    let port = text.strip_prefix(':').unwrap_or(text);
    if port.parse::<u16>().is_ok() {
        return format!(
            "{text:?} has no address; write \"127.0.0.1:{port}\" for this host alone or \
             \"0.0.0.0:{port}\" for every sandbox-side interface"
        );
    }
    match text.rsplit_once(':') {
        Some((host, port)) if port.parse::<u16>().is_ok() && host.contains(':') => {
            format!("{text:?} is not IP:PORT; an IPv6 address stands in brackets: \"[::1]:{port}\"")
        }
        Some((host, port)) if port.parse::<u16>().is_ok() => format!(
            "{host:?} is not an IP address; a listener takes no name: write for example \
             \"127.0.0.1:{port}\""
        ),
        _ => format!("{text:?} is not IP:PORT; write for example \"127.0.0.1:3128\""),
    }
}

/// One address.
pub(super) fn address(text: &str) -> Result<IpAddr, String> {
    match text.parse::<IpAddr>() {
        Ok(address) => Ok(address.to_canonical()),
        Err(_) if text.contains('/') => Err(format!(
            "{text:?} is a range; write one address without `/`"
        )),
        Err(_) => Err(format!(
            "{text:?} is not an IP address; write for example \"192.0.2.1\""
        )),
    }
}

/// A range; a bare address is the range of itself alone.
pub fn range(text: &str) -> Result<IpNet, String> {
    let range = match (text.parse::<IpAddr>(), text.parse::<IpNet>()) {
        (Ok(address), _) => IpNet::from(address),
        (_, Ok(range)) if plain_prefix(text) => range,
        _ => {
            return Err(format!(
                "{text:?} is not an IP range; write for example \"10.20.0.0/16\""
            ));
        }
    };
    if range.addr() != range.network() {
        let network = range.trunc();
        return Err(format!(
            "{text:?} has bits set behind its prefix; write \"{network}\""
        ));
    }
    // Addresses are unwrapped before they are compared, so such a range would match nothing.
    if let IpNet::V6(mapped) = range
        && mapped.prefix_len() >= 96
        && let Some(address) = mapped.addr().to_ipv4_mapped()
    {
        let prefix = mapped.prefix_len() - 96;
        return Err(format!(
            "{text:?} is IPv4 in IPv6; write \"{address}/{prefix}\", which covers both"
        ));
    }
    Ok(range)
}

/// No `/024`, which some read as octal.
fn plain_prefix(text: &str) -> bool {
    text.rsplit_once('/')
        .is_some_and(|(_, prefix)| prefix == "0" || !prefix.starts_with('0'))
}

/// A NAT64 prefix (RFC 6052 section 2.2): one of six lengths, and bits 64 to 71 are zero.
pub(super) fn nat64_prefix(text: &str) -> Result<Ipv6Net, String> {
    let IpNet::V6(prefix) = range(text)? else {
        return Err(format!(
            "{text:?} is not IPv6; write for example \"64:ff9b::/96\""
        ));
    };
    if ![32, 40, 48, 56, 64, 96].contains(&prefix.prefix_len()) {
        return Err(format!(
            "{text:?} is not a NAT64 prefix: its length is 32, 40, 48, 56, 64 or 96 (RFC 6052)"
        ));
    }
    let [_, _, _, _, _, _, _, _, reserved, ..] = prefix.addr().octets();
    if reserved != 0 {
        return Err(format!(
            "{text:?} is not a NAT64 prefix: its bits 64 to 71 are not zero (RFC 6052)"
        ));
    }
    Ok(prefix)
}

/// An absolute path of a file: relative ones would depend on where the process was started.
pub(super) fn path(text: &str) -> Result<PathBuf, String> {
    if text.is_empty() {
        return Err("the path is empty; write an absolute one, or leave the key out".to_owned());
    }
    if text.chars().any(char::is_control) {
        return Err(format!("{text:?} has a control character"));
    }
    let path = Path::new(text);
    if !path.is_absolute() {
        return Err(format!(
            "{text:?} is not absolute; write a path that begins with /"
        ));
    }
    if path.components().any(|part| part == Component::ParentDir) {
        return Err(format!("{text:?} has a `..`; write the path that is meant"));
    }
    if text.ends_with('/') {
        return Err(format!("{text:?} is a directory; write the path of a file"));
    }
    Ok(path.to_owned())
}
