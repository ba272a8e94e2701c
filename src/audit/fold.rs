//! Folds what would flood the log: identical events, and distinct ones beyond a rate, become one
//! line with their true count. Time is an argument, and every table is bounded.

mod event;

use std::{collections::HashMap, hash::BuildHasher, net::IpAddr, time::Duration};

use hashbrown::HashTable;

pub(super) use self::event::{Event, Folded};
use self::event::{Key, Scope};
use crate::{
    policy::Decision,
    record::{RunId, Subject, Tally},
};

/// Identical events within `REPEAT_WINDOW` that are written one by one.
const REPEATS_WRITTEN: u32 = 20;
/// After the first of identical events.
const REPEAT_WINDOW: Duration = Duration::from_secs(10);
/// Over which distinct events are counted against the rate, and after which their line is written.
const RATE_WINDOW: Duration = Duration::from_mins(1);
/// Events that are watched for repeats at one time. Beyond it repeats are only held by the rate.
const MAX_REPEATS: usize = 10_000;
/// Clients that have a rate of their own at one time. Beyond it a client has none left.
const MAX_CLIENTS: usize = 10_000;
/// Lines of one client and reason that count distinct events at one time. Beyond it one line
/// counts those of all clients.
const MAX_BUCKETS: usize = 4096;
/// Samples of one line.
const MAX_SAMPLES: usize = 8;

/// What becomes of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// It has its own line.
    Written,
    /// It is counted in a line to come.
    Counted,
}

/// The events of the last seconds.
pub(super) struct Fold {
    per_minute: u32,
    /// Seeded at random: names are of a client's choice, and so must not choose their place.
    hasher: foldhash::quality::RandomState,
    repeats: HashTable<Window>,
    buckets: HashTable<Window>,
    rates: HashMap<Client, Rate, foldhash::quality::RandomState>,
}

struct Window {
    hash: u64,
    scope: Scope,
    shared: Folded,
    since: Duration,
    /// Events with a line of their own.
    written: u32,
    tally: Tally,
}

/// A client is one run, or one source address.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Client {
    Run(RunId),
    Address(Option<IpAddr>),
}

struct Rate {
    since: Duration,
    denials: u32,
    /// Allowed queries have a rate of their own, so that they cannot use up that of denials.
    allowed: u32,
}

impl Fold {
    /// Writes up to `per_minute` denials, and as many allowed queries, of one client one by one.
    pub(super) fn new(per_minute: u32) -> Self {
        Self {
            per_minute,
            hasher: foldhash::quality::RandomState::default(),
            repeats: HashTable::new(),
            buckets: HashTable::new(),
            rates: HashMap::default(),
        }
    }

    /// Judges one event at `now`, a time since any fixed moment.
    pub(super) fn judge(&mut self, event: Event<'_>, now: Duration) -> Fate {
        let key = Key::new(event, Scope::Same);
        let hash = self.hasher.hash_one(key);
        let Some(same) = self.repeats.find_mut(hash, |window| window.counts(&key)) else {
            if !take(&mut self.rates, event, self.per_minute, now) {
                self.count_in_bucket(event, now);
                return Fate::Counted;
            }
            if self.repeats.len() < MAX_REPEATS && event.is_short() {
                let window = Window::new(hash, event, Scope::Same, now);
                self.repeats
                    .insert_unique(hash, window, |window| window.hash);
            }
            return Fate::Written;
        };
        if same.tally.count == 0 && now >= same.since + REPEAT_WINDOW {
            (same.since, same.written) = (now, 0);
        }
        // Once one is counted the others of its window are, until its line is written.
        if same.tally.count == 0
            && same.written < REPEATS_WRITTEN
            && take(&mut self.rates, event, self.per_minute, now)
        {
            same.written += 1;
            return Fate::Written;
        }
        if event.is_nameless() {
            same.count_distinct(event);
        } else {
            same.tally.count += 1;
        }
        Fate::Counted
    }

    /// Takes the lines whose windows are over at `now`, and forgets what is past.
    pub(super) fn over(&mut self, now: Duration) -> Vec<(Folded, Tally)> {
        self.rates.retain(|_, rate| now < rate.since + RATE_WINDOW);
        self.extract(|window| now >= window.since + window.length())
    }

