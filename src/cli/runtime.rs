//! Where a command that waits for something waits.

/// Waits on a runtime of its own. What it left running on other threads is not waited for: a read
/// of standard input that is under way cannot be called back.
pub(super) fn block_on<T>(future: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let outcome = runtime.block_on(future);
    runtime.shutdown_background();
    outcome
}
