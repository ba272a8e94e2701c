//! Attempts that wait for somebody else, made side by side.

use std::{io, thread};

use super::Notes;
use crate::doctor::Probe;

/// How many are made at once: fewer than a sandbox has processes.
const AT_ONCE: usize = 40;

/// Attempts that are still to be made.
#[derive(Default)]
pub(super) struct Attempts {
    waiting: Vec<Attempt>,
}

struct Attempt {
    probe: Probe,
    what: String,
    make: Box<dyn Fn() -> String + Send + Sync>,
}

impl Attempts {
    pub(super) fn add(
        &mut self,
        probe: Probe,
        what: impl Into<String>,
        make: impl Fn() -> String + Send + Sync + 'static,
    ) {
        self.waiting.push(Attempt {
            probe,
            what: what.into(),
            make: Box::new(make),
        });
    }

    /// Makes all of them, and tells of them in their order.
    pub(super) fn make(self, notes: &mut Notes<'_>) -> io::Result<()> {
        for some in self.waiting.chunks(AT_ONCE) {
            let results: Vec<String> = thread::scope(|scope| {
                let made: Vec<_> = some.iter().map(|one| scope.spawn(&one.make)).collect();
                let ended = made.into_iter().map(thread::ScopedJoinHandle::join);
                ended
                    .map(|end| end.unwrap_or_else(|_| "panicked".to_owned()))
                    .collect()
            });
            for (attempt, result) in some.iter().zip(results) {
                notes.tell(attempt.probe, &attempt.what, result)?;
            }
        }
        Ok(())
    }
}
