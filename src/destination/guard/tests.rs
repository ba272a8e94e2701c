use std::net::Ipv6Addr;

use ipnet::Ipv4Net;
use proptest::prelude::*;

use super::*;
use crate::destination::{Host, Scheme};

fn to(port: u16) -> Destination {
    Destination {
        scheme: Scheme::Https,
        host: Host::parse("allowed.example").unwrap(),
        port,
    }
}

fn addresses(texts: &[&str]) -> Vec<IpAddr> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

fn ranges(texts: &[&str]) -> Vec<IpNet> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

fn interface(network: &str, sandbox_side: bool) -> InterfaceAddress {
    InterfaceAddress {
        index: 1,
        network: network.parse().unwrap(),
        sandbox_side,
    }
}

/// A proxy with a public uplink, a public sandbox side, and everything else that can be ours.
fn here() -> Surroundings {
    Surroundings {
        interfaces: [
            interface("127.0.0.1/8", true),
            interface("::1/128", true),
            interface("5.5.5.5/24", false),
            interface("6.6.6.2/24", true),
            interface("2a00:6::2/64", true),
        ]
        .into(),
        clients: ranges(&["7.7.7.0/24", "2a00:7::/32"]).into(),
        sources: Arc::new(addresses(&["8.8.1.1", "2a00:8::1"]).into_iter().collect()),
        listeners: ["0.0.0.0:3128", "5.5.5.5:8443", "127.0.0.1:9464"]
            .map(|socket| socket.parse().unwrap())
            .into(),
    }
}

fn guard() -> AddressGuard {
    AddressGuard {
        blocked: ranges(&["9.9.9.0/24", "2a00:9::/32"]),
        own: addresses(&["4.4.4.4"]),
        nat64: vec!["2a00:64::/96".parse().unwrap()],
    }
}

fn vet(answer: &[&str], exceptions: &[&str], port: u16) -> Result<Vec<String>, String> {
    guard()
        .vet(&here(), &to(port), &addresses(answer), &ranges(exceptions))
        .map(|vetted| vetted.as_slice().iter().map(ToString::to_string).collect())
        .map_err(|blocked| {
            let kind = if blocked.is_loop { "loop: " } else { "" };
            format!("{kind}{blocked}")
        })
}

#[test]
fn a_public_answer_is_vetted_in_order_unwrapped_and_without_duplicates() {
    let answer = ["1.1.1.1", "2a00::1", "::ffff:1.1.1.1", "1.0.0.1", "2a00::1"];
    let expected = ["1.1.1.1:443", "[2a00::1]:443", "1.0.0.1:443"].map(ToOwned::to_owned);
    assert_eq!(vet(&answer, &[], 443), Ok(expected.to_vec()));
}

#[test]
fn one_private_address_refuses_the_whole_answer() {
    for answer in [
        ["1.1.1.1", "10.0.0.5"],
        ["10.0.0.5", "1.1.1.1"],
        ["1.1.1.1", "::ffff:10.0.0.5"],
    ] {
        let expected = "10.0.0.5 is private use (RFC 1918)".to_owned();
        assert_eq!(vet(&answer, &[], 443), Err(expected), "{answer:?}");
    }
    let expected = "::1 is an address of this host".to_owned();
    assert_eq!(vet(&["1.1.1.1", "::1"], &[], 443), Err(expected));
}

#[test]
fn an_empty_answer_is_refused() {
    let expected = "0.0.0.0 is all that an empty answer comes to".to_owned();
    assert_eq!(vet(&[], &["0.0.0.0/0", "::/0"], 443), Err(expected));
}

