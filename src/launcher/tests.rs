mod fake;
mod slots;

use std::{fs, path::Path, time::Duration};

use bytes::Bytes;
use tempfile::TempDir;

use self::fake::{Fake, Script};
use super::{
    backend::{Chunk, Ended, Object, ObjectKind},
    plan::{Owner, Process},
    spec::NetworkChoice,
    *,
};
use crate::record::{Limit, NetworkSummary};

/// A launcher over a scripted backend, with a record file of its own.
struct Bench {
    folder: TempDir,
    fake: Fake,
}

impl Bench {
    fn new(script: Script) -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
            fake: Fake::new(script),
        }
    }

    fn settings(&self) -> Settings {
        settings_in(self.folder.path())
    }

    async fn run(&self, spec: &RunSpec, io: Io) -> RunRecord {
        let launcher = Launcher::new(&self.fake, self.settings());
        let record = launcher.run(spec, io).await.unwrap();
        assert_eq!(self.recorded().last().unwrap().run, record.run);
        record
    }

    fn recorded(&self) -> Vec<RunRecord> {
        let text = fs::read_to_string(self.folder.path().join("runs.jsonl")).unwrap_or_default();
        text.lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }
}

/// Settings of this process whose state is in that folder.
pub(super) fn settings_in(folder: &Path) -> Settings {
    Settings {
        pool: "10.231.0.0/16".parse().unwrap(),
        record: folder.join("runs.jsonl"),
        state: folder.to_owned(),
        owner: Owner {
            machine: "machine".to_owned(),
            uid: 1000,
        },
        process: Process::this().unwrap(),
    }
}

fn egress() -> RunSpec {
    let mut spec = RunSpec::new("image", ["true"]);
    spec.network = NetworkChoice::Egress;
    spec
}

