//! One execution of hostile code: `RunSpec`, what was asked, becomes a `Plan`, which says
//! everything about the sandbox, and a `Backend` applies it or fails. Every limit is chosen in
//! pure code; what an engine did not apply is an error, never a weaker sandbox.
//!
//! ```no_run
//! use eclusa::launcher::{self, spec::RunSpec};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let mut spec = RunSpec::new("agent-python", ["python3", "-c", "print(6 * 7)"]);
//! spec.timeout = std::time::Duration::from_secs(5);
//! let record = launcher::run(&spec).await?;
//! assert_eq!(record.exit_code, 0);
//! assert_eq!(record.output.unwrap_or_default().stdout, "42\n");
//! # Ok(())
//! # }
//! ```

pub mod backend;
pub mod capture;
pub mod input;
pub mod output;
pub mod plan;
pub mod pool;
pub mod proxy;
pub mod spec;

mod execution;
mod explain;
mod io;
mod ledger;
mod registration;
mod settings;
mod slices;
mod state;
mod sweep;

use std::time::Duration;

use jiff::Timestamp;

use self::{
    backend::{Backend, BackendError, docker::Docker},
    execution::Execution,
    ledger::Ledger,
    plan::{Labels, PlanError},
    proxy::ProxyOptions,
    spec::RunSpec,
};
pub use self::{
    execution::runtime_escapes,
    input::InputError,
    io::{Io, Stop},
    ledger::LedgerError,
    output::OutputError,
    registration::RegistrationError,
    settings::Settings,
};
use crate::{
    config::{self, RUN_TIMES},
    record::RunRecord,
};

/// How long a run may take besides its own time before a sweep takes it for an orphan: images are
/// pulled and files copied meanwhile.
const SETUP_ALLOWANCE: Duration = Duration::from_mins(30);

/// Runs one execution on the default engine, with the built-in configuration and the record file
/// of the calling user. Where the run needs a proxy or `/output`, the first `eclusa` of `PATH` is
/// what their containers are made of: the statically linked one of `make release`.
///
/// # Errors
/// The engine cannot be reached, or the run cannot be recorded. What goes wrong later is the
/// record's `error`.
pub async fn run(spec: &RunSpec) -> Result<RunRecord, LaunchError> {
    let config = config::Launcher::default();
    let settings =
        Settings::of_this_process(config.pool, config.record).map_err(LaunchError::State)?;
    let (host, runtime_dir) = settings::engine_of_environment();
    let docker = Docker::connect(host.as_deref(), runtime_dir.as_deref()).await?;
    let backend = docker.with_proxy(ProxyOptions {
        binary: settings::installed_binary(),
        ..ProxyOptions::default()
    });
    Launcher::new(backend, settings).run(spec, Io::none()).await
}

/// Runs executions on one engine.
#[derive(Debug)]
pub struct Launcher<B> {
    backend: B,
    settings: Settings,
}

impl<B: Backend> Launcher<B> {
    /// A launcher for `backend`.
    pub fn new(backend: B, settings: Settings) -> Self {
        Self { backend, settings }
    }

    /// Runs one execution, and removes what launchers that were killed have left behind.
    ///
    /// # Errors
    /// The run cannot be recorded; then nothing was started, or its record could not be written in
    /// the end. Everything else is the record's `error`.
    pub async fn run(&self, spec: &RunSpec, io: Io) -> Result<RunRecord, LaunchError> {
        let now = Timestamp::now();
        let ledger = Ledger::open(&self.settings.record)?;
        let labels = self.labels(spec, now);
        let execution = Execution::new(&self.backend, &self.settings, spec, &labels);
        let (mut record, swept) = tokio::join!(
            Box::pin(execution.run(io)),
            Box::pin(sweep::sweep(&self.backend, &self.settings, now))
        );
        match swept {
            Ok(swept) => {
                record.warnings.extend(swept.failures);
                for orphan in &swept.runs {
                    ledger.append(&orphaned(orphan))?;
                }
            }
            // An engine that cannot be asked is the run's own error already.
            Err(error) => tracing::debug!(%error, "nothing could be swept"),
        }
        ledger.append(&record)?;
        Ok(record)
    }

    fn labels(&self, spec: &RunSpec, now: Timestamp) -> Labels {
        let allowed = spec.timeout.min(RUN_TIMES.end().to_owned()) + SETUP_ALLOWANCE;
        Labels {
            run: ulid::Ulid::generate().into(),
            slot: None,
            owner: self.settings.owner.clone(),
            process: self.settings.process,
            started: now,
            deadline: now.saturating_add(allowed).unwrap_or(Timestamp::MAX),
            image: spec.image.clone(),
        }
    }
}

/// The record of a run whose launcher was killed: it says that there was one.
fn orphaned(labels: &Labels) -> RunRecord {
    RunRecord {
        error: Some("the launcher was killed; a later one removed the sandbox".to_owned()),
        network: None,
        ..RunRecord::begun(
            &labels.run,
            labels.started.to_string(),
            labels.image.clone(),
            Vec::new(),
        )
    }
}

/// Why a run failed for a reason that is not the program's.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    /// What was asked for, no sandbox may have.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The engine did not do it.
    #[error(transparent)]
    Backend(#[from] BackendError),
    /// The input cannot be given.
    #[error(transparent)]
    Input(#[from] InputError),
    /// The engine is elsewhere, so that a path of this machine means nothing to it.
    #[error(
        "the engine is on another machine, where --input {0} is something else; use --input-copy"
    )]
    RemoteInput(std::path::PathBuf),
    /// The output cannot be taken.
    #[error(transparent)]
    Output(#[from] OutputError),
    /// The proxy did not take the run.
    #[error(transparent)]
    Registration(#[from] RegistrationError),
    /// No range of the pool is free.
    #[error(
        "no /29 of the pool {0} is free of networks and routes; remove old ones, or set another [launcher] pool"
    )]
    PoolExhausted(ipnet::Ipv4Net),
    /// The run cannot be recorded.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// The state folder cannot be used.
    #[error("failed to use the launcher's state folder")]
    State(#[source] std::io::Error),
    /// A signal ended the launcher.
    #[error("interrupted by signal {0}")]
    Interrupted(u8),
    /// A defect of ours.
    #[error("the launcher failed by a defect of its own; the sandbox was removed")]
    Panicked,
}

impl LaunchError {
    /// Whether somebody else has the range or the address, so that another may be had.
    fn is_contended(&self) -> bool {
        matches!(
            self,
            Self::Backend(BackendError::SubnetTaken(_))
                | Self::Registration(RegistrationError::Taken(_))
        )
    }

    /// What `eclusa run` exits with.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Backend(BackendError::CommandNotFound(_)) => 127,
            Self::Backend(BackendError::CommandNotExecutable(_)) => 126,
            // As a shell reports it.
            Self::Interrupted(signal) => signal.saturating_add(128),
            Self::Plan(_)
            | Self::Backend(_)
            | Self::Input(_)
            | Self::RemoteInput(_)
            | Self::Output(_)
            | Self::Registration(_)
            | Self::PoolExhausted(_)
            | Self::Ledger(_)
            | Self::State(_)
            | Self::Panicked => 125,
        }
    }
}

#[cfg(test)]
mod tests;
