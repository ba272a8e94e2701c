//! The docker command, and things of it that remove themselves.

use std::{
    path::Path,
    process::{Command, Stdio},
    sync::{Mutex, MutexGuard, PoisonError, RwLock, RwLockWriteGuard},
    thread,
    time::{Duration, SystemTime},
};

/// The image under test and the one that agents run from; `make sandbox` made both.
pub(crate) const IMAGE: &str = "eclusa:0.1.0";
pub(crate) const AGENT_IMAGE: &str = "eclusa-debian-root";

/// What a command printed, and whether it succeeded.
#[derive(Debug)]
pub(crate) struct Output {
    pub(crate) ok: bool,
    pub(crate) text: String,
}

/// Runs a command to its end, with both of its streams in `text`.
pub(crate) fn attempt(command: &mut Command) -> Output {
    let done = command.stdin(Stdio::null()).output().unwrap();
    let text = [done.stdout, done.stderr].concat();
    Output {
        ok: done.status.success(),
        text: String::from_utf8_lossy(&text).trim().to_owned(),
    }
}

/// Runs `docker` with arguments and gives what it printed.
pub(crate) fn docker(arguments: &[&str]) -> String {
    let output = attempt(Command::new("docker").args(arguments));
    assert!(output.ok, "docker {arguments:?}: {}", output.text);
    output.text
}

/// Runs a command in a container; its failure is an outcome like another.
pub(crate) fn exec(container: &str, command: &[&str]) -> Output {
    attempt(
        Command::new("docker")
            .args(["exec", container])
            .args(command),
    )
}

/// What a `GET` of the admin socket of the launcher's proxy lists.
pub(crate) fn listed_by_proxy(path: &str) -> Vec<serde_json::Value> {
    let admin = ["exec", "eclusa-proxy", "/eclusa", "admin", "GET", path];
    serde_json::from_str(&docker(&admin)).unwrap()
}

/// Asks again until something holds, for at most 30 seconds.
pub(crate) fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let start = SystemTime::now();
    while !holds() {
        assert!(
            start.elapsed().unwrap() < Duration::from_secs(30),
            "waited for {what}"
        );
        thread::park_timeout(Duration::from_millis(100));
    }
}

/// Waits until the image's own HEALTHCHECK says so.
pub(crate) fn wait_until_healthy(container: &str) {
    wait_until("a healthy proxy", || {
        let state = docker(&[
            "inspect",
            "-f",
            "{{.State.Status}} {{.State.Health.Status}}",
            container,
        ]);
        assert!(
            state.starts_with("running"),
            "{state}: {}",
            docker(&["logs", container])
        );
        state == "running healthy"
    });
}

/// Removes a container on every path out of a test.
pub(crate) struct Container(pub(crate) String);

impl Drop for Container {
    fn drop(&mut self) {
        attempt(Command::new("docker").args(["rm", "--force", "--volumes", &self.0]));
    }
}

/// A folder with this repository's configuration and compose file, as a user has them.
pub(crate) fn checkout() -> tempfile::TempDir {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = tempfile::Builder::new()
        .prefix("eclusa-")
        .tempdir()
        .unwrap();
    attempt(Command::new("chmod").arg("755").arg(folder.path()));
    for entry in ["config", "compose.yaml"] {
        let copied = attempt(
            Command::new("cp")
                .arg("-r")
                .arg(root.join(entry))
                .arg(folder.path()),
        );
        assert!(copied.ok, "{}", copied.text);
    }
    folder
}

/// The launcher's proxy, of which an engine has one: read while something runs by it.
pub(crate) static PROXY: RwLock<()> = RwLock::new(());

/// An engine on which nobody has a proxy but who holds this: it is removed before and after.
pub(crate) struct WithoutProxy {
    _alone: RwLockWriteGuard<'static, ()>,
}

/// For tests that start and stop the proxy, and for those that start one by hand: the launcher
/// would take it for its own, and the README's network has the same name as its own.
pub(crate) fn without_proxy() -> WithoutProxy {
    let alone = PROXY.write().unwrap_or_else(PoisonError::into_inner);
    remove_proxy();
    WithoutProxy { _alone: alone }
}

impl Drop for WithoutProxy {
    fn drop(&mut self) {
        remove_proxy();
    }
}

fn remove_proxy() {
    // What was made ahead for the runs of that proxy.
    for (list, remove) in [
        ("ps --all", "rm --force --volumes"),
        ("network ls", "network rm"),
        ("volume ls", "volume rm"),
    ] {
        let script =
            format!("docker {list} --quiet --filter=label=eclusa.slot | xargs -r docker {remove}");
        // A network goes once the proxy does.
        let script = format!("docker rm --force eclusa-proxy; {script}");
        attempt(Command::new("sh").args(["-c", &script]));
    }
    for remove in [
        "rm --force eclusa-proxy",
        "network rm egress-uplink",
        "volume rm --force eclusa-proxy eclusa-config eclusa-audit",
    ] {
        attempt(Command::new("docker").args(remove.split(' ')));
    }
}

/// The subnet of the README and the compose file can be had only once at a time.
pub(crate) fn the_subnet() -> MutexGuard<'static, ()> {
    static SUBNET: Mutex<()> = Mutex::new(());
    SUBNET.lock().unwrap_or_else(PoisonError::into_inner)
}
