//! Hash indexes over exact names, suffixes and IP literals: a look-up costs one probe a label of
//! the name asked for, whatever the length of the list.

mod names;
mod slots;
mod sought;

use std::{collections::HashSet, net::IpAddr, ops::ControlFlow, sync::Arc};

use foldhash::fast::FixedState;
use hashbrown::HashMap;

pub(super) use self::sought::Sought;
use self::{names::Names, slots::Slots, sought::LabelCounts};
use super::{Grants, HostPattern, Pattern, Rule, RuleConflict};
use crate::destination::{Host, Name, Scheme, address::canonical_range};

/// What a list is for, which decides what its wildcards cover.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// A wildcard spares special names and metadata names.
    Allow,
    /// A wildcard covers every name below it.
    Deny,
}

/// A list of rules, compiled.
#[derive(Debug)]
pub(super) struct Index {
    purpose: Purpose,
    entries: Vec<Arc<Entry>>,
    names: Names,
    literals: HashMap<IpAddr, Slots, FixedState>,
    /// The label counts of the names at which something is said of the name itself.
    whole: LabelCounts,
    /// The label counts of the names at which something is said of the names below.
    below: LabelCounts,
}

/// A rule, compiled.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) place: Arc<str>,
    pub(super) pattern: Pattern,
    /// For the host that the pattern spells out.
    grants: Arc<Grants>,
    /// For a name below it.
    grants_below: Arc<Grants>,
}

/// The most specific rule that covers a destination.
#[derive(Clone, Copy, Debug)]
pub(super) struct Match<'a> {
    pub(super) entry: &'a Arc<Entry>,
    pub(super) reach: Reach,
}

/// How a pattern reached a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reach {
    /// It spells the host out.
    Whole,
    /// The host lies below it, so that its labels are the client's choice.
    Below,
}

