//! An exchange in the log: opened with its decision, closed once.

use std::{mem, sync::Arc, time::Duration};

use super::AuditLog;
use crate::record::{Closing, DecisionRecord, Outcome, encode};

/// An exchange whose opening record is written. Room for its closing record is reserved: closing
/// cannot fail, at worst it waits in memory until the log can be written again.
#[derive(Debug)]
pub struct OpenExchange {
    log: Arc<AuditLog>,
    decision: Box<DecisionRecord>,
    is_closed: bool,
}

impl OpenExchange {
    pub(super) fn new(log: Arc<AuditLog>, decision: DecisionRecord) -> Self {
        Self {
            log,
            decision: Box::new(decision),
            is_closed: false,
        }
    }

    /// The opening record.
    pub fn decision(&self) -> &DecisionRecord {
        &self.decision
    }

    /// Writes the closing record; called once, by the drop of the permit. What comes after the
    /// first call is passed over.
    pub(crate) fn close(&mut self, closing: &Closing) {
        if mem::replace(&mut self.is_closed, true) {
            return;
        }
        self.log.metrics.closed(closing);
        let line = encode::close(&self.decision, closing);
        if closing.reason.is_some() {
            self.log.append_refusal(line);
        } else {
            self.log.append_close(line);
        }
    }
}

impl Drop for OpenExchange {
    /// An exchange that no permit took over ends here; nothing flowed.
    fn drop(&mut self) {
        self.close(&Closing {
            outcome: Outcome::Error,
            reason: None,
            status: None,
            upstream: None,
            sni: None,
            ech: None,
            bytes_up: 0,
            bytes_down: 0,
            duration: Duration::ZERO,
        });
    }
}
