//! Heads as origins and clients get them.

use std::sync::Arc;

use super::{Puppet, ask, get, world_with};
use crate::support::{
    client::{read_to_close, read_until, send, status},
    origin,
    world::World,
};

/// The head that the origin got of a request with these fields, in lower case.
fn forwarded(fields: &str) -> String {
    let world = World::standard();
    let request = get("/p?q=1").replacen("\r\n\r\n", &format!("\r\n{fields}\r\n"), 1);
    let answer = read_until(&mut ask(&world, &request), b"\r\n\r\n");
    let text = String::from_utf8_lossy(&answer);
    assert_eq!(status(&answer), Some(200), "{text}");
    world.plain.seen.heads().pop().unwrap().to_ascii_lowercase()
}

#[test]
fn only_what_is_meant_for_the_origin_reaches_it() {
    let head = forwarded(
        "Proxy-Authorization: Basic eDp5\r\nProxy-Connection: keep-alive\r\n\
         Proxy: http://evil.example\r\nX-Forwarded-For: 10.0.0.9\r\nX-Real-IP: 10.0.0.9\r\n\
         Forwarded: for=10.0.0.9\r\nVia: 1.1 client\r\nX-Sandbox-Id: 7\r\nTE: trailers\r\n\
         Trailer: X\r\nKeep-Alive: timeout=5\r\nConnection: X-Hop, Connection\r\nX-Hop: 1\r\n\
         Upgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQ\r\nAccept: */*\r\n\
         Authorization: Bearer own\r\n",
    );
    let mut lines: Vec<&str> = head.trim_end().split("\r\n").collect();
    assert_eq!(lines.remove(0), "get /p?q=1 http/1.1");
    lines.sort_unstable();
    let expected = [
        "accept: */*",
        "authorization: bearer own",
        "host: allowed.example",
        "via: 1.1 eclusa",
    ];
    assert_eq!(lines, expected);
}

#[test]
fn connection_nominating_itself_does_no_harm() {
    let head =
        forwarded("Connection: Connection, Proxy-Connection, Host\r\nProxy-Connection: x\r\n");
    assert!(head.contains("host: allowed.example\r\n"), "{head}");
    assert!(!head.contains("connection"), "{head}");
}

#[test]
fn an_origin_does_not_speak_with_the_proxys_voice() {
    let world = world_with(origin::scripted(
        b"HTTP/1.1 200 OK\r\nProxy-Authenticate: Basic\r\nProxy-Status: eclusa; error=x\r\n\
          Alt-Svc: h3=\":443\"\r\nConnection: X-Hop\r\nX-Hop: 1\r\nETag: \"x\"\r\n\
          Content-Length: 2\r\n\r\nok",
    ));
    let request = get("/").replace("HTTP/1.1", "HTTP/1.0");
    let answer = read_to_close(&mut ask(&world, &request));
    let text = String::from_utf8_lossy(&answer).to_ascii_lowercase();
    assert!(
        text.starts_with("http/1.1 200 ok\r\n") && text.ends_with("\r\n\r\nok"),
        "{text}"
    );
    for absent in ["proxy-", "alt-svc", "x-hop"] {
        assert!(!text.contains(absent), "{absent}: {text}");
    }
    for present in ["etag: \"x\"\r\n", "connection: close\r\n"] {
        assert!(text.contains(present), "{present}: {text}");
    }
}

#[test]
fn what_is_no_http_response_is_told_as_502() {
    for answer in [
        &b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n"[..],
        b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: h2c\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nabc",
        b"HTTP/1.1 2000 OK\r\n\r\n",
        b"SSH-2.0-OpenSSH_9.2\r\n",
        b"HTTP/1.1 200 OK\r\nContent-",
        b"",
    ] {
        let world = world_with(origin::scripted(answer));
        let what = String::from_utf8_lossy(answer).into_owned();
        let got = read_to_close(&mut ask(&world, &get("/")));
        assert_eq!(
            status(&got),
            Some(502),
            "{what}: {}",
            String::from_utf8_lossy(&got)
        );
        let close = world
            .proxy
            .await_event("the close", |line| line["event"] == "close");
        assert_eq!(close["reason"], "upstream_error", "{what}: {close}");
        assert_eq!(close["status"], 502, "{what}: {close}");
    }
}

