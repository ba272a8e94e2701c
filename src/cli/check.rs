//! `eclusa check`: validates a configuration, or says what it decides, without network traffic.

use std::{io::Write, path::PathBuf, process::ExitCode};

use super::{Environment, config_file};

/// `eclusa check`
#[derive(Debug, clap::Args)]
pub(crate) struct CheckArgs {
    /// The configuration. Default: $ECLUSA_CONFIG, else /etc/eclusa/eclusa.toml.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// The profile that decides. Default: `default`, else the only one.
    #[arg(long, value_name = "NAME")]
    pub(crate) profile: Option<String>,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
    /// Print every rule that was considered.
    #[arg(long)]
    pub(crate) explain: bool,
    /// `https://host/path`, `http://host`, `host:port`, or `host` for its port 443.
    pub(crate) destinations: Vec<String>,
}

/// Checks the configuration, or the destinations named.
pub(crate) fn run(
    args: &CheckArgs,
    environment: &Environment,
    _out: &mut dyn Write,
) -> anyhow::Result<ExitCode> {
    let path = config_file::locate(args.config.as_deref(), environment);
    let _config = config_file::load(&path)?;
    todo!()
}
