//! What ends a run, and that its end is told apart from every other.

use std::{fs, io::Write as _, process::Command, time::Duration};

use eclusa::record::{Limit, RunRecord};
use rustix::process::Signal;

use super::super::{Launcher, Running, finish, finish_with, left, sha256};
use crate::docker::{AGENT_IMAGE, attempt, docker};

#[test]
#[ignore = "needs Docker"]
fn a_timeout_kills_and_removes_whatever_the_command_does() {
    timeout_kills(&Launcher::new());
}

/// A stubborn command on any engine.
pub(crate) fn timeout_kills(launcher: &Launcher) {
    let stubborn = "trap '' TERM INT HUP; while :; do sleep 600; done";
    let ran = launcher.shell(&["--timeout=1s"], stubborn);
    assert_eq!(ran.code, Some(124), "{ran:?}");
    assert!(ran.record.timed_out && !ran.record.oom_killed, "{ran:?}");
    assert_eq!(ran.record.signal, Some(9));
    assert_eq!(ran.limits(), [Limit::Timeout]);
    let duration = ran.record.duration_ms;
    assert!((1000..4000).contains(&duration), "{ran:?}");
    assert!(ran.took < Duration::from_secs(15), "{ran:?}");
}

#[test]
#[ignore = "needs Docker"]
fn exit_codes_that_look_alike_are_told_apart() {
    exit_codes_are_told_apart(&Launcher::new());
}

/// Ends that look alike, on any engine.
pub(crate) fn exit_codes_are_told_apart(launcher: &Launcher) {
    let told = |record: &RunRecord| {
        let error = record.error.as_deref().unwrap_or_default();
        let kind = ["no such command", "cannot be executed"];
        let kind = kind.into_iter().find(|kind| error.contains(kind));
        (record.exit_code, record.signal, record.timed_out, kind)
    };
    let by_itself = ["sh", "-c"];
    for (command, expected) in [
        (["exit 137"].as_slice(), (137, None, false, None)),
        (&["kill -9 $$"], (137, None, false, None)),
        (&["exit 124"], (124, None, false, None)),
        (&["exit 125"], (125, None, false, None)),
        (&["exit 126"], (126, None, false, None)),
        (&["exit 127"], (127, None, false, None)),
        (&["/no/such"], (127, None, false, Some("no such command"))),
        (
            &["nosuch", "x"],
            (127, None, false, Some("no such command")),
        ),
        (
            &["/etc/passwd"],
            (126, None, false, Some("cannot be executed")),
        ),
        (&["/etc"], (126, None, false, Some("cannot be executed"))),
    ] {
        let is_script = command.iter().any(|word| word.contains(' '));
        let prefix = if is_script { &by_itself[..] } else { &[] };
        let ran = launcher.run(&[], &[prefix, command].concat());
        assert_eq!(told(&ran.record), expected, "{command:?}: {ran:?}");
        assert_eq!(ran.record.error.is_some(), expected.3.is_some(), "{ran:?}");
    }
}

#[test]
#[ignore = "needs Docker"]
fn what_the_launcher_refuses_is_125_and_says_what_to_do() {
    let launcher = Launcher::new();
    for (arguments, expected) in [
        (
            ["--memory=0", AGENT_IMAGE].as_slice(),
            "write for example 512m",
        ),
        (&["--timeout=0s", AGENT_IMAGE], "--timeout"),
        (&["--pids=-1", AGENT_IMAGE], "--pids"),
        (&["--unlimited", AGENT_IMAGE], "unexpected argument"),
        (&["--env=PATH", AGENT_IMAGE], "is not NAME=VALUE"),
        (
            &["--env=GITHUB_TOKEN=x", AGENT_IMAGE],
            "--dangerously-allow-secret-env",
        ),
        (
            &["--pull=never", "nosuch.example.com/image"],
            "there is no image nosuch",
        ),
        (
            &["--workdir=relative", AGENT_IMAGE],
            "is not an absolute path",
        ),
        (&["--runtime=nosuch", AGENT_IMAGE], "nosuch"),
        (&["--seccomp=/dev/null", AGENT_IMAGE], "--seccomp /dev/null"),
        (&["--config=nosuch.toml", AGENT_IMAGE], "nosuch.toml"),
        (
            &["--host=unix:///nosuch.sock", AGENT_IMAGE],
            "no engine answers at unix:///nosuch.sock",
        ),
        (
            &["--host=ssh://example.com", AGENT_IMAGE],
            "use --input-copy",
        ),
    ] {
        let mut run = launcher.bare(&["run"]);
        let said = run.args(arguments).args(["--", "echo", "it ran"]).output();
        let said = said.unwrap();
        assert_eq!(said.status.code(), Some(125), "{arguments:?}: {said:?}");
        assert!(said.stdout.is_empty(), "{arguments:?}: {said:?}");
        let said = String::from_utf8(said.stderr).unwrap();
        assert!(said.contains(expected), "{arguments:?}: {said}");
        assert!(!said.contains("panicked"), "{arguments:?}: {said}");
    }
}

