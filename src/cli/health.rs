//! `eclusa health`: asks a running proxy whether it is healthy, for images without a shell.

use std::{io::Write, path::PathBuf, process::ExitCode};

use hyper::Method;

use super::{CliError, admin};

/// `eclusa health`
#[derive(Debug, clap::Args)]
pub(crate) struct HealthArgs {
    /// The admin socket of the proxy.
    #[arg(long, value_name = "PATH", default_value = admin::DEFAULT_SOCKET)]
    pub(crate) admin: PathBuf,

    /// Print the whole report as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Asks once: success when the proxy says that it is healthy.
pub(crate) fn run(args: &HealthArgs, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    let (status, body) = admin::call(&args.admin, Method::GET, "/healthz", String::new())
        .map_err(|error| CliError::Failed(error.to_string()))?;
    if args.json {
        writeln!(out, "{}", String::from_utf8_lossy(&body))?;
    } else {
        let report: serde_json::Value = serde_json::from_slice(&body)?;
        let status = report.get("status").and_then(serde_json::Value::as_str);
        writeln!(out, "{}", status.unwrap_or("no status"))?;
    }
    Ok(admin::exit_code(status))
}
