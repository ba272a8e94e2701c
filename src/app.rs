//! `App::bind` opens everything or nothing; `App::run` serves until told to stop. The composition
//! root: the only place that knows every part.

pub mod descriptors;

mod accepting;
mod listeners;

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use self::listeners::Listeners;
use crate::{
    admin::{Admin, Bound, Health, Reloader, SocketError, reload::Load},
    audit::{AuditError, AuditLog},
    config::Config,
    drain::Tasks,
    egress::Authorizer,
    proxy::Proxy,
    record::Notice,
    resolver::{Lookup, Resolver},
    workers::{self, Workers},
};

/// How often expiries and folded records are looked after.
const TICK: Duration = Duration::from_secs(1);

/// How long the admin socket may take to finish its last answers.
const ADMIN_DRAIN: Duration = Duration::from_secs(2);

/// Everything bound, nothing served yet.
pub struct App {
    listeners: Listeners,
    proxy: Arc<Proxy>,
    admin: Admin,
    drain_timeout: Duration,
    /// Client connections and their exchanges.
    tasks: Tasks,
    /// The admin socket, which answers to the end.
    admin_tasks: Tasks,
    /// Where client connections are served; all else is on the runtime of the caller.
    workers: Workers,
}

/// Why the app cannot start.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// The configuration has no listener for clients.
    #[error("[listen] names no proxy, dns, https or http address: there is nothing to serve")]
    NothingToServe,
    /// The process may not open enough files.
    #[error(transparent)]
    Descriptors(#[from] descriptors::DescriptorError),
    /// No thread for each core.
    #[error("cannot start a thread for each core")]
    Workers(#[source] io::Error),
    /// An address is taken or not ours.
    #[error("cannot bind listen.{listener} {address}: {source}")]
    Listener {
        /// The key under `[listen]`.
        listener: &'static str,
        /// The address.
        address: SocketAddr,
        /// What the kernel says.
        source: io::Error,
    },
    /// The admin socket.
    #[error("cannot bind listen.admin")]
    Admin(#[from] SocketError),
    /// The audit log.
    #[error("cannot open the audit log")]
    Audit(#[from] AuditError),
}

/// What tells a running app to stop or to reload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// Read the configuration again.
    Reload,
    /// Drain, then stop; the second time, stop at once.
    Stop,
}

impl App {
    /// Opens the audit log and binds every listener of `config`, which `load` reads again.
    ///
    /// # Errors
    /// The first thing that cannot be had; nothing is served then.
    pub async fn bind(
        config: Config,
        load: Load,
        lookup: Arc<dyn Lookup>,
    ) -> Result<Self, BindError> {
        let cores = workers::count();
        let capacity = descriptors::fit(config.limits.connections, cores)?;
        let workers = Workers::start(cores).map_err(BindError::Workers)?;
        let listeners = Listeners::bind(&config, workers.all()).await?;
        let addresses: Vec<SocketAddr> =
            listeners.bound.all().map(|(_, address)| address).collect();

        let audit = AuditLog::open(&config.audit, config.limits.denials_recorded_per_minute)?;
        audit.notice(&Notice::Start {
            version: env!("CARGO_PKG_VERSION"),
            listeners: addresses.clone(),
        })?;
        let tasks = Tasks::new();
        let resolver = Resolver::new(lookup, config.resolver.timeout);
        let authorizer = Arc::new(Authorizer::new(
            &config,
            capacity,
            resolver,
            audit,
            tasks.clone(),
        ));
        authorizer.set_listeners(addresses);
        let health = Arc::new(Health::default());
        health.set_config(&config);
        let drain_timeout = config.limits.drain_timeout;
        let reloader = Reloader::new(load, config, Arc::clone(&authorizer), Arc::clone(&health));
        Ok(Self {
            listeners,
            proxy: Proxy::new(Arc::clone(&authorizer), tasks.clone()),
            admin: Admin {
                authorizer,
                reloader: Arc::new(reloader),
                health,
            },
            drain_timeout,
            tasks,
            admin_tasks: Tasks::new(),
            workers,
        })
    }

    /// The addresses that are bound.
    pub fn bound(&self) -> &Bound {
        &self.listeners.bound
    }

    /// Serves until `signals` says stop (or ends), then drains.
    pub async fn run(self, mut signals: tokio::sync::mpsc::Receiver<Signal>) {
        let Self {
            listeners,
            proxy,
            admin,
            drain_timeout,
            tasks,
            admin_tasks,
            workers,
        } = self;
        let authorizer = Arc::clone(&admin.authorizer);
        accepting::accept(listeners.roads, &proxy, &tasks, &workers);
        for server in listeners.dns {
            tasks.spawn(server.run(Arc::clone(&authorizer), tasks.clone()));
        }
        if let Some(listener) = listeners.metrics {
            admin_tasks.spawn(admin.clone().serve_metrics(listener, admin_tasks.clone()));
        }
        let socket_path = listeners.socket.map(|(socket, path)| {
            admin_tasks.spawn(admin.clone().serve(socket, admin_tasks.clone()));
            path
        });
        admin.health.set_bound(listeners.bound);
        let (audit, stopping) = (Arc::clone(authorizer.audit()), tasks.stopping().clone());
        tasks.spawn(async move { audit.hold_closes(&stopping).await });

        let mut tick = tokio::time::interval(TICK);
        loop {
            tokio::select! {
                _ = tick.tick() => look_after(&authorizer),
                signal = signals.recv() => match signal {
                    // Success and failure are logged, recorded and part of health.
                    Some(Signal::Reload) => drop(admin.reloader.reload()),
                    Some(Signal::Stop) | None => break,
                },
            }
        }
        admin.health.set_draining();
        tracing::info!(open = authorizer.open_exchanges(), "draining");
        drain(&tasks, drain_timeout, &authorizer, &mut signals).await;
        admin_tasks.drain(ADMIN_DRAIN).await;
        if let Some(Err(error)) = socket_path.map(std::fs::remove_file) {
            tracing::warn!(%error, "cannot remove the admin socket");
        }
        authorizer.audit().flush();
        if let Err(error) = authorizer.audit().notice(&Notice::Stop) {
            tracing::error!(%error, "the stop cannot be recorded");
        }
        // Nothing runs on them any more but what nobody waits for.
        drop(workers);
        tracing::info!("stopped");
    }
}

/// Drains within `limit`, or at once when told to stop again; folded records go on being written.
async fn drain(
    tasks: &Tasks,
    limit: Duration,
    authorizer: &Authorizer,
    signals: &mut tokio::sync::mpsc::Receiver<Signal>,
) {
    let drained = tasks.drain(limit);
    tokio::pin!(drained);
    let mut tick = tokio::time::interval(TICK);
    let mut listening = true;
    loop {
        tokio::select! {
            () = &mut drained => return,
            _ = tick.tick() => look_after(authorizer),
            signal = signals.recv(), if listening => match signal {
                Some(Signal::Stop) => tasks.forced().cancel(),
                Some(Signal::Reload) => {}
                None => listening = false,
            },
        }
    }
}

fn look_after(authorizer: &Authorizer) {
    authorizer.expire_runs();
    authorizer.audit().flush();
}
