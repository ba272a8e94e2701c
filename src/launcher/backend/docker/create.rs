//! Making everything of a plan, side by side, and holding it against the plan.

use bollard::query_parameters::CreateContainerOptions;

use super::{
    Docker,
    container::{self, Container},
    error::call,
    verify,
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
        if self.engine.kind == EngineKind::Podman {
            // Measured on 5.8: it refuses `nr_inodes`, and takes a path where Docker takes a filter.
            return Err(BackendError::Unsupported(
                "Podman cannot apply the whole plan: its API has no cap on the number of files of \
                 a file system in memory, and takes a system call filter only as a path of its \
                 own host; use Docker"
                    .to_owned(),
            ));
        }
        let network = async {
            match &plan.network {
                Network::None | Network::Named { .. } => Ok(()),
                Network::Slice(slice) => self.create_slice(plan, slice, proxy).await,
            }
        };
        let (network, containers) = tokio::join!(network, self.create_containers(plan));
        network.and(containers)
    }

    async fn create_containers(&self, plan: &Plan) -> Result<(), BackendError> {
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
            .map(|volume| self.create_volume(plan, volume));
        // Security: before the containers; an engine makes a missing volume itself, without a size.
        for made in futures_util::future::join_all(volumes).await {
            made?;
        }
        let holder = async {
            match &plan.holder {
                Some(holder) => self.start_holder(plan, holder).await,
                None => Ok(()),
            }
        };
        let sandbox = async { self.create_container(&container::sandbox(plan)?).await };
        let (holder, sandbox) = tokio::join!(holder, sandbox);
        holder.and(sandbox)
    }

    /// Makes a container and holds it against what was asked for; its network need not exist yet.
    pub(super) async fn create_container(&self, container: &Container) -> Result<(), BackendError> {
        let Container { name, body } = container;
        let options = CreateContainerOptions {
            name: Some(name.clone()),
            platform: String::new(),
        };
        let made = call(self.client.create_container(Some(options), body.clone()))
            .await
            .map_err(|error| error.during(format!("create container {name}")))?;
        verify::warnings(&made.warnings)?;
        let got = call(self.client.inspect_container(&made.id, None))
            .await
            .map_err(|error| error.during(format!("inspect container {name}")))?;
        verify::compare(container, &got)
    }
}
