//! `eclusa admin`: one call of the admin socket.

use std::{io::Write, path::PathBuf, process::ExitCode};

/// Where the admin socket is by default (`listen.admin`).
pub(crate) const DEFAULT_SOCKET: &str = "/run/eclusa/admin.sock";

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
}

/// Makes the call and prints the answer's body.
pub(crate) fn run(_args: &AdminArgs, _out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    todo!()
}
