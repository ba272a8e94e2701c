//! Replays of small logs.

use serde_json::{Value, json};

use super::*;

const OLD: &str = r#"
[profiles.default]
allow = ["a.example", "b.example:8443", "10.0.0.1"]
[profiles.other]
allow = ["c.example"]
[[clients]]
source = "10.9.0.0/24"
profile = "default"
"#;

const NEW: &str = r#"
[addresses]
blocked = ["203.0.113.0/24"]
[profiles.default]
allow = ["a.example", "new.example"]
deny = ["run.example"]
[[clients]]
source = "10.9.0.0/24"
profile = "default"
"#;

fn event(of: &Value, more: &Value) -> Line {
    let mut line = json!({"schema": 1, "ts": "2026-01-02T03:04:05.678Z", "event": "decision",
        "via": "connect", "client": "10.9.0.1"});
    for members in [of, more] {
        let members = members.as_object().unwrap().clone();
        line.as_object_mut().unwrap().extend(members);
    }
    Line::parse(line.to_string().as_bytes()).unwrap()
}

fn asked(host: &str, port: u16, decision: &str, reason: &str) -> Value {
    json!({"host": host, "port": port, "decision": decision, "reason": reason})
}

fn replayed(baseline: Baseline<'_>, new: &Config, lines: &[Line]) -> Replayed {
    let mut replay = Replay::new(baseline, new);
    for line in lines {
        replay.line(line);
    }
    replay.finish()
}

fn changes(replayed: &Replayed) -> Vec<String> {
    let told = replayed.changes.iter().map(|change| {
        let (old, new) = (change.old.reason.code(), change.new.reason.code());
        format!("{} x{}: {old} -> {new}", change.asked, change.count)
    });
    told.collect()
}

#[test]
fn what_would_be_decided_otherwise_is_told_the_refusals_first() {
    let new = Config::parse(NEW).unwrap();
    let none = json!({});
    let lines = [
        event(&asked("a.example", 443, "allow", "allowlisted"), &none),
        event(
            &asked("new.example", 443, "deny", "not_allowlisted"),
            &json!({"count": 7}),
        ),
        event(&asked("b.example", 8443, "allow", "allowlisted"), &none),
        event(
            &asked("a.example", 443, "allow", "allowlisted"),
            &json!({"addresses": ["203.0.113.9"]}),
        ),
        event(
            &asked("a.example", 443, "deny", "unknown_client"),
            &json!({"client": "10.8.0.1"}),
        ),
        event(
            &asked("new.example", 80, "would_deny", "not_allowlisted"),
            &none,
        ),
        event(
            &json!({"event": "dns", "name": "NEW.example.", "type": "A", "decision": "deny",
            "reason": "not_allowlisted"}),
            &none,
        ),
        event(
            &json!({"event": "dns", "name": "eclusa", "type": "A", "decision": "allow",
            "reason": "allowlisted"}),
            &none,
        ),
    ];
    let replayed = replayed(Baseline::Recorded, &new, &lines);
    assert_eq!(
        changes(&replayed),
        [
            "https://a.example x1: allowlisted -> address_blocked",
            "https://b.example:8443 x1: allowlisted -> not_allowlisted",
            "https://new.example x7: not_allowlisted -> allowlisted",
            "http://new.example x1: not_allowlisted -> allowlisted",
            "new.example x1: not_allowlisted -> allowlisted",
        ]
    );
    let expected = Counts {
        judged: 14,
        unchanged: 3,
        now_passed: 8,
        now_refused: 2,
        now_otherwise: 1,
        ..Counts::default()
    };
    assert_eq!(replayed.counts, expected);
    let blocked = replayed.changes[0].new.detail.as_deref().unwrap();
    assert!(blocked.contains("203.0.113.9"), "{blocked}");
}

#[test]
fn a_run_is_judged_by_the_list_that_it_began_with() {
    let new = Config::parse(NEW).unwrap();
    let of_run = |run: &str| json!({"run": run, "client": "10.231.0.3"});
    let start = |run: &str, more: Value| event(&json!({"event": "run_start", "run": run}), &more);
    let allowed = asked("run.example", 443, "allow", "allowlisted");
    let lines = [
        start("one", json!({"allow": ["run.example", "own.example"]})),
        start("two", json!({"allow": [], "profile": "other"})),
        event(&allowed, &of_run("one")),
        event(
            &asked("own.example", 443, "allow", "allowlisted"),
            &of_run("one"),
        ),
        event(&allowed, &of_run("two")),
        event(&allowed, &of_run("never-begun")),
        event(&json!({"event": "run_end", "run": "one"}), &json!({})),
        event(&allowed, &of_run("one")),
    ];
    let replayed = replayed(Baseline::Recorded, &new, &lines);
    assert_eq!(
        changes(&replayed),
        [
            "https://run.example x1: allowlisted -> denied_by_rule",
            "https://run.example x1: allowlisted -> unknown_client",
        ]
    );
    assert!(replayed.changes[0].runs.contains("one"));
    let unregistered = replayed.changes[1].new.detail.as_deref().unwrap();
    assert!(
        unregistered.contains("no profile \"other\""),
        "{unregistered}"
    );
    let expected = Counts {
        judged: 3,
        unchanged: 1,
        now_refused: 2,
        unknown_run: 2,
        ..Counts::default()
    };
    assert_eq!(replayed.counts, expected);
}

#[test]
fn what_no_list_decides_stays_as_it_was() {
    let new = Config::parse(NEW).unwrap();
    let none = json!({});
    let lines = [
        event(&asked("new.example", 443, "deny", "rate_limited"), &none),
        event(
            &json!({"decision": "deny", "reason": "bad_request", "target": "x"}),
            &none,
        ),
        event(
            &json!({"decision": "deny", "reason": "not_allowlisted"}),
            &json!({"count": 40, "samples": ["x1.example:443"]}),
        ),
    ];
    let replayed = replayed(Baseline::Recorded, &new, &lines);
    assert_eq!(replayed.changes, []);
    let expected = Counts {
        not_of_policy: 2,
        without_destination: 40,
        ..Counts::default()
    };
    assert_eq!(replayed.counts, expected);
}

#[test]
fn two_configurations_are_compared_on_what_was_asked() {
    let (old, new) = (Config::parse(OLD).unwrap(), Config::parse(NEW).unwrap());
    let none = json!({});
    let lines = [
        event(&asked("b.example", 8443, "deny", "not_allowlisted"), &none),
        event(&asked("never.example", 443, "allow", "allowlisted"), &none),
    ];
    let replayed = replayed(Baseline::Config(&old), &new, &lines);
    assert_eq!(
        changes(&replayed),
        ["https://b.example:8443 x1: allowlisted -> not_allowlisted"]
    );
}
