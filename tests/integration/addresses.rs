//! What a name resolves to decides as much as the name: blocked, mixed, changing and looping
//! answers, through the real binary.

use std::net::SocketAddr;

use hickory_net::proto::rr::RecordType;
use serde_json::Value;

use crate::support::{
    client::{exchange, problem, status},
    dns_upstream::Reply,
    oracle::Oracle,
    world::World,
};

/// The fixture without any exception: no name may resolve to loopback.
const BARE: &str = r#"
[profiles.default]
allow = ["*.wild.example", "int.other.example"]

[[profiles.default.rules]]
hosts = ["int.exempt.example"]
addresses = ["10.1.2.3/32"]

[[clients]]
source = "127.0.0.0/24"
profile = "default"
"#;

fn get(host: &str) -> Vec<u8> {
    format!("GET http://{host}/ HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").into_bytes()
}

/// A world in which `name` has `answer`, asked for once: status, reason and the record.
fn ask(world: &World, host: &str) -> (Option<u16>, Value) {
    let answer = exchange(world.proxy.listener("proxy"), &get(host));
    let host = host.split(':').next().unwrap();
    let record = world.proxy.await_event(host, |line| line["host"] == host);
    (status(&answer), record)
}

#[test]
fn every_kind_of_blocked_address_is_refused() {
    let world = World::with_policy(BARE);
    let blocked = [
        "0.1.2.3",
        "10.0.0.1",
        "100.64.0.1",
        "127.0.0.2",
        "169.254.1.1",
        "172.31.0.1",
        "192.0.0.8",
        "192.0.2.1",
        "192.88.99.1",
        "192.168.0.1",
        "198.18.0.1",
        "198.51.100.1",
        "203.0.113.1",
        "224.0.0.1",
        "240.0.0.1",
        "255.255.255.255",
        "169.254.169.254",
        "168.63.129.16",
        "100.100.100.200",
        "::ffff:169.254.169.254",
        "::ffff:7f00:1",
        "::a9fe:a9fe",
        "::7f00:1",
        "64:ff9b::a9fe:a9fe",
        "64:ff9b:1::a9fe:a9fe",
        "2002:a9fe:a9fe::1",
        "2001:0:5ef5:79fd:0:0:5601:5601",
        "fec0::1",
        "fc00::1",
        "fe80::1",
        "ff02::1",
        "100::1",
        "2001:db8::1",
        "2001:2::1",
        "2001:20::1",
        "::",
        "::1",
        "::2",
        "fd00:ec2::254",
        "2606:4700::5efe:a00:1",
    ];
    for (at, address) in blocked.into_iter().enumerate() {
        let host = format!("n{at}.wild.example");
        world.upstream.set_addresses(&host, &[address]);
        let (status, record) = ask(&world, &host);
        assert_eq!(status, Some(403), "{address}: {record}");
        let reason = record["reason"].as_str().unwrap();
        assert!(
            ["address_blocked", "loop_detected"].contains(&reason),
            "{address}: {record}"
        );
        let recorded = record["addresses"].as_array().unwrap();
        assert_eq!(recorded.len(), 1, "{address}: {record}");
    }
    assert_eq!(
        world.web.seen.connections() + world.plain.seen.connections(),
        0
    );
}

#[test]
fn one_blocked_address_refuses_the_name_and_its_answer_is_not_told() {
    let world = World::with_policy(BARE);
    world
        .upstream
        .set_addresses("mixed.wild.example", &["93.184.215.14", "10.0.0.5"]);
    world
        .upstream
        .set_addresses("half.wild.example", &["93.184.215.14", "::1"]);
    for host in ["mixed.wild.example", "half.wild.example"] {
        let (status, record) = ask(&world, host);
        assert_eq!(
            (status, &record["reason"]),
            (Some(403), &"address_blocked".into()),
            "{record}"
        );
    }
    let answer = exchange(world.proxy.listener("proxy"), &get("mixed.wild.example"));
    let told = problem(&answer).to_string();
    assert!(!told.contains("10.0.0.5"), "{told}");
}

