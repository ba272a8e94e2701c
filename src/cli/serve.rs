//! `eclusa serve`: the proxy and the DNS server, until signalled.

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
};

use tokio::{signal::unix::SignalKind, sync::mpsc};

use super::{CliError, Environment, config_file, signals::Signals};
use crate::{
    app::{App, BindError, Signal},
    config::Config,
    resolver::HickoryLookup,
};

/// `eclusa serve`
#[derive(Debug, clap::Args)]
pub(crate) struct ServeArgs {
    /// The configuration. Default: $ECLUSA_CONFIG, else /etc/eclusa/eclusa.toml.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
}

/// Runs until SIGTERM or SIGINT.
pub(crate) fn run(args: &ServeArgs, environment: &Environment) -> anyhow::Result<ExitCode> {
    let path = config_file::locate(args.config.as_deref(), environment);
    let config = config_file::load(&path)?;
    // Client connections have threads of their own. A second one here, so that neither a flood of
    // DNS queries nor a reload keeps the admin socket waiting.
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    runtime.block_on(serve(config, path))?;
    Ok(ExitCode::SUCCESS)
}

async fn serve(config: Config, path: PathBuf) -> anyhow::Result<()> {
    // Signals are caught before anything is bound, so that none ends us half-way.
    let signals = Signals::catch()?;
    for warning in &config.warnings {
        tracing::warn!(%warning, "configuration");
    }
    let lookup = HickoryLookup::new(&config.resolver)?;
    let app = App::bind(config, Box::new(move || load(&path)), Arc::new(lookup))
        .await
        .map_err(exit_status)?;
    for (listener, address) in app.bound().all() {
        tracing::info!(listener, %address, "listening");
    }
    tracing::info!(version = env!("CARGO_PKG_VERSION"), "ready");
    let (send, receive) = mpsc::channel(1);
    let forward = forward(signals, send);
    tokio::pin!(forward);
    let run = app.run(receive);
    tokio::pin!(run);
    tokio::select! {
        () = &mut run => {}
        () = &mut forward => run.await,
    }
    Ok(())
}

fn load(path: &Path) -> Result<Config, Box<dyn std::error::Error + Send + Sync>> {
    Ok(config_file::load(path)?)
}

/// A configuration that cannot work here is a mistake in it; everything else is a failure to run.
fn exit_status(error: BindError) -> anyhow::Error {
    match error {
        BindError::NothingToServe | BindError::Descriptors(_) => {
            CliError::Usage(error.to_string()).into()
        }
        BindError::Workers(_)
        | BindError::Listener { .. }
        | BindError::Admin(_)
        | BindError::Audit(_) => error.into(),
    }
}

/// Passes signals on for as long as somebody listens.
async fn forward(mut signals: Signals, to: mpsc::Sender<Signal>) {
    loop {
        let signal = match signals.next().await {
            kind if kind == SignalKind::hangup() => Signal::Reload,
            _ => Signal::Stop,
        };
        if to.send(signal).await.is_err() {
            return;
        }
    }
}
