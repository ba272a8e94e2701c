//! What a CONNECT may name, and how a refusal ends its connection.

use std::io::{Read, Write};

use serde_json::json;

use super::{connect, open, speak_tls};
use crate::support::{
    client::{dial, exchange, read_to_close, read_until, send, status},
    oracle::Oracle,
    world::World,
};

#[test]
fn real_clients_get_through_whatever_their_spelling() {
    let world = World::standard();
    for head in [
        "CONNECT allowed.example:443 HTTP/1.1\r\nHost: allowed.example:443\r\n\r\n",
        "CONNECT allowed.example:443 HTTP/1.0\r\n\r\n",
        "CONNECT allowed.example:443 HTTP/1.1\r\nHost: allowed.example\r\n\r\n",
        "CONNECT ALLOWED.Example.:443 HTTP/1.1\r\nHost: allowed.EXAMPLE.:443\r\n\r\n",
        "CONNECT allowed.example:443 HTTP/1.1\r\nHost: allowed.example:443\r\nUser-Agent: curl/7.88.1\r\nProxy-Connection: Keep-Alive\r\n\r\n",
        "CONNECT a.b.c.wild.example:443 HTTP/1.1\r\nHost: a.b.c.wild.example:443\r\n\r\n",
    ] {
        let name = if head.contains("wild") {
            "a.wild.example"
        } else {
            "allowed.example"
        };
        let head = head.replace("a.b.c.wild.example", "a.wild.example");
        let mut tls = speak_tls(&world, open(&world, &head), name);
        tls.write_all(b"GET /x HTTP/1.1\r\nHost: x\r\n\r\n")
            .unwrap();
        let mut answer = [0; 15];
        tls.read_exact(&mut answer).unwrap();
        assert_eq!(&answer, b"HTTP/1.1 200 OK", "{head:?}");
    }
    for decision in world.proxy.events("decision") {
        let host = decision["host"].as_str().unwrap();
        assert!(
            host == "allowed.example" || host == "a.wild.example",
            "{decision}"
        );
        assert_eq!(decision["via"], "connect");
    }
}

#[test]
fn a_target_that_two_parsers_read_differently_is_refused() {
    assert_malformed(&[
        "[denied.example]:443",
        "[allowed.example]:443",
        "allowed.example..:443",
        "allowed.example@evil.example:443",
        "evil.example@allowed.example:443",
        "a@b@allowed.example:443",
        "allowed.example:65979",
        "allowed.example:99999",
        "allowed.example:4294967739",
        "allowed.example:+443",
        "allowed.example:0443",
        "allowed.example",
        "allowed.example:",
        ":443",
        "[::1%25.allowed.example]:443",
        "[fe80::1%25eth0]:443",
        "[::1]tail:443",
    ]);
    assert_malformed(&[
        "2130706433:80",
        "0x7f.1:80",
        "127.1:80",
        "0177.0.0.1:80",
        "0x7f000001:80",
        "0:80",
        "evil.example%00.allowed.example:443",
        "allowed.example\\@evil.example:443",
        "http://allowed.example:443/",
        "/allowed.example:443",
        "*",
        "evil.example\0.allowed.example:443",
        "①②⑦.0.0.1:443",
    ]);
}

/// Few enough that the log folds none of them.
fn assert_malformed(targets: &[&str]) {
    let world = World::standard();
    let mut oracle = Oracle::new(&world);
    for target in targets {
        let request = format!("CONNECT {target} HTTP/1.1\r\nHost: allowed.example:443\r\n\r\n");
        let refused = oracle.refuses("proxy", request.as_bytes());
        let expected = (Some(400), "bad_request".to_owned());
        assert_eq!(refused.summary(), expected, "{target:?}");
    }
}

#[test]
fn policy_refuses_before_anything_is_looked_up() {
    let world = World::standard();
    let mut oracle = Oracle::new(&world);
    for (target, reason) in [
        ("evil.example:443", "not_allowlisted"),
        ("data.evil.example:443", "not_allowlisted"),
        ("notallowed.example:443", "not_allowlisted"),
        ("xwild.example:443", "not_allowlisted"),
        ("wild.example:443", "not_allowlisted"),
        ("allowed.example.evil.example:443", "not_allowlisted"),
        ("denied.example:443", "denied_by_rule"),
        ("DENIED.example.:443", "denied_by_rule"),
        ("secret.wild.example:443", "denied_by_rule"),
        ("allowed.example:22", "port_not_allowed"),
        ("allowed.example:6379", "port_not_allowed"),
        ("ported.example:443", "port_not_allowed"),
        ("allowed.example:25", "port_not_allowed"),
        ("allowed.example:853", "port_not_allowed"),
        ("eclusa:3128", "not_allowlisted"),
        ("dns.google:443", "not_allowlisted"),
        ("198.51.100.7:443", "ip_literal"),
        ("[2606:4700::1]:443", "ip_literal"),
        ("127.0.0.1:443", "ip_literal"),
        ("evil.example:80", "not_allowlisted"),
        ("denied.example:80", "denied_by_rule"),
    ] {
        let request = format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n");
        let refused = oracle.refuses("proxy", request.as_bytes());
        assert_eq!(
            refused.summary(),
            (Some(403), reason.to_owned()),
            "{target}"
        );
    }
}

