//! The proxy under test: the real binary, on ports that the kernel chose.

use std::{
    fs,
    io::{BufRead, BufReader},
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Output, Stdio},
    sync::{Arc, Mutex},
    thread,
};

use serde_json::Value;
use tempfile::TempDir;

use super::eventually;

/// A running `eclusa serve`.
pub struct TestProxy {
    child: Child,
    dir: TempDir,
    log: Arc<Mutex<Vec<Value>>>,
}

impl TestProxy {
    /// Starts the proxy on loopback with every listener, the given upstream resolver, and
    /// `policy` (profiles, clients, limits and any other sections but those already there).
    pub fn start(upstream: SocketAddr, policy: &str) -> Self {
        Self::with_config(|dir| standard_config(dir, upstream, policy))
    }

    /// Starts the proxy with a whole configuration, which may use the folder it is given.
    pub fn with_config(config: impl FnOnce(&Path) -> String) -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("eclusa.toml"), config(dir.path())).unwrap();
        Self::in_folder(dir)
    }

    /// Starts the proxy anew in the folder of an earlier one, as after a crash.
    pub fn in_folder(dir: TempDir) -> Self {
        Self::launched(command(), dir)
    }

    /// Starts the proxy in a folder that holds its configuration, with a command that runs the
    /// binary in a setting of its own.
    pub fn launched(mut command: Command, dir: TempDir) -> Self {
        let mut child = command
            .args(["serve", "--log-format", "json", "-c"])
            .arg(dir.path().join("eclusa.toml"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        let log = Arc::new(Mutex::new(Vec::new()));
        let lines = Arc::clone(&log);
        thread::spawn(move || {
            for line in stderr.lines().map_while(Result::ok) {
                let entry = serde_json::from_str(&line).unwrap_or(Value::String(line));
                lines.lock().unwrap().push(entry);
            }
        });
        let mut proxy = Self { child, dir, log };
        eventually("the proxy to be ready", || {
            if let Some(status) = proxy.child.try_wait().unwrap() {
                panic!("the proxy ended with {status}: {:#?}", proxy.log());
            }
            proxy
                .log()
                .iter()
                .any(|entry| message(entry) == "ready")
                .then_some(())
        });
        proxy
    }

    /// The address of the first listener of a kind: `proxy`, `dns`, `https`, `http`, `metrics`.
    pub fn listener(&self, kind: &str) -> SocketAddr {
        self.log()
            .iter()
            .find(|entry| message(entry) == "listening" && entry["listener"] == kind)
            .and_then(|entry| entry["address"].as_str()?.parse().ok())
            .unwrap_or_else(|| panic!("no listener {kind}"))
    }

    /// Everything logged so far, one JSON object a line.
    pub fn log(&self) -> Vec<Value> {
        self.log.lock().unwrap().clone()
    }

    /// The folder that holds its configuration, socket and audit log.
    pub fn folder(&self) -> &Path {
        self.dir.path()
    }

    /// The configuration file.
    pub fn config(&self) -> PathBuf {
        self.folder().join("eclusa.toml")
    }

    /// The audit log as it is now, one JSON object a line. A reader may meet a write halfway, so
    /// what does not end in a newline yet is not a line yet.
    pub fn audit(&self) -> Vec<Value> {
        let text = fs::read_to_string(self.folder().join("audit.jsonl")).unwrap_or_default();
        text.split_inclusive('\n')
            .filter(|line| line.ends_with('\n'))
            .map(|line| serde_json::from_str(line).expect("a JSON object"))
            .collect()
    }

    /// The events of a kind in the audit log.
    pub fn events(&self, event: &str) -> Vec<Value> {
        self.audit()
            .into_iter()
            .filter(|line| line["event"] == event)
            .collect()
    }

    /// Waits for a line of the audit log.
    pub fn await_event(&self, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        eventually(what, || self.audit().into_iter().find(|line| wanted(line)))
    }

    /// Runs `eclusa admin METHOD PATH [BODY]` against it.
    pub fn admin(&self, method: &str, path: &str, body: Option<&str>) -> Output {
        let mut admin = command();
        admin
            .args(["admin", "--admin"])
            .arg(self.folder().join("admin.sock"));
        admin.args([method, path]).args(body);
        admin.output().unwrap()
    }

    /// The process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal by name, e.g. `HUP`.
    pub fn signal(&self, name: &str) {
        let status = Command::new("kill")
            .args([format!("-{name}"), self.pid().to_string()])
            .status()
            .unwrap();
        assert!(status.success(), "kill -{name}");
    }

    /// Waits until it has ended by itself.
    pub fn wait(&mut self) -> ExitStatus {
        eventually("the proxy to end", || self.child.try_wait().unwrap())
    }

    /// Kills it at once and keeps its folder, as a crash would.
    pub fn crash(mut self) -> TempDir {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        std::mem::replace(&mut self.dir, tempfile::tempdir().unwrap())
    }
}

impl Drop for TestProxy {
    fn drop(&mut self) {
        // Already ended is as good.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// The binary under test, with nothing of the caller's environment.
pub fn command() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_eclusa"));
    command.env_clear();
    command
}

/// A configuration with every listener on loopback, and the audit log in `dir`.
pub fn standard_config(dir: &Path, upstream: SocketAddr, policy: &str) -> String {
    let dir = dir.display();
    format!(
        r#"
[listen]
proxy = ["127.0.0.1:0"]
dns = ["127.0.0.1:0"]
https = ["127.0.0.1:0"]
http = ["127.0.0.1:0"]
admin = "{dir}/admin.sock"

[dns]
answer = "127.0.0.1"

[resolver]
servers = ["udp://{upstream}"]
timeout = "2s"

[audit]
file = "{dir}/audit.jsonl"

{policy}
"#
    )
}

fn message(entry: &Value) -> &str {
    entry["message"].as_str().unwrap_or_default()
}
