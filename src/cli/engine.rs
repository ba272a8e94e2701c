//! Which engine a command means, and the proxy that belongs to it.

use std::path::PathBuf;

use super::{Environment, config_file::Loaded};
use crate::launcher::backend::{BackendError, docker::Docker};

/// The options of every command that uses an engine.
#[derive(Debug, clap::Args)]
pub(crate) struct EngineArgs {
    /// The engine, unix:///PATH or tcp://ADDRESS:PORT. Default: $DOCKER_HOST, else Docker's
    /// socket, else Podman's.
    #[arg(long, value_name = "URL")]
    pub(crate) host: Option<String>,
    /// The admin socket of the proxy. Default: its container's.
    #[arg(long, value_name = "PATH")]
    pub(crate) admin: Option<PathBuf>,
}

/// Connects to it.
pub(crate) async fn connect(
    args: &EngineArgs,
    environment: &Environment,
    _config: Option<&Loaded>,
) -> Result<Docker, BackendError> {
    let host = args.host.as_deref().or(environment.docker_host.as_deref());
    Docker::connect(host, environment.runtime_dir.as_deref()).await
}
