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
pub mod summary;

mod open;

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    sync::Arc,
};

use arc_swap::ArcSwap;

pub use self::{
    activity::Activity,
    clients::{Client, ClientKey, Endpoint},
    connect::connect,
    limits::{Connection, RateLimited},
    peer::{Peer, Received},
    permit::{BudgetExceeded, Permit},
    relay::{Tunnel, relay},
    runs::{Registration, RegistrationError, RunTable},
    summary::Summary,
};
use self::{
    limits::Limiter,
    open::{Exchange, OpenTable},
    permit::Opened,
};
use crate::{
    audit::AuditLog,
    config::{Config, Limits},
    destination::{AddressGuard, Destination, Name, Surroundings, VettedAddrs},
    drain::Tasks,
    listener::interfaces,
    policy::{Decision, Mode, PolicySet, Reason, Verdict},
    protocol::Denial,
    record::{Asked, DecisionRecord, DnsRecord, Id, Outcome, Subject},
    resolver::{ResolveError, Resolved, Resolver},
};

/// Decides on every request and query, whatever listener it came by.
pub struct Authorizer {
    rules: ArcSwap<Rules>,
    resolver: Resolver,
    audit: Arc<AuditLog>,
    runs: RunTable,
    limiter: Limiter,
    open: Arc<OpenTable>,
    tasks: Tasks,
    listeners: ArcSwap<Vec<SocketAddr>>,
}

/// What a reload replaces, as one value.
struct Rules {
    generation: u64,
    policies: PolicySet,
    guard: AddressGuard,
    clients: Arc<[ipnet::IpNet]>,
    limits: Limits,
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
            limits: config.limits.clone(),
        }
    }
}

/// A request that passed limits, policy and addresses.
struct Granted {
    destination: Destination,
    verdict: Verdict,
    resolved: Resolved,
}

/// Why a request was refused, before it became a recorded denial.
struct Refusal {
    reason: Reason,
    rule: Option<Arc<str>>,
    addresses: Vec<IpAddr>,
    detail: Option<String>,
    retry_after: Option<std::time::Duration>,
    /// The connection is cut without an answer.
    silent: bool,
}

impl Refusal {
    fn new(reason: Reason) -> Self {
        Self {
            reason,
            rule: None,
            addresses: Vec::new(),
            detail: None,
            retry_after: None,
            silent: false,
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
            limiter: Limiter::new(capacity),
            open: Arc::default(),
            tasks,
            listeners: ArcSwap::default(),
        }
    }

    /// Says which sockets are ours, so that no request is led back to them.
    pub fn set_listeners(&self, listeners: Vec<SocketAddr>) {
        self.listeners.store(Arc::new(listeners));
    }

    /// The audit log.
    pub fn audit(&self) -> &Arc<AuditLog> {
        &self.audit
    }

    /// The registered runs.
    pub fn runs(&self) -> &RunTable {
        &self.runs
    }

