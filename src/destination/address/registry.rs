//! The tables behind the classifier, as IANA published them (registries of 2025), and the control
//! addresses of the clouds. The text of a row is a fragment that follows "is".

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{Ipv4Net, Ipv6Net};

/// The IANA IPv4 Special-Purpose Address Registry (RFC 6890), and multicast. The text is a
/// fragment that follows "is"; where rows overlap, the first that holds the address is told.
pub(super) const IPV4: &[(Ipv4Net, &str)] = &[
    v4([0, 0, 0, 0], 32, "this host (RFC 1122 section 3.2.1.3)"),
    v4([0, 0, 0, 0], 8, "this network (RFC 791 section 3.2)"),
    v4([10, 0, 0, 0], 8, "private use (RFC 1918)"),
    v4([100, 64, 0, 0], 10, "shared address space (RFC 6598)"),
    v4([127, 0, 0, 0], 8, "loopback (RFC 1122 section 3.2.1.3)"),
    v4([169, 254, 0, 0], 16, "link-local (RFC 3927)"),
    v4([172, 16, 0, 0], 12, "private use (RFC 1918)"),
    v4([192, 0, 0, 0], 29, "IPv4 service continuity (RFC 7335)"),
    v4([192, 0, 0, 8], 32, "the IPv4 dummy address (RFC 7600)"),
    v4([192, 0, 0, 9], 32, "Port Control Protocol (RFC 7723)"),
    v4([192, 0, 0, 10], 32, "TURN relays (RFC 8155)"),
    v4([192, 0, 0, 170], 31, "NAT64 discovery (RFC 8880)"),
    v4([192, 0, 0, 0], 24, "IETF protocol assignments (RFC 6890)"),
    v4([192, 0, 2, 0], 24, "documentation (RFC 5737)"),
    v4([192, 31, 196, 0], 24, "AS112 (RFC 7535)"),
    v4([192, 52, 193, 0], 24, "multicast tunnels (RFC 7450)"),
    v4([192, 88, 99, 0], 24, "the former 6to4 relay (RFC 7526)"),
    v4([192, 168, 0, 0], 16, "private use (RFC 1918)"),
    v4([192, 175, 48, 0], 24, "AS112 (RFC 7534)"),
    v4([198, 18, 0, 0], 15, "benchmarking (RFC 2544)"),
    v4([198, 51, 100, 0], 24, "documentation (RFC 5737)"),
    v4([203, 0, 113, 0], 24, "documentation (RFC 5737)"),
    v4([224, 0, 0, 0], 4, "multicast (RFC 5771)"),
    v4([255, 255, 255, 255], 32, "limited broadcast (RFC 919)"),
    v4([240, 0, 0, 0], 4, "reserved (RFC 1112 section 4)"),
];

/// The IANA IPv6 Special-Purpose Address Registry (RFC 6890), and what RFC 4291 takes out of the
/// unicast space. Everything outside 2000::/3 is refused in any case; those rows say why.
pub(super) const IPV6: &[(Ipv6Net, &str)] = &[
    v6([0, 0, 0, 0, 0, 0, 0, 1], 128, "loopback (RFC 4291)"),
    v6([0; 8], 128, "the unspecified address (RFC 4291)"),
    v6([0; 8], 96, "IPv4-compatible (RFC 4291 section 2.5.5.1)"),
    v6(
        [0, 0, 0, 0, 0xffff, 0, 0, 0],
        96,
        "IPv4-translated (RFC 2765)",
    ),
    v6([0x64, 0xff9b, 0, 0, 0, 0, 0, 0], 96, "NAT64 (RFC 6052)"),
    v6([0x64, 0xff9b, 1, 0, 0, 0, 0, 0], 48, "NAT64 (RFC 8215)"),
    v6([0x100, 0, 0, 0, 0, 0, 0, 0], 64, "discard-only (RFC 6666)"),
    v6([0x100, 0, 0, 1, 0, 0, 0, 0], 64, "a dummy (RFC 9780)"),
    v6([0x2001, 0, 0, 0, 0, 0, 0, 0], 32, "Teredo (RFC 4380)"),
    v6(
        [0x2001, 1, 0, 0, 0, 0, 0, 1],
        128,
        "Port Control Protocol (RFC 7723)",
    ),
    v6([0x2001, 1, 0, 0, 0, 0, 0, 2], 128, "TURN relays (RFC 8155)"),
    v6(
        [0x2001, 1, 0, 0, 0, 0, 0, 3],
        128,
        "service registration (RFC 9665)",
    ),
    v6([0x2001, 2, 0, 0, 0, 0, 0, 0], 48, "benchmarking (RFC 5180)"),
    v6(
        [0x2001, 3, 0, 0, 0, 0, 0, 0],
        32,
        "multicast tunnels (RFC 7450)",
    ),
    v6([0x2001, 4, 0x112, 0, 0, 0, 0, 0], 48, "AS112 (RFC 7535)"),
    v6(
        [0x2001, 0x10, 0, 0, 0, 0, 0, 0],
        28,
        "the former ORCHID (RFC 4843)",
    ),
    v6([0x2001, 0x20, 0, 0, 0, 0, 0, 0], 28, "ORCHID (RFC 7343)"),
    v6(
        [0x2001, 0x30, 0, 0, 0, 0, 0, 0],
        28,
        "drone remote IDs (RFC 9374)",
    ),
    v6(
        [0x2001, 0, 0, 0, 0, 0, 0, 0],
        23,
        "IETF protocol assignments (RFC 2928)",
    ),
    v6(
        [0x2001, 0xdb8, 0, 0, 0, 0, 0, 0],
        32,
        "documentation (RFC 3849)",
    ),
    v6([0x2002, 0, 0, 0, 0, 0, 0, 0], 16, "6to4 (RFC 3056)"),
    v6(
        [0x2620, 0x4f, 0x8000, 0, 0, 0, 0, 0],
        48,
        "AS112 (RFC 7534)",
    ),
    v6(
        [0x3fff, 0, 0, 0, 0, 0, 0, 0],
        20,
        "documentation (RFC 9637)",
    ),
    v6([0x5f00, 0, 0, 0, 0, 0, 0, 0], 16, "segment IDs (RFC 9602)"),
    v6([0xfc00, 0, 0, 0, 0, 0, 0, 0], 7, "unique-local (RFC 4193)"),
    v6([0xfe80, 0, 0, 0, 0, 0, 0, 0], 10, "link-local (RFC 4291)"),
    v6(
        [0xfec0, 0, 0, 0, 0, 0, 0, 0],
        10,
        "the former site-local (RFC 3879)",
    ),
    v6([0xff00, 0, 0, 0, 0, 0, 0, 0], 8, "multicast (RFC 4291)"),
];

