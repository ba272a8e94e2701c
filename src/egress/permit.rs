//! `Permit`: proof that policy, limits and addresses were passed and that the opening record is
//! written. Dropping it writes the closing record.

use std::{
    net::SocketAddr,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::time::{Instant, sleep_until};

use super::{Activity, Client, Connection, open::Listed};
use crate::{
    audit::OpenExchange,
    config::Limits,
    destination::{Destination, VettedAddrs},
    policy::{EchMode, Grants, Reason},
    protocol::Denial,
    record::{Closing, Id, Outcome, Via},
};

/// One allowed exchange. Only `Authorizer::authorize` makes one.
#[derive(Debug)]
pub struct Permit {
    opened: Opened,
    since: Instant,
    bytes_up: AtomicU64,
    bytes_down: AtomicU64,
    closing: Mutex<Notes>,
}

/// What a permit is made of: the exchange listed, recorded and limited.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) listed: Listed,
    pub(super) exchange: OpenExchange,
    pub(super) client: Client,
    pub(super) connection: Arc<Connection>,
    pub(super) grants: Arc<Grants>,
    pub(super) generation: u64,
    pub(super) limits: Arc<Limits>,
}

/// What the closing record will say.
#[derive(Debug, Default)]
struct Notes {
    outcome: Option<Outcome>,
    reason: Option<Reason>,
    status: Option<u16>,
    upstream: Option<SocketAddr>,
    sni: Option<String>,
    ech: Option<bool>,
}

/// More bytes up than `limits.max_upload_bytes`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("more than the allowed number of bytes was sent")]
pub struct BudgetExceeded;

impl Permit {
    pub(super) fn new(opened: Opened) -> Self {
        Self {
            opened,
            since: Instant::now(),
            bytes_up: AtomicU64::new(0),
            bytes_down: AtomicU64::new(0),
            closing: Mutex::default(),
        }
    }

    /// The id of its records.
    pub fn id(&self) -> Id {
        self.opened.exchange.decision().id
    }

    /// Where the way leads.
    pub fn destination(&self) -> &Destination {
        &self.opened.listed.destination
    }

    /// The only addresses that may be dialled.
    pub fn addresses(&self) -> &VettedAddrs {
        &self.opened.listed.vetted
    }

    /// Who was allowed.
    pub fn client(&self) -> &Client {
        &self.opened.client
    }

    /// Whether the tunnel need not be TLS.
    pub fn is_opaque(&self) -> bool {
        self.opened.grants.opaque
    }

    /// What happens to Encrypted Client Hello.
    pub fn ech(&self) -> EchMode {
        self.opened.client.policy.ech()
    }

    /// The generation of the configuration that allowed it.
    pub fn generation(&self) -> u64 {
        self.opened.generation
    }

    /// The limits in force when it was allowed.
    pub fn limits(&self) -> &Limits {
        &self.opened.limits
    }

    /// Bytes that the client may still send on this connection; none is no limit. A request whose
    /// length is known to be more is refused before a byte of it is forwarded.
    pub fn upload_left(&self) -> Option<u64> {
        let used = self.opened.connection.uploaded();
        self.opened
            .limits
            .max_upload_bytes
            .map(|limit| limit.saturating_sub(used))
    }

    /// Counts bytes from the client, before they are sent on.
    ///
    /// # Errors
    /// The budget is spent: nothing of these bytes may be sent on.
    pub fn add_up(&self, bytes: u64) -> Result<(), BudgetExceeded> {
        let total = self.opened.connection.add_upload(bytes);
        if self
            .opened
            .limits
            .max_upload_bytes
            .is_some_and(|limit| total > limit)
        {
            return Err(BudgetExceeded);
        }
        self.bytes_up.fetch_add(bytes, Ordering::Relaxed);
        Ok(())
    }

