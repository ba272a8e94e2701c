//! Connections: kept for the same client only, replaced when stale, switched to WebSocket.

use std::{
    net::{TcpListener, TcpStream},
    sync::Arc,
    thread,
    time::Duration,
};

use serde_json::json;

use super::{Puppet, ask, get, world_with};
use crate::support::{
    client::{dial_from, read_to_close, read_until, send, status},
    eventually,
    origin::{self, Behaviour},
    world::{POLICY, World},
};

const WEBSOCKET: &str = "Connection: Upgrade\r\nUpgrade: websocket\r\n\
     Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";

fn ask_again(stream: &mut TcpStream, path: &str) {
    send(stream, get(path).as_bytes());
    let answer = read_until(stream, format!("ok {path} ").as_bytes());
    let text = String::from_utf8_lossy(&answer);
    assert_eq!(status(&answer), Some(200), "{text}");
}

#[test]
fn requests_of_one_client_share_a_connection_and_those_of_another_do_not() {
    let world = World::standard();
    let proxy = world.proxy.listener("proxy");
    let mut first = dial_from("127.0.0.1", proxy);
    ask_again(&mut first, "/1");
    ask_again(&mut first, "/2");
    // The answer comes before the origin's connection is kept; another thread may serve the next.
    eventually("the exchanges to end", || {
        (world.proxy.events("close").len() == 2).then_some(())
    });
    let mut same_client = dial_from("127.0.0.1", proxy);
    ask_again(&mut same_client, "/3");
    assert_eq!(world.plain.seen.connections(), 1);
    let mut other_client = dial_from("127.0.0.2", proxy);
    ask_again(&mut other_client, "/4");
    assert_eq!(world.plain.seen.connections(), 2);
    assert_eq!(
        world.proxy.events("decision").len(),
        4,
        "each request is judged"
    );
}

#[test]
fn pipelined_requests_are_answered_in_order_until_one_is_refused() {
    let world = World::standard();
    let refused = get("/3").replace("allowed.example", "evil.example");
    let all = format!("{}{}{refused}{}", get("/1"), get("/2"), get("/4"));
    let answer = read_to_close(&mut ask(&world, &all));
    let text = String::from_utf8_lossy(&answer);
    let positions = ["ok /1 ", "ok /2 ", "HTTP/1.1 403 "].map(|part| text.find(part).unwrap());
    assert!(positions.is_sorted(), "{text}");
    assert_eq!(world.plain.seen.heads().len(), 2);
    assert_eq!(world.proxy.events("decision").len(), 3);
}

#[test]
fn a_connection_that_was_logged_in_serves_no_other_request() {
    let world = World::standard();
    let mut stream = ask(&world, "");
    for scheme in ["NTLM", "Negotiate", "Bearer", "Bearer"] {
        let field = format!("\r\nAuthorization: {scheme} dG9rZW4=\r\n\r\n");
        send(
            &mut stream,
            get("/1").replacen("\r\n\r\n", &field, 1).as_bytes(),
        );
        assert_eq!(status(&read_until(&mut stream, b"ok /1 ")), Some(200));
    }
    assert_eq!(world.plain.seen.connections(), 3);
}

