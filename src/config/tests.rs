//! Every kind of mistake with its message, the defaults, and the files that are shipped.

use std::{collections::BTreeSet, fs, net::Ipv4Addr, path::Path, time::Duration};

use proptest::prelude::{ProptestConfig, any, proptest};

use super::{
    Audit, AuditSink, Config, Dns, DnsAnswerSource, Launcher, Limits, Listen, Resolver, Upstream,
    scalar,
};
use crate::{
    destination::{Name, Scheme},
    policy::{Decision, EchMode, HostPattern, Mode, Ports, Reason},
};

fn valid(text: &str) -> Config {
    Config::parse(text).unwrap_or_else(|problems| panic!("{problems}\nin\n{text}"))
}

fn problems(text: &str) -> Vec<String> {
    let problems = Config::parse(text).expect_err(text);
    problems.0.iter().map(ToString::to_string).collect()
}

/// The only problem of `text`.
fn problem(text: &str) -> String {
    let mut found = problems(text);
    assert_eq!(found.len(), 1, "{found:#?}\nin\n{text}");
    found.remove(0)
}

const ONE_CLIENT: &str = "[profiles.default]\nallow = []\n[[clients]]\nprofile = \"default\"\n";

#[test]
fn several_problems_are_reported_together_in_the_order_of_lines() {
    let text = r#"[listen]
proxi = ["0.0.0.0:3128"]
dns = [":53"]

[profiles.default]
alow = ["api.example.com"]
deny = "evil.example.net"

[[clients]]
source = "172.30.0.1/24"
profile = "defualt"

[[tests]]
destination = "evil.example.net"
expect = "denied"

[limits]
connections = 0
idle_timeout = 300
lifetime = "1 hour"
"#;
    assert_eq!(
        problems(text),
        [
            "line 2: listen.proxi: unknown key; did you mean `proxy`?",
            "line 3: listen.dns[0]: \":53\" has no address; write \"127.0.0.1:53\" for this host \
             alone or \"0.0.0.0:53\" for every sandbox-side interface",
            "line 6: profiles.default.alow: unknown key; did you mean `allow`?",
            "line 7: profiles.default.deny: expected a list; write [\"evil.example.net\"]",
            "line 10: clients[0].source: \"172.30.0.1/24\" has bits set behind its prefix; write \
             \"172.30.0.0/24\"",
            "line 11: clients[0].profile: there is no profile \"defualt\"; did you mean `default`?",
            "line 13: tests[0].profile: missing; write profile = \"NAME\"",
            "line 15: tests[0].expect: \"denied\" is not known here; did you mean `deny`?",
            "line 18: limits.connections: 0 is out of range: write 1 to 1000000",
            "line 19: limits.idle_timeout: expected a duration in quotes such as \"30s\", found \
             the number 300",
            "line 20: limits.lifetime: \"1 hour\" is not a duration; write for example \"30s\", \
             \"5m\" or \"1h\" (ms, s, m, h, d)",
        ]
    );
}

#[test]
fn a_file_that_is_not_toml_is_refused_with_its_line() {
    for (text, expected) in [
        (
            "",
            "the configuration is empty; it must at least say [listen] and [profiles]",
        ),
        (
            "# nothing\n\n",
            "the configuration is empty; it must at least say [listen] and [profiles]",
        ),
        (
            "\u{feff}[listen]\n",
            "line 1: the file begins with a byte order mark; save it as UTF-8 without one",
        ),
        (
            "[limits]\nconnections = 0443\n",
            "line 2: not TOML: unexpected leading zero",
        ),
        (
            "[limits]\nconnections = no\n",
            "line 2: not TOML: \"no\" is no value; text stands in quotes, and only true and false are words",
        ),
        (
            "[limits]\nconnections = null\n",
            "line 2: not TOML: \"null\" is no value; text stands in quotes, and only true and false are words",
        ),
        (
            "[limits]\nconnections = True\n",
            "line 2: not TOML: \"True\" is no value; text stands in quotes, and only true and false are words",
        ),
        (
            "[limits]\nconnections = 1m\n",
            "line 2: not TOML: \"1m\" is no value; text stands in quotes, and only true and false are words",
        ),
        (
            "[limits]\nconnections = 10.0.0.1\n",
            "line 2: not TOML: \"10.0.0.1\" is no value; text stands in quotes, and only true and false are words",
        ),
        (
            "[limits]\nconnections = allowed.example\n",
            "line 2: not TOML: \"allowed.example\" is no value; text stands in quotes, and only true and false are words",
        ),
        (
            "[limits]\nconnections =\n",
            "line 2: not TOML: the value is missing",
        ),
        (
            "[listen]\nproxy: [\"0.0.0.0:3128\"]\n",
            "line 2: not TOML: key with no value, expected `=`",
        ),
        (
            "[listen]\nproxy = [\"0.0.0.0:3128\"\n[dns]\n",
            "line 3: not TOML: missing comma between array elements, expected `,`",
        ),
        (
            "[limits\n",
            "line 1: not TOML: unclosed table, expected `]`",
        ),
        (
            "[profiles.a]\nmode = \"a\u{0}\"\n",
            "line 2: not TOML: invalid basic string, expected non-double-quote visible characters, `\\`",
        ),
        (
            "[limits]\nconnections = 1\nconnections = 2\n",
            "line 3: connections: this key stands here twice; keep one of them",
        ),
        (
            "[limits]\nconnections = 1\n[limits]\n",
            "line 3: limits: this key stands here twice; keep one of them",
        ),
    ] {
        assert_eq!(problem(text), expected, "{text:?}");
    }
}

