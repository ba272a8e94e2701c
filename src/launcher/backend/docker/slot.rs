//! Slots: made ahead, and held against their plan by whoever claims one.

use std::collections::{BTreeMap, HashMap};

use bollard::models::{ContainerInspectResponse, Volume as EngineVolume};

use super::{Docker, container, error::call, network::Members, verify, volume};
use crate::launcher::{
    backend::{BackendError, Proxy},
    plan::{Labels, Slot},
};

impl Docker {
    /// Makes every part of a slot. What was begun has ended when this returns.
    pub(super) async fn make_all_of(
        &self,
        slot: &Slot,
        labels: &Labels,
        proxy: &Proxy,
    ) -> Result<(), BackendError> {
        let labels = labels.to_map();
        // Security: before the holder; an engine makes a missing volume itself, without a size.
        let (network, volume) = tokio::join!(
            self.create_network(&labels, &slot.slice, proxy),
            self.create_volume(&labels, &slot.volume)
        );
        network.and(volume)?;
        let holder = container::holder(&labels, &slot.holder, &proxy.image)?;
        self.start_holder(&holder).await?;
        self.check_slot(slot, &labels, proxy).await.map(drop)
    }

    /// Holds a slot as the engine has it against its plan, as for a run that bears `labels`, and
    /// gives the id of its holder.
    pub(super) async fn check_slot(
        &self,
        slot: &Slot,
        labels: &BTreeMap<String, String>,
        proxy: &Proxy,
    ) -> Result<String, BackendError> {
        let name = &slot.holder.name;
        let inspect = |what: &str| format!("inspect {what}");
        let holder = call(self.client.inspect_container(name, None));
        let kept = call(self.client.inspect_volume(&slot.volume.name));
        let network = self.network(&slot.slice.name);
        let (network, holder, kept) = tokio::join!(network, holder, kept);
        let network = network?;
        let holder = holder.map_err(|error| error.during(inspect(name)))?;
        let kept = kept.map_err(|error| error.during(inspect(&slot.volume.name)))?;
        let own = network.labels.clone().unwrap_or_default();
        let own = own_labels(slot, own, labels)?;
        let id = holder.id.clone().unwrap_or_default();
        let members: Members<'_> = &[(&proxy.id, slot.slice.proxy), (&id, slot.slice.sandbox)];
        self.hold_network(&own, &slot.slice, &network, members)?;
        verify::compare(
            &container::holder(&own, &slot.holder, &proxy.image)?,
            &holder,
        )?;
        is_up(name, &holder)?;
        self.hold_volume(slot, &own, &kept)?;
        Ok(id)
    }

    fn hold_volume(
        &self,
        slot: &Slot,
        labels: &BTreeMap<String, String>,
        got: &EngineVolume,
    ) -> Result<(), BackendError> {
        let asked = volume::request(labels, &slot.volume, self.engine.kind);
        volume::hold(&asked, got)
    }
}

/// The labels of a slot's parts: only its maker knew all of them, but whose it is and which are told
/// by its id and by who claims it.
fn own_labels(
    slot: &Slot,
    got: HashMap<String, String>,
    claimer: &BTreeMap<String, String>,
) -> Result<BTreeMap<String, String>, BackendError> {
    let got: BTreeMap<String, String> = got.into_iter().collect();
    let owner = claimer.get(Labels::OWNER);
    let is_own = Labels::from_map(&got)
        .is_some_and(|labels| labels.is_slot() && labels.run == slot.id)
        && got.get(Labels::OWNER) == owner;
    if is_own {
        return Ok(got);
    }
    Err(BackendError::NotApplied {
        what: format!("network {}: Labels", slot.slice.name),
        planned: format!("slot {} of {}", slot.id, owner.map_or("", String::as_str)),
        got: format!("{got:?}"),
    })
}

/// Holds that a holder runs, without which it keeps nothing.
fn is_up(name: &str, holder: &ContainerInspectResponse) -> Result<(), BackendError> {
    let state = holder.state.as_ref();
    let is_running = state.is_some_and(|state| {
        state.running == Some(true) && state.paused != Some(true) && state.restarting != Some(true)
    });
    if is_running {
        return Ok(());
    }
    Err(BackendError::NotApplied {
        what: format!("container {name}"),
        planned: "that it runs".to_owned(),
        got: "that it does not".to_owned(),
    })
}