    /// Takes the lines of `run` at its end.
    pub(super) fn of_run(&mut self, run: &RunId) -> Vec<(Folded, Tally)> {
        self.extract(|window| window.shared.event().subject().run.as_ref() == Some(run))
    }

    /// Takes every line, at the stop.
    pub(super) fn all(&mut self) -> Vec<(Folded, Tally)> {
        self.extract(|_| true)
    }

    fn extract(&mut self, which: impl Fn(&Window) -> bool) -> Vec<(Folded, Tally)> {
        let mut taken = Vec::new();
        for table in [&mut self.repeats, &mut self.buckets] {
            let ended = table
                .extract_if(|window| which(window))
                .filter(|window| window.tally.count > 0);
            taken.extend(ended.map(|window| (window.shared, window.tally)));
        }
        taken
    }

    fn count_in_bucket(&mut self, event: Event<'_>, now: Duration) {
        let scope = Scope::OfClient;
        if !self.count_in(event, scope, now) {
            self.count_in(event, Scope::OfAll, now);
        }
    }

    /// Counts `event` in the bucket of its scope; without room only that of all clients can begin,
    /// of which there are no more than roads and reasons.
    fn count_in(&mut self, event: Event<'_>, scope: Scope, now: Duration) -> bool {
        let key = Key::new(event, scope);
        let hash = self.hasher.hash_one(key);
        if let Some(bucket) = self.buckets.find_mut(hash, |bucket| bucket.counts(&key)) {
            bucket.count_distinct(event);
            return true;
        }
        if scope == Scope::OfClient && self.buckets.len() >= MAX_BUCKETS {
            return false;
        }
        let mut bucket = Window::new(hash, event, scope, now);
        bucket.count_distinct(event);
        self.buckets
            .insert_unique(hash, bucket, |bucket| bucket.hash);
        true
    }
}

/// Takes one line from the rate of the event's client, if one is left.
fn take(
    rates: &mut HashMap<Client, Rate, foldhash::quality::RandomState>,
    event: Event<'_>,
    per_minute: u32,
    now: Duration,
) -> bool {
    let client = Client::of(event.subject());
    if rates.len() >= MAX_CLIENTS && !rates.contains_key(&client) {
        return false;
    }
    let fresh = Rate {
        since: now,
        denials: 0,
        allowed: 0,
    };
    let rate = rates.entry(client).or_insert(fresh);
    if now >= rate.since + RATE_WINDOW {
        (rate.since, rate.denials, rate.allowed) = (now, 0, 0);
    }
    let used = match event.decision() {
        Decision::Allow => &mut rate.allowed,
        Decision::Deny | Decision::WouldDeny => &mut rate.denials,
    };
    if *used >= per_minute {
        return false;
    }
    *used += 1;
    true
}

impl Window {
    fn new(hash: u64, event: Event<'_>, scope: Scope, now: Duration) -> Self {
        let written = match scope {
            Scope::Same => 1,
            Scope::OfClient | Scope::OfAll => 0,
        };
        Self {
            hash,
            scope,
            shared: Folded::new(event, scope),
            since: now,
            written,
            tally: Tally::default(),
        }
    }

    fn counts(&self, key: &Key<'_>) -> bool {
        Key::new(self.shared.event(), self.scope) == *key
    }

    fn length(&self) -> Duration {
        match self.scope {
            Scope::Same => REPEAT_WINDOW,
            Scope::OfClient | Scope::OfAll => RATE_WINDOW,
        }
    }

    fn count_distinct(&mut self, event: Event<'_>) {
        self.tally.count += 1;
        if self.tally.samples.len() < MAX_SAMPLES {
            let sample = event.sample();
            if !sample.is_empty() && !self.tally.samples.contains(&sample) {
                self.tally.samples.push(sample);
            }
        }
    }
}

impl Client {
    fn of(subject: &Subject) -> Self {
        match &subject.run {
            Some(run) => Self::Run(run.clone()),
            None => Self::Address(subject.client),
        }
    }
}

#[cfg(test)]
mod tests;
