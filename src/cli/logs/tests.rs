//! Every form of the answer over logs that somebody has damaged.

use std::fs;

use proptest::prelude::*;

use crate::cli::tests::{configured, eclusa};

const DEMO: &[u8] = include_bytes!("../../../tests/data/logs/demo.jsonl");

const POLICY: &str = r#"
[profiles.default]
allow = ["evil.example.net"]
deny = [".denied.demo.example"]
[[clients]]
source = "10.231.0.0/16"
profile = "default"
"#;

/// What is put into a log: what drives a terminal, ends a string, a line or a comment, and numbers
/// at the edges.
fn hostile() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        prop::sample::select(vec![
            &b"\\u001b]0;x\\u0007"[..],
            b"\x1b[31m",
            b"\\n[profiles.x]\\n",
            b"\n",
            b"\0",
            b"\"",
            b"\\",
            b"\\u202e",
            b"\xe2\x80\xae",
            b"\xff",
            b"*.com",
            b"18446744073709551615",
            b"-1",
            b"1e400",
            b"null",
            b"{",
            b"}",
        ])
        .prop_map(<[u8]>::to_vec),
        prop::collection::vec(any::<u8>(), 1..40),
    ]
}

fn damaged() -> impl Strategy<Value = Vec<u8>> {
    let cuts = prop::collection::vec(
        (any::<prop::sample::Index>(), 0_usize..60, hostile()),
        1..12,
    );
    cuts.prop_map(|cuts| {
        let mut log = DEMO.to_vec();
        for (place, length, put) in cuts {
            let from = place.index(log.len());
            let to = (from + length).min(log.len());
            log.splice(from..to, put);
        }
        log
    })
}

fn is_plain(text: &str) -> bool {
    let drives = |c: char| c.is_control() && c != '\n';
    !text
        .chars()
        .any(|c| drives(c) || ('\u{202a}'..='\u{202e}').contains(&c))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_damaged_log_is_read_and_nothing_of_it_drives_a_terminal(log in damaged()) {
        let (folder, policy) = configured(POLICY);
        let path = folder.path().join("audit.jsonl");
        fs::write(&path, &log).unwrap();
        let path = path.to_str().unwrap();
        for args in [
            &["logs", path][..],
            &["logs", path, "--denied", "--utc", "-n", "5"],
            &["logs", path, "--host", "*.demo.example", "--since", "2026-11-30"],
            &["logs", path, "--summary", "--by", "run"],
            &["logs", path, "--summary", "--markdown"],
            &["logs", path, "--summary", "--json"],
            &["logs", path, "--suggest"],
            &["logs", path, "--suggest", "--json"],
            &["logs", path, "--suggest", "-c", &policy],
            &["logs", path, "--verify"],
            &["logs", path, "--verify", "--json"],
            &["check", "-c", &policy, "--replay", path],
            &["check", "-c", &policy, "--replay", path, "--json"],
        ] {
            let ran = eclusa(args);
            prop_assert!(is_plain(&ran.out), "{args:?}: {:?}", ran.out);
            prop_assert!(is_plain(&ran.err), "{args:?}: {:?}", ran.err);
        }
    }

    #[test]
    fn what_a_damaged_log_suggests_is_a_configuration(log in damaged()) {
        let (folder, _) = configured("");
        let path = folder.path().join("audit.jsonl");
        fs::write(&path, &log).unwrap();
        let suggested = eclusa(&["logs", path.to_str().unwrap(), "--suggest"]);
        let applied = folder.path().join("suggested.toml");
        fs::write(&applied, &suggested.out).unwrap();
        let checked = eclusa(&["check", "-c", applied.to_str().unwrap()]);
        prop_assert_eq!(checked.code, std::process::ExitCode::SUCCESS, "{}{}", suggested.out, checked.err);
    }
}