#[test]
fn a_duplicate_key_does_not_hide_other_problems() {
    assert_eq!(
        problems("[limits]\nlifetme = 1\nconnections = 1\nconnections = 2\n"),
        [
            "line 2: limits.lifetme: unknown key; did you mean `lifetime`?",
            "line 4: connections: this key stands here twice; keep one of them",
        ]
    );
}

#[test]
fn a_value_of_another_type_is_refused() {
    for (text, expected) in [
        (
            "listen = 1",
            "line 1: listen: expected a table, found the number 1",
        ),
        (
            "[listen]\nproxy = \"0.0.0.0:3128\"",
            "line 2: listen.proxy: expected a list; write [\"0.0.0.0:3128\"]",
        ),
        (
            "[listen]\nproxy = [3128]",
            "line 2: listen.proxy[0]: expected an address in quotes such as \"127.0.0.1:3128\", \
             found the number 3128",
        ),
        (
            "[listen]\nproxy = 3128",
            "line 2: listen.proxy: expected a list, each element an address in quotes such as \
             \"127.0.0.1:3128\", found the number 3128",
        ),
        (
            "[listen]\ndangerously_listen_on_uplink = \"yes\"",
            "line 2: listen.dangerously_listen_on_uplink: expected true or false without quotes, \
             found the text \"yes\"",
        ),
        (
            "[limits]\nconnections = \"443\"",
            "line 2: limits.connections: expected a whole number without quotes, found the text \
             \"443\"",
        ),
        (
            "[limits]\nconnections = 1e3",
            "line 2: limits.connections: expected a whole number without quotes, found the number \
             1e3",
        ),
        (
            "[limits]\nlifetime = 2026-01-01",
            "line 2: limits.lifetime: expected a duration in quotes such as \"30s\", found the \
             date 2026-01-01",
        ),
        (
            "[clients]\nsource = \"10.0.0.0/8\"",
            "line 1: clients: expected a list of tables, each headed [[clients]], found a table",
        ),
        (
            "[profiles]\ndefault = []",
            "line 2: profiles.default: expected a table, found a list",
        ),
        (
            "[profiles.default]\nallow = [[\"a.example\"]]",
            "line 2: profiles.default.allow[0]: expected a pattern in quotes such as \
             \"api.example.com\", found a list",
        ),
        (
            "[profiles.default]\nallow = [\n  \"a.example\",\n  true,\n]",
            "line 4: profiles.default.allow[1]: expected a pattern in quotes such as \
             \"api.example.com\", found true",
        ),
    ] {
        assert_eq!(problem(text), expected, "{text}");
    }
}

#[test]
fn the_environment_is_not_expanded() {
    for (text, key) in [
        ("[listen]\nadmin = \"${DIR}/admin.sock\"", "listen.admin"),
        ("[listen]\nproxy = [\"${IP}:3128\"]", "listen.proxy[0]"),
        ("[profiles.a]\nallow = [\"${HOST}\"]", "profiles.a.allow[0]"),
        ("[profiles.a]\nmode = \"${MODE}\"", "profiles.a.mode"),
        ("[audit]\nmax_size = \"${SIZE}\"", "audit.max_size"),
    ] {
        let found = problem(text);
        assert!(found.starts_with(&format!("line 2: {key}: ")), "{found}");
        assert!(
            found.ends_with(
                "holds `${`, and the environment is not expanded here; write the value itself"
            ),
            "{found}"
        );
    }
}

#[test]
fn each_setting_has_a_range_that_its_message_names() {
    for (section, key, wrong, hint) in [
        ("limits", "connections", "0", "write 1 to 1000000"),
        ("limits", "connections", "-1", "-1 is out of range"),
        ("limits", "connections", "1_000_001", "write 1 to 1000000"),
        (
            "limits",
            "connections",
            "99999999999999999999",
            "out of range",
        ),
        (
            "limits",
            "connections_per_client",
            "0",
            "write 1 to 1000000",
        ),
        ("limits", "requests_per_second", "0", "write 1 to 1000000"),
        (
            "limits",
            "dns_queries_per_second",
            "0",
            "write 1 to 1000000",
        ),
        (
            "limits",
            "wildcard_names_per_minute",
            "0",
            "write 1 to 1000000",
        ),
        (
            "limits",
            "denials_recorded_per_minute",
            "0",
            "write 1 to 1000000",
        ),
        ("limits", "header_timeout", "\"0s\"", "write 100ms to 10m"),
        ("limits", "header_timeout", "\"11m\"", "write 100ms to 10m"),
        (
            "limits",
            "connect_timeout",
            "\"99ms\"",
            "write 100ms to 10m",
        ),
        ("limits", "idle_timeout", "\"8d\"", "write 100ms to 7d"),
        ("limits", "lifetime", "\"0s\"", "write 100ms to 7d"),
        ("limits", "drain_timeout", "\"1h\"", "write 100ms to 10m"),
        (
            "limits",
            "max_header_bytes",
            "\"0\"",
            "write 1 KiB to 1 MiB",
        ),
        (
            "limits",
            "max_header_bytes",
            "\"2 MiB\"",
            "write 1 KiB to 1 MiB",
        ),
        (
            "limits",
            "max_upload_bytes",
            "\"2000000 GiB\"",
            "write 0 to 1048576 GiB",
        ),
        ("audit", "max_size", "\"0\"", "write 4 KiB to 1024 GiB"),
        ("audit", "keep", "0", "write 1 to 10000"),
        ("dns", "ttl", "\"500ms\"", "write 1s to 1d"),
        ("dns", "ttl", "\"1500ms\"", "whole seconds"),
        ("resolver", "timeout", "\"61s\"", "write 100ms to 1m"),
        ("launcher", "timeout", "\"0s\"", "write 100ms to 7d"),
        (
            "launcher",
            "pool",
            "\"10.0.0.0/30\"",
            "its prefix length is 8 to 29",
        ),
        (
            "launcher",
            "pool",
            "\"fd00::/64\"",
            "write for example \"10.231.0.0/16\"",
        ),
    ] {
        let found = problem(&format!("[{section}]\n{key} = {wrong}\n"));
        assert!(
            found.starts_with(&format!("line 2: {section}.{key}: ")),
            "{found}"
        );
        assert!(found.contains(hint), "{found}");
    }
}

