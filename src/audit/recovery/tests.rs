use std::{fmt::Write as _, fs};

use tempfile::TempDir;

use super::*;

fn id(number: u128) -> String {
    Ulid(number).to_string()
}

fn line(event: &str, rest: &str) -> String {
    format!(
        "{{\"schema\":1,\"ts\":\"2026-01-02T03:04:05.678Z\",\"event\":\"{event}\",\
         \"run\":null,\"profile\":\"default\",\"client\":\"10.0.0.1\"{rest}}}\n"
    )
}

fn decision(number: u128, decision: &str) -> String {
    let rest = format!(
        r#","id":"{}","via":"sni","decision":"{decision}""#,
        id(number)
    );
    line("decision", &rest)
}

fn close(number: u128) -> String {
    line(
        "close",
        &format!(r#","id":"{}","outcome":"done""#, id(number)),
    )
}

/// The numbers of what is unclosed in `files`, newest first.
fn found(files: &[String]) -> Vec<u128> {
    let folder = TempDir::new().unwrap();
    let paths: Vec<PathBuf> = (0..files.len())
        .map(|number| folder.path().join(number.to_string()))
        .collect();
    for (path, content) in paths.iter().zip(files) {
        fs::write(path, content).unwrap();
    }
    let lines = unclosed(paths.into_iter()).unwrap();
    lines
        .iter()
        .map(|line| Ulid::from_string(line.id.as_deref().unwrap()).unwrap().0)
        .collect()
}

#[test]
fn only_what_was_let_through_and_not_closed_since_the_last_start_is_open() {
    let (start, stop) = (line("start", ""), line("stop", ""));
    for (what, log, expected) in [
        ("an empty log", String::new(), vec![]),
        (
            "in order",
            [&start, &decision(1, "allow"), &close(1)]
                .map(|s| &**s)
                .concat(),
            vec![],
        ),
        (
            "open, in the order of the decisions",
            [&start, &decision(3, "allow"), &decision(2, "would_deny")]
                .map(|s| &**s)
                .concat(),
            vec![2, 3],
        ),
        (
            "refused",
            [&start, &decision(1, "deny")].map(|s| &**s).concat(),
            vec![],
        ),
        (
            "stopped",
            [&start, &decision(1, "allow"), &stop]
                .map(|s| &**s)
                .concat(),
            vec![],
        ),
        (
            "before the last start",
            [&decision(1, "allow"), &start, &decision(2, "allow")]
                .map(|s| &**s)
                .concat(),
            vec![2],
        ),
        ("without a start", decision(1, "allow"), vec![1]),
    ] {
        assert_eq!(found(&[log]), expected, "{what}");
    }
}

#[test]
fn older_files_are_read_until_one_holds_a_start() {
    let newest = close(1) + &decision(5, "allow");
    let middle = close(9) + &decision(4, "allow") + &decision(2, "allow") + &close(2);
    let oldest = decision(8, "allow")
        + &line("start", "")
        + &decision(1, "allow")
        + &decision(3, "allow")
        + &decision(9, "allow");
    let beyond = decision(7, "allow");
    assert_eq!(found(&[newest, middle, oldest, beyond]), [3, 4, 5]);
}

#[test]
fn torn_foreign_and_endless_lines_are_passed_over() {
    let mut log = line("start", "");
    log.push_str("\n\0\0\0\n{\"schema\":1,\"ts\":\"2026\nnull\n[1,2]\nsyslog: hello\n");
    log.push_str("{\"event\":\"close\",\"id\":\"not-an-id\"}\n");
    writeln!(
        log,
        "{{\"event\":\"close\",\"x\":\"{}\"}}",
        "x".repeat(3 << 20)
    )
    .unwrap();
    log.push_str(&decision(1, "allow"));
    log.push_str(&close(1).replace("\"event\"", "\"event\\u0000\""));
    log.push_str(&decision(2, "allow"));
    log.push_str(close(2).trim_end_matches("}\n"));
    assert_eq!(found(&[log]), [1, 2]);
}

#[test]
fn a_missing_file_is_passed_over_and_an_unreadable_one_is_an_error() {
    let folder = TempDir::new().unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::write(at("2"), decision(1, "allow")).unwrap();
    let files = ["0", "1", "2"].map(at);
    assert_eq!(unclosed(files.into_iter()).unwrap().len(), 1);
    fs::create_dir(at("0")).unwrap();
    unclosed([at("0")].into_iter()).unwrap_err();
}
