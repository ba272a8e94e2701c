//! The sections that hold settings, each with its defaults and ranges.

#[cfg(test)]
mod tests;

use std::{
    collections::BTreeMap, net::Ipv4Addr, net::SocketAddr, ops::RangeInclusive, path::PathBuf,
    time::Duration,
};

use super::{
    Audit, AuditSink, Dns, DnsAnswerSource, Limits, Listen, Resolver, Upstream, document::Section,
    scalar, upstream,
};
use crate::destination::{AddressGuard, Name};

const MILLISECOND: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_mins(1);
const HOUR: Duration = Duration::from_hours(1);
const DAY: Duration = Duration::from_hours(24);
const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

const A_DURATION: &str = "a duration in quotes such as \"30s\"";
const A_SOCKET: &str = "an address in quotes such as \"127.0.0.1:3128\"";
pub(super) const A_PATH: &str = "an absolute path in quotes";
const A_RANGE: &str = "an IP range in quotes such as \"10.20.0.0/16\"";

/// The longest path of a unix socket (`sun_path` of unix(7), without its final NUL).
const MAX_SOCKET_PATH: usize = 107;

pub(super) fn listen(root: &mut Section<'_>) -> Listen {
    root.table("listen", |section| {
        let mut taken = BTreeMap::new();
        Listen {
            proxy: sockets(section, "proxy", &mut taken),
            dns: sockets(section, "dns", &mut taken),
            https: sockets(section, "https", &mut taken),
            http: sockets(section, "http", &mut taken),
            admin: section.parsed("admin", A_PATH, socket_path),
            metrics: metrics(section, &mut taken),
            dangerously_listen_on_uplink: section.flag("dangerously_listen_on_uplink"),
        }
    })
}

/// Reads a list of sockets; `taken` is who already has each.
fn sockets(
    section: &mut Section<'_>,
    key: &'static str,
    taken: &mut BTreeMap<SocketAddr, String>,
) -> Vec<SocketAddr> {
    let items = section.take(key).and_then(|item| item.list(A_SOCKET));
    let mut sockets = Vec::new();
    for item in items.into_iter().flatten() {
        let Some(socket) = item.parsed(A_SOCKET, scalar::socket) else {
            continue;
        };
        match taken.get(&socket) {
            Some(first) if socket.port() != 0 => {
                item.problem(format!("{socket} is already the socket of {first}"));
            }
            _ => {
                taken.insert(socket, item.path);
                sockets.push(socket);
            }
        }
    }
    sockets
}

fn metrics(
    section: &mut Section<'_>,
    taken: &mut BTreeMap<SocketAddr, String>,
) -> Option<SocketAddr> {
    let item = section.take("metrics")?;
    let socket = item.parsed(A_SOCKET, scalar::socket)?;
    // Security: metrics are never answered to a sandbox, and a wildcard would answer all of them.
    if socket.ip().to_canonical().is_unspecified() {
        item.problem(format!(
            "{socket} would answer sandboxes too; write \"127.0.0.1:{port}\" or one address that \
             no sandbox can reach",
            port = socket.port()
        ));
        return None;
    }
    if let Some(first) = taken.get(&socket).filter(|_| socket.port() != 0) {
        item.problem(format!("{socket} is already the socket of {first}"));
    }
    Some(socket)
}

fn socket_path(text: &str) -> Result<PathBuf, String> {
    if text.len() > MAX_SOCKET_PATH {
        return Err(format!(
            "the path is {} bytes long; a unix socket's is at most {MAX_SOCKET_PATH}",
            text.len()
        ));
    }
    scalar::path(text)
}

pub(super) fn dns(root: &mut Section<'_>) -> Dns {
    root.table("dns", |section| Dns {
        answer: section
            .parsed(
                "answer",
                "\"listener\" or an IPv4 address in quotes",
                dns_answer,
            )
            .unwrap_or(DnsAnswerSource::Listener),
        ttl: section
            .parsed("ttl", A_DURATION, dns_ttl)
            .unwrap_or(30 * SECOND),
        names: dns_names(section),
    })
}

/// RFC 1035 section 3.2.1: a TTL is whole seconds.
fn dns_ttl(text: &str) -> Result<Duration, String> {
    let ttl = scalar::duration(text, &(SECOND..=DAY))?;
    if ttl.subsec_nanos() == 0 {
        Ok(ttl)
    } else {
        Err(format!("{text:?} is not in whole seconds, as a TTL is"))
    }
}

fn dns_answer(text: &str) -> Result<DnsAnswerSource, String> {
    if text == "listener" {
        return Ok(DnsAnswerSource::Listener);
    }
    let address = text
        .parse::<Ipv4Addr>()
        .map_err(|_| format!("{text:?} is neither \"listener\" nor an IPv4 address"))?;
    // Security: what is answered is where every client goes; 0.0.0.0 is the client itself, and a
    // group address would show its packets to the whole segment.
    if address.is_unspecified() || address.is_multicast() || address.is_broadcast() {
        return Err(format!(
            "{address} is not the address of a host; write \"listener\" or an address of ours"
        ));
    }
    Ok(DnsAnswerSource::Fixed(address))
}

fn dns_names(section: &mut Section<'_>) -> Vec<Name> {
    const EXPECTED: &str = "a name in quotes such as \"eclusa\"";
    let Some(items) = section.take("names").map(|item| item.list(EXPECTED)) else {
        return Name::parse("eclusa").into_iter().collect();
    };
    let mut names = Vec::new();
    for item in items.into_iter().flatten() {
        let name = item.parsed(EXPECTED, |text| {
            Name::parse(text).map_err(|error| format!("{text:?} is not a name: {error}"))
        });
        match name {
            Some(name) if names.contains(&name) => {
                item.problem(format!("{name} stands here twice"));
            }
            Some(name) => names.push(name),
            None => {}
        }
    }
    names
}