/// What an index says of a destination.
#[derive(Clone, Copy, Debug)]
pub(super) enum Found<'a> {
    /// A rule covers it.
    Rule(Match<'a>),
    /// The rule names the host, and no rule names the host with this port.
    OtherPorts(&'a Arc<Entry>),
    /// No rule names the host.
    Nothing,
}

impl Index {
    /// Compiles `rules`; of equal rules the first one answers.
    ///
    /// # Errors
    /// Every rule of an allow list that grants something else than an equally specific one before
    /// it.
    pub(super) fn build(
        purpose: Purpose,
        rules: impl IntoIterator<Item = Rule>,
    ) -> Result<Self, Vec<RuleConflict>> {
        let mut index = Self::empty(purpose);
        let mut conflicts = Vec::new();
        for rule in rules {
            let entry = Arc::new(Entry::new(rule, purpose));
            index.insert(&entry, &mut conflicts);
            index.entries.push(entry);
        }
        if conflicts.is_empty() {
            return Ok(index);
        }
        let mut seen = HashSet::new();
        conflicts.retain(|RuleConflict { first, second }| {
            seen.insert((Arc::clone(first), Arc::clone(second)))
        });
        Err(conflicts)
    }

    /// A list of nothing.
    pub(super) fn empty(purpose: Purpose) -> Self {
        Self {
            purpose,
            entries: Vec::new(),
            names: Names::default(),
            literals: HashMap::default(),
            whole: LabelCounts::default(),
            below: LabelCounts::default(),
        }
    }

    /// The rules in the order in which they were given.
    pub(super) fn entries(&self) -> &[Arc<Entry>] {
        &self.entries
    }

    /// The most specific rule that covers the destination.
    pub(super) fn find(&self, sought: &Sought<'_>) -> Found<'_> {
        let way = (sought.destination.port, sought.destination.scheme);
        let mut names_host = None;
        let found = self.visit(sought, |slots, reach| {
            if let Some(entry) = slots.covering(way) {
                return ControlFlow::Break(Match { entry, reach });
            }
            names_host = names_host.or_else(|| slots.first());
            ControlFlow::Continue(())
        });
        match found {
            ControlFlow::Break(found) => Found::Rule(found),
            ControlFlow::Continue(()) => names_host.map_or(Found::Nothing, Found::OtherPorts),
        }
    }

    /// The most specific rule that covers every port and scheme of the host.
    pub(super) fn find_every_port(&self, sought: &Sought<'_>) -> Option<&Arc<Entry>> {
        let found = self.visit(sought, |slots, _| {
            slots
                .every()
                .map_or(ControlFlow::Continue(()), ControlFlow::Break)
        });
        found.break_value()
    }

    /// Shows every port and scheme that some rule names for the host, those of the most specific
    /// rule first, until `visit` breaks.
    pub(super) fn visit_ways<B>(
        &self,
        sought: &Sought<'_>,
        mut visit: impl FnMut((u16, Scheme)) -> ControlFlow<B>,
    ) -> ControlFlow<B> {
        self.visit(sought, |slots, _| slots.visit_ways(&mut visit))
    }

    /// Shows what is said of the host, the most specific first, until `visit` breaks.
    fn visit<'a, B>(
        &'a self,
        sought: &Sought<'_>,
        mut visit: impl FnMut(&'a Slots, Reach) -> ControlFlow<B>,
    ) -> ControlFlow<B> {
        let host = &sought.destination.host;
        let name = match host {
            Host::Name(name) => name,
            Host::Ip(address) => {
                let slots = self.literals.get(&address.to_canonical());
                return match slots.filter(|_| self.literal_covers(host)) {
                    Some(slots) => visit(slots, Reach::Whole),
                    None => ControlFlow::Continue(()),
                };
            }
        };
        if self.whole.contains(sought.labels())
            && let Some(node) = self.names.find(name.as_str())
        {
            if node.exact.any() {
                visit(&node.exact, Reach::Whole)?;
            }
            if node.at.any() && self.wildcard_covers(name) {
                visit(&node.at, Reach::Whole)?;
            }
        }
        for labels in self.below.under(sought.labels()) {
            let suffix = sought.suffix(labels);
            if let Some(node) = suffix.and_then(|suffix| self.names.find(suffix))
                && node.below.any()
                && self.wildcard_covers(name)
            {
                visit(&node.below, Reach::Below)?;
            }
        }
        ControlFlow::Continue(())
    }

    /// Security: a wildcard that an operator wrote for the outside must not let a client name
    /// this host, its neighbours or its cloud's credentials.
    pub(super) fn wildcard_covers(&self, name: &Name) -> bool {
        match self.purpose {
            Purpose::Allow => !name.is_special() && !name.is_never_allowed(),
            Purpose::Deny => true,
        }
    }

    /// A v4-mapped literal is a second spelling of an address: a deny covers it, and no allow
    /// writes it out.
    pub(super) fn literal_covers(&self, host: &Host) -> bool {
        match (self.purpose, host) {
            (Purpose::Allow, Host::Ip(address)) => *address == address.to_canonical(),
            (Purpose::Deny, Host::Ip(_)) | (Purpose::Allow | Purpose::Deny, Host::Name(_)) => true,
        }
    }

    fn insert(&mut self, entry: &Arc<Entry>, conflicts: &mut Vec<RuleConflict>) {
        let name = match &entry.pattern.hosts {
            HostPattern::Exact(Host::Ip(address)) => {
                let slots = self.literals.entry(address.to_canonical()).or_default();
                return slots.insert(entry, conflicts);
            }
            HostPattern::Exact(Host::Name(name))
            | HostPattern::Below(name)
            | HostPattern::AtOrBelow(name) => name,
        };
        let node = self.names.node(name);
        match &entry.pattern.hosts {
            HostPattern::Exact(_) => {
                self.whole.insert(name.label_count());
                node.exact.insert(entry, conflicts);
            }
            HostPattern::Below(_) => {
                self.below.insert(name.label_count());
                node.below.insert(entry, conflicts);
            }
            HostPattern::AtOrBelow(_) => {
                self.whole.insert(name.label_count());
                self.below.insert(name.label_count());
                node.at.insert(entry, conflicts);
                node.below.insert(entry, conflicts);
            }
        }
    }
}

impl Entry {
    fn new(rule: Rule, purpose: Purpose) -> Self {
        let mut addresses: Vec<_> = match purpose {
            Purpose::Allow => rule.addresses.into_iter().map(canonical_range).collect(),
            Purpose::Deny => Vec::new(),
        };
        if let (HostPattern::Exact(Host::Ip(address)), Purpose::Allow) =
            (&rule.pattern.hosts, purpose)
        {
            addresses.push(address.to_canonical().into());
        }
        addresses.sort_unstable();
        addresses.dedup();
        let opaque = rule.opaque && purpose == Purpose::Allow;
        let grants = |wildcard| Grants {
            addresses: addresses.clone(),
            opaque,
            wildcard,
        };
        Self {
            place: rule.place,
            grants: grants(false).shared(),
            grants_below: grants(true).shared(),
            pattern: rule.pattern,
        }
    }

    /// What the rule opens besides the way itself, apart from how it was reached.
    fn grants_the_same(&self, other: &Self) -> bool {
        self.grants == other.grants
    }
}

impl Match<'_> {
    /// What the rule opens besides the way itself.
    pub(super) fn grants(&self) -> &Arc<Grants> {
        match self.reach {
            Reach::Whole => &self.entry.grants,
            Reach::Below => &self.entry.grants_below,
        }
    }
}

/// Every port with every scheme.
pub(super) fn every_way() -> impl Iterator<Item = (u16, Scheme)> {
    (1..=u16::MAX).flat_map(|port| [(port, Scheme::Https), (port, Scheme::Http)])
}