#[test]
fn what_is_ours_or_blocked_is_refused_in_every_spelling_unless_excepted() {
    for (address, why) in [
        ("5.5.5.5", "an address of this host"),
        ("6.6.6.2", "an address of this host"),
        ("6.6.6.77", "in a subnet of the sandbox side"),
        ("7.7.7.7", "in a range of [[clients]]"),
        ("8.8.1.1", "a sandbox's address"),
        ("4.4.4.4", "in addresses.own"),
        ("9.9.9.9", "in addresses.blocked"),
        ("10.0.0.1", "private use (RFC 1918)"),
    ] {
        let mapped = format!("::ffff:{address}");
        let translated = format!("2a00:64::{address}");
        let range = format!("{address}/32");
        for spelling in [address, &mapped] {
            let expected = Err(format!("{address} is {why}"));
            assert_eq!(vet(&[spelling], &[], 443), expected, "{spelling}");
            let excepted = vet(&[spelling], &[&range], 443);
            assert_eq!(excepted, Ok(vec![format!("{address}:443")]), "{spelling}");
            let mapped_range = format!("::ffff:{address}/128");
            let excepted = vet(&[spelling], &[&mapped_range], 443);
            assert_eq!(excepted, Ok(vec![format!("{address}:443")]), "{spelling}");
        }
        let found = vet(&[&translated], &[], 443).unwrap_err();
        assert!(found.ends_with(&format!("is {why}")), "{found}");
        assert!(vet(&[&translated], &[&range], 443).is_ok(), "{translated}");
    }
    for (address, why) in [
        ("2a00:6::77", "in a subnet of the sandbox side"),
        ("2a00:7::1", "in a range of [[clients]]"),
        ("2a00:8::1", "a sandbox's address"),
        ("2a00:9::1", "in addresses.blocked"),
    ] {
        let expected = Err(format!("{address} is {why}"));
        assert_eq!(vet(&[address], &[], 443), expected, "{address}");
    }
    let neighbours_of_the_uplink = vet(&["5.5.5.77"], &[], 443);
    assert_eq!(
        neighbours_of_the_uplink,
        Ok(vec!["5.5.5.77:443".to_owned()])
    );
}

#[test]
fn a_mapped_source_range_or_own_address_protects_the_ipv4_address() {
    let guard = AddressGuard {
        blocked: ranges(&["::ffff:9.9.9.0/120"]),
        own: addresses(&["::ffff:4.4.4.4"]),
        nat64: Vec::new(),
    };
    let surroundings = Surroundings {
        clients: ranges(&["::ffff:7.7.7.0/120"]).into(),
        sources: Arc::new(addresses(&["::ffff:8.8.1.1"]).into_iter().collect()),
        ..Surroundings::default()
    };
    for address in ["9.9.9.9", "4.4.4.4", "7.7.7.7", "8.8.1.1"] {
        let found = guard.vet(&surroundings, &to(443), &addresses(&[address]), &[]);
        assert!(found.is_err(), "{address}");
    }
}

#[test]
fn a_control_address_is_never_excepted() {
    let everything = ["0.0.0.0/0", "::/0", "169.254.169.254/32"];
    for address in [
        "169.254.169.254",
        "::ffff:169.254.169.254",
        "2a00:64::169.254.169.254",
        "64:ff9b::169.254.169.254",
        "2002:a9fe:a9fe::1",
        "2001:0:5ef5:79fd:0:0:5601:5601",
        "::169.254.169.254",
        "168.63.129.16",
        "100.100.100.200",
        "fd00:ec2::254",
    ] {
        let found = vet(&[address], &everything, 443).unwrap_err();
        assert!(found.contains("service"), "{found}");
    }
}

#[test]
fn one_of_our_listening_sockets_is_a_loop_whatever_is_excepted() {
    let everything = ["0.0.0.0/0", "::/0"];
    for (address, port) in [
        ("127.0.0.1", 3128),
        ("127.9.9.9", 3128),
        ("::1", 3128),
        ("0.0.0.0", 3128),
        ("::", 3128),
        ("5.5.5.5", 3128),
        ("6.6.6.2", 3128),
        ("2a00:6::2", 3128),
        ("4.4.4.4", 3128),
        ("::ffff:6.6.6.2", 3128),
        ("2a00:64::6.6.6.2", 3128),
        ("2002:606:602::1", 3128),
        ("5.5.5.5", 8443),
        ("127.0.0.1", 9464),
        ("0.0.0.0", 9464),
    ] {
        let found = vet(&[address], &everything, port).unwrap_err();
        let expected = "is a socket that this proxy listens on";
        assert!(
            found.starts_with("loop: ") && found.ends_with(expected),
            "{address}:{port} {found}"
        );
    }
    for (address, port) in [
        ("127.0.0.1", 3129),
        ("6.6.6.2", 8443),
        ("6.6.6.3", 3128),
        ("127.0.0.2", 9464),
        ("1.1.1.1", 3128),
    ] {
        assert!(
            vet(&[address], &everything, port).is_ok(),
            "{address}:{port}"
        );
    }
}

