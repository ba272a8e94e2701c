//! What can be said of a wish without knowing anything else.

use std::fmt;

use super::hardening::LEAST_PIDS;
use crate::{
    config::RUN_TIMES,
    launcher::spec::{NetworkChoice, Quantity, RunSpec},
};

/// Why there is no plan.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "each message says it")]
pub enum PlanError {
    #[error("there is no command; write it after the image")]
    NoCommand,
    #[error("{0} holds a NUL byte")]
    Nul(&'static str),
    #[error("--workdir {0:?} is not an absolute path without `..`")]
    Workdir(String),
    #[error("{what} {given} is out of its range, {range}")]
    OutOfRange {
        what: &'static str,
        given: String,
        range: String,
    },
    #[error("user or group 0 in a sandbox needs --dangerously-run-as-root")]
    Root,
    #[error("{0:?} is not the name of an environment variable")]
    VariableName(String),
    #[error("{0} is set by the launcher on a network with the proxy")]
    ProxyVariable(String),
    #[error(
        "{name} looks like a credential: {why}; hostile code can send it to any host that it may \
         reach. Pass it with --dangerously-allow-secret-env if that is meant"
    )]
    Credential { name: String, why: &'static str },
    #[error("--allow and --profile need --network egress")]
    PolicyWithoutProxy,
    #[error("network {0:?} is never joined: it is the host's or another container's")]
    NetworkName(String),
    #[error(
        "the image declares the volume {0:?}, which cannot be put in memory; use another image"
    )]
    ImageVolume(String),
    #[error("there is no range for the private network")]
    NoSlice,
    #[error(
        "Podman takes {0:?} for the init of a whole system and opens more to it; start it by \
         another name, or through a shell"
    )]
    InitOfSystem(String),
}

/// Refuses what Podman would make something else of. Security: for a command that it takes for an
/// init it mounts a writable /sys/fs/cgroup and more file systems in memory.
pub(super) fn check_for_podman(spec: &RunSpec) -> Result<(), PlanError> {
    let Some(program) = spec.command.first() else {
        return Err(PlanError::NoCommand);
    };
    let is_systemd = program.rsplit('/').next() == Some("systemd");
    if is_systemd || INITS.contains(&program.as_str()) {
        return Err(PlanError::InitOfSystem(program.clone()));
    }
    Ok(())
}

/// Programs that Podman takes for an init of a system, besides every one named `systemd`.
const INITS: &[&str] = &["/sbin/init", "/usr/sbin/init", "/usr/local/sbin/init"];

/// Refuses what no sandbox may have.
pub(super) fn check(spec: &RunSpec) -> Result<(), PlanError> {
    if spec.command.first().is_none_or(String::is_empty) {
        return Err(PlanError::NoCommand);
    }
    if spec.command.iter().any(|word| word.contains('\0')) {
        return Err(PlanError::Nul("the command"));
    }
    let is_plain =
        spec.workdir.starts_with('/') && !spec.workdir.split('/').any(|part| part == "..");
    if !is_plain || spec.workdir.contains('\0') {
        return Err(PlanError::Workdir(spec.workdir.clone()));
    }
    if (spec.user.uid == 0 || spec.user.gid == 0) && !spec.dangerously_run_as_root {
        return Err(PlanError::Root);
    }
    check_ranges(spec)?;
    let has_policy = spec.profile.is_some() || !spec.allow.is_empty();
    match &spec.network {
        NetworkChoice::None | NetworkChoice::Named { .. } if has_policy => {
            Err(PlanError::PolicyWithoutProxy)
        }
        // Security: these are other namespaces, not networks; no flag opens them.
        NetworkChoice::Named { name, .. }
            if name == "host" || name.starts_with("container:") || name.starts_with("ns:") =>
        {
            Err(PlanError::NetworkName(name.clone()))
        }
        NetworkChoice::Egress | NetworkChoice::None | NetworkChoice::Named { .. } => Ok(()),
    }
}

fn check_ranges(spec: &RunSpec) -> Result<(), PlanError> {
    let limits = &spec.limits;
    let kept = u64::try_from(spec.max_output).unwrap_or(u64::MAX);
    let sizes = [
        ("--memory", limits.memory, Quantity::Memory),
        ("--fsize", limits.fsize, Quantity::File),
        ("--workspace-size", limits.workspace, Quantity::Room),
        ("--tmp-size", limits.tmp, Quantity::Room),
        ("--output-size", limits.output, Quantity::Room),
        ("--max-output", kept, Quantity::Kept),
    ];
    for (what, given, quantity) in sizes {
        if !quantity.holds(given) {
            return Err(out_of_range(what, given, quantity.range()));
        }
    }
    let (pids, nofile) = (limits.pids, limits.nofile);
    if !(MIN_CPUS..=MAX_CPUS).contains(&limits.nano_cpus) {
        let what = "--cpus, in thousand-millionths,";
        return Err(out_of_range(what, limits.nano_cpus, "0.01 to 1024"));
    }
    if !(LEAST_PIDS..=4_194_304).contains(&pids) {
        return Err(out_of_range("--pids", pids, "2 to 4194304"));
    }
    if !(16..=1_048_576).contains(&nofile) {
        return Err(out_of_range("--nofile", nofile, "16 to 1048576"));
    }
    if !RUN_TIMES.contains(&spec.timeout) {
        let given = format!("{:?}", spec.timeout);
        return Err(out_of_range("--timeout", given, "100ms to 7 days"));
    }
    Ok(())
}

/// Processors that a run may have, in thousand-millionths of one.
const MIN_CPUS: u64 = 10_000_000;
const MAX_CPUS: u64 = 1_024_000_000_000;

fn out_of_range(
    what: &'static str,
    given: impl fmt::Display,
    range: impl Into<String>,
) -> PlanError {
    PlanError::OutOfRange {
        what,
        given: given.to_string(),
        range: range.into(),
    }
}
