//! A sandbox, and the proxy, killed while an exchange is open.

use std::process::Command;

use serde_json::Value;

use super::{
    super::{Ran, Running, left},
    stage::{Stage, audited, registered},
};
use crate::docker::{attempt, docker, wait_until};

/// Opens a tunnel, tells the origin so by another way, and says when it ends.
const TUNNEL: &str = r#"
import os, socket, ssl, urllib.request
context = ssl.create_default_context(cafile="/input/ca.pem")
proxy, port = os.environ["http_proxy"].removeprefix("http://").rsplit(":", 1)
tunnel = socket.create_connection((proxy, int(port)))
host = "allowed.demo.example"
tunnel.sendall(f"CONNECT {host}:443 HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
tunnel.recv(4096)
tunnel = context.wrap_socket(tunnel, server_hostname=host)
urllib.request.urlopen(f"http://{host}/open").read()
try:
    tunnel.recv(1)
except OSError:
    pass
print("ended")
"#;

/// A run with an open tunnel, and its id.
fn tunnelling(stage: &Stage) -> (Running, String) {
    let options = ["--profile=default", "--timeout=60s", &stage.input()];
    let command = ["python3", "-I", "-c", TUNNEL];
    let running = Running::start(&mut stage.launcher.command(&options, &command));
    let run = running.sandbox();
    wait_until("the tunnel", || stage.heard().contains("/open"));
    (running, run)
}

/// The one close of the one tunnel of a run.
fn close(run: &str) -> Value {
    let audit = audited(run);
    let of = |event: &str| -> Vec<Value> {
        let lines = audit
            .iter()
            .filter(|line| line["event"] == event && line["via"] == "connect");
        lines.cloned().collect()
    };
    let (mut decisions, mut closes) = (of("decision"), of("close"));
    assert_eq!((decisions.len(), closes.len()), (1, 1), "{audit:#?}");
    let (decision, close) = (decisions.remove(0), closes.remove(0));
    assert_eq!(close.get("id"), decision.get("id"));
    close
}

#[test]
#[ignore = "needs Docker"]
fn a_sandbox_that_is_killed_leaves_no_open_record_and_no_run() {
    let stage = Stage::new();
    let (running, run) = tunnelling(&stage);
    docker(&["kill", &format!("eclusa-run-{run}")]);
    let (output, took) = running.finish(b"");
    let ran = Ran::read(&output, took);
    assert_eq!(ran.code, Some(137), "{ran:?}");
    let ended = close(&run);
    let by_client = ["client_closed", "done", "run_ended"];
    let outcome = ended["outcome"].as_str().unwrap();
    assert!(by_client.contains(&outcome), "{ended}");
    let last = audited(&run).pop().unwrap();
    assert_eq!(last["event"], "run_end");
    let network = ran.record.network.unwrap();
    assert_eq!(network.allowed.len(), 2, "{network:?}");
    assert_eq!(left(&run), []);
    assert_eq!(registered(), Vec::<Value>::new());
}

#[test]
#[ignore = "needs Docker"]
fn a_proxy_that_is_killed_cuts_its_runs_and_closes_their_records_when_it_is_back() {
    let stage = Stage::new();
    let (running, run) = tunnelling(&stage);
    docker(&["kill", "eclusa-proxy"]);
    docker(&["start", "eclusa-proxy"]);
    wait_until("the proxy", || {
        attempt(Command::new("docker").args(["exec", "eclusa-proxy", "/eclusa", "health"])).ok
    });
    let (output, took) = running.finish(b"");
    let ran = Ran::read(&output, took).succeeded();
    assert_eq!(ran.stdout(), "ended\n");
    assert_eq!(close(&run)["outcome"], "crash");
    assert_eq!(left(&run), []);
}
