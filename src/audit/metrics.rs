//! Counters derived from records, as Prometheus text; no label is of a client's choice.

mod render;
mod text;

use std::{
    array, fmt,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    time::Duration,
};

pub use self::text::{Kind, Text};
use crate::{
    policy::{Decision, Reason},
    record::{Closing, DecisionRecord, DnsAnswer, DnsRecord, Outcome, Via},
};

const DECISIONS: [Decision; 3] = [Decision::Allow, Decision::Deny, Decision::WouldDeny];

/// The upper bounds of the histogram of durations, in seconds.
const BOUNDS: [(Duration, &str); 12] = [
    (Duration::from_millis(5), "0.005"),
    (Duration::from_millis(25), "0.025"),
    (Duration::from_millis(100), "0.1"),
    (Duration::from_millis(250), "0.25"),
    (Duration::from_millis(500), "0.5"),
    (Duration::from_secs(1), "1"),
    (Duration::from_millis(2500), "2.5"),
    (Duration::from_secs(10), "10"),
    (Duration::from_secs(30), "30"),
    (Duration::from_mins(2), "120"),
    (Duration::from_mins(10), "600"),
    (Duration::from_hours(1), "3600"),
];

/// The counters. Every combination of labels exists from the start, so that counting is one
/// addition; those that are still zero are left out of the text where most never occur.
pub struct Metrics {
    requests: Table<{ Via::ALL.len() * DECISIONS.len() * Reason::ALL.len() }>,
    closed: Table<{ Outcome::ALL.len() }>,
    queries: Table<{ DECISIONS.len() * DnsAnswer::ALL.len() }>,
    bytes_up: AtomicU64,
    bytes_down: AtomicU64,
    durations: Table<{ BOUNDS.len() }>,
    duration_micros: AtomicU64,
    folded: AtomicU64,
    write_failures: AtomicU64,
    waiting: AtomicU64,
    not_writable: AtomicBool,
    rotations: AtomicU64,
    rotation_failures: AtomicU64,
}

/// Counters by the position of their labels.
struct Table<const N: usize>([AtomicU64; N]);

impl<const N: usize> Default for Table<N> {
    fn default() -> Self {
        Self(array::from_fn(|_| AtomicU64::new(0)))
    }
}

impl<const N: usize> Table<N> {
    /// Counts at `at`; none is beyond the table.
    fn count(&self, at: Option<usize>) {
        if let Some(counter) = at.and_then(|at| self.0.get(at)) {
            counter.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn values(&self) -> impl Iterator<Item = u64> {
        self.0.iter().map(|counter| counter.load(Ordering::Relaxed))
    }
}

fn position<T: PartialEq>(all: &[T], one: &T) -> Option<usize> {
    all.iter().position(|item| item == one)
}

impl Default for Metrics {
    fn default() -> Self {
        Self {
            requests: Table::default(),
            closed: Table::default(),
            queries: Table::default(),
            bytes_up: AtomicU64::new(0),
            bytes_down: AtomicU64::new(0),
            durations: Table::default(),
            duration_micros: AtomicU64::new(0),
            folded: AtomicU64::new(0),
            write_failures: AtomicU64::new(0),
            waiting: AtomicU64::new(0),
            not_writable: AtomicBool::new(false),
            rotations: AtomicU64::new(0),
            rotation_failures: AtomicU64::new(0),
        }
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}

/// What the log counts.
impl Metrics {
    pub(super) fn decided(&self, record: &DecisionRecord) {
        let at = position(Via::ALL, &record.asked.via)
            .zip(position(&DECISIONS, &record.decision))
            .zip(position(Reason::ALL, &record.reason))
            .map(|((via, decision), reason)| {
                (via * DECISIONS.len() + decision) * Reason::ALL.len() + reason
            });
        self.requests.count(at);
    }

    pub(super) fn closed(&self, closing: &Closing) {
        self.crashed(closing.outcome);
        self.bytes_up.fetch_add(closing.bytes_up, Ordering::Relaxed);
        self.bytes_down
            .fetch_add(closing.bytes_down, Ordering::Relaxed);
        let below = BOUNDS
            .iter()
            .position(|(bound, _)| closing.duration <= *bound);
        self.durations.count(below);
        let micros = u64::try_from(closing.duration.as_micros()).unwrap_or(u64::MAX);
        self.duration_micros.fetch_add(micros, Ordering::Relaxed);
    }

    /// Counts an exchange of which only the outcome is known.
    pub(super) fn crashed(&self, outcome: Outcome) {
        self.closed.count(position(Outcome::ALL, &outcome));
    }

    pub(super) fn answered(&self, record: &DnsRecord) {
        let at = position(&DECISIONS, &record.decision)
            .zip(position(DnsAnswer::ALL, &record.answer))
            .map(|(decision, answer)| decision * DnsAnswer::ALL.len() + answer);
        self.queries.count(at);
    }

    pub(super) fn folded(&self) {
        self.folded.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn write_failed(&self) {
        self.write_failures.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn waiting(&self, lines: usize) {
        let lines = u64::try_from(lines).unwrap_or(u64::MAX);
        self.waiting.store(lines, Ordering::Relaxed);
    }

    pub(super) fn writable(&self, writable: bool) {
        self.not_writable.store(!writable, Ordering::Relaxed);
    }

    pub(super) fn rotated(&self) {
        self.rotations.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn rotation_failed(&self) {
        self.rotation_failures.fetch_add(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests;
