//! Processes killed outright: a client, an origin, the proxy itself.

use std::{
    io::{BufRead as _, BufReader, Read as _},
    net::{Ipv4Addr, SocketAddr, TcpStream},
    process::{Child, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

use serde_json::Value;
use socket2::{Domain, Socket, Type};

use super::{Over, assert_serves, connect, connect_head, refusal};
use crate::support::{
    PATIENCE,
    client::{read_to_close, read_until, send, status},
    eventually,
    origin::{self, Behaviour, read_request},
    proxy::TestProxy,
    soundness::{Footprint, Metrics, assert_chained, assert_paired, assert_sound},
    unique_loopback,
    world::{POLICY, World},
};

/// Answers with a body that never ends.
fn never_ending() -> Arc<Behaviour> {
    Arc::new(|stream, seen| {
        let Some((head, _)) = read_request(stream) else {
            return;
        };
        seen.note_head(head);
        let mut sent = stream.write_all(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n");
        while sent.is_ok() {
            sent = stream.write_all(&[b'x'; 16 * 1024]);
        }
    })
}

/// Kills `child` in a way that it cannot do anything about, and takes it off the process table.
fn kill(mut child: Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}

/// curl in the middle of a download.
fn downloading_curl(world: &World) -> Child {
    let mut curl = Command::new("curl");
    curl.arg("--silent")
        .args(["--proxy", &world.proxy.listener("proxy").to_string()])
        .arg("http://allowed.example/endless");
    let mut child = curl.stdout(Stdio::piped()).spawn().unwrap();
    let mut body = vec![0; 256 * 1024];
    child
        .stdout
        .as_mut()
        .unwrap()
        .read_exact(&mut body)
        .unwrap();
    child
}

/// openssl in an open tunnel, its handshake done.
fn tunnelling_openssl(world: &World) -> Child {
    let proxy = world.proxy.listener("proxy").to_string();
    let mut openssl = Command::new("openssl");
    openssl
        .args(["s_client", "-quiet", "-proxy", &proxy])
        .args(["-connect", "allowed.example:443"])
        .args(["-servername", "allowed.example"]);
    let mut child = openssl
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let request = b"GET /open HTTP/1.1\r\nHost: allowed.example\r\n\r\n";
    std::io::Write::write_all(child.stdin.as_mut().unwrap(), request).unwrap();
    let mut line = String::new();
    let mut stdout = BufReader::new(child.stdout.as_mut().unwrap());
    stdout.read_line(&mut line).unwrap();
    assert_eq!(line, "HTTP/1.1 200 OK\r\n");
    child
}

#[test]
fn a_killed_client_ends_its_exchanges_and_no_others() {
    let world = World::with_origins(POLICY, origin::http(), never_ending());
    kill(downloading_curl(&world));
    kill(tunnelling_openssl(&world));
    eventually("the first two to be closed", || {
        (world.proxy.events("close").len() == 2).then_some(())
    });
    let before = Footprint::of(&world.proxy);
    let mut other = world.tunnel_from("127.0.0.2", "opaque.example");
    let killed: Vec<Child> = (0..8)
        .flat_map(|_| [downloading_curl(&world), tunnelling_openssl(&world)])
        .collect();
    killed.into_iter().for_each(kill);
    let closes = eventually("the exchanges of the killed to be closed", || {
        let closes = world.proxy.events("close");
        (closes.len() == 18).then_some(closes)
    });
    for close in closes {
        // A tunnel whose client is gone without a reset is first half-closed.
        let outcome = close["outcome"].as_str().unwrap();
        let ended = ["client_closed", "done"].contains(&outcome);
        assert!(ended, "{close}");
    }
    send(&mut other, b"still there\n");
    assert_eq!(read_until(&mut other, b"\n"), b"still there\n");
    drop(other);
    assert_serves(&world);
    assert_sound(&world.proxy, before);
}

/// An origin in a process of its own, which sends for ever and reads nothing.
fn origin_process(address: Ipv4Addr) -> Child {
    let script = "
import socket, sys, threading
listener = socket.create_server((sys.argv[1], 443))
print('ready', flush=True)
def serve(stream):
    while True: stream.sendall(b'x' * 65536)
while True:
    threading.Thread(target=serve, args=listener.accept()[:1], daemon=True).start()
";
    let mut python = Command::new("python3");
    python.args(["-c", script, &address.to_string()]);
    let mut child = python
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let mut stdout = BufReader::new(child.stdout.as_mut().unwrap());
    stdout.read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    child
}

#[test]
fn a_killed_origin_ends_its_tunnels_and_is_refused_from_then_on() {
    let world = World::standard();
    assert_serves(&world);
    let before = Footprint::of(&world.proxy);
    let address = unique_loopback();
    world
        .upstream
        .set_addresses("opaque2.example", &[&address.to_string()]);
    let origin = origin_process(address);
    let mut streams: Vec<_> = (0..8)
        .map(|_| connect(&world.proxy, "opaque2.example").1)
        .collect();
    for stream in &mut streams {
        stream.read_exact(&mut vec![0; 64 * 1024]).unwrap();
    }
    kill(origin);
    for mut stream in streams {
        read_to_close(&mut stream);
    }
    let of_killed = |close: &Value| {
        let upstream = format!("{address}:443");
        close["upstream"] == *upstream
    };
    let closes = eventually("the tunnels to be closed", || {
        let closes = world.proxy.events("close");
        let closes: Vec<Value> = closes.into_iter().filter(of_killed).collect();
        (closes.len() == 8).then_some(closes)
    });
    // Killed, it ends what it sends, or resets what it had not read.
    for close in closes {
        let outcome = close["outcome"].as_str().unwrap();
        let ended = ["upstream_closed", "done", "client_closed"].contains(&outcome);
        assert!(ended, "{close}");
    }
    let answer = refusal(&world.proxy, "opaque2.example");
    assert_eq!(status(&answer), Some(502));
    let last = world.proxy.events("close").pop().unwrap();
    assert_eq!(last["reason"], "connect_failed");
    assert_serves(&world);
    assert_sound(&world.proxy, before);
}

/// Clients that open tunnels, use them and close them, one after another, until told to stop.
fn churn(proxy: SocketAddr, source: Ipv4Addr, over: &AtomicBool) {
    let mut held = Vec::new();
    while !over.load(Ordering::Relaxed) {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        socket.bind(&SocketAddr::from((source, 0)).into()).unwrap();
        if socket.connect(&proxy.into()).is_err() {
            // It is killed, and the clients are about to be told.
            continue;
        }
        let mut stream = TcpStream::from(socket);
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        send(&mut stream, connect_head("opaque.example").as_bytes());
        send(&mut stream, b"hello\n");
        // The proxy may be killed at any moment; then there is no answer, or half of one.
        if stream.read(&mut [0; 64]).is_ok() && held.len() < 16 {
            held.push(stream);
        }
    }
    for mut stream in held {
        read_to_close(&mut stream);
    }
}

#[test]
fn what_a_killed_proxy_left_open_is_closed_whatever_it_was_doing() {
    let mut world = World::with_limits("requests_per_second = 100000");
    for round in 1..=4_usize {
        let over = AtomicBool::new(false);
        let at = world.proxy.listener("proxy");
        let begun = world.proxy.events("decision").len();
        let (crashed, opened) = thread::scope(|scope| {
            let _over = Over(&over);
            for client in 1..=3 {
                let (over, source) = (&over, Ipv4Addr::new(127, 0, 0, client));
                scope.spawn(move || churn(at, source, over));
            }
            eventually("enough to be going on", || {
                let opened = world.proxy.events("decision").len();
                (opened >= begun + 60 * round).then_some(())
            });
            // Killed first, so that the clients do not wait for one that is told to end.
            world.proxy.signal("KILL");
            over.store(true, Ordering::Relaxed);
            world.proxy.wait();
            let lines = world.proxy.audit();
            let closed = lines.iter().filter(|line| line["event"] == "close").count();
            let allowed = |line: &&Value| line["event"] == "decision";
            (
                lines.iter().filter(allowed).count() - closed,
                lines.iter().filter(allowed).count(),
            )
        });
        // Nothing reached the origin without a record.
        assert!(world.echo.seen.connections() <= opened);
        let World { proxy, .. } = world;
        let proxy = TestProxy::in_folder(proxy.crash());
        let closes = proxy.events("close");
        let told = closes.iter().rev();
        let told = told.take_while(|close| close["outcome"] == "crash").count();
        assert_eq!(told, crashed);
        assert_ne!(crashed, 0, "nothing was open");
        world = World { proxy, ..world };
        assert_paired(&world.proxy.audit());
        assert_chained(&world.proxy);
        let metrics = Metrics::of(&world.proxy);
        let counted = metrics.sum("eclusa_exchanges_closed_total", "outcome=\"crash\"");
        assert_eq!(counted, u64::try_from(crashed).unwrap());
    }
    let before = Footprint::of(&world.proxy);
    assert_serves(&world);
    assert_sound(&world.proxy, before);
}