#[test]
fn an_exception_opens_one_range_for_one_host() {
    let world = World::with_policy(BARE);
    let mut oracle = Oracle::new(&world);
    // Each is looked up, so the oracle's count of look-ups is kept out by asking beforehand.
    world
        .upstream
        .set_addresses("int.other.example", &["10.1.2.3"]);
    world
        .upstream
        .set_addresses("int.exempt.example", &["169.254.169.254"]);
    for host in ["int.other.example", "int.exempt.example"] {
        let (status, record) = ask(&world, host);
        assert_eq!(
            (status, &record["reason"]),
            (Some(403), &"address_blocked".into()),
            "{record}"
        );
        oracle.next_decision(host);
    }
    // A literal is no way round, nor is the resolver's own address.
    for (target, reason) in [
        ("10.1.2.3:443".to_owned(), "ip_literal"),
        (world.upstream.address.to_string(), "ip_literal"),
        ("[::ffff:10.1.2.3]:443".to_owned(), "ip_literal"),
    ] {
        let head = format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n");
        let refused = oracle.refuses("proxy", head.as_bytes());
        assert_eq!(
            refused.summary(),
            (Some(403), reason.to_owned()),
            "{target}"
        );
    }
}

#[test]
fn no_way_leads_back_to_us() {
    // The exception would open loopback, were it not ours; the name even has our own port.
    let policy = "[profiles.default]\n[[profiles.default.rules]]\nhosts = [\"loop.example\"]\n\
                  ports = [80, 443, 1]\naddresses = [\"127.0.0.0/8\"]\n\
                  [[clients]]\nsource = \"127.0.0.0/24\"\nprofile = \"default\"\n";
    let world = World::with_policy(policy);
    let own: SocketAddr = world.proxy.listener("proxy");
    let opened = policy.replace("ports = [80, 443, 1]", &format!("ports = [{}]", own.port()));
    let config = std::fs::read_to_string(world.proxy.config()).unwrap();
    std::fs::write(
        world.proxy.config(),
        config.replace(policy.trim(), opened.trim()),
    )
    .unwrap();
    assert!(
        world
            .proxy
            .admin("POST", "/v1/reload", None)
            .status
            .success()
    );
    world.upstream.set_addresses("loop.example", &["127.0.0.1"]);
    let (status, record) = ask(&world, &format!("loop.example:{}", own.port()));
    assert_eq!(
        (status, &record["reason"]),
        (Some(403), &"loop_detected".into()),
        "{record}"
    );
}

#[test]
fn an_answer_that_changes_is_looked_up_once_for_a_connection() {
    let world = World::standard();
    let origin = world.plain.address.ip().to_string();
    let turns = Reply::InTurn(vec![
        Reply::with_ttl("turn.wild.example.", 0, &[&origin]),
        Reply::with_ttl("turn.wild.example.", 0, &["169.254.169.254"]),
    ]);
    world
        .upstream
        .set("turn.wild.example", RecordType::A, turns);
    let (first, opened) = ask(&world, "turn.wild.example");
    assert_eq!((first, &opened["decision"]), (Some(200), &"allow".into()));
    assert_eq!(opened["addresses"][0], origin);
    let answer = exchange(world.proxy.listener("proxy"), &get("turn.wild.example"));
    assert_eq!(status(&answer), Some(403));
    assert_eq!(world.plain.seen.connections(), 1);
}

#[test]
fn a_dead_address_gives_way_to_a_live_one_of_the_same_answer() {
    let world = World::standard();
    let live = world.plain.address;
    let dead = crate::support::unique_loopback().to_string();
    let answer = [&*dead, &live.ip().to_string()];
    world.upstream.set_addresses("a.wild.example", &answer);
    let (told, decision) = ask(&world, "a.wild.example");
    assert_eq!(told, Some(200), "{decision}");
    assert_eq!(decision["addresses"].as_array().unwrap().len(), 2);
    let close = world
        .proxy
        .await_event("the close", |line| line["event"] == "close");
    assert_eq!(close["upstream"], live.to_string(), "{close}");
    let questions = world.upstream.questions();
    let of_a = questions.iter().filter(|asked| asked.kind == RecordType::A);
    assert_eq!(of_a.count(), 1);
}

#[test]
fn a_resolver_that_fails_or_keeps_silent_is_told_apart() {
    let world = World::standard();
    let loops = Reply::alias("a.wild.example.", "a.wild.example.");
    world
        .upstream
        .set("a.wild.example", RecordType::A, loops.clone());
    world
        .upstream
        .set("a.wild.example", RecordType::AAAA, loops);
    assert_eq!(ask(&world, "a.wild.example").0, Some(502));
    assert_eq!(ask(&world, "nowhere.wild.example").0, Some(502));
    world.upstream.set_silent(true);
    let (status, record) = ask(&world, "late.wild.example");
    assert_eq!(
        (status, &record["reason"]),
        (Some(504), &"resolve_timeout".into()),
        "{record}"
    );
}
