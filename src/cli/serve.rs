//! `eclusa serve`: the proxy and the DNS server, until signalled.

use std::{io::Write, path::PathBuf, process::ExitCode};

use super::{Environment, config_file};

/// `eclusa serve`
#[derive(Debug, clap::Args)]
pub(crate) struct ServeArgs {
    /// The configuration. Default: $ECLUSA_CONFIG, else /etc/eclusa/eclusa.toml.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
}

/// Runs until SIGTERM or SIGINT.
pub(crate) fn run(
    args: &ServeArgs,
    environment: &Environment,
    _out: &mut dyn Write,
) -> anyhow::Result<ExitCode> {
    let path = config_file::locate(args.config.as_deref(), environment);
    let _config = config_file::load(&path)?;
    todo!()
}
