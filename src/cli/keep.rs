//! `eclusa keep`: replaces the slots that runs took from the pool, then ends. A run leaves one behind,
//! so that neither a run nor who waits for it waits for the next one's network.

use std::{
    io,
    path::PathBuf,
    process::{Command, ExitCode, Stdio},
};

use super::{Environment, config_file, engine, runtime::block_on};
use crate::launcher::{Settings, pool::Pool};

/// `eclusa keep`
#[derive(Debug, clap::Args)]
pub(crate) struct KeepArgs {
    /// As of `run`.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) engine: engine::EngineArgs,
}

/// Replaces them.
pub(crate) fn run(args: &KeepArgs, environment: &Environment) -> anyhow::Result<ExitCode> {
    // Away from the terminal of who started it, whose signals are not meant for it; that it leads a
    // session already is as good.
    if let Err(error) = rustix::process::setsid() {
        tracing::debug!(%error, "no session of its own");
    }
    let config = config_file::load_if_any(args.config.as_deref(), environment)?;
    let defaults = config_file::launcher(config.as_ref());
    let settings = Settings::of_this_process(defaults.pool, None)?;
    block_on(async {
        let engine = engine::connect(&args.engine, environment, config.as_ref()).await?;
        Pool::new(&engine, &settings).keep().await?;
        Ok(ExitCode::SUCCESS)
    })
}

/// Starts it beside us; it outlives us.
///
/// # Errors
/// It cannot be started.
pub(super) fn leave_behind(args: &KeepArgs) -> io::Result<()> {
    let mut keep = Command::new(engine::OWN_BINARY);
    keep.arg("keep");
    for (option, value) in [("--config", &args.config), ("--admin", &args.engine.admin)] {
        if let Some(value) = value {
            keep.arg(option).arg(value);
        }
    }
    if let Some(host) = &args.engine.host {
        keep.arg("--host").arg(host);
    }
    // It keeps none of our streams open, so that nobody waits for it who waits for us. Its folder is
    // ours: what the environment says of files may be relative.
    keep.stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let started = keep.spawn()?;
    tracing::debug!(process = started.id(), "the pool is kept");
    Ok(())
}
