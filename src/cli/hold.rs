//! `eclusa hold`: does nothing until it is told to stop. It is what the launcher's holder container
//! runs, for as long as whose volumes are wanted: a volume in memory lives while a container that
//! mounts it runs.

use std::process::ExitCode;

use tokio::signal::unix::{SignalKind, signal};

/// Waits for SIGTERM or SIGINT. As process 1 it must catch them: the kernel lets nothing else end
/// a namespace's first process from within.
pub(crate) fn run() -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .build()?;
    runtime.block_on(async {
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        Ok(ExitCode::SUCCESS)
    })
}
