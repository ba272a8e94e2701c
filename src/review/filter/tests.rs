use jiff::Timestamp;

use super::*;
use crate::policy::Pattern;

mod properties;

/// A log of every kind of line, each named by the last character of its id.
const LOG: &str = include_str!("../../../tests/data/logs/conditions.jsonl");

/// Which lines pass, by the last characters of their ids, closes in brackets.
fn passed(conditions: &Conditions, lines: &[String]) -> String {
    let mut filter = Filter::new(conditions.clone());
    let passed = lines
        .iter()
        .filter_map(|line| filter.pass(line.as_bytes()).unwrap());
    let marks = passed.map(|passed| {
        let Entry::Event(event) = passed.entry else {
            panic!("{:?}", passed.entry);
        };
        let mark = event.id.unwrap().pop().unwrap();
        match event.event.as_str() {
            "close" => format!("({mark})"),
            _ => mark.to_string(),
        }
    });
    marks.collect()
}

/// The line as another program would write it, which is not judged by its bytes.
fn spaced(line: &str) -> String {
    let value: serde_json::Value = serde_json::from_str(line).unwrap();
    serde_json::to_string_pretty(&value)
        .unwrap()
        .replace('\n', "")
}

/// Holds each case for the log as it is encoded, and as another program would write it.
fn assert_pass(cases: &[(&str, Conditions, &str)]) {
    let encoded: Vec<String> = LOG.lines().map(str::to_owned).collect();
    let spaced: Vec<String> = LOG.lines().map(spaced).collect();
    for (what, conditions, expected) in cases {
        assert_eq!(passed(conditions, &encoded), *expected, "{what}");
        assert_eq!(passed(conditions, &spaced), *expected, "{what}, spaced");
    }
}

fn run(runs: &[&str]) -> Conditions {
    Conditions {
        runs: runs.iter().map(|run| (*run).to_owned()).collect(),
        ..Conditions::default()
    }
}

fn client(range: &str) -> Conditions {
    Conditions {
        clients: vec![range.parse().unwrap()],
        ..Conditions::default()
    }
}

fn event(events: &[&str]) -> Conditions {
    Conditions {
        events: events.iter().map(|event| (*event).to_owned()).collect(),
        ..Conditions::default()
    }
}

fn second(second: u32) -> Timestamp {
    let text = format!("2026-01-02T03:04:{second:02}Z");
    text.parse().unwrap()
}

fn host(text: &str) -> Conditions {
    Conditions {
        hosts: vec![Pattern::parse_deny(text).unwrap()],
        ..Conditions::default()
    }
}

fn verdict(verdicts: &[Verdict]) -> Conditions {
    Conditions {
        verdicts: verdicts.to_vec(),
        ..Conditions::default()
    }
}

fn reason(reasons: &[Reason]) -> Conditions {
    Conditions {
        reasons: reasons.to_vec(),
        ..Conditions::default()
    }
}

#[test]
fn lines_pass_that_are_about_whom_is_asked_for() {
    let profile = Conditions {
        profiles: vec!["other".to_owned()],
        ..Conditions::default()
    };
    assert_pass(&[
        ("nothing", Conditions::default(), "01234567(1)(3)(4)(8)9"),
        ("run", run(&["01JDONE"]), "126(1)"),
        ("a run's beginning", run(&["01JD"]), "12346(1)(3)(4)(8)"),
        ("either run", run(&["01JDO", "01JDT"]), "12346(1)(3)(4)(8)"),
        ("no run", run(&["JDONE"]), ""),
        ("profile", profile, "57"),
        ("client", client("10.0.1.1/32"), "34(3)(4)(8)"),
        ("range", client("10.0.0.0/15"), "12346(1)(3)(4)(8)"),
        ("IPv6", client("2001:db8::/32"), "57"),
    ]);
}

#[test]
fn a_close_passes_where_its_decision_does_or_for_its_own_sake() {
    let both = [Verdict::Allowed, Verdict::Denied];
    let gap = [Reason::IpLiteral, Reason::AuditUnavailable];
    assert_pass(&[
        ("host", host("api.example.com"), "15(1)"),
        ("below", host("*.example.com"), "135(1)(3)"),
        ("at or below", host(".evil.example"), "2"),
        ("another end", host("le.com"), ""),
        ("port", host("sub.example.com:8443"), "3(3)"),
        ("another port", host("sub.example.com:443"), ""),
        ("address", host("2001:db8::9"), "7"),
        ("denied", verdict(&[Verdict::Denied]), "2467(3)(4)9"),
        ("allowed", verdict(&[Verdict::Allowed]), "135(1)(3)"),
        ("both", verdict(&both), "1234567(1)(3)(4)9"),
        ("reason", reason(&[Reason::NotAllowlisted]), "246(4)"),
        ("of a close", reason(&[Reason::SniMismatch]), "(3)"),
        ("reasons", reason(&gap), "79"),
    ]);
}

