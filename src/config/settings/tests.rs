//! Defaults, ranges and listeners.

use std::{net::Ipv4Addr, time::Duration};

use crate::{
    config::{
        Audit, AuditSink, Dns, DnsAnswerSource, Launcher, Limits, Listen, Resolver, Upstream,
        tests::{problem, valid},
    },
    destination::Name,
};

const OUT_OF_RANGE: &[(&str, &str, &str, &str)] = &[
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
];

#[test]
fn each_setting_has_a_range_that_its_message_names() {
    for &(section, key, wrong, hint) in OUT_OF_RANGE {
        let found = problem(&format!("[{section}]\n{key} = {wrong}\n"));
        assert!(
            found.starts_with(&format!("line 2: {section}.{key}: ")),
            "{found}"
        );
        assert!(found.contains(hint), "{found}");
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
            idle_timeout: Duration::from_mins(5),
            lifetime: Duration::from_hours(1),
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
