//! What `check` prints and with which code it ends.

use std::{fs, path::Path, process::ExitCode};

use serde_json::{Value, json};

use crate::cli::{
    Environment, Exit,
    tests::{configured, eclusa, eclusa_in},
};

const POLICY: &str = r#"
[listen]
proxy = ["127.0.0.1:3128"]
[profiles.default]
allow = ["api.example.com", "*.cdn.example.com", "192.0.2.1", "127.0.0.1:3128", "10.9.0.1"]
deny = ["private.cdn.example.com"]

[profiles.learn]
mode = "report"
allow = ["api.example.com"]

[[clients]]
source = "10.199.0.0/24"
profile = "default"
"#;

#[test]
fn decisions_are_an_aligned_table() {
    let (_folder, path) = configured(POLICY);
    let ran = eclusa(&[
        "check",
        "-c",
        &path,
        "https://api.example.com/v1",
        "private.cdn.example.com",
        "evil.example.net:80",
    ]);
    insta::assert_snapshot!(ran.out, @r"
    DESTINATION                 PROFILE  DECISION  REASON           RULE
    https://api.example.com/v1  default  allow     allowlisted      profiles.default.allow[0]
    private.cdn.example.com     default  deny      denied_by_rule   profiles.default.deny[0]
    evil.example.net:80         default  deny      not_allowlisted  -
    ");
    assert_eq!((ran.code, &*ran.err), (Exit::Denied.into(), ""));
}

#[test]
fn the_code_says_whether_all_are_allowed() {
    let (_folder, path) = configured(POLICY);
    for (profile, destinations, expected) in [
        ("default", "api.example.com", ExitCode::SUCCESS),
        (
            "default",
            "api.example.com a.cdn.example.com:80",
            ExitCode::SUCCESS,
        ),
        (
            "default",
            "api.example.com evil.example.net",
            Exit::Denied.into(),
        ),
        ("default", "api.example.com:8443", Exit::Denied.into()),
        ("learn", "api.example.com", ExitCode::SUCCESS),
        // Let through, but not allowed.
        ("learn", "evil.example.net", Exit::Denied.into()),
    ] {
        let args = format!("check -c {path} --profile {profile} {destinations}");
        assert_eq!(
            eclusa(&args.split(' ').collect::<Vec<_>>()).code,
            expected,
            "{args:?}"
        );
    }
}

#[test]
fn decisions_are_json_for_a_program() {
    let (_folder, path) = configured(POLICY);
    let ran = eclusa(&[
        "check",
        "-c",
        &path,
        "--json",
        "api.example.com",
        "http://evil.example.net",
    ]);
    let found: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(
        found,
        json!([
            {
                "destination": "api.example.com",
                "host": "api.example.com",
                "port": 443,
                "profile": "default",
                "decision": "allow",
                "reason": "allowlisted",
                "rule": "profiles.default.allow[0]",
            },
            {
                "destination": "http://evil.example.net",
                "host": "evil.example.net",
                "port": 80,
                "profile": "default",
                "decision": "deny",
                "reason": "not_allowlisted",
                "rule": null,
            },
        ])
    );
    assert_eq!(ran.code, Exit::Denied.into());
}

#[test]
fn the_address_of_a_literal_is_judged_too() {
    let (_folder, path) = configured(&format!(
        "{POLICY}[profiles.nat64]\nallow = [\"[2001:db8:64::a9fe:a9fe]\"]\n\
         [addresses]\nnat64 = [\"2001:db8:64::/96\"]\n"
    ));
    for (destination, decision, reason) in [
        ("127.0.0.1:3128", "deny", "loop_detected"),
        ("10.9.0.1", "allow", "allowlisted"),
        ("8.8.8.8", "deny", "ip_literal"),
        ("[::ffff:169.254.169.254]", "deny", "ip_literal"),
    ] {
        let ran = eclusa(&["check", "-c", &path, "--json", destination]);
        let found: Value = serde_json::from_str(&ran.out).unwrap();
        assert_eq!(
            (found[0]["decision"].as_str(), found[0]["reason"].as_str()),
            (Some(decision), Some(reason)),
            "{destination}: {found}"
        );
    }
    let ran = eclusa(&[
        "check",
        "-c",
        &path,
        "--profile",
        "nat64",
        "[2001:db8:64::a9fe:a9fe]",
    ]);
    let detail = "2001:db8:64::a9fe:a9fe is the instance metadata service";
    assert!(
        ran.out.contains("address_blocked") && ran.out.contains(detail),
        "{ran:?}"
    );
}

#[test]
fn explain_names_every_rule_considered() {
    let (_folder, path) = configured(POLICY);
    let ran = eclusa(&["check", "-c", &path, "--explain", "api.example.com:8443"]);
    let (_, table) = ran
        .out
        .split_once("\nRules considered for api.example.com:8443:\n")
        .unwrap();
    let places: Vec<_> = table
        .lines()
        .map(|line| line.split(' ').next().unwrap())
        .collect();
    assert_eq!(
        places,
        [
            "RULE",
            "profiles.default.deny[0]",
            "profiles.default.allow[0]",
            "profiles.default.allow[1]",
            "profiles.default.allow[2]",
            "profiles.default.allow[3]",
            "profiles.default.allow[4]",
        ]
    );
    assert!(table.contains("the host matches, port 8443"), "{table}");
    let ran = eclusa(&[
        "check",
        "-c",
        &path,
        "--explain",
        "--json",
        "api.example.com",
    ]);
    let found: Value = serde_json::from_str(&ran.out).unwrap();
    let considered = found[0]["considered"].as_array().unwrap();
    let matched = considered
        .iter()
        .find(|row| row["matched"] == true)
        .unwrap();
    assert_eq!(matched["rule"], "profiles.default.allow[0]");
    assert_eq!(matched["pattern"], "api.example.com");
}

#[test]
fn a_profile_is_named_unless_one_is_meant() {
    let (_folder, two) = configured("[profiles.build]\n[profiles.test]\n");
    let (_folder, one) = configured("[profiles.build]\nallow = [\"a.example\"]\n");
    let (_folder, none) = configured("[listen]\n");
    assert_eq!(
        eclusa(&["check", "-c", &one, "a.example"]).code,
        ExitCode::SUCCESS
    );
    for (args, expected) in [
        (
            format!("check -c {two} a.example"),
            "say which profile decides with --profile NAME; there are build, test",
        ),
        (
            format!("check -c {two} --profile biuld a.example"),
            "there is no profile \"biuld\"; did you mean `build`?",
        ),
        (
            format!("check -c {none} a.example"),
            "the configuration has no profile; add [profiles.default]",
        ),
    ] {
        let ran = eclusa(&args.split(' ').collect::<Vec<_>>());
        assert_eq!(
            (ran.code, ran.err),
            (Exit::Usage.into(), format!("eclusa: {expected}\n"))
        );
    }
}

#[test]
fn destinations_that_cannot_be_read_are_all_named() {
    let (_folder, path) = configured(POLICY);
    let ran = eclusa(&[
        "check",
        "-c",
        &path,
        "ftp://a.example",
        "api.example.com",
        "a b",
    ]);
    assert_eq!(ran.code, Exit::Usage.into());
    assert_eq!(ran.out, "");
    assert_eq!(
        ran.err,
        "eclusa: \"ftp://a.example\" is not a destination: \"ftp\" is neither http nor https\n\
         \"a b\" is not a destination: it has a space or a control character\n"
    );
}

#[test]
fn a_valid_file_is_summed_up() {
    let (_folder, path) = configured(&format!(
        "{POLICY}\n[[tests]]\ndestination = \"evil.example.net\"\nprofile = \"default\"\nexpect = \"deny\"\n"
    ));
    let ran = eclusa(&["check", "-c", &path]);
    assert_eq!(
        ran.out,
        format!(
            "warning: profiles.learn.mode: report lets out what the lists do not allow, and our \
             DNS answers such names; data can leave by a name\n\
             {path}: OK: 2 profiles, 7 patterns, 1 client range, 1 of 1 test passed, 1 warning\n"
        )
    );
    assert_eq!((ran.code, &*ran.err), (ExitCode::SUCCESS, ""));
}

#[test]
fn an_expectation_that_does_not_hold_is_named() {
    let tests = r#"
[[tests]]
destination = "https://api.example.com/x"
profile = "default"
expect = "deny"
[[tests]]
destination = "evil.example.net"
profile = "default"
expect = "deny"
reason = "denied_by_rule"
[[tests]]
destination = "evil.example.net"
profile = "learn"
expect = "would_deny"
[[tests]]
destination = "evil.example.net"
profile = "learn"
expect = "deny"
"#;
    let (_folder, path) = configured(&format!("{POLICY}{tests}"));
    let ran = eclusa(&["check", "-c", &path]);
    let lines: Vec<_> = ran.out.lines().skip(1).collect();
    assert_eq!(
        lines,
        [
            "line 16: tests[0]: https://api.example.com/x under \"default\": expected deny, got \
             allow (allowlisted) by profiles.default.allow[0]",
            "line 20: tests[1]: evil.example.net under \"default\": expected deny \
             (denied_by_rule), got deny (not_allowlisted) as no rule allows it",
            "line 29: tests[3]: evil.example.net under \"learn\": expected deny, got would_deny \
             (not_allowlisted) as no rule allows it",
            &format!(
                "{path}: not as expected: 2 profiles, 7 patterns, 1 client range, 1 of 4 tests \
                 passed, 1 warning"
            ),
        ]
    );
    assert_eq!((ran.code, &*ran.err), (Exit::Denied.into(), ""));
    let ran = eclusa(&["check", "-c", &path, "--json"]);
    let found: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(found["tests"][0]["passed"], false);
    assert_eq!(found["tests"][0]["decision"], "allow");
    assert_eq!(found["tests"][2]["passed"], true);
    assert_eq!(ran.code, Exit::Denied.into());
}

#[test]
fn a_valid_file_that_serves_nobody_says_so() {
    let (_folder, path) = configured("[profiles.default]\n");
    let ran = eclusa(&["check", "-c", &path]);
    let notes: Vec<_> = ran
        .out
        .lines()
        .filter(|line| line.starts_with("note: "))
        .collect();
    assert_eq!(notes.len(), 2, "{}", ran.out);
    assert_eq!(ran.code, ExitCode::SUCCESS);
}

#[test]
fn problems_are_json_for_a_program() {
    let (_folder, path) = configured("[listen]\nproxi = []\n");
    let ran = eclusa(&["check", "-c", &path, "--json"]);
    let found: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(
        found,
        json!({
            "config": path,
            "valid": false,
            "problems": [{
                "key": "listen.proxi",
                "line": 2,
                "message": "unknown key; did you mean `proxy`?",
            }],
            "warnings": [],
            "notes": [],
            "counts": null,
            "tests": [],
        })
    );
    assert_eq!(ran.code, Exit::Usage.into());
}

#[test]
fn colour_is_for_terminals_only() {
    let (_folder, path) = configured(POLICY);
    let args = ["check", "-c", &path, "api.example.com"];
    let terminal = Environment {
        colour_out: true,
        ..Environment::default()
    };
    assert!(eclusa_in(&terminal, &args).out.contains('\u{1b}'));
    assert!(!eclusa(&args).out.contains('\u{1b}'));
}

#[test]
fn the_shipped_files_hold_their_own_expectations() {
    for entry in fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("config")).unwrap() {
        let path = entry.unwrap().path();
        if path
            .extension()
            .is_some_and(|extension| extension == "toml")
        {
            let path = path.display().to_string();
            let ran = eclusa(&["check", "-c", &path]);
            assert_eq!(ran.code, ExitCode::SUCCESS, "{path}: {ran:?}");
        }
    }
}
