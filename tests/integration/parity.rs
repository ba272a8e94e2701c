//! One decision whatever the road: the same destination by CONNECT, absolute-form, SNI, Host and
//! DNS is allowed or refused alike, for the same reason.

use serde_json::Value;

use crate::support::{
    client::{client_hello, dial, exchange, read_to_close, send},
    dns_query,
    world::World,
};

/// What each road is expected to record: the reason, by CONNECT to 443, absolute-form, SNI, Host,
/// and a query for A.
struct Row {
    host: &'static str,
    tls: &'static str,
    plain: &'static str,
    name: &'static str,
}

const ROWS: &[Row] = &[
    Row {
        host: "allowed.example",
        tls: "allowlisted",
        plain: "allowlisted",
        name: "allowlisted",
    },
    Row {
        host: "a.b.c.wild.example",
        tls: "allowlisted",
        plain: "allowlisted",
        name: "allowlisted",
    },
    Row {
        host: "wild.example",
        tls: "not_allowlisted",
        plain: "not_allowlisted",
        name: "not_allowlisted",
    },
    Row {
        host: "secret.wild.example",
        tls: "denied_by_rule",
        plain: "denied_by_rule",
        name: "denied_by_rule",
    },
    Row {
        host: "denied.example",
        tls: "denied_by_rule",
        plain: "denied_by_rule",
        name: "denied_by_rule",
    },
    Row {
        host: "evil.example",
        tls: "not_allowlisted",
        plain: "not_allowlisted",
        name: "not_allowlisted",
    },
    Row {
        host: "notallowed.example",
        tls: "not_allowlisted",
        plain: "not_allowlisted",
        name: "not_allowlisted",
    },
    Row {
        host: "allowed.example.evil.example",
        tls: "not_allowlisted",
        plain: "not_allowlisted",
        name: "not_allowlisted",
    },
    Row {
        host: "ported.example",
        tls: "port_not_allowed",
        plain: "port_not_allowed",
        name: "allowlisted",
    },
    Row {
        host: "host.docker.internal",
        tls: "not_allowlisted",
        plain: "not_allowlisted",
        name: "not_allowlisted",
    },
    Row {
        host: "localhost",
        tls: "not_allowlisted",
        plain: "not_allowlisted",
        name: "not_allowlisted",
    },
    Row {
        host: "foo.localhost",
        tls: "not_allowlisted",
        plain: "not_allowlisted",
        name: "not_allowlisted",
    },
    Row {
        host: "x.home.arpa",
        tls: "not_allowlisted",
        plain: "not_allowlisted",
        name: "not_allowlisted",
    },
    Row {
        host: "x.onion",
        tls: "not_allowlisted",
        plain: "not_allowlisted",
        name: "not_allowlisted",
    },
    Row {
        host: "printer",
        tls: "not_allowlisted",
        plain: "not_allowlisted",
        name: "not_allowlisted",
    },
    Row {
        host: "metadata.google.internal",
        tls: "not_allowlisted",
        plain: "not_allowlisted",
        name: "not_allowlisted",
    },
];

#[test]
fn every_road_decides_alike() {
    let world = World::standard();
    for Row {
        host,
        tls,
        plain,
        name,
    } in ROWS
    {
        let mixed: String = host
            .char_indices()
            .map(|(at, c)| {
                if at % 2 == 0 {
                    c.to_ascii_uppercase()
                } else {
                    c
                }
            })
            .collect();
        for spelling in [(*host).to_owned(), mixed, format!("{host}.")] {
            assert_eq!(
                reason(&world, "connect", &spelling),
                *tls,
                "CONNECT {spelling}"
            );
            assert_eq!(
                reason(&world, "http", &spelling),
                *plain,
                "http://{spelling}"
            );
            assert_eq!(
                reason(&world, "host", &spelling),
                *plain,
                "Host: {spelling}"
            );
            assert_eq!(reason(&world, "dns", &spelling), *name, "A {spelling}");
        }
        // RFC 6066 section 3: a server name has no final dot, and rustls writes it in lower case.
        assert_eq!(reason(&world, "sni", host), *tls, "SNI {host}");
    }
    assert!(world.upstream.questions().iter().all(|asked| {
        ["allowed.example.", "a.b.c.wild.example."].contains(&asked.name.as_str())
    }));
}

/// Asks for `host` by one road and gives the reason that was recorded for it.
fn reason(world: &World, via: &str, host: &str) -> String {
    let before = world.proxy.audit().len();
    match via {
        "connect" => {
            let head = format!("CONNECT {host}:443 HTTP/1.1\r\nHost: {host}:443\r\n\r\n");
            let mut stream = dial(world.proxy.listener("proxy"));
            send(&mut stream, head.as_bytes());
            stream.shutdown(std::net::Shutdown::Write).unwrap();
            read_to_close(&mut stream);
        }
        "http" => {
            let head =
                format!("GET http://{host}/ HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
            exchange(world.proxy.listener("proxy"), head.as_bytes());
        }
        "host" => {
            let head = format!("GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
            exchange(world.proxy.listener("http"), head.as_bytes());
        }
        "sni" => {
            let mut stream = dial(world.proxy.listener("https"));
            send(&mut stream, &client_hello(host));
            stream.shutdown(std::net::Shutdown::Write).unwrap();
            read_to_close(&mut stream);
        }
        other => {
            assert_eq!(other, "dns");
            dns_query(world.proxy.listener("dns"), host);
        }
    }
    let wanted = |line: &Value| match via {
        "dns" => line["event"] == "dns",
        _ => line["event"] == "decision" && line["via"] == via,
    };
    let line = crate::support::eventually(&format!("the record of {host} by {via}"), || {
        world
            .proxy
            .audit()
            .into_iter()
            .skip(before)
            .find(|line| wanted(line))
    });
    line["reason"].as_str().unwrap().to_owned()
}
