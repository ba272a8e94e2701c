//! Which interfaces hold a default route, and which ranges are routed, from `/proc/net/route` and
//! `/proc/net/ipv6_route` (proc_pid_net(5)).

use std::{collections::BTreeSet, fs, io, net::Ipv4Addr};

use ipnet::Ipv4Net;

/// linux/route.h: the route is usable, and it rejects what it matches.
const RTF_UP: u32 = 0x0001;
const RTF_REJECT: u32 = 0x0200;

/// The longest prefix that still counts as a default route: VPNs replace `0.0.0.0/0` by two `/1`,
/// and hosts are given `2000::/3`, all global unicast addresses (RFC 4291 section 2.4), for `::/0`.
const LONGEST_IPV4: u32 = 1;
const LONGEST_IPV6: u32 = 3;

/// The names of the interfaces that hold a default route.
pub(super) fn uplinks() -> io::Result<BTreeSet<String>> {
    let mut names = parse_ipv4(&fs::read_to_string("/proc/net/route")?)?;
    match fs::read_to_string("/proc/net/ipv6_route") {
        Ok(text) => names.extend(parse_ipv6(&text)?),
        // The kernel was built or booted without IPv6.
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    Ok(names)
}

/// The IPv4 ranges that this host has a route to; a default route is to none.
///
/// # Errors
/// The table cannot be read, or a line of it is not one.
pub fn ipv4_ranges() -> io::Result<Vec<Ipv4Net>> {
    parse_ranges(&fs::read_to_string("/proc/net/route")?)
}

/// The gateways of the default IPv4 routes.
///
/// # Errors
/// The table cannot be read, or a line of it is not one.
pub fn ipv4_gateways() -> io::Result<Vec<Ipv4Addr>> {
    parse_gateways(&fs::read_to_string("/proc/net/route")?)
}

/// A line of `/proc/net/route`.
struct Ipv4Route<'a> {
    interface: &'a str,
    destination: Ipv4Addr,
    gateway: Ipv4Addr,
    mask: Ipv4Addr,
    flags: u32,
}

impl Ipv4Route<'_> {
    fn is_default(&self) -> bool {
        u32::from(self.mask).count_ones() <= LONGEST_IPV4
    }
}

/// A headline, then `Iface Destination Gateway Flags RefCnt Use Metric Mask ...`; addresses are
/// hexadecimal in the byte order of the machine.
fn ipv4_routes(text: &str) -> impl Iterator<Item = io::Result<Ipv4Route<'_>>> {
    text.lines().skip(1).map(|line| {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let [interface, destination, gateway, flags, _, _, _, mask, ..] = fields[..] else {
            return Err(malformed(line));
        };
        let number = |text| hexadecimal(text).map_err(|_| malformed(line));
        let address = |text| Ok::<_, io::Error>(number(text)?.to_ne_bytes().into());
        Ok(Ipv4Route {
            interface,
            destination: address(destination)?,
            gateway: address(gateway)?,
            mask: address(mask)?,
            flags: number(flags)?,
        })
    })
}

fn parse_ipv4(text: &str) -> io::Result<BTreeSet<String>> {
    ipv4_routes(text)
        .filter_map(|route| match route {
            Ok(route) => uplink(route.interface, route.is_default(), route.flags),
            Err(error) => Some(Err(error)),
        })
        .collect()
}

fn parse_gateways(text: &str) -> io::Result<Vec<Ipv4Addr>> {
    let routes =
        ipv4_routes(text).filter(|route| route.as_ref().map_or(true, Ipv4Route::is_default));
    routes.map(|route| Ok(route?.gateway)).collect()
}

fn parse_ranges(text: &str) -> io::Result<Vec<Ipv4Net>> {
    ipv4_routes(text)
        .filter_map(|route| {
            let range = route.and_then(
                |Ipv4Route {
                     destination, mask, ..
                 }| {
                    Ipv4Net::with_netmask(destination, mask)
                        .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
                },
            );
            match range {
                Ok(range) => (range.prefix_len() > 0).then_some(Ok(range)),
                Err(error) => Some(Err(error)),
            }
        })
        .collect()
}

