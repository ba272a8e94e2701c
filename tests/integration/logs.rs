//! `eclusa logs` over what a real proxy recorded.

mod demo;
mod follow;
mod forms;
mod rotated;
mod visited;

use std::{
    fs,
    io::Write as _,
    path::Path,
    process::{Output, Stdio},
};

use serde_json::Value;

use self::visited::visited;
use crate::support::{
    proxy::{TestProxy, command},
    world::World,
};

/// Exit code, standard output, standard error of `eclusa logs`.
fn logs(args: &[&str]) -> (Option<i32>, String, String) {
    let Output {
        status,
        stdout,
        stderr,
    } = command().arg("logs").args(args).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (status.code(), text(stdout), text(stderr))
}

/// What `eclusa logs` prints where all is well.
fn printed(args: &[&str]) -> String {
    let (code, out, err) = logs(args);
    assert_eq!((code, &*err), (Some(0), ""), "{args:?}: {out}");
    out
}

fn stop(proxy: &mut TestProxy) {
    proxy.signal("TERM");
    assert!(proxy.wait().success());
}

/// The lines of the log for which `wanted` holds, byte for byte.
fn lines(log: &Path, wanted: impl Fn(&Value) -> bool) -> String {
    let text = fs::read_to_string(log).unwrap();
    let lines = text.split_inclusive('\n');
    lines
        .filter(|line| wanted(&serde_json::from_str(line).unwrap()))
        .collect()
}

/// Filters, how many lines they pass, and which.
type Case<'c> = (&'c [&'c str], usize, &'c dyn Fn(&Value) -> bool);

/// What is printed with each of `cases`, held against the lines for which its test holds.
fn assert_lines(world: &World, cases: &[Case<'_>]) {
    let config = world.proxy.config();
    let log = world.proxy.folder().join("audit.jsonl");
    for (filters, count, wanted) in cases {
        let all = [&["-c", config.to_str().unwrap(), "--json"], *filters].concat();
        let out = printed(&all);
        assert_eq!(out, lines(&log, wanted), "{filters:?}");
        assert_eq!(out.lines().count(), *count, "{filters:?}: {out}");
    }
}

#[test]
fn filters_pass_what_was_asked_for_byte_for_byte() {
    let refused = |line: &Value| {
        line["decision"] == "deny"
            || line["decision"] == "would_deny"
            || line["outcome"] == "refused"
    };
    let refused_query = |line: &Value| line["event"] == "dns" && line["decision"] == "deny";
    let watched = |line: &Value| line["client"] == "127.0.9.1";
    assert_lines(
        &visited(),
        &[
            (&[], 24, &|_| true),
            (&["--event", "decision"], 10, &|line| {
                line["event"] == "decision"
            }),
            (
                &["--host", "evil.example", "--event", "dns"],
                2,
                &refused_query,
            ),
            (&["--denied"], 8, &refused),
            (&["--reason", "sni_mismatch"], 1, &|line| {
                line["reason"] == "sni_mismatch"
            }),
            (&["--run", "01JDRUN"], 4, &|line| line["run"].is_string()),
            (&["--client", "127.0.9.0/24"], 2, &watched),
            (&["--profile", "watched", "--allowed"], 0, &|_| false),
            (&["--since", "1h"], 24, &|_| true),
            (&["--until", "1h"], 0, &|_| false),
        ],
    );
}

#[test]
fn a_host_is_met_by_its_decisions_queries_and_closes() {
    let world = visited();
    let decisions = world.proxy.events("decision");
    let of_host = |line: &Value| line["host"] == "allowed.example";
    let ids: Vec<&Value> = decisions
        .iter()
        .filter(|line| of_host(line))
        .map(|line| &line["id"])
        .collect();
    let about = |line: &Value| ids.contains(&&line["id"]) || line["name"] == "allowed.example";
    assert_lines(&world, &[(&["--host", "allowed.example"], 9, &about)]);
}

#[test]
fn torn_and_foreign_lines_are_told_and_passed_over() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.jsonl");
    let line = |id: u8| {
        format!(
            "{{\"schema\":1,\"ts\":\"2026-01-02T03:04:05.678Z\",\"event\":\"stop\",\"id\":\"{id}\"}}\n"
        )
    };
    let mut file = fs::File::create(&path).unwrap();
    let foreign = "hello\u{1b}]0;owned\u{7}\n".to_owned();
    let later = line(4).replace("schema\":1", "schema\":9");
    let endless = format!("{}\n", "x".repeat(3 << 20));
    let whole = [line(1), line(2), line(3)];
    for part in [&whole[0], &foreign, &whole[1], &later, &endless, &whole[2]] {
        file.write_all(part.as_bytes()).unwrap();
    }
    file.write_all(b"{\"schema\":1,\"ts\":\"2026-01").unwrap();
    drop(file);
    let path = path.to_str().unwrap();
    let (code, out, err) = logs(&["--json", path]);
    assert_eq!((code, out), (Some(0), whole.concat()));
    let expected = [
        format!("{path}, line 2: is not a record; passed over"),
        format!("{path}, line 4: is of schema 9, which a later version wrote; passed over"),
        format!("{path}, line 5: is longer than 1 MiB; passed over"),
        format!("{path}, line 7: is torn: it has no end; passed over"),
    ]
    .map(|fault| format!("eclusa: warning: {fault}\n"));
    assert_eq!(err, expected.concat());
    // A log of another program is not told line by line.
    fs::write(path, "hello\n".repeat(1000)).unwrap();
    let (code, out, err) = logs(&[path, "--denied"]);
    assert_eq!((code, &*out, err.lines().count()), (Some(0), "", 6));
    assert!(err.ends_with("995 more lines are no records\n"), "{err}");
}