#[test]
fn durations_have_a_unit_and_read_one_way() {
    let any = Duration::ZERO..=Duration::MAX;
    for (text, millis) in [
        ("500ms", 500),
        ("30s", 30_000),
        ("5m", 300_000),
        ("1h", 3_600_000),
        ("1h30m", 5_400_000),
        ("1m500ms", 60_500),
        ("2d", 172_800_000),
    ] {
        let duration = Duration::from_millis(millis);
        assert_eq!(scalar::duration(text, &any), Ok(duration), "{text}");
    }
    for text in [
        "",
        "30",
        "s",
        "-5s",
        "+5s",
        "1.5h",
        "30 s",
        " 30s",
        "30s ",
        "30S",
        "1m1h",
        "1m1m",
        "5min",
        "1 hour",
        "PT5S",
        "0x10s",
        "99999999999999999999s",
        "18446744073709551615d",
        "inf",
        "٣s",
    ] {
        assert!(scalar::duration(text, &any).is_err(), "{text:?}");
    }
    for (text, shown) in [
        ("90m", "90m"),
        ("1d", "1d"),
        ("1s500ms", "1500ms"),
        ("0s", "0ms"),
    ] {
        let duration = scalar::duration(text, &any).unwrap();
        assert_eq!(scalar::show_duration(duration), shown, "{text}");
        assert_eq!(scalar::duration(shown, &any), Ok(duration), "{shown}");
    }
}

#[test]
fn sizes_have_a_unit_and_read_one_way() {
    let any = 0..=u64::MAX;
    for (text, bytes) in [
        ("0", 0),
        ("512 B", 512),
        ("64 KiB", 65_536),
        ("64KiB", 65_536),
        ("100 MiB", 104_857_600),
        ("50MB", 50_000_000),
        ("1 kB", 1_000),
        ("2 GiB", 2_147_483_648),
    ] {
        assert_eq!(scalar::size(text, &any), Ok(bytes), "{text}");
    }
    for text in [
        "",
        "1024",
        "00",
        "MiB",
        "-1 MiB",
        "1.5 MiB",
        "1 K",
        "1m",
        "1 KB",
        "1 mib",
        "1  MiB",
        " 1 MiB",
        "0x10 B",
        "1 MiB ",
        "18446744073709551615 GiB",
        "unlimited",
    ] {
        assert!(scalar::size(text, &any).is_err(), "{text:?}");
    }
    for bytes in [0, 1, 1000, 1024, 65_536, 100_000_000, 104_857_600] {
        let shown = scalar::show_size(bytes);
        assert_eq!(scalar::size(&shown, &any), Ok(bytes), "{shown}");
    }
}

#[test]
fn a_listener_is_an_address_and_a_port() {
    for text in ["127.0.0.1:3128", "0.0.0.0:0", "[::1]:53", "[::]:443"] {
        let config = valid(&format!("[listen]\nproxy = [\"{text}\"]"));
        assert_eq!(config.listen.proxy, [text.parse().unwrap()]);
    }
    for (text, hint) in [
        (":3128", "write \"127.0.0.1:3128\" for this host alone"),
        ("3128", "write \"127.0.0.1:3128\" for this host alone"),
        ("127.0.0.1", "write for example \"127.0.0.1:3128\""),
        ("::1", "write for example \"[::1]:3128\""),
        (
            "localhost:3128",
            "a listener takes no name: write for example \"127.0.0.1:3128\"",
        ),
        ("::1:x:3128", "an IPv6 address stands in brackets"),
        ("127.0.0.1:65536", "is not IP:PORT"),
        ("http://127.0.0.1:3128", "write \"127.0.0.1:3128\""),
        ("127.1:3128", "a listener takes no name"),
        ("224.0.0.1:53", "is not an address that a listener can have"),
        (
            "255.255.255.255:53",
            "is not an address that a listener can have",
        ),
        ("[ff02::1]:53", "is not an address that a listener can have"),
        ("", "is not IP:PORT"),
    ] {
        let found = problem(&format!("[listen]\nproxy = [\"{text}\"]"));
        assert!(found.contains(hint), "{text}: {found}");
    }
}

