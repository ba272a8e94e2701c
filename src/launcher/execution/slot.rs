//! A run whose network was made ahead of it.

use super::{Execution, setup::Ground};
use crate::launcher::{
    LaunchError,
    backend::{Backend, Image},
    plan::{InputFacts, claim, fits_slot},
    pool::{self, Claimed},
};

impl<B: Backend> Execution<'_, B> {
    /// Claims a slot, where there is a pool, and makes the rest; whether the run is there now. A slot
    /// that is not as it was planned stays claimed, so that nobody else gets it.
    pub(super) async fn create_at_slot(
        &mut self,
        image: &Image,
        input: Option<&InputFacts>,
    ) -> Result<bool, LaunchError> {
        let Some(claimed) = self.claim().await else {
            return Ok(false);
        };
        let id = claimed.id.clone();
        let planned = self.plan(image, input.cloned(), Ground::Slot(claimed));
        let made = match planned {
            Ok(plan) => {
                self.plan = Some(plan);
                self.make().await
            }
            Err(error) => Err(error),
        };
        match made {
            Ok(()) => {
                self.record.slot = Some(id.to_string());
                Ok(true)
            }
            Err(error) => {
                let why = format!("slot {id} of the pool was not used: {error}");
                self.record.warnings.push(why);
                self.remove().await;
                Ok(false)
            }
        }
    }

    async fn claim(&mut self) -> Option<Claimed> {
        let proxy = self.proxy.as_ref()?;
        if !fits_slot(self.spec) || pool::size(self.settings, proxy).is_none() {
            return None;
        }
        let pool = pool::name(&self.settings.owner);
        let request = claim(self.spec, Some(&pool));
        let line = self.registered_run()?.claim(&request).await?;
        // From here on the proxy knows the run, whatever comes of it.
        self.registered = true;
        self.clock.mark("claimed");
        let claimed = Claimed::read(&line);
        if claimed.is_none() {
            self.deregister().await;
        }
        claimed
    }
}
