//! A report of Podman's, said as Docker would say it. A field is changed only where Podman reports
//! exactly what it makes of what it was told; everything else is left for `verify` to refuse.

use std::collections::HashMap;

use bollard::models::{
    ContainerConfig, ContainerInspectResponse, HostConfig, HostConfigCgroupnsModeEnum, Mount,
    MountType, ResourcesUlimits,
};

use super::super::container::{Container, is_holder};

/// What Podman gives every container that does not say otherwise; harmless. The host name besides.
const OWN_VARIABLES: &[&str] = &[
    "container=podman",
    "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "TERM=xterm",
];

/// Where its init is mounted, in this version and in older ones.
const INITS: &[&str] = &["/run/podman-init", "/dev/init"];

/// Capabilities that a container has unless they are dropped, in every version; of the dropped ones
/// only such are reported.
const DEFAULT_CAPABILITIES: &[&str] = &[
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "FSETID",
    "KILL",
    "NET_BIND_SERVICE",
    "SETFCAP",
    "SETGID",
    "SETPCAP",
    "SETUID",
];

/// The period of a processor's quota, in microseconds, and what a whole processor is there.
const CPU_PERIOD: i64 = 100_000;
const NANO_CPUS: i64 = 1_000_000_000;

/// File systems in memory that it mounts over a read-only root.
const OWN_TMPFS: &[&str] = &["/run", "/tmp", "/var/tmp"];

/// The report on `planned`.
pub(in super::super) fn heard(
    planned: &Container,
    mut report: ContainerInspectResponse,
) -> ContainerInspectResponse {
    if let Some(config) = &mut report.config {
        hear_config(planned, config);
    }
    if let Some(host) = &mut report.host_config {
        hear_host(planned, host);
    }
    let wanted = planned.body.host_config.as_ref();
    if wanted.and_then(|host| host.init) == Some(true) {
        without_init(&mut report);
    }
    report
}

/// The command without the init in front of it, where there is one.
fn without_init(report: &mut ContainerInspectResponse) {
    let has_init = report
        .path
        .as_deref()
        .is_some_and(|path| INITS.contains(&path));
    let args = report.args.take().unwrap_or_default();
    match (has_init, args.split_first()) {
        (true, Some((dashes, command))) if dashes == "--" => {
            report.path = command.first().cloned();
            report.args = Some(command.iter().skip(1).cloned().collect());
        }
        _ => report.args = Some(args),
    }
}

fn hear_config(planned: &Container, config: &mut ContainerConfig) {
    let body = &planned.body;
    // Not reported: what is attached is decided with each attachment.
    config.attach_stdin = config.attach_stdin.filter(|is| *is).or(body.attach_stdin);
    config.attach_stdout = config.attach_stdout.filter(|is| *is).or(body.attach_stdout);
    config.attach_stderr = config.attach_stderr.filter(|is| *is).or(body.attach_stderr);
    config.stdin_once = config.stdin_once.filter(|is| *is).or(body.stdin_once);
    // The image by a name that it has; which one it is stands elsewhere, as its id.
    config.image.clone_from(&body.image);
    if config.stop_signal.as_deref() == Some("9") {
        config.stop_signal = Some("SIGKILL".to_owned());
    }
    let unset: Vec<&String> = body
        .env
        .iter()
        .flatten()
        .filter(|variable| !variable.contains('='))
        .collect();
    let hostname = body.hostname.as_deref().unwrap_or_default();
    let hostname = format!("HOSTNAME={hostname}");
    let is_own = |variable: &String| {
        let is_stated = body.env.iter().flatten().any(|stated| stated == variable);
        !is_stated && (OWN_VARIABLES.contains(&variable.as_str()) || *variable == hostname)
    };
    let variables = config.env.take().into_iter().flatten();
    let variables = variables.filter(|variable| !is_own(variable));
    let variables = variables.map(|variable| match variable.strip_suffix('=') {
        Some(name) if unset.iter().any(|unset| *unset == name) => name.to_owned(),
        Some(_) | None => variable,
    });
    config.env = Some(variables.collect());
}

