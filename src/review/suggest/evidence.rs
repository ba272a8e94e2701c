//! What a suggestion rests on.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde::{Serialize, Serializer};

use crate::{
    record::{DeniedLine, Line, RunRecord},
    review::name,
};

/// Samples of each kind; what is beyond is not named.
const MOST_SAMPLES: usize = 4;

/// How often, when and by whom something was refused.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Evidence {
    /// How often.
    pub count: u64,
    /// The first time.
    #[serde(serialize_with = "time")]
    pub first: Option<Timestamp>,
    /// The last time.
    #[serde(serialize_with = "time")]
    pub last: Option<Timestamp>,
    /// Why.
    pub reasons: BTreeSet<String>,
    /// By which roads, `dns` for a query.
    pub via: BTreeSet<String>,
    /// Some of the runs.
    pub runs: BTreeSet<String>,
    /// Some of the clients.
    pub clients: BTreeSet<String>,
}

impl Evidence {
    /// One line of a log.
    pub(super) fn of(line: &Line) -> Self {
        let set = |value: Option<&str>| value.map(name).into_iter().collect();
        let via = line.via.as_deref();
        Self {
            count: line.count.unwrap_or(1),
            first: Some(line.ts),
            last: Some(line.ts),
            reasons: set(line.reason.as_deref()),
            via: set(via.or_else(|| (line.event == "dns").then_some("dns"))),
            runs: set(line.run.as_deref()),
            clients: line.client.iter().map(ToString::to_string).collect(),
        }
    }

    /// One refusal of a run's summary.
    pub(super) fn of_run(record: &RunRecord, line: &DeniedLine) -> Self {
        let started = record.started.parse().ok();
        Self {
            count: line.count,
            first: started,
            last: started,
            reasons: [line.reason.code().to_owned()].into(),
            runs: [name(&record.run)].into(),
            ..Self::default()
        }
    }

    /// Takes in more of the same.
    pub(super) fn add(&mut self, other: &Self) {
        self.count = self.count.saturating_add(other.count);
        self.first = [self.first, other.first].into_iter().flatten().min();
        self.last = self.last.max(other.last);
        for (own, more) in [
            (&mut self.reasons, &other.reasons),
            (&mut self.via, &other.via),
            (&mut self.runs, &other.runs),
            (&mut self.clients, &other.clients),
        ] {
            let room = MOST_SAMPLES.saturating_sub(own.len());
            let new: Vec<_> = more.difference(own).take(room).cloned().collect();
            own.extend(new);
        }
    }
}

#[expect(clippy::ref_option, reason = "serde passes a reference to the field")]
fn time<S: Serializer>(time: &Option<Timestamp>, to: S) -> Result<S::Ok, S::Error> {
    match time {
        Some(time) => to.collect_str(&format_args!("{time:.3}")),
        None => to.serialize_none(),
    }
}
