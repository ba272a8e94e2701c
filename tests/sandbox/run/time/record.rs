//! The launcher's own record file.

use std::{fs, os::unix::fs::PermissionsExt as _};

use eclusa::record::RunRecord;

use super::super::{Launcher, records};
use crate::docker::AGENT_IMAGE;

#[test]
#[ignore = "needs Docker"]
fn each_run_is_one_line_without_what_it_wrote() {
    let launcher = Launcher::new();
    let file = launcher.path("records/runs.jsonl");
    let option = format!("--record={}", file.display());
    let first = launcher.shell(&[&option], "echo hunter2; echo hunter2 >&2; exit 3");
    let second = launcher.run(&[&option], &["nosuch"]);
    let third = launcher.run(&[&option, "--network=host"], &["true"]);
    let printed = [first, second, third].map(|ran| RunRecord {
        output: None,
        ..ran.record
    });
    let mut recorded = records(&file);
    for record in &mut recorded {
        assert!(record.timings.take().is_some(), "{record:?}");
    }
    // A start also records the orphans of others that it removes.
    recorded.retain(|record| printed.iter().any(|own| own.run == record.run));
    assert_eq!(recorded, printed);
    let text = fs::read_to_string(&file).unwrap();
    assert!(
        !text.replace("echo hunter2", "").contains("hunter2"),
        "{text}"
    );
    assert_eq!(
        fs::metadata(&file).unwrap().permissions().mode() & 0o777,
        0o600
    );
}

#[test]
#[ignore = "needs Docker"]
fn a_run_that_cannot_be_recorded_does_not_start() {
    let launcher = Launcher::new();
    let full = launcher.mount("full", "size=64k");
    for file in [launcher.path(""), full.0.join("runs.jsonl")] {
        let option = format!("--record={}", file.display());
        let mut run = launcher.bare(&["run", &option, AGENT_IMAGE, "echo", "it ran"]);
        let said = run.output().unwrap();
        assert_eq!(said.status.code(), Some(125), "{said:?}");
        assert!(said.stdout.is_empty(), "{said:?}");
        let said = String::from_utf8(said.stderr).unwrap();
        assert!(
            said.contains("a run that cannot be recorded does not start"),
            "{said}"
        );
    }
}
