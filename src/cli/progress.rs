//! How far a long scan has come, on a terminal.

use std::{
    fs::File,
    io::{self, Read},
    time::Duration,
};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use tokio::time::Instant;

use crate::review::source::Source;

/// A scan that is over by then needs no bar.
const PATIENCE: Duration = Duration::from_millis(500);

/// A bar that appears when a scan takes long; elsewhere than on a terminal, nothing.
#[derive(Clone)]
pub(in crate::cli) struct Progress {
    bar: ProgressBar,
    /// When the bar appears; none where it never does, or has.
    due: Option<Instant>,
}

impl Progress {
    /// The progress through `sources`.
    pub(in crate::cli) fn through(sources: &[Source], is_terminal: bool) -> Self {
        let sizes = sources.iter().map(Source::size);
        let total = sizes.fold(0, u64::saturating_add);
        let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::hidden());
        let template = "{bar:40} {percent:>3} %  {bytes_per_sec}, {eta} left";
        bar.set_style(
            ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar()),
        );
        Self {
            bar,
            due: is_terminal.then(|| Instant::now() + PATIENCE),
        }
    }

    /// `file`, whose reading moves the bar.
    pub(in crate::cli) fn watch(&self, file: File) -> Box<dyn Read> {
        Box::new(Watched {
            file,
            progress: self.clone(),
        })
    }

    /// Does what writes to the terminal, with the bar out of the way.
    pub(in crate::cli) fn aside<T>(&self, write: impl FnOnce() -> T) -> T {
        self.bar.suspend(write)
    }

    /// Removes the bar.
    pub(in crate::cli) fn end(&self) {
        self.bar.finish_and_clear();
    }

    fn advance(&mut self, read: usize) {
        self.bar.inc(u64::try_from(read).unwrap_or(u64::MAX));
        if self.due.is_some_and(|due| due <= Instant::now()) {
            self.due = None;
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
        }
    }
}

struct Watched {
    file: File,
    progress: Progress,
}

impl Read for Watched {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read(buffer)?;
        self.progress.advance(read);
        Ok(read)
    }
}
