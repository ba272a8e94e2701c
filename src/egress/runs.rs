//! The runs that the launcher registered: which sources are whose, under which policy, until when.

use std::{
    collections::BTreeMap,
    net::{IpAddr, Ipv4Addr},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use arc_swap::ArcSwap;
use foldhash::{HashMap, HashSet};
use tokio::time::Instant;

use super::{Rules, Summary};
use crate::{
    audit::{AuditError, AuditLog},
    policy::{Pattern, Policy, PolicySet, UnknownProfile},
    record::{Notice, RunId, Subject},
};

/// What `PUT /v1/runs/{run}` asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Registration {
    /// The run.
    pub run: RunId,
    /// The addresses that are its sandbox's; at least one.
    pub sources: Vec<IpAddr>,
    /// What our DNS answers it, and the only local address its traffic may arrive on.
    pub listener: Option<Ipv4Addr>,
    /// The profile whose lists it has.
    pub profile: Option<Arc<str>>,
    /// Its own list.
    pub allow: Vec<Pattern>,
    /// How long from now, unless it is repeated.
    pub expires_in: Duration,
}

/// Why a run is not registered.
#[derive(Debug, thiserror::Error)]
pub enum RegistrationError {
    /// There is no source.
    #[error("a run needs at least one source address")]
    NoSource,
    /// The source is another run's.
    #[error("{source_address} is a source of run {holder}")]
    SourceTaken {
        /// The address.
        source_address: IpAddr,
        /// Whose it is.
        holder: RunId,
    },
    /// The source lies in a `[[clients]]` range.
    #[error("{0} lies in a [[clients]] range")]
    SourceConfigured(IpAddr),
    /// The run is being removed.
    #[error("run {0} is being removed")]
    Ending(RunId),
    /// No such profile.
    #[error(transparent)]
    Profile(#[from] UnknownProfile),
    /// An entry that the ceiling does not allow.
    #[error("{0} is beyond the ceiling that [launcher] sets")]
    BeyondCeiling(String),
    /// The start cannot be recorded.
    #[error(transparent)]
    Audit(#[from] AuditError),
}

/// A registered run.
#[derive(Debug)]
pub struct Run {
    registration: Registration,
    policy: ArcSwap<Policy>,
    ended: AtomicBool,
    expires_at: Mutex<Instant>,
    summary: Arc<Summary>,
}

/// What a source address is.
#[derive(Clone, Debug)]
pub enum Source {
    /// A run's.
    Active(Arc<Run>),
    /// A run's whose time is over and that was not removed yet.
    Expired,
    /// No run's.
    Unregistered,
}

/// The registered runs.
#[derive(Debug, Default)]
pub struct RunTable {
    // Written under the lock, read without it.
    writing: Mutex<()>,
    table: ArcSwap<Table>,
}

#[derive(Clone, Debug, Default)]
struct Table {
    runs: BTreeMap<RunId, Arc<Run>>,
    by_source: HashMap<IpAddr, Arc<Run>>,
    sources: Arc<HashSet<IpAddr>>,
}

impl Run {
    /// Its id.
    pub fn id(&self) -> &RunId {
        &self.registration.run
    }

    /// What our DNS answers it.
    pub fn listener(&self) -> Option<Ipv4Addr> {
        self.registration.listener
    }

    /// What was registered.
    pub fn registration(&self) -> &Registration {
        &self.registration
    }

    /// What it may reach.
    pub fn policy(&self) -> Arc<Policy> {
        self.policy.load_full()
    }

    /// What it reached and tried to reach.
    pub fn summary(&self) -> &Summary {
        &self.summary
    }

    /// Whether its time is over or it is being removed.
    pub fn is_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    /// How long until it expires.
    pub fn expires_in(&self) -> Duration {
        let at = *self
            .expires_at
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        at.saturating_duration_since(Instant::now())
    }

    fn end(&self) -> bool {
        !self.ended.swap(true, Ordering::AcqRel)
    }

    fn subject(&self) -> Subject {
        Subject {
            run: Some(self.id().clone()),
            profile: self.registration.profile.clone(),
            client: self.registration.sources.first().copied(),
        }
    }
}

impl RunTable {
    /// What `address` is.
    pub fn source(&self, address: IpAddr) -> Source {
        match self.table.load().by_source.get(&address) {
            Some(run) if run.is_ended() || run.expires_in().is_zero() => Source::Expired,
            Some(run) => Source::Active(Arc::clone(run)),
            None => Source::Unregistered,
        }
    }

    /// Every registered source.
    pub fn sources(&self) -> Arc<HashSet<IpAddr>> {
        Arc::clone(&self.table.load().sources)
    }

    /// Every run, in the order of their ids.
    pub fn all(&self) -> Vec<Arc<Run>> {
        self.table.load().runs.values().map(Arc::clone).collect()
    }

    /// The run `id`.
    pub fn find(&self, id: &RunId) -> Option<Arc<Run>> {
        self.table.load().runs.get(id).map(Arc::clone)
    }

    /// Registers a run; the same registration again renews it, a different one replaces its
    /// policy, sources and listener, keeps its summary, and is said to be a change.
    pub(super) fn register(
        &self,
        registration: Registration,
        rules: impl FnOnce() -> Arc<Rules>,
        audit: &AuditLog,
    ) -> Result<bool, RegistrationError> {
        let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        // Security: read under the lock. A reload puts its rules in force before it takes the lock
        // to compile the runs anew, so either they are seen here or the run is seen there.
        let rules = rules();
        let policies = &rules.policies;
        let table = self.table.load();
        check_sources(&table, &registration, policies)?;
        let before = table.runs.get(&registration.run).map(Arc::clone);
        if before.as_ref().is_some_and(|run| run.is_ended()) {
            return Err(RegistrationError::Ending(registration.run));
        }
        let expires_at = Instant::now() + registration.expires_in;
        if let Some(run) = before
            .as_ref()
            .filter(|run| is_same(&run.registration, &registration))
        {
            *run.expires_at
                .lock()
                .unwrap_or_else(PoisonError::into_inner) = expires_at;
            return Ok(false);
        }
        let policy = policies.for_run(registration.profile.as_deref(), &registration.allow)?;
        if let Some(beyond) = policies.beyond_ceiling(&registration.allow) {
            return Err(RegistrationError::BeyondCeiling(beyond.to_string()));
        }
        let run = Arc::new(Run {
            policy: ArcSwap::from_pointee(policy),
            ended: AtomicBool::new(false),
            expires_at: Mutex::new(expires_at),
            summary: before
                .as_ref()
                .map(|run| Arc::clone(&run.summary))
                .unwrap_or_default(),
            registration,
        });
        let subject = run.subject();
        let allow = run.registration.allow.iter().map(ToString::to_string);
        let allow = allow.collect();
        audit.notice(&match before {
            None => Notice::RunStart { subject, allow },
            Some(_) => Notice::RunChange { subject, allow },
        })?;
        let mut runs = table.runs.clone();
        runs.insert(run.id().clone(), run);
        self.table.store(Arc::new(Table::new(runs)));
        Ok(before.is_some())
    }

    /// Ends the runs whose time is over, and gives those that ended just now.
    pub(super) fn expire(&self, audit: &AuditLog) -> Vec<Arc<Run>> {
        let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let expired: Vec<Arc<Run>> = self
            .all()
            .into_iter()
            .filter(|run| run.expires_in().is_zero() && run.end())
            .collect();
        for run in &expired {
            tracing::warn!(run = %run.id(), "run expired before it was removed");
            if let Err(error) = audit.notice(&Notice::RunExpired {
                subject: run.subject(),
            }) {
                tracing::error!(%error, "the expiry of a run cannot be recorded");
            }
        }
        expired
    }

    /// Ends a run: its sources are unknown from now on.
    pub(super) fn begin_removal(&self, id: &RunId) -> Option<Arc<Run>> {
        let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let run = self.find(id)?;
        run.end();
        Some(run)
    }

    /// Forgets a run once its exchanges are closed.
    pub(super) fn finish_removal(&self, run: &Run, cut: usize, audit: &AuditLog) {
        let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut runs = self.table.load().runs.clone();
        if runs.remove(run.id()).is_none() {
            return;
        }
        self.table.store(Arc::new(Table::new(runs)));
        let cut = u64::try_from(cut).unwrap_or(u64::MAX);
        if let Err(error) = audit.notice(&Notice::RunEnd {
            subject: run.subject(),
            cut,
        }) {
            tracing::error!(%error, "the end of a run cannot be recorded");
        }
    }

    /// Gives every run its policy under a new configuration; a run whose profile is gone may reach
    /// nothing.
    pub(super) fn recompile(&self, policies: &PolicySet) {
        let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        for run in self.all() {
            let registration = &run.registration;
            let policy = policies
                .for_run(registration.profile.as_deref(), &registration.allow)
                .unwrap_or_else(|error| {
                    tracing::warn!(run = %run.id(), %error, "run may reach nothing any more");
                    Policy::deny_all()
                });
            run.policy.store(Arc::new(policy));
        }
    }
}

impl Table {
    fn new(runs: BTreeMap<RunId, Arc<Run>>) -> Self {
        let by_source: HashMap<IpAddr, Arc<Run>> = runs
            .values()
            .flat_map(|run| {
                run.registration
                    .sources
                    .iter()
                    .map(|source| (*source, Arc::clone(run)))
            })
            .collect();
        let sources = Arc::new(by_source.keys().copied().collect());
        Self {
            runs,
            by_source,
            sources,
        }
    }
}

fn check_sources(
    table: &Table,
    registration: &Registration,
    policies: &PolicySet,
) -> Result<(), RegistrationError> {
    if registration.sources.is_empty() {
        return Err(RegistrationError::NoSource);
    }
    for source in &registration.sources {
        if policies.client(*source).is_some() {
            return Err(RegistrationError::SourceConfigured(*source));
        }
        match table.by_source.get(source) {
            Some(holder) if *holder.id() != registration.run => {
                return Err(RegistrationError::SourceTaken {
                    source_address: *source,
                    holder: holder.id().clone(),
                });
            }
            Some(_) | None => {}
        }
    }
    Ok(())
}

/// Whether two registrations differ in their expiry only.
fn is_same(one: &Registration, other: &Registration) -> bool {
    let Registration {
        run,
        sources,
        listener,
        profile,
        allow,
        expires_in: _,
    } = one;
    (run, sources, listener, profile, allow)
        == (
            &other.run,
            &other.sources,
            &other.listener,
            &other.profile,
            &other.allow,
        )
}
