//! What an engine says that it made, held against what it was told to make.
//!
//! Every field that either side has is compared, so that neither a field of the plan nor something
//! that the engine added on its own can be forgotten. What may differ is listed in `EXCEPTIONS`.

mod value;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use bollard::models::{ContainerInspectResponse, EndpointSettings, MountPoint};
use serde::Serialize;
use serde_json::{Map, Value};

use self::value::{is_empty, same, shown};
use super::container::Container;
use crate::launcher::backend::BackendError;

/// A field in which a sandbox may differ from the plan, and what may stand there.
struct Exception {
    field: &'static str,
    allows: fn(planned: &Value, got: &Value) -> bool,
}

const EXCEPTIONS: &[Exception] = &[
    // The engine names its default where none was asked for.
    Exception {
        field: "HostConfig.Runtime",
        allows: |planned, _| is_empty(planned),
    },
    // An engine that cannot set it says -1, which is the kernel's own; there is no swap.
    Exception {
        field: "HostConfig.MemorySwappiness",
        allows: |planned, got| is_empty(planned) && *got == -1,
    },
    // Windows's, of which `default` is the only value elsewhere.
    Exception {
        field: "HostConfig.Isolation",
        allows: |_, got| *got == "default",
    },
    // Without effect: no port is published, on any network.
    Exception {
        field: "Config.ExposedPorts",
        allows: |_, _| true,
    },
    // What the image declares; what is mounted there is held by `mounts`.
    Exception {
        field: "Config.Volumes",
        allows: |_, _| true,
    },
    // An engine adds the image's times to one that is off.
    Exception {
        field: "Config.Healthcheck",
        allows: |planned, got| planned.get("Test") == got.get("Test"),
    },
    // Only a build reads these.
    Exception {
        field: "Config.OnBuild",
        allows: |_, _| true,
    },
    Exception {
        field: "Config.Shell",
        allows: |_, _| true,
    },
    // The image's own labels come along; every one that has a meaning here is stated.
    Exception {
        field: "Config.Labels",
        allows: holds_all,
    },
];

/// Fields whose keys are names and not fields: one that is there says something, whatever its
/// value.
const NAMED: &[&str] = &[
    "Config.Labels",
    "HostConfig.Annotations",
    "HostConfig.PortBindings",
    "HostConfig.StorageOpt",
    "HostConfig.Sysctls",
    "HostConfig.Tmpfs",
];

/// Holds a container that was made and not started against what was asked.
///
/// # Errors
/// The first difference, as `BackendError::NotApplied`.
pub(super) fn compare(
    planned: &Container,
    got: &ContainerInspectResponse,
) -> Result<(), BackendError> {
    let body = &planned.body;
    let mut config = object(body);
    config.remove("HostConfig");
    config.remove("NetworkingConfig");
    fields("Config", &config, &object(&got.config))?;
    fields(
        "HostConfig",
        &object(&body.host_config),
        &object(&got.host_config),
    )?;
    field("Image", &json(&body.image), &json(&got.image))?;
    field(
        "Name",
        &Value::from(format!("/{}", planned.name)),
        &json(&got.name),
    )?;
    command(planned, got)?;
    mounts(planned, got.mounts.as_deref().unwrap_or_default())?;
    networks(planned, got)
}

/// What an engine said when it made a container, where that means that a limit does not hold.
///
/// # Errors
/// The limit, or the warning where it is of an unknown kind.
pub(super) fn warnings(warnings: &[String]) -> Result<(), BackendError> {
    for warning in warnings {
        let lower = warning.to_lowercase();
        // Without effect on a sandbox, which is routed nowhere; and a matter of speed.
        if lower.contains("forwarding is disabled") || lower.contains("requested image's platform")
        {
            continue;
        }
        let limit = [
            ("swap", "the limit of memory without swap"),
            ("memory", "the memory limit"),
            ("cpu", "the limit of processors"),
            ("pids", "the limit of processes"),
        ]
        .into_iter()
        .find(|(word, _)| lower.contains(word))
        .map_or("all of the plan", |(_, limit)| limit);
        return Err(BackendError::NotApplied {
            what: limit.to_owned(),
            planned: "it applied".to_owned(),
            got: format!("the warning {warning:?}"),
        });
    }
    Ok(())
}

fn fields(
    section: &str,
    planned: &Map<String, Value>,
    got: &Map<String, Value>,
) -> Result<(), BackendError> {
    let names: BTreeSet<&String> = planned.keys().chain(got.keys()).collect();
    for name in names {
        let planned = planned.get(name).unwrap_or(&Value::Null);
        let got = got.get(name).unwrap_or(&Value::Null);
        field(&format!("{section}.{name}"), planned, got)?;
    }
    Ok(())
}