#[test]
fn no_two_listeners_share_a_socket() {
    assert_eq!(
        problem("[listen]\nproxy = [\"127.0.0.1:80\"]\nhttp = [\"127.0.0.1:80\"]"),
        "line 3: listen.http[0]: 127.0.0.1:80 is already the socket of listen.proxy[0]"
    );
    assert_eq!(
        problem("[listen]\nproxy = [\"127.0.0.1:80\"]\nmetrics = \"127.0.0.1:80\""),
        "line 3: listen.metrics: 127.0.0.1:80 is already the socket of listen.proxy[0]"
    );
    valid("[listen]\nproxy = [\"127.0.0.1:0\"]\nhttp = [\"127.0.0.1:0\"]");
}

#[test]
fn metrics_are_never_on_a_wildcard() {
    for text in ["0.0.0.0:9464", "[::]:9464", "[::ffff:0.0.0.0]:9464"] {
        let found = problem(&format!("[listen]\nmetrics = \"{text}\""));
        assert!(found.contains("would answer sandboxes too"), "{found}");
    }
}

#[test]
fn a_path_is_absolute_and_names_a_file() {
    for text in [
        "",
        "eclusa.log",
        "./x",
        "/var/log/",
        "/var/../etc/x",
        "/a\\u0000b",
        "/a\\nb",
    ] {
        let found = problem(&format!("[audit]\nfile = \"{text}\""));
        assert!(found.starts_with("line 2: audit.file: "), "{found}");
    }
    let long = format!("/run/{}.sock", "x".repeat(100));
    let found = problem(&format!("[listen]\nadmin = \"{long}\""));
    assert!(found.ends_with("a unix socket's is at most 107"), "{found}");
}

#[test]
fn the_dns_answer_is_the_address_of_a_host() {
    let config = valid("[dns]\nanswer = \"10.0.0.1\"");
    assert_eq!(
        config.dns.answer,
        DnsAnswerSource::Fixed(Ipv4Addr::new(10, 0, 0, 1))
    );
    for text in [
        "0.0.0.0",
        "224.0.0.1",
        "255.255.255.255",
        "::1",
        "proxy",
        "10.0.0.1/8",
        "",
    ] {
        let found = problem(&format!("[dns]\nanswer = \"{text}\""));
        assert!(found.starts_with("line 2: dns.answer: "), "{found}");
    }
}

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
    for (text, hint) in [
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
    ] {
        let found = problem(&format!("[resolver]\nservers = [\"{text}\"]"));
        assert!(found.contains(hint), "{text}: {found}");
    }
    for text in ["[]", "[\"system\", \"system\"]"] {
        problem(&format!("[resolver]\nservers = {text}"));
    }
}

#[test]
fn ranges_have_no_bits_behind_their_prefix() {
    let config = valid(
        "[addresses]\nblocked = [\"203.0.113.0/24\", \"198.51.100.7\", \"2001:db8::/32\"]\n\
         own = [\"192.0.2.1\", \"::ffff:192.0.2.2\"]\nnat64 = [\"64:ff9b::/96\", \"2001:db8::/32\"]",
    );
    let blocked: Vec<_> = config
        .addresses
        .blocked
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(
        blocked,
        ["203.0.113.0/24", "198.51.100.7/32", "2001:db8::/32"]
    );
    let own: Vec<_> = config
        .addresses
        .own
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(own, ["192.0.2.1", "192.0.2.2"]);
    for (key, text, hint) in [
        ("blocked", "203.0.113.1/24", "write \"203.0.113.0/24\""),
        ("blocked", "203.0.113.0/33", "is not an IP range"),
        ("blocked", "203.0.113.0/024", "is not an IP range"),
        ("blocked", "203.0.113/24", "is not an IP range"),
        ("blocked", "203.0.113.0-203.0.113.9", "is not an IP range"),
        ("blocked", "0xcb007100/24", "is not an IP range"),
        ("blocked", "example.com", "is not an IP range"),
        (
            "blocked",
            "::ffff:10.0.0.0/104",
            "write \"10.0.0.0/8\", which covers both",
        ),
        ("blocked", "", "is not an IP range"),
        ("own", "192.0.2.0/24", "is a range; write one address"),
        ("own", "eth0", "is not an IP address"),
        ("nat64", "192.0.2.0/24", "is not IPv6"),
        (
            "nat64",
            "64:ff9b::/95",
            "its length is 32, 40, 48, 56, 64 or 96",
        ),
        (
            "nat64",
            "64:ff9b:0:0:ff00::/96",
            "its bits 64 to 71 are not zero",
        ),
    ] {
        let found = problem(&format!("[addresses]\n{key} = [\"{text}\"]"));
        assert!(
            found.starts_with(&format!("line 2: addresses.{key}[0]: ")),
            "{found}"
        );
        assert!(found.contains(hint), "{text}: {found}");
    }
}

