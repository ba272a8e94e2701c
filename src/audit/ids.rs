//! Fresh ids.

use std::sync::{Mutex, PoisonError};

use crate::record::Id;

/// Makes ULIDs, each greater than the one before. Their random part comes from the thread's
/// generator, which the operating system seeds.
#[derive(Debug, Default)]
pub(super) struct Ids(Mutex<ulid::Generator>);

impl Ids {
    pub(super) fn next(&self) -> Id {
        let mut generator = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // After 2^80 ids of one millisecond, or where the clock stands at its last one.
        Id(generator
            .generate()
            .unwrap_or_else(ulid::Overflow::commit_overflow_random))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_of_many_threads_differ_and_grow() {
        let ids = Ids::default();
        let mut all: Vec<Id> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4)
                .map(|_| scope.spawn(|| (0..1000).map(|_| ids.next()).collect::<Vec<_>>()))
                .collect();
            threads
                .into_iter()
                .flat_map(|thread| {
                    let made = thread.join().unwrap();
                    assert!(made.is_sorted());
                    made
                })
                .collect()
        });
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 4000);
    }
}
