//! The one way to the audit log. A record is written when write(2) has returned; an exchange that
//! was opened here is closed here, also on a cancelled or panicking task.

pub mod chain;
pub mod lines;
pub mod metrics;

mod exchange;
mod fold;
mod ids;
mod journal;
mod recovery;
mod writer;

use std::{
    fmt, io,
    path::PathBuf,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use serde::Serialize;
use tokio::{sync::Notify, time::Instant};
use tokio_util::sync::CancellationToken;

pub use self::{exchange::OpenExchange, metrics::Metrics};
use self::{
    fold::{Event, Fate, Fold, Folded},
    ids::Ids,
    journal::Journal,
    writer::Writer,
};
use crate::{
    config,
    record::{DecisionRecord, DnsRecord, Id, Line, Link, Notice, Outcome, Tally, encode},
};

/// How long a closing record waits for the next line.
const HELD: Duration = Duration::from_millis(2);

/// The log.
pub struct AuditLog {
    journal: Mutex<Journal>,
    /// As the journal was left, so that folding an event away takes no second lock.
    failing: AtomicBool,
    fold: Mutex<Fold>,
    /// Told when a closing record begins to wait.
    held: Notify,
    since: Instant,
    ids: Arc<Ids>,
    metrics: Arc<Metrics>,
}

/// Why a record cannot be written.
#[derive(Debug, thiserror::Error)]
pub enum AuditError {
    /// The file cannot be opened, locked, read back or written.
    #[error("failed to write the audit log {path}")]
    Io {
        /// The file.
        path: String,
        /// What the kernel says.
        #[source]
        source: io::Error,
    },
    /// The log's folder does not exist; it is not created, for nobody has said whose it is to be.
    #[error("the folder of the audit log {0} does not exist: create it, writable by this user")]
    NoFolder(String),
    /// Another process writes this file.
    #[error("the audit log {0} is in use by another process")]
    Locked(String),
    /// Records of what was let through earlier wait for room.
    #[error("the audit log cannot be written; {0} closing records wait")]
    Backlog(usize),
}

/// Where the chain of the log stands. Kept elsewhere, it proves later that nothing up to here was
/// changed or cut off.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Head {
    /// The link of the last line.
    pub head: Link,
    /// The current file; none on a stream.
    pub file: Option<PathBuf>,
}

impl AuditLog {
    /// Opens and locks the log, closes what a crash left open (`Outcome::Crash`).
    pub fn open(
        settings: &config::Audit,
        denials_recorded_per_minute: u32,
    ) -> Result<Arc<Self>, AuditError> {
        let metrics = Arc::new(Metrics::default());
        let writer = Writer::open(settings, Arc::clone(&metrics))?;
        let unclosed = recovery::unclosed(writer.files()).map_err(|source| AuditError::Io {
            path: writer.name().to_owned(),
            source,
        })?;
        let log = Self::over(writer, metrics, denials_recorded_per_minute);
        log.close_crashed(&unclosed)?;
        Ok(Arc::new(log))
    }

    fn over(writer: Writer, metrics: Arc<Metrics>, denials_recorded_per_minute: u32) -> Self {
        let ids = Arc::new(Ids::default());
        let journal = Journal::new(writer, Arc::clone(&ids), Arc::clone(&metrics));
        Self {
            journal: Mutex::new(journal),
            failing: AtomicBool::new(false),
            fold: Mutex::new(Fold::new(denials_recorded_per_minute)),
            held: Notify::new(),
            since: Instant::now(),
            ids,
            metrics,
        }
    }

    fn close_crashed(&self, unclosed: &[Line]) -> Result<(), AuditError> {
        for decision in unclosed {
            let mut line = encode::crash(decision);
            self.with_journal(|journal| journal.append(&mut line))?;
            self.metrics.crashed(Outcome::Crash);
        }
        if !unclosed.is_empty() {
            tracing::warn!(
                exchanges = unclosed.len(),
                "closed what a crash left open in the audit log"
            );
        }
        Ok(())
    }

    /// A fresh id.
    pub fn new_id(&self) -> Id {
        self.ids.next()
    }

    /// Writes the decision of an allowed exchange.
    pub fn open_exchange(
        self: &Arc<Self>,
        decision: DecisionRecord,
    ) -> Result<OpenExchange, AuditError> {
        let mut line = encode::decision(&decision, None);
        self.with_journal(|journal| journal.append_open(&mut line))?;
        self.metrics.decided(&decision);
        Ok(OpenExchange::new(Arc::clone(self), decision))
    }

