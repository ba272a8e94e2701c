//! What a list says at one name: which rule answers for each port and scheme.

use std::sync::Arc;

use super::{Entry, RuleConflict};
use crate::destination::Scheme;

/// What a list says at one name.
#[derive(Debug, Default)]
pub(super) struct Node {
    /// Patterns that are the name.
    pub(super) exact: Slots,
    /// `.name`, for the name itself.
    pub(super) at: Slots,
    /// `.name` and `*.name`, for the names below.
    pub(super) below: Slots,
}

/// Which rule answers for each port and scheme of one host pattern.
#[derive(Debug, Default)]
pub(super) struct Slots {
    /// The rule for every port and scheme.
    pub(super) every: Option<Arc<Entry>>,
    /// The others, sorted by port and scheme.
    pub(super) listed: Vec<((u16, Scheme), Arc<Entry>)>,
}

/// A set of label counts, which are at most 127 (RFC 1035 section 2.3.4).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LabelCounts(u128);

impl Slots {
    /// Whether there is any rule.
    pub(super) fn any(&self) -> bool {
        self.every.is_some() || !self.listed.is_empty()
    }

    /// One of the rules, to name it.
    pub(super) fn first(&self) -> Option<&Arc<Entry>> {
        self.listed
            .first()
            .map(|(_, entry)| entry)
            .or(self.every.as_ref())
    }

    /// The rule for `way`.
    pub(super) fn covering(&self, way: (u16, Scheme)) -> Option<&Arc<Entry>> {
        let listed = self.listed.binary_search_by_key(&way, |(way, _)| *way);
        listed
            .ok()
            .and_then(|at| self.listed.get(at))
            .map(|(_, entry)| entry)
            .or(self.every.as_ref())
    }

    /// Adds a rule where no earlier one answers already, and notes where the two differ.
    pub(super) fn insert(&mut self, entry: &Arc<Entry>, conflicts: &mut Vec<RuleConflict>) {
        let mut compare = |earlier: &Entry| {
            if !earlier.grants_the_same(entry) {
                conflicts.push(RuleConflict {
                    first: Arc::clone(&earlier.place),
                    second: Arc::clone(&entry.place),
                });
            }
        };
        if let Some(earlier) = &self.every {
            compare(earlier);
        }
        let Some(ways) = entry.pattern.ports.listed() else {
            self.listed.iter().for_each(|(_, earlier)| compare(earlier));
            self.every.get_or_insert_with(|| Arc::clone(entry));
            return;
        };
        for way in ways {
            match self.listed.binary_search_by_key(&way, |(way, _)| *way) {
                Ok(at) => self
                    .listed
                    .get(at)
                    .into_iter()
                    .for_each(|(_, earlier)| compare(earlier)),
                Err(at) => self.listed.insert(at, (way, Arc::clone(entry))),
            }
        }
    }
}

impl LabelCounts {
    pub(super) fn insert(&mut self, labels: usize) {
        self.0 |= bit(labels);
    }

    pub(super) fn contains(self, labels: usize) -> bool {
        self.0 & bit(labels) != 0
    }
}

/// All bits for a count that cannot be, so that nothing is skipped on its account.
fn bit(labels: usize) -> u128 {
    u32::try_from(labels)
        .ok()
        .and_then(|labels| 1_u128.checked_shl(labels))
        .unwrap_or(u128::MAX)
}
