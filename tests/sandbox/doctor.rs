//! `eclusa doctor` on a real engine: that it finds what holds, and what does not.

use std::{
    collections::BTreeMap,
    process::{Command, Stdio},
    sync::PoisonError,
    time::{Duration, SystemTime},
};

use eclusa::doctor::{
    Ground, Observation, Probe,
    judge::{Finding, Verdict, judge},
    probe::Orders,
};
use serde_json::{Value, json};

use crate::{
    docker::{AGENT_IMAGE, PROXY, attempt, docker},
    run::{Launcher, binary, engine_socket},
};

/// What it exits with and prints. Other runs come and go meanwhile.
fn doctor(arguments: &[&str]) -> (Option<i32>, Value, Duration) {
    let _proxy = PROXY.read().unwrap_or_else(PoisonError::into_inner);
    let launcher = Launcher::new();
    let begun = SystemTime::now();
    let all = [&["doctor", "--json"], arguments].concat();
    let output = launcher.bare(&all).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    let report = serde_json::from_slice(&output.stdout).map_err(|error| format!("{error}: {said}"));
    let state = std::fs::read_dir(launcher.path("state/eclusa")).unwrap();
    let left = state.filter(|entry| {
        let name = entry.as_ref().unwrap().file_name();
        name.to_string_lossy().starts_with("doctor-")
    });
    assert_eq!(left.count(), 0, "a folder was left");
    (
        output.status.code(),
        report.unwrap(),
        begun.elapsed().unwrap(),
    )
}

fn verdicts(report: &Value) -> BTreeMap<String, String> {
    let probes = report["probes"].as_array().unwrap();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let verdict = |probe: &Value| (text(&probe["probe"]), text(&probe["verdict"]));
    probes.iter().map(verdict).collect()
}

fn names(probes: &[Probe]) -> Vec<String> {
    let mut names: Vec<String> = probes.iter().map(ToString::to_string).collect();
    names.sort_unstable();
    names
}

#[test]
#[ignore = "needs Docker"]
fn every_boundary_holds_on_this_host() {
    let (code, report, took) = doctor(&[]);
    let not_held: Vec<&Value> = report["probes"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|probe| probe["verdict"] != "held")
        .collect();
    assert!(not_held.is_empty(), "{not_held:#?}");
    assert_eq!(code, Some(0));
    assert_eq!(report["held"], json!(true));
    assert_eq!(report["ground"], "private");
    let probed: Vec<String> = verdicts(&report).into_keys().collect();
    assert_eq!(probed, names(Probe::ALL));
    assert!(took < Duration::from_mins(1), "{took:?}");
    let versions = &report["versions"];
    assert!(versions["engine"].as_str().unwrap().starts_with("Docker "));
    let own = rustix::system::uname()
        .release()
        .to_string_lossy()
        .into_owned();
    assert_eq!(versions["kernel"], own.as_str());
}

