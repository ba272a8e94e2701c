use proptest::prelude::*;

use super::*;

fn class(text: &str, nat64: &[Ipv6Net]) -> AddressClass {
    classify(text.parse().unwrap(), nat64)
}

fn nets(texts: &[&str]) -> Vec<Ipv6Net> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

/// Lays `v4` out under `prefix`, written independently of the decoder (RFC 6052 section 2.2).
fn rfc6052(prefix: Ipv6Net, v4: Ipv4Addr) -> Ipv6Addr {
    let mut octets = prefix.network().octets();
    let mut at = usize::from(prefix.prefix_len() / 8);
    for octet in v4.octets() {
        if at == 8 {
            at += 1;
        }
        octets[at] = octet;
        at += 1;
    }
    octets.into()
}

/// Every way in which IPv6 can carry `v4` that is known here, by name.
fn embeddings(v4: Ipv4Addr, noise: u128) -> Vec<(&'static str, Ipv6Addr)> {
    let bits = u128::from(v4.to_bits());
    let low = noise & u128::from(u64::MAX);
    let raw = |bits: u128| Ipv6Addr::from_bits(bits);
    let local = |length: u8| Ipv6Net::new("64:ff9b:1::".parse().unwrap(), length).unwrap();
    let global = (0x2a00 << 112) | (noise >> 80 << 64);
    vec![
        ("v4-compatible", raw(bits)),
        ("v4-mapped", raw(0xffff << 32 | bits)),
        ("v4-translated", raw(0xffff << 48 | bits)),
        ("well-known NAT64", raw(0x64_ff9b << 96 | bits)),
        ("local NAT64 /48", rfc6052(local(48), v4)),
        ("local NAT64 /56", rfc6052(local(56), v4)),
        ("local NAT64 /64", rfc6052(local(64), v4)),
        ("local NAT64 /96", rfc6052(local(96), v4)),
        ("6to4", raw(0x2002 << 112 | bits << 80 | low)),
        ("Teredo server", raw(0x2001 << 112 | bits << 64 | low)),
        (
            "Teredo client",
            raw(0x2001 << 112 | low << 32 | u128::from(!v4.to_bits())),
        ),
        ("ISATAP", raw(global | 0x5efe << 32 | bits)),
        ("ISATAP, universal", raw(global | 0x0200_5efe << 32 | bits)),
    ]
}

#[test]
fn both_ends_of_every_ipv4_row_are_special_and_their_neighbours_are_not() {
    for (range, why) in IPV4 {
        for address in [range.network(), range.broadcast()] {
            let found = classify(address.into(), &[]);
            assert!(
                matches!(found, AddressClass::Special(_)),
                "{address} ({why}): {found:?}"
            );
        }
    }
    for public in [
        "1.0.0.0",
        "9.255.255.255",
        "11.0.0.0",
        "100.63.255.255",
        "100.128.0.0",
        "126.255.255.255",
        "128.0.0.0",
        "169.253.255.255",
        "169.255.0.0",
        "172.15.255.255",
        "172.32.0.0",
        "191.255.255.255",
        "192.0.1.0",
        "192.0.3.0",
        "192.31.195.255",
        "192.31.197.0",
        "192.52.192.255",
        "192.52.194.0",
        "192.88.98.255",
        "192.88.100.0",
        "192.167.255.255",
        "192.169.0.0",
        "192.175.47.255",
        "192.175.49.0",
        "198.17.255.255",
        "198.20.0.0",
        "198.51.99.255",
        "198.51.101.0",
        "203.0.112.255",
        "203.0.114.0",
        "223.255.255.255",
    ] {
        assert_eq!(class(public, &[]), AddressClass::Public, "{public}");
    }
}

