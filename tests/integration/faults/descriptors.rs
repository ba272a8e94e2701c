//! A process that may open few files: what cannot be had is refused in a readable way, nobody uses
//! up what is another's, and nothing is lost when there are none at all.

use std::{
    collections::BTreeSet,
    fs,
    io::Read as _,
    net::{SocketAddr, TcpStream},
    process::Command,
};

use hickory_net::proto::op::ResponseCode;
use rustix::process::{Pid, Resource, Rlimit, prlimit};
use serde_json::json;

use super::{assert_serves, connect, connect_head, refusal};
use crate::support::{
    PATIENCE,
    client::{dial, dial_from, problem, read_to_close, read_until, send, status},
    dns_query, eventually, origin,
    proxy::{TestProxy, standard_config},
    soundness::{Footprint, Metrics, assert_sound, health},
    world::{POLICY, World},
};

/// The client connections for which `most` leaves room.
const ROOM: usize = 64;

/// Files that the proxy may open: 128 beside those connections, and 7 for each core.
fn most() -> u64 {
    let cores = std::thread::available_parallelism().unwrap().get();
    u64::try_from(2 * ROOM + 128 + 7 * cores).unwrap()
}

/// The fixture in such a process.
fn world(limits: &str) -> World {
    World::around((origin::http(), origin::http()), |upstream| {
        let folder = tempfile::tempdir().unwrap();
        let policy = format!("{POLICY}\n[limits]\nconnections = 100\n{limits}\n");
        let config = standard_config(folder.path(), upstream, &policy);
        fs::write(folder.path().join("eclusa.toml"), config).unwrap();
        let mut limited = Command::new("prlimit");
        limited
            .arg(format!("--nofile={0}:{0}", most()))
            .arg(env!("CARGO_BIN_EXE_eclusa"));
        TestProxy::launched(limited, folder)
    })
}

fn tunnels(world: &World, source: &str, count: usize) -> Vec<TcpStream> {
    (0..count)
        .map(|_| world.tunnel_from(source, "opaque.example"))
        .collect()
}

/// Waits for the end of a connection that carries queries and is turned away.
fn is_turned_away(server: SocketAddr) -> bool {
    let mut stream = dial(server);
    stream.read(&mut [0]).is_ok_and(|length| length == 0)
}

#[test]
fn a_process_that_may_open_few_files_refuses_what_does_not_fit_and_recovers() {
    let world = world("");
    let warned = world.proxy.log();
    let warned = warned
        .iter()
        .find(|entry| entry["message"] == "open files bound the client connections")
        .unwrap();
    assert_eq!(warned["fitting"], json!(ROOM));
    assert_serves(&world);
    let before = Footprint::of(&world.proxy);
    let mut open = tunnels(&world, "127.0.0.1", ROOM);
    let answer = refusal(&world.proxy, "opaque.example");
    assert_eq!(status(&answer), Some(503));
    assert_eq!(problem(&answer)["reason"], "over_capacity");
    assert!(is_turned_away(world.proxy.listener("dns")));
    // What needs no connection of a client's goes on.
    let answer = dns_query(world.proxy.listener("dns"), "denied.example.");
    assert_eq!(answer.metadata.response_code, ResponseCode::NXDomain);
    let reloaded = world.proxy.admin("POST", "/v1/reload", None);
    assert!(reloaded.status.success(), "{reloaded:?}");
    assert_eq!(health(&world.proxy)["status"], "ok");
    let metrics = Metrics::of(&world.proxy);
    assert_eq!(
        metrics.value("eclusa_connections_open"),
        u64::try_from(ROOM).unwrap()
    );
    for stream in &mut open {
        send(stream, b"still there\n");
        assert_eq!(read_until(stream, b"\n"), b"still there\n");
    }
    drop(open);
    eventually("room again", || {
        (Metrics::of(&world.proxy).value("eclusa_connections_open") == 0).then_some(())
    });
    assert_serves(&world);
    assert_sound(&world.proxy, before);
}

