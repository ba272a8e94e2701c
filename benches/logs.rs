//! What a long log costs: filtering, summing up and showing 128 MiB as the log itself writes it.

#![expect(clippy::unwrap_used, reason = "a bench may panic")]

use std::{fs, hint::black_box, io, path::Path};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use eclusa::{
    audit::AuditLog,
    config::{Audit, AuditSink},
    destination::{Destination, Scheme},
    policy::{Decision, Pattern, Reason},
    record::{Asked, DecisionRecord, DnsAnswer, DnsRecord, RunId, Subject, Via},
    review::{
        filter::{Conditions, Filter, Passed, Verdict},
        render::{Look, Renderer, Row},
        source::Source,
        summary::{By, Summary},
    },
};

const SIZE: u64 = 128 << 20;

/// Writes a log of `SIZE` bytes: exchanges with two hundred hosts, one refusal in a thousand.
fn write(path: &Path) {
    let settings = Audit {
        sink: AuditSink::File(path.to_owned()),
        max_size: 2 * SIZE,
        keep: 1,
    };
    let log = AuditLog::open(&settings, 1_000_000).unwrap();
    let subject = Subject {
        run: Some(RunId::parse("01JD5SWQ000000000000000001").unwrap()),
        profile: Some("default".into()),
        client: Some("10.231.0.3".parse().unwrap()),
    };
    let mut number = 0_u64;
    while !number.is_multiple_of(100) || fs::metadata(path).unwrap().len() < SIZE {
        number += 1;
        let host = format!("host-{}.example.com:443", number % 200);
        let is_denied = number.is_multiple_of(1000);
        let mut decision = DecisionRecord {
            id: log.new_id(),
            subject: subject.clone(),
            asked: Asked {
                via: Via::Connect,
                method: Some("CONNECT".into()),
                destination: Destination::parse_authority(Scheme::Https, &host).ok(),
                target: Some(host.clone()),
                path: None,
            },
            decision: Decision::Allow,
            reason: Reason::Allowlisted,
            rule: Some("profiles.default.allow[0]".into()),
            addresses: vec!["192.0.2.1".parse().unwrap()],
            status: None,
        };
        if is_denied {
            decision.decision = Decision::Deny;
            decision.reason = Reason::NotAllowlisted;
            decision.rule = None;
            log.refused(&decision).unwrap();
        } else {
            drop(log.open_exchange(decision).unwrap());
        }
        let query = DnsRecord {
            subject: subject.clone(),
            name: format!("{number}.host.example.com"),
            record_type: "A".into(),
            decision: Decision::Allow,
            reason: Reason::Allowlisted,
            rule: Some("profiles.default.allow[0]".into()),
            answer: DnsAnswer::Listener,
        };
        log.dns(&query).unwrap();
    }
}

/// Passes the log through a filter, and what passes to `take`.
fn scan(path: &Path, conditions: &Conditions, mut take: impl FnMut(Passed)) {
    let mut filter = Filter::new(conditions.clone());
    let mut lines = Source::named(path).unwrap().open().unwrap();
    while let Some(line) = lines.next_line().unwrap() {
        if let Some(passed) = filter.pass(line.bytes).unwrap() {
            take(passed);
        }
    }
}

/// What is asked for, each by its name.
fn sought() -> [(&'static str, Conditions); 6] {
    let host = |text: &str| Conditions {
        hosts: vec![Pattern::parse_deny(text).unwrap()],
        ..Conditions::default()
    };
    [
        ("host", host("host-7.example.com")),
        ("host_below", host("*.elsewhere.example")),
        (
            "denied",
            Conditions {
                verdicts: vec![Verdict::Denied],
                ..Conditions::default()
            },
        ),
        (
            "reason",
            Conditions {
                reasons: vec![Reason::SniMismatch],
                ..Conditions::default()
            },
        ),
        (
            "since",
            Conditions {
                since: Some("2100-01-01T00:00:00Z".parse().unwrap()),
                ..Conditions::default()
            },
        ),
        ("everything_passes", Conditions::default()),
    ]
}

fn filters(c: &mut Criterion) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.jsonl");
    write(&path);
    let mut group = c.benchmark_group("logs");
    group.sample_size(10);
    group.throughput(Throughput::Bytes(fs::metadata(&path).unwrap().len()));
    for (name, conditions) in sought() {
        group.bench_function(name, |b| {
            b.iter(|| scan(&path, &conditions, |passed| drop(black_box(passed))));
        });
    }
    let everything = Conditions::default();
    group.bench_function("everything_is_shown", |b| {
        b.iter(|| {
            let look = Look {
                zone: None,
                colour: false,
            };
            let mut renderer = Renderer::new(look);
            let mut out = io::sink();
            scan(&path, &everything, |passed| {
                renderer.write(&Row::of(&passed), &mut out).unwrap();
            });
        });
    });
    group.bench_function("everything_is_summed_up", |b| {
        b.iter(|| {
            let mut summary = Summary::new(By::All);
            scan(&path, &everything, |passed| summary.add(&passed));
            summary.report(None)
        });
    });
    group.finish();
}

criterion_group!(benches, filters);
criterion_main!(benches);
