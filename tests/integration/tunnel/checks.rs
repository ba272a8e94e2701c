//! The ClientHello check, on both roads.

use std::{
    io::{Read, Write},
    net::TcpStream,
};

use serde_json::{Value, json};

use super::{connect, open, speak_tls};
use crate::support::{
    client::{client_hello, dial, read_to_close, send},
    oracle::Oracle,
    world::{POLICY, World},
};

/// The alert that ends a handshake: fatal, unrecognized_name.
const ALERT: &[u8] = &[0x15, 3, 3, 0, 2, 2, 0x70];

/// A length of two bytes.
fn sized(length: usize) -> [u8; 2] {
    u16::try_from(length).unwrap().to_be_bytes()
}

/// A ClientHello with the server name, Encrypted Client Hello and padding of choice.
fn hello(name: Option<&str>, ech: bool, padding: usize) -> Vec<u8> {
    let mut extensions = Vec::new();
    let mut extension = |kind: u16, body: &[u8]| {
        extensions.extend(kind.to_be_bytes());
        extensions.extend(sized(body.len()));
        extensions.extend(body);
    };
    if let Some(name) = name {
        let mut body = Vec::new();
        body.extend(sized(name.len() + 3));
        body.push(0);
        body.extend(sized(name.len()));
        body.extend(name.as_bytes());
        extension(0, &body);
    }
    extension(10, &[0, 2, 0, 29]);
    extension(13, &[0, 4, 4, 3, 8, 4]);
    extension(43, &[2, 3, 4]);
    let share: Vec<u8> = [&[0, 36, 0, 29, 0, 32][..], &[7; 32]].concat();
    extension(51, &share);
    if ech {
        extension(
            0xfe0d,
            &[0, 0, 1, 0, 1, 9, 0, 4, 1, 2, 3, 4, 0, 4, 5, 6, 7, 8],
        );
    }
    extension(21, &vec![0; padding]);
    let mut body = vec![3, 3];
    body.extend([9; 32]);
    body.push(0);
    body.extend([0, 2, 0x13, 1, 1, 0]);
    body.extend(sized(extensions.len()));
    body.extend(extensions);
    let mut message = vec![1, 0];
    message.extend(sized(body.len()));
    message.extend(body);
    message
}

/// A message in TLS records of at most `size` bytes.
fn records(message: &[u8], size: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    for piece in message.chunks(size) {
        bytes.extend([0x16, 3, 1]);
        bytes.extend(sized(piece.len()));
        bytes.extend(piece);
    }
    bytes
}

/// Sends `first` in a tunnel to `allowed.example` and gives its closing record and what came back.
fn cut(world: &World, first: &[u8]) -> (Value, Vec<u8>) {
    let closed = world.proxy.events("close").len();
    let mut stream = open(world, &connect("allowed.example"));
    send(&mut stream, first);
    let answer = read_to_close(&mut stream);
    let close = crate::support::eventually("the close", || {
        world.proxy.events("close").into_iter().nth(closed)
    });
    (close, answer)
}

#[test]
fn a_tunnel_that_is_not_what_it_was_authorised_for_is_cut() {
    let world = World::standard();
    let one_record = 16 * 1024;
    for (first, reason) in [
        (client_hello("evil.example"), "sni_mismatch"),
        (client_hello("x.allowed.example"), "sni_mismatch"),
        (
            records(&hello(Some("evil.example"), false, 0), one_record),
            "sni_mismatch",
        ),
        (records(&hello(None, false, 0), one_record), "sni_missing"),
        (
            records(&hello(Some("allowed.example"), true, 0), one_record),
            "ech_refused",
        ),
        (
            records(&hello(Some("allowed.example"), false, 17_000), one_record),
            "not_tls",
        ),
        (b"SSH-2.0-OpenSSH_9.2\r\n".to_vec(), "not_tls"),
        (
            b"GET / HTTP/1.1\r\nHost: allowed.example\r\n\r\n".to_vec(),
            "not_tls",
        ),
        (b"\x80\x2e\x01\x00\x02".to_vec(), "not_tls"),
    ] {
        let what = String::from_utf8_lossy(&first).into_owned();
        let (close, answer) = cut(&world, &first);
        assert_eq!(close["reason"], reason, "{what}: {close}");
        assert_eq!(close["outcome"], "refused", "{what}: {close}");
        assert_eq!(
            (&close["bytes_up"], &close["status"]),
            (&json!(0), &json!(200)),
            "{what}"
        );
        assert_eq!(answer, ALERT, "{what}");
    }
    assert_eq!(world.web.seen.bytes(), 0, "the origin saw a byte");
}

#[test]
fn hellos_of_all_shapes_pass() {
    let world = World::standard();
    for (what, message, size) in [
        (
            "one record",
            hello(Some("allowed.example"), false, 0),
            16_384,
        ),
        (
            "upper case",
            hello(Some("ALLOWED.example"), false, 0),
            16_384,
        ),
        (
            "records of one byte",
            hello(Some("allowed.example"), false, 0),
            1,
        ),
        (
            "a post-quantum hello",
            hello(Some("allowed.example"), false, 1_900),
            16_384,
        ),
        (
            "nearly the largest",
            hello(Some("allowed.example"), false, 15_000),
            16_384,
        ),
    ] {
        let bytes = records(&message, size);
        let before = world.web.seen.bytes();
        let mut stream = open(&world, &connect("allowed.example"));
        send(&mut stream, &bytes);
        // The origin's TLS answers, whatever it makes of our few extensions.
        let mut first = [0];
        stream.read_exact(&mut first).unwrap();
        drop(stream);
        let seen = world.web.seen.bytes() - before;
        assert!(seen > 0 && seen <= bytes.len(), "{what}: {seen}");
    }
    for close in world.proxy.events("close") {
        assert_eq!(close["reason"], Value::Null, "{close}");
    }
}

