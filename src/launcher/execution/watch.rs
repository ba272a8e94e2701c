//! A command from its start to its confirmed death.

use std::{cell::Cell, pin::Pin, time::Duration};

use futures_util::{FutureExt, future::FusedFuture};
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::{
    Execution,
    pump::{Kept, drain, feed},
};
use crate::launcher::{
    Io, LaunchError,
    backend::{Backend, BackendError, Ended, Streams},
    plan::Plan,
};

/// How long a killed sandbox may take to be dead.
const DEATH: Duration = Duration::from_secs(20);

/// How long the engine may take to pass on what a dead command has written.
const LAST_WORDS: Duration = Duration::from_secs(10);

/// What was seen of a command.
pub(super) struct Watched {
    pub(super) kept: Kept,
    pub(super) duration: Duration,
    pub(super) end: End,
    /// How it ended, where the engine could confirm it.
    pub(super) ended: Result<Ended, BackendError>,
    /// The most processes seen at once.
    pub(super) pids: u64,
}

/// What ended a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Itself,
    Timeout,
    Signal(u8),
}

impl<B: Backend> Execution<'_, B> {
    /// Starts the command and stays with it until nothing of it runs.
    pub(super) async fn execute(&mut self, mut io: Io) -> Result<Watched, LaunchError> {
        let Some(plan) = &self.plan else {
            return Err(LaunchError::Panicked);
        };
        let Streams { output, input } = self.backend.start(plan).await?;
        self.clock.mark("started");
        let started = Instant::now();
        let mut kept = Kept::new(self.spec.max_output, io.live);
        let pids = Cell::new(0);
        let (end, ended, duration) = {
            let mut drain = std::pin::pin!(drain(output, &mut kept).map(said).fuse());
            let mut wait = std::pin::pin!(self.backend.wait(plan));
            let alongside = async {
                tokio::join!(
                    feed(io.stdin, input),
                    self.keep_registered(),
                    self.sample(plan, &pids)
                );
            };
            let mut alongside = std::pin::pin!(alongside);
            let (end, ended) = loop {
                tokio::select! {
                    biased;
                    ended = &mut wait => break (End::Itself, Some(ended)),
                    () = sleep_until(started + self.spec.timeout) => break (End::Timeout, None),
                    signal = io.stop.wait() => break (End::Signal(signal), None),
                    () = &mut drain => {}
                    () = &mut alongside => {}
                }
            };
            let ended = match ended {
                Some(ended) => ended,
                // An engine tells of a death only once it has passed on what was written.
                None => while_polling(self.kill(plan, wait), drain.as_mut()).await,
            };
            let duration = started.elapsed();
            if !drain.is_terminated() && timeout(LAST_WORDS, drain).await.is_err() {
                tracing::warn!(run = %plan.run, "the engine did not end the output of a dead command");
            }
            (end, ended, duration)
        };
        Ok(Watched {
            kept,
            duration,
            end,
            ended,
            pids: pids.get(),
        })
    }

    async fn kill(
        &self,
        plan: &Plan,
        wait: impl Future<Output = Result<Ended, BackendError>>,
    ) -> Result<Ended, BackendError> {
        let gone = |why: String| BackendError::Gone {
            doing: "kill the sandbox".to_owned(),
            why,
        };
        let killed = timeout(DEATH, self.backend.kill(plan)).await;
        killed.map_err(|_| gone(format!("no answer within {DEATH:?}")))??;
        timeout(DEATH, wait)
            .await
            .map_err(|_| gone(format!("it was not dead within {DEATH:?}")))?
    }

    async fn keep_registered(&self) {
        let plan = self.plan.as_ref();
        let registration = plan.and_then(|plan| plan.registration.as_ref());
        match self.registered_run().zip(registration) {
            Some((run, registration)) => run.keep(registration).await,
            None => std::future::pending().await,
        }
    }

    /// Looks now and then how many processes there are: soon at first, then every few seconds.
    async fn sample(&self, plan: &Plan, pids: &Cell<u64>) {
        let mut pause = Duration::from_millis(500);
        loop {
            sleep(pause).await;
            pause = (pause * 2).min(Duration::from_secs(4));
            if let Ok(usage) = self.backend.usage(plan).await {
                pids.set(pids.get().max(usage.pids.unwrap_or_default()));
            }
        }
    }
}

/// What a failed reading of the output means is seen from how the command ended.
fn said(drained: Result<(), BackendError>) {
    if let Err(error) = drained {
        tracing::debug!(%error, "the output ended before the command");
    }
}

/// Waits for `main`, and lets `side` go on meanwhile.
async fn while_polling<T>(main: impl Future<Output = T>, side: Pin<&mut impl FusedFuture>) -> T {
    let side = async {
        side.await;
        std::future::pending().await
    };
    tokio::select! {
        done = main => done,
        never = side => never,
    }
}
