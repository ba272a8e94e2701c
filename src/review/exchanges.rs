//! What a close is about: it bears the id of its decision, which alone names the destination.

use std::collections::BTreeMap;

use ulid::Ulid;

use crate::record::Line;

/// The most exchanges remembered; beyond it the oldest is forgotten, and its close stands alone.
const MAX_OPEN: usize = 1 << 16;

/// The longest host that is remembered; a DNS name has at most 253 bytes.
const MAX_HOST: usize = 255;

/// What is known of exchanges that were let through and not closed yet.
#[derive(Clone, Debug)]
pub struct Exchanges<T>(BTreeMap<Ulid, T>);

/// Where an exchange goes.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Target {
    /// The host, in its canonical spelling.
    pub host: Box<str>,
    /// The port.
    pub port: u16,
}

impl<T> Exchanges<T> {
    /// Remembers an exchange.
    pub fn open(&mut self, id: Ulid, known: T) {
        if self.0.len() >= MAX_OPEN {
            self.0.pop_first();
        }
        self.0.insert(id, known);
    }

    /// What is known of an exchange that has not ended.
    pub fn of(&mut self, id: Ulid) -> Option<&mut T> {
        self.0.get_mut(&id)
    }

    /// What is known of the exchange that ends; none where its decision was not seen.
    pub fn close(&mut self, id: Ulid) -> Option<T> {
        self.0.remove(&id)
    }
}

impl<T> Default for Exchanges<T> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl Target {
    /// A host and port; none where the host is longer than any name.
    pub fn new(host: &str, port: u16) -> Option<Self> {
        (host.len() <= MAX_HOST).then(|| Self {
            host: host.into(),
            port,
        })
    }

    /// The destination of a decision.
    pub fn of(line: &Line) -> Option<Self> {
        Self::new(line.host.as_deref()?, line.port?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_known_is_told_once() {
        let mut exchanges = Exchanges::default();
        exchanges.open(Ulid(1), "one");
        exchanges.open(Ulid(2), "two");
        for (id, expected) in [(1, Some("one")), (1, None), (3, None), (2, Some("two"))] {
            assert_eq!(exchanges.close(Ulid(id)), expected, "{id}");
        }
    }

    #[test]
    fn memory_is_bounded_and_the_oldest_goes_first() {
        let mut exchanges = Exchanges::default();
        let most = u128::try_from(MAX_OPEN).unwrap();
        for id in 0..=most {
            exchanges.open(Ulid(id), ());
        }
        assert_eq!(exchanges.0.len(), MAX_OPEN);
        assert_eq!(exchanges.close(Ulid(0)), None);
        assert_eq!(exchanges.close(Ulid(1)), Some(()));
    }
}
