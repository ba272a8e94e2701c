use std::{
    io::{Read as _, Write as _},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::spawn_blocking,
};

use super::*;

/// Both ends of a connection.
#[expect(clippy::disallowed_methods, reason = "a test is the peer")]
async fn connection() -> (TcpStream, Peer) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (outside, inside) = tokio::join!(TcpStream::connect(address), listener.accept());
    (outside.unwrap(), Peer::new(inside.unwrap().0))
}

/// A relay between a client and an origin, with a budget of bytes up.
struct Relayed {
    client: TcpStream,
    origin: TcpStream,
    inside: (Peer, Peer),
    up: Arc<AtomicU64>,
    down: AtomicU64,
    budget: u64,
}

impl Relayed {
    async fn new() -> Self {
        let ((client, from_client), (origin, from_origin)) =
            tokio::join!(connection(), connection());
        Self {
            client,
            origin,
            inside: (from_client, from_origin),
            up: Arc::default(),
            down: AtomicU64::new(0),
            budget: u64::MAX,
        }
    }

    /// Relays while `peers` happens at the two outer ends; gives the outcome and both counts.
    async fn during(self, peers: impl AsyncFnOnce(TcpStream, TcpStream)) -> (Outcome, u64, u64) {
        let Self {
            client,
            origin,
            inside,
            up,
            down,
            budget,
        } = self;
        let relaying = async {
            let (mut client_end, mut origin_end) = inside;
            let activity = Activity::new();
            let count_up = |bytes| {
                let total = up.fetch_add(bytes, Ordering::Relaxed) + bytes;
                (total <= budget).then_some(()).ok_or(BudgetExceeded)
            };
            let count_down = |bytes| {
                down.fetch_add(bytes, Ordering::Relaxed);
            };
            let ends = (&mut client_end, &mut origin_end);
            copy(ends, &activity, count_up, count_down).await
        };
        let relaying = tokio::time::timeout(Duration::from_secs(20), relaying);
        let (outcome, ()) = tokio::join!(relaying, peers(client, origin));
        let up = up.load(Ordering::Relaxed);
        (outcome.unwrap(), up, down.into_inner())
    }
}

#[tokio::test]
async fn each_end_is_passed_on_and_the_other_direction_goes_on() {
    for round in 0..1000 {
        let client_first = round % 2 == 0;
        let peers = async |client: TcpStream, origin: TcpStream| {
            let (mut first, mut second) = if client_first {
                (client, origin)
            } else {
                (origin, client)
            };
            first.write_all(b"all of it").await.unwrap();
            first.shutdown().await.unwrap();
            let mut got = Vec::new();
            second.read_to_end(&mut got).await.unwrap();
            assert_eq!(got, b"all of it");
            second.write_all(b"and the answer").await.unwrap();
            second.shutdown().await.unwrap();
            got.clear();
            first.read_to_end(&mut got).await.unwrap();
            assert_eq!(got, b"and the answer");
        };
        let expected = if client_first { (9, 14) } else { (14, 9) };
        let (outcome, up, down) = Relayed::new().await.during(peers).await;
        assert_eq!((outcome, (up, down)), (Outcome::Done, expected), "{round}");
    }
}

/// Every byte tells its place, so that one which is lost, doubled or moved is seen.
fn bulk(length: usize, seed: usize) -> Vec<u8> {
    let byte = |at: usize| u8::try_from((at * 31 + (at >> 8) * 7 + seed) % 251).unwrap();
    (0..length).map(byte).collect()
}

