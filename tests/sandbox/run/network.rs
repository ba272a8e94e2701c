//! The network of a run: none, the proxy alone, or one that leads nowhere.

mod killed;
mod private;
pub(crate) mod stage;

use std::process::Command;

use eclusa::record::NetworkSummary;

use super::Launcher;
use crate::docker::{attempt, docker};

#[test]
#[ignore = "needs Docker"]
fn without_a_network_there_is_only_a_loopback() {
    let script = r#"
import os, socket
print(os.listdir("/sys/class/net"), open("/proc/net/route").read().count("\n"))
print(open("/etc/resolv.conf").read(), end="")
server = socket.create_server(("127.0.0.1", 0))
socket.create_connection(server.getsockname()).close()
for address in "172.17.0.1", "192.0.2.1", "fe80::1%lo":
    try:
        socket.create_connection((address, 80), 3)
        print("reached", address)
    except OSError as error:
        print(error.strerror)
try:
    print(socket.getaddrinfo("api.example.com", 443))
except socket.gaierror:
    print("no such name")
"#;
    let ran = Launcher::new().python(&[], script).succeeded();
    let expected = "['lo'] 1\n# this sandbox has no network\nNetwork is unreachable\n\
                    Network is unreachable\nCannot assign requested address\nno such name\n";
    assert_eq!(ran.stdout(), expected);
    assert_eq!(ran.record.network, Some(NetworkSummary::default()));
}

/// A network of this test; removed on every path out of it.
struct Network(&'static str);

impl Network {
    fn new(name: &'static str, options: &[&str]) -> Self {
        drop(Self(name));
        docker(&[&["network", "create"], options, &[name]].concat());
        Self(name)
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        attempt(Command::new("docker").args(["network", "rm", self.0]));
    }
}

const APART: &[&str] = &[
    "--internal",
    "--opt=com.docker.network.bridge.inhibit_ipv4=true",
];

#[test]
#[ignore = "needs Docker"]
fn only_a_network_that_leads_nowhere_is_joined() {
    let launcher = Launcher::new();
    let _networks = [
        Network::new("suite-world", &[]),
        Network::new("suite-host", &["--internal"]),
        Network::new("suite-apart", APART),
        Network::new(
            "suite-six",
            &[APART, &["--ipv6", "--subnet=fd00:5017:e::/64"]].concat(),
        ),
    ];
    for (name, expected) in [
        ("host", "is never joined"),
        ("container:suite", "is never joined"),
        ("bridge", "it is not internal"),
        ("suite-world", "it is not internal"),
        ("suite-host", "the host has an address on it"),
        ("suite-six", "it has IPv6"),
        ("suite-missing", "suite-missing"),
    ] {
        let error = launcher.refusal(&[&format!("--network={name}")]);
        assert!(error.contains(expected), "{name}: {error}");
    }
    let danger = ["--network=host", "--dangerously-allow-network"];
    let error = launcher.refusal(&danger);
    assert!(error.contains("is never joined"), "{error}");
    let error = launcher.refusal(&["--network=none", "--allow=api.example.com"]);
    assert!(error.contains("need --network egress"), "{error}");

    let script = r#"ls /sys/class/net; env | grep -ci proxy; exec 2>&1
python3 -c 'import socket; socket.create_connection(("192.0.2.1", 80), 5)' | tail -n1"#;
    let ran = launcher
        .shell(&["--network=suite-apart"], script)
        .succeeded();
    let (interfaces, error) = ran.stdout().split_once("\n0\n").unwrap();
    assert_eq!(interfaces, "eth0\nlo");
    // Docker 20.10 gives a route, by an address that nobody has.
    let dead = ["is unreachable", "timed out", "No route to host"];
    assert!(dead.iter().any(|dead| error.contains(dead)), "{ran:?}");
    let danger = ["--network=suite-host", "--dangerously-allow-network"];
    let ran = launcher.run(&danger, &["true"]).succeeded();
    assert!(
        ran.said.contains("--dangerously-allow-network is in force"),
        "{ran:?}"
    );
}
