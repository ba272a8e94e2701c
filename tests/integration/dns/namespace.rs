//! Network namespaces that a test makes for itself: its own port 53, `/etc/resolv.conf`, uplink.

use std::{
    env, fs,
    path::Path,
    process::{Child, Stdio},
};

use super::*;
use crate::support::eventually;

/// Runs an ignored test of this binary in namespaces of its own.
pub(super) fn run(test: &str) {
    let mut unshare = Command::new("unshare");
    unshare
        .args(["--map-root-user", "--net", "--mount"])
        .arg(env::current_exe().unwrap())
        .args(["--exact", test, "--ignored", "--nocapture"]);
    let output = output_of(&mut unshare);
    assert!(output.contains("1 passed"), "{output}");
}

/// Fails unless this is a fresh network namespace, so that no test changes the host.
pub(super) fn assert_fresh() {
    let links = ip("-brief link");
    let fresh = links.lines().count() == 1 && links.starts_with("lo ") && links.contains("DOWN");
    assert!(fresh, "only to be run by the test that makes the namespace");
    ip("link set lo up");
}

pub(super) fn ip(arguments: &str) -> String {
    output_of(Command::new("ip").args(arguments.split(' ')))
}

/// Puts `text` where the file `path` is, in this mount namespace alone.
pub(super) fn cover(path: &str, folder: &Path, text: &str) {
    let file = folder.join("cover");
    fs::write(&file, text).unwrap();
    output_of(Command::new("mount").arg("--bind").arg(file).arg(path));
}

/// Another network namespace, where sandboxes and strangers are.
struct Outside {
    holder: Child,
}

impl Outside {
    fn new() -> Self {
        let holder = Command::new("unshare")
            .args(["--net", "sleep", "600"])
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let outside = Self { holder };
        let own = fs::read_link("/proc/self/ns/net").unwrap();
        let theirs = format!("/proc/{}/ns/net", outside.pid());
        eventually("the namespace", || {
            (fs::read_link(&theirs).ok()? != own).then_some(())
        });
        outside
    }

    fn pid(&self) -> u32 {
        self.holder.id()
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new("nsenter");
        command.args(["--net", "--target", &self.pid().to_string(), program]);
        command
    }

    /// A cable to there: `name` with `addresses` here, `far-name` with `far` there.
    fn cable(&self, name: &str, addresses: &[&str], far: &[&str]) {
        ip(&format!("link add {name} type veth peer name far-{name}"));
        ip(&format!("link set far-{name} netns {}", self.pid()));
        ip(&format!("link set {name} up"));
        for address in addresses {
            ip(&format!(
                "address add {address} dev {name} {}",
                no_dad(address)
            ));
        }
        let there = |arguments: &str| output_of(self.command("ip").args(arguments.split(' ')));
        there(&format!("link set far-{name} up"));
        for address in far {
            there(&format!(
                "address add {address} dev far-{name} {}",
                no_dad(address)
            ));
        }
    }

    /// dig's short answer, `timeout` or `reset`.
    fn dig(&self, server: &str, transport: &str) -> String {
        let mut dig = self.command("dig");
        dig.arg(format!("@{server}"));
        dig.args([
            transport,
            "+tries=1",
            "+time=1",
            "+short",
            "allowed.example",
        ]);
        let output = dig.output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        if text.contains("timed out") {
            "timeout".to_owned()
        } else if text.contains("connection reset") || text.contains("end of file") {
            "reset".to_owned()
        } else {
            text.trim().to_owned()
        }
    }
}

impl Drop for Outside {
    fn drop(&mut self) {
        drop(self.holder.kill());
        drop(self.holder.wait());
    }
}

/// Addresses are used at once, without a search for duplicates.
fn no_dad(address: &str) -> &'static str {
    if address.contains(':') {
        "nodad"
    } else {
        "valid_lft forever"
    }
}

#[test]
fn the_uplink_is_not_served_unless_configured() {
    run("dns::namespace::an_uplink_and_a_sandbox_side");
}

#[test]
#[ignore = "runs in namespaces of its own, which the test above makes"]
fn an_uplink_and_a_sandbox_side() {
    assert_fresh();
    let outside = Outside::new();
    outside.cable("uplink", &["192.0.2.2/24"], &["192.0.2.1/24"]);
    outside.cable(
        "sandbox",
        &["172.30.0.2/24", "2001:db8::2/64"],
        &["172.30.0.3/24", "2001:db8::3/64"],
    );
    ip("route add default via 192.0.2.1");
    // Everyone is a client here: what keeps the uplink out is the interface alone.
    let clients = ["192.0.2.0/24", "172.30.0.0/24", "2001:db8::/64"]
        .map(|source| format!("[[clients]]\nsource = \"{source}\"\nprofile = \"default\"\n"))
        .concat();
    {
        let dns = DnsProxy::on("0.0.0.0:53".parse().unwrap(), &clients);
        for (server, transport, expected) in [
            ("172.30.0.2", "+notcp", "172.30.0.2"),
            ("172.30.0.2", "+tcp", "172.30.0.2"),
            ("192.0.2.2", "+notcp", "timeout"),
            ("192.0.2.2", "+tcp", "reset"),
        ] {
            let told = outside.dig(server, transport);
            assert_eq!(told, expected, "{server} {transport}");
        }
        // What the sandbox side sends to the uplink's address is not served either.
        let route = "route add 192.0.2.2/32 via 172.30.0.2";
        output_of(outside.command("ip").args(route.split(' ')));
        assert_eq!(outside.dig("192.0.2.2", "+notcp"), "timeout");
        let route = "route del 192.0.2.2/32 via 172.30.0.2";
        output_of(outside.command("ip").args(route.split(' ')));
        // Nor what the uplink sends to the sandbox side's address.
        let route = "route replace 172.30.0.2/32 via 192.0.2.2 src 192.0.2.1";
        output_of(outside.command("ip").args(route.split(' ')));
        assert_eq!(outside.dig("172.30.0.2", "+notcp"), "timeout");
        let route = "route del 172.30.0.2/32 via 192.0.2.2";
        output_of(outside.command("ip").args(route.split(' ')));
        dns.assert_nothing_went_upstream();
    }
    {
        let dns = DnsProxy::on("[::]:53".parse().unwrap(), &clients);
        for transport in ["+notcp", "+tcp"] {
            // The IPv4 address of the same interface.
            assert_eq!(
                outside.dig("2001:db8::2", transport),
                "172.30.0.2",
                "{transport}"
            );
        }
        dns.assert_nothing_went_upstream();
    }
    let dns = DnsProxy::on("192.0.2.2:53".parse().unwrap(), &clients);
    assert_eq!(outside.dig("192.0.2.2", "+notcp"), "192.0.2.2");
    assert_eq!(outside.dig("192.0.2.2", "+tcp"), "192.0.2.2");
    dns.assert_nothing_went_upstream();
}