/// A network of a test.
struct Network(&'static str);

impl Drop for Network {
    fn drop(&mut self) {
        attempt(Command::new("docker").args(["network", "rm", self.0]));
    }
}

#[test]
#[ignore = "needs Docker"]
fn a_plain_bridge_is_found_open_to_the_host_and_the_world() {
    let network = Network("eclusa-doctor-plain");
    drop(Network(network.0));
    docker(&["network", "create", network.0]);
    let (code, report, _) = doctor(&["--network", network.0]);
    assert_eq!(code, Some(1), "{report:#}");
    assert_eq!(report["held"], json!(false));
    assert_eq!(report["network"], network.0);
    let verdicts = verdicts(&report);
    for probe in [
        Probe::HostTcp,
        Probe::EnginePorts,
        Probe::Gateway,
        Probe::DirectUdp,
    ] {
        assert_eq!(verdicts[&probe.to_string()], "not_held", "{probe}");
    }
    // An engine in a network of its own has another host than the listener's, which by UDP may
    // keep silent.
    let probes = report["probes"].as_array().unwrap();
    let by_tcp = probes.iter().find(|probe| probe["probe"] == "host_tcp");
    let seen = by_tcp.unwrap()["observations"].as_array().unwrap();
    if seen.iter().any(|one| one["result"] == "connected") {
        assert_eq!(verdicts["host_udp"], "not_held");
    }
    // Sandboxes on one bridge reach each other, and everything but the network is as hard as ever.
    assert_eq!(verdicts["neighbour"], "open");
    for probe in [Probe::RawSockets, Probe::Capabilities, Probe::Memory] {
        assert_eq!(verdicts[&probe.to_string()], "held", "{probe}");
    }
    let notes = report["notes"].to_string();
    assert!(notes.contains("sandboxes reach each other"), "{notes}");
}

#[test]
#[ignore = "needs Docker"]
fn a_network_as_the_readme_makes_it_leaves_only_the_neighbour_open() {
    let network = Network("eclusa-doctor-apart");
    drop(Network(network.0));
    let apart = "--opt=com.docker.network.bridge.inhibit_ipv4=true";
    docker(&["network", "create", "--internal", apart, network.0]);
    let (code, report, _) = doctor(&["--network", network.0]);
    let mut verdicts = verdicts(&report);
    assert_eq!(verdicts.remove("neighbour").as_deref(), Some("open"));
    verdicts.retain(|_, verdict| verdict != "held");
    assert!(verdicts.is_empty(), "{report:#}");
    assert_eq!(code, Some(0));
}

/// What such a container is open to; a tmpfs of the engine's and processes of the container's own are
/// as they would be in a sandbox.
const OPEN: &[Probe] = &[
    Probe::Gateway,
    Probe::RawSockets,
    Probe::OtherSockets,
    Probe::Identity,
    Probe::Capabilities,
    Probe::NoNewPrivileges,
    Probe::Seccomp,
    Probe::Namespaces,
    Probe::Mounts,
    Probe::MemoryPrograms,
    Probe::KernelSettings,
    Probe::MaskedPaths,
    Probe::Devices,
    Probe::EngineSockets,
    Probe::RootFileSystem,
    Probe::NoExec,
    Probe::Room,
    Probe::FileCount,
    Probe::Environment,
    Probe::HostAliases,
    Probe::CoreDumps,
    Probe::OpenFiles,
    Probe::FileSize,
    Probe::Pids,
    Probe::Memory,
];

/// What the probes tell of a container that is given what no sandbox has.
fn probed_in_the_open() -> Vec<Observation> {
    let orders = Orders {
        ground: Ground::None,
        host: Vec::new(),
        link_local: Vec::new(),
        listener: (9, 9),
        name_servers: Vec::new(),
        neighbour: Vec::new(),
        rooms: vec![("/var/tmp".to_owned(), 4 * 1024 * 1024)],
        memory: 64 * 1024 * 1024,
    };
    let program = format!("{}:/eclusa:ro", binary().display());
    let socket = format!("--volume={}:/run/docker.sock", engine_socket().display());
    let mut run = Command::new("docker");
    run.args(["run", "--rm", "--interactive", "--user=0", "--volume"])
        .args([&program, "--security-opt=seccomp=unconfined"])
        .args(["--env=SECRET=x", "--add-host=host.example:192.0.2.1"])
        .args([
            "--ulimit=core=-1",
            "--device=/dev/kmsg",
            "--cap-add=SYS_ADMIN",
        ])
        .args([
            "--security-opt=systempaths=unconfined",
            "--tmpfs=/workspace",
        ])
        .args([&socket])
        .args([AGENT_IMAGE, "/eclusa", "probe", "all"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    let mut child = run.spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    serde_json::to_writer(&mut input, &orders).unwrap();
    drop(input);
    let output = child.wait_with_output().unwrap();
    let told = String::from_utf8(output.stdout).unwrap();
    told.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[test]
#[ignore = "needs Docker"]
fn a_container_with_nothing_held_back_holds_nothing() {
    let seen = probed_in_the_open();
    let held: Vec<Finding> = judge(Ground::None, OPEN, &seen)
        .into_iter()
        .filter(|finding| finding.verdict == Verdict::Held || finding.observations.is_empty())
        .collect();
    assert!(held.is_empty(), "{held:#?}");
}

#[test]
#[ignore = "needs Docker"]
fn a_probe_is_made_nowhere_but_in_a_sandbox() {
    let launcher = Launcher::new();
    let probe = attempt(&mut launcher.bare(&["probe", "all"]));
    assert!(!probe.ok);
    assert!(probe.text.contains("run eclusa doctor"), "{}", probe.text);
}
