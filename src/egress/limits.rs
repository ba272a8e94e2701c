//! What one client may use at a time and per second, so that one cannot starve another.

use std::{
    collections::HashSet,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::time::Instant;

use super::{Authorizer, ClientKey, Endpoint};
use crate::{config::Limits, destination::Name, policy::Reason};

const MINUTE: Duration = Duration::from_mins(1);

/// A client connection's place among the open ones, and what it has sent so far.
pub struct Connection {
    authorizer: Arc<Authorizer>,
    key: ClientKey,
    from: Endpoint,
    uploaded: AtomicU64,
}

/// A rate is exceeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("too many requests, try again in {retry_after:?}")]
pub struct RateLimited {
    /// When the next one would be let through.
    pub retry_after: Duration,
}

impl Connection {
    /// Its two ends.
    pub fn from(&self) -> Endpoint {
        self.from
    }

    /// Bytes that its client has sent on it.
    pub(super) fn uploaded(&self) -> u64 {
        self.uploaded.load(Ordering::Relaxed)
    }

    pub(super) fn add_upload(&self, bytes: u64) -> u64 {
        self.uploaded
            .fetch_add(bytes, Ordering::Relaxed)
            .saturating_add(bytes)
    }
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connection")
            .field("key", &self.key)
            .field("from", &self.from)
            .finish_non_exhaustive()
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.authorizer.limiter.disconnect(&self.key);
    }
}

/// Counts by client.
#[derive(Debug)]
pub(super) struct Limiter {
    capacity: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    open: usize,
    /// A client may have many source addresses to choose from; the seed of this table is random.
    clients: foldhash::HashMap<ClientKey, Usage>,
}

#[derive(Debug)]
struct Usage {
    open: usize,
    requests: Bucket,
    queries: Bucket,
    names: HashSet<Name>,
    names_since: Instant,
    last_seen: Instant,
}

/// A token bucket that holds one second's worth.
#[derive(Debug, Default)]
struct Bucket {
    used: f64,
    at: Option<Instant>,
}

impl Limiter {
    pub(super) fn new(capacity: usize) -> Self {
        Self {
            capacity,
            state: Mutex::default(),
        }
    }

    pub(super) fn connect(
        &self,
        authorizer: &Arc<Authorizer>,
        key: ClientKey,
        from: Endpoint,
        limits: &Limits,
    ) -> Result<Connection, Reason> {
        let mut state = self.lock();
        if state.open >= limits.connections.min(self.capacity) {
            return Err(Reason::OverCapacity);
        }
        let usage = state.usage(&key);
        if usage.open >= limits.connections_per_client {
            return Err(Reason::OverCapacity);
        }
        usage.open += 1;
        state.open += 1;
        drop(state);
        let authorizer = Arc::clone(authorizer);
        Ok(Connection {
            authorizer,
            key,
            from,
            uploaded: AtomicU64::new(0),
        })
    }

    fn disconnect(&self, key: &ClientKey) {
        let mut state = self.lock();
        state.open = state.open.saturating_sub(1);
        if let Some(usage) = state.clients.get_mut(key) {
            usage.open = usage.open.saturating_sub(1);
        }
    }

    pub(super) fn request(&self, key: &ClientKey, limits: &Limits) -> Result<(), RateLimited> {
        self.lock()
            .usage(key)
            .requests
            .take(limits.requests_per_second)
    }

    pub(super) fn query(&self, key: &ClientKey, limits: &Limits) -> Result<(), RateLimited> {
        self.lock()
            .usage(key)
            .queries
            .take(limits.dns_queries_per_second)
    }

    /// Counts distinct names in a minute from the first; a name already counted is free.
    pub(super) fn wildcard_name(
        &self,
        key: &ClientKey,
        name: &Name,
        limits: &Limits,
    ) -> Result<(), RateLimited> {
        let mut state = self.lock();
        let usage = state.usage(key);
        let now = Instant::now();
        if now - usage.names_since >= MINUTE {
            usage.names.clear();
            usage.names_since = now;
        }
        let most = usize::try_from(limits.wildcard_names_per_minute).unwrap_or(usize::MAX);
        if usage.names.contains(name) {
            return Ok(());
        }
        if usage.names.len() >= most {
            return Err(RateLimited {
                retry_after: usage.names_since + MINUTE - now,
            });
        }
        usage.names.insert(name.clone());
        Ok(())
    }

    pub(super) fn open_connections(&self) -> usize {
        self.lock().open
    }

    /// Forgets clients that were not seen for a minute, so that the table follows those that are
    /// there.
    pub(super) fn prune(&self) {
        let now = Instant::now();
        self.lock()
            .clients
            .retain(|_, usage| usage.open > 0 || now - usage.last_seen < MINUTE);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn usage(&mut self, key: &ClientKey) -> &mut Usage {
        let now = Instant::now();
        let usage = self.clients.entry(key.clone()).or_insert_with(|| Usage {
            open: 0,
            requests: Bucket::default(),
            queries: Bucket::default(),
            names: HashSet::new(),
            names_since: now,
            last_seen: now,
        });
        usage.last_seen = now;
        usage
    }
}

impl Bucket {
    fn take(&mut self, per_second: u32) -> Result<(), RateLimited> {
        let now = Instant::now();
        let rate = f64::from(per_second);
        let elapsed = self.at.map_or(0.0, |at| (now - at).as_secs_f64());
        self.used = (self.used - elapsed * rate).max(0.0);
        self.at = Some(now);
        let over = self.used + 1.0 - rate;
        if over > 0.0 {
            return Err(RateLimited {
                retry_after: Duration::from_secs_f64(over / rate),
            });
        }
        self.used += 1.0;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_bucket_holds_one_second_and_refills() {
        let mut bucket = Bucket::default();
        for _ in 0..10 {
            assert_eq!(bucket.take(10), Ok(()));
        }
        let limited = bucket.take(10).unwrap_err();
        assert_eq!(limited.retry_after, Duration::from_millis(100));
        tokio::time::advance(Duration::from_millis(100)).await;
        assert_eq!(bucket.take(10), Ok(()));
        assert!(bucket.take(10).is_err());
    }
}
