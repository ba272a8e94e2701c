//! What holds of every line and every condition.

use std::time::Duration;

use proptest::prelude::{Strategy, any, prop, prop_assert_eq, prop_oneof, proptest};

use super::*;
use crate::{
    destination::{Destination, Scheme},
    policy::Decision,
    record::{
        Asked, Closing, DecisionRecord, DnsAnswer, DnsRecord, Id, Outcome, RunId, Subject, Via,
        encode,
    },
};

/// Text that a client chose: what looks like a field, a name that is asked for, anything.
fn chosen() -> impl Strategy<Value = String> {
    prop_oneof![
        prop::sample::select(vec![
            "a.example",
            "\"host\":\"a.example\"",
            "\",\"decision\":\"allow",
            "\\",
            "\"reason\":\"ip_literal\",\"port\":443",
        ])
        .prop_map(ToOwned::to_owned),
        any::<String>(),
    ]
}

/// One line in our own encoding, of one of three exchanges.
fn written() -> impl Strategy<Value = String> {
    let host = prop::sample::select(vec!["a.example:443", "b.example:80", "192.0.2.1:443"]);
    let decision = prop::sample::select(vec![Decision::Allow, Decision::Deny]);
    let reason = prop::sample::select(vec![Reason::IpLiteral, Reason::NotAllowlisted]);
    let run = prop::option::of(prop::sample::select(vec!["one", "two"]));
    let what = (0..3_u8, 0..3_u128, 0..4_i64, run);
    (what, host, (decision, reason), (chosen(), chosen())).prop_map(
        |((event, id, second, run), host, (decision, reason), (text, other))| {
            let subject = Subject {
                run: run.map(|run| RunId::parse(run).unwrap()),
                profile: None,
                client: None,
            };
            let record = DecisionRecord {
                id: Id(Ulid(id)),
                subject: subject.clone(),
                asked: Asked {
                    via: Via::Http,
                    method: Some(text.clone()),
                    destination: Destination::parse_authority(Scheme::Http, host).ok(),
                    target: Some(other.clone()),
                    path: Some(text.clone()),
                },
                decision,
                reason,
                rule: None,
                addresses: Vec::new(),
                status: None,
            };
            let closing = Closing {
                outcome: Outcome::Refused,
                reason: (decision == Decision::Deny).then_some(reason),
                status: None,
                upstream: None,
                sni: Some(text.clone()),
                ech: None,
                bytes_up: 0,
                bytes_down: 0,
                duration: Duration::ZERO,
            };
            let query = DnsRecord {
                subject,
                name: text,
                record_type: other,
                decision,
                reason,
                rule: None,
                answer: DnsAnswer::NxDomain,
            };
            let mut line = match event {
                0 => encode::decision(&record, None),
                1 => encode::close(&record, &closing),
                _ => encode::query(record.id, &query, None),
            };
            encode::stamp(&mut line, Timestamp::from_second(second).unwrap());
            String::from_utf8(line).unwrap()
        },
    )
}

fn asked_for() -> impl Strategy<Value = Conditions> {
    let one_of = |values: &'static [&str]| prop::option::of(prop::sample::select(values));
    let verdict = prop::sample::select(vec![Verdict::Allowed, Verdict::Denied]);
    (
        one_of(&["one", "tw"]),
        one_of(&["a.example", "*.example", "192.0.2.1", "b.example:80"]),
        prop::option::of(verdict),
        one_of(&["dns", "decision", "close"]),
        (any::<bool>(), prop::option::of(0..4_i64)),
    )
        .prop_map(
            |(run, host, verdict, event, (by_reason, since))| Conditions {
                runs: run.into_iter().map(ToOwned::to_owned).collect(),
                hosts: host
                    .into_iter()
                    .map(|text| Pattern::parse_deny(text).unwrap())
                    .collect(),
                verdicts: verdict.into_iter().collect(),
                reasons: by_reason.then_some(Reason::IpLiteral).into_iter().collect(),
                events: event.into_iter().map(ToOwned::to_owned).collect(),
                since: since.map(|since| Timestamp::from_second(since).unwrap()),
                ..Conditions::default()
            },
        )
}

proptest! {
    #[test]
    fn a_line_passes_by_its_bytes_exactly_when_it_does_by_what_it_says(
        log in prop::collection::vec(written(), 1..8),
        conditions in asked_for(),
    ) {
        let (mut by_bytes, mut parsed) = (Filter::new(conditions.clone()), Filter::new(conditions));
        for line in log {
            let found = by_bytes.pass(line.as_bytes()).unwrap();
            prop_assert_eq!(found, parsed.pass(spaced(&line).as_bytes()).unwrap(), "{}", line);
        }
    }
}