#[test]
fn one_client_cannot_use_up_the_descriptors_of_another() {
    let world = world("connections_per_client = 20");
    assert_serves(&world);
    let before = Footprint::of(&world.proxy);
    // As many of every kind as it is let have.
    let greedy = "127.0.0.66";
    let held = tunnels(&world, greedy, 10);
    let dns = world.proxy.listener("dns");
    let queries: Vec<TcpStream> = (0..100).map(|_| dial_from(greedy, dns)).collect();
    let silent: Vec<TcpStream> = ["proxy", "https", "http"]
        .into_iter()
        .flat_map(|listener| [world.proxy.listener(listener); 50])
        .map(|at| dial_from(greedy, at))
        .collect();
    eventually("its places to be used up", || {
        (Metrics::of(&world.proxy).value("eclusa_connections_open") == 20).then_some(())
    });
    let begun = tokio::time::Instant::now();
    drop(tunnels(&world, "127.0.0.1", 20));
    let took = begun.elapsed();
    assert!(took < PATIENCE, "{took:?}");
    drop((held, queries, silent));
    assert_sound(&world.proxy, before);
}

/// The descriptors of the running proxy.
fn taken(proxy: &TestProxy) -> BTreeSet<u64> {
    let number = |entry: fs::DirEntry| entry.file_name().to_str().unwrap().parse().unwrap();
    fs::read_dir(format!("/proc/{}/fd", proxy.pid()))
        .unwrap()
        .map(|entry| number(entry.unwrap()))
        .collect()
}

/// Leaves the running proxy so many free descriptors, if it opens and closes none meanwhile.
fn leave_free(proxy: &TestProxy, count: usize) {
    let taken = taken(proxy);
    // The kernel gives the lowest number that is free, and none from the limit on.
    let first_forbidden = (0..most())
        .filter(|number| !taken.contains(number))
        .nth(count);
    limit(proxy, first_forbidden.unwrap());
}

/// Connections of clients that say nothing, so many that no number below `highest` is free.
fn fill_gaps(proxy: &TestProxy, highest: u64) -> Vec<TcpStream> {
    let mut silent = Vec::new();
    eventually("no free descriptor below the tunnel's", || {
        let taken = taken(proxy);
        let is_full = (0..highest).all(|number| taken.contains(&number));
        if !is_full {
            silent.push(dial(proxy.listener("proxy")));
        }
        is_full.then_some(())
    });
    silent
}

fn limit(proxy: &TestProxy, files: u64) {
    let pid = Pid::from_raw(i32::try_from(proxy.pid()).unwrap());
    let limit = Rlimit {
        current: Some(files),
        maximum: Some(most()),
    };
    prlimit(pid, Resource::Nofile, limit).unwrap();
}

#[test]
fn without_a_descriptor_nothing_is_lost_and_whoever_waits_is_served_later() {
    let world = world("");
    assert_serves(&world);
    let before = Footprint::of(&world.proxy);
    let others = taken(&world.proxy);
    let mut tunnel = world.tunnel_from("127.0.0.1", "opaque.example");
    let tunnels = taken(&world.proxy);
    let highest = tunnels.difference(&others).last().copied().unwrap_or(0);
    // One for a client, and none for its way on: its name is known already.
    let answer = eventually("the lack of a descriptor", || {
        leave_free(&world.proxy, 1);
        let (mut answer, mut stream) = connect(&world.proxy, "opaque.example");
        // A descriptor that was about to be closed when it was counted makes a second one.
        (status(&answer) != Some(200)).then(|| {
            answer.extend(read_to_close(&mut stream));
            answer
        })
    });
    assert_eq!(status(&answer), Some(503));
    assert_eq!(problem(&answer)["reason"], "over_capacity");

    // Those of the tunnel are below the limit then.
    limit(&world.proxy, most());
    let silent = fill_gaps(&world.proxy, highest);
    leave_free(&world.proxy, 0);
    let mut waiting = dial(world.proxy.listener("proxy"));
    send(&mut waiting, connect_head("denied.example").as_bytes());
    eventually("the proxy to say that it cannot accept", || {
        let log = world.proxy.log();
        let said = log
            .iter()
            .any(|entry| entry["message"] == "cannot accept connections for now");
        said.then_some(())
    });
    send(&mut tunnel, b"still there\n");
    assert_eq!(read_until(&mut tunnel, b"\n"), b"still there\n");
    let answer = dns_query(world.proxy.listener("dns"), "denied.example.");
    assert_eq!(answer.metadata.response_code, ResponseCode::NXDomain);
    // Its end makes room.
    drop(tunnel);
    let answer = read_to_close(&mut waiting);
    assert_eq!(status(&answer), Some(403));
    drop(silent);
    limit(&world.proxy, most());
    assert_serves(&world);
    assert_sound(&world.proxy, before);
}
