//! The exchanges that are open, so that a reload or the end of a run can cut them.

use std::sync::{
    Arc, Mutex, OnceLock, PoisonError,
    atomic::{AtomicBool, Ordering},
};

use foldhash::HashMap;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::Endpoint;
use crate::{
    destination::{Destination, VettedAddrs},
    policy::{EchMode, Grants},
    record::{Id, Outcome, RunId},
};

/// An exchange that is open.
#[derive(Debug)]
pub(super) struct Exchange {
    pub(super) from: Endpoint,
    pub(super) run: Option<RunId>,
    pub(super) destination: Destination,
    pub(super) vetted: VettedAddrs,
    /// Whether it need not be TLS.
    pub(super) opaque: bool,
    /// Whether its ClientHello carried Encrypted Client Hello.
    ech: AtomicBool,
    cause: OnceLock<Outcome>,
    /// Falls with the drain's `forced` token.
    cut: CancellationToken,
}

impl Exchange {
    pub(super) fn new(
        from: Endpoint,
        run: Option<RunId>,
        (destination, vetted): (Destination, VettedAddrs),
        opaque: bool,
        forced: &CancellationToken,
    ) -> Self {
        Self {
            from,
            run,
            destination,
            vetted,
            opaque,
            ech: AtomicBool::new(false),
            cause: OnceLock::new(),
            cut: forced.child_token(),
        }
    }

    /// Notes that its ClientHello carried Encrypted Client Hello.
    pub(super) fn note_ech(&self) {
        self.ech.store(true, Ordering::Relaxed);
    }

    /// Whether what it was let through with is still granted.
    pub(super) fn has_terms(&self, grants: &Grants, ech: EchMode) -> bool {
        let hidden = self.ech.load(Ordering::Relaxed);
        (grants.opaque || !self.opaque) && (ech == EchMode::Allow || !hidden)
    }

    /// Waits until the exchange is cut, by itself or with all others, and says why.
    pub(super) async fn cut(&self) -> Outcome {
        self.cut.cancelled().await;
        self.cause.get().copied().unwrap_or(Outcome::Shutdown)
    }

    /// Why it was cut, if it was.
    pub(super) fn cause(&self) -> Option<Outcome> {
        self.cause.get().copied()
    }
}

/// An exchange's place in the table.
#[derive(Debug)]
pub(super) struct Listed {
    table: Arc<OpenTable>,
    id: Id,
    exchange: Arc<Exchange>,
}

impl std::ops::Deref for Listed {
    type Target = Exchange;

    fn deref(&self) -> &Exchange {
        &self.exchange
    }
}

impl Drop for Listed {
    fn drop(&mut self) {
        self.table.lock().remove(&self.id);
        self.table.removed.notify_waiters();
    }
}

#[derive(Debug, Default)]
pub(super) struct OpenTable {
    exchanges: Mutex<HashMap<Id, Arc<Exchange>>>,
    removed: Notify,
}

impl OpenTable {
    /// Lists an exchange until its `Listed` is dropped.
    pub(super) fn list(self: &Arc<Self>, id: Id, exchange: Exchange) -> Listed {
        let exchange = Arc::new(exchange);
        self.lock().insert(id, Arc::clone(&exchange));
        Listed {
            table: Arc::clone(self),
            id,
            exchange,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.lock().len()
    }

    /// Cuts every exchange that `which` picks; the tasks that hold them end by themselves.
    pub(super) fn cut_where(&self, outcome: Outcome, which: impl Fn(&Exchange) -> bool) -> usize {
        // The judgement may be slow, so it runs on a snapshot and not under the lock.
        let open: Vec<Arc<Exchange>> = self.lock().values().map(Arc::clone).collect();
        let mut cut = 0;
        for exchange in open.iter().filter(|exchange| which(exchange)) {
            if exchange.cause.set(outcome).is_ok() {
                cut += 1;
            }
            exchange.cut.cancel();
        }
        cut
    }

    /// Waits until no open exchange is picked by `which`.
    pub(super) async fn closed(&self, which: impl Fn(&Exchange) -> bool) {
        loop {
            let removed = self.removed.notified();
            tokio::pin!(removed);
            removed.as_mut().enable();
            if !self.lock().values().any(|exchange| which(exchange)) {
                return;
            }
            removed.await;
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<Id, Arc<Exchange>>> {
        self.exchanges
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}
