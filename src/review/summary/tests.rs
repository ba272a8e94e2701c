use super::*;
use crate::review::filter::{Conditions, Filter};

/// Counts lines as they stand in a log.
fn summed<'l>(by: By, lines: impl IntoIterator<Item = &'l String>) -> Summary {
    let mut filter = Filter::new(Conditions::default());
    let mut summary = Summary::new(by);
    for line in lines {
        let passed = filter.pass(line.as_bytes());
        let passed = passed.unwrap_or_else(|error| panic!("{error}: {line}"));
        summary.add(&passed.unwrap());
    }
    summary
}

fn line(number: u32, event: &str, who: &str, rest: &str) -> String {
    format!(
        r#"{{"schema":1,"ts":"2026-01-02T03:04:05.678Z","event":"{event}","id":"0000000000000000{number:010}",{who}{rest}}}"#
    )
}

const ONE: &str = r#""run":"01JDONE","profile":"default","client":"10.0.0.1""#;

fn decision(number: u32, who: &str, host: &str, decision: &str, reason: &str) -> String {
    let rest = format!(
        r#","via":"connect","host":"{host}","port":443,"decision":"{decision}","reason":"{reason}""#
    );
    line(number, "decision", who, &rest)
}

fn close(number: u32, who: &str, outcome: &str, up: u64, down: u64) -> String {
    let rest = format!(
        r#","upstream":"192.0.2.1:443","reason":"sni_mismatch","outcome":"{outcome}","bytes_up":{up},"bytes_down":{down},"duration_ms":{up}"#
    );
    line(number, "close", who, &rest)
}

#[test]
fn counts_meet_where_they_belong_and_folded_lines_count_for_all_that_they_stand_for() {
    let lines = [
        decision(1, ONE, "api.example.com", "allow", "allowlisted"),
        decision(2, ONE, "api.example.com", "allow", "allowlisted"),
        decision(3, ONE, "odd.example", "would_deny", "not_allowlisted"),
        decision(4, ONE, "evil.example", "deny", "not_allowlisted"),
        line(
            5,
            "decision",
            ONE,
            r#","decision":"deny","reason":"not_allowlisted","count":600,"samples":["a.example:443","b.example:443"]"#,
        ),
        close(1, ONE, "done", 100, 1000),
        close(2, ONE, "refused", 0, 0),
        close(3, ONE, "client_closed", 5, 50),
        close(9, ONE, "done", 7, 70),
        line(
            6,
            "dns",
            ONE,
            r#","name":"Evil.Example.","type":"A","decision":"deny","reason":"not_allowlisted","answer":"nxdomain""#,
        ),
        line(
            7,
            "dns",
            ONE,
            r#","name":"evil.example.","type":"A","decision":"deny","reason":"not_allowlisted","answer":"nxdomain","count":3"#,
        ),
        line(
            8,
            "dns",
            ONE,
            r#","name":"api.example.com.","type":"A","decision":"allow","reason":"allowlisted","answer":"listener""#,
        ),
        line(
            8,
            "gap",
            r#""run":null,"profile":null,"client":null"#,
            r#","since":"2026-01-02T03:04:00.000Z","count":4"#,
        ),
    ];
    let report = summed(By::All, &lines).report(None);
    insta::assert_snapshot!(serde_json::to_string_pretty(&report).unwrap());
}

#[test]
fn groups_are_runs_profiles_or_clients_and_a_bounded_number() {
    let who = |number: u32| {
        format!(
            r#""run":"RUN{number}","profile":"p{}","client":"10.0.0.{}""#,
            number % 2,
            number % 3
        )
    };
    for (by, groups, beyond) in [
        (By::All, 1, 0),
        (By::Run, MAX_GROUPS, 1500),
        (By::Profile, 2, 0),
        (By::Client, 3, 0),
    ] {
        let line = |number| decision(number, &who(number), "a.example", "deny", "not_allowlisted");
        let lines: Vec<String> = (0..2000).map(line).collect();
        let report = summed(by, &lines).report(None);
        assert_eq!(report.groups.len(), groups, "{by:?}");
        let more = report.beyond.map_or(0, |group| group.totals.denied);
        assert_eq!(more, beyond, "{by:?}");
    }
}

#[test]
fn a_flood_of_names_is_bounded_and_hides_no_sum() {
    let query = |name: &str| {
        let rest = format!(
            r#","name":"{name}","type":"A","decision":"deny","reason":"not_allowlisted","answer":"nxdomain""#
        );
        line(0, "dns", ONE, &rest)
    };
    let mut lines = Vec::new();
    for number in 0..50_000 {
        lines.push(query(&format!("{number}.evil.example.")));
        if number % 10 == 0 {
            lines.push(query("often.example."));
        }
    }
    let report = summed(By::All, &lines).report(Some(3));
    let group = &report.groups[0];
    assert_eq!(group.totals.queries_denied, 55_000);
    let first = &group.dns[0];
    assert_eq!((first.name.as_str(), first.count), ("often.example.", 5000));
    let shown: u64 = group.dns.iter().map(|line| line.count).sum();
    assert_eq!((group.dns.len(), shown + group.dns_rest.count), (3, 55_000));
    assert!(!group.dns_rest.is_exact);
}

#[test]
fn a_run_of_the_record_file_counts_unless_the_proxy_recorded_it() {
    let record = |run: &str| {
        format!(
            r#"{{"schema":1,"run":"{run}","started":"2026-01-02T03:04:05Z","image":"sha256:00","command":["true"],"profile":null,"allow":[],"exit_code":3,"timed_out":false,"oom_killed":false,"signal":null,"error":null,"limits":[],"warnings":[],"duration_ms":1,"stdout_bytes":0,"stderr_bytes":0,"stdout_truncated":false,"stderr_truncated":false,"outputs":[],"outputs_skipped":[],"network":{{"allowed":[{{"host":"api.example.com","port":443,"count":2,"bytes_up":1,"bytes_down":1}}],"denied":[],"dns":[]}}}}"#
        )
    };
    let lines = [
        decision(1, ONE, "api.example.com", "allow", "allowlisted"),
        record("01JDONE"),
        record("01JDTWO"),
    ];
    let report = summed(By::All, &lines).report(None);
    let totals = report.groups[0].totals;
    assert_eq!((totals.runs, totals.allowed), (2, 3));
    assert_eq!(report.groups[0].runs[1].exit_code, 3);
}
