//! What a person, a ticket and a program are told of one log.

use std::path::Path;

use super::{printed, visited::visited};
use crate::support::{
    client::{dial_from, exchange, read_to_close, send},
    world::World,
};

/// A log as a proxy wrote it, with a run, report mode, a refusal after the decision, and DNS.
fn fixed() -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    root.join("tests/data/logs/audit.jsonl")
        .display()
        .to_string()
}

#[test]
fn the_forms_of_a_log() {
    let log = fixed();
    for (name, args) in [
        ("lines", &[][..]),
        ("denied", &["--denied"]),
        ("summary", &["--summary"]),
        ("summary_by_run", &["--summary", "--by", "run"]),
        (
            "summary_markdown",
            &["--summary", "--markdown", "--top", "2"],
        ),
        (
            "summary_json",
            &["--summary", "--json", "--by", "client", "--denied"],
        ),
    ] {
        let out = printed(&[&[log.as_str()], args].concat());
        insta::assert_snapshot!(name, out);
    }
}

#[test]
fn nothing_hostile_reaches_any_form() {
    let world = World::standard();
    let proxy = world.proxy.listener("proxy");
    for target in [
        "http://evil.example/\u{9b}31m\u{202e}",
        "http://evil.example/`|<img src=x>@everyone",
        "http://\u{1b}]0;owned\u{7}/",
    ] {
        let head = format!("GET {target} HTTP/1.1\r\nHost: evil.example\r\n\r\n");
        exchange(proxy, head.as_bytes());
    }
    let mut stream = dial_from("127.0.0.1", proxy);
    send(&mut stream, b"CONNECT evil`|.example:443 HTTP/1.1\r\n\r\n");
    read_to_close(&mut stream);
    // One label of a name may hold any byte.
    let mut query =
        b"\x12\x34\x01\0\0\x01\0\0\0\0\0\0\x08\x1b]0;\x07|`\x0a\x04evil\x07example\0".to_vec();
    query.extend(b"\0\x01\0\x01");
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    socket
        .set_read_timeout(Some(crate::support::PATIENCE))
        .unwrap();
    socket.send_to(&query, world.proxy.listener("dns")).unwrap();
    socket.recv_from(&mut [0; 512]).unwrap();
    let config = world.proxy.config();
    let config = config.to_str().unwrap();
    for form in [
        &[][..],
        &["--json"],
        &["--summary"],
        &["--summary", "--markdown"],
        &["--summary", "--json"],
        &["--denied", "--host", ".example"],
    ] {
        let out = printed(&[&["-c", config], form].concat());
        let bare =
            |c: char| c != '\n' && (c.is_control() || ('\u{202a}'..='\u{202e}').contains(&c));
        assert!(!out.contains(bare), "{form:?}: {out:?}");
        if form.contains(&"--markdown") {
            for line in out.lines().filter(|line| line.starts_with('|')) {
                let cells = line.matches('|').count();
                assert!([5, 7].contains(&cells), "{line}");
                assert_eq!(line.matches('`').count() % 2, 0, "{line}");
            }
        }
    }
}

#[test]
fn a_person_is_told_the_destination_of_a_close() {
    let world = visited();
    let config = world.proxy.config();
    let out = printed(&["-c", config.to_str().unwrap(), "--event", "close"]);
    let closes: Vec<&str> = out.lines().collect();
    assert_eq!(closes.len(), 6, "{out}");
    assert!(
        closes
            .iter()
            .any(|line| line.contains("opaque2.example:443")),
        "{out}"
    );
}