    /// Records a refusal; identical ones under flood, and distinct ones beyond the rate, are
    /// folded into one line with a count.
    pub fn refused(&self, decision: &DecisionRecord) -> Result<(), AuditError> {
        if self.judge(Event::Refusal(decision))? == Fate::Written {
            let mut line = encode::decision(decision, None);
            self.with_journal(|journal| journal.append(&mut line))?;
        }
        self.metrics.decided(decision);
        Ok(())
    }

    /// Records a DNS query; folded likewise.
    pub fn dns(&self, query: &DnsRecord) -> Result<(), AuditError> {
        if self.judge(Event::Query(query))? == Fate::Written {
            let mut line = encode::query(self.new_id(), query, None);
            self.with_journal(|journal| journal.append(&mut line))?;
        }
        self.metrics.answered(query);
        Ok(())
    }

    /// Records an event about the proxy or a run.
    pub fn notice(&self, notice: &Notice) -> Result<(), AuditError> {
        match notice {
            Notice::Stop => {
                let all = self.fold().all();
                self.write_folded(all);
            }
            Notice::RunEnd { subject, .. } => {
                if let Some(run) = &subject.run {
                    let of_run = self.fold().of_run(run);
                    self.write_folded(of_run);
                }
            }
            Notice::Start { .. }
            | Notice::Reload { .. }
            | Notice::RunStart { .. }
            | Notice::RunChange { .. }
            | Notice::RunExpired { .. } => {}
        }
        let mut line = encode::notice(self.new_id(), notice);
        self.with_journal(|journal| journal.append(&mut line))
    }

    /// Whether the log can be written: the file is there, and what an earlier failure left waiting
    /// is written now.
    pub fn is_writable(&self) -> bool {
        self.with_journal(Journal::check).is_ok()
    }

    /// Writes folded lines whose window is over; called every second by the app and at the stop.
    pub fn flush(&self) {
        // While the log cannot be written, counts stay where they are.
        if self.is_writable() {
            let over = self.fold().over(self.since.elapsed());
            self.write_folded(over);
        }
    }

    /// Lets closing records wait for `HELD`, so that most leave in one write with the next decision,
    /// until `stopping`; one that refuses does not wait. A process that is killed meanwhile leaves exchanges without a
    /// close, as if they had been open.
    pub async fn hold_closes(&self, stopping: &CancellationToken) {
        self.with_journal(|journal| journal.hold(true));
        while let Some(()) = stopping.run_until_cancelled(self.held.notified()).await {
            tokio::time::sleep(HELD).await;
            self.with_journal(Journal::flush);
        }
        self.with_journal(|journal| {
            journal.hold(false);
            journal.flush();
        });
    }

    /// Where the chain stands now.
    pub fn head(&self) -> Head {
        self.with_journal(Journal::head)
    }

    /// The counters, derived from the records.
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// Folds an event away or not. Fails first where the log does: what is only counted must not
    /// pass for recorded then.
    fn judge(&self, event: Event<'_>) -> Result<Fate, AuditError> {
        if self.failing.load(Ordering::Relaxed) {
            self.with_journal(Journal::require)?;
        }
        let fate = self.fold().judge(event, self.since.elapsed());
        match fate {
            Fate::Written => {}
            Fate::Counted => self.metrics.folded(),
        }
        Ok(fate)
    }

    fn write_folded(&self, lines: Vec<(Folded, Tally)>) {
        for (folded, tally) in lines {
            let id = self.new_id();
            let line = match folded {
                Folded::Refusal(record) => {
                    let record = DecisionRecord { id, ..*record };
                    encode::decision(&record, Some(&tally))
                }
                Folded::Query(record) => encode::query(id, &record, Some(&tally)),
            };
            self.with_journal(|journal| journal.append_surely(line));
        }
    }

    /// Writes a close that refuses: before the client is told, as every refusal.
    fn append_refusal(&self, line: Vec<u8>) {
        self.with_journal(|journal| journal.append_close(line));
    }

    fn append_close(&self, line: Vec<u8>) {
        if self.with_journal(|journal| journal.hold_close(line)) {
            self.held.notify_one();
        }
    }

    fn with_journal<T>(&self, write: impl FnOnce(&mut Journal) -> T) -> T {
        let mut journal = self.journal.lock().unwrap_or_else(PoisonError::into_inner);
        let written = write(&mut journal);
        self.failing.store(journal.is_failing(), Ordering::Relaxed);
        written
    }

    fn fold(&self) -> std::sync::MutexGuard<'_, Fold> {
        self.fold.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for AuditLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AuditLog").finish_non_exhaustive()
    }
}

#[cfg(test)]
pub(crate) mod tests;
