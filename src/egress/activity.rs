//! When something last flowed, in either direction.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use tokio::time::Instant;

/// The idle clock of one exchange.
#[derive(Debug)]
pub struct Activity {
    start: Instant,
    /// Milliseconds from the start to the last byte.
    last: AtomicU64,
}

impl Activity {
    /// Starts now.
    pub fn new() -> Self {
        Self {
            start: Instant::now(),
            last: AtomicU64::new(0),
        }
    }

    /// Something flowed.
    pub fn touch(&self) {
        let millis = u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.last.store(millis, Ordering::Relaxed);
    }

    /// When nothing will have flowed for `limit`, unless something does until then.
    pub fn quiet_at(&self, limit: Duration) -> Instant {
        let last = Duration::from_millis(self.last.load(Ordering::Relaxed));
        self.start + last + limit
    }
}

impl Default for Activity {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn any_byte_restarts_the_idle_clock() {
        let limit = Duration::from_secs(5);
        let activity = Activity::new();
        let begun = Instant::now();
        assert_eq!(activity.quiet_at(limit), begun + limit);
        tokio::time::advance(Duration::from_secs(4)).await;
        assert_eq!(activity.quiet_at(limit), begun + limit);
        activity.touch();
        assert_eq!(activity.quiet_at(limit), begun + Duration::from_secs(9));
    }
}