#[test]
fn a_hello_that_comes_byte_by_byte_passes() {
    let world = World::standard();
    let mut stream = open(&world, &connect("allowed.example"));
    for byte in client_hello("allowed.example") {
        stream.write_all(&[byte]).unwrap();
    }
    let mut first = [0];
    stream.read_exact(&mut first).unwrap();
    assert_eq!(first, [0x16]);
}

#[test]
fn bytes_sent_with_the_connect_are_the_tunnels_first() {
    let world = World::standard();
    let mut stream = dial(world.proxy.listener("proxy"));
    let mut bytes = connect("allowed.example").into_bytes();
    bytes.extend(client_hello("allowed.example"));
    send(&mut stream, &bytes);
    crate::support::client::read_until(&mut stream, b"\r\n\r\n");
    let mut first = [0];
    stream.read_exact(&mut first).unwrap();
    assert_eq!(first, [0x16]);
}

#[test]
fn a_client_that_stalls_is_cut_at_the_deadline() {
    let world = World::with_limits("header_timeout = \"1s\"");
    for first in [&b""[..], &client_hello("allowed.example")[..100]] {
        let (close, answer) = cut(&world, first);
        assert_eq!(
            (&close["reason"], &close["outcome"]),
            (&json!("not_tls"), &json!("refused"))
        );
        assert_eq!(answer, ALERT);
    }
    assert_eq!(world.web.seen.bytes(), 0);
}

#[test]
fn a_silent_client_of_the_transparent_road_reaches_nobody() {
    let world = World::with_limits("header_timeout = \"1s\"");
    let mut oracle = Oracle::new(&world);
    let refused = oracle.refuses("https", &client_hello("allowed.example")[..100]);
    assert_eq!(refused.record["reason"], "not_tls", "{}", refused.record);
    assert_eq!(world.upstream.questions().len(), 0);
    assert_eq!(world.web.seen.connections(), 0);
}

#[test]
fn a_client_that_leaves_before_its_hello_is_no_refusal() {
    let world = World::standard();
    drop(open(&world, &connect("allowed.example")));
    let close = world
        .proxy
        .await_event("the close", |line| line["event"] == "close");
    assert_eq!(
        (&close["reason"], &close["outcome"]),
        (&Value::Null, &json!("client_closed"))
    );
    assert_eq!(world.web.seen.bytes(), 0);
}

#[test]
fn dummy_ech_passes_where_the_profile_allows_it_and_is_recorded() {
    let policy = POLICY.replacen(
        "[profiles.default]",
        "[profiles.default]\nech = \"allow\"",
        1,
    );
    let world = World::with_policy(&policy);
    let mut stream = open(&world, &connect("allowed.example"));
    send(
        &mut stream,
        &records(&hello(Some("allowed.example"), true, 0), 16_384),
    );
    let mut first = [0];
    stream.read_exact(&mut first).unwrap();
    drop(stream);
    let close = world
        .proxy
        .await_event("the close", |line| line["event"] == "close");
    assert_eq!(
        (&close["ech"], &close["sni"]),
        (&json!(true), &json!("allowed.example"))
    );
    assert_eq!(close["reason"], Value::Null);
}

#[test]
fn the_transparent_road_goes_by_the_server_name() {
    let world = World::standard();
    let stream = dial(world.proxy.listener("https"));
    let mut tls = speak_tls(&world, stream, "allowed.example");
    tls.write_all(b"GET /sni HTTP/1.1\r\nHost: x\r\n\r\n")
        .unwrap();
    let mut answer = [0; 15];
    tls.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"HTTP/1.1 200 OK");
    drop::<rustls::StreamOwned<_, TcpStream>>(tls);
    let close = world
        .proxy
        .await_event("the close", |line| line["event"] == "close");
    assert_eq!(
        (&close["via"], &close["sni"]),
        (&json!("sni"), &json!("allowed.example"))
    );
    assert_eq!(close["status"], Value::Null);
}

#[test]
fn the_transparent_road_refuses_by_alert_and_without_a_look_up() {
    let world = World::standard();
    let mut oracle = Oracle::new(&world);
    for (first, reason) in [
        (client_hello("evil.example"), "not_allowlisted"),
        (client_hello("denied.example"), "denied_by_rule"),
        (client_hello("ported.example"), "port_not_allowed"),
        (client_hello("plain-only.example"), "port_not_allowed"),
        (records(&hello(None, false, 0), 16_384), "sni_missing"),
        (
            b"GET / HTTP/1.1\r\nHost: allowed.example\r\n\r\n".to_vec(),
            "not_tls",
        ),
        (b"SSH-2.0-OpenSSH_9.2\r\n".to_vec(), "not_tls"),
    ] {
        let refused = oracle.refuses("https", &first);
        assert_eq!(refused.record["reason"], reason, "{}", refused.record);
        assert_eq!(refused.record["via"], "sni");
        assert_eq!(refused.answer, ALERT, "{reason}");
    }
}
