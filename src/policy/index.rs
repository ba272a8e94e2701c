//! Hash indexes over exact names, suffixes and IP literals: a look-up costs one probe a label of
//! the name asked for, whatever the length of the list.

mod names;
mod slots;
mod sought;

use std::{collections::HashSet, net::IpAddr, ops::ControlFlow, sync::Arc};

use foldhash::fast::FixedState;
use hashbrown::HashMap;

pub(super) use self::sought::Sought;
use self::{
    names::Names,
    slots::{Answer, Slots},
};
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
    entries: Vec<Entry>,
    /// Patterns that are the name.
    exact: Names,
    /// `.name`, for the name itself.
    at: Names,
    /// `.name` and `*.name`, for the names below.
    below: Names,
    literals: HashMap<IpAddr, Slots, FixedState>,
}

/// A rule as it is explained; what a decision needs of it stands in the tables.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) place: Arc<str>,
    pub(super) pattern: Pattern,
}

/// The most specific rule that covers a destination.
#[derive(Clone, Copy, Debug)]
pub(super) struct Match<'a> {
    pub(super) place: &'a Arc<str>,
    /// What it opens besides the way itself.
    pub(super) grants: &'a Arc<Grants>,
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
    OtherPorts(&'a Arc<str>),
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
            index.insert(&rule, &mut conflicts);
            index.entries.push(Entry {
                place: rule.place,
                pattern: rule.pattern,
            });
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
            exact: Names::default(),
            at: Names::default(),
            below: Names::default(),
            literals: HashMap::default(),
        }
    }

    /// The rules in the order in which they were given.
    pub(super) fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// The most specific rule that covers the destination.
    pub(super) fn find(&self, sought: &Sought<'_>) -> Found<'_> {
        let way = (sought.destination.port, sought.destination.scheme);
        let mut names_host = None;
        let found = self.visit(sought, |slots, reach| {
            if let Some((place, grants)) = slots.covering(way) {
                let grants = grants.unwrap_or_else(|| Grants::nothing(reach));
                return ControlFlow::Break(Match { place, grants });
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
    pub(super) fn find_every_port(&self, sought: &Sought<'_>) -> Option<&Arc<str>> {
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
        let labels = sought.labels();
        if let Some(slots) = self.exact.find(sought, labels) {
            visit(slots, Reach::Whole)?;
        }
        if let Some(slots) = self.at.find(sought, labels)
            && self.wildcard_covers(name)
        {
            visit(slots, Reach::Whole)?;
        }
        for labels in self.below.labels_under(labels) {
            if let Some(slots) = self.below.find(sought, labels)
                && self.wildcard_covers(name)
            {
                visit(slots, Reach::Below)?;
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

    fn insert(&mut self, rule: &Rule, conflicts: &mut Vec<RuleConflict>) {
        let ports = &rule.pattern.ports;
        let purpose = self.purpose;
        let mut add = |slots: &mut Slots, reach| {
            slots.insert(ports, answer(rule, purpose, reach), conflicts);
        };
        match &rule.pattern.hosts {
            HostPattern::Exact(Host::Ip(address)) => {
                let slots = self.literals.entry(address.to_canonical()).or_default();
                add(slots, Reach::Whole);
            }
            HostPattern::Exact(Host::Name(name)) => add(self.exact.slots(name), Reach::Whole),
            HostPattern::Below(name) => add(self.below.slots(name), Reach::Below),
            HostPattern::AtOrBelow(name) => {
                add(self.at.slots(name), Reach::Whole);
                add(self.below.slots(name), Reach::Below);
            }
        }
    }
}

/// What `rule` answers for the hosts that it reaches so.
fn answer(rule: &Rule, purpose: Purpose, reach: Reach) -> Answer {
    let nothing = Grants::nothing(reach);
    let mut grants = Grants::clone(nothing);
    if purpose == Purpose::Allow {
        grants.opaque = rule.opaque;
        grants
            .addresses
            .extend(rule.addresses.iter().copied().map(canonical_range));
        if let HostPattern::Exact(Host::Ip(address)) = &rule.pattern.hosts {
            grants.addresses.push(address.to_canonical().into());
        }
        grants.addresses.sort_unstable();
        grants.addresses.dedup();
    }
    Answer {
        place: Arc::clone(&rule.place),
        grants: (grants != **nothing).then(|| Arc::new(grants)),
    }
}

/// Every port with every scheme.
pub(super) fn every_way() -> impl Iterator<Item = (u16, Scheme)> {
    (1..=u16::MAX).flat_map(|port| [(port, Scheme::Https), (port, Scheme::Http)])
}
