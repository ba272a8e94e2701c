//! A proxy container as an engine tells of it.

use std::{collections::HashMap, path::PathBuf, time::Duration};

use bollard::{
    container::LogOutput,
    models::{ContainerInspectResponse, ContainerStateStatusEnum as Status, MountPoint},
    query_parameters::{ListContainersOptions, LogsOptions, RemoveContainerOptions},
};
use futures_util::StreamExt;

use super::{
    super::{
        Docker,
        error::{CallError, call},
    },
    Whose,
};
use crate::launcher::{
    backend::BackendError,
    proxy::{ADMIN_SOCKET, IMAGE_LABEL, NAME, ProxyVolume, ROLE, UPLINK},
};

/// The most of a container's log that an error carries, in bytes.
const MOST_LOG: usize = 4096;

/// What engines wait where a container says nothing.
const DEFAULT_STOP: Duration = Duration::from_secs(10);

/// A container that is, was or will be the proxy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) hostname: String,
    /// The image's id.
    pub(super) image: String,
    pub(super) stage: Stage,
    /// How often its engine started it again since it was made.
    pub(super) restarts: i64,
    /// How long its engine waits for its end before it kills it.
    pub(super) stop_timeout: Duration,
    /// Where its admin socket is on the engine's host.
    pub(super) socket: Option<PathBuf>,
    /// The folder of the audit log on the engine's host.
    pub(super) audit: Option<String>,
    /// Its address on the uplink.
    pub(super) address: Option<String>,
}

/// Where in its life a container is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// Made and not started yet.
    Made,
    Running,
    /// It ended, and the engine is about to start it again.
    Restarting,
    Paused,
    Stopped,
    /// On its way out.
    Leaving,
}

impl Found {
    fn of(container: ContainerInspectResponse) -> Self {
        let config = container.config.unwrap_or_default();
        let mounts = container.mounts.unwrap_or_default();
        let source = |target: &str| {
            let is_there = |mount: &&MountPoint| mount.destination.as_deref() == Some(target);
            let mount = mounts.iter().find(is_there)?;
            mount.source.clone().filter(|source| !source.is_empty())
        };
        let (folder, socket) = ADMIN_SOCKET.rsplit_once('/').unwrap_or_default();
        let status = container.state.and_then(|state| state.status);
        let networks = container.network_settings.and_then(|all| all.networks);
        let uplink = networks.and_then(|mut networks| networks.remove(UPLINK));
        Self {
            id: container.id.unwrap_or_default(),
            name: container
                .name
                .map(|name| name.trim_start_matches('/').to_owned())
                .unwrap_or_default(),
            hostname: config.hostname.unwrap_or_default(),
            image: container.image.unwrap_or_default(),
            stage: Stage::of(status),
            stop_timeout: config
                .stop_timeout
                .and_then(|seconds| u64::try_from(seconds).ok())
                .map_or(DEFAULT_STOP, Duration::from_secs),
            restarts: container.restart_count.unwrap_or_default(),
            socket: source(folder).map(|source| PathBuf::from(source).join(socket)),
            audit: source(ProxyVolume::AUDIT.target),
            address: uplink
                .and_then(|uplink| uplink.ip_address)
                .filter(|address| !address.is_empty()),
        }
    }
}

impl Found {
    /// Whether its engine starts it again and again.
    pub(super) fn starts_in_vain(&self) -> bool {
        const MANY: i64 = 2;
        self.stage == Stage::Restarting && self.restarts >= MANY
    }
}

impl Stage {
    fn of(status: Option<Status>) -> Self {
        match status {
            Some(Status::CREATED) => Self::Made,
            Some(Status::RUNNING) => Self::Running,
            Some(Status::RESTARTING) => Self::Restarting,
            Some(Status::PAUSED) => Self::Paused,
            Some(Status::EXITED | Status::DEAD) => Self::Stopped,
            // Podman has names of its own for what lies between.
            Some(Status::REMOVING | Status::STOPPING | Status::EMPTY) | None => Self::Leaving,
        }
    }
}

