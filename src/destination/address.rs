//! The one classifier of addresses: global unicast minus the IANA special-purpose registries.

mod registry;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

use self::registry::{CONTROL, GLOBAL_UNICAST, IPV4, IPV6, net6};

/// What an address is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressClass {
    /// Global unicast: a sandbox may be led there.
    Public,
    /// Refused unless an exception names the host and a range that holds the address.
    Special(&'static str),
    /// A cloud's control address: refused whatever the configuration says.
    Metadata(&'static str),
}

/// Classifies `address`, unwrapping v4-mapped IPv6 and the site's own `nat64` prefixes and
/// refusing every other embedding of IPv4 in IPv6.
pub fn classify(address: IpAddr, nat64: &[Ipv6Net]) -> AddressClass {
    let address = address.to_canonical();
    // Security: no exception may open a control address in disguise, so every embedding is read.
    let control = std::iter::once(address)
        .chain(embedded_ipv4(address, nat64))
        .find_map(control_address);
    if let Some(why) = control {
        return AddressClass::Metadata(why);
    }
    match address {
        IpAddr::V4(address) => classify_v4(address),
        IpAddr::V6(address) => classify_v6(address, nat64),
    }
}

/// Whether RFC 6052 section 2.2 allows `prefix`: a length that it lists, and bits 64 to 71 zero.
pub fn is_nat64_prefix(prefix: Ipv6Net) -> bool {
    let [.., u, _, _, _, _, _, _, _] = prefix.network().octets();
    NAT64_LENGTHS.contains(&prefix.prefix_len()) && u == 0
}

/// `range` with a v4-mapped one written as the IPv4 range that it is, and without host bits.
pub(crate) fn canonical_range(range: IpNet) -> IpNet {
    let unwrapped = match (range, range.addr().to_canonical()) {
        (IpNet::V6(mapped), IpAddr::V4(address)) => mapped
            .prefix_len()
            .checked_sub(96)
            .and_then(|length| Ipv4Net::new(address, length).ok())
            .map(IpNet::V4),
        (IpNet::V4(_) | IpNet::V6(_), IpAddr::V4(_) | IpAddr::V6(_)) => None,
    };
    unwrapped.unwrap_or(range).trunc()
}

/// The IPv4 address behind each of the site's `nat64` prefixes that holds `address`.
pub(super) fn nat64_ipv4(address: IpAddr, nat64: &[Ipv6Net]) -> impl Iterator<Item = IpAddr> {
    let address = as_v6(address);
    nat64
        .iter()
        .filter_map(move |prefix| {
            let address = address.filter(|address| prefix.contains(address))?;
            rfc6052_ipv4(address, prefix.prefix_len())
        })
        .map(IpAddr::V4)
}

/// Every IPv4 address that some translator or tunnel could read out of `address`, which is not
/// v4-mapped any more.
pub(super) fn embedded_ipv4(address: IpAddr, nat64: &[Ipv6Net]) -> impl Iterator<Item = IpAddr> {
    let well_known = as_v6(address).into_iter().flat_map(|address| {
        EMBEDDINGS
            .iter()
            .filter(move |(range, _)| range.contains(&address))
            .filter_map(move |(_, decode)| decode(address))
            .chain(isatap_ipv4(address))
            .map(IpAddr::V4)
    });
    well_known.chain(nat64_ipv4(address, nat64))
}

/// RFC 6052 section 2.2.
const NAT64_LENGTHS: [u8; 6] = [32, 40, 48, 56, 64, 96];

const NOT_GLOBAL: &str = "outside global unicast (RFC 4291 section 2.4)";

type Decode = fn(Ipv6Addr) -> Option<Ipv4Addr>;

/// How IPv4 is read out of the well-known embeddings. RFC 8215 lets a site lay out 64:ff9b:1::/48
/// with any prefix length from there on.
const EMBEDDINGS: &[(Ipv6Net, Decode)] = &[
    (net6([0; 8], 96), |a| rfc6052_ipv4(a, 96)),
    (net6([0, 0, 0, 0, 0xffff, 0, 0, 0], 96), |a| {
        rfc6052_ipv4(a, 96)
    }),
    (net6([0x64, 0xff9b, 0, 0, 0, 0, 0, 0], 96), |a| {
        rfc6052_ipv4(a, 96)
    }),
    (net6(LOCAL_NAT64, 48), |a| rfc6052_ipv4(a, 48)),
    (net6(LOCAL_NAT64, 48), |a| rfc6052_ipv4(a, 56)),
    (net6(LOCAL_NAT64, 48), |a| rfc6052_ipv4(a, 64)),
    (net6(LOCAL_NAT64, 48), |a| rfc6052_ipv4(a, 96)),
    // RFC 3056 section 2: 2002:V4ADDR::/48.
    (net6([0x2002, 0, 0, 0, 0, 0, 0, 0], 16), |a| octets4(a, 2)),
    // RFC 4380 section 4: the server, then the client with its bits inverted.
    (net6([0x2001, 0, 0, 0, 0, 0, 0, 0], 32), |a| octets4(a, 4)),
    (net6([0x2001, 0, 0, 0, 0, 0, 0, 0], 32), |a| {
        octets4(a, 12).map(|client| !client)
    }),
];

const LOCAL_NAT64: [u16; 8] = [0x64, 0xff9b, 1, 0, 0, 0, 0, 0];

fn classify_v4(address: Ipv4Addr) -> AddressClass {
    match IPV4.iter().find(|(range, _)| range.contains(&address)) {
        Some((_, why)) => AddressClass::Special(why),
        None => AddressClass::Public,
    }
}

fn classify_v6(address: Ipv6Addr, nat64: &[Ipv6Net]) -> AddressClass {
    let behind_site_prefixes: Vec<AddressClass> = nat64
        .iter()
        .filter(|prefix| prefix.contains(&address))
        .map(|prefix| classify_nat64(address, prefix.prefix_len()))
        .collect();
    if !behind_site_prefixes.is_empty() {
        return behind_site_prefixes
            .into_iter()
            .find(|class| *class != AddressClass::Public)
            .unwrap_or(AddressClass::Public);
    }
    if let Some((_, why)) = IPV6.iter().find(|(range, _)| range.contains(&address)) {
        return AddressClass::Special(why);
    }
    if !GLOBAL_UNICAST.contains(&address) {
        return AddressClass::Special(NOT_GLOBAL);
    }
    match isatap_ipv4(address) {
        Some(_) => AddressClass::Special("an ISATAP tunnel (RFC 5214)"),
        None => AddressClass::Public,
    }
}

fn classify_nat64(address: Ipv6Addr, prefix_length: u8) -> AddressClass {
    let [.., u, _, _, _, _, _, _, _] = address.octets();
    if prefix_length < 96 && u != 0 {
        return AddressClass::Special("malformed NAT64 (RFC 6052 section 2.2: bits 64 to 71)");
    }
    match rfc6052_ipv4(address, prefix_length) {
        Some(embedded) => classify_v4(embedded),
        None => AddressClass::Special("NAT64 of a length that RFC 6052 section 2.2 does not list"),
    }
}

fn control_address(address: IpAddr) -> Option<&'static str> {
    CONTROL
        .iter()
        .find(|(control, _)| *control == address)
        .map(|(_, why)| *why)
}

