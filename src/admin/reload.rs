//! Reload: all or nothing. A configuration with a problem changes nothing and is said to be one.

use std::{
    error::Error,
    sync::{Arc, Mutex, PoisonError},
};

use super::health::Health;
use crate::{config::Config, egress::Authorizer, record::Notice};

/// Reads the configuration anew, from wherever it came at the start.
pub type Load = Box<dyn Fn() -> Result<Config, Box<dyn Error + Send + Sync>> + Send + Sync>;

/// Why a reload changed nothing.
#[derive(Debug, thiserror::Error)]
pub enum ReloadError {
    /// There is no valid configuration.
    #[error("{0}")]
    Load(Box<dyn Error + Send + Sync>),
    /// It changes what is fixed from the start.
    #[error("these keys need a restart: {}", .0.join(", "))]
    NeedsRestart(Vec<&'static str>),
}

/// What a reload did.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Reloaded {
    /// The generation in force.
    pub generation: u64,
    /// What changed, one line each.
    pub changes: Vec<String>,
    /// Exchanges cut because they are no longer allowed.
    pub cut: usize,
}

/// Reads the configuration again and puts it in force.
pub struct Reloader {
    load: Load,
    current: Mutex<Config>,
    authorizer: Arc<Authorizer>,
    health: Arc<Health>,
}

impl Reloader {
    /// A reloader for an app that runs under `current`, which `load` gave.
    pub fn new(
        load: Load,
        current: Config,
        authorizer: Arc<Authorizer>,
        health: Arc<Health>,
    ) -> Self {
        Self {
            load,
            current: Mutex::new(current),
            authorizer,
            health,
        }
    }

    /// Reloads. One at a time; the outcome is logged, recorded, and part of health.
    ///
    /// # Errors
    /// Nothing was changed.
    pub fn reload(&self) -> Result<Reloaded, ReloadError> {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        let outcome = (self.load)().map_err(ReloadError::Load).and_then(|new| {
            let fixed = current.restart_needed(&new);
            if fixed.is_empty() {
                Ok(new)
            } else {
                Err(ReloadError::NeedsRestart(fixed))
            }
        });
        match outcome {
            Ok(new) => {
                let changes = current.changes(&new);
                let (generation, cut) = self.authorizer.reload(&new);
                self.health.set_config(&new);
                *current = new;
                self.succeeded(generation, &changes, cut);
                Ok(Reloaded {
                    generation,
                    changes,
                    cut,
                })
            }
            Err(error) => {
                self.failed(&error);
                Err(error)
            }
        }
    }

    fn succeeded(&self, generation: u64, changes: &[String], cut: usize) {
        self.health.set_reload(None);
        for change in changes {
            tracing::info!(generation, %change, "configuration changed");
        }
        tracing::info!(
            generation,
            changes = changes.len(),
            cut,
            "configuration reloaded"
        );
        self.record(&Notice::Reload {
            generation,
            changes: changes.to_vec(),
            applied: true,
        });
    }

    fn failed(&self, error: &ReloadError) {
        let generation = self.authorizer.generation();
        tracing::error!(%error, generation, "reload refused; the configuration before stays");
        self.health.set_reload(Some(error.to_string()));
        let changes = error.to_string().lines().map(str::to_owned).collect();
        self.record(&Notice::Reload {
            generation,
            changes,
            applied: false,
        });
    }

    fn record(&self, notice: &Notice) {
        if let Err(error) = self.authorizer.audit().notice(notice) {
            tracing::error!(%error, "a reload cannot be recorded");
        }
    }
}
