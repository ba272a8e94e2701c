//! Every spawned task and the signal to stop: `Tasks` waits for what it spawned.

use std::{future::Future, time::Duration};

use tokio_util::{sync::CancellationToken, task::TaskTracker};

/// Spawns tasks, tells them to stop, and waits for them.
#[derive(Clone, Debug, Default)]
pub struct Tasks {
    tracker: TaskTracker,
    stopping: CancellationToken,
    forced: CancellationToken,
}

impl Tasks {
    /// No tasks yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Spawns a task that a drain waits for.
    pub fn spawn<F>(&self, task: F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        drop(self.tracker.spawn(task));
    }

    /// Cancelled when the drain begins: accept nothing new, finish what is open.
    pub fn stopping(&self) -> &CancellationToken {
        &self.stopping
    }

    /// Cancelled when the drain's time is over: end what is still open.
    pub fn forced(&self) -> &CancellationToken {
        &self.forced
    }

    /// Stops: waits `limit` for open tasks to finish, then forces them and waits for their end.
    pub async fn drain(&self, limit: Duration) {
        self.stopping.cancel();
        self.tracker.close();
        if tokio::time::timeout(limit, self.tracker.wait())
            .await
            .is_err()
        {
            self.forced.cancel();
            self.tracker.wait().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_drain_waits_then_forces() {
        let tasks = Tasks::new();
        let forced = tasks.forced().clone();
        tasks.spawn(async move { forced.cancelled().await });
        let begun = tokio::time::Instant::now();
        tasks.drain(Duration::from_secs(3)).await;
        assert_eq!(begun.elapsed(), Duration::from_secs(3));
    }
}
