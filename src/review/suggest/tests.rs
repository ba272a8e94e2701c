//! Suggestions from small logs.

use serde_json::{Value, json};

use super::*;

fn refusal(more: Value) -> Line {
    let mut line = json!({"schema": 1, "ts": "2026-01-02T03:04:05.678Z", "event": "decision",
        "via": "connect", "client": "10.9.0.1", "profile": "default", "port": 443,
        "decision": "deny", "reason": "not_allowlisted"});
    let Value::Object(more) = more else { panic!() };
    line.as_object_mut().unwrap().extend(more);
    Line::parse(line.to_string().as_bytes()).unwrap()
}

fn suggested(config: Option<Config>, lines: &[Value]) -> Suggestions {
    let mut suggest = Suggest::new(config);
    for line in lines {
        suggest.line(&refusal(line.clone()), None);
    }
    suggest.finish()
}

fn patterns(lines: &[Suggestion]) -> Vec<&str> {
    lines.iter().map(|line| line.pattern.as_str()).collect()
}

fn toml(suggestions: &Suggestions) -> String {
    let mut text = Vec::new();
    suggestions.write_toml(&mut text).unwrap();
    String::from_utf8(text).unwrap()
}

fn kinds(suggestions: &Suggestions) -> Vec<(FindingKind, &str)> {
    let findings = suggestions.findings.iter();
    findings
        .map(|(finding, _)| (finding.kind, finding.about.as_str()))
        .collect()
}

#[test]
fn the_narrowest_lines_stand_first_with_their_evidence() {
    let suggestions = suggested(
        None,
        &[
            json!({"host": "api.example.com", "run": "01JD"}),
            json!({"host": "api.example.com", "count": 13, "ts": "2026-01-03T00:00:00.000Z"}),
            json!({"host": "plain.example.com", "port": 80, "via": "http"}),
            json!({"host": "db.example.com", "port": 8443, "decision": "would_deny",
                   "reason": "port_not_allowed"}),
            json!({"host": "a.cdn.example.net"}),
            json!({"host": "b.cdn.example.net"}),
            json!({"host": "c.cdn.example.net"}),
            json!({"event": "dns", "name": "api.example.com.", "type": "A", "via": null}),
            json!({"event": "dns", "name": "looked.example.org", "type": "A", "via": null}),
            json!({"host": "own.example.com", "profile": null, "run": "01JE"}),
        ],
    );
    insta::assert_snapshot!(toml(&suggestions));
}

#[test]
fn what_is_suggested_parses_and_allows_what_was_refused_and_no_more() {
    let hosts = [
        "one.example.com",
        "x.w.example.com",
        "y.w.example.com",
        "z.w.example.com",
    ];
    let lines: Vec<_> = hosts.iter().map(|host| json!({"host": host})).collect();
    let config = Config::parse(&toml(&suggested(None, &lines))).unwrap();
    let policy = config.policies.profile("default").unwrap();
    for (asked, allowed) in [
        ("https://one.example.com", true),
        ("https://x.w.example.com", true),
        ("https://other.w.example.com", true),
        ("https://w.example.com", false),
        ("https://example.com", false),
        ("http://one.example.com", false),
        ("https://one.example.com:8443", false),
    ] {
        let destination = crate::config::destination::parse(asked).unwrap();
        let passes = policy.evaluate(&destination).passes();
        assert_eq!(passes, allowed, "{asked}");
    }
}

#[test]
fn a_wildcard_needs_three_siblings_and_a_domain_of_somebodys_own() {
    for (hosts, expected) in [
        (
            &["a.example.com", "b.example.com"][..],
            &["https://a.example.com", "https://b.example.com"][..],
        ),
        (
            &["a.example.com", "b.example.com", "c.example.com"],
            &["https://*.example.com"],
        ),
        (
            &["a.com", "b.com", "c.com"],
            &["https://a.com", "https://b.com", "https://c.com"],
        ),
        (
            &["a.github.io", "b.github.io", "c.github.io"],
            &[
                "https://a.github.io",
                "https://b.github.io",
                "https://c.github.io",
            ],
        ),
    ] {
        let lines: Vec<_> = hosts.iter().map(|host| json!({"host": host})).collect();
        let suggestions = suggested(None, &lines);
        assert_eq!(patterns(&suggestions.profiles["default"]), expected);
    }
}

#[test]
fn data_in_names_is_a_finding_and_never_a_wildcard() {
    let lines: Vec<_> = [
        "4d5a90000300000004",
        "ffff0000b800000000",
        "00400000000000aa0e1f",
    ]
    .iter()
    .map(|label| {
        let name = format!("{label}.evil.example");
        json!({"event": "dns", "name": name, "type": "A", "via": null})
    })
    .collect();
    let suggestions = suggested(None, &lines);
    assert_eq!(suggestions.profiles.len(), 0);
    assert_eq!(
        kinds(&suggestions),
        [(FindingKind::DataInNames, "3 names below evil.example")]
    );
}

