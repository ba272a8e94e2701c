//! A recorded log, judged again: what would have been decided under another configuration.

mod side;

#[cfg(test)]
mod tests;

use std::{
    cmp::Reverse,
    collections::{BTreeSet, HashMap},
};

use jiff::Timestamp;
use serde::Serialize;

use self::side::{Asked, Side, UnknownRun};
use super::{judge::Judged, name};
use crate::{
    config::Config,
    policy::{Decision, Reason},
    record::Line,
};

/// The most changes that are told apart; what comes after is counted.
const MOST_CHANGES: usize = 10_000;

/// The runs that are named with one change; more are not.
const MOST_RUNS: usize = 8;

/// The reasons that lists and addresses give; every other depends on the message or the moment, and
/// stays as it was.
const OF_POLICY: &[Reason] = &[
    Reason::Allowlisted,
    Reason::NotAllowlisted,
    Reason::DeniedByRule,
    Reason::PortNotAllowed,
    Reason::IpLiteral,
    Reason::AddressBlocked,
    Reason::UnknownClient,
];

/// What a verdict under `new` is compared with.
#[derive(Clone, Copy, Debug)]
pub enum Baseline<'c> {
    /// What the log says was decided.
    Recorded,
    /// What another configuration decides.
    Config(&'c Config),
}

/// A replay under way; lines are given in the order of the log.
#[derive(Debug)]
pub struct Replay<'c> {
    /// None where the record itself is compared with.
    old: Option<Side<'c>>,
    new: Side<'c>,
    changes: HashMap<Key, Tally>,
    counts: Counts,
}

/// How many events there were, folded ones counted as often as they happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Judged again.
    pub judged: u64,
    /// Of these, decided as before.
    pub unchanged: u64,
    /// Of these, let through now.
    pub now_passed: u64,
    /// Of these, refused now.
    pub now_refused: u64,
    /// Of these, allowed where report mode only let them through, or the other way round.
    pub now_otherwise: u64,
    /// Refused for the message or the moment, which no list changes.
    pub not_of_policy: u64,
    /// Of a run whose start, and with it its own list, is not in the log.
    pub unknown_run: u64,
    /// Without a destination: folded ones, and what could not be read then.
    pub without_destination: u64,
    /// Changes beyond those that are told apart.
    pub untold: u64,
}

impl Counts {
    fn of(&mut self, old: Decision, new: Decision) -> &mut u64 {
        match (old, new) {
            (old, new) if old == new => &mut self.unchanged,
            (Decision::Deny, _) => &mut self.now_passed,
            (_, Decision::Deny) => &mut self.now_refused,
            (Decision::Allow | Decision::WouldDeny, Decision::Allow | Decision::WouldDeny) => {
                &mut self.now_otherwise
            }
        }
    }
}

/// What a change is about, and the change.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Key {
    profile: Option<String>,
    asked: Asked,
    old: Judged,
    new: Judged,
}

#[derive(Clone, Debug)]
struct Tally {
    count: u64,
    last: Timestamp,
    runs: BTreeSet<String>,
}

/// One destination or name whose verdict changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Change {
    /// What was asked, as `check` takes it: `https://a.example:8443`; of a DNS query the name.
    pub asked: String,
    /// Whether it was a DNS query.
    pub dns: bool,
    /// The profile of the record; none for a run with its own list alone.
    pub profile: Option<String>,
    /// As it was.
    pub old: Judged,
    /// As it would be.
    pub new: Judged,
    /// How many events.
    pub count: u64,
    /// The last of them.
    pub last: String,
    /// Some of the runs that asked.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub runs: BTreeSet<String>,
}

/// What a replay found.
#[derive(Clone, Debug, Serialize)]
pub struct Replayed {
    /// How many.
    #[serde(flatten)]
    pub counts: Counts,
    /// What is refused now first, then by how often.
    pub changes: Vec<Change>,
}

