//! The streams of a running command: kept, counted, passed on.

use std::pin::Pin;

use futures_util::{Stream, StreamExt};
use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt},
    sync::mpsc,
};

use crate::launcher::{
    backend::{BackendError, Chunk},
    capture::Capture,
};

/// What is kept of a run's output.
pub(super) struct Kept {
    pub(super) stdout: Capture,
    pub(super) stderr: Capture,
    live: Option<mpsc::UnboundedSender<Chunk>>,
}

impl Kept {
    pub(super) fn new(limit: usize, live: Option<mpsc::UnboundedSender<Chunk>>) -> Self {
        Self {
            stdout: Capture::new(limit),
            stderr: Capture::new(limit),
            live,
        }
    }

    fn push(&mut self, chunk: Chunk) {
        let (capture, bytes) = match &chunk {
            Chunk::Stdout(bytes) => (&mut self.stdout, bytes),
            Chunk::Stderr(bytes) => (&mut self.stderr, bytes),
        };
        // What is beyond the limit is not shown either, so that what waits for a slow reader is
        // bounded, and the command never waits for it.
        let is_shown = !capture.is_truncated();
        capture.push(bytes);
        if is_shown
            && self
                .live
                .as_ref()
                .is_some_and(|live| live.send(chunk).is_err())
        {
            self.live = None;
        }
    }
}

/// Takes everything that a command writes.
pub(super) async fn drain(
    mut output: Pin<Box<dyn Stream<Item = Result<Chunk, BackendError>> + Send>>,
    kept: &mut Kept,
) -> Result<(), BackendError> {
    while let Some(chunk) = output.next().await {
        kept.push(chunk?);
    }
    Ok(())
}

/// Gives a command its standard input, and the end of it. That the command does not read it to the
/// end is its own affair.
pub(super) async fn feed(
    from: Option<Pin<Box<dyn AsyncRead + Send>>>,
    to: Option<Pin<Box<dyn AsyncWrite + Send>>>,
) {
    let Some(mut to) = to else { return };
    let fed = async {
        if let Some(mut from) = from {
            tokio::io::copy(&mut from, &mut to).await?;
        }
        to.shutdown().await
    };
    if let Err(error) = fed.await {
        tracing::debug!(%error, "standard input was not taken to its end");
    }
}
