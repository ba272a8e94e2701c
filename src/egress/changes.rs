//! What changes while exchanges are open: the configuration, and which runs there are. What is no
//! longer allowed is cut.

use std::sync::Arc;

use super::{Authorizer, Registration, RegistrationError, Rules, Slot, SlotError, runs};
use crate::{
    config::Config,
    record::{NetworkSummary, Outcome, RunId},
};

impl Authorizer {
    /// Puts a new configuration in force and cuts what it no longer allows. Returns the new
    /// generation and how many exchanges were cut.
    pub fn reload(&self, config: &Config) -> (u64, usize) {
        let generation = self.generation() + 1;
        let rules = Arc::new(Rules::new(config, generation));
        self.rules.store(Arc::clone(&rules));
        self.runs.recompile(&rules.policies);
        let cut = self.open.cut_where(Outcome::PolicyChanged, |exchange| {
            self.judge_again(&rules, exchange).is_err()
        });
        (generation, cut)
    }

    /// Registers a run, or renews it; what a changed registration no longer allows is cut.
    pub fn register(&self, registration: Registration) -> Result<(), RegistrationError> {
        let run = registration.run.clone();
        let load = || self.rules.load_full();
        if self.runs.register(registration, load, &self.audit)? {
            let rules = self.rules.load();
            self.open.cut_where(Outcome::PolicyChanged, |exchange| {
                exchange.run.as_ref() == Some(&run) && self.judge_again(&rules, exchange).is_err()
            });
        }
        Ok(())
    }

    /// Registers a run at the addresses of an idle slot of `pool`, and gives that slot; the run's own
    /// sources and listener are not looked at.
    pub fn claim(&self, pool: &Arc<str>, asked: &Registration) -> Result<Slot, SlotError> {
        let register = |slot: &Slot| self.register(slot.registration(asked));
        self.slots.claim(pool, &asked.run, register)
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
    pub async fn remove_run(&self, id: &RunId) -> Option<NetworkSummary> {
        let run = self.runs.begin_removal(id)?;
        let cut = self.cut_run(&run);
        self.open
            .closed(|exchange| exchange.run.as_ref() == Some(id))
            .await;
        self.runs.finish_removal(&run, cut, &self.audit);
        self.slots.release(id);
        Some(NetworkSummary {
            audit_head: Some(self.audit.head().head),
            ..run.summary().network()
        })
    }

    fn cut_run(&self, run: &runs::Run) -> usize {
        self.open.cut_where(Outcome::RunEnded, |exchange| {
            exchange.run.as_ref() == Some(run.id())
        })
    }
}
