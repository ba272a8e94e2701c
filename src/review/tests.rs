//! What the proxy writes is what a reader finds, whatever happened to the log in between.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{self, File},
    io::Read,
    path::{Path, PathBuf},
    sync::Arc,
};

use proptest::prelude::*;
use tempfile::TempDir;

use super::{faults::Faults, scan, source::Source, verify::verify};
use crate::{
    audit::{AuditLog, OpenExchange, tests::closing},
    config,
    destination::{Destination, Scheme},
    policy::{Decision, Reason},
    record::{Asked, DecisionRecord, Notice, Outcome, Subject, Via},
};

/// So small that a handful of lines fills a file, and more files than a case has lines.
const MAX_SIZE: u64 = 1500;
const KEEP: u32 = 100;

#[derive(Clone, Debug)]
enum Step {
    /// An exchange begins; in report mode where true.
    Open(bool),
    /// One of the open exchanges ends, as it should or by a task that was dropped.
    Close(prop::sample::Index, bool),
    /// Something is refused.
    Refuse,
    /// The proxy dies, in the middle of a line where there is something of it, and starts again.
    Crash(Vec<u8>),
    /// It stops in order and starts again.
    Restart,
}

fn step() -> impl Strategy<Value = Step> {
    // What is left of a line that the proxy wrote has no newline in it.
    let torn = prop_oneof![
        Just(Vec::new()),
        Just(br#"{"schema":1,"ts":"2026-01-02T03:04:05.678Z","prev":"00"#.to_vec()),
        prop::collection::vec(0x20_u8..0x7f, 1..40),
    ];
    prop_oneof![
        4 => any::<bool>().prop_map(Step::Open),
        4 => (any::<prop::sample::Index>(), any::<bool>())
            .prop_map(|(which, in_order)| Step::Close(which, in_order)),
        2 => Just(Step::Refuse),
        1 => torn.prop_map(Step::Crash),
        1 => Just(Step::Restart),
    ]
}

/// The log in a folder, and what should be found in it.
struct Stage {
    folder: TempDir,
    log: Arc<AuditLog>,
    open: Vec<OpenExchange>,
    /// How each exchange that was let through ended, by its id.
    ended: BTreeMap<String, &'static str>,
    refused: usize,
    torn: u64,
}

impl Stage {
    fn new() -> Self {
        let folder = TempDir::new().unwrap();
        let log = opened(folder.path());
        Self {
            folder,
            log,
            open: Vec::new(),
            ended: BTreeMap::new(),
            refused: 0,
            torn: 0,
        }
    }

    fn take(&mut self, step: Step) {
        match step {
            Step::Open(reporting) => {
                let (decision, reason) = if reporting {
                    (Decision::WouldDeny, Reason::NotAllowlisted)
                } else {
                    (Decision::Allow, Reason::Allowlisted)
                };
                let record = self.decision(decision, reason);
                self.open.push(self.log.open_exchange(record).unwrap());
            }
            Step::Close(_, _) if self.open.is_empty() => {}
            Step::Close(which, in_order) => {
                let mut exchange = self.open.swap_remove(which.index(self.open.len()));
                let outcome = if in_order {
                    Outcome::Done
                } else {
                    Outcome::Error
                };
                self.end(&exchange, outcome);
                if in_order {
                    exchange.close(&closing(Outcome::Done));
                }
            }
            Step::Refuse => {
                self.refused += 1;
                let record = self.decision(Decision::Deny, Reason::NotAllowlisted);
                self.log.refused(&record).unwrap();
            }
            Step::Crash(torn) => self.crash(&torn),
            Step::Restart => {
                for exchange in std::mem::take(&mut self.open) {
                    self.end(&exchange, Outcome::Error);
                }
                self.log.notice(&Notice::Stop).unwrap();
                // Two writers never share a log.
                self.crash(b"");
            }
        }
    }

    /// What is on the disk at this moment is all that the next start finds.
    fn crash(&mut self, torn: &[u8]) {
        let folder = TempDir::new().unwrap();
        for entry in fs::read_dir(self.folder.path()).unwrap() {
            let entry = entry.unwrap();
            fs::copy(entry.path(), folder.path().join(entry.file_name())).unwrap();
        }
        let path = path(folder.path());
        let whole = fs::read(&path).unwrap();
        fs::write(&path, [&whole, torn].concat()).unwrap();
        self.torn += u64::from(!torn.is_empty());
        for exchange in std::mem::take(&mut self.open) {
            self.end(&exchange, Outcome::Crash);
        }
        self.log = opened(folder.path());
        self.folder = folder;
    }

    fn end(&mut self, exchange: &OpenExchange, outcome: Outcome) {
        let id = exchange.decision().id.to_string();
        assert_eq!(self.ended.insert(id, outcome.as_str()), None);
    }

    /// A decision about a name of its own, so that nothing is folded.
    fn decision(&self, decision: Decision, reason: Reason) -> DecisionRecord {
        let id = self.log.new_id();
        let name = format!("{id}.example:443");
        DecisionRecord {
            id,
            subject: Subject::default(),
            asked: Asked {
                via: Via::Sni,
                method: None,
                destination: Destination::parse_authority(Scheme::Https, &name).ok(),
                target: None,
                path: None,
            },
            decision,
            reason,
            rule: None,
            addresses: Vec::new(),
            status: None,
        }
    }
}

fn path(folder: &Path) -> PathBuf {
    folder.join("audit.jsonl")
}

fn opened(folder: &Path) -> Arc<AuditLog> {
    let settings = config::Audit {
        sink: config::AuditSink::File(path(folder)),
        max_size: MAX_SIZE,
        keep: KEEP,
    };
    AuditLog::open(&settings, 600).unwrap()
}

fn plainly(file: File) -> Box<dyn Read> {
    Box::new(file)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn whatever_happens_each_exchange_has_one_end_and_the_chain_is_whole(
        steps in prop::collection::vec(step(), 1..50),
    ) {
        let mut stage = Stage::new();
        for step in steps {
            stage.take(step);
        }
        stage.take(Step::Restart);

        let sources = Source::log(&path(stage.folder.path())).unwrap();
        let proof = verify(&sources, Some(stage.log.head().head), plainly).unwrap();
        prop_assert!(proof.is_whole(), "{:?}", proof);
        // Before the first record there is no chain yet that they are in.
        prop_assert_eq!(proof.torn_count + proof.unchained, stage.torn);

        let (mut faults, mut refused) = (Faults::default(), 0);
        let (mut decided, mut ended) = (BTreeSet::new(), BTreeMap::new());
        scan::events(&sources, &mut faults, plainly, |line| {
            let id = line.id.clone().unwrap_or_default();
            match (&*line.event, line.decision.as_deref()) {
                ("decision", Some("deny")) => refused += 1,
                ("decision", _) => assert!(decided.insert(id), "{line:?}"),
                ("close", _) => {
                    assert!(decided.contains(&id), "an end before its begin: {line:?}");
                    let outcome = line.outcome.clone().unwrap_or_default();
                    assert!(ended.insert(id, outcome).is_none(), "a second end: {line:?}");
                }
                _ => assert_eq!(line.event, "stop"),
            }
        })
        .unwrap();
        prop_assert_eq!((faults.count, refused), (stage.torn, stage.refused));
        prop_assert!(decided.iter().eq(ended.keys()));
        let ended = ended.iter().map(|(id, outcome)| (&**id, &**outcome));
        prop_assert!(ended.eq(stage.ended.iter().map(|(id, outcome)| (&**id, *outcome))));
    }
}
