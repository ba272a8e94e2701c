//! The proxy under chance: a seed lets many connections authorise, dial, relay and end, while the
//! resolver, the origins, the clients, the disk and whoever cancels do what they like. After each
//! step, and in the end, the log, the counts and the connections tell the same story.
//!
//! The clock stands still unless a step moves it. `ECLUSA_SIMULATION=17` runs one seed again, and
//! `ECLUSA_SIMULATION=0..5000` others than those of the test. A seed repeats every choice made
//! here; what the runtime and the kernel choose, such as which of two ready events comes first,
//! may differ now and then.

mod chance;
mod client;
mod ledger;
mod origin;
mod stage;
mod task;
mod wire;
mod world;

use std::{collections::BTreeMap, ops::Range};

use self::{chance::Chance, stage::Stage, world::World};
use crate::{policy::Reason, record::Outcome, workers::tests::assert_passes_alone};

/// The seeds of the test.
const SEEDS: Range<u64> = 0..100;

/// The steps of one seed.
const STEPS: usize = 500;

#[test]
fn a_simulation_of_faults_keeps_its_invariants() {
    assert_passes_alone("proxy::simulation::seeds");
}

#[test]
#[ignore = "counts the descriptors of its process: the test above gives it one of its own"]
fn seeds() {
    let chosen = chosen();
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_all().start_paused(true).build().unwrap();
    let world = runtime.block_on(World::new());
    let at_rest = descriptors();
    let mut seen = Seen::default();
    for seed in chosen.clone().unwrap_or(SEEDS) {
        eprintln!("ECLUSA_SIMULATION={seed}");
        runtime.block_on(async {
            let mut stage = Stage::new(&world, Chance::of(seed));
            for _ in 0..STEPS {
                stage.step().await;
            }
            stage.end(&mut seen).await;
        });
        let kept = descriptors() - at_rest;
        assert!(kept <= MOST_KEPT, "{kept} descriptors are left");
    }
    eprintln!("{seen:?}");
    if chosen.is_none() {
        seen.check();
    }
}

/// What all seeds together led to.
#[derive(Debug, Default)]
struct Seen {
    outcomes: BTreeMap<String, usize>,
    reasons: BTreeMap<String, usize>,
    gaps: usize,
}

impl Seen {
    /// The seeds reach what they are meant to.
    fn check(&self) {
        for outcome in Outcome::ALL.iter().filter(|one| **one != Outcome::Crash) {
            assert!(
                self.outcomes.contains_key(outcome.as_str()),
                "no {outcome:?}"
            );
        }
        for reason in [
            Reason::UnknownClient,
            Reason::NotAllowlisted,
            Reason::OverCapacity,
            Reason::ShuttingDown,
            Reason::AddressBlocked,
            Reason::ResolveFailed,
            Reason::ResolveTimeout,
            Reason::ConnectFailed,
            Reason::ConnectTimeout,
            Reason::BudgetExceeded,
            Reason::UpstreamError,
        ] {
            assert!(self.reasons.contains_key(reason.code()), "no {reason:?}");
        }
        assert!(self.gaps > 0, "the disk was never full");
    }
}

/// What a thread keeps without use: eight pipes, and the socket that tells of new interfaces.
const MOST_KEPT: usize = 2 * 8 + 1;

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

#[expect(
    clippy::disallowed_methods,
    reason = "whoever repeats a seed says which"
)]
fn chosen() -> Option<Range<u64>> {
    let text = std::env::var("ECLUSA_SIMULATION").ok()?;
    let number = |text: &str| text.parse().expect("a seed, or FROM..TO");
    Some(match text.split_once("..") {
        Some((from, to)) => number(from)..number(to),
        None => number(&text)..number(&text) + 1,
    })
}