fn quick() -> Script {
    Script {
        runs_for: Some(Duration::from_millis(300)),
        ..Script::default()
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_is_created_started_collected_and_removed() {
    let bench = Bench::new(Script {
        output: vec![
            Chunk::Stdout(Bytes::from("out")),
            Chunk::Stderr(Bytes::from("err")),
        ],
        ended: Ended {
            exit_code: 3,
            ..Ended::default()
        },
        ..quick()
    });
    let mut spec = RunSpec::new("image", ["true"]);
    spec.output = Some(bench.folder.path().join("results"));
    let record = bench.run(&spec, Io::none()).await;
    assert_eq!(
        bench.fake.calls(),
        ["image", "create", "start", "wait", "collect", "remove"]
    );
    assert_eq!((record.exit_code, record.error.as_deref()), (3, None));
    assert_eq!((record.duration_ms, record.timed_out), (300, false));
    assert_eq!(record.outputs[0].path, "answer");
    let output = record.output.unwrap();
    assert_eq!(
        (output.stdout.as_str(), output.stderr.as_str()),
        ("out", "err")
    );
    assert_eq!(bench.recorded()[0].output, None);
}

#[tokio::test(start_paused = true)]
async fn a_run_is_registered_before_its_start_and_until_its_death() {
    let bench = Bench::new(Script {
        runs_for: Some(Duration::from_secs(75)),
        ..Script::default()
    });
    let mut spec = egress();
    spec.timeout = Duration::from_secs(100);
    let record = bench.run(&spec, Io::none()).await;
    let calls = bench.fake.calls();
    let at = |what: &str| calls.iter().position(|call| call == what).unwrap();
    assert!(
        at("PUT") < at("start") && at("create") < at("start"),
        "{calls:?}"
    );
    assert!(at("wait") < at("DELETE"), "{calls:?}");
    // Repeated every third of its 90 s.
    assert_eq!(
        calls.iter().filter(|call| *call == "PUT").count(),
        3,
        "{calls:?}"
    );
    assert_eq!(record.network.map(|network| network.more), Some(7));
}

#[tokio::test(start_paused = true)]
async fn the_deadline_kills_and_removes() {
    let bench = Bench::new(Script::default());
    let mut spec = egress();
    spec.timeout = Duration::from_secs(2);
    let record = bench.run(&spec, Io::none()).await;
    let calls = bench.fake.calls();
    assert_eq!(
        calls.last().map(String::as_str),
        Some("remove"),
        "{calls:?}"
    );
    assert!(calls.contains(&"kill".to_owned()), "{calls:?}");
    assert_eq!((record.exit_code, record.signal), (124, Some(9)));
    assert_eq!(record.duration_ms, 2000);
    let limits: Vec<Limit> = record.limits.iter().map(|reached| reached.limit).collect();
    assert_eq!(limits, [Limit::Timeout, Limit::Pids]);
}

#[tokio::test(start_paused = true)]
async fn a_signal_kills_and_removes() {
    let bench = Bench::new(Script::default());
    let (send, stop) = Stop::channel();
    let io = Io { stop, ..Io::none() };
    let spec = egress();
    let interrupt = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        send.send(Some(15)).unwrap();
    };
    let (record, ()) = tokio::join!(bench.run(&spec, io), interrupt);
    assert_eq!(record.exit_code, 143);
    assert!(record.error.unwrap().contains("interrupted by signal 15"));
    let calls = bench.fake.calls();
    assert!(
        calls.ends_with(&["kill".to_owned(), "DELETE".to_owned(), "remove".to_owned()]),
        "{calls:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn whatever_fails_or_panics_everything_is_removed() {
    for at in [
        "create", "PUT", "start", "wait", "kill", "collect", "DELETE",
    ] {
        for panics in [false, true] {
            let bench = Bench::new(Script {
                fails: (!panics).then_some(at),
                panics: panics.then_some(at),
                runs_for: (at != "kill").then_some(Duration::from_millis(1)),
                ..Script::default()
            });
            let mut spec = egress();
            spec.output = Some(bench.folder.path().join("results"));
            let launcher = Launcher::new(&bench.fake, bench.settings());
            let run = std::panic::AssertUnwindSafe(launcher.run(&spec, Io::none()));
            let record = futures_util::FutureExt::catch_unwind(run).await;
            let calls = bench.fake.calls();
            assert!(
                calls.contains(&"remove".to_owned()),
                "{at} {panics}: {calls:?}"
            );
            // A panic while the registration is removed a second time has nobody left to catch it.
            if at == "DELETE" && panics {
                continue;
            }
            let record = record.unwrap().unwrap();
            if at == "DELETE" {
                assert_eq!((record.exit_code, record.network), (0, None), "{at}");
                assert!(
                    record
                        .warnings
                        .iter()
                        .any(|warning| warning.contains("told to"))
                );
            } else {
                assert_eq!(record.exit_code, 125, "{at} {panics}");
                assert!(record.error.is_some(), "{at} {panics}");
            }
            assert!(
                calls.contains(&"DELETE".to_owned()),
                "{at} {panics}: {calls:?}"
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_range_that_somebody_has_is_given_up_for_another() {
    let bench = Bench::new(Script {
        taken_ranges: 2,
        taken_addresses: 1,
        ..quick()
    });
    let record = bench.run(&egress(), Io::none()).await;
    assert_eq!((record.exit_code, record.error), (0, None));
    let calls = bench.fake.calls();
    let count = |what: &str| calls.iter().filter(|call| *call == what).count();
    assert_eq!((count("create"), count("start")), (3, 1), "{calls:?}");
    assert_eq!(count("remove"), 3, "{calls:?}");
    let hopeless = Bench::new(Script {
        taken_ranges: u32::MAX,
        ..quick()
    });
    let record = hopeless.run(&egress(), Io::none()).await;
    assert_eq!(record.exit_code, 125);
    let settings = Settings {
        pool: "10.231.0.0/29".parse().unwrap(),
        ..hopeless.settings()
    };
    let launcher = Launcher::new(&hopeless.fake, settings);
    let record = launcher.run(&egress(), Io::none()).await.unwrap();
    let said = record.error.unwrap_or_default();
    assert!(
        said.contains("no /29 of the pool 10.231.0.0/29 is free"),
        "{said}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_command_that_is_not_there_is_told_from_one_that_fails() {
    let fatal = "[FATAL tini (7)] exec nope failed: No such file or directory\n";
    let bench = Bench::new(Script {
        ended: Ended {
            exit_code: 127,
            ..Ended::default()
        },
        output: vec![Chunk::Stderr(Bytes::from(fatal))],
        ..quick()
    });
    let record = bench
        .run(&RunSpec::new("image", ["nope"]), Io::none())
        .await;
    assert_eq!(record.exit_code, 127);
    assert!(record.error.unwrap().contains("no such command"));
    assert_eq!(record.network, Some(NetworkSummary::default()));
}

#[tokio::test(start_paused = true)]
async fn what_a_killed_launcher_left_is_removed_and_recorded() {
    let bench = Bench::new(quick());
    let settings = bench.settings();
    let labels = Labels {
        run: crate::record::RunId::parse("orphan").unwrap(),
        owner: settings.owner.clone(),
        process: Process {
            start: settings.process.start - 1,
            ..settings.process
        },
        ..Labels::sample()
    };
    let object = |kind, name: &str| Object {
        kind,
        id: name.to_owned(),
        name: name.to_owned(),
        labels: labels.to_map(),
    };
    let bench = Bench::new(Script {
        objects: vec![
            object(ObjectKind::Network, "agent-egress-orphan"),
            object(ObjectKind::Container, "eclusa-run-orphan"),
        ],
        ..quick()
    });
    bench
        .run(&RunSpec::new("image", ["true"]), Io::none())
        .await;
    let calls = bench.fake.calls();
    let at = |what: &str| calls.iter().position(|call| call == what).unwrap();
    assert!(
        at("reap eclusa-run-orphan") < at("reap agent-egress-orphan"),
        "{calls:?}"
    );
    assert!(at("reap agent-egress-orphan") < at("DELETE"), "{calls:?}");
    let orphan = &bench.recorded()[0];
    assert_eq!((orphan.run.as_str(), orphan.exit_code), ("orphan", 125));
    assert!(orphan.error.as_ref().unwrap().contains("was killed"));
}

#[tokio::test(start_paused = true)]
async fn a_run_that_cannot_be_recorded_does_not_start() {
    let bench = Bench::new(quick());
    let settings = Settings {
        record: bench.folder.path().to_owned(),
        ..bench.settings()
    };
    let launcher = Launcher::new(&bench.fake, settings);
    let error = launcher
        .run(&RunSpec::new("image", ["true"]), Io::none())
        .await
        .unwrap_err();
    assert_eq!(error.exit_code(), 125);
    assert!(bench.fake.calls().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_flood_is_counted_kept_and_shown_up_to_the_limit() {
    let chunk = Bytes::from(vec![b'y'; 64 * 1024]);
    let bench = Bench::new(Script {
        output: vec![Chunk::Stdout(chunk); 100],
        ..quick()
    });
    let (live, mut shown) = tokio::sync::mpsc::unbounded_channel();
    let io = Io {
        live: Some(live),
        ..Io::none()
    };
    let record = bench.run(&RunSpec::new("image", ["yes"]), io).await;
    assert_eq!(record.stdout_bytes, 6_553_600);
    assert!(record.stdout_truncated);
    assert_eq!(record.output.unwrap().stdout.len(), 100_000);
    let mut chunks = 0;
    while shown.recv().await.is_some() {
        chunks += 1;
    }
    assert_eq!(
        chunks, 2,
        "no chunk that begins beyond the limit waits for a reader"
    );
}
