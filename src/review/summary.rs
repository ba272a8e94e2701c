//! What was reached, what was refused and why, which names were tried: counted over the lines of a
//! log in bounded memory, however many names a sandbox makes up.

mod counts;
mod group;
mod report;
mod rows;

use std::collections::{BTreeMap, HashSet};

use self::group::Group;
pub use self::report::{ExchangeLine, GroupReport, RefusedLine, Report, Rest, RunLine, Totals};
use super::{entry::Entry, filter::Passed};
use crate::record::Line;

/// The most groups; what is beyond is counted together.
const MAX_GROUPS: usize = 500;

/// The most runs of which it is known that the proxy recorded them.
const MAX_RUNS: usize = 30_000;

/// What is counted together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum By {
    /// Everything.
    #[default]
    All,
    /// Each run.
    Run,
    /// Each profile.
    Profile,
    /// Each client address.
    Client,
}

/// Counts over the lines taken in so far.
#[derive(Debug, Default)]
pub struct Summary {
    by: By,
    groups: BTreeMap<Option<String>, Group>,
    beyond: Option<Box<Group>>,
    runs: HashSet<Box<str>>,
}

impl Summary {
    /// A summary of nothing yet.
    pub fn new(by: By) -> Self {
        Self {
            by,
            ..Self::default()
        }
    }

    /// Counts one line. The network of a run's record counts where no event of the run came before
    /// it: the proxy's own record of the same is exact.
    pub fn add(&mut self, passed: &Passed) {
        match &passed.entry {
            Entry::Event(line) => {
                if let Some(run) = &line.run
                    && self.runs.len() < MAX_RUNS
                    && !self.runs.contains(run.as_str())
                {
                    self.runs.insert(run.as_str().into());
                }
                let key = self.key(line);
                let about = (passed.target.as_ref(), passed.follows);
                self.group(key).event(line, about);
            }
            Entry::Run(record) => {
                let is_new = !self.runs.contains(record.run.as_str());
                let key = match self.by {
                    By::All | By::Client => None,
                    By::Run => Some(record.run.clone()),
                    By::Profile => record.profile.clone(),
                };
                self.group(key).run(record, is_new);
            }
        }
    }

    /// The counts, with the `top` heaviest rows of each kind, or all that were kept.
    pub fn report(self, top: Option<usize>) -> Report {
        let named = self.groups.into_iter();
        Report {
            schema: Report::SCHEMA,
            by: self.by,
            groups: named.map(|(name, group)| group.report(name, top)).collect(),
            beyond: self.beyond.map(|group| group.report(None, top)),
        }
    }

    fn key(&self, line: &Line) -> Option<String> {
        match self.by {
            By::All => None,
            By::Run => line.run.clone(),
            By::Profile => line.profile.clone(),
            By::Client => line.client.map(|client| client.to_string()),
        }
    }

    /// The group of `key`, which has room for its share of rows.
    fn group(&mut self, key: Option<String>) -> &mut Group {
        let count = self.groups.len();
        if count >= MAX_GROUPS && !self.groups.contains_key(&key) {
            return self.beyond.get_or_insert_default();
        }
        let group = self.groups.entry(key).or_default();
        group.share(count.max(1));
        group
    }
}

#[cfg(test)]
mod tests;
