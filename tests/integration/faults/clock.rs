//! A wall clock that jumps: what takes time goes by another one, and the order of the log by none.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::{Value, json};

use super::{assert_serves, refusal};
use crate::support::{
    client::{read_to_close, read_until, send, status},
    eventually, origin,
    proxy::{TestProxy, standard_config},
    soundness::{Footprint, assert_chained, assert_paired, assert_sound},
    world::{POLICY, World},
};

/// The clock of one process, which the test sets: libfaketime gives it in the place of the kernel's
/// wall clock, and leaves the monotonic one alone, as settimeofday(2) does.
struct Clock {
    library: PathBuf,
    setting: PathBuf,
}

impl Clock {
    fn new(folder: &Path) -> Self {
        let libraries = fs::read_dir("/usr/lib").unwrap();
        let mut found = libraries.filter_map(|folder| {
            let library = folder.unwrap().path().join("faketime/libfaketime.so.1");
            library.exists().then_some(library)
        });
        let clock = Self {
            library: found.next().expect("libfaketime: run scripts/deps test"),
            setting: folder.join("clock"),
        };
        clock.set("+0");
        clock
    }

    /// Sets it that far from the truth.
    fn set(&self, offset: &str) {
        // Put in place at once: the process may look at any moment.
        let new = self.setting.with_added_extension("new");
        fs::write(&new, format!("{offset}\n")).unwrap();
        fs::rename(new, &self.setting).unwrap();
    }

    /// The binary with this clock. The library leaves shared memory behind when its process is
    /// killed, so that it is given some that goes with it.
    fn command(&self) -> Command {
        let script = "mount -t tmpfs tmpfs /dev/shm && exec env LD_PRELOAD=\"$LIBRARY\" \"$@\"";
        let mut unshare = Command::new("unshare");
        unshare
            .args(["--mount", "sh", "-c", script, "sh"])
            .arg(env!("CARGO_BIN_EXE_eclusa"))
            .env("LIBRARY", &self.library)
            .env("FAKETIME_TIMESTAMP_FILE", &self.setting)
            .env("FAKETIME_NO_CACHE", "1")
            .env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
        unshare
    }
}

/// The year and month of the last line.
fn month(proxy: &TestProxy) -> String {
    let last = proxy.audit().pop().unwrap();
    last["ts"].as_str().unwrap().chars().take(7).collect()
}

fn register(world: &World, run: &str, source: &str, expires_in: &str) {
    let body = json!({"sources": [source], "profile": "default", "expires_in": expires_in});
    let path = format!("/v1/runs/{run}");
    let output = world.proxy.admin("PUT", &path, Some(&body.to_string()));
    assert!(output.status.success(), "{output:?}");
}

fn assert_ids_grow(lines: &[Value]) {
    let ids: Vec<&str> = lines
        .iter()
        .filter(|line| line["event"] != "close")
        .map(|line| line["id"].as_str().unwrap())
        .collect();
    assert!(ids.is_sorted(), "{ids:#?}");
}

#[test]
fn a_clock_that_jumps_changes_no_order_no_expiry_and_no_rate() {
    let setting = tempfile::tempdir().unwrap();
    let clock = Clock::new(setting.path());
    let world = World::around((origin::http(), origin::http()), |upstream| {
        let folder = tempfile::tempdir().unwrap();
        let config = standard_config(folder.path(), upstream, POLICY);
        fs::write(folder.path().join("eclusa.toml"), config).unwrap();
        TestProxy::launched(clock.command(), folder)
    });
    assert_serves(&world);
    let before = Footprint::of(&world.proxy);
    let today = month(&world.proxy);
    register(&world, "long", "127.0.7.7", "1h");
    let mut tunnel = world.tunnel_from("127.0.7.7", "opaque.example");
    let mut last = today;
    for (offset, comes_later) in [("+400d", true), ("-4000d", false), ("+9000d", true)] {
        clock.set(offset);
        let answer = refusal(&world.proxy, "denied.example");
        assert_eq!(status(&answer), Some(403));
        let now = month(&world.proxy);
        assert_eq!(now > last, comes_later, "{offset}: {last} {now}");
        last = now;
        // Neither its hour nor its idle minutes are over, and its rate is what it was.
        send(&mut tunnel, b"still there\n");
        assert_eq!(read_until(&mut tunnel, b"\n"), b"still there\n");
        drop(world.tunnel_from("127.0.7.7", "opaque.example"));
        // And its three seconds are.
        let (run, source) = (
            format!("short{offset}").replace(['+', '-'], "_"),
            "127.0.7.8",
        );
        register(&world, &run, source, "3s");
        let mut short = world.tunnel_from(source, "opaque.example");
        clock.set("-20000d");
        assert_eq!(read_to_close(&mut short), b"");
        eventually("the expiry", || {
            let expired = world.proxy.events("run_expired");
            expired.into_iter().find(|line| line["run"] == *run)
        });
        let removed = world
            .proxy
            .admin("DELETE", &format!("/v1/runs/{run}"), None);
        assert!(removed.status.success(), "{removed:?}");
    }
    drop(tunnel);
    assert_sound(&world.proxy, before);
    for close in world.proxy.events("close") {
        assert!(close["duration_ms"].as_u64() < Some(60_000), "{close}");
    }

    // Killed in the far future and started in the past, it closes what was open, in order.
    clock.set("+9000d");
    let open = world.tunnel_from("127.0.0.1", "opaque.example");
    let World { proxy, .. } = world;
    let folder = proxy.crash();
    drop(open);
    clock.set("-4000d");
    let proxy = TestProxy::launched(clock.command(), folder);
    let lines = proxy.audit();
    let crashed = lines.iter().filter(|line| line["outcome"] == "crash");
    assert_eq!(crashed.count(), 1);
    let started = lines.iter().rposition(|line| line["event"] == "start");
    assert_ids_grow(&lines[..started.unwrap()]);
    assert_paired(&lines);
    assert_chained(&proxy);
}
