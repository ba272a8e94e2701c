use std::collections::BTreeSet;

use super::*;
use crate::record::{Asked, Id, Subject};

fn decided(via: Via, decision: Decision, reason: Reason) -> DecisionRecord {
    DecisionRecord {
        id: Id(ulid::Ulid(1)),
        subject: Subject::default(),
        asked: Asked {
            via,
            method: None,
            destination: None,
            target: Some("evil.example.net".into()),
            path: None,
        },
        decision,
        reason,
        rule: None,
        addresses: Vec::new(),
        status: None,
    }
}

fn closing(outcome: Outcome, duration: Duration) -> Closing {
    Closing {
        outcome,
        reason: None,
        status: None,
        upstream: None,
        sni: None,
        ech: None,
        bytes_up: 3,
        bytes_down: 5,
        duration,
    }
}

#[test]
fn every_combination_of_labels_has_a_counter_of_its_own() {
    let metrics = Metrics::default();
    for via in Via::ALL {
        for decision in DECISIONS {
            for reason in Reason::ALL {
                metrics.decided(&decided(*via, decision, *reason));
            }
        }
    }
    let text = metrics.render();
    let lines: BTreeSet<&str> = text
        .lines()
        .filter(|line| line.starts_with("eclusa_requests_total{"))
        .collect();
    assert_eq!(lines.len(), Via::ALL.len() * 3 * Reason::ALL.len());
    assert!(lines.iter().all(|line| line.ends_with(" 1")), "{text}");
}

#[test]
fn a_request_is_counted_under_its_own_labels() {
    let metrics = Metrics::default();
    metrics.decided(&decided(
        Via::Host,
        Decision::WouldDeny,
        Reason::QueryTypeRefused,
    ));
    let text = metrics.render();
    let expected = concat!(
        "eclusa_requests_total",
        r#"{via="host",decision="would_deny",reason="query_type_refused"} 1"#,
        "\n"
    );
    assert!(text.contains(expected), "{text}");
    assert!(!text.contains("evil"), "{text}");
}

#[test]
fn durations_are_cumulative_and_a_crash_has_none() {
    let metrics = Metrics::default();
    for (outcome, duration) in [
        (Outcome::Done, Duration::from_millis(5)),
        (Outcome::Idle, Duration::from_millis(6)),
        (Outcome::Done, Duration::from_hours(2)),
    ] {
        metrics.closed(&closing(outcome, duration));
    }
    metrics.crashed(Outcome::Crash);
    let text = metrics.render();
    for expected in [
        r#"eclusa_exchanges_closed_total{outcome="done"} 2"#,
        r#"eclusa_exchanges_closed_total{outcome="crash"} 1"#,
        r#"eclusa_bytes_total{direction="up"} 9"#,
        r#"eclusa_bytes_total{direction="down"} 15"#,
        r#"eclusa_exchange_duration_seconds_bucket{le="0.005"} 1"#,
        r#"eclusa_exchange_duration_seconds_bucket{le="0.025"} 2"#,
        r#"eclusa_exchange_duration_seconds_bucket{le="3600"} 2"#,
        r#"eclusa_exchange_duration_seconds_bucket{le="+Inf"} 3"#,
        "eclusa_exchange_duration_seconds_sum 7200.011",
        "eclusa_exchange_duration_seconds_count 3",
        "eclusa_audit_writable 1",
        "eclusa_audit_backlog 0",
    ] {
        assert!(
            text.lines().any(|line| line == expected),
            "{expected}\n{text}"
        );
    }
}

#[test]
fn text_follows_the_exposition_format() {
    let mut text = Text::default();
    text.family("a_total", "One \\ line\nand more.", Kind::Counter);
    text.sample(&[("x", "a\\b\"c\nd"), ("y", "")], 1);
    text.family("b", "A gauge.", Kind::Gauge);
    text.sample(&[], 0.5);
    assert_eq!(
        text.into_string(),
        concat!(
            "# HELP a_total One \\\\ line\\nand more.\n",
            "# TYPE a_total counter\n",
            "a_total{x=\"a\\\\b\\\"c\\nd\",y=\"\"} 1\n",
            "# HELP b A gauge.\n",
            "# TYPE b gauge\n",
            "b 0.5\n"
        )
    );
}