#[test]
fn each_special_range_says_what_it_is() {
    for (text, why) in [
        ("0.0.0.0", "this host (RFC 1122 section 3.2.1.3)"),
        ("0.1.2.3", "this network (RFC 791 section 3.2)"),
        ("10.0.0.1", "private use (RFC 1918)"),
        ("100.64.0.1", "shared address space (RFC 6598)"),
        ("127.0.0.2", "loopback (RFC 1122 section 3.2.1.3)"),
        ("169.254.1.1", "link-local (RFC 3927)"),
        ("172.31.0.1", "private use (RFC 1918)"),
        ("192.0.0.8", "the IPv4 dummy address (RFC 7600)"),
        ("192.0.2.1", "documentation (RFC 5737)"),
        ("192.88.99.1", "the former 6to4 relay (RFC 7526)"),
        ("192.168.0.1", "private use (RFC 1918)"),
        ("198.18.0.1", "benchmarking (RFC 2544)"),
        ("224.0.0.1", "multicast (RFC 5771)"),
        ("240.0.0.1", "reserved (RFC 1112 section 4)"),
        ("255.255.255.255", "limited broadcast (RFC 919)"),
        ("::", "the unspecified address (RFC 4291)"),
        ("::1", "loopback (RFC 4291)"),
        ("::2", "IPv4-compatible (RFC 4291 section 2.5.5.1)"),
        ("::7f00:1", "IPv4-compatible (RFC 4291 section 2.5.5.1)"),
        ("::ffff:7f00:1", "loopback (RFC 1122 section 3.2.1.3)"),
        ("::ffff:0:8.8.8.8", "IPv4-translated (RFC 2765)"),
        ("64:ff9b::8.8.8.8", "NAT64 (RFC 6052)"),
        ("64:ff9b:1::8.8.8.8", "NAT64 (RFC 8215)"),
        ("100::1", "discard-only (RFC 6666)"),
        ("2001:0:5ef5:79fd::1", "Teredo (RFC 4380)"),
        ("2001:2::1", "benchmarking (RFC 5180)"),
        ("2001:20::1", "ORCHID (RFC 7343)"),
        ("2001:1ff::1", "IETF protocol assignments (RFC 2928)"),
        ("2001:db8::1", "documentation (RFC 3849)"),
        ("2002:808:808::1", "6to4 (RFC 3056)"),
        ("2620:4f:8000::1", "AS112 (RFC 7534)"),
        ("3fff:fff::1", "documentation (RFC 9637)"),
        ("5f00::1", "segment IDs (RFC 9602)"),
        ("fc00::1", "unique-local (RFC 4193)"),
        ("fe80::1", "link-local (RFC 4291)"),
        ("fec0::1", "the former site-local (RFC 3879)"),
        ("ff02::1", "multicast (RFC 4291)"),
        ("4000::1", NOT_GLOBAL),
        ("1000::1", NOT_GLOBAL),
        ("2a00::5efe:808:808", "an ISATAP tunnel (RFC 5214)"),
        ("2a00::200:5efe:808:808", "an ISATAP tunnel (RFC 5214)"),
    ] {
        assert_eq!(class(text, &[]), AddressClass::Special(why), "{text}");
    }
    for public in [
        "2606:4700::1",
        "2001:200::1",
        "2001:4860:4860::8888",
        "2a00::1",
        "3fff:1000::1",
        "2620:4f:8001::1",
        "2000::",
        "3ffe::1",
    ] {
        assert_eq!(class(public, &[]), AddressClass::Public, "{public}");
    }
}

#[test]
fn a_control_address_stays_one_in_every_embedding() {
    for (control, why) in CONTROL {
        let expected = AddressClass::Metadata(why);
        assert_eq!(classify(*control, &[]), expected, "{control}");
        let IpAddr::V4(v4) = control else { continue };
        for (name, address) in embeddings(*v4, 0x1234_5678_9abc_def0 << 64) {
            let found = classify(address.into(), &[]);
            assert_eq!(found, expected, "{name} {address}");
        }
        for prefix in nets(&["64:ff9b::/96", "2a00:64::/32", "2a00:64:1::/56"]) {
            let found = classify(rfc6052(prefix, *v4).into(), &[prefix]);
            assert_eq!(found, expected, "{prefix} {control}");
        }
    }
}

#[test]
fn a_site_prefix_is_judged_by_the_ipv4_address_behind_it() {
    let public = Ipv4Addr::new(8, 8, 8, 8);
    let private = Ipv4Addr::new(10, 0, 0, 1);
    for text in [
        "2a00:64::/32",
        "2a00:64::/40",
        "2a00:64::/48",
        "2a00:64::/56",
        "2a00:64::/64",
        "2a00:64::/96",
        "64:ff9b::/96",
        "64:ff9b:1::/48",
        "64:ff9b:1:2::/96",
        "fd00:64::/96",
    ] {
        let site = nets(&[text]);
        assert!(is_nat64_prefix(site[0]), "{text}");
        let found = classify(rfc6052(site[0], public).into(), &site);
        assert_eq!(found, AddressClass::Public, "{text}");
        let found = classify(rfc6052(site[0], private).into(), &site);
        let expected = AddressClass::Special("private use (RFC 1918)");
        assert_eq!(found, expected, "{text}");
    }
}