#[test]
fn what_cannot_be_answered_is_64_and_says_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str, content: &str| {
        let path = folder.path().join(name);
        fs::write(&path, content).unwrap();
        path.display().to_string()
    };
    let log = at("audit.jsonl", "");
    let broken = at("broken.toml", "[listen]\nproxi = []\n");
    let streamed = at("streamed.toml", "[audit]\nfile = \"stdout\"\n");
    let absent = at(
        "absent.toml",
        "[audit]\nfile = \"/nonexistent/audit.jsonl\"\n",
    );
    let packed = at("audit.jsonl.xz", "\u{fd}7zXZ");
    fs::write(&packed, b"\xfd7zXZ\0").unwrap();
    let directory = folder.path().display().to_string();
    for (args, expected) in [
        (vec!["/nonexistent/log"], "there is no log /nonexistent/log"),
        (
            vec!["-c", &absent],
            "there is no log /nonexistent/audit.jsonl",
        ),
        (vec![&directory], "is a directory"),
        (vec![&packed], "compressed by xz"),
        (vec!["-c", &broken], "did you mean `proxy`?"),
        (vec!["-c", &streamed], "name -"),
        (vec!["-c", "/nonexistent.toml"], "no FILE was named"),
        (
            vec![&log, "--reason", "not_allowlist"],
            "did you mean `not_allowlisted`?",
        ),
        (vec![&log, "--event", "decison"], "did you mean `decision`?"),
        (
            vec![&log, "--host", "a.*.example"],
            "a star stands only in front",
        ),
        (
            vec![&log, "--client", "10.0.0.1/8"],
            "bits set behind its prefix",
        ),
        (
            vec![&log, "--since", "yesterday"],
            "\"yesterday\" is neither",
        ),
        (
            vec![&log, "--since", "1h", "--until", "2h"],
            "is not before",
        ),
        (vec![&log, "--markdown"], "--summary"),
        (vec![&log, "--by", "run"], "--summary"),
        (vec![&log, "-f", "--summary"], "cannot be used with"),
        (vec![&log, &log, "-f"], "--follow is for one log"),
        (vec!["-", "-f"], "--follow is for one log"),
        (vec!["--rotated"], "<FILE>"),
    ] {
        let (code, out, err) = logs(&args);
        assert_eq!((code, &*out), (Some(64), ""), "{args:?}: {err}");
        assert!(err.contains(expected), "{args:?}: {err}");
    }
}

#[test]
fn a_reader_that_goes_away_ends_it_quietly() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.jsonl");
    let line = "{\"schema\":1,\"ts\":\"2026-01-02T03:04:05.678Z\",\"event\":\"stop\"}\n";
    fs::write(&path, line.repeat(100_000)).unwrap();
    for args in [
        &["--json"][..],
        &[],
        &["--follow"],
        &["--follow", "-n", "1"],
    ] {
        let mut child = command()
            .arg("logs")
            .arg(&path)
            .args(args)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut first = [0; 20];
        std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut first).unwrap();
        drop(child.stdout.take());
        let ended = child.wait_with_output().unwrap();
        let err = String::from_utf8(ended.stderr).unwrap();
        assert_eq!((ended.status.code(), &*err), (Some(0), ""), "{args:?}");
    }
}

#[test]
fn standard_input_is_a_log_too() {
    let line = "{\"schema\":1,\"ts\":\"2026-01-02T03:04:05.678Z\",\"event\":\"stop\"}\n";
    let mut child = command()
        .args(["logs", "-", "--json"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(line.as_bytes())
        .unwrap();
    let ended = child.wait_with_output().unwrap();
    assert!(ended.status.success());
    assert_eq!(String::from_utf8(ended.stdout).unwrap(), line);
}