#[tokio::test]
async fn bulk_arrives_as_it_was_sent_both_ways_at_once() {
    const LENGTH: usize = 24 << 20;
    let peers = async |client: TcpStream, origin: TcpStream| {
        let (mut client_read, mut client_write) = client.into_split();
        let (mut origin_read, mut origin_write) = origin.into_split();
        let send = async |to: &mut tokio::net::tcp::OwnedWriteHalf, seed| {
            let bytes = bulk(LENGTH, seed);
            let (large, small) = bytes.split_at(LENGTH - 5000);
            to.write_all(large).await.unwrap();
            // And a few small ones in the end, which are copied again.
            for piece in small.chunks(100) {
                to.write_all(piece).await.unwrap();
                yield_now().await;
            }
            to.shutdown().await.unwrap();
        };
        let receive = async |from: &mut tokio::net::tcp::OwnedReadHalf, seed| {
            let mut got = Vec::new();
            from.read_to_end(&mut got).await.unwrap();
            assert!(got == bulk(LENGTH, seed), "{} bytes", got.len());
        };
        tokio::join!(
            send(&mut client_write, 1),
            receive(&mut origin_read, 1),
            send(&mut origin_write, 2),
            receive(&mut client_read, 2)
        );
    };
    let (outcome, up, down) = Relayed::new().await.during(peers).await;
    let length = u64::try_from(LENGTH).unwrap();
    assert_eq!((outcome, up, down), (Outcome::Done, length, length));
}

#[tokio::test]
async fn a_budget_holds_for_bulk_too() {
    let mut relayed = Relayed::new().await;
    relayed.budget = 4 << 20;
    let peers = async |mut client: TcpStream, mut origin: TcpStream| {
        // The kernel may take all of it before it hears of the end.
        let flood = async { client.write_all(&bulk(16 << 20, 0)).await.ok() };
        let count = async {
            let mut got = Vec::new();
            origin.read_to_end(&mut got).await.ok();
            assert!(got.len() <= 4 << 20, "{}", got.len());
        };
        tokio::join!(flood, count);
    };
    let (outcome, up, _) = relayed.during(peers).await;
    assert_eq!(outcome, Outcome::Budget);
    assert!(up > 4 << 20, "{up}");
}

#[tokio::test]
async fn what_was_received_before_goes_first() {
    let mut relayed = Relayed::new().await;
    relayed.inside.0.received.put_back(b"hello, ".to_vec());
    relayed.inside.1.received.put_back(b"good ".to_vec());
    let peers = async |mut client: TcpStream, mut origin: TcpStream| {
        client.write_all(b"origin").await.unwrap();
        origin.write_all(b"day").await.unwrap();
        client.shutdown().await.unwrap();
        origin.shutdown().await.unwrap();
        let (mut up, mut down) = (String::new(), String::new());
        origin.read_to_string(&mut up).await.unwrap();
        client.read_to_string(&mut down).await.unwrap();
        assert_eq!((&*up, &*down), ("hello, origin", "good day"));
    };
    assert_eq!(relayed.during(peers).await, (Outcome::Done, 13, 8));
}

#[tokio::test]
async fn a_bulk_transfer_arrives_whole_both_ways() {
    const SIZE: usize = 20 * 1024 * 1024;
    let expected = |at: usize, seed: u8| {
        at.to_le_bytes()[..4]
            .iter()
            .fold(seed, |a, b| a.wrapping_mul(31) ^ b)
    };
    let peers = async |client: TcpStream, origin: TcpStream| {
        let (client, origin) = (client.into_split(), origin.into_split());
        let send = async |mut half: tokio::net::tcp::OwnedWriteHalf, seed: u8| {
            let bytes: Vec<u8> = (0..SIZE).map(|at| expected(at, seed)).collect();
            half.write_all(&bytes).await.unwrap();
            half.shutdown().await.unwrap();
        };
        let receive = async |mut half: tokio::net::tcp::OwnedReadHalf, seed: u8| {
            let mut bytes = Vec::new();
            half.read_to_end(&mut bytes).await.unwrap();
            assert_eq!(bytes.len(), SIZE);
            let wrong = (0..SIZE).find(|at| bytes[*at] != expected(*at, seed));
            assert_eq!(wrong, None);
        };
        tokio::join!(
            send(client.1, 1),
            receive(origin.0, 1),
            send(origin.1, 2),
            receive(client.0, 2)
        );
    };
    let size = u64::try_from(SIZE).unwrap();
    let relayed = Relayed::new().await.during(peers).await;
    assert_eq!(relayed, (Outcome::Done, size, size));
}

