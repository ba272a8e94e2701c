//! One warning for each risk, and none without.

use crate::config::tests::valid;

const RISKS: &[(&str, &str)] = &[
    (
        "[listen]\ndangerously_listen_on_uplink = true",
        "listen.dangerously_listen_on_uplink: wildcard listeners also serve",
    ),
    (
        "[listen]\nproxy = [\"127.0.0.1:0\"]",
        "listen: port 0 is a different port",
    ),
    (
        "[dns]\nanswer = \"127.0.0.1\"",
        "dns.answer: 127.0.0.1 is the loopback",
    ),
    (
        "[dns]\nanswer = \"8.8.8.8\"",
        "dns.answer: 8.8.8.8 is a public address",
    ),
    (
        "[resolver]\nservers = [\"system\", \"udp://9.9.9.9\"]",
        "resolver.servers[1]: names go to 9.9.9.9 in clear text",
    ),
    (
        "[resolver]\nca = \"/etc/ssl/own.pem\"",
        "resolver.ca: no server is tls:// or https://",
    ),
    (
        "[profiles.a]\nmode = \"report\"",
        "profiles.a.mode: report lets out",
    ),
    (
        "[profiles.a]\nech = \"allow\"",
        "profiles.a.ech: with Encrypted Client Hello",
    ),
    (
        "[[profiles.a.rules]]\nhosts = [\"a.example\", \"b.example\"]\nopaque = true",
        "profiles.a.rules[0].opaque: ",
    ),
    (
        "[[profiles.a.rules]]\nhosts = [\"a.example\"]\naddresses = [\"127.0.0.0/8\"]",
        "profiles.a.rules[0].addresses: 127.0.0.0/8 opens services on the loopback",
    ),
    (
        "[[profiles.a.rules]]\nhosts = [\"a.example\"]\naddresses = [\"::/0\"]",
        "profiles.a.rules[0].addresses: ::/0 opens",
    ),
    (
        "[profiles.a]\n[[clients]]\nsource = \"0.0.0.0/0\"\nprofile = \"a\"",
        "clients: 0.0.0.0/0 takes everybody",
    ),
];

#[test]
fn what_is_risky_is_warned_about() {
    for &(text, expected) in RISKS {
        let warnings = valid(text).warnings;
        assert_eq!(warnings.len(), 1, "{text}: {warnings:#?}");
        assert!(warnings[0].starts_with(expected), "{text}: {warnings:?}");
    }
    for text in [
        "[resolver]\nservers = [\"udp://10.0.0.53\", \"udp://127.0.0.1\", \"tls://9.9.9.9#dns.quad9.net\"]",
        "[dns]\nanswer = \"10.199.0.2\"",
        "[[profiles.a.rules]]\nhosts = [\"a.example\"]\naddresses = [\"10.0.0.0/8\"]",
    ] {
        assert_eq!(valid(text).warnings, Vec::<String>::new(), "{text}");
    }
}