/// Holds one field; what is absent is as good as what is empty.
///
/// # Errors
/// The difference, as `BackendError::NotApplied`.
pub(super) fn field(name: &str, planned: &Value, got: &Value) -> Result<(), BackendError> {
    let is_excepted = || {
        EXCEPTIONS
            .iter()
            .any(|exception| exception.field == name && (exception.allows)(planned, got))
    };
    let has_same_names = || !NAMED.contains(&name) || names(planned) == names(got);
    if (same(planned, got) && has_same_names()) || is_excepted() {
        return Ok(());
    }
    // Security: what an environment holds is not for messages, and may be a credential.
    let shown = |value| match name {
        "Config.Env" => shown(&without_values(value)),
        _ => shown(value),
    };
    Err(BackendError::NotApplied {
        what: name.to_owned(),
        planned: shown(planned),
        got: shown(got),
    })
}

fn without_values(env: &Value) -> Value {
    let pairs = env
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str);
    let names = pairs.map(|pair| pair.split('=').next().unwrap_or_default());
    names.map(Value::from).collect()
}

fn names(value: &Value) -> BTreeSet<&String> {
    let fields = value.as_object().into_iter();
    fields.flat_map(|fields| fields.keys()).collect()
}

fn holds_all(planned: &Value, got: &Value) -> bool {
    let mut planned = planned.as_object().into_iter().flatten();
    planned.all(|(name, value)| got.get(name) == Some(value))
}

/// What the engine made of entrypoint and command.
fn command(planned: &Container, got: &ContainerInspectResponse) -> Result<(), BackendError> {
    let body = &planned.body;
    let entrypoint = body.entrypoint.iter().flatten();
    let words: Vec<&String> = entrypoint.chain(body.cmd.iter().flatten()).collect();
    let made: Vec<&String> = got.path.iter().chain(got.args.iter().flatten()).collect();
    if words == made {
        return Ok(());
    }
    Err(BackendError::NotApplied {
        what: "the command".to_owned(),
        planned: shown(&json(&words)),
        got: shown(&json(&made)),
    })
}

/// Every mount is one of the plan, and every one of the plan is there.
fn mounts(planned: &Container, got: &[MountPoint]) -> Result<(), BackendError> {
    let host = planned.body.host_config.as_ref();
    let wanted = host
        .and_then(|host| host.mounts.as_ref())
        .into_iter()
        .flatten();
    let mut missing: BTreeMap<&str, Value> = wanted
        .map(|mount| {
            let target = mount.target.as_deref().unwrap_or_default();
            let is_bind = mount.bind_options.is_some();
            let wanted = serde_json::json!({
                "Type": mount.typ,
                // A volume's source is where the engine keeps it, a bind's has no name.
                "Source": if is_bind { mount.source.as_deref() } else { None },
                "Name": if is_bind { None } else { mount.source.as_deref() },
                "RW": !mount.read_only.unwrap_or_default(),
            });
            (target, wanted)
        })
        .collect();
    for point in got {
        let target = point.destination.as_deref().unwrap_or_default();
        let is_bind = point.typ.as_deref() == Some("bind");
        let made = serde_json::json!({
            "Type": point.typ,
            "Source": if is_bind { point.source.as_deref() } else { None },
            "Name": point.name,
            "RW": point.rw,
        });
        let wanted = missing.remove(target).unwrap_or_default();
        field(&format!("the mount at {target}"), &wanted, &made)?;
    }
    match missing.into_iter().next() {
        Some((target, wanted)) => field(&format!("the mount at {target}"), &wanted, &Value::Null),
        None => Ok(()),
    }
}

/// The networks of the plan, at their fixed addresses, and no other.
fn networks(planned: &Container, got: &ContainerInspectResponse) -> Result<(), BackendError> {
    let networking = planned.body.networking_config.as_ref();
    let wanted = networking.and_then(|config| config.endpoints_config.as_ref());
    let made = got.network_settings.as_ref();
    let made = made.and_then(|settings| settings.networks.as_ref());
    field("the networks", &addresses(wanted), &addresses(made))
}

/// The fixed addresses by network; `none`, which some engines list, is no network.
fn addresses(networks: Option<&HashMap<String, EndpointSettings>>) -> Value {
    let networks = networks.into_iter().flatten();
    let addresses = networks
        .filter(|(name, _)| *name != "none")
        .map(|(name, endpoint)| {
            let fixed = endpoint.ipam_config.as_ref();
            let fixed = fixed.and_then(|config| config.ipv4_address.as_deref());
            (name.clone(), Value::from(fixed.unwrap_or("any")))
        });
    addresses.collect::<Map<_, _>>().into()
}

fn object(value: &impl Serialize) -> Map<String, Value> {
    match json(value) {
        Value::Object(map) => map,
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            Map::new()
        }
    }
}

/// The JSON form, which every model of the API has.
pub(super) fn json(value: &impl Serialize) -> Value {
    serde_json::to_value(value).unwrap_or_default()
}

#[cfg(test)]
mod tests;
