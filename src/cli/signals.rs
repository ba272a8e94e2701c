//! The signals that steer a command.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::{drain::Tasks, launcher::Stop};

/// SIGHUP, SIGINT and SIGTERM, caught from its making on.
pub(super) struct Signals {
    hangup: Signal,
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    /// Catches them; inside a runtime.
    pub(super) fn catch() -> io::Result<Self> {
        Ok(Self {
            hangup: signal(SignalKind::hangup())?,
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    /// The next one.
    pub(super) async fn next(&mut self) -> SignalKind {
        tokio::select! {
            _ = self.hangup.recv() => SignalKind::hangup(),
            _ = self.interrupt.recv() => SignalKind::interrupt(),
            _ = self.terminate.recv() => SignalKind::terminate(),
        }
    }

    /// The first one, as a wish to stop.
    pub(super) fn into_stop(mut self) -> Stop {
        let (send, stop) = Stop::channel();
        let wait = async move {
            let number = self.next().await.as_raw_value();
            // Nobody listens any more where the run has ended.
            send.send(u8::try_from(number).ok()).ok();
        };
        Tasks::new().spawn(wait);
        stop
    }
}
