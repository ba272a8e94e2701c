//! Counts by key, of which the heaviest are kept.

use std::{collections::HashMap, hash::Hash};

use super::report::Rest;

/// The most rows that one group keeps; many groups share them.
const MAX_ROWS: usize = 4000;

/// The fewest rows that a group keeps.
const MIN_ROWS: usize = 32;

/// What is counted of one key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sums {
    pub(super) count: u64,
    pub(super) bytes_up: u64,
    pub(super) bytes_down: u64,
}

impl Sums {
    pub(super) fn of_count(count: u64) -> Self {
        Self {
            count,
            ..Self::default()
        }
    }

    pub(super) fn add(&mut self, other: Self) {
        self.count = self.count.saturating_add(other.count);
        self.bytes_up = self.bytes_up.saturating_add(other.bytes_up);
        self.bytes_down = self.bytes_down.saturating_add(other.bytes_down);
    }

    fn weight(self) -> (u64, u64) {
        (self.bytes_up.saturating_add(self.bytes_down), self.count)
    }
}

/// Sums by key. Where there are too many keys, the lightest are counted together: the sum of all is
/// exact, and what a row says is then the least that it can be.
#[derive(Debug)]
pub(super) struct Counts<K> {
    rows: HashMap<K, Sums>,
    rest: Sums,
    room: usize,
}

impl<K> Default for Counts<K> {
    fn default() -> Self {
        Self {
            rows: HashMap::new(),
            rest: Sums::default(),
            room: MAX_ROWS,
        }
    }
}

impl<K: Clone + Eq + Hash + Ord> Counts<K> {
    /// Makes this one of `groups` that share the room.
    pub(super) fn share(&mut self, groups: usize) {
        self.room = (MAX_ROWS / groups.max(1)).max(MIN_ROWS);
    }

    pub(super) fn add(&mut self, key: K, sums: Sums) {
        if let Some(row) = self.rows.get_mut(&key) {
            row.add(sums);
            return;
        }
        // Twice the room, so that each pass over all rows is paid for by as many new ones.
        if self.rows.len() >= 2 * self.room {
            self.keep_heaviest();
        }
        self.rows.insert(key, sums);
    }

    /// The rows, heaviest first, at most `top` of them, and all others together.
    pub(super) fn into_rows(self, top: Option<usize>) -> (Vec<(K, Sums)>, Rest) {
        let mut rows: Vec<(K, Sums)> = self.rows.into_iter().collect();
        rows.sort_unstable_by(|(a, left), (b, right)| {
            right.weight().cmp(&left.weight()).then_with(|| a.cmp(b))
        });
        let top = top.unwrap_or(MAX_ROWS).min(rows.len());
        let mut beyond = self.rest;
        let hidden = rows.split_off(top);
        for (_, sums) in &hidden {
            beyond.add(*sums);
        }
        let rest = Rest {
            count: beyond.count,
            bytes_up: beyond.bytes_up,
            bytes_down: beyond.bytes_down,
            is_exact: self.rest == Sums::default(),
        };
        (rows, rest)
    }

    fn keep_heaviest(&mut self) {
        let mut weights: Vec<(u64, u64)> = self.rows.values().map(|sums| sums.weight()).collect();
        let at = self.room.min(weights.len().saturating_sub(1));
        let (_, least, _) = weights.select_nth_unstable_by(at, |a, b| b.cmp(a));
        let least = *least;
        let heavier = self.rows.values().filter(|sums| sums.weight() > least);
        // Of equally light rows any may stay, as far as there is room.
        let mut room = self.room.saturating_sub(heavier.count());
        let rest = &mut self.rest;
        self.rows.retain(|_, sums| {
            let mut stays = sums.weight() > least;
            if sums.weight() == least && room > 0 {
                room -= 1;
                stays = true;
            }
            if !stays {
                rest.add(*sums);
            }
            stays
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_heaviest_rows_stay_and_the_sum_is_exact() {
        let mut counts = Counts::default();
        let heavy = Sums {
            count: 1,
            bytes_up: 1 << 30,
            bytes_down: 0,
        };
        counts.add(u64::MAX, heavy);
        for number in 0..1_000_000_u64 {
            counts.add(number, Sums::of_count(1));
            counts.add(7, Sums::of_count(1));
            assert!(counts.rows.len() <= 2 * MAX_ROWS);
        }
        let (rows, rest) = counts.into_rows(Some(2));
        assert_eq!(rows[0], (u64::MAX, heavy));
        assert_eq!(rows[1], (7, Sums::of_count(1_000_001)));
        let shown: u64 = rows.iter().map(|(_, sums)| sums.count).sum();
        assert_eq!(shown + rest.count, 2_000_001);
        assert!(!rest.is_exact);
    }

    #[test]
    fn rows_are_in_one_order_and_few_are_exact() {
        let mut counts = Counts::default();
        for key in ["c", "a", "b", "b"] {
            counts.add(key, Sums::of_count(1));
        }
        let (rows, rest) = counts.into_rows(None);
        let keys: Vec<&str> = rows.iter().map(|(key, _)| *key).collect();
        assert_eq!(keys, ["b", "a", "c"]);
        assert_eq!((rest.count, rest.is_exact), (0, true));
    }
}