#[test]
fn a_kept_connection_ends_with_its_lifetime() {
    let (puppet, behaviour) = Puppet::new();
    let policy = format!("{POLICY}\n[limits]\nlifetime = \"2s\"\n");
    let world = World::with_origins(&policy, origin::http(), behaviour);
    let mut stream = ask(&world, "");
    thread::park_timeout(Duration::from_millis(1200));
    send(&mut stream, get("/").as_bytes());
    puppet.reads_head();
    thread::park_timeout(Duration::from_millis(1200));
    puppet.sends(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nlast");
    let text = String::from_utf8(read_to_close(&mut stream)).unwrap();
    assert!(
        text.contains("connection: close\r\n") && text.ends_with("last"),
        "{text}"
    );
}

/// Answers one request on each connection without saying that it is the last.
fn one_answer_each() -> Arc<Behaviour> {
    Arc::new(|stream, seen| {
        let Some((head, _)) = origin::read_request(stream) else {
            return;
        };
        let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
        seen.note_head(head);
        let text = format!("ok {path} ");
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", text.len());
        stream
            .write_all(format!("{head}{text}").as_bytes())
            .unwrap();
    })
}

#[test]
fn a_connection_that_the_origin_closed_is_replaced() {
    let world = world_with(one_answer_each());
    let mut stream = ask(&world, "");
    for path in ["/1", "/2", "/3", "/4"] {
        ask_again(&mut stream, path);
    }
    assert_eq!(world.plain.seen.heads().len(), 4);
    for close in world.proxy.events("close") {
        assert_eq!(close["outcome"], "done", "{close}");
    }
}

#[test]
fn a_websocket_begins_with_the_origins_101_and_not_before() {
    let (puppet, behaviour) = Puppet::new();
    let world = world_with(behaviour);
    let request = get("/ws").replacen("\r\n\r\n", &format!("\r\n{WEBSOCKET}"), 1);
    let mut stream = ask(&world, &format!("{request}early"));
    let head = puppet.reads_head();
    for field in ["upgrade: websocket\r\n", "sec-websocket-key: "] {
        assert!(head.contains(field), "{field}: {head}");
    }
    puppet.sends(
        b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
          Sec-WebSocket-Accept: x\r\n\r\nhello",
    );
    let head = read_until(&mut stream, b"\r\n\r\n");
    assert_eq!(status(&head), Some(101));
    assert!(String::from_utf8_lossy(&head).contains("sec-websocket-accept: x\r\n"));
    assert_eq!(read_until(&mut stream, b"hello"), b"hello");
    assert_eq!(puppet.reads(5), b"early");
    send(&mut stream, b"GET / HTTP/1.1 is only bytes now");
    assert_eq!(puppet.reads(32), b"GET / HTTP/1.1 is only bytes now");
    puppet.closes();
    assert_eq!(read_to_close(&mut stream), b"");
    drop(stream);
    let close = world
        .proxy
        .await_event("the close", |line| line["event"] == "close");
    assert_eq!(
        (&close["status"], &close["outcome"]),
        (&json!(101), &json!("done"))
    );
}

#[test]
fn a_refused_upgrade_is_an_ordinary_answer() {
    let world = World::standard();
    let request = get("/ws").replacen("\r\n\r\n", &format!("\r\n{WEBSOCKET}"), 1);
    let mut stream = ask(&world, &request);
    assert_eq!(status(&read_until(&mut stream, b"ok /ws ")), Some(200));
    // What follows is a request, and judged as one.
    send(
        &mut stream,
        get("/")
            .replace("allowed.example", "evil.example")
            .as_bytes(),
    );
    assert_eq!(status(&read_to_close(&mut stream)), Some(403));
}

#[test]
fn a_drain_finishes_the_exchange_and_then_the_connection() {
    let (puppet, behaviour) = Puppet::new();
    let mut world = world_with(behaviour);
    let mut stream = ask(&world, &get("/"));
    puppet.reads_head();
    // A connection on which nothing was said does not hold up the drain.
    let idle = ask(&world, "");
    let listener = world.proxy.listener("proxy");
    world.proxy.signal("TERM");
    eventually("the listener to close", || TcpListener::bind(listener).ok());
    puppet.sends(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nlast");
    let text = String::from_utf8(read_to_close(&mut stream)).unwrap();
    assert!(
        text.contains("connection: close\r\n") && text.ends_with("last"),
        "{text}"
    );
    assert!(world.proxy.wait().success());
    drop(idle);
    let close = world.proxy.events("close").pop().unwrap();
    assert_eq!(close["outcome"], "done");
}
