//! A destination prepared for look-ups, and which of its suffixes are worth one.

use std::iter;

use crate::destination::{Destination, Host};

/// A destination whose name was cut into its suffixes once, for every list that is asked.
#[derive(Debug)]
pub(in crate::policy) struct Sought<'a> {
    pub(in crate::policy) destination: &'a Destination,
    name: &'a str,
    labels: usize,
    /// Where each label begins; a name has at most 127 labels and 253 octets.
    starts: [u8; 128],
}

/// A set of label counts, which are at most 127 (RFC 1035 section 2.3.4).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LabelCounts(u128);

impl<'a> Sought<'a> {
    pub(in crate::policy) fn new(destination: &'a Destination) -> Self {
        let name = match &destination.host {
            Host::Name(name) => name.as_str(),
            Host::Ip(_) => "",
        };
        let mut sought = Self {
            destination,
            name,
            labels: 1,
            starts: [0; 128],
        };
        for (at, octet) in name.bytes().enumerate() {
            // Written for every octet and kept after a dot: no branch depends on where the dots
            // are, which nothing could predict.
            let start = sought.starts.get_mut(sought.labels);
            if let (Some(start), Ok(next)) = (start, u8::try_from(at + 1)) {
                *start = next;
            }
            sought.labels += usize::from(octet == b'.');
        }
        sought
    }

    /// How many labels the name has.
    pub(super) fn labels(&self) -> usize {
        self.labels
    }

    /// The last `labels` labels of the name.
    pub(super) fn suffix(&self, labels: usize) -> Option<&'a str> {
        let start = self.starts.get(self.labels.checked_sub(labels)?)?;
        self.name.get(usize::from(*start)..)
    }
}

impl LabelCounts {
    pub(super) fn insert(&mut self, labels: usize) {
        self.0 |= bit(labels);
    }

    pub(super) fn contains(self, labels: usize) -> bool {
        self.0 & bit(labels) != 0
    }

    /// Those under `labels`, the greatest first.
    pub(super) fn under(self, labels: usize) -> impl Iterator<Item = usize> {
        let mut left = self.0 & bit(labels).wrapping_sub(1);
        iter::from_fn(move || {
            let greatest = left.checked_ilog2()?;
            left ^= 1 << greatest;
            usize::try_from(greatest).ok()
        })
    }
}

/// Zero for a count that no name has.
fn bit(labels: usize) -> u128 {
    u32::try_from(labels)
        .ok()
        .and_then(|labels| 1_u128.checked_shl(labels))
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::destination::Scheme;

    fn destination(host: &str) -> Destination {
        Destination {
            scheme: Scheme::Https,
            host: Host::parse(host).unwrap(),
            port: 443,
        }
    }

    #[test]
    fn a_name_is_cut_into_its_suffixes() {
        let destination = destination("a.bc.def.example");
        let sought = Sought::new(&destination);
        assert_eq!(sought.labels(), 4);
        for (labels, expected) in [
            (1, Some("example")),
            (2, Some("def.example")),
            (3, Some("bc.def.example")),
            (4, Some("a.bc.def.example")),
            (5, None),
        ] {
            assert_eq!(sought.suffix(labels), expected, "{labels}");
        }
    }

    #[test]
    fn the_longest_name_is_cut_too() {
        let longest = format!("{}a", "a.".repeat(126));
        let destination = destination(&longest);
        let sought = Sought::new(&destination);
        assert_eq!(sought.labels(), 127);
        assert_eq!(sought.suffix(127), Some(longest.as_str()));
        assert_eq!(sought.suffix(126), longest.get(2..));
        assert_eq!(sought.suffix(1), Some("a"));
    }

    #[test]
    fn counts_under_a_number_come_the_greatest_first() {
        let mut counts = LabelCounts::default();
        for labels in [1, 3, 4, 127] {
            counts.insert(labels);
        }
        let under = |labels| counts.under(labels).collect::<Vec<_>>();
        assert_eq!(under(4), [3, 1]);
        assert_eq!(under(127), [4, 3, 1]);
        assert_eq!(under(128), [127, 4, 3, 1]);
        assert_eq!(under(1), [0; 0]);
        assert!(counts.contains(127) && !counts.contains(2));
    }
}