#[test]
fn a_redirect_is_passed_on_and_not_followed() {
    let world = world_with(origin::scripted(
        b"HTTP/1.1 302 Found\r\nLocation: http://169.254.169.254/latest/\r\n\
          Content-Length: 0\r\n\r\n",
    ));
    let mut stream = ask(&world, &get("/"));
    let head = String::from_utf8(read_until(&mut stream, b"\r\n\r\n")).unwrap();
    assert!(
        head.contains("location: http://169.254.169.254/latest/\r\n"),
        "{head}"
    );
    assert_eq!(world.proxy.events("decision").len(), 1);
    let follow = get("/latest/").replace("allowed.example", "169.254.169.254");
    send(&mut stream, follow.as_bytes());
    assert_eq!(status(&read_to_close(&mut stream)), Some(403));
}

#[test]
fn bodyless_responses_end_with_their_head() {
    let world = world_with(Arc::new(|stream, seen| {
        while let Some((head, _)) = origin::read_request(stream) {
            let answer: &[u8] = match head.split(' ').nth(1) {
                Some("/head") => b"HTTP/1.1 200 OK\r\nContent-Length: 12\r\n\r\n",
                Some("/204") => b"HTTP/1.1 204 No Content\r\n\r\n",
                Some("/304") => b"HTTP/1.1 304 Not Modified\r\nContent-Length: 12\r\n\r\n",
                Some(_) | None => b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nlast",
            };
            seen.note_head(head);
            stream.write_all(answer).unwrap();
        }
    }));
    let mut stream = ask(&world, &get("/head").replacen("GET", "HEAD", 1));
    let head = String::from_utf8(read_until(&mut stream, b"\r\n\r\n")).unwrap();
    assert!(head.contains("content-length: 12\r\n"), "{head}");
    for expected in [204, 304] {
        send(&mut stream, get(&format!("/{expected}")).as_bytes());
        assert_eq!(
            status(&read_until(&mut stream, b"\r\n\r\n")),
            Some(expected)
        );
    }
    send(&mut stream, get("/last").as_bytes());
    assert_eq!(status(&read_until(&mut stream, b"last")), Some(200));
    assert_eq!(
        world.plain.seen.connections(),
        1,
        "one connection serves them all"
    );
}

#[test]
fn interim_responses_are_passed_on_and_continue_is_awaited() {
    let (puppet, behaviour) = Puppet::new();
    let world = world_with(behaviour);
    let mut stream = ask(
        &world,
        "POST http://allowed.example/ HTTP/1.1\r\nHost: allowed.example\r\n\
         Content-Length: 4\r\nExpect: 100-continue\r\n\r\n",
    );
    assert!(puppet.reads_head().contains("expect: 100-continue\r\n"));
    puppet.sends(b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n");
    for expected in [103, 100] {
        assert_eq!(
            status(&read_until(&mut stream, b"\r\n\r\n")),
            Some(expected)
        );
    }
    send(&mut stream, b"body");
    assert_eq!(puppet.reads(4), b"body");
    puppet.sends(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    let head = String::from_utf8(read_until(&mut stream, b"\r\n\r\n")).unwrap();
    assert!(
        head.starts_with("HTTP/1.1 200") && !head.contains("connection: close"),
        "{head}"
    );
}

#[test]
fn a_client_of_http_1_0_gets_no_interim_response_and_no_chunks() {
    let world = world_with(origin::scripted(
        b"HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\
          5\r\nhello\r\n0\r\n\r\n",
    ));
    let request = "GET http://allowed.example/ HTTP/1.0\r\n\r\n";
    let text = String::from_utf8(read_to_close(&mut ask(&world, request))).unwrap();
    assert!(
        text.starts_with("HTTP/1.1 200") && text.ends_with("\r\n\r\nhello"),
        "{text}"
    );
    assert!(!text.contains("chunked"), "{text}");
}