/// RFC 4291 section 2.4, IANA IPv6 Global Unicast Address Assignments.
pub(super) const GLOBAL_UNICAST: Ipv6Net =
    Ipv6Net::new_assert(Ipv6Addr::new(0x2000, 0, 0, 0, 0, 0, 0, 0), 3);

/// Where clouds answer their own machines with credentials and configuration.
pub(super) const CONTROL: &[(IpAddr, &str)] = &[
    c4([169, 254, 169, 254], "the instance metadata service"),
    c4([169, 254, 170, 2], "the Amazon ECS task credential service"),
    c4([169, 254, 170, 23], "the Amazon EKS pod identity service"),
    c4([168, 63, 129, 16], "the Azure platform service"),
    c4([100, 100, 100, 200], "the Alibaba Cloud metadata service"),
    c4([100, 96, 0, 96], "the Volcengine metadata service"),
    c4([192, 0, 0, 192], "the Oracle Cloud metadata service"),
    c4([169, 254, 0, 23], "the Tencent Cloud metadata service"),
    c4([169, 254, 42, 42], "the Scaleway metadata service"),
    c4([169, 254, 169, 250], "the Rancher metadata service"),
    c6(
        [0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254],
        "the Amazon EC2 metadata service",
    ),
    c6(
        [0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x23],
        "the Amazon EKS pod identity service",
    ),
    c6(
        [0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254],
        "the Google Cloud metadata service",
    ),
    c6(
        [0xfd00, 0x42, 0, 0, 0, 0, 0, 0x42],
        "the Scaleway metadata service",
    ),
    c6(
        [0xfd00, 0xa9fe, 0xa9fe, 0, 0, 0, 0, 1],
        "the Akamai Cloud metadata service",
    ),
    c6(
        [0xfe80, 0, 0, 0, 0, 0, 0xa9fe, 0xa9fe],
        "the OpenStack metadata service",
    ),
];

const fn v4(octets: [u8; 4], length: u8, why: &'static str) -> (Ipv4Net, &'static str) {
    (
        Ipv4Net::new_assert(Ipv4Addr::from_octets(octets), length),
        why,
    )
}

const fn v6(segments: [u16; 8], length: u8, why: &'static str) -> (Ipv6Net, &'static str) {
    (net6(segments, length), why)
}

pub(super) const fn net6(segments: [u16; 8], length: u8) -> Ipv6Net {
    Ipv6Net::new_assert(Ipv6Addr::from_segments(segments), length)
}

const fn c4(octets: [u8; 4], why: &'static str) -> (IpAddr, &'static str) {
    (IpAddr::V4(Ipv4Addr::from_octets(octets)), why)
}

const fn c6(segments: [u16; 8], why: &'static str) -> (IpAddr, &'static str) {
    (IpAddr::V6(Ipv6Addr::from_segments(segments)), why)
}