impl Docker {
    /// The proxy's container in whatever stage, or a running one that somebody else started.
    pub(super) async fn find_container(&self, whose: Whose) -> Result<Option<Found>, BackendError> {
        match call(self.client.inspect_container(NAME, None)).await {
            Ok(container) => ours(container).map(Some),
            Err(error) if error.is_missing() => match whose {
                Whose::Ours => Ok(None),
                Whose::Anybodys => self.find_by_hand().await,
            },
            Err(error) => Err(error.during(format!("inspect container {NAME}"))),
        }
    }

    async fn find_by_hand(&self) -> Result<Option<Found>, BackendError> {
        let filters = HashMap::from([
            ("label".to_owned(), vec![format!("{}={}", ROLE.0, ROLE.1)]),
            ("status".to_owned(), vec!["running".to_owned()]),
        ]);
        let options = ListContainersOptions {
            filters: Some(filters),
            ..ListContainersOptions::default()
        };
        let listed = call(self.client.list_containers(Some(options)))
            .await
            .map_err(|error| error.during("list the proxies"))?;
        let mut found = Vec::new();
        for id in listed.into_iter().filter_map(|container| container.id) {
            match call(self.client.inspect_container(&id, None)).await {
                Ok(container) if serves(&container) => found.push(Found::of(container)),
                // Gone since it was listed, or of the same image for something else.
                Ok(_) => {}
                Err(error) if error.is_missing() => {}
                Err(error) => return Err(error.during(format!("inspect container {id}"))),
            }
        }
        let names: Vec<&str> = found.iter().map(|found| &*found.name).collect();
        if names.len() > 1 {
            return Err(BackendError::Proxy(format!(
                "is one of several: {}; `eclusa up` starts one that is preferred to all of them",
                names.join(", ")
            )));
        }
        Ok(found.pop())
    }

    /// The end of a container's log, one line each and without control characters; best effort, for
    /// an error that tells of another one.
    pub(super) async fn last_lines(&self, id: &str) -> String {
        let options = LogsOptions {
            stdout: true,
            stderr: true,
            tail: "10".to_owned(),
            ..LogsOptions::default()
        };
        let mut log = self.client.logs(id, Some(options));
        let mut text = String::new();
        while let Some(Ok(line)) = log.next().await {
            match line {
                LogOutput::StdErr { message } | LogOutput::StdOut { message } => {
                    text.push_str(&String::from_utf8_lossy(&message));
                }
                LogOutput::StdIn { .. } | LogOutput::Console { .. } => {}
            }
            if text.len() > MOST_LOG {
                break;
            }
        }
        text.retain(|c| c == '\n' || !c.is_control());
        text.trim_end().to_owned()
    }

