//! One run from its preparation to its removal. Whatever happens, what was made is removed, and
//! the record says how it ended.

mod advice;
mod finish;
mod pump;
mod setup;
mod slot;
mod watch;

pub use self::advice::runtime_escapes;

use std::panic::AssertUnwindSafe;

use futures_util::FutureExt;
use tokio::time::Instant;

use super::{
    Io, LaunchError,
    backend::{Backend, Proxy},
    plan::{Labels, Plan},
    registration::Registered,
    settings::Settings,
    spec::RunSpec,
};
use crate::record::{RunRecord, Timing};

/// A run while it is under way.
pub(super) struct Execution<'a, B> {
    backend: &'a B,
    settings: &'a Settings,
    spec: &'a RunSpec,
    labels: &'a Labels,
    /// What is to be removed in the end.
    plan: Option<Plan>,
    proxy: Option<Proxy>,
    /// Whether the proxy may know the run.
    registered: bool,
    record: RunRecord,
    clock: Clock,
}

/// When each phase ended.
struct Clock {
    began: Instant,
    phases: Vec<Timing>,
}

impl Clock {
    fn new() -> Self {
        Self {
            began: Instant::now(),
            phases: Vec::new(),
        }
    }

    fn mark(&mut self, phase: &str) {
        self.phases.push(Timing {
            phase: phase.to_owned(),
            at_ms: milliseconds(self.began.elapsed()),
        });
    }
}

fn milliseconds(duration: std::time::Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

impl<'a, B: Backend> Execution<'a, B> {
    pub(super) fn new(
        backend: &'a B,
        settings: &'a Settings,
        spec: &'a RunSpec,
        labels: &'a Labels,
    ) -> Self {
        let mut record = RunRecord::begun(
            &labels.run,
            labels.started.to_string(),
            spec.image.clone(),
            spec.command.clone(),
        );
        record.profile.clone_from(&spec.profile);
        record.allow = spec.allow.iter().map(ToString::to_string).collect();
        Self {
            backend,
            settings,
            spec,
            labels,
            plan: None,
            proxy: None,
            registered: false,
            record,
            clock: Clock::new(),
        }
    }

    /// Runs it. A panic on the way is an error of this run, after its removal.
    pub(super) async fn run(mut self, io: Io) -> RunRecord {
        self.clock.began = io.began;
        self.clock.mark("connected");
        let attempt = AssertUnwindSafe(self.attempt(io)).catch_unwind().await;
        let outcome = attempt.unwrap_or(Err(LaunchError::Panicked));
        self.remove().await;
        self.clock.mark("removed");
        if let Err(error) = outcome {
            self.record.exit_code = error.exit_code();
            let mut said = error.to_string();
            let mut source = std::error::Error::source(&error);
            while let Some(cause) = source {
                said = format!("{said}: {cause}");
                source = cause.source();
            }
            self.record.error = Some(said);
        }
        self.record.timings = Some(self.clock.phases);
        self.record
    }

    async fn attempt(&mut self, io: Io) -> Result<(), LaunchError> {
        let ready = self.set_up().await?;
        self.clock.mark("created");
        // A signal that came meanwhile waited until everything that was being made is known.
        if let Some(signal) = io.stop.received() {
            return Err(LaunchError::Interrupted(signal));
        }
        let watched = self.execute(io).await?;
        self.clock.mark("ended");
        self.finish(watched, ready).await
    }

    fn registered_run(&self) -> Option<Registered<'_, B>> {
        self.proxy.as_ref().map(|proxy| Registered {
            backend: self.backend,
            proxy,
            run: &self.labels.run,
        })
    }
}
