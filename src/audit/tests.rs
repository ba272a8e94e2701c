mod held;

use std::{
    collections::HashSet,
    fs::{self, File},
    path::{Path, PathBuf},
    sync::atomic::AtomicUsize,
    time::Duration,
};

use tempfile::TempDir;

use super::*;
use crate::{
    destination::{Destination, Scheme},
    policy::{Decision, Reason},
    record::{Asked, Closing, DnsAnswer, RunId, Subject, Via},
};

fn open(path: &Path) -> Result<Arc<AuditLog>, AuditError> {
    let settings = config::Audit {
        sink: config::AuditSink::File(path.to_owned()),
        max_size: 100 << 20,
        keep: 10,
    };
    AuditLog::open(&settings, 600)
}

fn folder() -> (TempDir, PathBuf) {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("audit.jsonl");
    (folder, path)
}

fn read(path: &Path) -> Vec<Line> {
    fs::read(path)
        .unwrap()
        .split_inclusive(|byte| *byte == b'\n')
        .map(|line| Line::parse(line).unwrap())
        .collect()
}

fn events(path: &Path) -> Vec<String> {
    read(path).into_iter().map(|line| line.event).collect()
}

fn decision(log: &AuditLog, decision: Decision) -> DecisionRecord {
    DecisionRecord {
        id: log.new_id(),
        subject: Subject {
            run: Some(RunId::parse("run-1").unwrap()),
            profile: None,
            client: Some("10.231.0.3".parse().unwrap()),
        },
        asked: Asked {
            via: Via::Sni,
            method: None,
            destination: Destination::parse_authority(Scheme::Https, "allowed.example:443").ok(),
            target: None,
            path: None,
        },
        decision,
        reason: Reason::Allowlisted,
        rule: None,
        addresses: Vec::new(),
        status: None,
    }
}

fn query(name: &str) -> DnsRecord {
    DnsRecord {
        subject: Subject {
            run: None,
            profile: None,
            client: Some("10.231.0.3".parse().unwrap()),
        },
        name: name.into(),
        record_type: "A".into(),
        decision: Decision::Deny,
        reason: Reason::NotAllowlisted,
        rule: None,
        answer: DnsAnswer::NxDomain,
    }
}

pub(crate) fn closing(outcome: Outcome) -> Closing {
    Closing {
        outcome,
        reason: None,
        status: None,
        upstream: None,
        sni: None,
        ech: None,
        bytes_up: 1,
        bytes_down: 2,
        duration: Duration::from_millis(3),
    }
}

/// The link of the last line in `files`, oldest first; every line names that before it.
fn linked(files: &[PathBuf]) -> Link {
    let mut last = Link::FIRST;
    for file in files {
        for line in fs::read_to_string(file).unwrap().lines() {
            assert_eq!(Link::named_by(line.as_bytes()), Some(last), "{line}");
            last = last.then(line.as_bytes());
        }
    }
    last
}

/// Lets every write fail as on a full disk, until it is dropped.
pub(crate) struct FullDisk {
    log: Arc<AuditLog>,
    writer: Option<Writer>,
}

impl FullDisk {
    pub(crate) fn under(log: &Arc<AuditLog>) -> Self {
        let full = File::options().append(true).open("/dev/full").unwrap();
        let full = Writer::stream("full".into(), full, Arc::clone(&log.metrics));
        Self {
            log: Arc::clone(log),
            writer: Some(log.with_journal(|journal| journal.swap(full))),
        }
    }
}

impl Drop for FullDisk {
    fn drop(&mut self) {
        if let Some(writer) = self.writer.take() {
            self.log.with_journal(|journal| drop(journal.swap(writer)));
        }
    }
}

#[test]
fn an_exchange_has_a_decision_and_one_close_with_the_same_id() {
    let (_folder, path) = folder();
    let log = open(&path).unwrap();
    let mut exchange = log.open_exchange(decision(&log, Decision::Allow)).unwrap();
    assert_eq!(events(&path), ["decision"]);
    exchange.close(&closing(Outcome::Done));
    exchange.close(&closing(Outcome::Idle));
    let id = exchange.decision().id.to_string();
    drop(exchange);
    let lines = read(&path);
    assert_eq!(lines.len(), 2);
    assert!(lines.iter().all(|line| line.id.as_deref() == Some(&id)));
    assert_eq!(lines[1].outcome.as_deref(), Some("done"));
}

#[test]
fn an_exchange_that_nobody_closed_is_closed_as_an_error() {
    let (_folder, path) = folder();
    let log = open(&path).unwrap();
    let exchange = log.open_exchange(decision(&log, Decision::WouldDeny));
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let _exchange = exchange.unwrap();
        panic!("the task that held it");
    }));
    assert!(panicked.is_err());
    let lines = read(&path);
    assert_eq!(lines[1].outcome.as_deref(), Some("error"));
}

