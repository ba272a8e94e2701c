//! The audit log as it grows, held against what was in force and what was dialled.

use std::{
    collections::{BTreeMap, HashSet},
    fs::File,
    io::Read as _,
    net::{IpAddr, SocketAddr},
    path::Path,
};

use super::{
    Seen,
    world::{Kind, Terms, World},
};
use crate::record::{Line, Link, Outcome};

/// What the log says so far.
#[derive(Debug)]
pub(super) struct Ledger {
    file: File,
    last: Link,
    ids: HashSet<String>,
    /// Exchanges without a close, with the budget of each.
    open: BTreeMap<String, (Line, Option<u64>)>,
    /// How often each address was allowed, and how often it was dialled.
    allowed: BTreeMap<SocketAddr, usize>,
    dialled: BTreeMap<SocketAddr, usize>,
    bytes: BTreeMap<String, (u64, u64)>,
    reasons: BTreeMap<String, usize>,
    gaps: usize,
    outcomes: BTreeMap<String, usize>,
}

impl Ledger {
    pub(super) fn of(log: &Path) -> Self {
        Self {
            file: File::open(log).unwrap(),
            last: Link::FIRST,
            ids: HashSet::new(),
            open: BTreeMap::new(),
            allowed: BTreeMap::new(),
            dialled: BTreeMap::new(),
            bytes: BTreeMap::new(),
            reasons: BTreeMap::new(),
            gaps: 0,
            outcomes: BTreeMap::new(),
        }
    }

    /// Reads what was written since, all of it under `terms`: a line is whole and names the one
    /// before it, an exchange opens and closes once, and what is allowed lies within the terms.
    pub(super) fn read(&mut self, world: &World, terms: &Terms) {
        let mut text = Vec::new();
        self.file.read_to_end(&mut text).unwrap();
        for line in text.split_inclusive(|byte| *byte == b'\n') {
            let line = line.strip_suffix(b"\n").unwrap();
            assert_eq!(Link::named_by(line), Some(self.last));
            self.last = self.last.then(line);
            let line = Line::parse(line).unwrap();
            match line.event.as_str() {
                "decision" if line.decision.as_deref() == Some("allow") => {
                    self.opened(world, terms, line);
                }
                "decision" => self.refused(line.reason),
                "close" => self.closed(line),
                "run_end" => {
                    let is_open = self.open.values().any(|(open, _)| open.run == line.run);
                    assert!(!is_open, "{line:?}");
                }
                "gap" => self.gaps += 1,
                _ => {}
            }
        }
    }

    fn opened(&mut self, world: &World, terms: &Terms, line: Line) {
        let id = line.id.clone().unwrap();
        assert!(self.ids.insert(id.clone()), "{line:?}");
        assert!(
            terms.allow(Kind::of(line.host.as_deref().unwrap())),
            "{line:?}"
        );
        let lies_within = |address: &IpAddr| world.is_open(*address, terms);
        assert!(
            !line.addresses.is_empty() && line.addresses.iter().all(lies_within),
            "{line:?}"
        );
        let addresses: HashSet<IpAddr> = line.addresses.iter().copied().collect();
        for address in addresses {
            let address = SocketAddr::new(address, line.port.unwrap());
            *self.allowed.entry(address).or_default() += 1;
        }
        self.open.insert(id, (line, terms.budget));
    }

    fn closed(&mut self, line: Line) {
        let id = line.id.as_deref().unwrap();
        let (decision, budget) = self.open.remove(id).unwrap_or_else(|| panic!("{line:?}"));
        assert_eq!((&decision.via, &decision.run), (&line.via, &line.run));
        if let Some(upstream) = line.upstream {
            assert!(decision.addresses.contains(&upstream.ip()), "{line:?}");
        }
        let (up, down) = (line.bytes_up.unwrap(), line.bytes_down.unwrap());
        assert!(up <= budget.unwrap_or(u64::MAX), "{line:?}");
        let outcome = line.outcome.unwrap();
        assert_ne!(outcome, Outcome::Crash.as_str());
        *self.outcomes.entry(outcome).or_default() += 1;
        self.refused(line.reason);
        let bytes = self.bytes.entry(decision.host.unwrap()).or_default();
        (bytes.0, bytes.1) = (bytes.0 + up, bytes.1 + down);
    }

    fn refused(&mut self, reason: Option<String>) {
        if let Some(reason) = reason {
            *self.reasons.entry(reason).or_default() += 1;
        }
    }

    /// An origin was dialled at `address`.
    pub(super) fn dialled(&mut self, address: SocketAddr) {
        let dialled = self.dialled.entry(address).or_default();
        *dialled += 1;
        let allowed = self.allowed.get(&address).copied().unwrap_or_default();
        assert!(
            *dialled <= allowed,
            "{address} was dialled {dialled} times, allowed {allowed}"
        );
    }

    /// How many exchanges have no close.
    pub(super) fn open(&self) -> usize {
        self.open.len()
    }

    /// How many of those `terms` do not allow.
    pub(super) fn left_open(&self, world: &World, terms: &Terms) -> usize {
        let allowed = |line: &Line| {
            let kind = Kind::of(line.host.as_deref().unwrap());
            terms.allow(kind) && line.addresses.iter().all(|one| world.is_open(*one, terms))
        };
        self.open
            .values()
            .filter(|(line, _)| !allowed(line))
            .count()
    }

    /// Adds to what all seeds led to.
    pub(super) fn count(self, seen: &mut Seen) {
        for (outcome, count) in self.outcomes {
            *seen.outcomes.entry(outcome).or_default() += count;
        }
        for (reason, count) in self.reasons {
            *seen.reasons.entry(reason).or_default() += count;
        }
        seen.gaps += self.gaps;
    }

    /// How many bytes were counted up and down for `host`.
    pub(super) fn bytes(&self, host: &str) -> (u64, u64) {
        self.bytes.get(host).copied().unwrap_or_default()
    }
}
