//! What the command writes, shown while it comes.

use std::{fs::File, io, os::fd::AsFd, pin::Pin};

use tokio::{io::AsyncRead, sync::mpsc, time::Instant};

use super::RunArgs;
use crate::{
    cli::Environment,
    launcher::{
        Io, Stop,
        backend::Chunk,
        capture::{Passthrough, Rendering, StreamName},
    },
    record::RunRecord,
};

/// Both streams on their way to ours; with `--json` there is nothing to show.
pub(super) struct Show {
    live: Option<mpsc::UnboundedReceiver<Chunk>>,
    is_silent: bool,
    stdout: Passthrough<tokio::fs::File>,
    stderr: Passthrough<tokio::fs::File>,
}

impl Show {
    /// What the run is connected to, and who shows its output.
    pub(super) fn prepare(
        args: &RunArgs,
        environment: &Environment,
        limit: usize,
    ) -> io::Result<(Io, Self)> {
        let (send, receive) = mpsc::unbounded_channel();
        let mut stdin: Option<Pin<Box<dyn AsyncRead + Send>>> = None;
        if args.stdin {
            stdin = Some(Box::pin(duplicate(&io::stdin())?));
        }
        let rendering = |is_terminal| {
            if is_terminal {
                Rendering::Terminal
            } else {
                Rendering::Raw
            }
        };
        let show = Self {
            live: (!args.json).then_some(receive),
            is_silent: args.json,
            stdout: Passthrough::new(
                duplicate(&io::stdout())?,
                StreamName::Stdout,
                rendering(environment.is_terminal_out),
                limit,
            ),
            stderr: Passthrough::new(
                duplicate(&io::stderr())?,
                StreamName::Stderr,
                rendering(environment.is_terminal_err),
                limit,
            ),
        };
        let io = Io {
            stdin,
            live: (!args.json).then_some(send),
            stop: Stop::channel().1,
            began: Instant::now(),
        };
        Ok((io, show))
    }

    /// Shows what comes until the command has ended.
    pub(super) async fn follow(mut self) -> Self {
        let Some(mut live) = self.live.take() else {
            return self;
        };
        while let Some(chunk) = live.recv().await {
            let shown = match &chunk {
                Chunk::Stdout(bytes) => self.stdout.push(bytes).await,
                Chunk::Stderr(bytes) => self.stderr.push(bytes).await,
            };
            // A reader that went away, as `head` does, does not end the run.
            if let Err(error) = shown {
                tracing::debug!(%error, "output is not shown any more");
            }
        }
        self
    }

    /// Says where a stream was cut.
    pub(super) async fn finish(self, record: &RunRecord) {
        if self.is_silent {
            return;
        }
        for finished in [
            self.stdout.finish(record.stdout_bytes).await,
            self.stderr.finish(record.stderr_bytes).await,
        ] {
            if let Err(error) = finished {
                tracing::debug!(%error, "output is not shown any more");
            }
        }
    }
}

/// A stream of ours of which the original stays open.
fn duplicate(stream: &impl AsFd) -> io::Result<tokio::fs::File> {
    let file: File = rustix::io::dup(stream)?.into();
    Ok(tokio::fs::File::from_std(file))
}
