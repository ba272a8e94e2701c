//! The one decision path. `Authorizer::authorize` turns a request into a `Permit`, on which
//! `connect` dials and `relay` copies, or into a recorded `Denial`.

pub mod activity;
pub mod clients;
pub mod connect;
pub mod limits;
pub mod peer;
pub mod permit;
pub mod relay;
pub mod runs;
pub mod slots;
pub mod summary;

mod authorize;
mod changes;
mod grant;
mod open;

mod queries;
mod refusal;
mod splice;

use std::{io, net::SocketAddr, sync::Arc};

use arc_swap::ArcSwap;
use rustix::io::Errno;

pub use self::{
    activity::Activity,
    clients::{Client, ClientKey, Endpoint},
    connect::{ConnectError, connect},
    limits::{Connection, RateLimited},
    peer::{Peer, Received},
    permit::{BudgetExceeded, Permit},
    queries::{QueryRefusal, QueryVerdict},
    relay::{Tunnel, relay},
    runs::{Registration, RegistrationError, RunTable},
    slots::{Slot, SlotError, SlotTable},
    summary::Summary,
};
use self::{limits::Limiter, open::OpenTable, refusal::Refusal};
use crate::{
    audit::AuditLog,
    config::{Config, Limits},
    destination::{AddressGuard, Surroundings},
    drain::Tasks,
    listener::interfaces,
    policy::{Mode, PolicySet, Reason},
    resolver::Resolver,
};

/// Decides on every request and query, whatever listener it came by.
pub struct Authorizer {
    rules: ArcSwap<Rules>,
    resolver: Resolver,
    audit: Arc<AuditLog>,
    runs: RunTable,
    slots: SlotTable,
    limiter: Limiter,
    open: Arc<OpenTable>,
    tasks: Tasks,
    listeners: ArcSwap<Arc<[SocketAddr]>>,
}

/// What a reload replaces, as one value.
struct Rules {
    generation: u64,
    policies: PolicySet,
    guard: AddressGuard,
    clients: Arc<[ipnet::IpNet]>,
    limits: Arc<Limits>,
}

impl Rules {
    fn new(config: &Config, generation: u64) -> Self {
        Self {
            generation,
            policies: config.policies.clone(),
            guard: config.addresses.clone(),
            clients: config
                .policies
                .clients()
                .iter()
                .map(|client| client.source)
                .collect(),
            limits: Arc::new(config.limits.clone()),
        }
    }
}

impl Authorizer {
    /// An authorizer for a validated configuration; `capacity` is how many client connections the
    /// process has descriptors for.
    pub fn new(
        config: &Config,
        capacity: usize,
        resolver: Resolver,
        audit: Arc<AuditLog>,
        tasks: Tasks,
    ) -> Self {
        Self {
            rules: ArcSwap::from_pointee(Rules::new(config, 1)),
            resolver,
            audit,
            runs: RunTable::default(),
            slots: SlotTable::default(),
            limiter: Limiter::new(capacity),
            open: Arc::default(),
            tasks,
            listeners: ArcSwap::from_pointee(Arc::default()),
        }
    }

    /// Says which sockets are ours, so that no request is led back to them.
    pub fn set_listeners(&self, listeners: Vec<SocketAddr>) {
        self.listeners.store(Arc::new(listeners.into()));
    }

    /// The audit log.
    pub fn audit(&self) -> &Arc<AuditLog> {
        &self.audit
    }

    /// The registered runs.
    pub fn runs(&self) -> &RunTable {
        &self.runs
    }

    /// The networks made ahead for runs.
    pub fn slots(&self) -> &SlotTable {
        &self.slots
    }

    /// The limits in force.
    pub fn limits(&self) -> Arc<Limits> {
        Arc::clone(&self.rules.load().limits)
    }

    /// Counts the configurations that were in force since the start, from 1.
    pub fn generation(&self) -> u64 {
        self.rules.load().generation
    }

    /// Whether a client of ours speaks from there.
    pub fn knows(&self, from: Endpoint) -> bool {
        self.identify(&self.rules.load(), from).is_ok()
    }

    /// The names of the profiles in `mode`.
    pub fn profiles_in(&self, mode: Mode) -> Vec<String> {
        let rules = self.rules.load();
        let names = rules.policies.profile_names();
        names
            .filter(|name| {
                rules
                    .policies
                    .profile(name)
                    .is_some_and(|found| found.mode() == mode)
            })
            .map(ToString::to_string)
            .collect()
    }

    /// How many client connections are open.
    pub fn open_connections(&self) -> usize {
        self.limiter.open_connections()
    }

    /// How many exchanges are open.
    pub fn open_exchanges(&self) -> usize {
        self.open.len()
    }

    fn identify(&self, rules: &Rules, from: Endpoint) -> Result<Client, Reason> {
        clients::identify(from, &self.runs, &rules.policies)
    }

    fn surroundings(&self, rules: &Rules) -> Result<Surroundings, Refusal> {
        let interfaces = interfaces::read().map_err(|error| {
            tracing::error!(%error, "cannot read this host's interfaces");
            Refusal::new(if is_exhausted(&error) {
                Reason::OverCapacity
            } else {
                Reason::AddressBlocked
            })
        })?;
        Ok(Surroundings {
            interfaces,
            clients: Arc::clone(&rules.clients),
            sources: self.runs.sources(),
            listeners: Arc::clone(&self.listeners.load()),
        })
    }
}

/// Whether this process, or this host, has no descriptor left: that says nothing of a destination.
fn is_exhausted(error: &io::Error) -> bool {
    let errno = error.raw_os_error().map(Errno::from_raw_os_error);
    matches!(errno, Some(Errno::MFILE | Errno::NFILE))
}