#[test]
fn what_is_not_a_proper_site_prefix_or_address_is_refused() {
    for text in [
        "2a00:64::/44",
        "2a00:64::/95",
        "2a00:64::/128",
        "2a00::100:0:0:0/96",
    ] {
        assert!(!is_nat64_prefix(text.parse().unwrap()), "{text}");
    }
    for (text, site) in [
        ("2a00:64::808:808", "2a00:64::/44"),
        ("2a00:64:808:808:100::", "2a00:64::/32"),
        // Another site's prefix says nothing of this one.
        ("64:ff9b::808:808", "2a00:64::/96"),
    ] {
        let found = class(text, &nets(&[site]));
        assert!(
            matches!(found, AddressClass::Special(_)),
            "{text} {found:?}"
        );
    }
    // Two site prefixes that both hold an address must both lead somewhere public.
    let nested = nets(&["2a00:64::/32", "2a00:64:808:808::/96"]);
    assert_eq!(
        class("2a00:64:808:808::808:808", &nested),
        AddressClass::Public
    );
    let found = class("2a00:64:808:808::a00:1", &nested);
    assert_eq!(found, AddressClass::Special("private use (RFC 1918)"));
}

#[test]
fn a_mapped_range_is_the_ipv4_range_that_it_spells() {
    for (text, canonical) in [
        ("::ffff:10.1.2.3/104", "10.0.0.0/8"),
        ("::ffff:10.1.2.3/128", "10.1.2.3/32"),
        ("::ffff:0:0/96", "0.0.0.0/0"),
        ("::ffff:0:0/95", "::fffe:0:0/95"),
        ("10.1.2.3/8", "10.0.0.0/8"),
        ("2a00::1/16", "2a00::/16"),
    ] {
        let found = canonical_range(text.parse().unwrap());
        assert_eq!(found, canonical.parse().unwrap(), "{text}");
    }
}

fn in_a_blocked_row() -> impl Strategy<Value = Ipv4Addr> {
    (0..IPV4.len(), any::<u32>()).prop_map(|(row, bits)| {
        let (range, _) = IPV4[row];
        let host = bits & range.hostmask().to_bits();
        Ipv4Addr::from_bits(range.network().to_bits() | host)
    })
}

proptest! {
    #[test]
    fn every_blocked_range_times_every_embedding_is_blocked(
        v4 in in_a_blocked_row(),
        noise in any::<u128>(),
        site in prop::sample::select(&NAT64_LENGTHS[..]),
    ) {
        let site = Ipv6Net::new("2b00:64::".parse().unwrap(), site).unwrap();
        prop_assert_ne!(classify(v4.into(), &[]), AddressClass::Public);
        for (name, address) in embeddings(v4, noise) {
            let found = classify(address.into(), &[]);
            prop_assert_ne!(found, AddressClass::Public, "{} {}", name, address);
            let found = classify(address.into(), &[site]);
            prop_assert_ne!(found, AddressClass::Public, "{} {}", name, address);
        }
        let behind = classify(rfc6052(site, v4).into(), &[site]);
        prop_assert_ne!(behind, AddressClass::Public, "{}", site);
    }

    #[test]
    fn no_embedding_but_the_mapped_one_is_public(bits in any::<u32>(), noise in any::<u128>()) {
        let v4 = Ipv4Addr::from_bits(bits);
        for (name, address) in embeddings(v4, noise) {
            let found = classify(address.into(), &[]);
            if name == "v4-mapped" {
                prop_assert_eq!(found, classify(v4.into(), &[]));
            } else {
                prop_assert_ne!(found, AddressClass::Public, "{} {}", name, address);
            }
        }
    }

    #[test]
    fn nothing_outside_global_unicast_is_public(bits in any::<u128>()) {
        let address = Ipv6Addr::from_bits(bits);
        if address.to_ipv4_mapped().is_none() && bits >> 125 != 1 {
            prop_assert_ne!(classify(address.into(), &[]), AddressClass::Public);
        }
    }
}
