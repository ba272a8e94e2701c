//! The one classifier of addresses: global unicast minus the IANA special-purpose registries.

use std::net::IpAddr;

use ipnet::Ipv6Net;

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
    let _ = (address, nat64);
    todo!()
}
