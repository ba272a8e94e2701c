//! The plan of a run, from what was asked and what is known of the machine.

use std::{collections::BTreeMap, net::Ipv4Addr, path::PathBuf, time::Duration};

use ipnet::Ipv4Net;

use super::{
    Filter, Labels, Mount, MountSource, Network, Plan, PlanError, Sandbox, Slice,
    check::{check, check_for_podman},
    environment::environment,
    files::{holder, in_volumes, mounts, tmpfs, volumes},
    hardening::{self, MASKED_PATHS, READONLY_PATHS, SHM},
    slot::slot,
};
use crate::{
    admin::RunRequest,
    launcher::{
        backend::Image,
        spec::{NetworkChoice, RunSpec, Seccomp},
    },
    record::RunId,
};

/// The host name in every sandbox.
pub(super) const HOSTNAME: &str = "sandbox";

/// Our own system call filter.
const SECCOMP: &str = include_str!("../../../config/agent-seccomp.json");

/// The longest that the proxy holds a registration without hearing of the run again.
const REGISTRATION: Duration = Duration::from_secs(90);

/// What a plan is made from besides the wish.
#[derive(Clone, Debug)]
pub struct Facts<'a> {
    /// Whose it is, and until when.
    pub labels: &'a Labels,
    /// The image.
    pub image: &'a Image,
    /// The range of its slice; needed for `NetworkChoice::Egress`.
    pub slice: Option<Ipv4Net>,
    /// The slot that stands there already, where the run has claimed one.
    pub slot: Option<RunId>,
    /// A file of the engine's host with what `/etc/resolv.conf` is to be; none where the engine is
    /// remote.
    pub resolv_conf: Option<PathBuf>,
    /// What was found of the input.
    pub input: Option<InputFacts>,
    /// Whether the kernel has IPv6, which must then be switched off.
    pub has_ipv6: bool,
    /// What Podman needs besides, where it is the engine.
    pub podman: Option<PodmanFacts>,
}

/// What is stated to Podman and need not be to Docker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodmanFacts {
    /// A file of its host with the system call filter, which it takes in no other way.
    pub seccomp: PathBuf,
    /// A file of its host with what `/etc/hosts` is to be; its own names the host's address.
    pub hosts: PathBuf,
    /// The most processes of one user on its host (getrlimit(2)), which it would raise. The limit
    /// of the run's own processes is another.
    pub nproc: u64,
}

/// What was found of the input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InputFacts {
    /// A directory that may be bound.
    Bind(PathBuf),
    /// Content that is copied into a volume.
    Copy {
        /// The room that it takes, in bytes.
        size: u64,
        /// How many files it has.
        inodes: u64,
    },
}

/// Plans one run.
///
/// # Errors
/// The first thing asked for that no sandbox may have.
pub fn plan(spec: &RunSpec, facts: &Facts<'_>) -> Result<Plan, PlanError> {
    check(spec)?;
    let network = network(spec, facts)?;
    let volumes = volumes(spec, facts);
    let run = &facts.labels.run;
    let labels = Labels {
        slot: facts.slot.clone(),
        ..facts.labels.clone()
    };
    let kept = volumes.iter().map(|(target, volume)| (*target, volume));
    let mut plan = Plan {
        run: run.clone(),
        labels: labels.to_map(),
        holder: (!volumes.is_empty()).then(|| holder(run, &spec.limits, kept)),
        registration: registration(spec, &network),
        sandbox: sandbox(spec, facts, &network)?,
        network,
        volumes: volumes.into_values().collect(),
    };
    if let Some(podman) = &facts.podman {
        check_for_podman(spec)?;
        suit_podman(&mut plan, podman);
    }
    Ok(plan)
}

/// States what Podman does otherwise than Docker where nothing is said.
fn suit_podman(plan: &mut Plan, podman: &PodmanFacts) {
    let PodmanFacts {
        seccomp,
        hosts,
        nproc,
    } = podman;
    // Security: it has no cap on the number of files but in a volume.
    let (volumes, mounts) = in_volumes(plan, hardening::PODMAN_TMPFS);
    plan.volumes.extend(volumes);
    let sandbox = &mut plan.sandbox;
    sandbox.tmpfs.clear();
    sandbox.mounts.extend(mounts);
    // Security: it copies the host's, with a name for the host's address.
    sandbox.mounts.push(Mount {
        source: MountSource::Bind(hosts.clone()),
        target: "/etc/hosts".to_owned(),
        read_only: true,
    });
    sandbox.ulimits.insert("nproc".to_owned(), *nproc);
    sandbox.seccomp = Filter::File(seccomp.clone());
    if let Some(holder) = &mut plan.holder {
        holder.ulimits.insert("nproc".to_owned(), *nproc);
    }
}

