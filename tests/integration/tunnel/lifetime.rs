//! How tunnels end: half-closes, deadlines, budgets, places.

use std::{
    io::{Read, Write},
    net::Shutdown,
    time::Duration,
};

use serde_json::{Value, json};
use tokio::time::Instant;

use super::{connect, open};
use crate::support::{
    black_hole::BlackHole,
    client::{dial, exchange, read_to_close, send, status},
    eventually,
    world::World,
};

fn one_close(world: &World) -> Value {
    let close = world
        .proxy
        .await_event("the close", |line| line["event"] == "close");
    assert_eq!(world.proxy.events("close").len(), 1);
    close
}

#[test]
fn a_half_close_lets_the_other_direction_finish() {
    let world = World::standard();
    for _ in 0..50 {
        let mut tunnel = world.tunnel_from("127.0.0.1", "opaque.example");
        send(&mut tunnel, b"the last of it");
        tunnel.shutdown(Shutdown::Write).unwrap();
        assert_eq!(read_to_close(&mut tunnel), b"the last of it");
    }
    let closes = eventually("every close", || {
        let closes = world.proxy.events("close");
        (closes.len() == 50).then_some(closes)
    });
    for close in closes {
        let bytes = (&close["bytes_up"], &close["bytes_down"]);
        assert_eq!(
            (bytes, &close["outcome"]),
            ((&json!(20), &json!(20)), &json!("done"))
        );
    }
}

#[test]
fn a_thousand_ends_in_order_and_by_reset_leave_nothing_open() {
    let world = World::with_limits("requests_per_second = 100000");
    drop(world.tunnel_from("127.0.0.1", "opaque.example"));
    let descriptors = || {
        let listed = std::fs::read_dir(format!("/proc/{}/fd", world.proxy.pid())).unwrap();
        listed.count()
    };
    let closes = |count: usize| {
        eventually("every close", || {
            (world.proxy.events("close").len() == count).then_some(())
        });
    };
    closes(1);
    let before = descriptors();
    for round in 0..1000 {
        let tunnel = world.tunnel_from("127.0.0.1", "opaque.example");
        match round % 3 {
            0 => tunnel.shutdown(Shutdown::Write).unwrap(),
            1 => tunnel.shutdown(Shutdown::Both).unwrap(),
            _ => socket2::SockRef::from(&tunnel)
                .set_linger(Some(Duration::ZERO))
                .unwrap(),
        }
    }
    closes(1001);
    eventually("every descriptor", || {
        (descriptors() <= before).then_some(())
    });
}

#[test]
fn a_slow_head_is_closed_at_the_deadline_without_an_answer() {
    let world = World::with_limits("header_timeout = \"1s\"");
    for listener in ["proxy", "http"] {
        let begun = Instant::now();
        let mut stream = dial(world.proxy.listener(listener));
        stream
            .set_read_timeout(Some(Duration::from_millis(100)))
            .unwrap();
        let mut answer = Vec::new();
        // A byte at a time, for longer than the deadline.
        for byte in b"GET http://allowed.example/".iter().cycle() {
            if stream.write_all(&[*byte]).is_err() || begun.elapsed() > Duration::from_secs(10) {
                break;
            }
            if matches!(stream.read(&mut [0; 512]), Ok(0)) {
                break;
            }
            answer.push(*byte);
        }
        let took = begun.elapsed();
        assert!(took < Duration::from_secs(5), "{listener}: {took:?}");
    }
    let decisions = world.proxy.events("decision");
    let reasons: Vec<&Value> = decisions.iter().map(|line| &line["reason"]).collect();
    assert_eq!(reasons, ["bad_request", "bad_request"]);
    assert_eq!(world.plain.seen.connections(), 0);
}

#[test]
fn an_origin_that_does_not_answer_costs_the_connect_timeout() {
    let world = World::with_limits("connect_timeout = \"1s\"");
    let hole = BlackHole::open();
    world
        .upstream
        .set_addresses("a.wild.example", &[&hole.address.to_string()]);
    let begun = Instant::now();
    let answer = exchange(
        world.proxy.listener("proxy"),
        connect("a.wild.example").as_bytes(),
    );
    let took = begun.elapsed();
    assert_eq!(
        status(&answer),
        Some(504),
        "{}",
        String::from_utf8_lossy(&answer)
    );
    assert!(
        took >= Duration::from_secs(1) && took < Duration::from_secs(6),
        "{took:?}"
    );
    let close = one_close(&world);
    assert_eq!(
        (&close["reason"], &close["status"]),
        (&json!("connect_timeout"), &json!(504))
    );
}

#[test]
fn what_is_over_the_budget_is_cut() {
    let world = World::with_limits("max_upload_bytes = \"1000 B\"");
    let mut tunnel = world.tunnel_from("127.0.0.1", "opaque.example");
    send(&mut tunnel, &[b'x'; 2000]);
    assert_eq!(read_to_close(&mut tunnel), b"");
    let close = one_close(&world);
    assert_eq!(
        (&close["reason"], &close["outcome"]),
        (&json!("budget_exceeded"), &json!("budget"))
    );
    assert_eq!(
        (&close["status"], &close["bytes_up"]),
        (&json!(200), &json!(6))
    );
    assert_eq!(world.echo.seen.bytes(), 6);
}

#[test]
fn an_idle_or_old_tunnel_is_cut() {
    for (limits, outcome) in [
        ("idle_timeout = \"1s\"", "idle"),
        ("lifetime = \"1s\"", "lifetime"),
    ] {
        let world = World::with_limits(limits);
        let mut tunnel = world.tunnel_from("127.0.0.1", "opaque.example");
        if outcome == "lifetime" {
            // Something flows all the time, and it ends all the same.
            tunnel
                .set_read_timeout(Some(Duration::from_millis(50)))
                .unwrap();
            let begun = Instant::now();
            while tunnel.write_all(b"x").is_ok() && begun.elapsed() < Duration::from_secs(10) {
                if matches!(tunnel.read(&mut [0; 64]), Ok(0)) {
                    break;
                }
            }
        } else {
            assert_eq!(read_to_close(&mut tunnel), b"");
        }
        let close = one_close(&world);
        assert_eq!(close["outcome"], outcome, "{close}");
    }
}

#[test]
fn a_client_has_no_more_than_its_places() {
    let world = World::with_limits("connections_per_client = 2");
    let one = world.tunnel_from("127.0.0.1", "opaque.example");
    let _two = world.tunnel_from("127.0.0.1", "opaque.example");
    let answer = exchange(
        world.proxy.listener("proxy"),
        connect("opaque.example").as_bytes(),
    );
    assert_eq!(
        status(&answer),
        Some(503),
        "{}",
        String::from_utf8_lossy(&answer)
    );
    let other = world.tunnel_from("127.0.0.2", "opaque.example");
    drop((one, other));
    eventually("the place to be free again", || {
        let answer = exchange(
            world.proxy.listener("proxy"),
            connect("denied.example").as_bytes(),
        );
        (status(&answer) == Some(403)).then_some(())
    });
}

#[test]
fn a_client_that_resets_ends_its_tunnel() {
    let world = World::standard();
    let tunnel = world.tunnel_from("127.0.0.1", "opaque.example");
    socket2::SockRef::from(&tunnel)
        .set_linger(Some(Duration::ZERO))
        .unwrap();
    drop(tunnel);
    assert_eq!(one_close(&world)["outcome"], "client_closed");
    assert_eq!(
        open(&world, &connect("opaque.example"))
            .read_timeout()
            .unwrap(),
        Some(crate::support::PATIENCE)
    );
}