#[tokio::test]
async fn a_reset_on_either_side_ends_the_relay() {
    for (reset, expected) in [
        ("client", Outcome::ClientClosed),
        ("origin", Outcome::UpstreamClosed),
    ] {
        let peers = async |client: TcpStream, origin: TcpStream| {
            let (leaving, mut staying) = if reset == "client" {
                (client, origin)
            } else {
                (origin, client)
            };
            leaving.set_zero_linger().unwrap();
            drop(leaving);
            assert_eq!(staying.read(&mut [0; 8]).await.unwrap_or(0), 0, "{reset}");
        };
        let (outcome, _, _) = Relayed::new().await.during(peers).await;
        assert_eq!(outcome, expected, "{reset}");
    }
}

#[tokio::test]
async fn nothing_of_what_is_over_the_budget_is_sent() {
    let mut relayed = Relayed::new().await;
    relayed.budget = 10;
    let peers = async |mut client: TcpStream, mut origin: TcpStream| {
        client.write_all(b"0123456789").await.unwrap();
        let mut got = [0; 10];
        origin.read_exact(&mut got).await.unwrap();
        client.write_all(b"x").await.unwrap();
        assert_eq!(origin.read(&mut [0]).await.unwrap_or(0), 0);
    };
    let (outcome, _, _) = relayed.during(peers).await;
    assert_eq!(outcome, Outcome::Budget);
}

#[tokio::test]
async fn a_side_that_does_not_read_costs_one_buffer_at_most() {
    let mut relayed = Relayed::new().await;
    let activity = Activity::new();
    let (up, down) = (AtomicU64::new(0), AtomicU64::new(0));
    let relaying = copy(
        (&mut relayed.inside.0, &mut relayed.inside.1),
        &activity,
        |bytes| {
            up.fetch_add(bytes, Ordering::Relaxed);
            Ok(())
        },
        |bytes| {
            down.fetch_add(bytes, Ordering::Relaxed);
        },
    );
    let flood = async {
        let chunk = vec![0; 64 * 1024];
        let stalled = Duration::from_millis(300);
        let origin = &mut relayed.origin;
        while tokio::time::timeout(stalled, origin.write_all(&chunk))
            .await
            .is_ok()
        {}
    };
    tokio::select! {
        outcome = relaying => panic!("ended: {outcome:?}"),
        () = flood => {}
    }
    let held = relayed.inside.1.received.unread().len();
    // What was being moved lies in a pipe, and none of it here.
    assert!(held <= crate::egress::peer::BUFFER, "{held}");
    assert_eq!(up.into_inner(), 0);
    assert!(down.into_inner() > 0);
}

/// A blocking stream for a thread of the test's own.
fn blocking(stream: TcpStream) -> std::net::TcpStream {
    let stream = stream.into_std().unwrap();
    stream.set_nonblocking(false).unwrap();
    stream
}

#[tokio::test]
async fn bulk_is_moved_in_turns() {
    const LENGTH: u64 = 256 << 20;
    let relayed = Relayed::new().await;
    let moved = Arc::clone(&relayed.up);
    let peers = async |client: TcpStream, origin: TcpStream| {
        let (mut client, mut origin) = (blocking(client), blocking(origin));
        let sending = spawn_blocking(move || {
            let piece = vec![b'x'; 1 << 20];
            for _ in 0..LENGTH >> 20 {
                client.write_all(&piece).unwrap();
            }
        });
        let receiving = spawn_blocking(move || {
            let mut buffer = vec![0; 1 << 20];
            while origin.read(&mut buffer).unwrap() > 0 {}
        });
        let (mut seen, mut most) = (0, 0);
        while seen < LENGTH {
            yield_now().await;
            let now = moved.load(Ordering::Relaxed);
            most = most.max(now - seen);
            seen = now;
        }
        sending.await.unwrap();
        receiving.await.unwrap();
        let bound = 4 * u64::try_from(TURN).unwrap();
        assert!(most <= bound, "{most} bytes in one turn");
    };
    let (outcome, up, _) = relayed.during(peers).await;
    assert_eq!((outcome, up), (Outcome::Done, LENGTH));
}