#[test]
fn a_client_has_a_source_of_its_own_and_a_known_profile() {
    let config = valid(&format!("{ONE_CLIENT}source = \"172.30.0.7\""));
    assert_eq!(
        config.policies.clients()[0].source.to_string(),
        "172.30.0.7/32"
    );
    for (text, expected) in [
        (
            format!(
                "{ONE_CLIENT}source = \"10.0.0.0/8\"\n[[clients]]\nsource = \"10.0.0.0/8\"\nprofile = \"default\""
            ),
            "line 7: clients[1].source: 10.0.0.0/8 is already the source of clients[0]",
        ),
        (
            ONE_CLIENT.to_owned(),
            "line 3: clients[0].source: missing; write source = \"172.30.0.0/24\"",
        ),
        (
            format!("{ONE_CLIENT}source = \"10.0.0.0/8\"\nname = \"x\""),
            "line 6: clients[0].name: unknown key; known: `profile`, `source`",
        ),
        (
            "[[clients]]\nsource = \"10.0.0.0/8\"\nprofile = \"default\"".to_owned(),
            "line 3: clients[0].profile: there is no profile \"default\"; there is none yet",
        ),
        (
            "[launcher]\nceiling = \"default\"".to_owned(),
            "line 2: launcher.ceiling: there is no profile \"default\"; there is none yet",
        ),
        (
            format!("{ONE_CLIENT}source = \"10.231.4.0/24\"\n[launcher]\npool = \"10.231.0.0/16\""),
            "line 7: launcher.pool: 10.231.0.0/16 overlaps the [[clients]] source 10.231.4.0/24, \
             so no run could be registered from it; write a range that no client has",
        ),
    ] {
        assert_eq!(problem(&text), expected, "{text}");
    }
}

#[test]
fn a_profile_is_read_with_the_places_of_its_rules() {
    let config = valid(
        r#"[profiles.build]
mode = "report"
ech = "allow"
allow = ["api.example.com"]
deny = ["*.evil.example"]
[[profiles.build.rules]]
hosts = ["a.example", "*.b.example"]
ports = [8443, 443]
addresses = ["10.20.0.0/16"]
opaque = true
[[profiles.build.rules]]
hosts = ["c.example"]
"#,
    );
    let profile = config.policies.configured("build").unwrap();
    assert_eq!((profile.mode, profile.ech), (Mode::Report, EchMode::Allow));
    let allow: Vec<_> = profile
        .allow
        .iter()
        .map(|rule| (&*rule.place, rule.opaque))
        .collect();
    assert_eq!(
        allow,
        [
            ("profiles.build.allow[0]", false),
            ("profiles.build.rules[0].hosts[0]", true),
            ("profiles.build.rules[0].hosts[1]", true),
            ("profiles.build.rules[1].hosts[0]", false),
        ]
    );
    assert_eq!(
        profile.allow[1].pattern.ports,
        Ports::Listed(vec![443, 8443])
    );
    assert_eq!(profile.allow[3].pattern.ports, Ports::Web);
    assert_eq!(
        profile.allow[2].addresses,
        ["10.20.0.0/16".parse().unwrap()]
    );
    assert!(matches!(
        profile.allow[2].pattern.hosts,
        HostPattern::Below(_)
    ));
    assert_eq!(&*profile.deny[0].place, "profiles.build.deny[0]");
}

#[test]
fn a_rule_says_whom_it_allows() {
    for (rule, expected) in [
        (
            "ports = [443]",
            "line 1: profiles.a.rules[0].hosts: missing; write hosts = [\"api.example.com\"]",
        ),
        (
            "hosts = []",
            "line 2: profiles.a.rules[0].hosts: the rule names no host and so allows nothing; name one, or drop the rule",
        ),
        (
            "hosts = \"a.example\"",
            "line 2: profiles.a.rules[0].hosts: expected a list; write [\"a.example\"]",
        ),
        (
            "hosts = [\"a.example:443\"]",
            "line 2: profiles.a.rules[0].hosts[0]: \"a.example:443\" has a port or scheme of its own; write the host alone, and ports = [PORT] in the rule",
        ),
        (
            "hosts = [\"http://a.example\"]",
            "line 2: profiles.a.rules[0].hosts[0]: \"http://a.example\" has a port or scheme of its own; write the host alone, and ports = [PORT] in the rule",
        ),
        (
            "hosts = [\"a.example\"]\nports = []",
            "line 3: profiles.a.rules[0].ports: the rule names no port; name one, or leave the key out for 443 and 80",
        ),
        (
            "hosts = [\"a.example\"]\nports = [0]",
            "line 3: profiles.a.rules[0].ports[0]: 0 is out of range: write 1 to 65535",
        ),
        (
            "hosts = [\"a.example\"]\nports = [65536]",
            "line 3: profiles.a.rules[0].ports[0]: 65536 is out of range: write 1 to 65535",
        ),
        (
            "hosts = [\"a.example\"]\nports = [\"443\"]",
            "line 3: profiles.a.rules[0].ports[0]: expected a whole number without quotes, found the text \"443\"",
        ),
        (
            "hosts = [\"a.example\"]\nports = [443, 443]",
            "line 3: profiles.a.rules[0].ports[1]: 443 stands here twice",
        ),
        (
            "hosts = [\"a.example\"]\naddresses = [\"10.0.0.1/8\"]",
            "line 3: profiles.a.rules[0].addresses[0]: \"10.0.0.1/8\" has bits set behind its prefix; write \"10.0.0.0/8\"",
        ),
        (
            "hosts = [\"a.example\"]\nhost = \"x\"",
            "line 3: profiles.a.rules[0].host: unknown key; did you mean `hosts`?",
        ),
    ] {
        let text = format!("[[profiles.a.rules]]\n{rule}\n");
        assert_eq!(problem(&text), expected, "{text}");
    }
}

