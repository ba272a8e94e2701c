//! `eclusa hold`: does nothing until it is told to stop. It is what the launcher's holder container
//! runs, for as long as whose volumes are wanted: a volume in memory lives while a container that
//! mounts it runs.

use std::process::ExitCode;

use tokio::signal::unix::SignalKind;

use super::{runtime::block_on, signals::Signals};

/// Waits for SIGTERM or SIGINT. As process 1 it must catch them: the kernel lets nothing else end
/// a namespace's first process from within.
pub(crate) fn run() -> anyhow::Result<ExitCode> {
    block_on(async {
        let mut signals = Signals::catch()?;
        while signals.next().await == SignalKind::hangup() {}
        Ok(ExitCode::SUCCESS)
    })
}