#[test]
fn a_full_disk_refuses_everything_and_every_close_arrives_once_there_is_room() {
    let (_folder, path) = folder();
    let log = open(&path).unwrap();
    let mut opened: Vec<OpenExchange> = (0..3)
        .map(|_| log.open_exchange(decision(&log, Decision::Allow)).unwrap())
        .collect();
    let full = FullDisk::under(&log);
    for exchange in &mut opened {
        exchange.close(&closing(Outcome::Done));
    }
    let refused = log
        .open_exchange(decision(&log, Decision::Allow))
        .unwrap_err();
    assert!(matches!(refused, AuditError::Backlog(3)), "{refused}");
    log.refused(&decision(&log, Decision::Deny)).unwrap_err();
    log.dns(&query("evil.example.")).unwrap_err();
    log.notice(&Notice::Stop).unwrap_err();
    assert!(!log.is_writable());
    log.flush();
    let text = log.metrics().render();
    for expected in ["eclusa_audit_backlog 3\n", "eclusa_audit_writable 0\n"] {
        assert!(text.contains(expected), "{text}");
    }
    assert_eq!(events(&path), ["decision"; 3]);

    drop(full);
    assert!(log.is_writable());
    let lines = read(&path);
    let found: Vec<(&str, Option<u64>)> = lines
        .iter()
        .skip(3)
        .map(|line| (line.event.as_str(), line.count))
        .collect();
    let close = ("close", None);
    assert_eq!(found, [close, close, close, ("gap", Some(4))]);
    assert!(lines.is_sorted_by_key(|line| line.ts));
    log.open_exchange(decision(&log, Decision::Allow)).unwrap();
    assert_eq!(linked(&[path]), log.head().head);
    assert!(log.metrics().render().contains("eclusa_audit_backlog 0\n"));
}

#[test]
fn traffic_alone_finds_that_there_is_room_again() {
    let (_folder, path) = folder();
    let log = open(&path).unwrap();
    let full = FullDisk::under(&log);
    log.dns(&query("evil.example.")).unwrap_err();
    drop(full);
    log.dns(&query("evil.example.")).unwrap();
    assert_eq!(events(&path), ["gap", "dns"]);
}

#[test]
fn an_event_that_would_only_be_counted_fails_too_while_the_log_does() {
    let (_folder, path) = folder();
    let log = open(&path).unwrap();
    for _ in 0..30 {
        log.dns(&query("evil.example.")).unwrap();
    }
    let full = FullDisk::under(&log);
    let mut exchange = log.open_exchange(decision(&log, Decision::Allow));
    assert!(exchange.is_err());
    exchange = Err(AuditError::Backlog(0));
    log.dns(&query("evil.example.")).unwrap_err();
    drop(full);
    log.dns(&query("evil.example.")).unwrap();
    log.notice(&Notice::Stop).unwrap();
    drop(exchange);
    let lines = read(&path);
    let counts: Vec<(&str, Option<u64>)> = lines
        .iter()
        .skip(20)
        .map(|line| (line.event.as_str(), line.count))
        .collect();
    assert_eq!(
        counts,
        [("gap", Some(2)), ("dns", Some(11)), ("stop", None)]
    );
}

#[test]
fn a_log_whose_folder_vanished_refuses_until_it_is_back() {
    let (folder, _) = folder();
    let inside = folder.path().join("log");
    fs::create_dir(&inside).unwrap();
    let path = inside.join("audit.jsonl");
    let log = open(&path).unwrap();
    fs::remove_dir_all(&inside).unwrap();
    log.flush();
    log.open_exchange(decision(&log, Decision::Allow))
        .unwrap_err();
    assert!(!log.is_writable());
    fs::create_dir(&inside).unwrap();
    log.flush();
    log.open_exchange(decision(&log, Decision::Allow)).unwrap();
    assert_eq!(events(&path), ["gap", "decision", "close"]);
}

#[test]
fn a_flood_of_distinct_denials_is_bounded_and_its_count_true() {
    let (_folder, path) = folder();
    let log = open(&path).unwrap();
    let total = 100_000;
    let mut record = query("");
    for number in 0..total {
        record.name = format!("{number}.evil.example.");
        log.dns(&record).unwrap();
        if number % 10_000 == 0 {
            log.flush();
        }
    }
    log.notice(&Notice::Stop).unwrap();
    let lines = read(&path);
    let counted: u64 = lines
        .iter()
        .filter(|line| line.event == "dns")
        .map(|line| line.count.unwrap_or(1))
        .sum();
    assert_eq!(counted, total);
    // 600 a minute, and however slow this machine is, not for long.
    assert!(lines.len() < 600 * 5, "{}", lines.len());
    let text = log.metrics().render();
    let expected = r#"eclusa_dns_queries_total{decision="deny",answer="nxdomain"} 100000"#;
    assert!(text.contains(expected), "{text}");
    assert!(!text.contains("evil"), "{text}");
}

