//! A proxy that has seen a little of everything.

use serde_json::json;

use super::stop;
use crate::support::{
    client::{client_hello, dial_from, exchange, read_to_close, read_until, send},
    dns_query, dns_query_from,
    world::{POLICY, World},
};

/// Besides the policy of the fixture, a profile in report mode.
const WATCHED: &str = r#"
[profiles.watched]
mode = "report"

[[profiles.watched.rules]]
hosts = ["allowed.example"]
ports = [8443]
addresses = ["127.0.0.0/8"]

[[clients]]
source = "127.0.9.0/24"
profile = "watched"
"#;

/// Requests, tunnels, refusals of several kinds, a run and queries; then it has stopped.
pub(super) fn visited() -> World {
    let mut world = World::with_policy(&format!("{POLICY}{WATCHED}"));
    requests(&world);
    tunnels(&world);
    run(&world);
    let dns = world.proxy.listener("dns");
    for name in ["allowed.example.", "Evil.example.", "evil.example."] {
        dns_query(dns, name);
    }
    dns_query_from("127.0.9.1", dns, "watched.example.");
    stop(&mut world.proxy);
    world
}

fn requests(world: &World) {
    for host in [
        "allowed.example",
        "a.wild.example",
        "evil.example",
        "allowed.example",
    ] {
        let head = format!(
            "GET http://{host}/path?secret HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"
        );
        exchange(world.proxy.listener("proxy"), head.as_bytes());
    }
}

fn tunnels(world: &World) {
    drop(world.tunnel_from("127.0.0.1", "opaque.example"));
    for (source, host, name) in [
        ("127.0.0.1", "denied.example", "denied.example"),
        ("127.0.0.1", "allowed.example", "other.example"),
        ("127.0.9.1", "allowed.example", "allowed.example"),
        ("127.0.8.1", "allowed.example", "allowed.example"),
    ] {
        let mut stream = dial_from(source, world.proxy.listener("proxy"));
        let head = format!("CONNECT {host}:443 HTTP/1.1\r\nHost: {host}:443\r\n\r\n");
        send(&mut stream, head.as_bytes());
        read_until(&mut stream, b"\r\n\r\n");
        send(&mut stream, &client_hello(name));
        read_to_close(&mut stream);
    }
}

fn run(world: &World) {
    let registration = json!({
        "sources": ["127.0.7.7"],
        "allow": ["opaque.example"],
        "profile": "default",
        "expires_in": "1h",
    });
    let path = "/v1/runs/01JDRUN0000000000000000001";
    let body = registration.to_string();
    assert!(world.proxy.admin("PUT", path, Some(&body)).status.success());
    drop(world.tunnel_from("127.0.7.7", "opaque2.example"));
    assert!(world.proxy.admin("DELETE", path, None).status.success());
}
