//! A full disk under the audit log: what cannot be recorded is refused, what was let through before
//! is still closed, and a disk with room again is enough.

use std::{
    fs,
    net::TcpStream,
    path::{Path, PathBuf},
    process::Command,
};

use hickory_net::proto::op::ResponseCode;
use serde_json::Value;

use super::assert_serves;
use crate::support::{
    client::{exchange, problem, read_until, send, status},
    dns_query, eventually, origin,
    proxy::{TestProxy, command, standard_config},
    soundness::{Footprint, Metrics, assert_paired, assert_sound, health},
    world::{POLICY, World},
};

/// A small file system of its own, unmounted with the value.
struct SmallDisk(PathBuf);

impl SmallDisk {
    fn mount(at: &Path) -> Self {
        run("mount", &["-t", "tmpfs", "-o", "size=256k", "tmpfs"], at);
        Self(at.to_owned())
    }

    /// Writes until nothing more fits.
    fn fill(&self) {
        drop(fs::write(self.ballast(), vec![0; 1024 * 1024]));
    }

    fn free(&self) {
        fs::remove_file(self.ballast()).unwrap();
    }

    fn ballast(&self) -> PathBuf {
        self.0.join("ballast")
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        run("umount", &["-l"], &self.0);
    }
}

fn run(program: &str, args: &[&str], path: &Path) {
    let status = Command::new(program).args(args).arg(path).status().unwrap();
    assert!(status.success(), "{program} {}", path.display());
}

/// The fixture on a small disk, which goes before it.
fn world_on_small_disk() -> (World, SmallDisk) {
    let mut disk = None;
    let world = World::around((origin::http(), origin::http()), |upstream| {
        TestProxy::with_config(|folder| {
            disk = Some(SmallDisk::mount(folder));
            standard_config(folder, upstream, POLICY)
        })
    });
    (world, disk.unwrap())
}

/// Ends by itself, whether it is let through or not.
const GET: &[u8] = b"GET http://allowed.example/ HTTP/1.1\r\nHost: allowed.example\r\n\
                     Connection: close\r\n\r\n";

/// Fills the disk until not even a short line fits, and gives the last refusal.
fn fill(world: &World, disk: &SmallDisk) -> Vec<u8> {
    disk.fill();
    let log = world.proxy.folder().join("audit.jsonl");
    let length = || fs::metadata(&log).unwrap().len();
    eventually("the disk to be full", || {
        let before = length();
        let answer = exchange(world.proxy.listener("proxy"), GET);
        let is_full = status(&answer) == Some(503) && length() == before;
        is_full.then_some(answer)
    })
}

fn closes(proxy: &TestProxy) -> usize {
    proxy.events("close").len()
}

#[test]
fn a_full_disk_refuses_traffic_and_holds_every_close_until_there_is_room() {
    let (world, disk) = world_on_small_disk();
    assert_serves(&world);
    let before = Footprint::of(&world.proxy);
    let mut open: Vec<TcpStream> = (0..5)
        .map(|_| world.tunnel_from("127.0.0.1", "opaque.example"))
        .collect();

    let refused = fill(&world, &disk);
    assert_eq!(problem(&refused)["reason"], "audit_unavailable");
    assert_eq!(health(&world.proxy)["status"], "audit_unavailable");
    let answer = dns_query(world.proxy.listener("dns"), "x.example.");
    assert_eq!(answer.metadata.response_code, ResponseCode::ServFail);
    // What is recorded already goes on.
    send(&mut open[0], b"still there\n");
    assert_eq!(read_until(&mut open[0], b"\n"), b"still there\n");
    let written = closes(&world.proxy);
    open.clear();
    eventually("the closes to wait", || {
        let metrics = Metrics::of(&world.proxy);
        (metrics.value("eclusa_audit_backlog") >= 5).then_some(())
    });
    let metrics = Metrics::of(&world.proxy);
    assert_eq!(metrics.value("eclusa_exchanges_open"), 0);
    assert_eq!(metrics.value("eclusa_audit_writable"), 0);
    assert_eq!(metrics.value("eclusa_healthy"), 0);
    assert_eq!(closes(&world.proxy), written);

    // Without any traffic, they are written once there is room.
    disk.free();
    let gap = world
        .proxy
        .await_event("the end of the gap", |line| line["event"] == "gap");
    assert!(gap["count"].as_u64() >= Some(2), "{gap}");
    assert_eq!(health(&world.proxy)["status"], "ok");
    let lines = world.proxy.audit();
    assert_paired(&lines);
    let times: Vec<&str> = lines
        .iter()
        .map(|line| line["ts"].as_str().unwrap())
        .collect();
    assert!(times.is_sorted(), "{times:#?}");
    // Nothing reached an origin that is not in the log.
    let echo = world.echo.address.to_string();
    let connected = lines.iter().filter(|line| line["upstream"] == echo);
    assert_eq!(connected.count(), world.echo.seen.connections());
    assert_serves(&world);
    before.await_return(&world.proxy);
}

#[test]
fn a_proxy_that_is_killed_on_a_full_disk_starts_once_there_is_room_and_closes_all() {
    let (world, disk) = world_on_small_disk();
    let open: Vec<TcpStream> = (0..5)
        .map(|_| world.tunnel_from("127.0.0.1", "opaque.example"))
        .collect();
    fill(&world, &disk);
    drop(open);
    let World { proxy, .. } = world;
    let folder = proxy.crash();
    let refused = command()
        .args(["serve", "-c"])
        .arg(folder.path().join("eclusa.toml"))
        .output()
        .unwrap();
    assert_eq!(refused.status.code(), Some(70), "{refused:?}");
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(said.contains("audit log"), "{said}");
    assert!(said.contains("No space left on device"), "{said}");

    disk.free();
    let proxy = TestProxy::in_folder(folder);
    let closes: Vec<Value> = proxy.events("close");
    let crashed = closes.iter().filter(|close| close["outcome"] == "crash");
    assert_eq!(crashed.count(), 5, "{closes:#?}");
    let before = Footprint::of(&proxy);
    let world = World { proxy, ..world };
    assert_serves(&world);
    assert_sound(&world.proxy, before);
}
