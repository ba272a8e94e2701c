//! The log that `make demo` makes, in every form: what the documents show is what is printed.

use std::fs;

use super::printed;
use crate::support::proxy::command;

const LOG: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/logs/demo.jsonl");

/// The demo's policy, as far as it is about hosts; its origin is a container.
const POLICY: &str = r#"
[profiles.default]
deny = ["denied.demo.example"]
[[profiles.default.rules]]
hosts = ["allowed.demo.example"]
addresses = ["172.16.0.0/12"]
"#;

#[test]
fn the_demo_is_shown_line_by_line_and_counted() {
    insta::assert_snapshot!("lines", printed(&["--denied", LOG]));
    insta::assert_snapshot!("summary", printed(&["--summary", LOG]));
    insta::assert_snapshot!("markdown", printed(&["--summary", "--markdown", LOG]));
    let proof = printed(&["--verify", LOG]).replace(LOG, "demo.jsonl");
    insta::assert_snapshot!("proof", proof);
    // Every line as it stands there.
    assert_eq!(printed(&["--json", LOG]), fs::read_to_string(LOG).unwrap());
}

/// The page for operators, whose examples are this log.
fn page() -> String {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/operators.md");
    fs::read_to_string(path).unwrap()
}

#[test]
fn the_page_for_operators_shows_what_is_printed() {
    let page = page();
    let denied = printed(&["--denied", LOG]);
    let summary = printed(&["--summary", LOG]);
    let (summary, _) = summary.split_once("\nNames asked for").unwrap();
    let proof = printed(&["--verify", LOG]).replace(LOG, "target/demo/audit.jsonl");
    let suggested = printed(&["--suggest", LOG]);
    let denied: Vec<&str> = denied.lines().take(6).collect();
    for shown in [&denied.join("\n"), summary, &proof, &suggested] {
        assert!(page.contains(shown.trim_end()), "not in the page:\n{shown}");
    }
}

/// `check --replay` of the demo's log: exit code and output.
fn replayed(policy: &str) -> (Option<i32>, String) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("new.toml");
    fs::write(&path, policy).unwrap();
    let mut command = command();
    let ran = command
        .args(["check", "-c"])
        .arg(&path)
        .args(["--replay", LOG])
        .output()
        .unwrap();
    let text = String::from_utf8(ran.stdout).unwrap();
    assert_eq!(String::from_utf8(ran.stderr).unwrap(), "");
    (ran.status.code(), text)
}

#[test]
fn the_demo_judged_again_by_its_own_policy_is_as_it_was() {
    let (code, told) = replayed(POLICY);
    assert_eq!(code, Some(0), "{told}");
    assert!(told.starts_with("Nothing that was asked"), "{told}");
}

#[test]
fn what_the_demo_suggests_allows_exactly_that_when_it_is_applied() {
    let suggested = printed(&["--suggest", LOG]);
    insta::assert_snapshot!("suggested", suggested);
    let entries: Vec<&str> = suggested
        .lines()
        .filter(|line| line.trim_start().starts_with('"'))
        .collect();
    assert_eq!(entries, [r#"    "https://evil.example.net","#]);
    let applied = POLICY.replace(
        "[profiles.default]\n",
        &format!("[profiles.default]\nallow = [{}]\n", entries.concat()),
    );
    let (code, told) = replayed(&applied);
    assert_eq!(code, Some(1), "{told}");
    assert!(page().contains(&told), "not in the page:\n{told}");
    // The output is a configuration by itself too, of what was suggested and nothing else.
    let (code, told) = replayed(&suggested);
    assert_eq!(code, Some(1), "{told}");
    let passed: Vec<&str> = told
        .lines()
        .filter(|line| line.contains("deny    allow"))
        .collect();
    assert!(
        passed.iter().all(|line| line.contains("evil.example.net")),
        "{told}"
    );
}
