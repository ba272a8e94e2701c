//! The half of a container that concerns the host: limits, namespaces, mounts.

use std::{
    collections::{BTreeMap, HashMap},
    net::Ipv4Addr,
    path::Path,
};

use bollard::models::{
    HostConfig, HostConfigCgroupnsModeEnum, HostConfigLogConfig, Mount as EngineMount,
    MountBindOptions, MountBindOptionsPropagationEnum, MountType, MountVolumeOptions,
    ResourcesUlimits, RestartPolicy, RestartPolicyNameEnum,
};

use crate::launcher::{
    backend::BackendError,
    plan::{Filter, Holder, Mount, MountSource, Sandbox, Tmpfs},
    spec::User,
};

/// The holder's memory in bytes: a static binary and its stack, with room to spare.
const HOLDER_MEMORY: i64 = 32 * 1024 * 1024;

/// How engines of every version spell it.
const NO_NEW_PRIVILEGES: &str = "no-new-privileges";

/// The sandbox's.
///
/// # Errors
/// A number or a path that the engine's API cannot say.
pub(super) fn of_sandbox(
    sandbox: &Sandbox,
    network_mode: String,
) -> Result<HostConfig, BackendError> {
    let Sandbox {
        name: _,
        image: _,
        command: _,
        env: _,
        unset: _,
        user,
        workdir: _,
        hostname: _,
        stdin: _,
        memory,
        nano_cpus,
        pids,
        ulimits,
        shm,
        tmpfs,
        mounts,
        dns,
        sysctls,
        seccomp,
        runtime,
        cap_drop,
        no_new_privileges,
        read_only_root,
        init,
        masked_paths,
        readonly_paths,
    } = sandbox;
    let memory = number("memory", *memory)?;
    let filter = match seccomp {
        Filter::Inline(filter) => filter.clone(),
        Filter::File(path) => text(path)?,
    };
    let mut security_opt = vec![format!("seccomp={filter}")];
    security_opt.extend(no_new_privileges.then(|| NO_NEW_PRIVILEGES.to_owned()));
    let in_memory = tmpfs
        .iter()
        .map(|tmpfs| (tmpfs.target.clone(), tmpfs_options(tmpfs, *user)));
    Ok(HostConfig {
        network_mode: Some(network_mode),
        memory: Some(memory),
        memory_swap: Some(memory),
        nano_cpus: Some(number("cpus", *nano_cpus)?),
        pids_limit: Some(i64::from(*pids)),
        ulimits: Some(both_limits(ulimits)?),
        shm_size: Some(number("shm", *shm)?),
        tmpfs: Some(in_memory.collect()),
        mounts: Some(mounts.iter().map(mount).collect::<Result<_, _>>()?),
        dns_search: Some(no_search(dns)),
        dns: Some(dns.iter().map(ToString::to_string).collect()),
        sysctls: Some(sysctls.clone().into_iter().collect()),
        security_opt: Some(security_opt),
        runtime: runtime.clone(),
        cap_drop: Some(cap_drop.clone()),
        readonly_rootfs: Some(*read_only_root),
        init: Some(*init),
        masked_paths: Some(masked_paths.clone()),
        readonly_paths: Some(readonly_paths.clone()),
        ..isolated()
    })
}

/// The holder's: with its engine's own system call filter, and a sandbox's masks and limits.
///
/// # Errors
/// As `of_sandbox`.
pub(super) fn of_holder(holder: &Holder) -> Result<HostConfig, BackendError> {
    let Holder {
        name: _,
        volumes,
        ulimits,
        masked_paths,
        readonly_paths,
        namespace,
    } = holder;
    let (network_mode, dns, sysctls) = match namespace {
        None => ("none", &[][..], BTreeMap::new()),
        Some(own) => (&*own.network, &*own.dns, own.sysctls.clone()),
    };
    let mounts = volumes.iter().map(|(volume, target)| {
        mount(&Mount {
            source: MountSource::Volume(volume.clone()),
            target: target.clone(),
            read_only: false,
        })
    });
    Ok(HostConfig {
        network_mode: Some(network_mode.to_owned()),
        dns_search: Some(no_search(dns)),
        dns: Some(dns.iter().map(ToString::to_string).collect()),
        sysctls: Some(sysctls.into_iter().collect()),
        memory: Some(HOLDER_MEMORY),
        memory_swap: Some(HOLDER_MEMORY),
        pids_limit: Some(8),
        ulimits: Some(both_limits(ulimits)?),
        shm_size: Some(64 * 1024),
        mounts: Some(mounts.collect::<Result<_, _>>()?),
        security_opt: Some(vec![NO_NEW_PRIVILEGES.to_owned()]),
        cap_drop: Some(vec!["ALL".to_owned()]),
        readonly_rootfs: Some(true),
        init: Some(false),
        masked_paths: Some(masked_paths.clone()),
        readonly_paths: Some(readonly_paths.clone()),
        ..isolated()
    })
}