#[test]
fn the_counts_of_a_run_are_written_before_its_end() {
    let (_folder, path) = folder();
    let log = open(&path).unwrap();
    for _ in 0..25 {
        log.refused(&decision(&log, Decision::Deny)).unwrap();
    }
    let subject = decision(&log, Decision::Deny).subject;
    log.notice(&Notice::RunEnd { subject, cut: 0 }).unwrap();
    let lines = read(&path);
    assert_eq!(lines.len(), 22);
    assert_eq!(lines[20].count, Some(5));
    assert_ne!(lines[20].id, lines[0].id);
    assert_eq!(lines[21].event, "run_end");
}

#[test]
fn lines_of_many_threads_stay_whole_and_in_the_order_of_their_times() {
    let (_folder, path) = folder();
    let log = open(&path).unwrap();
    let made = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..500 {
                    let mut exchange = log.open_exchange(decision(&log, Decision::Allow)).unwrap();
                    exchange.close(&closing(Outcome::Done));
                    made.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    });
    let lines = read(&path);
    assert_eq!(lines.len(), 2 * made.into_inner());
    assert!(lines.is_sorted_by_key(|line| line.ts));
    assert_eq!(linked(&[path]), log.head().head);
    let ids: HashSet<_> = lines.iter().map(|line| line.id.clone()).collect();
    assert_eq!(ids.len(), 4000);
}

#[test]
fn rotation_under_load_loses_no_line() {
    let (folder, path) = folder();
    let settings = config::Audit {
        sink: config::AuditSink::File(path.clone()),
        max_size: 64 << 10,
        keep: 100,
    };
    let log = AuditLog::open(&settings, 600).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..500 {
                    drop(log.open_exchange(decision(&log, Decision::Allow)).unwrap());
                }
            });
        }
    });
    let mut files: Vec<PathBuf> = (1..=100)
        .map(|number| path.with_added_extension(number.to_string()))
        .filter(|file| file.exists())
        .collect();
    files.reverse();
    files.push(path);
    assert_eq!(
        fs::read_dir(folder.path()).unwrap().count(),
        files.len() + 1
    );
    assert_eq!(linked(&files), log.head().head);
    assert!(files.len() > 5, "{files:?}");
    let lines: usize = files.iter().map(|file| read(file).len()).sum();
    assert_eq!(lines, 4000);
    for file in files {
        let len = file.metadata().unwrap().len();
        assert!(len <= 64 << 10, "{} {len}", file.display());
    }
}

#[test]
fn a_start_after_a_crash_closes_what_was_open() {
    let (_folder, path) = folder();
    let log = open(&path).unwrap();
    log.notice(&Notice::Start {
        version: "0.1.0",
        listeners: Vec::new(),
    })
    .unwrap();
    let record = decision(&log, Decision::Allow);
    let id = record.id.to_string();
    let exchange = log.open_exchange(record).unwrap();
    drop(log.open_exchange(decision(&log, Decision::Allow)).unwrap());
    // A crash: no close is written, the lock goes with the process, and the last line is torn.
    let before = fs::read(&path).unwrap();
    drop((exchange, log));
    fs::write(&path, [&before[..], b"{\"schema\":1,\"ts\":\"20"].concat()).unwrap();

    let log = open(&path).unwrap();
    let text = fs::read_to_string(&path).unwrap();
    let last = Line::parse(text.lines().last().unwrap().as_bytes()).unwrap();
    assert_eq!(
        (last.event.as_str(), last.outcome.as_deref(), last.bytes_up),
        ("close", Some("crash"), None)
    );
    assert_eq!((last.id, last.run.as_deref()), (Some(id), Some("run-1")));
    let crashed = r#"eclusa_exchanges_closed_total{outcome="crash"} 1"#;
    assert!(log.metrics().render().contains(crashed));
    drop(log);
    open(&path).unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), text);
}

#[test]
fn a_log_in_use_is_not_opened_twice() {
    let (_folder, path) = folder();
    let log = open(&path).unwrap();
    let second = open(&path).unwrap_err();
    assert!(matches!(second, AuditError::Locked(_)), "{second}");
    drop(log);
    open(&path).unwrap();
}