impl<'c> Replay<'c> {
    /// Judges under `new`.
    pub fn new(baseline: Baseline<'c>, new: &'c Config) -> Self {
        Self {
            old: match baseline {
                Baseline::Recorded => None,
                Baseline::Config(old) => Some(Side::new(old)),
            },
            new: Side::new(new),
            changes: HashMap::new(),
            counts: Counts::default(),
        }
    }

    /// Takes the next line of the log.
    pub fn line(&mut self, line: &Line) {
        match line.event.as_str() {
            "run_start" | "run_change" => self.sides().for_each(|side| side.start(line)),
            "run_end" => self.sides().for_each(|side| side.end(line)),
            "decision" | "dns" => self.event(line),
            _ => {}
        }
    }

    /// What changed.
    pub fn finish(self) -> Replayed {
        let mut changes: Vec<Change> = self.changes.into_iter().map(Change::of).collect();
        changes.sort_by_cached_key(|change| {
            let passes = change.new.decision != Decision::Deny;
            (
                passes,
                Reverse(change.count),
                change.asked.clone(),
                change.profile.clone(),
                change.new.reason,
                change.new.rule.clone(),
            )
        });
        Replayed {
            counts: self.counts,
            changes,
        }
    }

    fn sides(&mut self) -> impl Iterator<Item = &mut Side<'c>> {
        self.old.iter_mut().chain([&mut self.new])
    }

    fn event(&mut self, line: &Line) {
        let count = line.count.unwrap_or(1);
        let Some(recorded) = recorded(line) else {
            add(&mut self.counts.not_of_policy, count);
            return;
        };
        let Some(asked) = Asked::of(line) else {
            add(&mut self.counts.without_destination, count);
            return;
        };
        let old = self.old.as_ref();
        let old = old.map_or(Ok(recorded), |side| side.judge(line, &asked));
        let judged = old.and_then(|old| Ok::<_, UnknownRun>((old, self.new.judge(line, &asked)?)));
        let Ok((old, new)) = judged else {
            add(&mut self.counts.unknown_run, count);
            return;
        };
        add(&mut self.counts.judged, count);
        add(self.counts.of(old.decision, new.decision), count);
        if old.decision != new.decision {
            let profile = line.profile.as_deref().map(name);
            self.note(
                line,
                Key {
                    profile,
                    asked,
                    old,
                    new,
                },
            );
        }
    }

    fn note(&mut self, line: &Line, key: Key) {
        let count = line.count.unwrap_or(1);
        if self.changes.len() >= MOST_CHANGES && !self.changes.contains_key(&key) {
            add(&mut self.counts.untold, count);
            return;
        }
        let tally = self.changes.entry(key).or_insert_with(|| Tally {
            count: 0,
            last: line.ts,
            runs: BTreeSet::new(),
        });
        add(&mut tally.count, count);
        tally.last = tally.last.max(line.ts);
        if let Some(run) = line.run.as_ref().filter(|_| tally.runs.len() < MOST_RUNS) {
            tally.runs.insert(name(run));
        }
    }
}

/// A log may say any number.
fn add(total: &mut u64, count: u64) {
    *total = total.saturating_add(count);
}

/// The decision as recorded, where lists and addresses made it.
fn recorded(line: &Line) -> Option<Judged> {
    let reason = line.reason.as_deref()?;
    let reason = OF_POLICY.iter().find(|known| known.code() == reason)?;
    let decision = match line.decision.as_deref()? {
        "allow" => Decision::Allow,
        "deny" => Decision::Deny,
        "would_deny" => Decision::WouldDeny,
        _ => return None,
    };
    Some(Judged {
        decision,
        reason: *reason,
        rule: line.rule.as_deref().map(Into::into),
        detail: None,
    })
}

impl Change {
    fn of((key, tally): (Key, Tally)) -> Self {
        Self {
            dns: matches!(key.asked, Asked::Name(_)),
            asked: key.asked.to_string(),
            profile: key.profile,
            old: key.old,
            new: key.new,
            count: tally.count,
            last: format!("{:.3}", tally.last),
            runs: tally.runs,
        }
    }
}