#[test]
fn what_no_list_should_open_is_a_finding() {
    let suggestions = suggested(
        None,
        &[
            json!({"host": "rebound.example.com", "reason": "address_blocked",
                   "addresses": ["10.0.0.1"]}),
            json!({"host": "192.0.2.7", "reason": "ip_literal"}),
            json!({"host": "denied.example.com", "reason": "denied_by_rule",
                   "rule": "profiles.default.deny[0]"}),
            json!({"host": "metadata.google.internal"}),
            json!({"host": "db.corp"}),
            json!({"host": "10.0.0.1", "port": 8443, "reason": "port_not_allowed"}),
            json!({"profile": null, "client": "10.7.0.1", "reason": "unknown_client"}),
            json!({"reason": "bad_request"}),
            json!({"event": "close", "decision": null, "reason": "not_tls", "outcome": "refused"}),
            json!({"count": 900, "samples": ["x1.example.com:443"]}),
            json!({"reason": "rate_limited", "host": "api.example.com"}),
            json!({"host": "169.254.169.254", "reason": "ip_literal", "via": "http", "port": 80}),
            json!({"event": "dns", "name": "c2VjcmV0.example.com", "type": "TXT", "via": null}),
            json!({"event": "dns", "name": "4d5a9000030000.example.com", "type": "A", "via": null}),
        ],
    );
    assert_eq!(suggestions.profiles.len(), 0);
    insta::assert_snapshot!(toml(&suggestions));
    Config::parse(&toml(&suggestions)).unwrap();
}

#[test]
fn what_is_in_force_counts() {
    let config = Config::parse(
        "[profiles.default]\nallow = [\"now.example.com\"]\ndeny = [\"never.example.com\"]",
    )
    .unwrap();
    let lines = ["now.example.com", "never.example.com", "other.example.com"];
    let lines: Vec<_> = lines.iter().map(|host| json!({"host": host})).collect();
    let suggestions = suggested(Some(config), &lines);
    assert_eq!(
        patterns(&suggestions.profiles["default"]),
        ["https://other.example.com"]
    );
    assert_eq!(
        kinds(&suggestions),
        [(FindingKind::DeniedByRule, "https://never.example.com")]
    );
}

#[test]
fn a_hostile_log_does_not_leave_its_comment() {
    let suggestions = suggested(
        None,
        &[json!({"host": "a.example.com", "run": "x\n[profiles.default]", "profile": "a\"]\nb"})],
    );
    assert_eq!(suggestions.profiles.len(), 0);
    assert_eq!(suggestions.findings[0].0.kind, FindingKind::OddProfile);
    let text = toml(&suggestions);
    Config::parse(&text).unwrap();
    assert!(!text.contains("\n[profiles.default]"), "{text}");
}

#[test]
fn counts_at_the_edge_of_a_number_do_not_overflow() {
    let most = json!({"host": "a.example.com", "count": u64::MAX});
    let suggestions = suggested(
        None,
        &[most.clone(), most, json!({"host": "b.example.com"})],
    );
    assert_eq!(suggestions.refusals, u64::MAX);
    assert_eq!(suggestions.profiles["default"][0].evidence.count, u64::MAX);
}

#[test]
fn one_name_that_looks_like_data_bars_the_wildcard() {
    let names = |labels: &[&str]| -> Vec<Value> {
        let name = |label| format!("{label}.evil.example");
        let asked = |label| json!({"event": "dns", "name": name(label), "type": "A", "via": null});
        labels.iter().map(asked).collect()
    };
    let two = suggested(None, &names(&["4d5a90000300aa", "ffff0000b80000"]));
    assert_eq!(two.profiles.len(), 0);
    let mut diluted = names(&["4d5a90000300aa"]);
    let connected = |label| json!({"host": format!("{label}.evil.example")});
    diluted.extend(["a", "b", "c", "d"].map(connected));
    diluted.extend(["x", "y", "z"].map(|label| json!({"host": format!("{label}.good.example")})));
    diluted.push(json!({"host": "one.x.good.example"}));
    let diluted = suggested(None, &diluted);
    let lines = patterns(&diluted.profiles["default"]);
    assert_eq!(lines.len(), 5, "{lines:?}");
    assert_eq!(lines[4], "https://*.good.example");
    assert_eq!(
        kinds(&diluted),
        [(FindingKind::DataInNames, "1 name below evil.example")]
    );
}

#[test]
fn the_record_of_a_run_counts_too() {
    let run = crate::record::RunId::parse("01JD").unwrap();
    let mut record = RunRecord::begun(
        &run,
        "2026-01-02T03:04:05Z".to_owned(),
        String::new(),
        Vec::new(),
    );
    let denied = json!({"allowed": [], "dns": [], "more": 0, "denied": [
        {"host": "api.example.com", "port": 443, "reason": "not_allowlisted", "count": 3},
        {"host": "plain.example.com", "port": 80, "reason": "not_allowlisted", "count": 1},
        {"host": "never.example.com", "port": 443, "reason": "denied_by_rule", "count": 1},
    ]});
    record.network = serde_json::from_value(denied).unwrap();
    let mut suggest = Suggest::new(None);
    suggest.run(&record);
    let suggestions = suggest.finish();
    assert_eq!(
        patterns(&suggestions.runs),
        ["http://plain.example.com", "https://api.example.com"]
    );
    assert_eq!(suggestions.refusals, 5);
}
