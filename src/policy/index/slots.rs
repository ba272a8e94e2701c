//! What a list says at one name: which rule answers for each port and scheme.

use std::{ops::ControlFlow, sync::Arc};

use super::{RuleConflict, every_way};
use crate::{
    destination::Scheme,
    policy::{Grants, Ports},
};

/// A port and how it is spoken to.
pub(super) type Way = (u16, Scheme);

/// What a rule answers with.
#[derive(Clone, Debug)]
pub(super) struct Answer {
    pub(super) place: Arc<str>,
    /// What it opens besides the way itself, unless that is nothing.
    pub(super) grants: Option<Arc<Grants>>,
}

/// Which rule answers for each port and scheme of one host pattern.
#[derive(Debug, Default)]
pub(super) enum Slots {
    #[default]
    None,
    /// The usual case, one rule that opens nothing besides the way itself, has no table of its
    /// own and so is read with the name.
    Plain(FewPorts, Arc<str>),
    Table(Box<Table>),
}

/// The sets of ports that most rules have, in four octets.
#[derive(Clone, Copy, Debug)]
pub(super) enum FewPorts {
    Web,
    Any,
    Http(u16),
    Https(u16),
    One(u16),
}

#[derive(Debug, Default)]
pub(super) struct Table {
    /// The rule for every port and scheme.
    every: Option<Answer>,
    /// The others, sorted.
    listed: Vec<(Way, Answer)>,
}

impl Slots {
    /// The place of one of the rules, to name it.
    pub(super) fn first(&self) -> Option<&Arc<str>> {
        match self {
            Self::None => None,
            Self::Plain(_, place) => Some(place),
            Self::Table(table) => {
                let listed = table.listed.first().map(|(_, answer)| answer);
                listed.or(table.every.as_ref()).map(|answer| &answer.place)
            }
        }
    }

    /// The place of the rule for every port and scheme.
    pub(super) fn every(&self) -> Option<&Arc<str>> {
        match self {
            Self::Plain(FewPorts::Any, place) => Some(place),
            Self::None | Self::Plain(..) => None,
            Self::Table(table) => table.every.as_ref().map(|answer| &answer.place),
        }
    }

    /// The rule for `way`: its place, and what it opens besides.
    pub(super) fn covering(&self, way: Way) -> Option<(&Arc<str>, Option<&Arc<Grants>>)> {
        match self {
            Self::None => None,
            Self::Plain(ports, place) => ports.cover(way).then_some((place, None)),
            Self::Table(table) => {
                let Answer { place, grants } = table.covering(way)?;
                Some((place, grants.as_ref()))
            }
        }
    }

    /// Shows every port and scheme that a rule covers, until `visit` breaks.
    pub(super) fn visit_ways<B>(
        &self,
        visit: &mut impl FnMut(Way) -> ControlFlow<B>,
    ) -> ControlFlow<B> {
        match self {
            Self::None => {}
            Self::Plain(ports, _) => {
                let ways = Ports::from(*ports).listed();
                ways.into_iter().flatten().try_for_each(&mut *visit)?;
            }
            Self::Table(table) => {
                let ways = table.listed.iter().map(|(way, _)| *way);
                { ways }.try_for_each(&mut *visit)?;
            }
        }
        self.every().map_or(ControlFlow::Continue(()), |_| {
            every_way().try_for_each(visit)
        })
    }

    /// Adds a rule where no earlier one answers already, and notes where the two differ.
    pub(super) fn insert(
        &mut self,
        ports: &Ports,
        answer: Answer,
        conflicts: &mut Vec<RuleConflict>,
    ) {
        let mut table = match std::mem::take(self) {
            Self::None => {
                if let (Some(few), None) = (FewPorts::of(ports), &answer.grants) {
                    *self = Self::Plain(few, answer.place);
                    return;
                }
                Box::default()
            }
            Self::Plain(few, place) => {
                let first = Answer {
                    place,
                    grants: None,
                };
                let mut table = Box::<Table>::default();
                table.insert(&few.into(), first, conflicts);
                table
            }
            Self::Table(table) => table,
        };
        table.insert(ports, answer, conflicts);
        *self = Self::Table(table);
    }
}

impl FewPorts {
    fn of(ports: &Ports) -> Option<Self> {
        match ports {
            Ports::Web => Some(Self::Web),
            Ports::Any => Some(Self::Any),
            Ports::Http(port) => Some(Self::Http(*port)),
            Ports::Https(port) => Some(Self::Https(*port)),
            Ports::Listed(ports) => match **ports {
                [port] => Some(Self::One(port)),
                _ => None,
            },
        }
    }

    /// As `Ports::cover`.
    fn cover(self, (port, scheme): Way) -> bool {
        match self {
            Self::Web => port == 443 || port == 80,
            Self::Any => true,
            Self::Http(own) => scheme == Scheme::Http && port == own,
            Self::Https(own) => scheme == Scheme::Https && port == own,
            Self::One(own) => port == own,
        }
    }
}

impl From<FewPorts> for Ports {
    fn from(few: FewPorts) -> Self {
        match few {
            FewPorts::Web => Self::Web,
            FewPorts::Any => Self::Any,
            FewPorts::Http(port) => Self::Http(port),
            FewPorts::Https(port) => Self::Https(port),
            FewPorts::One(port) => Self::Listed(vec![port]),
        }
    }
}

impl Table {
    fn covering(&self, way: Way) -> Option<&Answer> {
        let listed = self.listed.binary_search_by_key(&way, |(way, _)| *way);
        listed
            .ok()
            .and_then(|at| self.listed.get(at))
            .map(|(_, answer)| answer)
            .or(self.every.as_ref())
    }

    fn insert(&mut self, ports: &Ports, answer: Answer, conflicts: &mut Vec<RuleConflict>) {
        let mut compare = |earlier: &Answer| {
            if earlier.grants != answer.grants {
                conflicts.push(RuleConflict {
                    first: Arc::clone(&earlier.place),
                    second: Arc::clone(&answer.place),
                });
            }
        };
        if let Some(earlier) = &self.every {
            compare(earlier);
        }
        let Some(ways) = ports.listed() else {
            self.listed.iter().for_each(|(_, earlier)| compare(earlier));
            self.every.get_or_insert(answer);
            return;
        };
        for way in ways {
            match self.listed.binary_search_by_key(&way, |(way, _)| *way) {
                Ok(at) => {
                    if let Some((_, earlier)) = self.listed.get(at) {
                        compare(earlier);
                    }
                }
                Err(at) => self.listed.insert(at, (way, answer.clone())),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_short_form_of_ports_covers_the_same_and_says_the_same() {
        for ports in [
            Ports::Web,
            Ports::Any,
            Ports::Http(80),
            Ports::Https(8443),
            Ports::Listed(vec![22]),
        ] {
            let few = FewPorts::of(&ports).unwrap();
            for (port, scheme) in every_way() {
                let covers = ports.cover(scheme, port);
                assert_eq!(few.cover((port, scheme)), covers, "{ports}: {port}");
            }
            assert_eq!(Ports::from(few), ports);
        }
        assert!(FewPorts::of(&Ports::Listed(vec![22, 25])).is_none());
    }
}
