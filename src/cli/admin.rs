//! `eclusa admin`: one call of the admin socket.

use std::{
    io::Write,
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};

use hyper::{Method, StatusCode};

use super::{CliError, Exit, runtime::block_on};
use crate::admin::client;

/// Where the admin socket is by default (`listen.admin`).
pub(crate) const DEFAULT_SOCKET: &str = "/run/eclusa/admin.sock";

/// The longest a call may take: a removal waits for the closing records of its run.
const TIMEOUT: Duration = Duration::from_mins(1);

/// `eclusa admin`
#[derive(Debug, clap::Args)]
pub(crate) struct AdminArgs {
    /// The method, for example GET.
    pub(crate) method: String,
    /// The path, for example /v1/runs.
    pub(crate) path: String,
    /// The body, JSON.
    pub(crate) body: Option<String>,
    /// The admin socket of the proxy.
    #[arg(long, value_name = "PATH", default_value = DEFAULT_SOCKET)]
    pub(crate) admin: PathBuf,
    /// Print the status code on a line before the body, and exit 0 whatever it is.
    #[arg(long)]
    pub(crate) status: bool,
}

/// Makes the call and prints the answer's body.
pub(crate) fn run(args: &AdminArgs, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    let method = Method::from_bytes(args.method.to_ascii_uppercase().as_bytes())
        .map_err(|error| CliError::Usage(format!("{:?}: {error}", args.method)))?;
    if !args.path.starts_with('/') {
        return Err(CliError::Usage(format!("{:?} does not begin with /", args.path)).into());
    }
    let body = args.body.clone().unwrap_or_default();
    let (status, body) = call(&args.admin, method, &args.path, body)
        .map_err(|error| CliError::Failed(error.to_string()))?;
    if args.status {
        writeln!(out, "{}", status.as_u16())?;
    }
    out.write_all(&body)?;
    if !body.ends_with(b"\n") {
        writeln!(out)?;
    }
    if args.status {
        return Ok(ExitCode::SUCCESS);
    }
    Ok(exit_code(status))
}

/// One call on a runtime of its own.
pub(super) fn call(
    socket: &Path,
    method: Method,
    path: &str,
    body: String,
) -> anyhow::Result<(StatusCode, bytes::Bytes)> {
    block_on(async {
        tokio::time::timeout(TIMEOUT, client::call(socket, method, path, body))
            .await
            .map_err(|_| anyhow::anyhow!("the proxy did not answer within {TIMEOUT:?}"))?
            .map_err(anyhow::Error::from)
    })
}

/// 0 for a success, else 1.
pub(super) fn exit_code(status: StatusCode) -> ExitCode {
    if status.is_success() {
        ExitCode::SUCCESS
    } else {
        Exit::Denied.into()
    }
}
