//! The proxy of `eclusa up`, and an origin behind it.

use std::{fs, process::Command};

use serde_json::Value;

use super::super::{Launcher, set_mode};
use crate::docker::{
    AGENT_IMAGE, Container, WithoutProxy, attempt, docker, listed_by_proxy, wait_until,
    without_proxy,
};

/// Its DNS, HTTP and TLS for `allowed.demo.example` and `denied.demo.example`, at this address.
const ORIGIN: &str = include_str!("../../../../demo/peer.py");
pub(super) const ADDRESS: &str = "10.199.242.53";

/// The origin's address is private, so that only the rule that names both lets it be reached.
const CONFIG: &str = r#"
[resolver]
servers = ["udp://10.199.242.53:53"]
timeout = "2s"
[profiles.default]
deny = ["denied.demo.example"]
[[profiles.default.rules]]
hosts = ["allowed.demo.example"]
ports = [443, 80]
addresses = ["10.199.242.53/32"]
[profiles.ceiling]
allow = ["*.demo.example"]
[launcher]
ceiling = "ceiling"
"#;

/// A launcher whose proxy has an origin behind it; it has the engine's proxy to itself. What is
/// declared first goes first: a network with a member would stay.
pub(super) struct Stage {
    origin: Container,
    pub(super) launcher: Launcher,
    _alone: WithoutProxy,
}

impl Stage {
    pub(super) fn new() -> Self {
        let alone = without_proxy();
        let launcher = Launcher::new();
        attempt(Command::new("docker").args(["rm", "--force", "suite-origin"]));
        docker(&[
            "network",
            "create",
            "--subnet=10.199.242.0/24",
            "egress-uplink",
        ]);
        let stage = Self {
            origin: start_origin(&launcher),
            launcher,
            _alone: alone,
        };
        fs::write(stage.launcher.path("eclusa.toml"), CONFIG).unwrap();
        let up = attempt(&mut stage.launcher.bare(&["up", "--config=eclusa.toml"]));
        assert!(up.ok, "{up:?}");
        stage
    }

    /// An option that binds the probes and the origin's authority at `/input`.
    pub(super) fn input(&self) -> String {
        let input = self.launcher.probes();
        let folder = self.launcher.path("probes");
        fs::copy(self.launcher.path("origin/ca.pem"), folder.join("ca.pem")).unwrap();
        let reach = include_str!("../../data/reach.py");
        fs::write(folder.join("reach.py"), reach).unwrap();
        set_mode(&folder.join("reach.py"), 0o644);
        input
    }

    /// What the origin was asked for.
    pub(super) fn heard(&self) -> String {
        docker(&["logs", &self.origin.0])
    }
}

fn start_origin(launcher: &Launcher) -> Container {
    let folder = launcher.path("origin");
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("peer.py"), ORIGIN).unwrap();
    let (authority, certificate, key) = certificates();
    for (name, content) in [
        ("ca.pem", authority),
        ("origin.pem", certificate),
        ("origin.key", key),
    ] {
        fs::write(folder.join(name), content).unwrap();
    }
    let bind = format!("--volume={}:/origin:ro", folder.display());
    let address = format!("--ip={ADDRESS}");
    let options = [
        "run",
        "--detach",
        "--init",
        "--name=suite-origin",
        "--network=egress-uplink",
    ];
    let python = ["python3", "-u", "/origin/peer.py", "origin", "/origin"];
    let own = [bind.as_str(), &address, AGENT_IMAGE];
    let origin = Container(docker(&[&options[..], &own, &python].concat()));
    wait_until("the origin", || {
        docker(&["logs", &origin.0]).contains("ready")
    });
    origin
}

/// What the proxy recorded of a run, in order.
pub(super) fn audited(run: &str) -> Vec<Value> {
    let copy = "docker cp eclusa-proxy:/var/log/eclusa/audit.jsonl - | tar -xO";
    let log = attempt(Command::new("sh").args(["-c", copy]));
    assert!(log.ok, "{log:?}");
    let lines = log
        .text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap());
    lines.filter(|line: &Value| line["run"] == run).collect()
}

/// The runs that the proxy knows.
pub(crate) fn registered() -> Vec<Value> {
    listed_by_proxy("/v1/runs")
}

/// An authority, and a certificate of it for the origin's names with its key, in PEM.
fn certificates() -> (String, String, String) {
    let mut authority = rcgen::CertificateParams::new(Vec::new()).unwrap();
    authority.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    authority
        .distinguished_name
        .push(rcgen::DnType::CommonName, "the authority of a test");
    authority.key_usages = vec![rcgen::KeyUsagePurpose::KeyCertSign];
    let key = rcgen::KeyPair::generate().unwrap();
    let own = authority.self_signed(&key).unwrap();
    let issuer = rcgen::Issuer::new(authority, key);
    let key = rcgen::KeyPair::generate().unwrap();
    let names = ["allowed.demo.example", "denied.demo.example"].map(str::to_owned);
    let origin = rcgen::CertificateParams::new(names).unwrap();
    let origin = origin.signed_by(&key, &issuer).unwrap();
    (own.pem(), origin.pem(), key.serialize_pem())
}
