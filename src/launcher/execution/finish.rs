//! What is taken from a dead sandbox, and its removal.

use std::time::Duration;

use super::{
    Execution, milliseconds,
    setup::Ready,
    watch::{End, Watched},
};
use crate::{
    launcher::{
        LaunchError,
        backend::Backend,
        capture::Captured,
        explain,
        output::{Caps, Collected, OutputError, Target},
    },
    record::Output,
};

/// How long the proxy may take to close what a run has open.
const CLOSING: Duration = Duration::from_secs(30);

/// The most files taken from `/output`.
const MAX_FILES: u64 = 10_000;

impl<B: Backend> Execution<'_, B> {
    /// Fills the record, and takes the run from the proxy and the files from the sandbox.
    pub(super) async fn finish(
        &mut self,
        watched: Watched,
        ready: Ready,
    ) -> Result<(), LaunchError> {
        let (stdout, stderr) = (watched.kept.stdout.finish(), watched.kept.stderr.finish());
        self.record.duration_ms = milliseconds(watched.duration);
        self.record.timed_out = watched.end == End::Timeout;
        self.take_output(&stdout, &stderr);
        // The engine is gone, or the sandbox does not die: what is left is to cut its network.
        let ended = match watched.ended {
            Ok(ended) => ended,
            Err(error) => {
                self.deregister().await;
                return Err(error.into());
            }
        };
        let timed_out = self.record.timed_out;
        self.record.oom_killed = ended.oom_killed;
        self.record.exit_code = explain::exit_code(&ended, timed_out);
        self.record.signal = explain::signal(&ended, watched.end != End::Itself);
        let seen = explain::Seen {
            timed_out,
            pids: watched.pids,
            stdout_truncated: stdout.truncated,
            stderr_truncated: stderr.truncated,
            stdout_bytes: stdout.bytes,
            stderr: &stderr.text,
            ended,
        };
        let program = self.spec.command.first().map_or("", String::as_str);
        self.record.error.clone_from(&seen.ended.error);
        if let Some((code, why)) = explain::not_executed(&seen, program, self.backend.engine().kind)
        {
            self.record.exit_code = code;
            self.record.error = Some(why);
        }
        self.record.limits = explain::limits(self.spec, &seen);
        let collected = self.collect(ready.target).await;
        self.deregister().await;
        collected?;
        match watched.end {
            End::Signal(signal) => Err(LaunchError::Interrupted(signal)),
            End::Itself | End::Timeout => Ok(()),
        }
    }

    fn take_output(&mut self, stdout: &Captured, stderr: &Captured) {
        let record = &mut self.record;
        record.stdout_bytes = stdout.bytes;
        record.stderr_bytes = stderr.bytes;
        record.stdout_truncated = stdout.truncated;
        record.stderr_truncated = stderr.truncated;
        record.output = Some(Output {
            stdout: stdout.text.clone(),
            stderr: stderr.text.clone(),
            stdout_base64: stdout.base64.clone(),
            stderr_base64: stderr.base64.clone(),
        });
    }

    async fn collect(&mut self, target: Option<Target>) -> Result<(), LaunchError> {
        let volume = self
            .plan
            .as_ref()
            .and_then(|plan| plan.volume_at("/output"));
        let (Some(target), Some(plan), Some(volume)) = (target, &self.plan, volume) else {
            return Ok(());
        };
        let caps = Caps {
            bytes: self.spec.limits.output,
            files: MAX_FILES,
        };
        let collected = target
            .collect(self.backend.collect(plan, volume), caps)
            .await;
        let (collected, outcome) = match collected {
            Ok(collected) => (collected, Ok(())),
            // What was whole lies in the folder, so the record names it.
            Err(OutputError::BrokeOff { why, kept }) => {
                let record = kept.clone();
                (record, Err(OutputError::BrokeOff { why, kept }.into()))
            }
            Err(error) => (Collected::default(), Err(error.into())),
        };
        self.record.outputs = collected.outputs;
        self.record.outputs_skipped = collected.skipped;
        self.clock.mark("collected");
        outcome
    }

    /// Takes the run from the proxy, for which its summary is given.
    pub(super) async fn deregister(&mut self) {
        if !std::mem::take(&mut self.registered) {
            return;
        }
        let summary = match self.registered_run() {
            Some(run) => run.delete(CLOSING).await,
            None => return,
        };
        match summary {
            Ok(Some(network)) => self.record.network = Some(network),
            Ok(None) => {
                self.record.network = None;
                self.record
                    .warnings
                    .push("the proxy lost the run, so its network summary is missing".to_owned());
            }
            Err(error) => {
                self.record.network = None;
                self.record.warnings.push(error.to_string());
            }
        }
        self.clock.mark("deregistered");
    }

    /// Removes everything that was made, and what of it the proxy knows.
    pub(super) async fn remove(&mut self) {
        if let Some(plan) = self.plan.take() {
            if let Err(error) = self.backend.remove(&plan, self.proxy.as_ref()).await {
                self.record
                    .warnings
                    .push(format!("{error}; the next run removes it"));
            }
            self.plan = Some(plan);
        }
        // Only now: until its sandbox is gone, an address must not become anybody else's.
        self.deregister().await;
        self.plan = None;
    }
}
