//! Which engine a command means, and the proxy that belongs to it.

use std::{
    error::Error,
    fs::File,
    io::{self, Read},
    path::{Path, PathBuf},
};

use super::{CliError, Environment, config_file::Loaded};
use crate::launcher::{
    backend::docker::Docker,
    proxy::{ProxyOptions, ProxySettings},
};

/// The binary that runs, which our image is made of.
pub(super) const OWN_BINARY: &str = "/proc/self/exe";

/// The longest file of `resolver.ca`, in bytes: several times the roots of a whole browser.
const MOST_AUTHORITIES: u64 = 8 * 1024 * 1024;

/// The options of every command that uses an engine.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct EngineArgs {
    /// The engine, unix:///PATH or tcp://ADDRESS:PORT. Default: $DOCKER_HOST, else Docker's
    /// socket, else Podman's.
    #[arg(long, value_name = "URL")]
    pub(crate) host: Option<String>,
    /// The admin socket of the proxy. Default: its container's.
    #[arg(long, value_name = "PATH")]
    pub(crate) admin: Option<PathBuf>,
}

/// Connects to it, with what its proxy is to be.
pub(crate) async fn connect(
    args: &EngineArgs,
    environment: &Environment,
    config: Option<&Loaded>,
) -> anyhow::Result<Docker> {
    let settings = config.map(proxy_settings).transpose()?;
    let host = args.host.as_deref().or(environment.docker_host.as_deref());
    let docker = Docker::connect(host, environment.runtime_dir.as_deref()).await?;
    Ok(docker.with_proxy(ProxyOptions {
        binary: Some(PathBuf::from(OWN_BINARY)),
        settings,
        admin: args.admin.clone(),
    }))
}

/// The configuration as the proxy's container needs it.
fn proxy_settings(loaded: &Loaded) -> Result<ProxySettings, CliError> {
    let read = |path: &Path| {
        let mut content = Vec::new();
        let file = File::open(path)?;
        file.take(MOST_AUTHORITIES + 1).read_to_end(&mut content)?;
        if u64::try_from(content.len()).is_ok_and(|length| length > MOST_AUTHORITIES) {
            return Err(io::Error::other("it is larger than 8 MiB"));
        }
        Ok(content)
    };
    ProxySettings::of(&loaded.text, read).map_err(|error| {
        let cause = error.source().map(|cause| format!(": {cause}"));
        let cause = cause.unwrap_or_default();
        CliError::Usage(format!("{}: {error}{cause}", loaded.path.display()))
    })
}
