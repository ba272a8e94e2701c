use super::*;

#[test]
fn a_host_has_one_canonical_form_that_parses_to_itself() {
    for (text, canonical) in [
        ("ALLOWED.Example", "allowed.example"),
        ("allowed.example.", "allowed.example"),
        ("_dmarc.allowed.example", "_dmarc.allowed.example"),
        ("xn--bcher-kva.example", "xn--bcher-kva.example"),
        ("192.0.2.1", "192.0.2.1"),
        ("[2001:DB8:0::1]", "[2001:db8::1]"),
        ("[::ffff:192.0.2.1]", "[::ffff:192.0.2.1]"),
    ] {
        let host = Host::parse(text).unwrap();
        assert_eq!(host.to_string(), canonical, "{text}");
        assert_eq!(Host::parse(canonical), Ok(host), "{text}");
    }
}

#[test]
fn whatever_another_parser_could_read_differently_is_refused() {
    let long_label = "a".repeat(64);
    let long_name = format!("{}.example", "a.".repeat(124));
    for (text, expected) in [
        ("", HostError::Empty),
        (".", HostError::Empty),
        ("..", HostError::EmptyLabel),
        ("allowed.example..", HostError::EmptyLabel),
        (".allowed.example", HostError::EmptyLabel),
        ("a..example", HostError::EmptyLabel),
        (&long_label, HostError::TooLong),
        (&long_name, HostError::TooLong),
        ("-a.example", HostError::Hyphen),
        ("a-.example", HostError::Hyphen),
        ("2130706433", HostError::Numeric),
        ("0x7f.1", HostError::Numeric),
        ("0x7f000001", HostError::Numeric),
        ("127.1", HostError::Numeric),
        ("0177.0.0.1", HostError::Numeric),
        ("0", HostError::Numeric),
        ("1.2.3.4.", HostError::Numeric),
        ("1.2.3.256", HostError::Numeric),
        ("::1", HostError::Character),
        ("[allowed.example]", HostError::Brackets),
        ("[::1]tail", HostError::Brackets),
        ("[::1%25eth0]", HostError::Brackets),
        ("[192.0.2.1]", HostError::Brackets),
        ("[::1", HostError::Brackets),
        ("evil.example%00.allowed.example", HostError::Character),
        ("evil\0.example", HostError::Character),
        ("①②⑦.0.0.1", HostError::Character),
        ("bücher.example", HostError::Character),
        ("allowed.example\\", HostError::Character),
        ("*.example", HostError::Character),
        (" allowed.example", HostError::Character),
    ] {
        assert_eq!(Host::parse(text), Err(expected), "{text:?}");
    }
}

#[test]
fn every_zone_of_the_local_site_holds_itself_and_what_is_below() {
    for zone in [
        "localhost",
        "local",
        "internal",
        "onion",
        "invalid",
        "alt",
        "intranet",
        "private",
        "corp",
        "home",
        "lan",
        "localdomain",
        "home.arpa",
        "in-addr.arpa",
        "ip6.arpa",
        "ipv4only.arpa",
        "resolver.arpa",
        "service.arpa",
    ] {
        for (text, expected) in [
            (zone.to_owned(), Some(zone)),
            (format!("a.b.{zone}"), Some(zone)),
            (format!("a.x{zone}"), None),
            (format!("{zone}.example"), None),
        ] {
            let name = Name::parse(&text).unwrap();
            assert_eq!(name.special_zone(), expected, "{text}");
        }
    }
}

#[test]
fn special_and_forbidden_names_are_known() {
    for (text, special, never) in [
        ("localhost", true, true),
        ("foo.localhost", true, true),
        ("printer", true, false),
        ("host.docker.internal", true, false),
        ("metadata.google.internal", true, true),
        ("metadata.goog", false, true),
        ("x.local", true, false),
        ("x.home.arpa", true, false),
        ("notlocal.example", false, false),
        ("notlocal", true, false),
        ("a.notlocal", false, false),
        ("xmetadata.goog", false, false),
        ("x.metadata.goog", false, true),
        ("metadata", true, true),
        ("x.metadata", false, true),
        ("instance-data", true, true),
        ("metadata.azure.internal", true, true),
        ("instance-data.ec2.internal", true, true),
        ("metadata.azure.com", false, true),
        ("metadata.tencentyun.com", false, true),
        ("metadata.packet.net", false, true),
        ("metadata.platformequinix.com", false, true),
        ("com", true, false),
        ("arpa", true, false),
        ("xhome.arpa", false, false),
        ("allowed.example", false, false),
    ] {
        let name = Name::parse(text).unwrap();
        assert_eq!(
            (name.is_special(), name.is_never_allowed()),
            (special, never),
            "{text}"
        );
    }
}
