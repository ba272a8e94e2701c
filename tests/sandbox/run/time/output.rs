//! What a run writes: cut, counted, shown, and harmless whatever it is.

use std::{
    fs,
    io::Read as _,
    process::{Command, Stdio},
    thread,
    time::Duration,
};

use eclusa::record::Limit;

use super::super::{Launcher, Ran, Running, left};
use crate::docker::{AGENT_IMAGE, attempt};

#[test]
#[ignore = "needs Docker"]
fn a_flood_is_cut_and_counted_and_costs_no_memory() {
    let launcher = Launcher::new();
    let flood = ["sh", "-c", "yes out & yes err >&2"];
    let running = Running::start(&mut launcher.command(&["--timeout=4s"], &flood));
    let watch = thread::spawn({
        let pid = running.pid();
        move || peak_memory(pid)
    });
    let (output, took) = running.finish(b"");
    let ran = Ran::read(&output, took);
    assert_eq!(left(&ran.record.run), []);
    assert_eq!(
        ran.limits(),
        [Limit::Timeout, Limit::Output],
        "{:?}",
        ran.record.limits
    );
    let (record, kept) = (&ran.record, ran.output());
    for (bytes, truncated, text, line) in [
        (
            record.stdout_bytes,
            record.stdout_truncated,
            &kept.stdout,
            "out\n",
        ),
        (
            record.stderr_bytes,
            record.stderr_truncated,
            &kept.stderr,
            "err\n",
        ),
    ] {
        assert!(bytes > 5_000_000 && truncated, "{bytes}");
        assert!(*text == line.repeat(25_000), "{} kept", text.len());
    }
    let peak = watch.join().unwrap();
    assert!(peak > 0 && peak < 64 * 1024, "{peak} KiB");
}

/// The largest resident set of a process (`VmHWM`, proc_pid_status(5)) until its end, in KiB.
fn peak_memory(pid: u32) -> u64 {
    let mut peak = 0;
    while let Ok(status) = fs::read_to_string(format!("/proc/{pid}/status")) {
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let Some(line) = line else { break };
        peak = line.trim().trim_end_matches(" kB").parse().unwrap();
        thread::park_timeout(Duration::from_millis(20));
    }
    peak
}

#[test]
#[ignore = "needs Docker"]
fn a_command_never_waits_for_what_is_not_kept() {
    let ran = Launcher::new().shell(&[], "head -c 100M /dev/zero; echo end >&2");
    let ran = ran.succeeded();
    assert_eq!(ran.record.stdout_bytes, 100 << 20);
    assert_eq!(
        (ran.output().stderr.as_str(), ran.stdout().len()),
        ("end\n", 100_000)
    );
}

#[test]
#[ignore = "needs Docker"]
fn a_reader_that_does_not_read_keeps_no_sandbox_alive() {
    let launcher = Launcher::new();
    let mut run = launcher.bare(&["run", "--timeout=2s", AGENT_IMAGE, "yes"]);
    let running = Running::start(&mut run);
    let id = running.sandbox();
    crate::docker::wait_until("its removal", || left(&id).is_empty());
    let (output, _) = running.finish(b"");
    assert_eq!(output.status.code(), Some(124));
    let shown = String::from_utf8(output.stdout).unwrap();
    let (kept, marker) = shown.split_at(100_000);
    assert!(kept == "y\n".repeat(50_000));
    assert!(
        marker.starts_with("[eclusa: standard output cut after 100000 bytes;"),
        "{marker}"
    );
}

#[test]
#[ignore = "needs Docker"]
fn a_cut_falls_between_characters_and_odd_bytes_stay_available() {
    let launcher = Launcher::new();
    let ran = launcher.python(&["--max-output=10"], "print('\\U0001F512' * 3, end='')");
    let (record, kept) = (&ran.record, ran.output());
    assert_eq!(kept.stdout, "\u{1F512}\u{1F512}");
    assert_eq!(kept.stdout_base64, None);
    assert_eq!((record.stdout_bytes, record.stdout_truncated), (12, true));

    let ran = launcher
        .shell(&[], r"printf '\033[2J\000\377\r\n'")
        .succeeded();
    assert_eq!(ran.stdout(), "\u{1b}[2J\0\u{fffd}\r\n");
    assert_eq!(ran.output().stdout_base64.as_deref(), Some("G1sySgD/DQo="));
}

#[test]
#[ignore = "needs Docker"]
fn streams_arrive_as_they_are_written_and_a_terminal_is_not_driven() {
    let launcher = Launcher::new();
    let script = r"printf 'out\033[2J'; printf 'err\n' >&2; read -r line; echo $line";
    let arguments = ["run", "--stdin", AGENT_IMAGE, "--", "sh", "-c", script];
    let mut running = Running::start(&mut launcher.bare(&arguments));
    let mut out = running.child.stdout.take().unwrap();
    let mut first = [0; 7];
    // Before its input: what waits for an answer is not held back.
    out.read_exact(&mut first).unwrap();
    assert_eq!(&first, b"out\x1b[2J");
    let (output, _) = running.finish(b"answer\n");
    let mut rest = String::new();
    out.read_to_string(&mut rest).unwrap();
    assert_eq!(
        (rest.as_str(), output.stderr.as_slice()),
        ("answer\n", &b"err\n"[..])
    );

    let eclusa = launcher.bare(&[]);
    let eclusa = eclusa.get_program().to_str().unwrap();
    let run = format!("{eclusa} run {AGENT_IMAGE} printf 'a\\033]0;owned\\007b\\r\\n'");
    let mut terminal = Command::new("script");
    let state = launcher.path("state");
    terminal
        .args(["-qec", &run, "/dev/null"])
        .env("XDG_STATE_HOME", state);
    let shown = attempt(terminal.stdin(Stdio::null()));
    assert!(shown.ok, "{shown:?}");
    let own = shown.text.lines().find(|line| line.starts_with('a'));
    assert_eq!(
        own.map(str::trim_end),
        Some(r"a\u{1b}]0;owned\u{7}b"),
        "{shown:?}"
    );
}
