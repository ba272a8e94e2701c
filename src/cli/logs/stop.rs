//! The wish to stop following.

use std::{io, time::Duration};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tokio::{runtime::Runtime, sync::watch};

use crate::{cli::signals::Signals, drain::Tasks};

/// SIGINT, SIGTERM or SIGHUP, from its making on.
pub(super) struct Stop {
    runtime: Runtime,
    asked: watch::Receiver<bool>,
}

impl Stop {
    /// Catches the signals on a thread of its own.
    pub(super) fn catch() -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()?;
        let (ask, asked) = watch::channel(false);
        let inside = runtime.enter();
        let mut signals = Signals::catch()?;
        Tasks::new().spawn(async move {
            signals.next().await;
            // Nobody waits any more where following has ended.
            ask.send(true).ok();
        });
        drop(inside);
        Ok(Self { runtime, asked })
    }

    /// Whether it was asked for.
    pub(super) fn is_asked(&self) -> bool {
        *self.asked.borrow()
    }

    /// Waits until it is asked for, for `time` at most.
    pub(super) fn wait(&mut self, time: Duration) {
        let asked = self.asked.changed();
        // Whether it came or the time is over, the caller looks.
        self.runtime
            .block_on(async { tokio::time::timeout(time, asked).await.ok() });
    }
}

/// Whether the reader of our standard output has gone away.
pub(super) fn is_output_closed() -> bool {
    let stdout = io::stdout();
    let mut watched = [PollFd::new(&stdout, PollFlags::empty())];
    let now = Timespec::default();
    let found = poll(&mut watched, Some(&now));
    let [watched] = watched;
    found.is_ok_and(|found| found > 0) && watched.revents().contains(PollFlags::ERR)
}
