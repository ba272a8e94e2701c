//! Whether all is well, told truthfully: bound, able to record, and not draining.

use std::sync::{
    Mutex, OnceLock, PoisonError,
    atomic::{AtomicBool, Ordering},
};

use serde::Serialize;

use super::Bound;
use crate::{config::Config, egress::Authorizer, policy::Mode};

/// What health is judged by besides the audit log.
#[derive(Debug, Default)]
pub struct Health {
    bound: OnceLock<Bound>,
    in_force: Mutex<InForce>,
    reload_problem: Mutex<Option<String>>,
    draining: AtomicBool,
}

/// What is told of the configuration in force.
#[derive(Clone, Debug, Default)]
struct InForce {
    fingerprint: String,
    warnings: Vec<String>,
}

/// The answer of `GET /healthz`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Report {
    /// `ok`, or what is wrong: `starting`, `audit_unavailable`, `draining`.
    pub status: &'static str,
    /// The package version.
    pub version: &'static str,
    /// The name of the host, or of the container, that this is: who reaches a socket by a path can
    /// tell by it whose socket that is.
    pub hostname: String,
    /// The fingerprint of the configuration in force.
    pub config: String,
    /// Counts the configurations that were in force since the start.
    pub generation: u64,
    /// The profiles in report mode, through which data can leave by name.
    pub report_mode: Vec<String>,
    /// What was warned about at the start or the last reload.
    pub warnings: Vec<String>,
    /// Why the last reload failed; the configuration before it is still in force.
    pub reload_problem: Option<String>,
    /// What the proxy listens on.
    pub listeners: Bound,
}

impl Report {
    /// Whether `GET /healthz` answers 200.
    pub fn is_ok(&self) -> bool {
        self.status == "ok"
    }
}

impl Health {
    /// Every listener is bound.
    pub fn set_bound(&self, bound: Bound) {
        drop(self.bound.set(bound));
    }

    /// The drain began.
    pub fn set_draining(&self) {
        self.draining.store(true, Ordering::Relaxed);
    }

    /// A configuration came into force.
    pub fn set_config(&self, config: &Config) {
        *self.in_force.lock().unwrap_or_else(PoisonError::into_inner) = InForce {
            fingerprint: config.fingerprint.clone(),
            warnings: config.warnings.clone(),
        };
    }

    /// How the last reload went.
    pub fn set_reload(&self, problem: Option<String>) {
        *self
            .reload_problem
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = problem;
    }

    /// The state now.
    pub fn report(&self, authorizer: &Authorizer) -> Report {
        let status = if self.draining.load(Ordering::Relaxed) {
            "draining"
        } else if self.bound.get().is_none() {
            "starting"
        } else if authorizer.audit().is_writable() {
            "ok"
        } else {
            "audit_unavailable"
        };
        let InForce {
            fingerprint,
            warnings,
        } = self
            .in_force
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        Report {
            status,
            version: env!("CARGO_PKG_VERSION"),
            hostname: hostname(),
            config: fingerprint,
            generation: authorizer.generation(),
            report_mode: authorizer.profiles_in(Mode::Report),
            warnings,
            reload_problem: self
                .reload_problem
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .clone(),
            listeners: self.bound.get().cloned().unwrap_or_default(),
        }
    }
}

fn hostname() -> String {
    rustix::system::uname()
        .nodename()
        .to_string_lossy()
        .into_owned()
}
