//! A table of names, each beside what is said of it, so that a name that is there costs one line of
//! the cache. The table's own index of hashes, one octet a name, stays in the cache of a core even
//! at 100,000 names, so that a name that is not there, which most suffixes are not, costs none.

use std::hash::BuildHasher;

use foldhash::fast::FixedState;
use hashbrown::HashTable;

use super::{
    slots::Slots,
    sought::{LabelCounts, Sought},
};
use crate::destination::Name;

#[derive(Debug, Default)]
pub(super) struct Names {
    table: HashTable<Node>,
    // The names are the operator's, never a client's, so a fixed state invites no collisions.
    state: FixedState,
    /// How many labels the names have.
    labels: LabelCounts,
}

/// A name and what is said of it: one line of the cache.
#[derive(Debug)]
#[repr(align(64))]
struct Node {
    name: Text,
    slots: Slots,
}

const _: () = assert!(size_of::<Node>() == 64);

/// The text of a name. Nearly every name is short enough to stand in its node.
#[derive(Debug)]
enum Text {
    Short { length: u8, octets: [u8; 38] },
    Long(Name),
}

impl Names {
    /// What is said of the last `labels` labels of the name sought.
    pub(super) fn find(&self, sought: &Sought<'_>, labels: usize) -> Option<&Slots> {
        if !self.labels.contains(labels) {
            return None;
        }
        let name = sought.suffix(labels)?.as_bytes();
        let found = self.table.find(hash(&self.state, name), is(name));
        found.map(|node| &node.slots)
    }

    /// The numbers of labels under `labels` that names have here, the greatest first.
    pub(super) fn labels_under(&self, labels: usize) -> impl Iterator<Item = usize> {
        self.labels.under(labels)
    }

    /// What is said of `name`, to be added to.
    pub(super) fn slots(&mut self, name: &Name) -> &mut Slots {
        let Self {
            table,
            state,
            labels,
        } = self;
        labels.insert(name.label_count());
        let text = name.as_str().as_bytes();
        let entry = table.entry(hash(state, text), is(text), |node| {
            hash(state, node.name.octets())
        });
        let occupied = entry.or_insert_with(|| Node {
            name: Text::new(name),
            slots: Slots::default(),
        });
        &mut occupied.into_mut().slots
    }
}

impl Text {
    fn new(name: &Name) -> Self {
        let text = name.as_str().as_bytes();
        let mut octets = [0; 38];
        let room = octets.get_mut(..text.len());
        match (room, u8::try_from(text.len())) {
            (Some(room), Ok(length)) => {
                room.copy_from_slice(text);
                Self::Short { length, octets }
            }
            _ => Self::Long(name.clone()),
        }
    }

    fn octets(&self) -> &[u8] {
        match self {
            Self::Short { length, octets } => {
                let octets = octets.get(..usize::from(*length));
                octets.unwrap_or_default()
            }
            Self::Long(name) => name.as_str().as_bytes(),
        }
    }
}

fn hash(state: &FixedState, name: &[u8]) -> u64 {
    state.hash_one(name)
}

/// Equal hashes are not enough: the names themselves are compared.
fn is(name: &[u8]) -> impl Fn(&Node) -> bool {
    move |node| node.name.octets() == name
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{
        destination::{Destination, Host, Scheme},
        policy::{Ports, index::slots::Answer},
    };

    #[test]
    fn a_name_of_any_length_is_found_and_no_other() {
        let lengths = [3, 15, 16, 37, 38, 39, 40, 63];
        let name = |length: usize| Name::parse(&format!("{}.b", "a".repeat(length - 2))).unwrap();
        let mut names = Names::default();
        for length in lengths {
            let answer = Answer {
                place: length.to_string().into(),
                grants: None,
            };
            let slots = names.slots(&name(length));
            slots.insert(&Ports::Any, answer, &mut Vec::new());
        }
        for length in 3..64 {
            let destination = Destination {
                scheme: Scheme::Https,
                host: Host::Name(name(length)),
                port: 443,
            };
            let found = names.find(&Sought::new(&destination), 2);
            let place: Option<Arc<str>> = found.and_then(Slots::first).map(Arc::clone);
            let expected = lengths.contains(&length).then(|| length.to_string().into());
            assert_eq!(place, expected, "{length}");
        }
    }
}