/// No headline; `destination prefix source prefix next-hop metric refcnt use flags device`. Every
/// Linux has entries of device `lo` that reject `::/0`.
fn parse_ipv6(text: &str) -> io::Result<BTreeSet<String>> {
    text.lines()
        .filter_map(|line| {
            let fields: Vec<&str> = line.split_ascii_whitespace().collect();
            let [_, prefix, _, _, _, _, _, _, flags, name] = fields[..] else {
                return Some(Err(malformed(line)));
            };
            let (Ok(prefix), Ok(flags)) = (hexadecimal(prefix), hexadecimal(flags)) else {
                return Some(Err(malformed(line)));
            };
            uplink(name, prefix <= LONGEST_IPV6, flags)
        })
        .collect()
}

fn uplink(name: &str, is_default: bool, flags: u32) -> Option<io::Result<String>> {
    let usable = flags & RTF_UP != 0 && flags & RTF_REJECT == 0;
    (is_default && usable && name != "lo").then(|| Ok(name.to_owned()))
}

fn hexadecimal(text: &str) -> Result<u32, std::num::ParseIntError> {
    u32::from_str_radix(text, 16)
}

fn malformed(line: &str) -> io::Error {
    let what = format!("not a route as proc_pid_net(5) has it: {line:?}");
    io::Error::new(io::ErrorKind::InvalidData, what)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADLINE: &str = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\t\
                            Window\tIRTT                                                       ";

    #[test]
    fn the_interface_of_an_ipv4_default_route_faces_the_uplink() {
        for (route, expected) in [
            (
                "eth0\t00000000\t010200C0\t0003\t0\t0\t0\t00000000\t0\t0\t0   ",
                true,
            ),
            // On-link, as on point-to-point interfaces.
            (
                "eth0\t00000000\t00000000\t0001\t0\t0\t0\t00000000\t0\t0\t0   ",
                true,
            ),
            // The two halves that VPNs set.
            (
                "eth0\t00000000\t0100080A\t0003\t0\t0\t0\t00000080\t0\t0\t0   ",
                true,
            ),
            (
                "eth0\t00000080\t0100080A\t0003\t0\t0\t0\t00000080\t0\t0\t0   ",
                true,
            ),
            // A subnet.
            (
                "eth0\t000200C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0   ",
                false,
            ),
            // 10.0.0.0/8 by a gateway.
            (
                "eth0\t0000000A\t010200C0\t0003\t0\t0\t0\t000000FF\t0\t0\t0   ",
                false,
            ),
            // Unreachable default, and one that is not up.
            (
                "*\t00000000\t00000000\t0201\t0\t0\t0\t00000000\t0\t0\t0   ",
                false,
            ),
            (
                "eth0\t00000000\t010200C0\t0002\t0\t0\t0\t00000000\t0\t0\t0   ",
                false,
            ),
        ] {
            let names = parse_ipv4(&format!("{HEADLINE}\n{route}\n")).unwrap();
            assert_eq!(names.contains("eth0"), expected, "{route}");
            assert!(names.len() <= 1 && !names.contains("*"), "{names:?}");
        }
        assert_eq!(
            parse_ipv4(&format!("{HEADLINE}\n")).unwrap(),
            BTreeSet::new()
        );
    }

    #[test]
    fn gateways_are_those_of_default_routes() {
        let routes = "eth0\t00000000\t010200C0\t0003\t0\t0\t0\t00000000\t0\t0\t0\n\
                      eth0\t0000000A\t020200C0\t0003\t0\t0\t0\t000000FF\t0\t0\t0\n";
        let gateways = parse_gateways(&format!("{HEADLINE}\n{routes}")).unwrap();
        assert_eq!(gateways, [Ipv4Addr::new(192, 0, 2, 1)]);
        assert_eq!(parse_gateways(HEADLINE).unwrap(), Vec::<Ipv4Addr>::new());
    }

    #[test]
    fn the_interface_of_an_ipv6_default_route_faces_the_uplink() {
        let zero = "0".repeat(32);
        let gateway = "fd000000000000000000000000000001";
        for (route, expected) in [
            (
                format!(
                    "{zero} 00 {zero} 00 {gateway} 00000400 00000002 00000000 00000003     eth0"
                ),
                true,
            ),
            // From a router advertisement (RTF_DEFAULT, RTF_ADDRCONF).
            (
                format!(
                    "{zero} 00 {zero} 00 {gateway} 00000400 00000002 00000000 00450003     eth0"
                ),
                true,
            ),
            (
                format!(
                    "2{} 03 {zero} 00 {gateway} 00000400 00000002 00000000 00000003     eth0",
                    "0".repeat(31)
                ),
                true,
            ),
            (
                format!(
                    "fd{} 40 {zero} 00 {zero} 00000100 00000001 00000000 00000001     eth0",
                    "0".repeat(30)
                ),
                false,
            ),
            (
                format!(
                    "fc{} 07 {zero} 00 {gateway} 00000100 00000001 00000000 00000003     eth0",
                    "0".repeat(30)
                ),
                false,
            ),
            // What every Linux shows, and an unreachable default by hand.
            (
                format!("{zero} 00 {zero} 00 {zero} ffffffff 00000001 00000000 00200200       lo"),
                false,
            ),
            (
                format!("{zero} 00 {zero} 00 {zero} 00000400 00000001 00000000 00000001       lo"),
                false,
            ),
            (
                format!("{zero} 00 {zero} 00 {zero} 00000400 00000001 00000000 00000201     eth0"),
                false,
            ),
        ] {
            let names = parse_ipv6(&format!("{route}\n")).unwrap();
            assert_eq!(names.contains("eth0"), expected, "{route}");
            assert!(!names.contains("lo"), "{names:?}");
        }
        assert_eq!(parse_ipv6("").unwrap(), BTreeSet::new());
    }

    #[test]
    fn a_line_of_another_shape_is_an_error() {
        for line in [
            "",
            "eth0",
            "eth0\t00000000\t010200C0\tZZ\t0\t0\t0\t00000000\t0\t0\t0",
        ] {
            assert!(
                parse_ipv4(&format!("{HEADLINE}\n{line}\n")).is_err(),
                "{line:?}"
            );
        }
        let zero = "0".repeat(32);
        for line in [
            "eth0".to_owned(),
            format!("{zero} 00 {zero} 00 {zero} ffffffff 00000001 00000000 00200200"),
            format!("{zero} xx {zero} 00 {zero} ffffffff 00000001 00000000 00200200 lo"),
        ] {
            assert!(parse_ipv6(&format!("{line}\n")).is_err(), "{line:?}");
        }
    }

    #[cfg(target_endian = "little")]
    #[test]
    fn a_range_is_routed_unless_it_is_everything() {
        let text = "\
Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT
eth0\t00000000\t010011AC\t0003\t0\t0\t0\t00000000\t0\t0\t0
docker0\t000011AC\t00000000\t0001\t0\t0\t0\t0000FFFF\t0\t0\t0
br-1\t0800F00A\t00000000\t0001\t0\t0\t0\tF8FFFFFF\t0\t0\t0
eth1\tFEA9FEA9\t00000000\t0005\t0\t0\t0\tFFFFFFFF\t0\t0\t0
";
        let expected = ["172.17.0.0/16", "10.240.0.8/29", "169.254.169.254/32"];
        let expected: Vec<Ipv4Net> = expected.iter().map(|net| net.parse().unwrap()).collect();
        assert_eq!(parse_ranges(text).unwrap(), expected);
        let odd = text.replace("F8FFFFFF", "F80FFFFF");
        assert!(parse_ranges(&odd).is_err(), "a mask with a hole");
    }

    #[test]
    fn this_hosts_routes_can_be_read() {
        assert!(uplinks().is_ok_and(|names| !names.contains("lo")));
        assert!(ipv4_ranges().is_ok());
    }
}