fn hear_host(planned: &Container, host: &mut HostConfig) {
    let Some(wanted) = &planned.body.host_config else {
        return;
    };
    hear_mounts(wanted, host);
    if is_holder(planned) {
        hear_own_tmpfs(host);
    }
    let dropped = host.cap_drop.as_deref().unwrap_or_default();
    let are_all_dropped = DEFAULT_CAPABILITIES
        .iter()
        .all(|name| dropped.iter().any(|dropped| dropped == name));
    if are_all_dropped && wanted.cap_drop.as_deref() == Some(&["ALL".to_owned()]) {
        host.cap_drop.clone_from(&wanted.cap_drop);
    }
    for limit in host.ulimits.iter_mut().flatten() {
        hear_limit(limit);
    }
    let is_private = |mode: &Option<String>| mode.as_deref() == Some("private");
    if is_private(&host.pid_mode) {
        host.pid_mode.clone_from(&wanted.pid_mode);
    }
    if is_private(&host.uts_mode) {
        host.uts_mode.clone_from(&wanted.uts_mode);
    }
    // What 4.3 reports of a namespace of its own, and of the host's: so this is not told either.
    if host.ipc_mode.as_deref() == Some("shareable") {
        host.ipc_mode.clone_from(&wanted.ipc_mode);
    }
    let quota = host.nano_cpus.map(|cpus| cpus / (NANO_CPUS / CPU_PERIOD));
    if quota == host.cpu_quota && host.cpu_period == Some(CPU_PERIOD) {
        (host.cpu_quota, host.cpu_period) = (None, None);
    }
    // Confinement by AppArmor comes on top, where the machine has it.
    if let Some(options) = &mut host.security_opt {
        let is_more =
            |option: &String| option.starts_with("apparmor=") && option != "apparmor=unconfined";
        options.retain(|option| !is_more(option));
    }
    // Not reported.
    host.sysctls = host.sysctls.take().or_else(|| wanted.sysctls.clone());
    host.masked_paths = host
        .masked_paths
        .take()
        .or_else(|| wanted.masked_paths.clone());
    host.readonly_paths = host
        .readonly_paths
        .take()
        .or_else(|| wanted.readonly_paths.clone());
    let unsaid = [None, Some(HostConfigCgroupnsModeEnum::EMPTY)];
    if unsaid.contains(&host.cgroupns_mode) {
        host.cgroupns_mode = wanted.cgroupns_mode;
    }
}

/// `RLIMIT_NOFILE` is `nofile`.
fn hear_limit(limit: &mut ResourcesUlimits) {
    let name = limit.name.as_deref().unwrap_or_default();
    if let Some(plain) = name.strip_prefix("RLIMIT_") {
        limit.name = Some(plain.to_ascii_lowercase());
    }
}

/// Every mount is reported as a bind of the short form. Where each is one of the plan with its
/// flags, they are the plan's mounts.
fn hear_mounts(wanted: &HostConfig, host: &mut HostConfig) {
    let mounts: Vec<&Mount> = wanted.mounts.iter().flatten().collect();
    let binds: Vec<&String> = host.binds.iter().flatten().collect();
    let is_there = |mount: &&Mount| binds.iter().any(|bind| is_reported_by(mount, bind));
    if mounts.len() == binds.len() && mounts.iter().all(is_there) {
        host.mounts.clone_from(&wanted.mounts);
        host.binds.clone_from(&wanted.binds);
    }
}

/// Whether a bind is this mount, `SOURCE:TARGET:FLAG,FLAG`.
fn is_reported_by(mount: &Mount, bind: &str) -> bool {
    let source = mount.source.as_deref().unwrap_or_default();
    let target = mount.target.as_deref().unwrap_or_default();
    let Some(flags) = bind.strip_prefix(&format!("{source}:{target}:")) else {
        return false;
    };
    let flags: Vec<&str> = flags.split(',').collect();
    let access = if mount.read_only == Some(true) {
        "ro"
    } else {
        "rw"
    };
    let needed: &[&str] = match mount.typ {
        Some(MountType::VOLUME) => &[access, "rprivate", "noexec", "nosuid", "nodev"],
        // Not `rbind`: without what is mounted below it.
        _ => &[access, "rprivate", "bind"],
    };
    let known = ["ro", "rw", "rbind", "nocopy"];
    needed.iter().all(|flag| flags.contains(flag))
        && flags.iter().all(|flag| {
            needed.contains(flag) || (known.contains(flag) && mount.typ == Some(MountType::VOLUME))
        })
        && !(flags.contains(&"ro") && flags.contains(&"rw"))
}

/// What the holder has in memory of Podman's own: it runs nothing but our binary.
fn hear_own_tmpfs(host: &mut HostConfig) {
    let tmpfs: HashMap<String, String> = host.tmpfs.take().unwrap_or_default();
    let others = tmpfs
        .into_iter()
        .filter(|(target, _)| !OWN_TMPFS.contains(&target.as_str()));
    host.tmpfs = Some(others.collect());
}
