//! What a close is about: it bears the id of its decision, which alone names the destination.

use std::collections::BTreeMap;

use ulid::Ulid;

use crate::record::Line;

/// The most exchanges remembered; beyond it the oldest is forgotten, and its close stands alone.
const MAX_OPEN: usize = 1 << 17;

/// The longest host that is remembered; a DNS name has at most 253 bytes.
const MAX_HOST: usize = 255;

/// Exchanges that were let through and not closed yet.
#[derive(Clone, Debug, Default)]
pub struct Exchanges(BTreeMap<Ulid, Target>);

/// Where an exchange goes.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Target {
    /// The host, in its canonical spelling.
    pub host: Box<str>,
    /// The port.
    pub port: u16,
}

impl Exchanges {
    /// Remembers a decision that lets an exchange through; other lines change nothing.
    pub fn open(&mut self, line: &Line) {
        if line.event != "decision" || line.decision.as_deref() == Some("deny") {
            return;
        }
        let (Some(id), Some(target)) = (id(line), Target::of(line)) else {
            return;
        };
        if self.0.len() >= MAX_OPEN {
            self.0.pop_first();
        }
        self.0.insert(id, target);
    }

    /// The target of the exchange that a close ends; none where its decision was not seen.
    pub fn close(&mut self, line: &Line) -> Option<Target> {
        self.0.remove(&id(line)?)
    }

    /// Whether the decision of an exchange was seen, and no close.
    pub fn is_open(&self, id: Ulid) -> bool {
        self.0.contains_key(&id)
    }

    /// Whether none is open.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Target {
    /// The destination of a decision.
    pub fn of(line: &Line) -> Option<Self> {
        let host = line.host.as_deref().filter(|host| host.len() <= MAX_HOST)?;
        Some(Self {
            host: host.into(),
            port: line.port?,
        })
    }
}

fn id(line: &Line) -> Option<Ulid> {
    Ulid::from_string(line.id.as_deref()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(event: &str, id: u128, rest: &str) -> Line {
        let id = Ulid(id);
        let text = format!(
            r#"{{"schema":1,"ts":"2026-01-02T03:04:05.678Z","event":"{event}","id":"{id}"{rest}}}"#
        );
        Line::parse(text.as_bytes()).unwrap()
    }

    fn decision(id: u128, decision: &str) -> Line {
        let rest = format!(r#","host":"a.example","port":443,"decision":"{decision}""#);
        line("decision", id, &rest)
    }

    #[test]
    fn a_close_is_told_its_target_once() {
        let mut exchanges = Exchanges::default();
        for (id, verdict) in [(1, "allow"), (2, "deny"), (3, "would_deny")] {
            exchanges.open(&decision(id, verdict));
        }
        let target = Target {
            host: "a.example".into(),
            port: 443,
        };
        for (id, expected) in [(1, Some(&target)), (1, None), (2, None), (3, Some(&target))] {
            let close = line("close", id, "");
            assert_eq!(exchanges.close(&close).as_ref(), expected, "{id}");
        }
        assert!(exchanges.is_empty());
    }

    #[test]
    fn memory_is_bounded_and_the_oldest_goes_first() {
        let mut exchanges = Exchanges::default();
        let most = u128::try_from(MAX_OPEN).unwrap();
        for id in 0..=most {
            exchanges.open(&decision(id, "allow"));
        }
        assert!(!exchanges.is_open(Ulid(0)) && exchanges.is_open(Ulid(1)));
        assert_eq!(exchanges.0.len(), MAX_OPEN);
    }
}