    /// Counts bytes from the origin.
    pub fn add_down(&self, bytes: u64) {
        self.bytes_down.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Notes the address dialled.
    pub fn note_upstream(&self, upstream: SocketAddr) {
        self.note(|notes| notes.upstream = Some(upstream));
    }

    /// Notes what the ClientHello shows.
    pub fn note_hello(&self, sni: Option<String>, ech: bool) {
        if ech {
            self.opened.listed.note_ech();
        }
        self.note(|notes| (notes.sni, notes.ech) = (sni, Some(ech)));
    }

    /// Notes the status that the client was told.
    pub fn note_status(&self, status: u16) {
        self.note(|notes| notes.status = Some(status));
    }

    /// Waits until the exchange must end: its run ended, policy changed, its life is over, or the
    /// drain's time is.
    pub async fn ended(&self) -> Outcome {
        self.ended_by(|| None).await
    }

    /// As `ended`, and also ends once nothing has flowed for `limits.idle_timeout`.
    pub async fn ended_or_idle(&self, activity: &Activity) -> Outcome {
        let limit = self.opened.limits.idle_timeout;
        self.ended_by(|| Some(activity.quiet_at(limit))).await
    }

    /// One clock for both ends in time: every open exchange holds what this needs.
    async fn ended_by(&self, idle_at: impl Fn() -> Option<Instant>) -> Outcome {
        let life = self.since + self.opened.limits.lifetime;
        let clock = async {
            loop {
                let (at, outcome) = match idle_at() {
                    Some(idle) if idle < life => (idle, Outcome::Idle),
                    _ => (life, Outcome::Lifetime),
                };
                if Instant::now() >= at {
                    return outcome;
                }
                sleep_until(at).await;
            }
        };
        tokio::select! {
            biased;
            outcome = self.opened.listed.cut() => outcome,
            outcome = clock => outcome,
        }
    }

    /// Ends the exchange: the closing record is written.
    pub fn finish(self, outcome: Outcome) {
        self.note(|notes| notes.outcome = Some(outcome));
    }

    /// Ends the exchange because of what came after the decision: a failed connection, a wrong
    /// ClientHello, a spent budget, a broken origin. Returns what the client is told.
    pub fn fail(self, outcome: Outcome, reason: Reason, detail: Option<String>) -> Denial {
        // Transparent TLS is cut without a status.
        let is_cut = self.opened.exchange.decision().asked.via == Via::Sni;
        let status = Denial::status_of(reason).filter(|_| !is_cut);
        self.note(|notes| {
            notes.outcome = Some(outcome);
            notes.reason = Some(reason);
            notes.status = notes.status.or(status);
        });
        if let Some(run) = &self.opened.client.run {
            run.summary().denied(Some(self.destination()), reason);
        }
        Denial {
            reason,
            id: self.id(),
            run: self.opened.client.subject.run.clone(),
            destination: Some(self.destination().clone()),
            detail,
            retry_after: None,
            is_unroutable: false,
        }
    }

    fn note(&self, change: impl FnOnce(&mut Notes)) {
        change(&mut self.closing.lock().unwrap_or_else(PoisonError::into_inner));
    }

    fn duration(&self) -> Duration {
        self.since.elapsed()
    }
}

impl Drop for Permit {
    /// A permit that nobody finished was held by a task that was cancelled or panicked.
    fn drop(&mut self) {
        let (up, down) = (*self.bytes_up.get_mut(), *self.bytes_down.get_mut());
        let duration = self.duration();
        let notes = std::mem::take(
            self.closing
                .get_mut()
                .unwrap_or_else(PoisonError::into_inner),
        );
        let outcome = notes
            .outcome
            .or_else(|| self.opened.listed.cause())
            .unwrap_or(Outcome::Error);
        if let Some(run) = &self.opened.client.run {
            run.summary()
                .allowed(&self.opened.listed.destination, up, down);
        }
        self.opened.exchange.close(&Closing {
            outcome,
            reason: notes.reason,
            status: notes.status,
            upstream: notes.upstream,
            sni: notes.sni,
            ech: notes.ech,
            bytes_up: up,
            bytes_down: down,
            duration,
        });
    }
}