    /// The limits in force.
    pub fn limits(&self) -> Limits {
        self.rules.load().limits.clone()
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

    /// Takes a place for a client connection.
    ///
    /// # Errors
    /// `over_capacity` or `shutting_down`, recorded.
    pub fn admit(self: &Arc<Self>, from: Endpoint, asked: &Asked) -> Result<Connection, Denial> {
        let rules = self.rules.load();
        let client = self.identify(&rules, from);
        let subject = subject_of(&client, from);
        if self.tasks.stopping().is_cancelled() {
            let refusal = Refusal::new(Reason::ShuttingDown);
            return Err(self.refused(client.ok().as_ref(), subject, asked.clone(), refusal));
        }
        let key = client
            .as_ref()
            .map_or(ClientKey::Address(from.peer), |client| client.key.clone());
        self.limiter
            .connect(self, key, from, &rules.limits)
            .map_err(|reason| {
                let refusal = Refusal::new(reason);
                self.refused(client.ok().as_ref(), subject, asked.clone(), refusal)
            })
    }

    /// Decides on one request: limits, policy, addresses, and the opening record, in this order.
    /// Nothing is looked up for what policy does not allow.
    ///
    /// # Errors
    /// The denial, recorded.
    pub async fn authorize(
        self: &Arc<Self>,
        connection: &Arc<Connection>,
        asked: Asked,
    ) -> Result<Permit, Denial> {
        let rules = self.rules.load_full();
        let from = connection.from();
        let client = match self.identify(&rules, from) {
            Ok(client) => client,
            Err(reason) => {
                let subject = Subject {
                    client: Some(from.peer),
                    ..Subject::default()
                };
                return Err(self.refused(None, subject, asked, Refusal::new(reason)));
            }
        };
        match self.grant(&rules, &client, &asked).await {
            Ok(granted) => {
                self.open_exchange(rules.generation, connection, client, (asked, granted))
            }
            Err(refusal) => {
                let subject = client.subject.clone();
                Err(self.refused(Some(&client), subject, asked, refusal))
            }
        }
    }

    /// Judges the host of a CONNECT to port 80, whose requests are then each authorised; nothing
    /// is looked up, and only a refusal is recorded.
    ///
    /// # Errors
    /// The denial, recorded.
    pub fn precheck(&self, connection: &Connection, asked: &Asked) -> Result<(), Denial> {
        let rules = self.rules.load();
        let from = connection.from();
        let client = match self.identify(&rules, from) {
            Ok(client) => client,
            Err(reason) => {
                let subject = Subject {
                    client: Some(from.peer),
                    ..Subject::default()
                };
                return Err(self.refused(None, subject, asked.clone(), Refusal::new(reason)));
            }
        };
        match judge(&client, asked) {
            Ok(_) => Ok(()),
            Err(refusal) => {
                let subject = client.subject.clone();
                Err(self.refused(Some(&client), subject, asked.clone(), refusal))
            }
        }
    }

    /// Records the refusal of a request that could not be read as one, or of a ClientHello on the
    /// transparent road.
    pub fn refuse(
        &self,
        connection: &Connection,
        asked: Asked,
        reason: Reason,
        detail: Option<String>,
    ) -> Denial {
        let from = connection.from();
        let client = self.identify(&self.rules.load(), from);
        // A stranger learns nothing but that he is one.
        let refusal = match &client {
            Ok(_) => Refusal {
                detail,
                ..Refusal::new(reason)
            },
            Err(unknown) => Refusal::new(*unknown),
        };
        let subject = subject_of(&client, from);
        self.refused(client.ok().as_ref(), subject, asked, refusal)
    }

    /// Records the refusal of what is cut without an answer: a protocol that is not spoken here, or
    /// a head that never became whole.
    pub fn refuse_silently(&self, connection: &Connection, asked: Asked, reason: Reason) {
        let from = connection.from();
        let client = self.identify(&self.rules.load(), from);
        let refusal = Refusal {
            silent: true,
            ..Refusal::new(client.as_ref().map_or_else(|unknown| *unknown, |_| reason))
        };
        let subject = subject_of(&client, from);
        drop(self.refused(client.ok().as_ref(), subject, asked, refusal));
    }

    /// Judges a name for our DNS server. The caller plans the answer and records it with
    /// `record_query`.
    pub fn judge_query(
        &self,
        from: Endpoint,
        name: Option<&Name>,
    ) -> Result<QueryVerdict, QueryRefusal> {
        let rules = self.rules.load();
        let Ok(client) = self.identify(&rules, from) else {
            return Err(QueryRefusal::UnknownClient);
        };
        if self.limiter.query(&client.key, &rules.limits).is_err() {
            return Err(QueryRefusal::RateLimited(client.subject));
        }
        let verdict = match name {
            Some(name) => client.policy.evaluate_name(name),
            None => Verdict {
                decision: Decision::Deny,
                reason: Reason::BadRequest,
                rule: None,
                grants: Arc::default(),
            },
        };
        Ok(QueryVerdict {
            subject: client.subject,
            verdict,
            listener: client.listener,
        })
    }

    /// Records a query that was judged; when this fails the answer is SERVFAIL.
    pub fn record_query(&self, query: &DnsRecord) -> Result<(), crate::audit::AuditError> {
        if let Some(run) = query
            .subject
            .run
            .as_ref()
            .and_then(|run| self.runs.find(run))
        {
            run.summary().query(query);
        }
        self.audit.dns(query)
    }

    /// Puts a new configuration in force and cuts what it no longer allows. Returns the new
    /// generation and how many exchanges were cut.
    pub fn reload(&self, config: &Config) -> (u64, usize) {
        let generation = self.generation() + 1;
        let rules = Arc::new(Rules::new(config, generation));
        self.rules.store(Arc::clone(&rules));
        self.runs.recompile(&rules.policies);
        let cut = self.open.cut_where(Outcome::PolicyChanged, |exchange| {
            !self.still_allowed(
                &rules,
                exchange.from,
                &exchange.destination,
                &exchange.vetted,
            )
        });
        (generation, cut)
    }

    /// Registers a run, or renews it.
    pub fn register(&self, registration: Registration) -> Result<(), RegistrationError> {
        let rules = self.rules.load();
        self.runs
            .register(registration, &rules.policies, &self.audit)
    }

    /// Ends every run whose time is over: its sources are unknown clients until it is removed.
    pub fn expire_runs(&self) {
        for run in self.runs.expire(&self.audit) {
            self.cut_run(&run);
        }
        self.limiter.prune();
    }

    /// Removes a run: cuts its exchanges, waits for their closing records, and gives its summary.
    /// None when there is no such run.
    pub async fn remove_run(&self, id: &crate::record::RunId) -> Option<serde_json::Value> {
        let run = self.runs.begin_removal(id)?;
        let cut = self.cut_run(&run);
        self.open
            .closed(|exchange| exchange.run.as_ref() == Some(id))
            .await;
        self.runs.finish_removal(&run, cut, &self.audit);
        Some(run.summary().to_json())
    }

    fn cut_run(&self, run: &runs::Run) -> usize {
        self.open.cut_where(Outcome::RunEnded, |exchange| {
            exchange.run.as_ref() == Some(run.id())
        })
    }

    fn identify(&self, rules: &Rules, from: Endpoint) -> Result<Client, Reason> {
        clients::identify(from, &self.runs, &rules.policies)
    }

    async fn grant(
        &self,
        rules: &Rules,
        client: &Client,
        asked: &Asked,
    ) -> Result<Granted, Refusal> {
        if self.tasks.stopping().is_cancelled() {
            return Err(Refusal::new(Reason::ShuttingDown));
        }
        self.limiter
            .request(&client.key, &rules.limits)
            .map_err(|limited| Refusal {
                retry_after: Some(limited.retry_after),
                ..Refusal::new(Reason::RateLimited)
            })?;
        let (destination, verdict) = judge(client, asked)?;
        self.limit_wildcard_names(rules, client, destination, &verdict)?;
        let surroundings = self.surroundings(rules)?;
        let resolved = self
            .resolver
            .resolve(
                destination,
                &rules.guard,
                &surroundings,
                &verdict.grants.addresses,
            )
            .await
            .map_err(|error| unresolved(error, verdict.rule.clone()))?;
        Ok(Granted {
            destination: destination.clone(),
            verdict,
            resolved,
        })
    }

    /// Security: labels under a wildcard reach that zone's own servers, so their number is bound;
    /// report mode lets any name through and is bound the same way.
    fn limit_wildcard_names(
        &self,
        rules: &Rules,
        client: &Client,
        destination: &Destination,
        verdict: &Verdict,
    ) -> Result<(), Refusal> {
        let chosen_by_client = verdict.grants.wildcard || verdict.decision == Decision::WouldDeny;
        let Some(name) = destination.host.name().filter(|_| chosen_by_client) else {
            return Ok(());
        };
        self.limiter
            .wildcard_name(&client.key, name, &rules.limits)
            .map_err(|limited| Refusal {
                rule: verdict.rule.clone(),
                retry_after: Some(limited.retry_after),
                ..Refusal::new(Reason::RateLimited)
            })
    }

    fn surroundings(&self, rules: &Rules) -> Result<Surroundings, Refusal> {
        let interfaces = interfaces::read().map_err(|error| {
            tracing::error!(%error, "cannot read this host's interfaces");
            Refusal::new(Reason::AddressBlocked)
        })?;
        Ok(Surroundings {
            interfaces,
            clients: Arc::clone(&rules.clients),
            sources: self.runs.sources(),
            listeners: self.listeners.load().iter().copied().collect(),
        })
    }

    fn still_allowed(
        &self,
        rules: &Rules,
        from: Endpoint,
        destination: &Destination,
        vetted: &VettedAddrs,
    ) -> bool {
        let Ok(client) = self.identify(rules, from) else {
            return false;
        };
        let verdict = client.policy.evaluate(destination);
        let Ok(surroundings) = self.surroundings(rules) else {
            return false;
        };
        let answer: Vec<IpAddr> = vetted.as_slice().iter().map(SocketAddr::ip).collect();
        verdict.passes()
            && rules
                .guard
                .vet(
                    &surroundings,
                    destination,
                    &answer,
                    &verdict.grants.addresses,
                )
                .is_ok()
    }

    /// Lists the exchange, makes sure that it is still allowed, and writes its opening record.
    ///
    /// Security: listed before it is checked again, so that a reload or the end of the run during
    /// the look-up either finds it in the table or is seen here.
    fn open_exchange(
        self: &Arc<Self>,
        generation: u64,
        connection: &Arc<Connection>,
        client: Client,
        (asked, granted): (Asked, Granted),
    ) -> Result<Permit, Denial> {
        let id = self.audit.new_id();
        let from = connection.from();
        let vetted = granted.resolved.vetted.clone();
        let listed = self.open.list(
            id,
            Exchange::new(
                from,
                client.subject.run.clone(),
                granted.destination.clone(),
                vetted,
            ),
        );
        let rules = self.rules.load();
        let current = self.identify(&rules, from);
        if let Err(reason) = current {
            return Err(self.refused(None, client.subject, asked, Refusal::new(reason)));
        }
        if rules.generation != generation
            && !self.still_allowed(&rules, from, &listed.destination, &listed.vetted)
        {
            let refusal = Refusal::new(Reason::NotAllowlisted);
            return Err(self.refused(Some(&client), client.subject.clone(), asked, refusal));
        }
        let decision = DecisionRecord {
            id,
            subject: client.subject.clone(),
            asked,
            decision: granted.verdict.decision,
            reason: granted.verdict.reason,
            rule: granted.verdict.rule.clone(),
            addresses: granted.resolved.answer,
            status: None,
        };
        let asked = decision.asked.clone();
        match self.audit.open_exchange(decision) {
            Ok(exchange) => Ok(Permit::new(Opened {
                listed,
                exchange,
                client,
                connection: Arc::clone(connection),
                grants: granted.verdict.grants,
                generation: rules.generation,
                limits: rules.limits.clone(),
                tasks: self.tasks.clone(),
            })),
            Err(error) => {
                tracing::error!(%error, "request refused: its decision cannot be recorded");
                let refusal = Refusal::new(Reason::AuditUnavailable);
                Err(self.refused(Some(&client), client.subject.clone(), asked, refusal))
            }
        }
    }

    /// Records a refusal and makes its denial.
    fn refused(
        &self,
        client: Option<&Client>,
        subject: Subject,
        asked: Asked,
        refusal: Refusal,
    ) -> Denial {
        let id: Id = self.audit.new_id();
        if let Some(run) = client.and_then(|client| client.run.as_ref()) {
            run.summary()
                .denied(asked.destination.as_ref(), refusal.reason);
        }
        let denial = Denial {
            reason: refusal.reason,
            id,
            run: subject.run.clone(),
            destination: asked.destination.clone(),
            detail: refusal.detail,
            retry_after: refusal.retry_after,
        };
        let silent = refusal.silent || asked.via == crate::record::Via::Sni;
        let record = DecisionRecord {
            id,
            subject,
            asked,
            decision: Decision::Deny,
            reason: refusal.reason,
            rule: refusal.rule,
            addresses: refusal.addresses,
            status: Denial::status_of(refusal.reason).filter(|_| !silent),
        };
        if let Err(error) = self.audit.refused(&record) {
            tracing::error!(%error, "a refusal cannot be recorded");
        }
        denial
    }
}

/// A name that was judged for our DNS server.
#[derive(Clone, Debug)]
pub struct QueryVerdict {
    /// Whom it is about.
    pub subject: Subject,
    /// What policy says.
    pub verdict: Verdict,
    /// The answer that the run was registered with.
    pub listener: Option<Ipv4Addr>,
}

/// A query that is not judged.
#[derive(Clone, Debug)]
pub enum QueryRefusal {
    /// Nobody we know: dropped without an answer.
    UnknownClient,
    /// More than `limits.dns_queries_per_second`.
    RateLimited(Subject),
}

fn judge<'a>(client: &Client, asked: &'a Asked) -> Result<(&'a Destination, Verdict), Refusal> {
    let Some(destination) = &asked.destination else {
        return Err(Refusal::new(Reason::BadRequest));
    };
    let verdict = client.policy.evaluate(destination);
    if verdict.passes() {
        Ok((destination, verdict))
    } else {
        Err(Refusal {
            rule: verdict.rule,
            ..Refusal::new(verdict.reason)
        })
    }
}

fn subject_of(client: &Result<Client, Reason>, from: Endpoint) -> Subject {
    match client {
        Ok(client) => client.subject.clone(),
        Err(_) => Subject {
            client: Some(from.peer),
            ..Subject::default()
        },
    }
}

fn unresolved(error: ResolveError, rule: Option<Arc<str>>) -> Refusal {
    let detail = Some(error.to_string());
    let (reason, addresses) = match error {
        ResolveError::Failed { .. } => (Reason::ResolveFailed, Vec::new()),
        ResolveError::Timeout(_) => (Reason::ResolveTimeout, Vec::new()),
        ResolveError::Blocked { blocked, answer } => {
            let reason = if blocked.is_loop {
                Reason::LoopDetected
            } else {
                Reason::AddressBlocked
            };
            (reason, answer)
        }
    };
    // Security: the agent is not told which address a name has inside.
    let detail = detail.filter(|_| addresses.is_empty());
    Refusal {
        rule,
        addresses,
        detail,
        ..Refusal::new(reason)
    }
}
