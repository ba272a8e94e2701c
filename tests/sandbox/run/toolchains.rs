//! What agents bring code for runs under the system call filter and the limits: languages, their
//! compilers, and programs linked in each way.

use std::{fs, path::Path, process::Command};

use super::{Launcher, finish, set_mode};
use crate::{
    docker::{AGENT_IMAGE, attempt},
    sidecar::commands,
};

/// Made by `make sandbox`.
const TOOLCHAINS: &str = "eclusa-debian-toolchains";

const SOURCES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/sandbox/data/toolchains");

/// Room for compilers and virtual machines.
const ROOM: &[&str] = &["--timeout=3m", "--memory=1g", "--pids=256", "--cpus=2"];

fn built(launcher: &Launcher, compiler: &mut Command, program: &str) {
    let made = attempt(compiler.current_dir(launcher.path("input")));
    assert!(made.ok, "{program}: {made:?}");
}

#[test]
#[ignore = "needs an engine"]
fn toolchains_run_under_the_filter() {
    let launcher = Launcher::new();
    let input = launcher.path("input");
    fs::create_dir(&input).unwrap();
    for entry in fs::read_dir(SOURCES).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), input.join(entry.file_name())).unwrap();
    }
    built(
        &launcher,
        Command::new("rustc").args([
            "--edition=2024",
            "-C",
            "target-feature=+crt-static",
            "-o",
            "check-rust",
            "check.rs",
        ]),
        "rust",
    );
    built(
        &launcher,
        Command::new("gcc").args(["-static", "-pthread", "-o", "check-glibc", "check.c"]),
        "glibc",
    );
    built(
        &launcher,
        Command::new("musl-gcc").args(["-static", "-pthread", "-o", "check-musl", "check.c"]),
        "musl",
    );
    let go = launcher.path("go");
    built(
        &launcher,
        Command::new("go")
            .args(["build", "-o", "check-go", "check.go"])
            .env("CGO_ENABLED", "0")
            .env("GOCACHE", &go)
            .env("GOPATH", &go)
            .env("GO111MODULE", "off"),
        "go",
    );
    readable(&input);
    let bind = format!("--input={}", input.display());
    for command in [
        &["python3", "-I", "/input/check.py"][..],
        &["node", "/input/check.js"],
        &["sh", "/input/check.sh"],
        &["sh", "-c", "javac -d . /input/Check.java && java Check"],
        &["/input/check-rust"],
        &["/input/check-glibc"],
        &["/input/check-musl"],
        &["/input/check-go"],
    ] {
        let options = [ROOM, &[bind.as_str()]].concat();
        let ran = finish(&mut launcher.command_in(TOOLCHAINS, &options, command));
        assert_eq!(ran.code, Some(0), "{command:?}: {ran:?}");
    }
}

#[test]
#[ignore = "needs an engine"]
fn the_example_image_runs_python_and_nothing_else() {
    let build = concat!(env!("CARGO_MANIFEST_DIR"), "/images/agent-python/build");
    // Standard output alone: an engine's client may have advice on standard error.
    let built = Command::new(build).output().unwrap();
    assert!(built.status.success(), "{built:?}");
    let image = String::from_utf8(built.stdout).unwrap().trim().to_owned();
    let launcher = Launcher::new();
    let answer = [
        "python3",
        "-I",
        "-c",
        "import ssl, sqlite3, json; print(6 * 7)",
    ];
    let ran = finish(&mut launcher.command_in(&image, &[], &answer)).succeeded();
    assert_eq!(ran.stdout(), "42\n");
    // Named by its id, it is pinned.
    let pinned = ran
        .record
        .warnings
        .iter()
        .all(|warning| !warning.contains("not pinned"));
    assert!(pinned, "{:?}", ran.record.warnings);
    for absent in ["sh", "apt-get", "pip"] {
        let ran = finish(&mut launcher.command_in(&image, &[], &[absent]));
        assert_eq!(ran.code, Some(127), "{absent}: {ran:?}");
    }
}

#[test]
#[ignore = "needs an engine"]
fn the_first_command_of_the_readme_works() {
    let readme = concat!(env!("CARGO_MANIFEST_DIR"), "/README.md");
    let first = commands(&fs::read_to_string(readme).unwrap(), "run");
    let launcher = Launcher::new();
    let mut shell = launcher.bare(&[]);
    let folder = Path::new(shell.get_program()).parent().unwrap().to_owned();
    let path = std::env::var_os("PATH").unwrap();
    let path = std::env::join_paths([folder].into_iter().chain(std::env::split_paths(&path)));
    let state = launcher.path("state");
    shell = Command::new("bash");
    shell
        .args(["-euc", &first])
        .env("PATH", path.unwrap())
        .env("IMAGE", AGENT_IMAGE)
        .env("XDG_STATE_HOME", state);
    let ran = attempt(&mut shell);
    assert!(ran.ok && ran.text == "42", "{ran:?}");
    assert_eq!(launcher.recorded().len(), 1);
}

/// The sandbox's user is nobody's owner.
fn readable(folder: &Path) {
    set_mode(folder, 0o755);
    for entry in fs::read_dir(folder).unwrap() {
        set_mode(&entry.unwrap().path(), 0o755);
    }
}