#[test]
#[ignore = "needs Docker"]
fn a_signal_to_the_launcher_removes_everything() {
    signal_removes(&Launcher::new());
}

/// A launcher that is told to stop, on any engine.
pub(crate) fn signal_removes(launcher: &Launcher) {
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143), (Signal::HUP, 129)] {
        let mut run = launcher.command(&["--timeout=60s"], &["sleep", "600"]);
        let running = Running::start(&mut run);
        let id = running.sandbox();
        running.signal(signal);
        let (output, took) = running.finish(b"");
        assert_eq!(output.status.code(), Some(code), "{output:?}");
        assert!(took < Duration::from_secs(20), "{took:?}");
        let record: RunRecord = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(record.run, id);
        let error = record.error.unwrap();
        assert!(error.starts_with("interrupted by signal"), "{error}");
        assert_eq!(launcher.left(&id), []);
    }
}

#[test]
#[ignore = "needs Docker"]
fn the_next_start_reaps_what_a_killed_launcher_left_and_nothing_else() {
    let launcher = Launcher::alone();
    let start = || Running::start(&mut launcher.command(&["--timeout=60s"], &["sleep", "600"]));
    let (killed, alive) = (start(), start());
    let (orphan, living) = (killed.sandbox(), alive.sandbox());
    let foreign = Foreign::new();
    killed.signal(Signal::KILL);
    killed.finish(b"");
    assert_ne!(left(&orphan), []);

    finish(&mut launcher.command(&[], &["true"])).succeeded();
    assert_eq!(left(&orphan), []);
    assert_ne!(left(&living), []);
    assert_ne!(left(Foreign::RUN), []);
    let recorded = launcher.recorded();
    let told = recorded.iter().find(|record| record.run == orphan);
    let told = told.unwrap().error.as_deref().unwrap();
    assert!(told.contains("the launcher was killed"), "{told}");
    drop(foreign);
    alive.signal(Signal::TERM);
    alive.finish(b"");
    assert_eq!(left(&living), []);
}

/// A container that another user's launcher made long ago.
struct Foreign;

impl Foreign {
    const RUN: &str = "suite-foreign";

    fn new() -> Self {
        drop(Self);
        let labels = [
            ("run", Self::RUN),
            ("owner", "another:1000"),
            ("process", "1.1.1"),
            ("started", "2026-01-01T00:00:00Z"),
            ("deadline", "2026-01-01T00:01:00Z"),
            ("image", "example"),
        ];
        let labels = labels.map(|(name, value)| format!("--label=eclusa.{name}={value}"));
        let labels: Vec<&str> = labels.iter().map(String::as_str).collect();
        let create = ["create", "--network=none", "--name", Self::RUN];
        docker(&[&create[..], &labels, &[AGENT_IMAGE, "true"]].concat());
        Self
    }
}

impl Drop for Foreign {
    fn drop(&mut self) {
        attempt(Command::new("docker").args(["rm", "--force", Self::RUN]));
    }
}

#[test]
#[ignore = "needs Docker"]
fn standard_input_is_passed_through_to_its_end_or_is_empty() {
    input_is_passed_through(&Launcher::new());
}

/// Standard input on any engine.
pub(crate) fn input_is_passed_through(launcher: &Launcher) {
    let input: Vec<u8> = (0..3_000_000_u32).map(|at| at.to_le_bytes()[1]).collect();
    let file = launcher.path("input");
    fs::write(&file, &input).unwrap();
    let digest = sha256(&file);
    let sum = ["sha256sum"];
    let ran = finish_with(&mut launcher.command(&["--stdin"], &sum), &input).succeeded();
    assert_eq!(ran.stdout(), format!("{digest}  -\n"));

    let ran = finish_with(&mut launcher.command(&[], &["cat"]), b"not asked for").succeeded();
    assert_eq!(ran.stdout(), "");
}

#[test]
#[ignore = "needs Docker"]
fn an_input_that_does_not_end_does_not_hold_the_run_open() {
    let launcher = Launcher::new();
    let mut running = Running::start(&mut launcher.command(&["--stdin"], &["head", "-c5"]));
    let mut held = running.child.stdin.take().unwrap();
    held.write_all(b"hello, and more").unwrap();
    let output = running.child.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let record: RunRecord = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(record.output.unwrap().stdout, "hello");
}