#[test]
fn no_rule_opens_a_metadata_address() {
    for range in [
        "169.254.169.254",
        "169.254.169.254/32",
        "168.63.129.16",
        "fd00:ec2::254",
    ] {
        let text =
            format!("[[profiles.a.rules]]\nhosts = [\"a.example\"]\naddresses = [\"{range}\"]");
        let found = problem(&text);
        assert!(found.contains("which no rule can open"), "{found}");
    }
    // A wider range may hold one; the guard still refuses that address.
    for range in ["169.254.0.0/16", "0.0.0.0/0", "::/0", "10.0.0.0/8"] {
        valid(&format!(
            "[[profiles.a.rules]]\nhosts = [\"a.example\"]\naddresses = [\"{range}\"]"
        ));
    }
}

#[test]
fn patterns_that_name_everybody_are_refused() {
    for text in [
        "*",
        "*.*",
        "*.com",
        "*.co.uk",
        "*.github.io",
        ".",
        "",
        " ",
        "*.s3.amazonaws.com",
        "*example.com",
        "api.*.example.com",
        "localhost",
        "metadata.google.internal",
        "*.internal",
        "a.example/path",
        "ftp://a.example",
        "a.example:0",
        "a.example:0443",
        "10.0.0.0/8",
        "2130706433",
        "bücher.example",
    ] {
        let found = problem(&format!("[profiles.a]\nallow = [{text:?}]"));
        let prefix = format!("line 2: profiles.a.allow[0]: {text:?}: ");
        assert!(found.starts_with(&prefix), "{found}");
    }
}

#[test]
fn rules_that_contradict_each_other_are_named_with_their_line() {
    let text = r#"[[profiles.a.rules]]
hosts = ["a.example"]
opaque = true
[[profiles.a.rules]]
hosts = ["b.example", "a.example"]
"#;
    let found = problem(text);
    assert!(
        found.starts_with("line 5: profiles.a.rules[1].hosts[1]: "),
        "{found}"
    );
}

#[test]
fn an_empty_list_allows_nothing() {
    for text in [
        "[profiles.a]\nallow = []",
        "[profiles.a]",
        "[profiles.a]\ndeny = []",
    ] {
        let config = valid(text);
        let destination = super::destination::parse("a.example").unwrap();
        let verdict = config.policies.profile("a").unwrap().evaluate(&destination);
        assert_eq!(verdict.decision, Decision::Deny, "{text}");
    }
}

#[test]
fn a_name_of_a_profile_is_plain() {
    for name in ["\"a b\"", "\"\"", "\"a.b\"", "\"ä\"", "\"../x\""] {
        let found = problem(&format!("[profiles.{name}]"));
        assert!(found.contains("is not a name for a profile"), "{found}");
    }
    valid("[profiles.a-b_C9]");
}

#[test]
fn expectations_are_read_whole() {
    let config = valid(
        "[profiles.a]\n[[tests]]\ndestination = \"https://evil.example.net/x\"\nprofile = \"a\"\n\
         expect = \"deny\"\nreason = \"not_allowlisted\"",
    );
    let [test] = &*config.tests else { panic!() };
    assert_eq!((&*test.place, test.line), ("tests[0]", 2));
    assert_eq!(test.written, "https://evil.example.net/x");
    assert_eq!(test.destination.to_string(), "evil.example.net:443");
    assert_eq!(
        (test.expect, test.reason),
        (Decision::Deny, Some(Reason::NotAllowlisted))
    );
    let found = problem(
        "[profiles.a]\n[[tests]]\ndestination = \"a.example\"\nprofile = \"a\"\nexpect = \"deny\"\n\
         reason = \"not_allowed\"",
    );
    assert_eq!(
        found,
        "line 6: tests[0].reason: \"not_allowed\" is not known here; did you mean \
         `not_allowlisted`?"
    );
}

#[test]
fn destinations_are_read_as_people_write_them() {
    for (text, scheme, canonical) in [
        ("https://a.example/path?q#f", Scheme::Https, "a.example:443"),
        ("https://A.Example:8443", Scheme::Https, "a.example:8443"),
        ("http://a.example", Scheme::Http, "a.example:80"),
        ("http://a.example:8080/x", Scheme::Http, "a.example:8080"),
        ("a.example", Scheme::Https, "a.example:443"),
        ("a.example.", Scheme::Https, "a.example:443"),
        ("a.example:80", Scheme::Http, "a.example:80"),
        ("a.example:22", Scheme::Https, "a.example:22"),
        ("192.0.2.1", Scheme::Https, "192.0.2.1:443"),
        ("[2001:db8::1]:80", Scheme::Http, "[2001:db8::1]:80"),
    ] {
        let destination = super::destination::parse(text).unwrap();
        assert_eq!(
            (destination.scheme, &*destination.to_string()),
            (scheme, canonical),
            "{text}"
        );
    }
    for (text, hint) in [
        ("", "the host is empty"),
        ("https://", "the host is empty"),
        ("ftp://a.example", "\"ftp\" is neither http nor https"),
        ("a.example/path", "write https://a.example/path"),
        ("::1", "write an IPv6 address in brackets: [::1]:443"),
        ("https://u:p@a.example", "user information"),
        ("a.example:0443", "the port is not a number"),
        ("a.example:", "the port is not a number"),
        ("127.1", "looks like an address"),
        ("a example", "a space or a control character"),
        ("*.a.example", "a character that a DNS name cannot have"),
    ] {
        let found = super::destination::parse(text).unwrap_err();
        assert!(found.contains(hint), "{text}: {found}");
    }
}

