use super::*;

fn ended(exit_code: i64) -> Ended {
    Ended {
        exit_code,
        ..Ended::default()
    }
}

fn met(seen: &Seen<'_>) -> Vec<(Limit, Evidence)> {
    let spec = RunSpec::new("image", ["true"]);
    limits(&spec, seen)
        .into_iter()
        .map(|reached| (reached.limit, reached.evidence))
        .collect()
}

#[test]
fn the_surest_evidence_names_the_limit() {
    let seen = Seen {
        pids: 64,
        stderr: "sh: fork: Resource temporarily unavailable\nNo space left on device",
        stdout_truncated: true,
        stderr_truncated: true,
        ..Seen::default()
    };
    assert_eq!(
        met(&seen),
        [
            (Limit::Pids, Evidence::Engine),
            (Limit::Output, Evidence::Launcher),
            (Limit::Disk, Evidence::Program)
        ]
    );
    let killed = Seen {
        ended: Ended {
            exit_code: 137,
            oom_killed: true,
            error: None,
        },
        ..Seen::default()
    };
    assert_eq!(met(&killed), [(Limit::Memory, Evidence::Engine)]);
    let file = Seen {
        ended: ended(153),
        ..Seen::default()
    };
    assert_eq!(met(&file), [(Limit::FileSize, Evidence::Engine)]);
    assert_eq!(met(&Seen::default()), []);
    let both = limits(&RunSpec::new("image", ["true"]), &seen);
    let cut = "standard output and standard error were each cut";
    assert!(
        both.iter().any(|reached| reached.detail.starts_with(cut)),
        "{both:?}"
    );
}

#[test]
fn five_ends_that_look_alike_are_told_apart() {
    let oom = Ended {
        exit_code: 137,
        oom_killed: true,
        error: None,
    };
    let fatal = "[FATAL tini (7)] exec nope failed: No such file or directory\n";
    for (ended, timed_out, stderr, expected) in [
        (&ended(137), false, "", (137, None, None)),
        (&oom, false, "", (137, Some(9), None)),
        (&ended(137), true, "", (124, Some(9), None)),
        (
            &ended(127),
            false,
            fatal,
            (127, None, Some("no such command")),
        ),
        (
            &ended(126),
            false,
            "[FATAL tini (7)] exec x failed: Permission denied",
            (126, None, Some("cannot be executed")),
        ),
        (
            &ended(127),
            false,
            "sh: 1: nope: not found",
            (127, None, None),
        ),
        (
            &ended(127),
            false,
            "working\n[FATAL tini (7)] exec nope failed: No such file or directory\n",
            (127, None, None),
        ),
        (&ended(1), false, fatal, (1, None, None)),
    ] {
        let (code, sent, why) = expected;
        assert_eq!(signal(ended, timed_out), sent);
        let mut seen = Seen {
            ended: ended.clone(),
            stderr,
            ..Seen::default()
        };
        let said = not_executed(&seen, "x\u{1b}", EngineKind::Docker);
        assert_eq!(said.is_some(), why.is_some(), "{stderr}");
        let (told, said) = said.unwrap_or_else(|| (exit_code(ended, timed_out), String::new()));
        assert_eq!(told, code, "{stderr}");
        assert!(said.contains(why.unwrap_or_default()), "{said}");
        assert!(!said.contains('\u{1b}'), "{said}");
        seen.stdout_bytes = 1;
        assert_eq!(
            not_executed(&seen, "x", EngineKind::Docker),
            None,
            "{stderr}"
        );
    }
}

#[test]
fn an_init_that_ends_with_1_whatever_the_reason_is_understood() {
    let pid1 = "ERROR (catatonit:6): failed to exec pid1: ";
    for (exit_code, stderr, expected) in [
        (1, format!("{pid1}No such file or directory\n"), Some(127)),
        (1, format!("{pid1}Permission denied\n"), Some(126)),
        (127, format!("{pid1}No such file or directory\n"), Some(127)),
        (1, format!("working\n{pid1}Permission denied\n"), None),
        (1, "ERROR (catatonit:6): something else\n".to_owned(), None),
    ] {
        let seen = Seen {
            ended: ended(exit_code),
            stderr: &stderr,
            ..Seen::default()
        };
        let code = |engine| not_executed(&seen, "x", engine).map(|(code, _)| code);
        assert_eq!(code(EngineKind::Podman), expected, "{exit_code} {stderr}");
        // Docker has another init, and a program may write anything.
        assert_eq!(code(EngineKind::Docker), None, "{exit_code} {stderr}");
    }
}