#[test]
fn host_must_agree_with_the_target() {
    let world = World::standard();
    let mut oracle = Oracle::new(&world);
    for (host, reason) in [
        ("Host: evil.example:443\r\n", "host_mismatch"),
        ("Host: evil.example\r\n", "host_mismatch"),
        ("Host: allowed.example:8443\r\n", "host_mismatch"),
        (
            "Host: allowed.example\r\nHost: allowed.example\r\n",
            "bad_request",
        ),
        (
            "Host: allowed.example\r\nHost: evil.example\r\n",
            "bad_request",
        ),
        ("", "bad_request"),
    ] {
        let request = format!("CONNECT allowed.example:443 HTTP/1.1\r\n{host}\r\n");
        let refused = oracle.refuses("proxy", request.as_bytes());
        assert_eq!(
            refused.summary(),
            (Some(400), reason.to_owned()),
            "{host:?}"
        );
    }
}

#[test]
fn nothing_behind_a_refused_connect_is_parsed() {
    let world = World::standard();
    let mut oracle = Oracle::new(&world);
    let smuggled = "GET http://allowed.example/smuggled HTTP/1.1\r\nHost: allowed.example\r\n\r\n";
    for (head, status) in [
        (connect("denied.example"), 403),
        (connect("[allowed.example]"), 400),
        ("CONNECT allowed.example:443 HTTP/1.1\r\nHost: allowed.example:443\r\nContent-Length: 3\r\n\r\nabc".to_owned(), 400),
    ] {
        let refused = oracle.refuses("proxy", format!("{head}{smuggled}").as_bytes());
        assert_eq!(refused.summary().0, Some(status), "{head:?}");
    }
}

#[test]
fn nothing_behind_a_failed_connect_is_parsed() {
    let world = World::standard();
    let smuggled = "GET http://allowed.example/smuggled HTTP/1.1\r\nHost: allowed.example\r\n\r\n";
    // `opaque2.example` has addresses, but nothing listens there on this port.
    world
        .upstream
        .set_addresses("a.b.c.wild.example", &["127.0.77.77"]);
    let request = format!("{}{smuggled}", connect("a.b.c.wild.example"));
    let answer = exchange(world.proxy.listener("proxy"), request.as_bytes());
    assert_eq!(
        status(&answer),
        Some(502),
        "{}",
        String::from_utf8_lossy(&answer)
    );
    let close = world
        .proxy
        .await_event("the close", |line| line["event"] == "close");
    assert_eq!(
        (&close["reason"], &close["status"]),
        (&json!("connect_failed"), &json!(502))
    );
    assert_eq!(world.proxy.events("decision").len(), 1);
    assert_eq!(world.plain.seen.connections(), 0);
}

#[test]
fn nothing_behind_an_unanswered_look_up_is_parsed() {
    let world = World::standard();
    world.upstream.set_silent(true);
    let smuggled = "GET http://allowed.example/smuggled HTTP/1.1\r\nHost: allowed.example\r\n\r\n";
    let request = format!("{}{smuggled}", connect("allowed.example"));
    let answer = exchange(world.proxy.listener("proxy"), request.as_bytes());
    assert_eq!(status(&answer), Some(504));
    let decisions = world.proxy.events("decision");
    let told: Vec<_> = decisions
        .iter()
        .map(|line| (&line["reason"], &line["status"]))
        .collect();
    assert_eq!(told, [(&json!("resolve_timeout"), &json!(504))]);
    assert_eq!(world.plain.seen.connections(), 0);
}

#[test]
fn a_tunnel_to_port_80_is_plain_http_and_judged_request_by_request() {
    let world = World::standard();
    let head = "CONNECT allowed.example:80 HTTP/1.1\r\nHost: allowed.example:80\r\n\r\n";
    let mut stream = open(&world, head);
    assert_eq!(
        world.plain.seen.connections(),
        0,
        "nothing is dialled for the CONNECT"
    );
    for path in ["/one", "/two"] {
        let request = format!("GET {path} HTTP/1.1\r\nHost: allowed.example\r\n\r\n");
        send(&mut stream, request.as_bytes());
        let answer = read_until(&mut stream, format!("ok {path} ").as_bytes());
        assert_eq!(status(&answer), Some(200));
    }
    assert_eq!(world.proxy.events("decision").len(), 2);

    send(
        &mut stream,
        b"GET / HTTP/1.1\r\nHost: evil.example\r\n\r\nGET /three HTTP/1.1\r\nHost: allowed.example\r\n\r\n",
    );
    let answer = read_to_close(&mut stream);
    assert_eq!(status(&answer), Some(400));
    assert_eq!(world.plain.seen.heads().len(), 2);
    let last = world.proxy.events("decision").pop().unwrap();
    assert_eq!(
        (&last["reason"], &last["via"]),
        (&json!("host_mismatch"), &json!("http"))
    );
}

#[test]
fn other_protocols_are_closed_with_one_record() {
    let world = World::standard();
    let mut oracle = Oracle::new(&world);
    let hello = crate::support::client::client_hello("allowed.example");
    for bytes in [
        &[5, 1, 0][..],
        &[4, 1, 1, 187, 127, 0, 0, 1, 0],
        &hello,
        b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c\x7f\0\0\x01\x7f\0\0\x01\x1f\x90\x0b\xb8",
        b"PROXY TCP4 192.0.2.1 192.0.2.2 1 443\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"GET http://allowed.example/\r\n\r\n",
        b"POST http://allowed.example/ HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"SSH-2.0-OpenSSH_9.2\r\n",
    ] {
        let refused = oracle.refuses("proxy", bytes);
        assert_eq!(refused.record["reason"], "bad_request", "{bytes:?}");
    }
}

#[test]
fn a_silent_connection_is_no_event() {
    let world = World::standard();
    for listener in ["proxy", "http", "https"] {
        drop(dial(world.proxy.listener(listener)));
    }
    let mut oracle = Oracle::new(&world);
    let refused = oracle.refuses("proxy", connect("evil.example").as_bytes());
    assert_eq!(refused.summary().0, Some(403));
    assert_eq!(world.proxy.events("decision").len(), 1);
}