#[test]
fn what_is_left_out_has_its_default() {
    let config = valid("[profiles.default]");
    assert_eq!(config.listen, Listen::default());
    assert_eq!(
        config.dns,
        Dns {
            answer: DnsAnswerSource::Listener,
            ttl: Duration::from_secs(30),
            names: vec![Name::parse("eclusa").unwrap()],
        }
    );
    assert_eq!(
        config.resolver,
        Resolver {
            servers: vec![Upstream::System],
            ca: None,
            timeout: Duration::from_secs(5),
        }
    );
    assert_eq!(
        config.audit,
        Audit {
            sink: AuditSink::File("/var/log/eclusa/audit.jsonl".into()),
            max_size: 100 << 20,
            keep: 10,
        }
    );
    assert_eq!(
        config.limits,
        Limits {
            connections: 10_000,
            connections_per_client: 256,
            requests_per_second: 200,
            dns_queries_per_second: 100,
            wildcard_names_per_minute: 120,
            denials_recorded_per_minute: 600,
            header_timeout: Duration::from_secs(10),
            connect_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_secs(300),
            lifetime: Duration::from_secs(3600),
            drain_timeout: Duration::from_secs(30),
            max_header_bytes: 64 << 10,
            max_upload_bytes: None,
        }
    );
    assert_eq!(
        config.launcher,
        Launcher {
            timeout: Duration::from_secs(30),
            record: None,
            pool: "10.231.0.0/16".parse().unwrap(),
            ceiling: None,
        }
    );
    assert_eq!(config.warnings, Vec::<String>::new());
}

#[test]
fn what_is_risky_is_warned_about() {
    for (text, expected) in [
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
    ] {
        let warnings = valid(text).warnings;
        assert_eq!(warnings.len(), 1, "{text}: {warnings:#?}");
        assert!(warnings[0].starts_with(expected), "{text}: {warnings:?}");
    }
    for text in [
        "[resolver]\nservers = [\"udp://10.0.0.53\", \"udp://127.0.0.1\", \"tls://9.9.9.9#dns.quad9.net\"]",
        "[dns]\nanswer = \"172.30.0.2\"",
        "[[profiles.a.rules]]\nhosts = [\"a.example\"]\naddresses = [\"10.0.0.0/8\"]",
    ] {
        assert_eq!(valid(text).warnings, Vec::<String>::new(), "{text}");
    }
}

#[test]
fn a_reload_says_what_changes_and_what_needs_a_restart() {
    let old = valid(
        r#"[listen]
proxy = ["127.0.0.1:3128"]
[profiles.a]
allow = ["a.example", "b.example"]
deny = ["x.example"]
[profiles.gone]
[[clients]]
source = "10.1.0.0/16"
profile = "a"
[[clients]]
source = "10.2.0.0/16"
profile = "a"
[limits]
connections = 10
idle_timeout = "5m"
"#,
    );
    let new = valid(
        r#"[listen]
proxy = ["127.0.0.1:3129"]
[profiles.a]
mode = "report"
allow = ["b.example"]
[[profiles.a.rules]]
hosts = ["c.example"]
addresses = ["10.9.0.0/16"]
opaque = true
[profiles.new]
allow = ["n.example"]
[[clients]]
source = "10.1.0.0/16"
profile = "new"
[[clients]]
source = "10.3.0.0/16"
profile = "a"
[limits]
connections = 20
idle_timeout = "6m"
"#,
    );
    assert_eq!(
        old.restart_needed(&new),
        ["listen.proxy", "limits.connections"]
    );
    assert_eq!(
        old.changes(&new),
        [
            "listen.proxy: [127.0.0.1:3129], was [127.0.0.1:3128]",
            "limits.connections: 20, was 10",
            "limits.idle_timeout: 6m, was 5m",
            "profiles.a.mode: report, was enforce",
            "profiles.a: allows c.example at [10.9.0.0/16], opaque",
            "profiles.a: no longer allows a.example",
            "profiles.a: no longer denies x.example",
            "profiles.gone: removed",
            "profiles.new: added",
            "profiles.new: allows n.example",
            "clients: 10.1.0.0/16 is under \"new\", was \"a\"",
            "clients: 10.3.0.0/16 added, under \"a\"",
            "clients: 10.2.0.0/16 removed, was under \"a\"",
        ]
    );
    assert_eq!(old.changes(&old), Vec::<String>::new());
    assert_eq!(old.restart_needed(&old), Vec::<&str>::new());
}

#[test]
fn a_long_difference_is_counted() {
    let patterns: Vec<_> = (0..25).map(|n| format!("\"h{n}.example\"")).collect();
    let new = valid(&format!("[profiles.a]\nallow = [{}]", patterns.join(",")));
    let changes = valid("[profiles.a]").changes(&new);
    assert_eq!(changes.len(), 21);
    assert_eq!(changes[20], "profiles.a: allows 5 more");
}

