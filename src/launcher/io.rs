//! What a run is connected to: the caller's streams and its wish to stop.

use std::{fmt, pin::Pin};

use tokio::{
    io::AsyncRead,
    sync::{mpsc, watch},
    time::Instant,
};

use super::backend::Chunk;

/// What a run is connected to while it lives.
pub struct Io {
    /// What the command reads, where its plan has a standard input.
    pub stdin: Option<Pin<Box<dyn AsyncRead + Send>>>,
    /// Where output goes as it comes, up to the limit of what is kept; so its size is bounded.
    pub live: Option<mpsc::UnboundedSender<Chunk>>,
    /// When to give up.
    pub stop: Stop,
    /// When the caller began, from which timings count.
    pub began: Instant,
}

/// A signal that ends the launcher, whenever it comes.
#[derive(Clone, Debug)]
pub struct Stop(watch::Receiver<Option<u8>>);

impl Io {
    /// No input, no live output, no stop; begun now.
    pub fn none() -> Self {
        Self {
            stdin: None,
            live: None,
            stop: Stop::channel().1,
            began: Instant::now(),
        }
    }
}

impl fmt::Debug for Io {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Io").finish_non_exhaustive()
    }
}

impl Stop {
    /// A sender of the signal's number, and what listens to it.
    pub fn channel() -> (watch::Sender<Option<u8>>, Self) {
        let (send, receive) = watch::channel(None);
        (send, Self(receive))
    }

    /// The signal, where it has come.
    pub(super) fn received(&self) -> Option<u8> {
        *self.0.borrow()
    }

    /// Waits for the signal; for ever where none can come.
    pub(super) async fn wait(&mut self) -> u8 {
        match self.0.wait_for(Option::is_some).await.map(|signal| *signal) {
            Ok(Some(signal)) => signal,
            Ok(None) | Err(_) => std::future::pending().await,
        }
    }
}
