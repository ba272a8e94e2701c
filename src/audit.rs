//! The one way to the audit log. A record is written when write(2) has returned; an exchange that
//! was opened here is closed here, also on a cancelled or panicking task.

pub mod metrics;

mod fold;
mod recovery;
mod writer;

use std::{io, sync::Arc};

pub use self::metrics::Metrics;
use crate::{
    config,
    record::{Closing, DecisionRecord, DnsRecord, Id, Notice},
};

/// The log.
#[derive(Debug)]
pub struct AuditLog {}

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
    /// Another process writes this file.
    #[error("the audit log {0} is in use by another process")]
    Locked(String),
    /// Closes of earlier exchanges wait for room.
    #[error("the audit log cannot be written; {0} closing records wait")]
    Backlog(usize),
}

/// An exchange whose opening record is written. Room for its closing record is reserved: closing
/// cannot fail, at worst it waits in memory until the log can be written again.
#[derive(Debug)]
pub struct OpenExchange {
    log: Arc<AuditLog>,
    decision: Arc<DecisionRecord>,
}

impl AuditLog {
    /// Opens and locks the log, closes what a crash left open (`Outcome::Crash`).
    pub fn open(
        settings: &config::Audit,
        denials_recorded_per_minute: u32,
    ) -> Result<Arc<Self>, AuditError> {
        let _ = (settings, denials_recorded_per_minute);
        todo!()
    }

    /// A fresh id.
    pub fn new_id(&self) -> Id {
        todo!()
    }

    /// Writes the decision of an allowed exchange.
    pub fn open_exchange(
        self: &Arc<Self>,
        decision: DecisionRecord,
    ) -> Result<OpenExchange, AuditError> {
        let _ = decision;
        todo!()
    }

    /// Records a refusal; identical ones under flood, and distinct ones beyond the rate, are
    /// folded into one line with a count.
    pub fn refused(&self, decision: DecisionRecord) -> Result<(), AuditError> {
        let _ = decision;
        todo!()
    }

    /// Records a DNS query; folded likewise.
    pub fn dns(&self, query: DnsRecord) -> Result<(), AuditError> {
        let _ = query;
        todo!()
    }

    /// Records an event about the proxy or a run.
    pub fn notice(&self, notice: Notice) -> Result<(), AuditError> {
        let _ = notice;
        todo!()
    }

    /// Whether the log could be written at the last try; on failure tries anew.
    pub fn is_writable(&self) -> bool {
        todo!()
    }

    /// Writes folded lines whose window is over; called every second by the app and at the stop.
    pub fn flush(&self) {
        todo!()
    }

    /// The counters, derived from the records.
    pub fn metrics(&self) -> &Metrics {
        todo!()
    }
}

impl OpenExchange {
    /// The opening record.
    pub fn decision(&self) -> &Arc<DecisionRecord> {
        &self.decision
    }

    /// Writes the closing record; called once, by the drop of the permit.
    pub(crate) fn close(&mut self, closing: Closing) {
        let _ = (&self.log, closing);
        todo!()
    }
}
