//! Removing what a run made, and what a dead launcher left.

use std::{collections::HashMap, time::Duration};

use bollard::{
    models::NetworkDisconnectRequest,
    query_parameters::{
        ListContainersOptions, ListNetworksOptions, ListVolumesOptions, RemoveContainerOptions,
        RemoveVolumeOptions,
    },
};
use tokio::time::Instant;

use super::{
    Docker,
    error::{CallError, call, settled},
};
use crate::launcher::{
    backend::{BackendError, Object, ObjectKind, Proxy},
    plan::{Labels, Network, Plan},
};

/// How long a removal is tried that the engine refuses because something else goes on.
const LIMIT: Duration = Duration::from_secs(10);

/// How long it waits between two tries.
const RETRY: Duration = Duration::from_millis(100);

impl Docker {
    /// Removes everything of a plan: what fails is reported, and the rest still removed. Of a slot
    /// what nothing of the run is in stays, for `eclusa keep`: its network, and its volume where the
    /// run had no use for it.
    pub(super) async fn remove_all(
        &self,
        plan: &Plan,
        proxy: Option<&Proxy>,
    ) -> Result<(), BackendError> {
        let slice = match &plan.network {
            Network::Slice(slice) => Some(slice.name.as_str()),
            Network::None | Network::Slot(_) | Network::Named { .. } => None,
        };
        let slot = match &plan.network {
            Network::Slot(slot) => Some(&**slot),
            Network::None | Network::Slice(_) | Network::Named { .. } => None,
        };
        let used = slot.filter(|slot| plan.sandbox.has_volume(&slot.volume.name));
        let holder = async {
            match used.map(|slot| &slot.holder).or(plan.holder.as_ref()) {
                Some(holder) => self.remove_container(&holder.name).await,
                None => Ok(false),
            }
        };
        let detached = async {
            match (slice, proxy) {
                (Some(slice), Some(proxy)) => self.detach(slice, &proxy.id).await,
                _ => Ok(false),
            }
        };
        let sandbox = self.remove_container(&plan.sandbox.name);
        let (sandbox, holder, detached) = tokio::join!(sandbox, holder, detached);
        let network = async {
            match slice {
                Some(slice) => self.remove_network(slice, slice).await,
                None => Ok(false),
            }
        };
        let volumes = plan.volumes.iter().chain(used.map(|slot| &slot.volume));
        let volumes = futures_util::future::join_all(volumes.map(|v| self.remove_volume(&v.name)));
        let (network, volumes) = tokio::join!(network, volumes);
        let outcomes = [sandbox, holder, detached, network];
        let outcomes = outcomes.into_iter().chain(volumes);
        together(outcomes.filter_map(Result::err).collect())
    }

    /// Every object that bears the label of a run.
    pub(super) async fn labelled(&self) -> Result<Vec<Object>, BackendError> {
        let filters = HashMap::from([("label".to_owned(), vec![Labels::RUN.to_owned()])]);
        let containers = ListContainersOptions {
            all: true,
            filters: Some(filters.clone()),
            ..ListContainersOptions::default()
        };
        let networks = ListNetworksOptions {
            filters: Some(filters.clone()),
        };
        let volumes = ListVolumesOptions {
            filters: Some(filters),
        };
        let (containers, networks, volumes) = tokio::join!(
            settled(|| self.client.list_containers(Some(containers.clone()))),
            call(self.client.list_networks(Some(networks))),
            call(self.client.list_volumes(Some(volumes))),
        );
        let failed = |error: CallError| error.during("list what earlier runs left");
        let containers = containers.map_err(failed)?.into_iter().map(|container| {
            let name = container.names.into_iter().flatten().next();
            let name = name.map(|name| name.trim_start_matches('/').to_owned());
            object(ObjectKind::Container, container.id, name, container.labels)
        });
        let networks = networks.map_err(failed)?.into_iter().map(|network| {
            object(
                ObjectKind::Network,
                network.id,
                network.name,
                network.labels,
            )
        });
        let volumes = volumes.map_err(failed)?.volumes.unwrap_or_default();
        let volumes = volumes.into_iter().map(|volume| {
            let name = Some(volume.name);
            object(ObjectKind::Volume, name.clone(), name, Some(volume.labels))
        });
        let mut objects: Vec<Object> = containers
            .chain(networks)
            .chain(volumes)
            .flatten()
            .collect();
        objects.sort_by_key(|object| object.kind);
        Ok(objects)
    }

    /// Removes one of them, and says whether it was still there.
    pub(super) async fn remove_object(&self, object: &Object) -> Result<bool, BackendError> {
        match object.kind {
            ObjectKind::Container => self.remove_container(&object.id).await,
            ObjectKind::Network => self.remove_network(&object.id, &object.name).await,
            ObjectKind::Volume => self.remove_volume(&object.id).await,
        }
    }

    /// Kills and removes a container, with the volumes that only it has; says whether it was there.
    pub(super) async fn remove_container(&self, name: &str) -> Result<bool, BackendError> {
        let options = RemoveContainerOptions {
            v: true,
            force: true,
            link: false,
        };
        persist(|| self.client.remove_container(name, Some(options.clone())))
            .await
            .map_err(|error| error.during(format!("remove container {name}")))
    }

