use std::{fs, path::Path};

use super::*;
use crate::cli::tests::{Ran, eclusa};

/// Two files of two records each, oldest first, and the links of all four.
fn log(folder: &Path) -> (Vec<String>, Vec<Link>) {
    let mut links = vec![Link::FIRST];
    let mut files = Vec::new();
    for (name, time) in [("a.1", "03:04:05.678"), ("a", "04:05:06.789")] {
        let mut text = String::new();
        for event in ["start", "stop"] {
            let before = links[links.len() - 1];
            let line = format!(
                "{{\"schema\":1,\"ts\":\"2026-01-02T{time}Z\",\"prev\":\"{before}\",\"event\":\"{event}\"}}"
            );
            links.push(before.then(line.as_bytes()));
            text.push_str(&line);
            text.push('\n');
        }
        let path = folder.join(name).to_str().unwrap().to_owned();
        fs::write(&path, text).unwrap();
        files.push(path);
    }
    (files, links)
}

fn verify(args: &[&str]) -> Ran {
    eclusa(&[&["logs", "--verify"], args].concat())
}

#[test]
fn a_proof_names_files_times_and_head() {
    let folder = tempfile::tempdir().unwrap();
    let (files, links) = log(folder.path());
    let ran = verify(&["--rotated", &files[1]]);
    let expected = format!(
        "{}: 2 lines, 2026-01-02T03:04:05.678Z to 2026-01-02T03:04:05.678Z\n\
         {}: 2 lines, 2026-01-02T04:05:06.789Z to 2026-01-02T04:05:06.789Z\n\
         begins with the first line of the log\n\
         head {}\n\
         ok: 4 lines in 2 files, none changed, removed or moved\n",
        files[0], files[1], links[4]
    );
    assert_eq!((ran.code, ran.out), (ExitCode::SUCCESS, expected));

    let head = links[1].to_string();
    let ran = verify(&[&files[1], "--head", &head]);
    let expected = format!(
        "{}: 2 lines, 2026-01-02T04:05:06.789Z to 2026-01-02T04:05:06.789Z\n\
         begins after {}, which is not there\n\
         head {}\n\
         broken: no line has the link {head}: lines were cut off the end, or the files that held \
         it are not there\n",
        files[1], links[2], links[4]
    );
    assert_eq!((ran.code, ran.out), (Exit::Denied.into(), expected));
}

#[test]
fn a_break_names_its_place_and_what_may_have_been_done() {
    let folder = tempfile::tempdir().unwrap();
    let (files, links) = log(folder.path());
    let ran = verify(&[&files[1], &files[0]]);
    let at = format!(
        "broken: {}, line 1, byte 0\n  it names     {}\n",
        files[0], links[0]
    );
    let before = format!("  not the last {} ({}, line 2)\n", links[4], files[1]);
    assert_eq!(ran.code, Exit::Denied.into());
    assert!(
        ran.out.contains(&(at + &before + "  a chain begins anew")),
        "{}",
        ran.out
    );

    let text = fs::read_to_string(&files[0]).unwrap();
    fs::write(&files[0], text.replace("start", "START")).unwrap();
    let ran = verify(&[&files[0], "--json"]);
    let report: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(
        report["broken"],
        serde_json::json!({
            "file": files[0], "line": 2, "offset": text.len() / 2 + 1,
            "expected": Link::FIRST.then(text.replace("start", "START").lines().next().unwrap().as_bytes()),
            "found": links[1], "cause": "lost",
            "why": "the line before it was changed, or lines between the two were removed",
        })
    );
}

#[test]
fn a_head_is_a_link_and_needs_the_proof() {
    for (args, expected) in [
        (["logs", "--verify", "--head=00"], "a link is 64 lower-case"),
        (["logs", "--head", &"0".repeat(64)], "--verify"),
    ] {
        let ran = eclusa(&args);
        assert_eq!(ran.code, Exit::Usage.into());
        assert!(ran.err.contains(expected), "{}", ran.err);
    }
}
