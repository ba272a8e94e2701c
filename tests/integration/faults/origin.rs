//! Origins that are black holes, reset, never end or close half: each ends as what it is.

use std::{
    io::{Read as _, Write as _},
    net::{Ipv4Addr, Shutdown, TcpListener, TcpStream},
    thread,
    time::Duration,
};

use serde_json::json;
use socket2::SockRef;

use super::{assert_serves, connect, connect_head, refusal};
use crate::support::{
    PATIENCE,
    black_hole::BlackHole,
    client::{dial, problem, read_to_close, send, status},
    eventually,
    soundness::{Footprint, assert_sound},
    unique_loopback,
    world::World,
};

/// How often each fault is met: a descriptor lost every time would show.
const TIMES: usize = 12;

/// Accepts as often as it is told, and does as it is told with each connection.
fn origin(behaviour: impl Fn(TcpStream) + Send + 'static) -> Ipv4Addr {
    let address = unique_loopback();
    let listener = TcpListener::bind((address, 443)).unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let stream = stream.unwrap();
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            behaviour(stream);
        }
    });
    address
}

fn reset(stream: TcpStream) {
    SockRef::from(&stream)
        .set_linger(Some(Duration::ZERO))
        .unwrap();
    drop(stream);
}

/// The fixture at rest, with `opaque2.example` at an origin of the test's own.
fn world_with(address: Ipv4Addr, limits: &str) -> (World, Footprint) {
    let world = World::with_limits(limits);
    assert_serves(&world);
    world
        .upstream
        .set_addresses("opaque2.example", &[&address.to_string()]);
    let before = Footprint::of(&world.proxy);
    (world, before)
}

/// Waits until `TIMES` exchanges with the origin have ended as `expected`, and all is well.
fn assert_ended(world: &World, before: Footprint, address: Ipv4Addr, expected: &str) {
    let upstream = json!(format!("{address}:443"));
    let outcomes = eventually("every close", || {
        let closes = world.proxy.events("close");
        let of_origin = closes.iter().filter(|close| close["upstream"] == upstream);
        let outcomes: Vec<String> = of_origin
            .map(|close| close["outcome"].to_string())
            .collect();
        (outcomes.len() == TIMES).then_some(outcomes)
    });
    assert_eq!(outcomes, vec![json!(expected).to_string(); TIMES]);
    assert_serves(world);
    assert_sound(&world.proxy, before);
}

#[test]
fn a_black_hole_costs_its_client_the_connect_timeout_and_others_nothing() {
    let hole = BlackHole::open();
    let (world, before) = world_with(hole.address, "connect_timeout = \"1s\"");
    thread::scope(|scope| {
        let waiting: Vec<_> = (0..TIMES)
            .map(|_| scope.spawn(|| refusal(&world.proxy, "opaque2.example")))
            .collect();
        world
            .proxy
            .await_event("all of them to be under way", |line| {
                line["event"] == "decision" && line["host"] == "opaque2.example"
            });
        assert_serves(&world);
        for answer in waiting {
            let answer = answer.join().unwrap();
            assert_eq!(status(&answer), Some(504));
            assert_eq!(problem(&answer)["reason"], "connect_timeout");
        }
    });
    // A client that does not wait for it takes its attempt along.
    for _ in 0..TIMES {
        let mut stream = dial(world.proxy.listener("proxy"));
        send(&mut stream, connect_head("opaque2.example").as_bytes());
    }
    let outcomes = eventually("every close", || {
        let closes = world.proxy.events("close");
        let refused = closes
            .iter()
            .filter(|close| close["reason"] == "connect_timeout");
        let left = closes
            .iter()
            .filter(|close| close["outcome"] == "client_closed");
        let counts = (refused.count(), left.count());
        (counts.0 + counts.1 >= 2 * TIMES).then_some(counts)
    });
    assert!(outcomes.0 >= TIMES, "{outcomes:?}");
    assert_serves(&world);
    assert_sound(&world.proxy, before);
}

#[test]
fn an_origin_that_resets_at_once_or_in_the_middle_ends_its_tunnels() {
    for sent_before in [0, 64 * 1024] {
        let address = origin(move |mut stream| {
            // What it resets was accepted by the proxy's kernel, and answered with 200.
            let mut byte = [0];
            stream.read_exact(&mut byte).unwrap();
            stream.write_all(&vec![b'x'; sent_before]).unwrap();
            reset(stream);
        });
        let (world, before) = world_with(address, "");
        for _ in 0..TIMES {
            let (answer, mut stream) = connect(&world.proxy, "opaque2.example");
            assert_eq!(status(&answer), Some(200));
            send(&mut stream, b"x");
            read_to_close(&mut stream);
        }
        assert_ended(&world, before, address, "upstream_closed");
    }
}

#[test]
fn an_origin_that_never_ends_is_held_back_and_cut_at_the_lifetime() {
    let address = origin(|mut stream| {
        thread::spawn(move || {
            let piece = vec![b'x'; 64 * 1024];
            while stream.write_all(&piece).is_ok() {}
        });
    });
    let (world, before) = world_with(address, "lifetime = \"2s\"");
    let mut clients: Vec<TcpStream> = (0..TIMES)
        .map(|_| connect(&world.proxy, "opaque2.example").1)
        .collect();
    // Half of them read all the time, the others nothing: what they do not take is not taken in.
    let idle = clients.split_off(TIMES / 2);
    thread::scope(|scope| {
        for mut stream in clients {
            scope.spawn(move || {
                let mut buffer = vec![0; 64 * 1024];
                while stream.read(&mut buffer).is_ok_and(|length| length > 0) {}
            });
        }
    });
    for mut stream in idle {
        read_to_close(&mut stream);
    }
    assert_ended(&world, before, address, "lifetime");
}

#[test]
fn an_origin_that_closes_half_still_gets_what_its_client_sends() {
    let (got, gets) = std::sync::mpsc::channel();
    let address = origin(move |mut stream| {
        stream.shutdown(Shutdown::Write).unwrap();
        let mut all = Vec::new();
        stream.read_to_end(&mut all).unwrap();
        got.send(all.len()).unwrap();
    });
    let (world, before) = world_with(address, "");
    for _ in 0..TIMES {
        let (_, mut stream) = connect(&world.proxy, "opaque2.example");
        assert_eq!(read_to_close(&mut stream), b"");
        send(&mut stream, &vec![b'x'; 300_000]);
        stream.shutdown(Shutdown::Write).unwrap();
        assert_eq!(gets.recv_timeout(PATIENCE), Ok(300_000));
    }
    assert_ended(&world, before, address, "done");
}