#[test]
fn every_condition_must_be_met() {
    let cut = reason(&[Reason::SniMismatch]);
    let since = |at| Conditions {
        since: Some(second(at)),
        ..Conditions::default()
    };
    let until = Conditions {
        until: Some(second(2)),
        ..Conditions::default()
    };
    let close_of = Conditions {
        events: vec!["close".to_owned()],
        ..host("api.example.com")
    };
    let late_close_of = Conditions {
        since: Some(second(8)),
        ..host("api.example.com")
    };
    let host_and_reason = Conditions {
        reasons: cut.reasons.clone(),
        ..host("sub.example.com")
    };
    let allowed_and_cut = Conditions {
        verdicts: vec![Verdict::Allowed],
        ..cut
    };
    let run_and_denied = Conditions {
        verdicts: vec![Verdict::Denied],
        ..run(&["01JDO"])
    };
    assert_pass(&[
        ("events", event(&["dns", "start"]), "056"),
        ("since", since(10), "(4)(8)9"),
        ("until", until, "01"),
        ("event of a host", close_of, "(1)"),
        ("the close alone is in time", late_close_of, "(1)"),
        ("host and reason of the close", host_and_reason, "(3)"),
        ("allowed and cut", allowed_and_cut, "(3)"),
        ("run and denied", run_and_denied, "26"),
    ]);
}

#[test]
fn a_close_is_told_its_target_though_its_decision_does_not_pass() {
    let mut filter = Filter::new(event(&["close"]));
    let passed = LOG
        .lines()
        .filter_map(|line| filter.pass(line.as_bytes()).unwrap());
    let targets: Vec<Option<Target>> = passed.map(|passed| passed.target).collect();
    let expected = [
        Target::new("api.example.com", 443),
        Target::new("sub.example.com", 8443),
        Target::new("odd.example", 443),
        None,
    ];
    assert_eq!(targets, expected);
}

#[test]
fn torn_and_foreign_lines_are_errors_whatever_is_asked_for() {
    let mut filter = Filter::new(host("nowhere.example"));
    let (whole, _) = LOG.split_once('\n').unwrap();
    for torn in [
        whole.trim_end_matches('}'),
        whole.split_at(60).0,
        "hello\n",
        "\n",
        "",
    ] {
        assert!(filter.pass(torn.as_bytes()).is_err(), "{torn}");
    }
}

#[test]
fn a_run_of_the_record_file_passes_by_what_it_reached_and_was_refused() {
    let line = r#"{"schema":1,"run":"01JDONE","started":"2026-01-02T03:04:05Z","image":"sha256:00","command":["true"],"profile":"default","allow":[],"exit_code":0,"timed_out":false,"oom_killed":false,"signal":null,"error":null,"limits":[],"warnings":[],"duration_ms":1,"stdout_bytes":0,"stderr_bytes":0,"stdout_truncated":false,"stderr_truncated":false,"outputs":[],"outputs_skipped":[],"network":{"allowed":[{"host":"api.example.com","port":443,"count":1,"bytes_up":1,"bytes_down":1}],"denied":[{"host":"evil.example","port":443,"reason":"not_allowlisted","count":3}],"dns":[{"name":"api.example.com.","type":"A","decision":"allow","count":1}]}}"#;
    for (what, conditions, expected) in [
        ("nothing", Conditions::default(), true),
        ("reached", host("api.example.com:443"), true),
        ("refused", host(".evil.example"), true),
        ("another", host("other.example"), false),
        ("denied", verdict(&[Verdict::Denied]), true),
        ("reason", reason(&[Reason::NotAllowlisted]), true),
        ("another reason", reason(&[Reason::IpLiteral]), false),
        ("run", event(&["run"]), true),
        ("close", event(&["close"]), false),
    ] {
        let passed = Filter::new(conditions).pass(line.as_bytes()).unwrap();
        assert_eq!(passed.is_some(), expected, "{what}");
    }
}
