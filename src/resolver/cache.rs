//! Answers kept for at most their TTL, bounded in number; concurrent look-ups of a name are one.

use std::{
    collections::HashMap,
    future::Future,
    net::IpAddr,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::{sync::OnceCell, time::Instant};

use super::lookup::{Answer, LookupError};
use crate::destination::Name;

/// The most names kept.
const CAPACITY: usize = 4096;

/// How many are kept when there were too many.
const AFTER_EVICTION: usize = CAPACITY - CAPACITY / 8;

/// The longest that an answer is kept, whatever its TTL; a TTL below it is kept as it is, and one
/// of zero serves only those who waited for that answer (RFC 1035 section 3.2.1).
const MAX_TTL: Duration = Duration::from_mins(5);

/// How long it is kept that a name has no address (RFC 2308 section 5 allows hours).
const NEGATIVE_TTL: Duration = Duration::from_secs(5);

/// RFC 9520 section 3.2: a failure is kept for at least a second, so that retries do not flood a
/// server that is in trouble.
const FAILURE_TTL: Duration = Duration::from_secs(1);

/// What was learnt of names. It holds answers, never verdicts on them.
#[derive(Debug, Default)]
pub(super) struct Cache {
    entries: Mutex<HashMap<Name, Arc<Entry>>>,
}

/// Filled once the look-up has ended. When whoever looks up goes away, one of those who wait takes
/// over.
type Entry = OnceCell<Kept>;

#[derive(Debug)]
struct Kept {
    result: Result<Vec<IpAddr>, LookupError>,
    until: Instant,
}

impl Cache {
    /// The addresses kept for `name`, else what `ask` gives.
    pub(super) async fn get_or_ask<F, A>(
        &self,
        name: &Name,
        ask: F,
    ) -> Result<Vec<IpAddr>, LookupError>
    where
        F: FnOnce() -> A,
        A: Future<Output = Result<Answer, LookupError>>,
    {
        let entry = self.entry(name, Instant::now());
        let kept = entry.get_or_init(|| async { Kept::new(ask().await, Instant::now()) });
        kept.await.result.clone()
    }

    /// The entry to read, to wait for or to fill.
    fn entry(&self, name: &Name, now: Instant) -> Arc<Entry> {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(entry) = entries.get(name).filter(|entry| is_current(entry, now)) {
            return Arc::clone(entry);
        }
        if entries.len() >= CAPACITY && !entries.contains_key(name) {
            make_room(&mut entries, now);
        }
        let entry = Arc::default();
        entries.insert(name.clone(), Arc::clone(&entry));
        entry
    }
}

impl Kept {
    fn new(result: Result<Answer, LookupError>, now: Instant) -> Self {
        let ttl = match &result {
            Ok(answer) => answer.ttl.min(MAX_TTL),
            Err(LookupError::NoAddress) => NEGATIVE_TTL,
            Err(LookupError::Failed(_) | LookupError::Timeout) => FAILURE_TTL,
        };
        Self {
            result: result.map(|answer| answer.addresses),
            until: now + ttl,
        }
    }
}

fn is_current(entry: &Entry, now: Instant) -> bool {
    entry.get().is_none_or(|kept| now < kept.until)
}

/// Drops what is out of date or abandoned, then, if that is not enough, others in no order. They
/// are dropped many at a time, so that a flood of names pays for the walk only now and then.
fn make_room(entries: &mut HashMap<Name, Arc<Entry>>, now: Instant) {
    entries.retain(|_, entry| {
        let abandoned = !entry.initialized() && Arc::strong_count(entry) == 1;
        is_current(entry, now) && !abandoned
    });
    let mut surplus = entries.len().saturating_sub(AFTER_EVICTION);
    entries.retain(|_, _| {
        let keep = surplus == 0;
        surplus = surplus.saturating_sub(1);
        keep
    });
}

#[cfg(test)]
impl Cache {
    pub(super) fn len(&self) -> usize {
        self.entries.lock().unwrap().len()
    }
}
