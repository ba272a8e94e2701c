//! A plan in the engine's words. Every field that an engine could fill from the image, from its
//! own configuration or from the host is stated; what is left out must come back empty, which
//! `verify` holds.

mod host;

use std::{
    collections::{BTreeMap, HashMap},
    net::Ipv4Addr,
};

use bollard::models::{
    ContainerCreateBody, EndpointIpamConfig, EndpointSettings, HealthConfig, NetworkingConfig,
};

use crate::launcher::{
    backend::BackendError,
    plan::{Holder, Network, Plan},
    proxy::ROLE,
    spec::User,
};

/// Whom the holder runs as; it only sleeps.
const HOLDER_USER: User = User::NOBODY;

/// The holder's role, as its label says.
const HOLDER_ROLE: &str = "holder";

/// A container to be made.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Container {
    /// Its name.
    pub(super) name: String,
    /// Everything else about it.
    pub(super) body: ContainerCreateBody,
}

/// How many characters of its id an engine names a container by that has no name of its own.
const SHORT_ID: usize = 12;

impl Container {
    /// The same in the network namespace of another container.
    pub(super) fn joining(mut self, id: &str) -> Self {
        if let Some(host) = &mut self.body.host_config {
            host.network_mode = Some(format!("container:{id}"));
        }
        self
    }

    /// What an engine says of it once it is made: until its start, one without a host name of its
    /// own is called by its id.
    pub(super) fn made_as(&self, id: &str) -> Self {
        let mut made = self.clone();
        let short = id.get(..SHORT_ID).unwrap_or(id);
        made.body.hostname.get_or_insert_with(|| short.to_owned());
        made
    }
}

/// The container that runs the command.
///
/// # Errors
/// A number that the engine's API cannot say.
pub(super) fn sandbox(plan: &Plan) -> Result<Container, BackendError> {
    let Plan {
        run: _,
        labels,
        sandbox,
        network,
        volumes: _,
        holder: _,
        registration: _,
    } = plan;
    // An engine takes none for who joins another's namespace, which has its own.
    let hostname = match network {
        Network::Slot(_) => None,
        Network::None | Network::Slice(_) | Network::Named { .. } => Some(sandbox.hostname.clone()),
    };
    let (network_mode, endpoints) = attachment(network);
    let mut words = sandbox.command.iter().cloned();
    let entrypoint = words.next().into_iter().collect();
    let assigned = sandbox
        .env
        .iter()
        .map(|(name, value)| format!("{name}={value}"));
    Ok(Container {
        name: sandbox.name.clone(),
        body: ContainerCreateBody {
            hostname,
            user: Some(user(sandbox.user)),
            attach_stdin: Some(sandbox.stdin),
            attach_stdout: Some(true),
            attach_stderr: Some(true),
            open_stdin: Some(sandbox.stdin),
            stdin_once: Some(sandbox.stdin),
            // A name without `=` keeps the image's variable of that name out.
            env: Some(assigned.chain(sandbox.unset.iter().cloned()).collect()),
            entrypoint: Some(entrypoint),
            cmd: Some(words.collect()),
            image: Some(sandbox.image.clone()),
            working_dir: Some(sandbox.workdir.clone()),
            labels: Some(labelled(labels, "sandbox")),
            host_config: Some(host::of_sandbox(sandbox, network_mode)?),
            networking_config: Some(NetworkingConfig {
                endpoints_config: Some(endpoints),
            }),
            ..inert()
        },
    })
}

/// The container that keeps the volumes mounted, from our own image.
///
/// # Errors
/// As `sandbox`.
pub(super) fn holder(
    labels: &BTreeMap<String, String>,
    holder: &Holder,
    image: &str,
) -> Result<Container, BackendError> {
    let Holder {
        name,
        volumes: _,
        ulimits: _,
        masked_paths: _,
        readonly_paths: _,
        namespace,
    } = holder;
    let hostname = namespace.as_ref().map(|own| own.hostname.clone());
    let networking = namespace.as_ref().map(|own| NetworkingConfig {
        endpoints_config: Some([(own.network.clone(), endpoint(own.address))].into()),
    });
    Ok(Container {
        name: name.clone(),
        body: ContainerCreateBody {
            hostname: hostname.or_else(|| Some("holder".to_owned())),
            networking_config: networking,
            user: Some(user(HOLDER_USER)),
            entrypoint: Some(vec!["/eclusa".to_owned()]),
            cmd: Some(vec!["hold".to_owned()]),
            image: Some(image.to_owned()),
            working_dir: Some("/".to_owned()),
            labels: Some(labelled(labels, HOLDER_ROLE)),
            host_config: Some(host::of_holder(holder)?),
            ..inert()
        },
    })
}

/// Whether it is the holder.
pub(super) fn is_holder(container: &Container) -> bool {
    let labels = container.body.labels.as_ref();
    labels
        .and_then(|labels| labels.get(ROLE.0))
        .map(String::as_str)
        == Some(HOLDER_ROLE)
}

/// A container that inherits nothing from its image but the file system.
fn inert() -> ContainerCreateBody {
    ContainerCreateBody {
        domainname: Some(String::new()),
        tty: Some(false),
        healthcheck: Some(HealthConfig {
            test: Some(vec!["NONE".to_owned()]),
            ..HealthConfig::default()
        }),
        exposed_ports: Some(Vec::new()),
        volumes: Some(Vec::new()),
        network_disabled: Some(false),
        stop_signal: Some("SIGKILL".to_owned()),
        stop_timeout: Some(0),
        ..ContainerCreateBody::default()
    }
}

/// The plan's labels and the container's role. Security: a container inherits every label of its
/// image that is not stated, and one of the proxy's would make it pass for the proxy.
fn labelled(labels: &BTreeMap<String, String>, role: &str) -> HashMap<String, String> {
    let role = (ROLE.0.to_owned(), role.to_owned());
    labels.clone().into_iter().chain([role]).collect()
}

/// The network mode, and the endpoints by the names of their networks.
fn attachment(network: &Network) -> (String, HashMap<String, EndpointSettings>) {
    match network {
        Network::None => ("none".to_owned(), HashMap::new()),
        Network::Slice(slice) => {
            let endpoint = endpoint(slice.sandbox);
            (
                slice.name.clone(),
                HashMap::from([(slice.name.clone(), endpoint)]),
            )
        }
        Network::Slot(slot) => (format!("container:{}", slot.holder.name), HashMap::new()),
        Network::Named {
            name,
            dangerously_allow: _,
        } => {
            let endpoint = EndpointSettings::default();
            (name.clone(), HashMap::from([(name.clone(), endpoint)]))
        }
    }
}

/// An endpoint at a fixed address.
pub(super) fn endpoint(address: Ipv4Addr) -> EndpointSettings {
    EndpointSettings {
        ipam_config: Some(EndpointIpamConfig {
            ipv4_address: Some(address.to_string()),
            ..EndpointIpamConfig::default()
        }),
        ..EndpointSettings::default()
    }
}

fn user(User { uid, gid }: User) -> String {
    format!("{uid}:{gid}")
}

#[cfg(test)]
mod tests;