    /// Removes a container that does not run; that it is gone, or runs after all, is as good.
    pub(super) async fn remove_stopped(&self, found: &Found) -> Result<(), BackendError> {
        match call(self.client.remove_container(&found.id, None)).await {
            Err(error) if !error.is_missing() && !is_conflict(&error) => {
                Err(error.during(format!("remove container {}", found.name)))
            }
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// Removes a container in whatever stage.
    pub(super) async fn remove_by_force(&self, id: &str) -> Result<(), BackendError> {
        let options = RemoveContainerOptions {
            force: true,
            ..RemoveContainerOptions::default()
        };
        match call(self.client.remove_container(id, Some(options))).await {
            Err(error) if !error.is_missing() && !is_conflict(&error) => {
                Err(error.during(format!("remove container {id}")))
            }
            Ok(()) | Err(_) => Ok(()),
        }
    }
}

/// Whether what was asked for collides with what another is doing.
pub(super) fn is_conflict(error: &CallError) -> bool {
    matches!(error, CallError::Answer { status: 409, .. })
}

/// The container of our name, if it is ours.
fn ours(container: ContainerInspectResponse) -> Result<Found, BackendError> {
    let labels = container
        .config
        .as_ref()
        .and_then(|config| config.labels.as_ref());
    let is_ours = labels.is_some_and(|labels| {
        labels.get(ROLE.0).is_some_and(|role| role == ROLE.1) && labels.contains_key(IMAGE_LABEL)
    });
    if is_ours {
        Ok(Found::of(container))
    } else {
        Err(BackendError::Proxy(format!(
            "cannot be told: a container named {NAME} is not from `eclusa up`; rename or remove it"
        )))
    }
}

/// Whether a container runs `eclusa serve` on a network that others can be attached to: an image
/// passes its labels on to every container, also to those that do something else.
fn serves(container: &ContainerInspectResponse) -> bool {
    let arguments = container.args.as_deref().unwrap_or_default();
    let host = container.host_config.as_ref();
    let network = host
        .and_then(|host| host.network_mode.as_deref())
        .unwrap_or_default();
    let can_be_attached = !matches!(network, "host" | "none") && !network.starts_with("container:");
    arguments.first().is_some_and(|verb| verb == "serve") && can_be_attached
}

#[cfg(test)]
pub(super) mod tests {
    use bollard::models::{ContainerConfig, ContainerState, HostConfig};

    use super::*;

    /// A running proxy of that host name.
    pub(in super::super) fn found(hostname: &str) -> Found {
        let container = ContainerInspectResponse {
            id: Some("c0ffee".to_owned()),
            name: Some("/eclusa-proxy".to_owned()),
            config: Some(ContainerConfig {
                hostname: Some(hostname.to_owned()),
                stop_timeout: Some(35),
                ..ContainerConfig::default()
            }),
            state: Some(ContainerState {
                status: Some(Status::RUNNING),
                ..ContainerState::default()
            }),
            mounts: Some(vec![MountPoint {
                destination: Some("/run/eclusa".to_owned()),
                source: Some("/var/lib/docker/volumes/eclusa-proxy/_data".to_owned()),
                ..MountPoint::default()
            }]),
            ..ContainerInspectResponse::default()
        };
        Found::of(container)
    }

    #[test]
    fn a_container_tells_where_its_socket_is_and_how_long_its_stop_may_take() {
        let found = found("eclusa-01");
        assert_eq!(
            found.socket.as_deref(),
            Some("/var/lib/docker/volumes/eclusa-proxy/_data/admin.sock".as_ref())
        );
        assert_eq!(found.stop_timeout, Duration::from_secs(35));
        assert_eq!(
            (&*found.name, found.stage),
            ("eclusa-proxy", Stage::Running)
        );
        assert_eq!(found.audit, None);
    }

    #[test]
    fn only_what_serves_on_a_network_of_its_own_is_taken_for_a_proxy() {
        let container = |verb: &str, network: &str| ContainerInspectResponse {
            args: Some(vec![verb.to_owned()]),
            host_config: Some(HostConfig {
                network_mode: Some(network.to_owned()),
                ..HostConfig::default()
            }),
            ..ContainerInspectResponse::default()
        };
        for (verb, network, expected) in [
            ("serve", "egress-uplink", true),
            ("serve", "default", true),
            ("hold", "default", false),
            ("serve", "host", false),
            ("serve", "none", false),
            ("serve", "container:c0ffee", false),
        ] {
            assert_eq!(
                serves(&container(verb, network)),
                expected,
                "{verb} {network}"
            );
        }
        assert!(!serves(&ContainerInspectResponse::default()));
    }

    #[test]
    fn the_name_alone_does_not_make_a_container_ours() {
        let with = |labels: &[(&str, &str)]| ContainerInspectResponse {
            config: Some(ContainerConfig {
                labels: Some(
                    labels
                        .iter()
                        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                        .collect(),
                ),
                ..ContainerConfig::default()
            }),
            ..ContainerInspectResponse::default()
        };
        assert!(ours(with(&[ROLE, (IMAGE_LABEL, "eclusa:ba7816bf8f01")])).is_ok());
        for labels in [
            &[][..],
            &[ROLE],
            &[(IMAGE_LABEL, "eclusa:ba7816bf8f01")],
            &[
                ("eclusa.role", "holder"),
                (IMAGE_LABEL, "eclusa:ba7816bf8f01"),
            ],
        ] {
            assert!(ours(with(labels)).is_err(), "{labels:?}");
        }
    }
}
