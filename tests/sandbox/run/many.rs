//! Many launches at once, and launchers that are killed wherever they are.

use std::{
    collections::{BTreeMap, BTreeSet},
    process::Output,
    thread,
    time::{Duration, SystemTime},
};

use eclusa::record::RunRecord;
use rustix::process::Signal;
use serde_json::Value;

use super::{Launcher, Running, network::stage::registered, objects};
use crate::docker::{docker, without_proxy};

const LAUNCHES: usize = 50;

/// When a launcher is ended from outside, after the start of all, and how.
type Fate = Option<(Duration, Signal)>;

/// Every other launch is let be; of the rest every other is killed outright. `SplitMix64` from a
/// fixed seed: the moments are odd ones, and the same at each run of the test.
fn fates() -> Vec<Fate> {
    let mut state = 20_u64;
    let mut moment = || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        Duration::from_millis((mixed ^ (mixed >> 31)) % 10_000)
    };
    let fate = |at: usize| match at % 4 {
        1 => Some((moment(), Signal::KILL)),
        3 => Some((moment(), Signal::TERM)),
        _ => None,
    };
    (0..LAUNCHES).map(fate).collect()
}

/// Starts them all, and ends each at its moment.
fn launch(launcher: &Launcher, fates: &[Fate]) -> Vec<(u32, Output)> {
    let start = SystemTime::now();
    let running: Vec<Running> = (0..fates.len())
        .map(|at| {
            let script = format!("ls; echo {at} > {at}; sleep 1; ls; cat *; exit {at}");
            let command = ["sh", "-c", &script];
            let network = if at % 5 < 2 { "egress" } else { "none" };
            let options = ["--timeout=100s", &format!("--network={network}")];
            Running::start(&mut launcher.command(&options, &command))
        })
        .collect();
    let mut moments: Vec<(Duration, Signal, &Running)> = running
        .iter()
        .zip(fates)
        .filter_map(|(running, fate)| fate.map(|(moment, signal)| (moment, signal, running)))
        .collect();
    moments.sort_unstable_by_key(|(moment, ..)| *moment);
    for (moment, signal, running) in moments {
        while let Some(left) = moment.checked_sub(start.elapsed().unwrap()) {
            thread::park_timeout(left);
        }
        running.signal(signal);
    }
    running
        .into_iter()
        .map(|running| (running.pid(), running.finish(b"").0))
        .collect()
}

#[test]
#[ignore = "needs Docker"]
fn fifty_launches_of_which_half_are_killed_mix_nothing_and_leave_nothing() {
    let _alone = without_proxy();
    let launcher = Launcher::alone();
    let fates = fates();
    let start = SystemTime::now();
    let ended = launch(&launcher, &fates);
    let mut runs = BTreeSet::new();
    for (at, ((_, output), fate)) in ended.iter().zip(&fates).enumerate() {
        let by_itself = output.status.code() == Some(i32::try_from(at).unwrap());
        let signal = fate.map(|(_, signal)| signal);
        assert!(by_itself || signal.is_some(), "{at}: {output:?}");
        if !by_itself {
            // Before it listens to signals, or as it does.
            let is_ended = [None, Some(143)].contains(&output.status.code());
            assert!(is_ended, "{at}: {output:?}");
        }
        let Ok(record) = serde_json::from_slice::<RunRecord>(&output.stdout) else {
            assert!(output.stdout.is_empty(), "{at}: {output:?}");
            continue;
        };
        assert!(runs.insert(record.run.clone()), "{} twice", record.run);
        if by_itself {
            let wrote = record.output.unwrap();
            assert_eq!(wrote.stdout, format!("{at}\n{at}\n"), "{at}");
        }
    }
    let whole = ended.len()
        - ended
            .iter()
            .filter(|(_, out)| out.stdout.is_empty())
            .count();
    assert!((LAUNCHES / 2..LAUNCHES).contains(&whole), "{whole} records");

    let last = launcher.run(&[], &["true"]).succeeded();
    assert!(
        last.record
            .warnings
            .iter()
            .all(|warning| !warning.contains("failed")),
        "{last:?}"
    );
    let pids: BTreeSet<u32> = ended.iter().map(|(pid, _)| *pid).collect();
    let of_them = |labels: &BTreeMap<String, String>| {
        let process = labels
            .get("eclusa.process")
            .and_then(|label| label.split('.').next());
        process.is_some_and(|pid| pids.contains(&pid.parse().unwrap()))
    };
    let mut left = objects();
    left.retain(|object| of_them(&object.labels));
    assert!(left.is_empty(), "{left:?}");
    assert_eq!(registered(), Vec::<Value>::new());
    let networks = "--format={{range $name, $_ := .NetworkSettings.Networks}}{{$name}} {{end}}";
    assert_eq!(
        docker(&["inspect", networks, "eclusa-proxy"]),
        "egress-uplink"
    );
    runs.insert(last.record.run);
    each_is_recorded_once(&launcher, &runs);
    let took = start.elapsed().unwrap();
    assert!(took < Duration::from_mins(2), "{took:?}");
}

/// Each run that told of itself has a line, and so has each that was reaped.
fn each_is_recorded_once(launcher: &Launcher, runs: &BTreeSet<String>) {
    let recorded = launcher.recorded();
    let ids: BTreeSet<String> = recorded.iter().map(|record| record.run.clone()).collect();
    assert_eq!(ids.len(), recorded.len(), "a run has two lines");
    assert!(
        runs.is_subset(&ids),
        "{:?} have none",
        runs.difference(&ids)
    );
    let reaped = recorded.iter().filter(|record| !runs.contains(&record.run));
    assert_ne!(
        reaped.clone().count(),
        0,
        "no launcher was killed in the midst of it"
    );
    for record in reaped {
        let error = record.error.as_deref().unwrap();
        assert!(error.contains("the launcher was killed"), "{record:?}");
    }
}
