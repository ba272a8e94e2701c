//! Making everything of a plan, side by side, and holding it against the plan.

use bollard::query_parameters::CreateContainerOptions;

use super::{
    Docker,
    container::{self, Container},
    error::call,
    network::no_proxy,
    podman, verify,
};
use crate::launcher::{
    backend::{BackendError, EngineKind, Proxy},
    plan::{Network, Plan},
};

impl Docker {
    /// Makes the parts of a plan. Each is awaited also when another has failed: an engine ends what
    /// it has begun, and a removal that came before would miss it.
    pub(super) async fn create_all(
        &self,
        plan: &Plan,
        proxy: Option<&Proxy>,
    ) -> Result<(), BackendError> {
        self.check_podman(plan).await?;
        let sandbox = container::sandbox(plan)?;
        let network = async {
            match &plan.network {
                Network::None | Network::Slot(_) | Network::Named { .. } => Ok(()),
                Network::Slice(slice) => self.create_slice(plan, slice, proxy).await,
            }
        };
        if let Network::Slot(slot) = &plan.network {
            let proxy = proxy.ok_or_else(no_proxy)?;
            let holder = self.check_slot(slot, &plan.labels, proxy).await?;
            // Security: by the id of what was checked, not by a name that another could have by now.
            let sandbox = sandbox.joining(&holder);
            return Box::pin(self.create_containers(plan, &sandbox)).await;
        }
        let containers = Box::pin(self.create_containers(plan, &sandbox));
        let (network, containers) = tokio::join!(network, containers);
        network.and(containers)
    }

    async fn create_containers(
        &self,
        plan: &Plan,
        sandbox: &Container,
    ) -> Result<(), BackendError> {
        if let Network::Named {
            name,
            dangerously_allow,
        } = &plan.network
        {
            self.check_named(name, *dangerously_allow).await?;
        }
        let volumes = plan
            .volumes
            .iter()
            .map(|volume| self.create_volume(&plan.labels, volume));
        // Security: before the containers; an engine makes a missing volume itself, without a size.
        for made in futures_util::future::join_all(volumes).await {
            made?;
        }
        let holder = async {
            match &plan.holder {
                Some(holder) => {
                    let image = self.own_image().await?;
                    let holder = container::holder(&plan.labels, holder, &image)?;
                    self.start_holder(&holder).await
                }
                None => Ok(()),
            }
        };
        let sandbox = self.create_container(sandbox);
        let (holder, sandbox) = tokio::join!(holder, sandbox);
        holder.and(sandbox)
    }

    /// Makes a container and holds it against what was asked for; its network need not exist yet.
    pub(super) async fn create_container(&self, container: &Container) -> Result<(), BackendError> {
        let name = &container.name;
        let body = match self.engine.kind {
            EngineKind::Docker => container.body.clone(),
            EngineKind::Podman => podman::told(container),
        };
        let options = CreateContainerOptions {
            name: Some(name.clone()),
            platform: String::new(),
        };
        let made = call(self.client.create_container(Some(options), body))
            .await
            .map_err(|error| podman::not_created(name, error))?;
        verify::warnings(&made.warnings)?;
        let got = call(self.client.inspect_container(&made.id, None))
            .await
            .map_err(|error| error.during(format!("inspect container {name}")))?;
        let got = match self.engine.kind {
            EngineKind::Docker => got,
            EngineKind::Podman => podman::heard(container, got),
        };
        verify::compare(&container.made_as(&made.id), &got)
    }
}
