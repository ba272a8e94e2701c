//! What can be said of a wish without knowing anything else.

use super::hardening::LEAST_PIDS;
use crate::launcher::spec::{NetworkChoice, Quantity, RunSpec, TIMES};

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
        range: &'static str,
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
}

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
        NetworkChoice::Egress => Ok(()),
        NetworkChoice::None | NetworkChoice::Named { .. } if has_policy => {
            Err(PlanError::PolicyWithoutProxy)
        }
        // Security: these are other namespaces, not networks; no flag opens them.
        NetworkChoice::Named { name, .. }
            if name == "host" || name.starts_with("container:") || name.starts_with("ns:") =>
        {
            Err(PlanError::NetworkName(name.clone()))
        }
        NetworkChoice::None | NetworkChoice::Named { .. } => Ok(()),
    }
}

fn check_ranges(spec: &RunSpec) -> Result<(), PlanError> {
    let limits = &spec.limits;
    let kept = u64::try_from(spec.max_output).unwrap_or(u64::MAX);
    for (what, given, holds, range) in [
        (
            "--memory",
            limits.memory,
            Quantity::Memory.holds(limits.memory),
            "6 MiB to 1 TiB",
        ),
        (
            "--fsize",
            limits.fsize,
            Quantity::File.holds(limits.fsize),
            "1 B to 1 TiB",
        ),
        (
            "--workspace-size",
            limits.workspace,
            Quantity::Room.holds(limits.workspace),
            "4 KiB to 1 TiB",
        ),
        (
            "--tmp-size",
            limits.tmp,
            Quantity::Room.holds(limits.tmp),
            "4 KiB to 1 TiB",
        ),
        (
            "--output-size",
            limits.output,
            Quantity::Room.holds(limits.output),
            "4 KiB to 1 TiB",
        ),
        (
            "--max-output",
            kept,
            Quantity::Kept.holds(kept),
            "0 B to 1 GiB",
        ),
        (
            "--cpus, in thousand-millionths,",
            limits.nano_cpus,
            (10_000_000..=1_024_000_000_000).contains(&limits.nano_cpus),
            "0.01 to 1024",
        ),
        (
            "--pids",
            limits.pids.into(),
            (LEAST_PIDS..=4_194_304).contains(&limits.pids),
            "2 to 4194304",
        ),
        (
            "--nofile",
            limits.nofile.into(),
            (16..=1_048_576).contains(&limits.nofile),
            "16 to 1048576",
        ),
    ] {
        if !holds {
            return Err(PlanError::OutOfRange {
                what,
                given: given.to_string(),
                range,
            });
        }
    }
    if TIMES.contains(&spec.timeout) {
        return Ok(());
    }
    Err(PlanError::OutOfRange {
        what: "--timeout",
        given: format!("{:?}", spec.timeout),
        range: "100ms to 7 days",
    })
}