/// The lines of `text` with every commented-out setting put into effect: a `#` with neither a
/// space nor another `#` behind it.
fn with_examples(text: &str) -> String {
    let lines = text.lines().map(|line| {
        let (indent, rest) = line.split_at(line.len() - line.trim_start().len());
        match rest.strip_prefix('#') {
            Some(setting) if !setting.is_empty() && !setting.starts_with([' ', '#']) => {
                format!("{indent}{setting}\n")
            }
            _ => format!("{line}\n"),
        }
    });
    lines.collect()
}

fn repository(path: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

#[test]
fn every_shipped_file_parses() {
    let mut seen = 0;
    for entry in fs::read_dir(repository("config")).unwrap() {
        let path = entry.unwrap().path();
        if path
            .extension()
            .is_some_and(|extension| extension == "toml")
        {
            let text = fs::read_to_string(&path).unwrap();
            valid(&text);
            valid(&with_examples(&text));
            seen += 1;
        }
    }
    assert!(seen > 0);
}

#[test]
fn every_toml_block_of_the_documentation_parses() {
    let mut files = vec![repository("README.md")];
    if let Ok(entries) = fs::read_dir(repository("docs")) {
        files.extend(entries.map(|entry| entry.unwrap().path()));
    }
    for file in files
        .iter()
        .filter(|file| file.extension().is_some_and(|ext| ext == "md"))
    {
        let Ok(text) = fs::read_to_string(file) else {
            continue;
        };
        for block in text.split("```toml\n").skip(1) {
            let block = block.split("```").next().unwrap();
            if let Err(problems) = Config::parse(block) {
                panic!("{}: {problems}\nin\n{block}", file.display());
            }
        }
    }
}

#[test]
fn the_shipped_file_starts_with_nothing_allowed_and_every_default() {
    let shipped = valid(&fs::read_to_string(repository("config/eclusa.toml")).unwrap());
    let defaults = valid("[profiles.default]");
    let profile = shipped.policies.configured("default").unwrap();
    assert!(profile.allow.is_empty() && profile.deny.is_empty());
    assert_eq!(shipped.warnings, Vec::<String>::new());
    let changes: Vec<_> = defaults
        .changes(&shipped)
        .into_iter()
        .filter(|line| !line.starts_with("listen."))
        .collect();
    assert_eq!(changes, Vec::<String>::new());
    assert_eq!(shipped.launcher, defaults.launcher);
}

/// The keys of the table that `header` opens: the reader itself names them when none is near.
fn known_keys(header: &str) -> BTreeSet<String> {
    let found = problem(&format!("{header}\nqqqqqqqq = 1\n"));
    let (_, known) = found.split_once("unknown key; known: ").expect(&found);
    let keys = known.split(", ");
    keys.map(|key| key.trim_matches('`').to_owned()).collect()
}

#[test]
fn the_shipped_file_names_every_key() {
    let text = with_examples(&fs::read_to_string(repository("config/eclusa.toml")).unwrap());
    let shipped: toml::Table = text.parse().unwrap();
    let sections = [
        ("listen", "[listen]"),
        ("dns", "[dns]"),
        ("resolver", "[resolver]"),
        ("addresses", "[addresses]"),
        ("profiles.default", "[profiles.default]"),
        (
            "profiles.default.rules",
            "[[profiles.default.rules]]\nhosts = [\"a.example\"]",
        ),
        (
            "clients",
            "[profiles.a]\n[[clients]]\nsource = \"10.0.0.0/8\"\nprofile = \"a\"",
        ),
        (
            "tests",
            "[profiles.a]\n[[tests]]\ndestination = \"a.example\"\nprofile = \"a\"\nexpect = \"deny\"",
        ),
        ("audit", "[audit]"),
        ("limits", "[limits]"),
        ("launcher", "[launcher]"),
    ];
    let listed: BTreeSet<_> = sections
        .iter()
        .map(|(path, _)| path.split('.').next().unwrap().to_owned())
        .collect();
    assert_eq!(known_keys(""), listed, "a section is missing in this test");
    for (path, header) in sections {
        let mut table = &toml::Value::Table(shipped.clone());
        for step in path.split('.') {
            table = &table[step];
            table = table.get(0).unwrap_or(table);
        }
        let written: BTreeSet<_> = table.as_table().unwrap().keys().cloned().collect();
        assert_eq!(written, known_keys(header), "{path}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn no_text_makes_the_reader_panic(text in "[a-z\\[\\]\\.\"=\\-#:/\\$\\{\\}0-9 \n\\PC]{0,200}") {
        drop(Config::parse(&text));
    }

    #[test]
    fn no_value_makes_the_reader_panic(text in any::<String>()) {
        let quoted = toml::Value::String(text).to_string();
        for key in ["listen.proxy", "resolver.servers", "addresses.nat64", "profiles.a.allow"] {
            drop(Config::parse(&format!("{key} = [{quoted}]")));
        }
        for key in ["audit.max_size", "limits.lifetime", "dns.answer", "listen.metrics"] {
            drop(Config::parse(&format!("{key} = {quoted}")));
        }
    }
}
