//! The spellings of a resolver.

use crate::config::{
    Upstream,
    tests::{problem, valid},
};

const NOT_SERVERS: &[(&str, &str)] = &[
    ("192.0.2.1", "write \"udp://192.0.2.1\""),
    ("2001:db8::1", "write \"udp://[2001:db8::1]\""),
    ("System", "write \"system\""),
    ("dns.example.net", "write \"system\""),
    (
        "udp://dns.example.net",
        "there is nothing to look it up with",
    ),
    ("udp://0.0.0.0", "0.0.0.0 is no server's address"),
    ("udp://224.0.0.1", "224.0.0.1 is no server's address"),
    ("udp://192.0.2.1:0", "the port is not a number"),
    ("udp://192.0.2.1:053", "the port is not a number"),
    ("udp://192.0.2.1/x", "is not a server"),
    ("udp://a@192.0.2.1", "user information"),
    ("tcp://192.0.2.1", "unknown scheme"),
    ("tls://192.0.2.1", "write \"tls://192.0.2.1#NAME\""),
    ("tls://192.0.2.1#", "the certificate name"),
    ("tls://192.0.2.1#a b", "the certificate name"),
    ("tls://192.0.2.1/x#a.example", "is not a server"),
    (
        "https://192.0.2.1/dns-query",
        "write \"https://192.0.2.1/dns-query#NAME\"",
    ),
    (
        "https://192.0.2.1#a.example",
        "write \"https://192.0.2.1/dns-query#a.example\"",
    ),
    (
        "https://192.0.2.1/dns-query?x=1#a.example",
        "a character that a path cannot have",
    ),
    ("", "write \"system\""),
];

#[test]
fn resolvers_are_named_by_address_and_certificate_name() {
    for text in [
        "system",
        "udp://192.0.2.1:53",
        "udp://[2001:db8::1]:5353",
        "tls://192.0.2.1:853#dns.example.net",
        "https://192.0.2.1:443/dns-query#dns.example.net",
    ] {
        let config = valid(&format!("[resolver]\nservers = [\"{text}\"]"));
        let [server] = &*config.resolver.servers else {
            panic!("{text}")
        };
        assert_eq!(server.to_string(), text);
    }
    let config = valid(
        "[resolver]\nservers = [\"udp://192.0.2.1\", \"tls://192.0.2.1#a.example\", \
         \"https://192.0.2.1/dns-query#a.example\"]",
    );
    assert_eq!(
        config.resolver.servers,
        [
            Upstream::Udp("192.0.2.1:53".parse().unwrap()),
            Upstream::Tls {
                address: "192.0.2.1:853".parse().unwrap(),
                name: "a.example".into(),
            },
            Upstream::Https {
                address: "192.0.2.1:443".parse().unwrap(),
                name: "a.example".into(),
                path: "/dns-query".into(),
            },
        ]
    );
    for &(text, hint) in NOT_SERVERS {
        let found = problem(&format!("[resolver]\nservers = [\"{text}\"]"));
        assert!(found.contains(hint), "{text}: {found}");
    }
    for text in ["[]", "[\"system\", \"system\"]"] {
        problem(&format!("[resolver]\nservers = {text}"));
    }
}
