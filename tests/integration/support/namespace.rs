//! Network namespaces that a test makes for itself: its own port 53, `/etc/resolv.conf`, uplink.

use std::{
    env, fs,
    path::Path,
    process::{Child, Command, Stdio},
};

use super::{eventually, output_of};

/// Runs an ignored test of this binary in namespaces of its own.
pub fn run(test: &str) {
    let mut unshare = Command::new("unshare");
    unshare
        .args(["--map-root-user", "--net", "--mount"])
        .arg(env::current_exe().unwrap())
        .args(["--exact", test, "--ignored", "--nocapture"]);
    let output = output_of(&mut unshare);
    assert!(output.contains("1 passed"), "{output}");
}

/// Fails unless this is a fresh network namespace, so that no test changes the host.
pub fn assert_fresh() {
    let links = ip("-brief link");
    let fresh = links.lines().count() == 1 && links.starts_with("lo ") && links.contains("DOWN");
    assert!(fresh, "only to be run by the test that makes the namespace");
    ip("link set lo up");
}

/// `ip` with these arguments: what it says.
pub fn ip(arguments: &str) -> String {
    output_of(Command::new("ip").args(arguments.split(' ')))
}

/// Puts `text` where the file `path` is, in this mount namespace alone.
pub fn cover(path: &str, folder: &Path, text: &str) {
    let file = folder.join("cover");
    fs::write(&file, text).unwrap();
    output_of(Command::new("mount").arg("--bind").arg(file).arg(path));
}

/// Another network namespace, where sandboxes and strangers are.
pub struct Outside {
    holder: Child,
}

impl Outside {
    /// Makes it.
    pub fn new() -> Self {
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

    /// A program that runs there.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new("nsenter");
        command.args(["--net", "--target", &self.pid().to_string(), program]);
        command
    }

    /// A cable to there: `name` with `addresses` here, `far-name` with `far` there.
    pub fn cable(&self, name: &str, addresses: &[&str], far: &[&str]) {
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
