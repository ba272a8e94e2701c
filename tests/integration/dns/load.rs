//! One client does its worst, the others are still answered.

use std::{
    net::TcpStream,
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

use tokio::time::Instant;

use super::*;
use crate::support::{
    client::{read_to_close, send},
    eventually,
    soundness::{Footprint, assert_chained, health},
};

/// What one client sends in all, about 50,000 in a second where the machine can.
const FLOOD: u32 = 50_000;

fn flood(server: SocketAddr, from: Ipv4Addr, over: &AtomicBool) -> u32 {
    let client = Client::at(from);
    let begun = Instant::now();
    let mut sent = 0;
    while sent < FLOOD && !over.load(Ordering::Relaxed) {
        let due = u32::try_from(begun.elapsed().as_millis()).unwrap() * (FLOOD / 1000);
        while sent < due.min(FLOOD) {
            let name = format!("{:08x}.evil.example", sent.wrapping_mul(2_654_435_761));
            client.send(server, &query(1, &name, 1));
            sent += 1;
        }
        thread::yield_now();
    }
    sent
}

/// Asks, and asks again as resolvers do when no answer comes.
fn await_answer(client: &Client, server: SocketAddr, id: u16) {
    eventually("an answer during the flood", || {
        client.send(server, &query(id, "allowed.example", 1));
        while let Some(answer) = client.hear(Duration::from_millis(500)) {
            if answer[..2] == id.to_be_bytes() {
                return Some(());
            }
        }
        None
    });
}

#[test]
fn a_flood_of_random_names_neither_starves_others_nor_fills_the_log() {
    let mut dns = DnsProxy::start(LOOPBACK_CLIENTS);
    let server = dns.at(unique_loopback());
    let (flooder, other) = (unique_loopback(), unique_loopback());
    await_answer(&Client::at(other), server, 1);
    let before = Footprint::of(&dns.proxy);
    let over = AtomicBool::new(false);
    let answered = thread::scope(|scope| {
        let flooding = scope.spawn(|| flood(server, flooder, &over));
        let client = Client::at(other);
        let mut answered = 0;
        while !flooding.is_finished() || answered < 20 {
            answered += 1;
            await_answer(&client, server, answered);
            thread::park_timeout(Duration::from_millis(25));
        }
        assert_eq!(flooding.join().unwrap(), FLOOD);
        answered
    });
    assert!(answered >= 20, "{answered}");
    dns.assert_nothing_went_upstream();
    assert_eq!(health(&dns.proxy)["status"], "ok");
    before.await_return(&dns.proxy);
    // What is folded is written at the stop at the latest.
    dns.proxy.signal("TERM");
    assert!(dns.proxy.wait().success());
    let records = dns.proxy.events("dns");
    let of_flood: Vec<_> = records
        .iter()
        .filter(|event| event["client"] == flooder.to_string())
        .collect();
    let lines = of_flood.len();
    let events: u64 = of_flood
        .iter()
        .map(|event| event["count"].as_u64().unwrap_or(1))
        .sum();
    assert!(events > 2000, "{events}");
    assert!(lines < 2000, "{lines} lines for {events} queries");
    assert_chained(&dns.proxy);
}

/// Connects from an address of one's own.
fn dial_from(from: Ipv4Addr, to: SocketAddr) -> TcpStream {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    socket.bind(&SocketAddr::from((from, 0)).into()).unwrap();
    socket.connect_timeout(&to.into(), PATIENCE).unwrap();
    let stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

#[test]
fn idle_connections_of_one_client_leave_room_for_others_and_are_closed() {
    let dns = DnsProxy::start(LOOPBACK_CLIENTS);
    let server = dns.at(unique_loopback());
    let greedy = unique_loopback();
    let mut idle: Vec<TcpStream> = (0..200).map(|_| dial_from(greedy, server)).collect();
    let output = output_of(Command::new("dig").args([
        &format!("@{}", server.ip()),
        "-p",
        &server.port().to_string(),
        "+tcp",
        "+tries=1",
        "+short",
        "allowed.example",
    ]));
    assert_eq!(output.trim(), server.ip().to_string());
    // Those over the limit are closed at once, the others when they have been idle for long.
    let begun = Instant::now();
    for stream in &mut idle[100..] {
        assert_eq!(read_to_close(stream), b"");
    }
    assert!(begun.elapsed() < Duration::from_secs(5), "{begun:?}");
    for stream in &mut idle[..100] {
        assert_eq!(read_to_close(stream), b"");
    }
    // Their places are free again.
    let mut stream = dial_from(greedy, server);
    send(&mut stream, &framed(&query(1, "allowed.example", 1)));
    let answer = summary(&read_framed(&mut stream));
    assert_eq!(answer, format!("NoError {}", server.ip()));
}
