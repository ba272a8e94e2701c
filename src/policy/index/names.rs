//! The table of names. It holds the whole hash of each name and a pointer, 16 bytes in all, so
//! that 100,000 names fit the cache of a core or two and a name that is not there, which most
//! suffixes are not, is known without leaving it.

use std::hash::BuildHasher;

use foldhash::fast::FixedState;
use hashbrown::HashTable;

use super::slots::Node;
use crate::destination::Name;

#[derive(Debug, Default)]
pub(super) struct Names {
    table: HashTable<(u64, Box<Node>)>,
    // The names are the operator's, never a client's, so a fixed state invites no collisions.
    state: FixedState,
}

impl Names {
    pub(super) fn find(&self, name: &str) -> Option<&Node> {
        let hash = self.state.hash_one(name);
        let found = self.table.find(hash, is(hash, name));
        found.map(|(_, node)| &**node)
    }

    /// The node of `name`, made now if it is not there.
    pub(super) fn node(&mut self, name: &Name) -> &mut Node {
        let hash = self.state.hash_one(name.as_str());
        let entry = self
            .table
            .entry(hash, is(hash, name.as_str()), |(hash, _)| *hash);
        let occupied = entry.or_insert_with(|| (hash, Box::new(Node::new(name.clone()))));
        &mut occupied.into_mut().1
    }
}

/// Equal hashes are not enough: the names themselves are compared.
fn is(hash: u64, name: &str) -> impl Fn(&(u64, Box<Node>)) -> bool {
    move |(other, node)| *other == hash && node.name.as_str() == name
}