pub(super) fn resolver(root: &mut Section<'_>) -> Resolver {
    root.table("resolver", |section| Resolver {
        servers: servers(section),
        ca: section.parsed("ca", A_PATH, scalar::path),
        timeout: duration(
            section,
            "timeout",
            5 * SECOND,
            &(100 * MILLISECOND..=MINUTE),
        ),
    })
}

fn servers(section: &mut Section<'_>) -> Vec<Upstream> {
    let Some(list) = section.take("servers") else {
        return vec![Upstream::System];
    };
    let items = list.list(upstream::EXPECTED);
    if items.as_ref().is_some_and(Vec::is_empty) {
        list.problem("there is no server; write [\"system\"], or leave the key out");
    }
    let mut servers = Vec::new();
    for item in items.into_iter().flatten() {
        match item.parsed(upstream::EXPECTED, upstream::parse) {
            Some(server) if servers.contains(&server) => {
                item.problem("this server stands here twice");
            }
            Some(server) => servers.push(server),
            None => {}
        }
    }
    servers
}

pub(super) fn addresses(root: &mut Section<'_>) -> AddressGuard {
    root.table("addresses", |section| AddressGuard {
        blocked: list(section, "blocked", A_RANGE, scalar::range),
        own: list(section, "own", "an IP address in quotes", scalar::address),
        nat64: list(
            section,
            "nat64",
            "a NAT64 prefix in quotes such as \"64:ff9b::/96\"",
            scalar::nat64_prefix,
        ),
    })
}

pub(super) fn audit(root: &mut Section<'_>) -> Audit {
    root.table("audit", |section| Audit {
        sink: section
            .parsed("file", "\"stdout\" or an absolute path in quotes", |text| {
                if text == "stdout" {
                    return Ok(AuditSink::Stdout);
                }
                scalar::path(text).map(AuditSink::File)
            })
            .unwrap_or_else(|| AuditSink::File("/var/log/eclusa/audit.jsonl".into())),
        max_size: size(section, "max_size", 100 * MIB, &(4 * KIB..=1024 * GIB)),
        keep: number(section, "keep", 10, 1..=10_000),
    })
}

pub(super) fn limits(root: &mut Section<'_>) -> Limits {
    const MANY: RangeInclusive<u64> = 1..=1_000_000;
    const SHORT: RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_mins(10);
    let long = 100 * MILLISECOND..=7 * DAY;
    root.table("limits", |section| Limits {
        connections: number(section, "connections", 10_000, MANY),
        connections_per_client: number(section, "connections_per_client", 256, MANY),
        requests_per_second: number(section, "requests_per_second", 200, MANY),
        dns_queries_per_second: number(section, "dns_queries_per_second", 100, MANY),
        wildcard_names_per_minute: number(section, "wildcard_names_per_minute", 120, MANY),
        denials_recorded_per_minute: number(section, "denials_recorded_per_minute", 600, MANY),
        header_timeout: duration(section, "header_timeout", 10 * SECOND, &SHORT),
        connect_timeout: duration(section, "connect_timeout", 10 * SECOND, &SHORT),
        idle_timeout: duration(section, "idle_timeout", 5 * MINUTE, &long),
        lifetime: duration(section, "lifetime", HOUR, &long),
        drain_timeout: duration(section, "drain_timeout", 30 * SECOND, &SHORT),
        max_header_bytes: size(section, "max_header_bytes", 64 * KIB, &(KIB..=MIB)),
        max_upload_bytes: upload(section),
    })
}

/// `max_upload_bytes`, the one limit whose zero means none, because its default says so.
fn upload(section: &mut Section<'_>) -> Option<u64> {
    let bytes: u64 = size(section, "max_upload_bytes", 0, &(0..=1024 * 1024 * GIB));
    (bytes > 0).then_some(bytes)
}

pub(super) fn duration(
    section: &mut Section<'_>,
    key: &'static str,
    default: Duration,
    range: &RangeInclusive<Duration>,
) -> Duration {
    let parsed = section.parsed(key, A_DURATION, |text| scalar::duration(text, range));
    parsed.unwrap_or(default)
}

fn size<N: TryFrom<u64> + Default>(
    section: &mut Section<'_>,
    key: &'static str,
    default: u64,
    range: &RangeInclusive<u64>,
) -> N {
    let expected = "a size in quotes such as \"64 KiB\"";
    let parsed = section.parsed(key, expected, |text| scalar::size(text, range));
    narrow(parsed.unwrap_or(default))
}

fn number<N: TryFrom<u64> + Default>(
    section: &mut Section<'_>,
    key: &'static str,
    default: u64,
    range: RangeInclusive<u64>,
) -> N {
    narrow(section.number(key, range).unwrap_or(default))
}

/// Every range above ends below 2^32 where its field is narrower than 64 bits.
fn narrow<N: TryFrom<u64> + Default>(number: u64) -> N {
    N::try_from(number).unwrap_or_default()
}

fn list<T>(
    section: &mut Section<'_>,
    key: &'static str,
    expected: &str,
    parse: impl Fn(&str) -> Result<T, String>,
) -> Vec<T> {
    section.list(key, expected, parse).unwrap_or_default()
}