/// RFC 6052 section 2.2: the four octets behind the prefix, stepping over octet 8.
fn rfc6052_ipv4(address: Ipv6Addr, prefix_length: u8) -> Option<Ipv4Addr> {
    if !NAT64_LENGTHS.contains(&prefix_length) {
        return None;
    }
    let from = usize::from(prefix_length / 8);
    let octets: Vec<u8> = address
        .octets()
        .into_iter()
        .enumerate()
        .skip(from)
        .filter(|(at, _)| *at != 8)
        .map(|(_, octet)| octet)
        .take(4)
        .collect();
    <[u8; 4]>::try_from(octets).ok().map(Ipv4Addr::from)
}

/// RFC 5214 section 6.1: the interface identifier is 0000:5efe or 0200:5efe and the address.
fn isatap_ipv4(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let [_, _, _, _, first, second, _, _] = address.segments();
    let is_isatap = (first == 0 || first == 0x0200) && second == 0x5efe;
    is_isatap.then(|| octets4(address, 12)).flatten()
}

fn octets4(address: Ipv6Addr, from: usize) -> Option<Ipv4Addr> {
    let octets = address.octets();
    let four = octets.get(from..)?.first_chunk::<4>()?;
    Some(Ipv4Addr::from(*four))
}

fn as_v6(address: IpAddr) -> Option<Ipv6Addr> {
    match address {
        IpAddr::V4(_) => None,
        IpAddr::V6(address) => Some(address),
    }
}

#[cfg(test)]
mod tests;
