//! Requests that never reach an origin.

use std::io::Write;

use serde_json::json;

use super::{ask, get};
use crate::support::{
    client::{dial, dial_from, problem, read_to_close, send, status},
    oracle::Oracle,
    world::World,
};

#[test]
fn ambiguous_framing_and_odd_fields_are_refused() {
    let world = World::standard();
    let mut oracle = Oracle::new(&world);
    let many = "X: y\r\n".repeat(10_000);
    let long = format!("X: {}\r\n", "y".repeat(1024 * 1024));
    for (fields, expected) in [
        ("Content-Length: 4\r\nTransfer-Encoding: chunked\r\n", 400),
        ("Transfer-Encoding: ,chunked\r\n", 400),
        ("Transfer-Encoding: gzip, chunked\r\n", 400),
        (
            "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
            400,
        ),
        ("Transfer-Encoding: identity\r\n", 400),
        ("X: 1\0 2\r\n", 400),
        ("X: 1\rY: 2\r\n", 400),
        ("X : 1\r\n", 400),
        ("X: 1\r\n 2\r\n", 400),
        ("Content-Length: +1\r\n", 400),
        ("Content-Length: 1, 1\r\n", 400),
        ("Content-Length: \r\n", 400),
        ("Content-Length: 0x1\r\n", 400),
        ("Content-Length: 1\r\nContent-Length: 2\r\n", 400),
        ("Content-Length: 1\r\nContent-Length: 1\r\n", 400),
        (&many, 431),
        (&long, 431),
    ] {
        let request = format!(
            "POST http://allowed.example/ HTTP/1.1\r\nHost: allowed.example\r\n{fields}\r\n\
             0\r\n\r\nGET http://allowed.example/2 HTTP/1.1\r\nHost: allowed.example\r\n\r\n"
        );
        let refused = oracle.refuses("proxy", request.as_bytes());
        let reason = match expected {
            431 => "header_too_large",
            _ => "bad_request",
        };
        let what: String = fields.chars().take(60).collect();
        assert_eq!(
            refused.summary(),
            (Some(expected), reason.to_owned()),
            "{what:?}"
        );
    }
}

/// Request line, fields, status and reason.
const TARGETS: &[(&str, &str, u16, &str)] = &[
    (
        "GET http://allowed.example/",
        "Host: evil.example\r\n",
        400,
        "host_mismatch",
    ),
    (
        "GET http://evil.example/?d=s3cret",
        "Host: evil.example\r\n",
        403,
        "not_allowlisted",
    ),
    (
        "GET https://allowed.example/x",
        "Host: allowed.example\r\nAuthorization: Bearer t0ken\r\n",
        400,
        "bad_request",
    ),
    (
        "GET http://allowed.example@evil.example/",
        "Host: allowed.example\r\n",
        400,
        "bad_request",
    ),
    (
        "GET http://user:passw0rd@allowed.example/",
        "Host: allowed.example\r\n",
        400,
        "bad_request",
    ),
    (
        "GET http://allowed.example:6379/",
        "Host: allowed.example:6379\r\n",
        403,
        "port_not_allowed",
    ),
    (
        "GET http://allowed.example:22/",
        "Host: allowed.example:22\r\n",
        403,
        "port_not_allowed",
    ),
    (
        "GET http://tls-only.example/",
        "Host: tls-only.example\r\n",
        403,
        "port_not_allowed",
    ),
    (
        "GET http://169.254.169.254/latest/",
        "Host: 169.254.169.254\r\n",
        403,
        "ip_literal",
    ),
    (
        "GET ftp://allowed.example/",
        "Host: allowed.example\r\n",
        400,
        "bad_request",
    ),
    ("GET /", "Host: allowed.example\r\n", 400, "bad_request"),
    (
        "GET http://[denied.example]/",
        "Host: denied.example\r\n",
        400,
        "bad_request",
    ),
    (
        "GET http://DENIED.example./",
        "Host: denied.example\r\n",
        403,
        "denied_by_rule",
    ),
    (
        "TRACE http://allowed.example/",
        "Host: allowed.example\r\n",
        405,
        "method_not_allowed",
    ),
    (
        "TRACK http://allowed.example/",
        "Host: allowed.example\r\n",
        405,
        "method_not_allowed",
    ),
    (
        "GET http://user:passw0rd/x@allowed.example/",
        "Host: allowed.example\r\n",
        400,
        "bad_request",
    ),
    (
        "GET http://user:passw0rd?x@allowed.example/",
        "Host: allowed.example\r\n",
        400,
        "bad_request",
    ),
    (
        "CONNECT user:passw0rd/x@allowed.example:443",
        "Host: allowed.example\r\n",
        400,
        "bad_request",
    ),
    ("GET http://allowed.example/", "", 400, "bad_request"),
    (
        "GET http://allowed.example/",
        "Host: allowed.example\r\nVia: 1.1 eclusa\r\n",
        403,
        "loop_detected",
    ),
];

#[test]
fn targets_that_are_no_plain_http_are_refused() {
    let world = World::standard();
    let mut oracle = Oracle::new(&world);
    let long = "x".repeat(70 * 1024);
    let long = format!("GET http://allowed.example/{long}");
    let too_long = (&*long, "Host: allowed.example\r\n", 431, "header_too_large");
    for (line, fields, expected, reason) in TARGETS.iter().copied().chain([too_long]) {
        let request = format!("{line} HTTP/1.1\r\n{fields}\r\n");
        let refused = oracle.refuses("proxy", request.as_bytes());
        let what: String = request.chars().take(100).collect();
        assert_eq!(
            refused.summary(),
            (Some(expected), reason.to_owned()),
            "{what:?}"
        );
    }
    let log = std::fs::read_to_string(world.proxy.folder().join("audit.jsonl")).unwrap();
    for secret in ["t0ken", "passw0rd", "s3cret"] {
        assert!(!log.contains(secret), "{secret} is in the log");
    }
}

