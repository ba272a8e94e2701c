//! The order of lines: what waits is written before anything new, so that a log that could not be
//! written for a while has every close, in the order of the times, and says what it missed.

use std::{collections::VecDeque, io, sync::Arc};

use jiff::Timestamp;

use super::{
    AuditError, Head, Metrics,
    ids::Ids,
    writer::{Unwritten, Writer},
};
use crate::record::encode;

/// The most closes that wait for the next line.
const MOST_HELD: usize = 64;

/// The writer, and what waits for it.
#[derive(Debug)]
pub(super) struct Journal {
    writer: Writer,
    ids: Arc<Ids>,
    metrics: Arc<Metrics>,
    /// Encoded and stamped lines that must not be lost: closes, for which `open` has reserved
    /// room, and the counts of one flush. They leave before or with the next line.
    waiting: VecDeque<Vec<u8>>,
    /// Whether somebody calls `flush` soon after a close was held.
    holds: bool,
    open: usize,
    gap: Option<Gap>,
}

/// The time since which the log cannot be written.
#[derive(Clone, Copy, Debug)]
struct Gap {
    since: Timestamp,
    /// Events without a record; what they were about was refused.
    missed: u64,
}

impl Journal {
    pub(super) fn new(writer: Writer, ids: Arc<Ids>, metrics: Arc<Metrics>) -> Self {
        Self {
            writer,
            ids,
            metrics,
            waiting: VecDeque::new(),
            holds: false,
            open: 0,
            gap: None,
        }
    }

    /// Whether the last try failed; then something waits, or a gap is to be recorded.
    pub(super) fn is_failing(&self) -> bool {
        self.gap.is_some()
    }

    /// Whether closes may wait for the next line or `flush`; never on a stream, where several lines
    /// at once may be more than a pipe takes whole.
    pub(super) fn hold(&mut self, holds: bool) {
        self.holds = holds && self.writer.is_file();
    }

    /// Where the chain stands: the link of the last line that is written.
    pub(super) fn head(&mut self) -> Head {
        self.flush();
        Head {
            head: self.writer.head(),
            file: self.writer.files().next(),
        }
    }

    /// Writes one line, after all that waits.
    pub(super) fn append(&mut self, line: &mut [u8]) -> Result<(), AuditError> {
        self.require()?;
        let now = Timestamp::now();
        encode::stamp(line, now);
        self.write(now, Some(line)).map_err(|source| {
            self.missed();
            self.error(source)
        })
    }

    /// Fails where the log cannot be written, on behalf of an event that goes unrecorded for it.
    pub(super) fn require(&mut self) -> Result<(), AuditError> {
        self.recover().inspect_err(|_| self.missed())
    }

    /// Writes the opening line of an exchange, and reserves room for its close.
    pub(super) fn append_open(&mut self, line: &mut [u8]) -> Result<(), AuditError> {
        self.waiting.reserve(self.open + 1);
        self.append(line)?;
        self.open += 1;
        Ok(())
    }

    /// Writes the closing line of an exchange, at once where the log can be written.
    pub(super) fn append_close(&mut self, line: Vec<u8>) {
        self.open = self.open.saturating_sub(1);
        self.append_surely(line);
    }

    /// Lets the closing line of an exchange wait, where it may. Gives whether it is the first that
    /// waits for `flush`.
    pub(super) fn hold_close(&mut self, mut line: Vec<u8>) -> bool {
        if !self.holds || self.is_failing() || self.waiting.len() >= MOST_HELD {
            self.append_close(line);
            return false;
        }
        self.open = self.open.saturating_sub(1);
        encode::stamp(&mut line, Timestamp::now());
        self.waiting.push_back(line);
        self.waiting.len() == 1
    }

    /// Writes a line that nobody can refuse, now or later.
    pub(super) fn append_surely(&mut self, mut line: Vec<u8>) {
        encode::stamp(&mut line, Timestamp::now());
        let writable = self.recover().is_ok();
        self.waiting.push_back(line);
        if writable {
            self.flush();
        } else {
            self.metrics.waiting(self.waiting.len());
        }
    }

    /// Writes what was held. Where the log cannot be written it waits on, for `recover`.
    pub(super) fn flush(&mut self) {
        if !self.is_failing() && !self.waiting.is_empty() {
            // That it failed is noted, and nobody's request depends on it.
            self.write(Timestamp::now(), None).unwrap_or_default();
        }
    }

    /// Writes what was held and then `line`, at once.
    fn write(&mut self, now: Timestamp, line: Option<&mut [u8]>) -> io::Result<()> {
        let held = self.waiting.iter_mut().map(Vec::as_mut_slice);
        match self.writer.write(held.chain(line)) {
            Ok(()) => {
                self.waiting.clear();
                Ok(())
            }
            Err(Unwritten { whole, source }) => {
                self.waiting.drain(..whole.min(self.waiting.len()));
                self.metrics.waiting(self.waiting.len());
                self.fail(now, &source);
                Err(source)
            }
        }
    }

    /// Sees to it that the file is still there, and writes what waits.
    pub(super) fn check(&mut self) -> Result<(), AuditError> {
        if !self.is_failing()
            && let Err(error) = self.writer.verify()
        {
            self.fail(Timestamp::now(), &error);
        }
        self.flush();
        self.recover()
    }

    /// Writes what waits, if anything does, and last that there was a gap. A log that fails is
    /// proven whole again by these lines, and so without new traffic.
    fn recover(&mut self) -> Result<(), AuditError> {
        let Some(gap) = self.gap else { return Ok(()) };
        self.write_waiting(gap).map_err(|source| {
            self.metrics.write_failed();
            match self.waiting.len() {
                0 => self.error(source),
                waiting => AuditError::Backlog(waiting),
            }
        })?;
        self.gap = None;
        self.metrics.writable(true);
        tracing::info!(
            log = self.writer.name(),
            missed = gap.missed,
            "audit log can be written again"
        );
        Ok(())
    }

    fn write_waiting(&mut self, gap: Gap) -> io::Result<()> {
        self.writer.verify()?;
        while let Some(line) = self.waiting.front_mut() {
            let line = [line.as_mut_slice()];
            self.writer.write(line).map_err(|error| error.source)?;
            self.waiting.pop_front();
            self.metrics.waiting(self.waiting.len());
        }
        let mut line = encode::gap(self.ids.next(), gap.since, gap.missed);
        encode::stamp(&mut line, Timestamp::now());
        let line = [line.as_mut_slice()];
        self.writer.write(line).map_err(|error| error.source)
    }

    fn fail(&mut self, now: Timestamp, error: &io::Error) {
        self.metrics.write_failed();
        self.metrics.writable(false);
        tracing::error!(
            log = self.writer.name(),
            %error,
            "audit log cannot be written: traffic is refused"
        );
        self.gap.get_or_insert(Gap {
            since: now,
            missed: 0,
        });
    }

    fn missed(&mut self) {
        if let Some(gap) = &mut self.gap {
            gap.missed += 1;
        }
    }

    fn error(&self, source: io::Error) -> AuditError {
        AuditError::Io {
            path: self.writer.name().to_owned(),
            source,
        }
    }
}

#[cfg(test)]
impl Journal {
    /// Puts another writer in the place of this one, so that writes fail or succeed again.
    pub(super) fn swap(&mut self, writer: Writer) -> Writer {
        std::mem::replace(&mut self.writer, writer)
    }
}