    async fn remove_volume(&self, name: &str) -> Result<bool, BackendError> {
        let options = RemoveVolumeOptions { force: false };
        persist(|| self.client.remove_volume(name, Some(options.clone())))
            .await
            .map_err(|error| error.during(format!("remove volume {name}")))
    }

    /// Removes a network; what is attached to it is detached where that is in the way, and so is
    /// what is stopped: it could not be started without the network.
    async fn remove_network(&self, id: &str, name: &str) -> Result<bool, BackendError> {
        let failed = |error: CallError| error.during(format!("remove network {name}"));
        // By its name too: what was never started knows no id.
        let either = vec![id.to_owned(), name.to_owned()];
        let filters = HashMap::from([("network".to_owned(), either)]);
        let options = ListContainersOptions {
            all: true,
            filters: Some(filters),
            ..ListContainersOptions::default()
        };
        let members = call(self.client.list_containers(Some(options))).await;
        for member in members.map_err(failed)?.into_iter().filter_map(|c| c.id) {
            self.detach(id, &member).await?;
        }
        persist(|| self.client.remove_network(id))
            .await
            .map_err(failed)
    }

    /// Takes a container from a network, on which it may not be.
    async fn detach(&self, network: &str, container: &str) -> Result<bool, BackendError> {
        let request = NetworkDisconnectRequest {
            container: container.to_owned(),
            force: Some(true),
        };
        persist(|| self.client.disconnect_network(network, request.clone()))
            .await
            .map_err(|error| error.during(format!("detach {container} from {network}")))
    }
}

fn object(
    kind: ObjectKind,
    id: Option<String>,
    name: Option<String>,
    labels: Option<HashMap<String, String>>,
) -> Option<Object> {
    Some(Object {
        kind,
        id: id?,
        name: name.unwrap_or_default(),
        labels: labels.unwrap_or_default().into_iter().collect(),
    })
}

/// Removes until it is gone, and says whether it was there and nobody else removed it: an engine
/// refuses while something is still in use, or while another removal of it goes on.
async fn persist<F>(mut removal: impl FnMut() -> F) -> Result<bool, CallError>
where
    F: Future<Output = Result<(), bollard::errors::Error>>,
{
    let limit = Instant::now() + LIMIT;
    let mut refused = false;
    // Of two that reap the same orphan one says so, and records it.
    let mut is_anothers = false;
    loop {
        match call(removal()).await {
            Ok(()) => return Ok(true),
            Err(error) if error.is_missing() || error.says("is not connected") => {
                return Ok(refused && !is_anothers);
            }
            Err(error @ CallError::Answer { .. }) if Instant::now() < limit => {
                refused = true;
                is_anothers |= error.says("already in progress");
                tokio::time::sleep(RETRY).await;
            }
            Err(error) => return Err(error),
        }
    }
}

/// Several failures as one.
fn together(mut errors: Vec<BackendError>) -> Result<(), BackendError> {
    match (errors.pop(), errors.is_empty()) {
        (None, _) => Ok(()),
        (Some(only), true) => Err(only),
        (Some(last), false) => {
            errors.push(last);
            let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
            Err(BackendError::Refused {
                doing: "remove what the run made".to_owned(),
                why: texts.join("; "),
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use bollard::errors::Error;

    use super::*;

    fn refusal(status_code: u16, message: &str) -> Result<(), Error> {
        Err(Error::DockerResponseServerError {
            status_code,
            message: message.to_owned(),
        })
    }

    #[tokio::test(start_paused = true)]
    async fn a_removal_goes_on_until_it_is_done_or_ten_seconds_are_over() {
        let in_use = || refusal(409, "removal of container a is already in progress");
        for (answers, expected) in [
            (vec![Ok(())], Ok(true)),
            (vec![refusal(404, "no such container")], Ok(false)),
            (
                vec![refusal(500, "a is not connected to network b")],
                Ok(false),
            ),
            (
                vec![in_use(), in_use(), refusal(404, "no such container")],
                Ok(false),
            ),
            (
                vec![
                    refusal(500, "device or resource busy"),
                    refusal(404, "no such container"),
                ],
                Ok(true),
            ),
            (vec![in_use(), Ok(())], Ok(true)),
            (
                vec![in_use(), Err(Error::RequestTimeoutError)],
                Err("no answer within 120 s"),
            ),
        ] {
            let mut answers = answers.into_iter();
            let outcome = persist(|| std::future::ready(answers.next().unwrap())).await;
            let outcome = outcome.map_err(|error| error.to_string());
            assert_eq!(outcome, expected.map_err(str::to_owned));
        }
        let begun = Instant::now();
        let outcome = persist(|| std::future::ready(in_use())).await;
        assert!(outcome.unwrap_err().says("already in progress"));
        assert_eq!(begun.elapsed(), LIMIT);
    }

    #[test]
    fn every_failure_is_told() {
        let failure = |doing: &str| BackendError::Refused {
            doing: doing.to_owned(),
            why: "in use".to_owned(),
        };
        together(Vec::new()).unwrap();
        let one = together(vec![failure("remove a")]).unwrap_err();
        assert_eq!(one.to_string(), "failed to remove a: in use");
        let two = together(vec![failure("remove a"), failure("remove b")]).unwrap_err();
        assert_eq!(
            two.to_string(),
            "failed to remove what the run made: failed to remove a: in use; failed to remove b: \
             in use"
        );
    }
}
