//! `eclusa health`: asks a running proxy whether it is healthy, for images without a shell.

use std::{io::Write, path::PathBuf, process::ExitCode};

/// `eclusa health`
#[derive(Debug, clap::Args)]
pub(crate) struct HealthArgs {
    /// The admin socket of the proxy.
    #[arg(long, value_name = "PATH", default_value = super::admin::DEFAULT_SOCKET)]
    pub(crate) admin: PathBuf,
}

/// Asks once.
pub(crate) fn run(_args: &HealthArgs, _out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    todo!()
}
