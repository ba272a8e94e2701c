//! What holds of every agent that was set up by the compose file or by the README's guide.

use std::{collections::BTreeSet, process::Command};

use crate::docker::{AGENT_IMAGE, Container, attempt, docker, exec, wait_until};

/// Tries TCP connections to all targets at once and prints those that were accepted.
const REACH: &str = r#"
import concurrent.futures, socket, sys
def reach(target):
    host, port = target.split(",")
    try:
        socket.create_connection((host, int(port)), 2).close()
        return True
    except OSError:
        return False
with concurrent.futures.ThreadPoolExecutor(64) as pool:
    print(*(t for t, ok in zip(sys.argv[1:], pool.map(reach, sys.argv[1:])) if ok))
"#;

/// Listens on every address of the machine and prints its port.
const LISTEN: &str = r#"
import socket
server = socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True)
print(server.getsockname()[1], flush=True)
while True:
    server.accept()[0].close()
"#;

/// Asserts that `agent` reaches the proxy at `proxy_address` and nothing else, and that the log of
/// the container `proxy` tells of it.
pub(crate) fn holds(agent: &str, proxy: &str, proxy_address: &str) {
    only_the_proxy_is_reached(agent, proxy_address);
    refusals_explain_themselves(agent);
    names_are_answered_by_policy_alone(agent, proxy_address);
    records_tell_of_it(proxy);
    the_process_holds_no_privilege(agent);
}

/// A listener on every address of the engine's host.
pub(crate) struct HostListener {
    container: Container,
    port: u16,
}

impl HostListener {
    /// Starts it, and asserts that it can be reached at all: from a container that is not
    /// contained.
    pub(crate) fn start() -> Self {
        let python = ["python3", "-u", "-c", LISTEN];
        let run = ["run", "--detach", "--init", "--network=host", AGENT_IMAGE];
        let container = Container(docker(&[&run[..], &python].concat()));
        wait_until("the host's listener", || {
            !docker(&["logs", &container.0]).is_empty()
        });
        let port = docker(&["logs", &container.0]).parse().unwrap();
        let listener = Self { container, port };
        let reach = ["run", "--rm", AGENT_IMAGE, "python3", "-c", REACH];
        let targets = listener.addresses().into_iter();
        let targets: Vec<String> = targets.map(|at| format!("{at},{port}")).collect();
        let targets: Vec<&str> = targets.iter().map(String::as_str).collect();
        let reached = docker(&[&reach[..], &targets].concat());
        assert_ne!(reached, "", "the probe itself must work");
        listener
    }

    /// Its port.
    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// The host's addresses, link-local ones with an agent's interface as their scope.
    pub(crate) fn addresses(&self) -> Vec<String> {
        let shown = exec(&self.container.0, &["ip", "-o", "address", "show"]).text;
        let addresses = shown
            .lines()
            .filter_map(|line| line.split_whitespace().nth(3))
            .map(|address| address.split('/').next().unwrap())
            .filter(|address| !["127.0.0.1", "::1"].contains(address));
        addresses
            .map(|address| {
                let is_link_local = address.starts_with("fe80");
                let scope = if is_link_local { "%eth0" } else { "" };
                format!("{address}{scope}")
            })
            .collect()
    }
}

fn only_the_proxy_is_reached(agent: &str, proxy_address: &str) {
    let host = HostListener::start();
    let port = host.port();
    let targets = host.addresses().into_iter();
    let mut targets: Vec<String> = targets.map(|at| format!("{at},{port}")).collect();
    let gateway = proxy_address.rsplit_once('.').unwrap().0;
    targets.extend([
        format!("{gateway}.1,{port}"),
        "169.254.169.254,80".to_owned(),
        "192.0.2.1,443".to_owned(),
        format!("{proxy_address},9464"),
        format!("{proxy_address},{port}"),
    ]);
    targets.extend(["3128", "443", "80", "53"].map(|port| format!("{proxy_address},{port}")));
    let targets: Vec<&str> = targets.iter().map(String::as_str).collect();
    let reach = ["python3", "-c", REACH];
    let reached = exec(agent, &[&reach[..], &targets].concat());
    let reached: BTreeSet<&str> = reached.text.split_whitespace().collect();
    let expected = ["3128", "443", "80", "53"].map(|port| format!("{proxy_address},{port}"));
    assert_eq!(reached, expected.iter().map(String::as_str).collect());
}

fn refusals_explain_themselves(agent: &str) {
    let by_proxy = exec(agent, &["curl", "-sS", "-m8", "https://evil.example.net/"]);
    assert!(
        !by_proxy.ok && by_proxy.text.contains("403"),
        "{by_proxy:?}"
    );
    let plain = exec(agent, &["curl", "-sS", "-m8", "http://evil.example.net/"]);
    assert!(
        plain.text.contains(r#""reason":"not_allowlisted""#),
        "{plain:?}"
    );
    let metadata = exec(
        agent,
        &["curl", "-sS", "-m8", "http://169.254.169.254/latest/"],
    );
    assert!(
        metadata.text.contains(r#""reason":"ip_literal""#),
        "{metadata:?}"
    );
}

fn names_are_answered_by_policy_alone(agent: &str, proxy_address: &str) {
    let own = exec(agent, &["getent", "ahostsv4", "eclusa"]);
    assert!(own.text.starts_with(proxy_address), "{own:?}");
    for server in [proxy_address, "127.0.0.11"] {
        let at = format!("@{server}");
        let denied = exec(
            agent,
            &["dig", "+tries=1", "+time=4", &at, "data.evil.example.net"],
        );
        assert!(
            denied.text.contains("status: NXDOMAIN"),
            "{server}: {denied:?}"
        );
    }
}

fn records_tell_of_it(proxy: &str) {
    let copy = format!("docker cp {proxy}:/var/log/eclusa/audit.jsonl - | tar -xO");
    let log = attempt(Command::new("sh").args(["-c", &copy])).text;
    for wanted in [
        r#""host":"evil.example.net","port":443"#,
        r#""host":"evil.example.net","port":80"#,
        r#""host":"169.254.169.254","port":80"#,
        r#""name":"data.evil.example.net"#,
    ] {
        assert!(log.contains(wanted), "no {wanted} in\n{log}");
    }
}

fn the_process_holds_no_privilege(agent: &str) {
    let status = exec(agent, &["cat", "/proc/self/status"]).text;
    for wanted in [
        "Uid:\t65534",
        "CapEff:\t0000000000000000",
        "CapBnd:\t0000000000000000",
    ] {
        assert!(status.contains(wanted), "no {wanted:?} in\n{status}");
    }
    assert!(status.contains("NoNewPrivs:\t1"), "{status}");
    assert!(!exec(agent, &["touch", "/etc/x"]).ok);
}
