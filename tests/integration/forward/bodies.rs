//! Bodies: framed anew, streamed in step, never ended where they were cut.

use std::{net::Shutdown, thread, time::Duration};

use serde_json::json;

use super::{Puppet, ask, get, world_with};
use crate::support::{
    client::{read_to_close, read_until, send, status},
    origin,
    world::{POLICY, World},
};

const POST: &str = "POST http://allowed.example/ HTTP/1.1\r\nHost: allowed.example\r\n";

#[test]
fn every_event_of_a_stream_arrives_when_it_is_sent() {
    let (puppet, behaviour) = Puppet::new();
    let world = world_with(behaviour);
    let mut stream = ask(&world, &get("/events"));
    puppet.reads_head();
    puppet.sends(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n");
    let head = String::from_utf8(read_until(&mut stream, b"\r\n\r\n")).unwrap();
    assert!(head.contains("transfer-encoding: chunked\r\n"), "{head}");
    // The next event is sent only when this one has arrived: nothing can be kept back.
    for _ in 0..5 {
        puppet.sends(b"data: x\n\n");
        assert_eq!(
            read_until(&mut stream, b"\n\n\r\n"),
            b"9\r\ndata: x\n\n\r\n"
        );
    }
    puppet.closes();
    assert_eq!(read_until(&mut stream, b"0\r\n\r\n"), b"0\r\n\r\n");
}

#[test]
fn an_upload_streams_in_step_and_trailers_are_dropped() {
    let (puppet, behaviour) = Puppet::new();
    let world = world_with(behaviour);
    let fields = "Transfer-Encoding: chunked\r\nTrailer: Authorization\r\n\r\n";
    let mut stream = ask(&world, &format!("{POST}{fields}"));
    let head = puppet.reads_head();
    assert!(head.contains("transfer-encoding: chunked\r\n"), "{head}");
    assert!(!head.contains("trailer"), "{head}");
    for _ in 0..3 {
        send(&mut stream, b"4;ext=\"1\"\r\nbody\r\n");
        assert_eq!(puppet.reads(9), b"4\r\nbody\r\n");
    }
    send(
        &mut stream,
        b"0\r\nAuthorization: Bearer x\r\nHost: evil.example\r\n\r\n",
    );
    assert_eq!(puppet.reads(5), b"0\r\n\r\n");
    puppet.sends(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    assert_eq!(status(&read_until(&mut stream, b"\r\n\r\n")), Some(200));
    send(&mut stream, get("/second").as_bytes());
    let second = puppet.reads_head();
    assert!(
        second.starts_with("GET /second HTTP/1.1\r\n"),
        "nothing of the trailers: {second}"
    );
}

#[test]
fn a_response_that_was_cut_does_not_look_whole() {
    for answer in [
        &b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf"[..],
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n0\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\nzz\r\n",
    ] {
        let what = String::from_utf8_lossy(answer).into_owned();
        let world = world_with(origin::scripted(answer));
        let got = read_to_close(&mut ask(&world, &get("/")));
        assert!(!got.ends_with(b"\r\n0\r\n\r\n"), "{what}");
        let close = world
            .proxy
            .await_event("the close", |line| line["event"] == "close");
        assert_eq!(close["reason"], "upstream_error", "{what}: {close}");
        assert_ne!(close["outcome"], "done", "{what}: {close}");
    }
}

#[test]
fn an_upload_that_was_cut_does_not_look_whole_to_the_origin() {
    for (framing, body) in [
        ("Content-Length: 10", "half"),
        ("Transfer-Encoding: chunked", "4\r\nhalf\r\n"),
    ] {
        let (puppet, behaviour) = Puppet::new();
        let world = world_with(behaviour);
        let stream = ask(&world, &format!("{POST}{framing}\r\n\r\n{body}"));
        puppet.reads_head();
        assert_eq!(puppet.reads(body.len()), body.as_bytes());
        drop(stream);
        assert_eq!(puppet.reads_to_end(), b"<reset>", "{framing}");
        let close = world
            .proxy
            .await_event("the close", |line| line["event"] == "close");
        assert_eq!(close["outcome"], "client_closed", "{close}");
    }
}

#[test]
fn an_upload_known_to_be_over_the_budget_is_refused_before_it_is_sent_on() {
    let policy = format!("{POLICY}\n[limits]\nmax_upload_bytes = \"1000 B\"\n");
    let world = World::with_policy(&policy);
    let answer = read_to_close(&mut ask(
        &world,
        &format!("{POST}Content-Length: 1001\r\n\r\n"),
    ));
    assert_eq!(
        status(&answer),
        Some(413),
        "{}",
        String::from_utf8_lossy(&answer)
    );
    assert_eq!(world.plain.seen.connections(), 0);
    let close = world
        .proxy
        .await_event("the close", |line| line["event"] == "close");
    let (reason, outcome) = (&close["reason"], &close["outcome"]);
    assert_eq!(
        (reason, outcome),
        (&json!("budget_exceeded"), &json!("budget"))
    );
}

#[test]
fn an_upload_that_grows_over_the_budget_is_reset() {
    let policy = format!("{POLICY}\n[limits]\nmax_upload_bytes = \"1000 B\"\n");
    let (puppet, behaviour) = Puppet::new();
    let world = World::with_origins(&policy, origin::http(), behaviour);
    let mut stream = ask(&world, &format!("{POST}Transfer-Encoding: chunked\r\n\r\n"));
    puppet.reads_head();
    send(
        &mut stream,
        format!("64\r\n{}\r\n", "x".repeat(100)).as_bytes(),
    );
    puppet.reads(106);
    send(
        &mut stream,
        format!("400\r\n{}\r\n0\r\n\r\n", "x".repeat(1024)).as_bytes(),
    );
    assert_eq!(status(&read_to_close(&mut stream)), Some(413));
    let rest = puppet.reads_to_end();
    assert!(
        rest.ends_with(b"<reset>") && rest.len() < 1000,
        "{}",
        String::from_utf8_lossy(&rest)
    );
}

#[test]
fn an_origin_may_answer_before_it_has_the_whole_request() {
    let (puppet, behaviour) = Puppet::new();
    let world = world_with(behaviour);
    let mut stream = ask(&world, &format!("{POST}Content-Length: 1000\r\n\r\npart"));
    puppet.reads_head();
    assert_eq!(puppet.reads(4), b"part");
    puppet.sends(b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 2\r\n\r\nno");
    let text = String::from_utf8(read_until(&mut stream, b"\r\n\r\nno")).unwrap();
    assert!(text.starts_with("HTTP/1.1 401"), "{text}");
    assert!(text.contains("connection: close\r\n"), "{text}");
    // What would follow belongs to the body that nobody reads.
    send(&mut stream, get("/smuggled").as_bytes());
    assert_eq!(read_to_close(&mut stream), b"");
    assert_eq!(world.proxy.events("decision").len(), 1);
}

#[test]
fn a_malformed_upload_is_told_so_and_reset() {
    let (puppet, behaviour) = Puppet::new();
    let world = world_with(behaviour);
    let begun = "Transfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n";
    let mut stream = ask(&world, &format!("{POST}{begun}"));
    puppet.reads_head();
    assert_eq!(puppet.reads(9), b"4\r\nbody\r\n");
    send(&mut stream, b"0x4\r\nbody\r\n0\r\n\r\n");
    assert_eq!(status(&read_to_close(&mut stream)), Some(400));
    assert_eq!(puppet.reads_to_end(), b"<reset>");
}

#[test]
fn a_client_that_half_closes_still_gets_its_response() {
    let (puppet, behaviour) = Puppet::new();
    let world = world_with(behaviour);
    let mut stream = ask(&world, &get("/"));
    stream.shutdown(Shutdown::Write).unwrap();
    puppet.reads_head();
    puppet.sends(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nlate");
    assert!(read_to_close(&mut stream).ends_with(b"late"));
}

#[test]
fn a_client_that_resets_ends_the_exchange() {
    let (puppet, behaviour) = Puppet::new();
    let world = world_with(behaviour);
    let mut stream = ask(&world, &get("/events"));
    puppet.reads_head();
    puppet.sends(b"HTTP/1.1 200 OK\r\n\r\ndata: x\n\n");
    read_until(&mut stream, b"data: x\n\n");
    socket2::SockRef::from(&stream)
        .set_linger(Some(Duration::ZERO))
        .unwrap();
    drop(stream);
    assert_eq!(puppet.reads_to_end(), b"<reset>");
    let close = world
        .proxy
        .await_event("the close", |line| line["event"] == "close");
    let (outcome, told) = (&close["outcome"], &close["status"]);
    assert_eq!((outcome, told), (&json!("client_closed"), &json!(200)));
}

#[test]
fn only_silence_beyond_the_idle_limit_ends_a_stream() {
    let (puppet, behaviour) = Puppet::new();
    let policy = format!("{POLICY}\n[limits]\nidle_timeout = \"2s\"\n");
    let world = World::with_origins(&policy, origin::http(), behaviour);
    let mut stream = ask(&world, &get("/events"));
    puppet.reads_head();
    puppet.sends(b"HTTP/1.1 200 OK\r\n\r\n");
    read_until(&mut stream, b"\r\n\r\n");
    for _ in 0..3 {
        thread::park_timeout(Duration::from_millis(1100));
        puppet.sends(b"data: x\n\n");
        read_until(&mut stream, b"data: x\n\n\r\n");
    }
    assert_eq!(read_to_close(&mut stream), b"", "cut, not ended");
    let close = world
        .proxy
        .await_event("the close", |line| line["event"] == "close");
    assert_eq!(close["outcome"], "idle");
}
