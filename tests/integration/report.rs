//! Report mode lifts the list and nothing else: whatever else refuses in enforce mode refuses here.

use serde_json::json;

use crate::support::{
    client::{client_hello, dial, exchange, read_to_close, read_until, send, status},
    dns_query,
    oracle::Oracle,
    world::{POLICY, World},
};

fn reporting() -> World {
    World::with_policy(&POLICY.replacen(
        "[profiles.default]",
        "[profiles.default]\nmode = \"report\"",
        1,
    ))
}

fn connect(target: &str) -> String {
    format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n")
}

#[test]
fn what_no_list_names_passes_the_list_and_no_blocked_address() {
    let world = reporting();
    // Origins of tests are on loopback, which only a rule opens: of an unlisted name that is so.
    let answer = exchange(
        world.proxy.listener("proxy"),
        connect("evil.example:443").as_bytes(),
    );
    assert_eq!(status(&answer), Some(403));
    let refused = &world.proxy.events("decision")[0];
    assert_eq!(
        (&refused["decision"], &refused["reason"]),
        (&json!("deny"), &json!("address_blocked"))
    );
    assert!(
        !world.upstream.questions().is_empty(),
        "the list let it through"
    );
    assert_eq!(world.web.seen.connections(), 0);
    dns_query(world.proxy.listener("dns"), "evil.example.");
    let asked = &world.proxy.events("dns")[0];
    assert_eq!(
        (&asked["decision"], &asked["answer"]),
        (&json!("would_deny"), &json!("listener"))
    );
}

#[test]
fn everything_but_the_list_holds() {
    let world = reporting();
    let mut oracle = Oracle::new(&world);
    for (request, expected, reason) in [
        (connect("denied.example:443"), 403, "denied_by_rule"),
        (connect("secret.wild.example:443"), 403, "denied_by_rule"),
        (connect("127.0.0.1:443"), 403, "ip_literal"),
        (connect("localhost:443"), 403, "not_allowlisted"),
        (
            connect("metadata.google.internal:80"),
            403,
            "not_allowlisted",
        ),
        (connect("[allowed.example]:443"), 400, "bad_request"),
        (
            connect("allowed.example:443").replacen("Host: allowed", "Host: evil", 1),
            400,
            "host_mismatch",
        ),
        (
            "GET http://denied.example/ HTTP/1.1\r\nHost: denied.example\r\n\r\n".to_owned(),
            403,
            "denied_by_rule",
        ),
    ] {
        let refused = oracle.refuses("proxy", request.as_bytes());
        assert_eq!(
            refused.summary(),
            (Some(expected), reason.to_owned()),
            "{request}"
        );
    }
    let refused = oracle.refuses("https", &client_hello("denied.example"));
    assert_eq!(refused.record["reason"], "denied_by_rule");

    let mut stream = dial(world.proxy.listener("proxy"));
    send(&mut stream, connect("allowed.example:443").as_bytes());
    assert_eq!(status(&read_until(&mut stream, b"\r\n\r\n")), Some(200));
    send(&mut stream, &client_hello("evil.example"));
    read_to_close(&mut stream);
    let close = world
        .proxy
        .await_event("the close", |line| line["event"] == "close");
    assert_eq!(close["reason"], "sni_mismatch", "{close}");
    assert_eq!(world.web.seen.bytes(), 0);
}