#[test]
fn the_transparent_road_goes_by_host() {
    let world = World::standard();
    let mut oracle = Oracle::new(&world);
    for (request, expected, reason) in [
        (
            "GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n",
            403,
            "not_allowlisted",
        ),
        (
            "GET / HTTP/1.1\r\nHost: denied.example\r\n\r\n",
            403,
            "denied_by_rule",
        ),
        (
            "GET / HTTP/1.1\r\nHost: allowed.example:8080\r\n\r\n",
            400,
            "host_mismatch",
        ),
        (
            "GET / HTTP/1.1\r\nHost: allowed.example\r\nHost: evil.example\r\n\r\n",
            400,
            "bad_request",
        ),
        (
            "TRACE / HTTP/1.1\r\nHost: allowed.example\r\n\r\n",
            405,
            "method_not_allowed",
        ),
        ("GET / HTTP/1.1\r\n\r\n", 400, "bad_request"),
        ("GET / HTTP/1.0\r\n\r\n", 400, "bad_request"),
        (
            "GET http://evil.example/ HTTP/1.1\r\nHost: allowed.example\r\n\r\n",
            400,
            "host_mismatch",
        ),
    ] {
        let refused = oracle.refuses("http", request.as_bytes());
        assert_eq!(
            refused.summary(),
            (Some(expected), reason.to_owned()),
            "{request:?}"
        );
        assert_eq!(refused.record["via"], "host", "{request:?}");
    }
    let mut stream = dial(world.proxy.listener("http"));
    send(
        &mut stream,
        b"GET /t HTTP/1.0\r\nHost: Allowed.example.\r\n\r\n",
    );
    assert_eq!(status(&read_to_close(&mut stream)), Some(200));
    let decision = oracle.next_decision("the last one");
    let (host, path) = (&decision["host"], &decision["path"]);
    assert_eq!((host, path), (&json!("allowed.example"), &json!("/t")));
    assert_eq!(decision["target"], "Allowed.example.");
}

#[test]
fn a_refusal_tells_what_was_refused_and_what_to_do() {
    let world = World::standard();
    let request = get("/").replace("allowed.example", "evil.example");
    let answer = read_to_close(&mut ask(&world, &request));
    let text = String::from_utf8_lossy(&answer).into_owned();
    assert!(
        text.contains("error=http_request_denied; details=\"not_allowlisted\""),
        "{text}"
    );
    let problem = problem(&answer);
    let decision = world.proxy.events("decision").pop().unwrap();
    assert_eq!(problem["id"], decision["id"]);
    let (host, port) = (&problem["host"], &problem["port"]);
    assert_eq!((host, port), (&json!("evil.example"), &json!(80)));
    assert!(
        !text.contains("wild.example"),
        "the allowlist is told: {text}"
    );
}

#[test]
fn a_refusal_before_policy_names_the_destination_too() {
    let world = World::standard();
    let mut oracle = Oracle::new(&world);
    for (line, fields) in [
        ("GET", "Host: evil.example\r\n"),
        ("TRACE", "Host: allowed.example\r\n"),
        ("GET", "Host: allowed.example\r\nVia: 1.1 eclusa\r\n"),
    ] {
        let request = format!("{line} http://allowed.example/ HTTP/1.1\r\n{fields}\r\n");
        let refused = oracle.refuses("proxy", request.as_bytes());
        let told = problem(&refused.answer);
        for of in [&told, &refused.record] {
            let (host, port) = (&of["host"], &of["port"]);
            assert_eq!(
                (host, port),
                (&json!("allowed.example"), &json!(80)),
                "{of}"
            );
        }
    }
}

#[test]
fn a_client_that_sends_a_whole_upload_first_still_reads_the_refusal() {
    let world = World::standard();
    let length = 10 * 1024 * 1024;
    let mut stream = ask(
        &world,
        &format!(
            "POST http://evil.example/ HTTP/1.1\r\nHost: evil.example\r\n\
             Content-Length: {length}\r\n\r\n"
        ),
    );
    stream.write_all(&vec![b'x'; length]).unwrap();
    assert_eq!(status(&read_to_close(&mut stream)), Some(403));
}

#[test]
fn a_stranger_learns_only_that_he_is_one() {
    let world = World::standard();
    let mut stream = dial_from("127.0.9.9", world.proxy.listener("proxy"));
    send(&mut stream, get("/").as_bytes());
    assert_eq!(status(&read_to_close(&mut stream)), Some(403));
    world.assert_refused("a stranger", "unknown_client", 0);
}

#[test]
fn nothing_behind_a_refused_request_is_parsed() {
    let world = World::standard();
    let mut oracle = Oracle::new(&world);
    let denied = get("/").replace("allowed.example", "evil.example");
    let posted = format!(
        "POST http://evil.example/ HTTP/1.1\r\nHost: evil.example\r\nContent-Length: 99999\r\n\r\n{}",
        get("/smuggled").repeat(1000)
    );
    for request in [format!("{denied}{}", get("/smuggled")), posted] {
        let refused = oracle.refuses("proxy", request.as_bytes());
        assert_eq!(refused.summary(), (Some(403), "not_allowlisted".to_owned()));
    }
}