fn network(spec: &RunSpec, facts: &Facts<'_>) -> Result<Network, PlanError> {
    Ok(match &spec.network {
        NetworkChoice::None => Network::None,
        NetworkChoice::Named {
            name,
            dangerously_allow,
        } => Network::Named {
            name: name.clone(),
            dangerously_allow: *dangerously_allow,
        },
        NetworkChoice::Egress => {
            let subnet = facts.slice.ok_or(PlanError::NoSlice)?;
            match &facts.slot {
                Some(id) => Network::Slot(Box::new(slot(id, subnet, facts.has_ipv6)?)),
                None => Network::Slice(slice(&facts.labels.run, subnet)?),
            }
        }
    })
}

/// The network of a run or a slot.
pub(super) fn slice(of: &RunId, subnet: Ipv4Net) -> Result<Slice, PlanError> {
    let mut hosts = subnet.hosts();
    let mut next = || hosts.next().ok_or(PlanError::NoSlice);
    let (gateway, proxy, sandbox) = (next()?, next()?, next()?);
    Ok(Slice {
        name: format!("agent-egress-{of}"),
        subnet,
        gateway,
        proxy,
        sandbox,
    })
}

fn registration(spec: &RunSpec, network: &Network) -> Option<RunRequest> {
    let slice = match network {
        Network::None | Network::Named { .. } => return None,
        Network::Slice(slice) => slice,
        Network::Slot(slot) => &slot.slice,
    };
    Some(RunRequest {
        sources: vec![slice.sandbox.into()],
        listener: Some(slice.proxy),
        ..claim(spec, None)
    })
}

/// What the proxy is told of a run before its addresses are known: it has those of an idle slot of
/// `pool`.
pub(in crate::launcher) fn claim(spec: &RunSpec, pool: Option<&str>) -> RunRequest {
    RunRequest {
        sources: Vec::new(),
        listener: None,
        pool: pool.map(Into::into),
        profile: spec.profile.as_deref().map(Into::into),
        allow: spec.allow.iter().map(ToString::to_string).collect(),
        expires_in: REGISTRATION,
    }
}

fn sandbox(spec: &RunSpec, facts: &Facts<'_>, network: &Network) -> Result<Sandbox, PlanError> {
    let limits = &spec.limits;
    let hostname = HOSTNAME;
    let own_sysctls = hardening::sysctls(facts.has_ipv6);
    let (proxy, dns, sysctls) = match network {
        Network::Slice(slice) => (Some(slice.proxy), vec![slice.proxy], own_sysctls),
        // Both are the namespace's, which the holder has.
        Network::Slot(slot) => (Some(slot.slice.proxy), Vec::new(), BTreeMap::new()),
        // Security: without a server of ours, engines copy the host's, with its search domains.
        Network::None => (None, vec![Ipv4Addr::LOCALHOST], own_sysctls),
        Network::Named { .. } => (None, Vec::new(), own_sysctls),
    };
    let mounts = mounts(spec, facts, network);
    let (env, unset) = environment(spec, &facts.image.env, hostname, proxy)?;
    Ok(Sandbox {
        name: format!("eclusa-run-{}", facts.labels.run),
        image: facts.image.id.clone(),
        command: spec.command.clone(),
        env,
        unset,
        user: spec.user,
        workdir: spec.workdir.clone(),
        hostname: hostname.to_owned(),
        stdin: spec.stdin,
        memory: limits.memory,
        nano_cpus: limits.nano_cpus,
        pids: limits.pids,
        ulimits: hardening::ulimits(limits),
        shm: SHM.min(limits.memory),
        tmpfs: tmpfs(spec, facts, &mounts)?,
        mounts,
        dns,
        sysctls,
        seccomp: match &spec.seccomp {
            Seccomp::BuiltIn => Filter::Inline(SECCOMP.to_owned()),
            Seccomp::Custom(profile) => Filter::Inline(profile.clone()),
        },
        runtime: spec.runtime.clone(),
        cap_drop: vec!["ALL".to_owned()],
        no_new_privileges: true,
        read_only_root: true,
        init: true,
        masked_paths: owned(MASKED_PATHS),
        readonly_paths: owned(READONLY_PATHS),
    })
}

pub(super) fn owned(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}
