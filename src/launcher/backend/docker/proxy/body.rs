//! The plan of the proxy container in the engine's words.

use std::{
    collections::{BTreeMap, HashMap},
    time::Duration,
};

use bollard::models::{
    ContainerCreateBody, HealthConfig, HostConfig, HostConfigLogConfig, Mount, MountType,
    MountVolumeOptions, RestartPolicy, RestartPolicyNameEnum,
};

use crate::launcher::proxy::{HealthCheck, ProxyPlan, ProxyVolume, ROLE};

/// What is asked of the engine; no field of the plan goes unmapped.
pub(super) fn container(plan: &ProxyPlan) -> ContainerCreateBody {
    let ProxyPlan {
        // Of the call, not of its body.
        name: _,
        labels,
        image,
        hostname,
        command,
        user,
        network,
        memory,
        pids,
        sysctls,
        volumes,
        health,
        log,
        stop_timeout,
        cap_drop,
        no_new_privileges,
        read_only_root,
        restart_unless_stopped,
    } = plan;
    let memory = i64::try_from(*memory).unwrap_or(i64::MAX);
    let (program, arguments) = command.split_at(command.len().min(1));
    let host_config = HostConfig {
        network_mode: Some((*network).to_owned()),
        memory: Some(memory),
        memory_swap: Some(memory),
        pids_limit: Some(i64::from(*pids)),
        sysctls: Some(pairs(sysctls)),
        mounts: Some(volumes.iter().map(mount).collect()),
        log_config: Some(HostConfigLogConfig {
            typ: Some(log.0.to_owned()),
            config: Some(pairs(&log.1)),
        }),
        cap_drop: Some(words(cap_drop)),
        security_opt: Some(vec![format!("no-new-privileges:{no_new_privileges}")]),
        readonly_rootfs: Some(*read_only_root),
        restart_policy: Some(RestartPolicy {
            name: restart_unless_stopped.then_some(RestartPolicyNameEnum::UNLESS_STOPPED),
            maximum_retry_count: None,
        }),
        privileged: Some(false),
        ..HostConfig::default()
    };
    ContainerCreateBody {
        hostname: Some(hostname.clone()),
        user: Some(format!("{}:{}", user.uid, user.gid)),
        entrypoint: Some(words(program)),
        cmd: Some(words(arguments)),
        image: Some(image.clone()),
        labels: Some(pairs(labels)),
        stop_timeout: i64::try_from(stop_timeout.as_secs()).ok(),
        healthcheck: Some(health_config(health)),
        host_config: Some(host_config),
        ..ContainerCreateBody::default()
    }
}

fn mount(volume: &ProxyVolume) -> Mount {
    Mount {
        typ: Some(MountType::VOLUME),
        source: Some(volume.name.to_owned()),
        target: Some(volume.target.to_owned()),
        read_only: Some(false),
        volume_options: Some(MountVolumeOptions {
            labels: Some(HashMap::from([(ROLE.0.to_owned(), ROLE.1.to_owned())])),
            ..MountVolumeOptions::default()
        }),
        ..Mount::default()
    }
}

fn health_config(health: &HealthCheck) -> HealthConfig {
    let nanoseconds =
        |duration: Duration| Some(i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX));
    let words = std::iter::once("CMD").chain(health.command);
    HealthConfig {
        test: Some(words.map(str::to_owned).collect()),
        interval: nanoseconds(health.interval),
        timeout: nanoseconds(health.timeout),
        retries: Some(i64::from(health.retries)),
        start_period: nanoseconds(health.start_period),
        start_interval: None,
    }
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

fn pairs(pairs: &BTreeMap<&str, impl AsRef<str>>) -> HashMap<String, String> {
    let pairs = pairs.iter();
    pairs
        .map(|(name, value)| ((*name).to_owned(), value.as_ref().to_owned()))
        .collect()
}
