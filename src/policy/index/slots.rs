//! What a list says at one name: which rule answers for each port and scheme.

use std::{ops::ControlFlow, sync::Arc};

use super::{Entry, RuleConflict, every_way};
use crate::{
    destination::{Name, Scheme},
    policy::Ports,
};

/// A port and how it is spoken to.
pub(super) type Way = (u16, Scheme);

/// What a list says at one name.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) name: Name,
    /// Patterns that are the name.
    pub(super) exact: Slots,
    /// `.name`, for the name itself.
    pub(super) at: Slots,
    /// `.name` and `*.name`, for the names below.
    pub(super) below: Slots,
}

/// Which rule answers for each port and scheme of one host pattern.
#[derive(Debug, Default)]
pub(super) enum Slots {
    #[default]
    None,
    /// The usual case, which costs no table of its own.
    One(Arc<Entry>),
    Many(Box<Table>),
}

#[derive(Debug, Default)]
pub(super) struct Table {
    /// The rule for every port and scheme.
    every: Option<Arc<Entry>>,
    /// The others, sorted.
    listed: Vec<(Way, Arc<Entry>)>,
}

impl Node {
    pub(super) fn new(name: Name) -> Self {
        Self {
            name,
            exact: Slots::None,
            at: Slots::None,
            below: Slots::None,
        }
    }
}

impl Slots {
    /// Whether there is any rule.
    pub(super) fn any(&self) -> bool {
        match self {
            Self::None => false,
            Self::One(_) | Self::Many(_) => true,
        }
    }

    /// One of the rules, to name it.
    pub(super) fn first(&self) -> Option<&Arc<Entry>> {
        match self {
            Self::None => None,
            Self::One(entry) => Some(entry),
            Self::Many(table) => {
                let listed = table.listed.first().map(|(_, entry)| entry);
                listed.or(table.every.as_ref())
            }
        }
    }

    /// The rule for every port and scheme.
    pub(super) fn every(&self) -> Option<&Arc<Entry>> {
        match self {
            Self::None => None,
            Self::One(entry) => Some(entry).filter(|entry| entry.pattern.ports == Ports::Any),
            Self::Many(table) => table.every.as_ref(),
        }
    }

    /// The rule for `way`.
    pub(super) fn covering(&self, way: Way) -> Option<&Arc<Entry>> {
        match self {
            Self::None => None,
            Self::One(entry) => {
                let (port, scheme) = way;
                Some(entry).filter(|entry| entry.pattern.ports.cover(scheme, port))
            }
            Self::Many(table) => table.covering(way),
        }
    }

    /// Shows every port and scheme that a rule covers, until `visit` breaks.
    pub(super) fn visit_ways<B>(
        &self,
        visit: &mut impl FnMut(Way) -> ControlFlow<B>,
    ) -> ControlFlow<B> {
        let every = self.every();
        match self {
            Self::None => {}
            Self::One(entry) => {
                let ways = entry.pattern.ports.listed();
                ways.into_iter().flatten().try_for_each(&mut *visit)?;
            }
            Self::Many(table) => {
                let ways = table.listed.iter().map(|(way, _)| *way);
                { ways }.try_for_each(&mut *visit)?;
            }
        }
        every.map_or(ControlFlow::Continue(()), |_| {
            every_way().try_for_each(visit)
        })
    }

    /// Adds a rule where no earlier one answers already, and notes where the two differ.
    pub(super) fn insert(&mut self, entry: &Arc<Entry>, conflicts: &mut Vec<RuleConflict>) {
        *self = match std::mem::take(self) {
            Self::None if is_short(&entry.pattern.ports) => Self::One(Arc::clone(entry)),
            Self::None => {
                let mut table = Box::<Table>::default();
                table.insert(entry, conflicts);
                Self::Many(table)
            }
            Self::One(first) => {
                let mut table = Box::<Table>::default();
                table.insert(&first, conflicts);
                table.insert(entry, conflicts);
                Self::Many(table)
            }
            Self::Many(mut table) => {
                table.insert(entry, conflicts);
                Self::Many(table)
            }
        };
    }
}

/// Whether a scan of the ports is no slower than a search.
fn is_short(ports: &Ports) -> bool {
    match ports {
        Ports::Web | Ports::Any | Ports::Http(_) | Ports::Https(_) => true,
        Ports::Listed(ports) => ports.len() <= 8,
    }
}

impl Table {
    fn covering(&self, way: Way) -> Option<&Arc<Entry>> {
        let listed = self.listed.binary_search_by_key(&way, |(way, _)| *way);
        listed
            .ok()
            .and_then(|at| self.listed.get(at))
            .map(|(_, entry)| entry)
            .or(self.every.as_ref())
    }

    fn insert(&mut self, entry: &Arc<Entry>, conflicts: &mut Vec<RuleConflict>) {
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
                Ok(at) => {
                    if let Some((_, earlier)) = self.listed.get(at) {
                        compare(earlier);
                    }
                }
                Err(at) => self.listed.insert(at, (way, Arc::clone(entry))),
            }
        }
    }
}
