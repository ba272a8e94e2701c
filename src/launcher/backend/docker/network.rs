//! Networks: the slice of a run, one that exists and is asked for by name, and the ranges in use.

use std::{
    collections::{BTreeMap, HashMap},
    net::Ipv4Addr,
};

use bollard::models::{
    Ipam, IpamConfig, NetworkConnectRequest, NetworkCreateRequest, NetworkInspect,
};
use ipnet::IpNet;
use serde_json::{Map, Value};

use super::{
    Docker,
    container::endpoint,
    error::call,
    verify::{self, json},
};
use crate::{
    launcher::{
        backend::{BackendError, Engine, EngineKind, Proxy},
        plan::{Plan, Slice},
    },
    listener::interfaces::ipv4_ranges,
};

/// Keeps the host's address off the bridge. `internal` alone leaves every service of the host that
/// listens on all addresses within reach (measured on Docker 20.10 and 28.5).
const INHIBIT: &str = "com.docker.network.bridge.inhibit_ipv4";

/// The same from Docker 28 on, which older ones refuse or do not know; used besides.
const GATEWAY_MODE: &str = "com.docker.network.bridge.gateway_mode_ipv4";

/// Who is on a private network, by id, and at which address.
pub(super) type Members<'a> = &'a [(&'a str, Ipv4Addr)];

impl Docker {
    /// Makes the slice of a run, and attaches the proxy at its address.
    pub(super) async fn create_slice(
        &self,
        plan: &Plan,
        slice: &Slice,
        proxy: Option<&Proxy>,
    ) -> Result<(), BackendError> {
        let Some(proxy) = proxy else {
            return Err(no_proxy());
        };
        self.create_network(&plan.labels, slice, proxy).await?;
        let got = self.network(&slice.name).await?;
        self.hold_network(&plan.labels, slice, &got, &[(&proxy.id, slice.proxy)])
    }

    /// Makes a private network, and attaches the proxy at its address.
    pub(super) async fn create_network(
        &self,
        labels: &BTreeMap<String, String>,
        slice: &Slice,
        proxy: &Proxy,
    ) -> Result<(), BackendError> {
        let request = slice_request(labels, slice, &self.engine);
        let made = call(self.client.create_network(request)).await;
        let made = made.map_err(|error| {
            if error.says("overlap") {
                BackendError::SubnetTaken(IpNet::V4(slice.subnet))
            } else {
                error.during(format!("create network {}", slice.name))
            }
        })?;
        if let Some(warning) = Some(made.warning).filter(|text| !text.is_empty()) {
            return Err(BackendError::NotApplied {
                what: format!("network {}", slice.name),
                planned: "all of it".to_owned(),
                got: format!("the warning {warning:?}"),
            });
        }
        self.attach_proxy(slice, proxy).await
    }

    /// Holds a private network as the engine describes it against what is made for these labels.
    pub(super) fn hold_network(
        &self,
        labels: &BTreeMap<String, String>,
        slice: &Slice,
        got: &NetworkInspect,
        members: Members<'_>,
    ) -> Result<(), BackendError> {
        let asked = slice_request(labels, slice, &self.engine);
        hold(slice, &asked, got, members)
    }

    async fn attach_proxy(&self, slice: &Slice, proxy: &Proxy) -> Result<(), BackendError> {
        let request = NetworkConnectRequest {
            container: proxy.id.clone(),
            endpoint_config: Some(endpoint(slice.proxy)),
        };
        call(self.client.connect_network(&slice.name, request))
            .await
            .map_err(|error| error.during(format!("attach the proxy to {}", slice.name)))
    }

    /// Holds that a network asked for by name reaches neither the host nor the world.
    pub(super) async fn check_named(
        &self,
        name: &str,
        dangerously_allow: bool,
    ) -> Result<(), BackendError> {
        let refused = |why: &str| BackendError::Network {
            name: name.to_owned(),
            why: why.to_owned(),
        };
        // It becomes part of a path, and of the sandbox's network mode.
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "_.-".contains(c);
        if !name.starts_with(|c: char| c.is_ascii_alphanumeric()) || !name.chars().all(is_plain) {
            return Err(refused("that is not the name of a network"));
        }
        let network = call(self.client.inspect_network(name, None)).await;
        let network = network.map_err(|error| {
            if error.is_missing() {
                refused("there is no such network")
            } else {
                error.during(format!("inspect network {name}"))
            }
        })?;
        judge(name, &network, dangerously_allow).map_err(|why| refused(&why))
    }

    pub(super) async fn network(&self, name: &str) -> Result<NetworkInspect, BackendError> {
        call(self.client.inspect_network(name, None))
            .await
            .map_err(|error| error.during(format!("inspect network {name}")))
    }

    /// Every range of a network of the engine, and of a route of this machine where the engine is
    /// on it.
    pub(super) async fn taken_ranges(&self) -> Result<Vec<IpNet>, BackendError> {
        let networks = call(self.client.list_networks(None))
            .await
            .map_err(|error| error.during("list the networks"))?;
        let configs = networks
            .into_iter()
            .filter_map(|network| network.ipam?.config)
            .flatten();
        let mut ranges: Vec<IpNet> = configs
            .filter_map(|config| config.subnet?.parse().ok())
            .collect();
        if self.engine.is_local {
            let routed = ipv4_ranges().map_err(|error| {
                BackendError::Unsupported(format!("failed to read this machine's routes: {error}"))
            })?;
            ranges.extend(routed.into_iter().map(IpNet::V4));
        }
        ranges.sort_unstable();
        ranges.dedup();
        Ok(ranges)
    }
}

/// There is none to attach.
pub(super) fn no_proxy() -> BackendError {
    BackendError::Proxy("of the run is not known".to_owned())
}

fn slice_request(
    labels: &BTreeMap<String, String>,
    slice: &Slice,
    engine: &Engine,
) -> NetworkCreateRequest {
    let mut options = HashMap::from([(INHIBIT.to_owned(), "true".to_owned())]);
    if has_gateway_modes(engine) {
        options.insert(GATEWAY_MODE.to_owned(), "isolated".to_owned());
    }
    NetworkCreateRequest {
        name: slice.name.clone(),
        driver: Some("bridge".to_owned()),
        internal: Some(true),
        attachable: Some(false),
        ingress: Some(false),
        enable_ipv6: Some(false),
        ipam: Some(Ipam {
            driver: Some("default".to_owned()),
            config: Some(vec![IpamConfig {
                subnet: Some(slice.subnet.to_string()),
                // Reserved: without it an engine hands the first address to a container.
                gateway: Some(slice.gateway.to_string()),
                ..IpamConfig::default()
            }]),
            options: None,
        }),
        options: Some(options),
        labels: Some(labels.clone().into_iter().collect()),
        ..NetworkCreateRequest::default()
    }
}

/// Whether it is known to be Docker 28 or later.
fn has_gateway_modes(engine: &Engine) -> bool {
    let major = engine.version.split('.').next();
    let major = major.and_then(|major| major.parse::<u32>().ok());
    engine.kind == EngineKind::Docker && major.is_some_and(|major| major >= 28)
}

/// Holds a slice as the engine describes it against what was asked for.
fn hold(
    slice: &Slice,
    asked: &NetworkCreateRequest,
    got: &NetworkInspect,
    members: Members<'_>,
) -> Result<(), BackendError> {
    let field = |field: &str, planned: Value, got: Value| {
        verify::field(&format!("network {}: {field}", slice.name), &planned, &got)
    };
    let ranges = |ipam: Option<&Ipam>| json(&ipam.and_then(|ipam| ipam.config.as_ref()));
    let prefix = slice.subnet.prefix_len();
    let planned_members = members.iter().map(|(id, address)| {
        let at = Value::from(format!("at {address}/{prefix}"));
        ((*id).to_owned(), at)
    });
    // As text, so that a member without an address is one.
    let members = got.containers.iter().flatten().map(|(id, endpoint)| {
        let address = endpoint.ipv4_address.as_deref().unwrap_or_default();
        (id.clone(), Value::from(format!("at {address}")))
    });
    field("Name", json(&asked.name), json(&got.name))?;
    field("Driver", json(&asked.driver), json(&got.driver))?;
    field("Internal", json(&asked.internal), json(&got.internal))?;
    field(
        "EnableIPv6",
        json(&asked.enable_ipv6),
        json(&got.enable_ipv6),
    )?;
    field(
        "IPAM",
        ranges(asked.ipam.as_ref()),
        ranges(got.ipam.as_ref()),
    )?;
    field("Options", json(&asked.options), json(&got.options))?;
    field("Labels", json(&asked.labels), json(&got.labels))?;
    field(
        "members",
        planned_members.collect::<Map<_, _>>().into(),
        members.collect::<Map<_, _>>().into(),
    )
}

/// Whether a sandbox may join a network that somebody else made.
fn judge(name: &str, network: &NetworkInspect, dangerously_allow: bool) -> Result<(), String> {
    if network.name.as_deref() != Some(name) {
        return Err(format!(
            "that is not its name but its id; write {}",
            network.name.as_deref().unwrap_or_default()
        ));
    }
    // Security: these are not networks of their own; no flag opens them.
    if network.driver.as_deref() == Some("host") {
        return Err("the host's own network is never joined".to_owned());
    }
    let option = |key: &str| network.options.as_ref()?.get(key).map(String::as_str);
    let is_internal = network.internal == Some(true);
    let is_bridge = network.driver.as_deref() == Some("bridge");
    let inhibits = option(INHIBIT).is_some_and(|value| value == "true" || value == "1");
    let is_apart = is_bridge && (inhibits || option(GATEWAY_MODE) == Some("isolated"));
    let has_ipv6 = network.enable_ipv6 == Some(true);
    let why = match (is_internal, is_apart, has_ipv6) {
        _ if dangerously_allow => return Ok(()),
        (true, true, false) => return Ok(()),
        (false, _, _) => "it is not internal, so it reaches the world",
        (true, false, _) => "the host has an address on it, so it reaches the host's services",
        (true, true, true) => "it has IPv6, over which it reaches the host",
    };
    Err(format!(
        "{why}; make it with `--internal -o {INHIBIT}=true`, or take the danger with \
         --dangerously-allow-network"
    ))
}

#[cfg(test)]
mod tests;
