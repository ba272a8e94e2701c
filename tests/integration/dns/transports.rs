//! Where a query comes in and who may ask.

use std::io::Write;

use serde_json::json;

use super::*;
use crate::support::client::{dial, read_to_close, send};

#[test]
fn a_query_is_answered_with_and_from_the_address_that_it_came_in_on() {
    let dns = DnsProxy::start(LOOPBACK_CLIENTS);
    let client = Client::at(unique_loopback());
    for address in [unique_loopback(), unique_loopback()] {
        let expected = format!("NoError {address}");
        // `ask` compares the source.
        let answer = client.ask(dns.at(address), &query(1, "allowed.example", 1));
        assert_eq!(summary(&answer), expected);
        let mut stream = dial(dns.at(address));
        send(&mut stream, &framed(&query(1, "allowed.example", 1)));
        assert_eq!(summary(&read_framed(&mut stream)), expected);
    }
}

#[test]
fn queries_on_one_connection_are_answered_in_order() {
    let dns = DnsProxy::start(LOOPBACK_CLIENTS);
    let mut stream = dial(dns.at(unique_loopback()));
    let names = ["allowed.example", "evil.example", "a.wild.example"];
    let messages: Vec<u8> = (0_u16..30)
        .flat_map(|id| framed(&query(id, names[usize::from(id) % 3], 28)))
        .collect();
    // In pieces that respect no message's bounds.
    for piece in messages.chunks(7) {
        stream.write_all(piece).unwrap();
    }
    for id in 0_u16..30 {
        let answer = read_framed(&mut stream);
        let expected = if id % 3 == 1 { "NXDomain" } else { "NoError" };
        assert_eq!(answer[..2], id.to_be_bytes());
        assert_eq!(summary(&answer), expected, "{id}");
    }
}

#[test]
fn a_stranger_gets_no_answer_by_any_transport() {
    let dns = DnsProxy::start(
        r#"
[[clients]]
source = "127.99.0.1/32"
profile = "default"
"#,
    );
    let server = dns.at(unique_loopback());
    let stranger = Client::at(unique_loopback());
    stranger.send(server, &query(1, "allowed.example", 1));
    // A client's answer comes later than the stranger's would.
    let client = Client::at(Ipv4Addr::new(127, 99, 0, 1));
    let answer = client.ask(server, &query(2, "allowed.example", 1));
    assert_eq!(summary(&answer), format!("NoError {}", server.ip()));
    assert_eq!(stranger.hear(Duration::from_millis(100)), None);
    let mut stream = dial(server);
    send(&mut stream, &framed(&query(1, "allowed.example", 1)));
    assert_eq!(read_to_close(&mut stream), b"");
}

#[test]
fn a_run_is_answered_with_its_listener_and_served_there_alone() {
    let dns = DnsProxy::start(
        LOOPBACK_CLIENTS
            .replace("127.0.0.0/8", "127.99.0.0/16")
            .as_str(),
    );
    let (source, listener) = (unique_loopback(), unique_loopback());
    let run = json!({
        "sources": [source],
        "listener": listener,
        "allow": ["run.example"],
        "expires_in": "60s"
    });
    let put = dns
        .proxy
        .admin("PUT", "/v1/runs/run-1", Some(&run.to_string()));
    assert!(put.status.success(), "{put:?}");
    let client = Client::at(source);
    let answer = client.ask(dns.at(listener), &query(1, "run.example", 1));
    assert_eq!(summary(&answer), format!("NoError {listener}"));
    let answer = client.ask(dns.at(listener), &query(2, "allowed.example", 1));
    assert_eq!(summary(&answer), "NXDomain");
    // Elsewhere it is a stranger.
    client.send(dns.at(unique_loopback()), &query(3, "run.example", 1));
    let answer = client.ask(dns.at(listener), &query(4, "run.example", 1));
    assert_eq!(answer[..2], [0, 4]);
    let event = dns.proxy.await_event("the run's query", |event| {
        event["event"] == "dns" && event["name"] == "run.example"
    });
    assert_eq!(
        (&event["run"], &event["profile"]),
        (&json!("run-1"), &json!(null))
    );
}

#[test]
fn a_connection_is_not_kept_for_half_a_message() {
    let dns = DnsProxy::start(&format!(
        "{LOOPBACK_CLIENTS}\n[limits]\nheader_timeout = \"1s\"\n"
    ));
    let whole = framed(&query(1, "allowed.example", 1));
    for (what, bytes) in [
        ("half a length", &whole[..1]),
        ("half a message", &whole[..20]),
        ("longer than any query", &[0xFF, 0xFF]),
    ] {
        let mut stream = dial(dns.at(unique_loopback()));
        send(&mut stream, bytes);
        // Fails when the server has not closed within `PATIENCE`.
        assert_eq!(read_to_close(&mut stream), b"", "{what}");
    }
}

#[test]
fn who_asks_too_often_is_refused() {
    let dns = DnsProxy::start(&format!(
        "{LOOPBACK_CLIENTS}\n[limits]\ndns_queries_per_second = 5\n"
    ));
    let server = dns.at(unique_loopback());
    let (eager, other) = (unique_loopback(), unique_loopback());
    let client = Client::at(eager);
    let told: Vec<String> = (0..50)
        .map(|id| summary(&client.ask(server, &query(id, "evil.example", 1))))
        .collect();
    let refused = told.iter().filter(|answer| *answer == "Refused").count();
    assert_eq!(told[..5], ["NXDomain"; 5]);
    assert!((20..=45).contains(&refused), "{told:?}");
    let answer = Client::at(other).ask(server, &query(1, "allowed.example", 1));
    assert_eq!(summary(&answer), format!("NoError {}", server.ip()));
    let limited = dns.proxy.await_event("the record of the excess", |event| {
        event["event"] == "dns" && event["reason"] == "rate_limited"
    });
    assert_eq!(limited["decision"], "deny");
    assert_eq!(limited["answer"], "refused");
}

#[test]
fn a_drain_closes_idle_connections() {
    let mut dns = DnsProxy::start(LOOPBACK_CLIENTS);
    let mut idle = dial(dns.at(unique_loopback()));
    dns.proxy.signal("TERM");
    assert_eq!(read_to_close(&mut idle), b"");
    assert!(dns.proxy.wait().success());
}