/// A container with namespaces of its own, nothing of the host's, and no log; an engine's
/// configuration may have other defaults for most of these.
fn isolated() -> HostConfig {
    HostConfig {
        binds: Some(Vec::new()),
        volumes_from: Some(Vec::new()),
        devices: Some(Vec::new()),
        device_cgroup_rules: Some(Vec::new()),
        device_requests: Some(Vec::new()),
        cap_add: Some(Vec::new()),
        group_add: Some(Vec::new()),
        links: Some(Vec::new()),
        extra_hosts: Some(Vec::new()),
        port_bindings: Some(HashMap::new()),
        publish_all_ports: Some(false),
        privileged: Some(false),
        auto_remove: Some(false),
        oom_kill_disable: Some(false),
        oom_score_adj: Some(0),
        ipc_mode: Some("private".to_owned()),
        cgroupns_mode: Some(HostConfigCgroupnsModeEnum::PRIVATE),
        pid_mode: Some(String::new()),
        uts_mode: Some(String::new()),
        // The engine's own remapping of users, where it has one, stays on.
        userns_mode: Some(String::new()),
        cgroup_parent: Some(String::new()),
        restart_policy: Some(RestartPolicy {
            name: Some(RestartPolicyNameEnum::NO),
            maximum_retry_count: Some(0),
        }),
        log_config: Some(HostConfigLogConfig {
            typ: Some("none".to_owned()),
            config: Some(HashMap::new()),
        }),
        ..HostConfig::default()
    }
}

/// With a server of ours no search domain either: `.` stands for none, nothing for the host's.
fn no_search(dns: &[Ipv4Addr]) -> Vec<String> {
    if dns.is_empty() {
        Vec::new()
    } else {
        vec![".".to_owned()]
    }
}

/// Owned by the user besides open to all: older runtimes (runc 1.1) set the mode back to that of
/// the image's directory of the same name.
fn tmpfs_options(tmpfs: &Tmpfs, user: User) -> String {
    let Tmpfs {
        target: _,
        size,
        inodes,
    } = tmpfs;
    let User { uid, gid } = user;
    format!("rw,noexec,nosuid,nodev,size={size},nr_inodes={inodes},mode=1777,uid={uid},gid={gid}")
}

fn mount(mount: &Mount) -> Result<EngineMount, BackendError> {
    let Mount {
        source,
        target,
        read_only,
    } = mount;
    let common = EngineMount {
        target: Some(target.clone()),
        read_only: Some(*read_only),
        ..EngineMount::default()
    };
    Ok(match source {
        MountSource::Bind(path) => EngineMount {
            typ: Some(MountType::BIND),
            source: Some(text(path)?),
            bind_options: Some(MountBindOptions {
                propagation: Some(MountBindOptionsPropagationEnum::RPRIVATE),
                non_recursive: Some(true),
                ..MountBindOptions::default()
            }),
            ..common
        },
        MountSource::Volume(name) => EngineMount {
            typ: Some(MountType::VOLUME),
            source: Some(name.clone()),
            volume_options: Some(MountVolumeOptions {
                no_copy: Some(true),
                ..MountVolumeOptions::default()
            }),
            ..common
        },
    })
}

/// Security: a path that is not UTF-8 would reach the engine as another one.
fn text(path: &Path) -> Result<String, BackendError> {
    path.to_str().map(str::to_owned).ok_or_else(|| {
        let path = path.display();
        BackendError::Unsupported(format!(
            "{path} is not UTF-8, which the engine's API cannot say"
        ))
    })
}

/// Soft and hard alike, so that nothing can be raised.
fn both_limits(limits: &BTreeMap<String, u64>) -> Result<Vec<ResourcesUlimits>, BackendError> {
    limits
        .iter()
        .map(|(name, value)| {
            let value = number(name, *value)?;
            Ok(ResourcesUlimits {
                name: Some(name.clone()),
                soft: Some(value),
                hard: Some(value),
            })
        })
        .collect()
}

fn number(what: &str, value: u64) -> Result<i64, BackendError> {
    i64::try_from(value).map_err(|_| {
        BackendError::Unsupported(format!("{what} {value} is more than any engine takes"))
    })
}
