//! The two ways of the README to put the proxy beside an agent: compose and plain `docker`.

use std::{fs, path::Path, process::Command};

use crate::{
    containment,
    docker::{
        AGENT_IMAGE, Output, attempt, checkout, docker, exec, the_subnet, wait_until,
        wait_until_healthy, without_proxy,
    },
};

const PROXY: &str = "10.199.0.2";

/// A compose project; `down` on every path out of a test.
struct Compose<'a>(&'a Path);

impl Compose<'_> {
    /// Runs `docker compose`, or the older `docker-compose`.
    fn run(&self, arguments: &[&str]) -> Output {
        let plugin = attempt(Command::new("docker").args(["compose", "version"])).ok;
        let mut command = Command::new(if plugin { "docker" } else { "docker-compose" });
        command
            .args(plugin.then_some("compose"))
            .arg("--project-name=eclusa-test")
            .args(arguments)
            .current_dir(self.0)
            .env("AGENT_IMAGE", AGENT_IMAGE);
        attempt(&mut command)
    }

    fn container(&self, service: &str) -> String {
        self.run(&["ps", "-q", service]).text
    }
}

impl Drop for Compose<'_> {
    fn drop(&mut self) {
        self.run(&["down", "--volumes", "--timeout=1"]);
    }
}

#[test]
#[ignore = "needs Docker"]
fn the_compose_file_contains_its_agent() {
    let _alone = without_proxy();
    let _subnet = the_subnet();
    let folder = checkout();
    let compose = Compose(folder.path());
    compose.run(&["down", "--volumes", "--timeout=1"]);
    let up = compose.run(&["up", "--detach", "--no-build"]);
    assert!(up.ok, "{up:?}");
    containment::holds(
        &compose.container("agent"),
        &compose.container("eclusa"),
        PROXY,
    );
    a_changed_policy_is_taken_up(&compose);
}

/// The folder is mounted, so that a file replaced by an editor is the one that a reload reads.
fn a_changed_policy_is_taken_up(compose: &Compose<'_>) {
    let file = compose.0.join("config/sidecar.toml");
    let new = compose.0.join("config/new.toml");
    let text = fs::read_to_string(&file).unwrap();
    fs::write(
        &new,
        text.replace("allow = [", r#"allow = ["added.example.com", "#),
    )
    .unwrap();
    fs::rename(&new, &file).unwrap();
    let agent = compose.container("agent");
    let before = exec(&agent, &["getent", "ahostsv4", "added.example.com"]);
    assert!(!before.ok, "{before:?}");
    compose.run(&["kill", "-s", "HUP", "eclusa"]);
    wait_until("the added name", || {
        let added = exec(&agent, &["getent", "ahostsv4", "added.example.com"]);
        added.text.starts_with(PROXY)
    });
}

/// The commands of the README that bear this name.
pub(crate) fn commands(readme: &str, name: &str) -> String {
    let (_, rest) = readme
        .split_once(&format!("<!-- tested: {name} -->\n```sh\n"))
        .unwrap();
    rest.split_once("\n```").unwrap().0.to_owned()
}

struct Guide(String);

impl Drop for Guide {
    fn drop(&mut self) {
        attempt(Command::new("bash").args(["-c", &self.0]));
    }
}

#[test]
#[ignore = "needs Docker"]
fn the_commands_of_the_readme_contain_their_agent() {
    let _alone = without_proxy();
    let _subnet = the_subnet();
    let folder = checkout();
    let readme = concat!(env!("CARGO_MANIFEST_DIR"), "/README.md");
    let readme = fs::read_to_string(readme).unwrap();
    let undo = Guide(commands(&readme, "remove"));
    attempt(Command::new("bash").args(["-c", &undo.0]));
    for part in ["networks", "proxy", "agent"] {
        let script = format!("set -euo pipefail\n{}", commands(&readme, part));
        let done = attempt(
            Command::new("bash")
                .args(["-c", &script])
                .current_dir(folder.path())
                .env("AGENT_IMAGE", AGENT_IMAGE),
        );
        assert!(done.ok, "{part}: {done:?}");
        if part == "proxy" {
            wait_until_healthy("eclusa");
        }
    }
    containment::holds("agent", "eclusa", PROXY);
    let routes = docker(&[
        "run",
        "--rm",
        "--network=container:eclusa",
        AGENT_IMAGE,
        "ip",
        "route",
    ]);
    assert!(!routes.contains("default via 10.199.0."), "{routes}");
}
