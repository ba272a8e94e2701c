//! What a record costs: the pair of an exchange, to a file and without one, its link in the chain,
//! and a folded query; and what a start and a proof cost on a full file.

#![expect(clippy::unwrap_used, reason = "a bench may panic")]

use std::{fs, hint::black_box, path::PathBuf, sync::Arc};

use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use eclusa::{
    audit::AuditLog,
    config::{Audit, AuditSink},
    destination::{Destination, Scheme},
    policy::{Decision, Reason},
    record::{Asked, DecisionRecord, DnsAnswer, DnsRecord, Link, RunId, Subject, Via},
    review::{source::Source, verify::verify},
};

fn open(path: PathBuf) -> Arc<AuditLog> {
    let settings = Audit {
        sink: AuditSink::File(path),
        max_size: 100 << 20,
        keep: 2,
    };
    AuditLog::open(&settings, 600).unwrap()
}

fn subject() -> Subject {
    Subject {
        run: Some(RunId::parse("01JD5SWQ000000000000000001").unwrap()),
        profile: Some("default".into()),
        client: Some("10.231.0.3".parse().unwrap()),
    }
}

fn decision(log: &AuditLog) -> DecisionRecord {
    DecisionRecord {
        id: log.new_id(),
        subject: subject(),
        asked: Asked {
            via: Via::Http,
            method: Some("GET".into()),
            destination: Destination::parse_authority(Scheme::Http, "api.example.com:80").ok(),
            target: Some("http://api.example.com/v1/items".into()),
            path: Some("/v1/items".into()),
        },
        decision: Decision::Allow,
        reason: Reason::Allowlisted,
        rule: Some("profiles.default.allow[0]".into()),
        addresses: vec!["192.0.2.1".parse().unwrap(), "2001:db8::1".parse().unwrap()],
        status: None,
    }
}

fn exchanges(c: &mut Criterion) {
    let folder = tempfile::tempdir().unwrap();
    for (name, path) in [
        ("exchange_to_file", folder.path().join("audit.jsonl")),
        ("exchange_to_null", "/dev/null".into()),
    ] {
        let log = open(path);
        c.bench_function(name, |b| {
            b.iter_batched(
                || decision(&log),
                |decision| drop(log.open_exchange(decision).unwrap()),
                BatchSize::SmallInput,
            );
        });
    }
}

/// What the chain adds to the write of one line.
fn link(c: &mut Criterion) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.jsonl");
    let log = open(path.clone());
    drop(log.open_exchange(decision(&log)).unwrap());
    let text = fs::read_to_string(path).unwrap();
    let line = text.lines().next().unwrap().as_bytes();
    c.bench_function("link_of_a_line", |b| {
        b.iter(|| Link::FIRST.then(black_box(line)));
    });
}

fn queries(c: &mut Criterion) {
    let log = open("/dev/null".into());
    let mut query = DnsRecord {
        subject: subject(),
        name: "api.example.com.".into(),
        record_type: "A".into(),
        decision: Decision::Allow,
        reason: Reason::Allowlisted,
        rule: Some("profiles.default.allow[0]".into()),
        answer: DnsAnswer::Listener,
    };
    c.bench_function("repeated_query_folded", |b| {
        b.iter(|| log.dns(black_box(&query)).unwrap());
    });
    query.decision = Decision::Deny;
    query.reason = Reason::NotAllowlisted;
    let mut number = 0_u64;
    c.bench_function("distinct_query_folded", |b| {
        b.iter_batched(
            || {
                number += 1;
                DnsRecord {
                    name: format!("{number}.evil.example."),
                    ..query.clone()
                }
            },
            |query| log.dns(&query).unwrap(),
            BatchSize::SmallInput,
        );
    });
}

/// A start on a full file without a stop, of which all is read back; and the proof of that file.
fn full_file(c: &mut Criterion) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.jsonl");
    let log = open(path.clone());
    while path.metadata().unwrap().len() < 99 << 20 {
        for _ in 0..1000 {
            drop(log.open_exchange(decision(&log)).unwrap());
        }
    }
    drop(log);
    let mut group = c.benchmark_group("full_file");
    group.sample_size(10);
    let sources = [Source::named(&path).unwrap()];
    group.bench_function("proof_of_99_mib", |b| {
        b.iter(|| {
            assert!(
                verify(&sources, None, |file| Box::new(file))
                    .unwrap()
                    .is_whole()
            );
        });
    });
    group.bench_function("start_after_99_mib", |b| b.iter(|| open(path.clone())));
    group.finish();
}

criterion_group!(benches, exchanges, link, queries, full_file);
criterion_main!(benches);