#[test]
fn an_exception_opens_its_own_range_and_nothing_else() {
    assert!(vet(&["10.1.2.3"], &["10.1.2.3/32"], 443).is_ok());
    for (address, exception) in [
        ("10.1.2.4", "10.1.2.3/32"),
        ("192.168.0.1", "10.0.0.0/8"),
        // An IPv4 exception does not open a tunnel that happens to embed the address.
        ("2002:a01:203::1", "10.0.0.0/8"),
        ("64:ff9b::10.1.2.3", "10.0.0.0/8"),
        ("2a00::5efe:10.1.2.3", "10.0.0.0/8"),
        // `::/0` names IPv6, not IPv4.
        ("10.1.2.3", "::/0"),
    ] {
        let found = vet(&[address], &[exception], 443);
        assert!(found.is_err(), "{address} {exception}");
    }
    // One address of the answer may need no exception, another may.
    assert!(vet(&["1.1.1.1", "10.1.2.3"], &["10.0.0.0/8"], 443).is_ok());
    assert!(vet(&["1.1.1.1", "10.1.2.3", "172.16.0.1"], &["10.0.0.0/8"], 443).is_err());
}

proptest! {
    #[test]
    fn what_is_vetted_is_exactly_the_answer_and_all_of_it_public(
        bits in prop::collection::vec(any::<u32>(), 1..6),
    ) {
        let answer: Vec<IpAddr> = bits.iter().map(|bits| Ipv4Addr::from_bits(*bits).into()).collect();
        let found = AddressGuard::default().vet(&Surroundings::default(), &to(443), &answer, &[]);
        let all_public = answer
            .iter()
            .all(|address| classify(*address, &[]) == AddressClass::Public);
        prop_assert_eq!(found.is_ok(), all_public);
        if let Ok(vetted) = found {
            for address in answer {
                prop_assert!(vetted.contains(SocketAddr::new(address, 443)));
            }
        }
    }

    #[test]
    fn an_exception_opens_the_blocked_addresses_in_it_and_no_others(
        answer in prop::collection::vec(0_u32..1 << 24, 1..4),
        base in 0_u32..1 << 24,
        length in 8_u8..=32,
    ) {
        // All of 10.0.0.0/8, so that addresses and exceptions often meet.
        let private = |bits: u32| Ipv4Addr::from_bits(10 << 24 | bits);
        let exception = Ipv4Net::new(private(base), length).unwrap().trunc();
        let answer: Vec<Ipv4Addr> = answer.into_iter().map(private).collect();
        let vet = |answer: &[IpAddr]| {
            let (guard, nothing) = (AddressGuard::default(), Surroundings::default());
            guard.vet(&nothing, &to(443), answer, &[exception.into()]).is_ok()
        };
        let whole: Vec<IpAddr> = answer.iter().copied().map(Into::into).collect();
        prop_assert_eq!(vet(&whole), answer.iter().all(|v4| exception.contains(v4)));
        // Written as IPv6 it is the same address or a tunnel to it; only the first is opened.
        for v4 in answer {
            prop_assert_eq!(vet(&[v4.to_ipv6_mapped().into()]), exception.contains(&v4));
            let bits = u128::from(v4.to_bits());
            for tunnel in [bits, 0x64_ff9b << 96 | bits, 0x2002 << 112 | bits << 80] {
                prop_assert!(!vet(&[Ipv6Addr::from_bits(tunnel).into()]), "{:x}", tunnel);
            }
        }
    }
}
