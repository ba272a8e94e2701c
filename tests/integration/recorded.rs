//! What the log holds of what strangers send: all that identifies a request, in one printable
//! line, and nothing that is a secret.

use std::{fs, io::Write, net::UdpSocket};

use serde_json::json;

use crate::support::{
    client::{client_hello, dial, exchange, problem, read_to_close, read_until, send, status},
    eventually,
    world::World,
};

/// The log as it lies on the disk.
fn raw(world: &World) -> String {
    fs::read_to_string(world.proxy.folder().join("audit.jsonl")).unwrap()
}

#[test]
fn hostile_bytes_of_every_road_are_one_printable_line_each() {
    let world = World::standard();
    let mut sent = 0;
    for target in [
        "CONNECT \"};{\"x\":\\443:443",
        "CONNECT \u{1b}[2J.example:443",
        "CONNECT evil\u{202e}.example:443",
        "GET http://evil.example/\"}{\"event\":\"close\"",
        "GET http://evil.example/\u{1b}]0;x\u{7}",
        "GET http://evil.example/\\u001b<b>&%1b%0d%0a",
    ] {
        let request =
            format!("{target} HTTP/1.1\r\nHost: evil.example\r\nUser-Agent: \u{1b}[2J\"\\\r\n\r\n");
        exchange(world.proxy.listener("proxy"), request.as_bytes());
        sent += 1;
    }
    let mut hello = client_hello("evil-name.example");
    let name = b"evil-name";
    let at = hello
        .windows(name.len())
        .position(|found| found == name)
        .unwrap();
    for byte in [0x1b, b'\n', b'"', 0xff] {
        hello[at + 4] = byte;
        read_to_close(&mut sending(&world, &hello));
        sent += 1;
    }
    let decisions = eventually("every decision", || {
        let decisions = world.proxy.events("decision");
        (decisions.len() == sent).then_some(decisions)
    });
    assert!(decisions.iter().all(|line| line["decision"] == "deny"));

    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let mut query = vec![0, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    query.extend(b"\x06\x1b[2J\r\n\x05\"\\\xff\0.\x07example\0\0\x01\0\x01");
    socket.send_to(&query, world.proxy.listener("dns")).unwrap();
    let asked = world
        .proxy
        .await_event("the query", |line| line["event"] == "dns");
    let name = r#"\027[2J\013\010.\"\\\255\000\..example"#;
    assert_eq!(
        (&asked["name"], &asked["decision"]),
        (&json!(name), &json!("deny"))
    );

    let text = raw(&world);
    assert!(
        text.bytes().all(|byte| matches!(byte, b' '..=b'~' | b'\n')),
        "{text}"
    );
    // A start, the decisions and the query, each on one line.
    assert_eq!(text.lines().count(), sent + 2, "{text}");
    assert!(world.upstream.questions().is_empty());
}

fn sending(world: &World, bytes: &[u8]) -> std::net::TcpStream {
    let mut stream = dial(world.proxy.listener("https"));
    send(&mut stream, bytes);
    stream
}

#[test]
fn credentials_and_content_are_neither_recorded_nor_told() {
    let world = World::standard();
    let fields = "Proxy-Authorization: Basic s3cret-proxy\r\nAuthorization: Bearer s3cret-bearer\r\n\
                  Cookie: session=s3cret-cookie\r\nConnection: close\r\n\
                  Content-Length: 11\r\n\r\ns3cret-body";
    for (host, expected) in [("allowed.example", 200), ("evil.example", 403)] {
        let request = format!(
            "POST http://{host}/path?token=s3cret-query HTTP/1.1\r\nHost: {host}\r\n{fields}"
        );
        let answer = exchange(world.proxy.listener("proxy"), request.as_bytes());
        assert_eq!(status(&answer), Some(expected), "{host}");
        if expected == 403 {
            assert!(
                !String::from_utf8_lossy(&answer).contains("s3cret"),
                "{}",
                problem(&answer)
            );
        }
    }
    let head = "CONNECT user:s3cret-userinfo@allowed.example:443 HTTP/1.1\r\n\
                Host: allowed.example\r\nProxy-Authorization: Basic s3cret-proxy\r\n\r\n";
    let answer = exchange(world.proxy.listener("proxy"), head.as_bytes());
    assert_eq!(status(&answer), Some(400));
    assert!(!String::from_utf8_lossy(&answer).contains("s3cret"));
    world
        .proxy
        .await_event("the end of what was allowed", |line| {
            line["event"] == "close"
        });
    assert_eq!(world.proxy.events("decision").len(), 3);
    assert!(!raw(&world).contains("s3cret"), "{}", raw(&world));
    let log = serde_json::to_string(&world.proxy.log()).unwrap();
    assert!(!log.contains("s3cret"), "{log}");
}

#[test]
fn a_long_field_is_cut_and_says_how_long_it_was() {
    let world = World::standard();
    let path = format!("/{}", "x".repeat(60_000));
    let request = format!(
        "GET http://allowed.example{path} HTTP/1.1\r\nHost: allowed.example\r\nConnection: close\r\n\r\n"
    );
    let answer = exchange(world.proxy.listener("proxy"), request.as_bytes());
    assert_eq!(status(&answer), Some(200));
    let decision = &world.proxy.events("decision")[0];
    let recorded = decision["path"].as_str().unwrap();
    let (head, mark) = recorded.split_once('…').unwrap();
    assert!(
        path.starts_with(head) && head.len() < 4096,
        "{}",
        head.len()
    );
    assert_eq!(mark, "(60001 bytes)");
}

#[test]
fn a_tunnel_is_recorded_as_asked_for_as_judged_and_as_dialled() {
    let world = World::standard();
    let head = "CONNECT ALLOWED.example.:443 HTTP/1.1\r\nHost: ALLOWED.example.:443\r\n\r\n";
    let mut stream = dial(world.proxy.listener("proxy"));
    send(&mut stream, head.as_bytes());
    assert_eq!(status(&read_until(&mut stream, b"\r\n\r\n")), Some(200));
    stream.write_all(&client_hello("allowed.example")).unwrap();
    read_until(&mut stream, b"\x16");
    drop(stream);
    let close = world
        .proxy
        .await_event("the close", |line| line["event"] == "close");
    let decision = &world.proxy.events("decision")[0];
    let origin = world.web.address;
    let of = |line: &serde_json::Value, keys: &[&str]| -> Vec<serde_json::Value> {
        keys.iter().map(|key| line[*key].clone()).collect()
    };
    assert_eq!(
        of(decision, &["target", "host", "port", "rule", "addresses"]),
        [
            json!("ALLOWED.example.:443"),
            json!("allowed.example"),
            json!(443),
            json!("profiles.default.rules[0].hosts[0]"),
            json!([origin.ip()]),
        ]
    );
    assert_eq!(
        of(&close, &["id", "upstream", "sni", "ech"]),
        [
            decision["id"].clone(),
            json!(origin),
            json!("allowed.example"),
            json!(false),
        ]
    );
}
