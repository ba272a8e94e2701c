//! The oracles of a refusal, for tables of requests against one world.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{
    client::{exchange, status},
    eventually,
    world::World,
};

/// Sends what must be refused and asserts of each: no origin saw anything, nothing was looked up,
/// there is one new decision, and the connection is closed.
pub struct Oracle<'a> {
    world: &'a World,
    seen: BTreeSet<String>,
}

/// A refusal as both sides have it.
#[derive(Debug)]
pub struct Refused {
    /// What the client got, to the end of the connection.
    pub answer: Vec<u8>,
    /// The decision.
    pub record: Value,
}

impl Refused {
    /// The status and the reason.
    pub fn summary(&self) -> (Option<u16>, String) {
        let reason = self.record["reason"].as_str().unwrap_or_default();
        (status(&self.answer), reason.to_owned())
    }
}

impl<'a> Oracle<'a> {
    /// Ignores what is in the log already.
    pub fn new(world: &'a World) -> Self {
        let seen = world.proxy.events("decision").iter().map(id).collect();
        Self { world, seen }
    }

    /// Sends `bytes` to the listener of a kind.
    pub fn refuses(&mut self, listener: &str, bytes: &[u8]) -> Refused {
        let what = String::from_utf8_lossy(bytes).into_owned();
        let before = self.traffic();
        let answer = exchange(self.world.proxy.listener(listener), bytes);
        let record = self.next_decision(&what);
        assert_eq!(record["decision"], "deny", "{what}: {record}");
        assert_eq!(self.traffic(), before, "{what}");
        if let Some(told) = status(&answer) {
            let text = String::from_utf8_lossy(&answer);
            assert_eq!(record["status"], told, "{what}: {record}");
            assert!(text.contains("\r\nConnection: close\r\n"), "{what}: {text}");
            let answers = text.matches("\r\nProxy-Status: ").count();
            assert_eq!(answers, 1, "{what}: {text}");
        } else {
            assert_eq!(record["status"], Value::Null, "{what}: {record}");
        }
        Refused { answer, record }
    }

    /// Waits for the one decision that is new.
    pub fn next_decision(&mut self, what: &str) -> Value {
        let seen = &self.seen;
        let fresh = eventually(&format!("the record of {what:?}"), || {
            let decisions = self.world.proxy.events("decision").into_iter();
            let fresh: Vec<Value> = decisions.filter(|line| !seen.contains(&id(line))).collect();
            (!fresh.is_empty()).then_some(fresh)
        });
        assert_eq!(fresh.len(), 1, "{what:?}: {fresh:#?}");
        self.seen.extend(fresh.iter().map(id));
        fresh.into_iter().next().unwrap()
    }

    /// Connections and bytes at the origins, and look-ups.
    fn traffic(&self) -> (usize, usize, usize) {
        let origins = [&self.world.web, &self.world.plain, &self.world.echo];
        let connections = origins.iter().map(|origin| origin.seen.connections()).sum();
        let bytes = origins.iter().map(|origin| origin.seen.bytes()).sum();
        (connections, bytes, self.world.upstream.questions().len())
    }
}

fn id(line: &Value) -> String {
    line["id"].as_str().unwrap_or_default().to_owned()
}
