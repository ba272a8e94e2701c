//! `RunSpec` to `Plan`: everything about a sandbox, chosen in pure code. Holding a `Plan` proves
//! that the hardening is complete; a backend maps every field of it or does not compile.

mod build;
mod check;
mod environment;
mod files;
mod hardening;
mod labels;
mod slot;

use std::{collections::BTreeMap, net::Ipv4Addr, path::PathBuf};

use ipnet::Ipv4Net;
use serde::Serialize;

pub(in crate::launcher) use self::build::claim;
pub use self::{
    build::{Facts, InputFacts, PodmanFacts, plan},
    check::PlanError,
    labels::{Labels, Owner, Process},
    slot::{fits_slot, slot},
};
use super::spec::User;
use crate::{admin::RunRequest, record::RunId};

/// Everything that is made for one run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Plan {
    /// The run.
    #[serde(serialize_with = "display")]
    pub run: RunId,
    /// What every object of the run bears, so that a later start can reap it.
    pub labels: BTreeMap<String, String>,
    /// The container that runs the command.
    pub sandbox: Sandbox,
    /// What it is attached to.
    pub network: Network,
    /// Volumes in memory, in the order of their making.
    pub volumes: Vec<Volume>,
    /// The container that keeps the volumes alive whose content comes from outside or goes there;
    /// there is one where there are such volumes.
    pub holder: Option<Holder>,
    /// What the proxy is told of the run; none without it.
    pub registration: Option<RunRequest>,
}

impl Plan {
    /// The container that keeps volumes alive, whoever made it.
    pub fn keeper(&self) -> Option<&Holder> {
        match &self.network {
            Network::Slot(slot) => Some(&slot.holder),
            Network::None | Network::Slice(_) | Network::Named { .. } => self.holder.as_ref(),
        }
    }

    /// The volume that it has at `target`.
    pub fn volume_at(&self, target: &str) -> Option<&Volume> {
        let mounted = &self.keeper()?.volumes;
        let (name, _) = mounted.iter().find(|(_, at)| *at == target)?;
        let own = match &self.network {
            Network::Slot(slot) => Some(&slot.volume),
            Network::None | Network::Slice(_) | Network::Named { .. } => None,
        };
        let mut all = self.volumes.iter().chain(own);
        all.find(|volume| volume.name == *name)
    }
}

/// The container that runs the command. What is not here is fixed by the backend to the strictest
/// value and held against what the engine reports.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a switch of the engine's API"
)]
pub struct Sandbox {
    /// The container's name.
    pub name: String,
    /// The image's id.
    pub image: String,
    /// The command and its arguments.
    pub command: Vec<String>,
    /// Its whole environment, sorted by name.
    pub env: BTreeMap<String, String>,
    /// Names in the image's environment that must not reach it.
    pub unset: Vec<String>,
    /// Whom it runs as.
    pub user: User,
    /// The working directory.
    pub workdir: String,
    /// The host name inside.
    pub hostname: String,
    /// Whether standard input is passed in.
    pub stdin: bool,
    /// Memory and swap together, in bytes.
    pub memory: u64,
    /// Processors, in thousand-millionths of one.
    pub nano_cpus: u64,
    /// Processes and threads.
    pub pids: u32,
    /// Resource limits by their name in `ulimit`s, soft and hard alike.
    pub ulimits: BTreeMap<String, u64>,
    /// The engine's own `/dev/shm`, in bytes; one of `tmpfs` stands over it.
    pub shm: u64,
    /// File systems in memory.
    pub tmpfs: Vec<Tmpfs>,
    /// What is mounted from outside.
    pub mounts: Vec<Mount>,
    /// The name servers that the engine is told; the engine's own choice where there are none.
    pub dns: Vec<Ipv4Addr>,
    /// Kernel settings of its own namespaces.
    pub sysctls: BTreeMap<String, String>,
    /// The system call filter.
    pub seccomp: Filter,
    /// The engine's runtime.
    pub runtime: Option<String>,
    /// Capabilities dropped.
    pub cap_drop: Vec<String>,
    /// Whether set-id programs and file capabilities are without effect.
    pub no_new_privileges: bool,
    /// Whether the root file system is read-only.
    pub read_only_root: bool,
    /// Whether process 1 is an init that reaps.
    pub init: bool,
    /// Paths hidden from it.
    pub masked_paths: Vec<String>,
    /// Paths of /proc and /sys that it cannot write.
    pub readonly_paths: Vec<String>,
}

/// A system call filter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Filter {
    /// The filter itself, in Docker's JSON form.
    Inline(String),
    /// A file of the engine's host that holds it.
    File(PathBuf),
}

/// A file system in memory, always `noexec,nosuid,nodev`, mode 1777.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Tmpfs {
    /// Where it is mounted.
    pub target: String,
    /// Its size in bytes.
    pub size: u64,
    /// The most files.
    pub inodes: u64,
}

impl Sandbox {
    /// Whether a volume is mounted in it.
    pub fn has_volume(&self, name: &str) -> bool {
        let is_it =
            |mount: &Mount| matches!(&mount.source, MountSource::Volume(volume) if volume == name);
        self.mounts.iter().any(is_it)
    }
}

/// Something mounted from outside the sandbox.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Mount {
    /// What.
    pub source: MountSource,
    /// Where.
    pub target: String,
    /// Whether it cannot be written.
    pub read_only: bool,
}

/// Where a mount comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum MountSource {
    /// A path of the engine's host, bound without what is mounted below it.
    Bind(PathBuf),
    /// A volume of the plan, by name; the image's content is not copied into it.
    Volume(String),
}

/// What a sandbox is attached to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Network {
    /// A loopback interface and nothing else.
    None,
    /// A network made for this run.
    Slice(Slice),
    /// One that was made ahead, and was claimed by this run alone; nobody had it before.
    Slot(Box<Slot>),
    /// A network that exists.
    Named {
        /// Its name.
        name: String,
        /// Whether one that reaches the host or the world is taken.
        dangerously_allow: bool,
    },
}

/// A private network with two members: the sandbox and the proxy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Slice {
    /// The network's name, `agent-egress-<run>`.
    pub name: String,
    /// Its range, a /29.
    #[serde(serialize_with = "display")]
    pub subnet: Ipv4Net,
    /// Reserved, so that no engine gives it to a container; nobody has it.
    pub gateway: Ipv4Addr,
    /// The proxy's address.
    pub proxy: Ipv4Addr,
    /// The sandbox's.
    pub sandbox: Ipv4Addr,
}

/// What is made ahead of a run: its private network with the proxy attached, and a holder that has
/// the sandbox's address there and a volume for `/output`. The sandbox joins the holder's network
/// namespace, in which nobody else ever was.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Slot {
    /// Its id, which is in the names of its parts.
    #[serde(serialize_with = "display")]
    pub id: RunId,
    /// Its network.
    pub slice: Slice,
    /// What stands at `/output` of a run that has one.
    pub volume: Volume,
    /// The container that keeps both.
    pub holder: Holder,
}

/// A volume in memory, `noexec,nosuid,nodev`, mode 1777; it lives as long as a container that
/// mounts it runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Volume {
    /// Its name.
    pub name: String,
    /// Its size in bytes.
    pub size: u64,
    /// The most files.
    pub inodes: u64,
    /// The mode of its root.
    pub mode: u32,
    /// Whose its root is.
    pub owner: User,
}

/// A container of our own image that does nothing but keep volumes mounted, and a network namespace
/// where it has one, without a capability or a writable root.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Holder {
    /// The container's name.
    pub name: String,
    /// Volumes by name, and where each is mounted.
    pub volumes: BTreeMap<String, String>,
    /// Resource limits, as of a sandbox.
    pub ulimits: BTreeMap<String, u64>,
    /// Paths hidden from it.
    pub masked_paths: Vec<String>,
    /// Paths of /proc and /sys that it cannot write.
    pub readonly_paths: Vec<String>,
    /// The network namespace that a sandbox will join; none: a loopback interface and nothing else.
    pub namespace: Option<Namespace>,
}

/// A network namespace, with everything that an engine sets for whoever joins it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Namespace {
    /// The network's name.
    pub network: String,
    /// The address on it.
    pub address: Ipv4Addr,
    /// The host name.
    pub hostname: String,
    /// The name servers that the engine is told.
    pub dns: Vec<Ipv4Addr>,
    /// Kernel settings.
    pub sysctls: BTreeMap<String, String>,
}

fn display<T: std::fmt::Display, S: serde::Serializer>(
    value: &T,
    to: S,
) -> Result<S::Ok, S::Error> {
    to.collect_str(value)
}

#[cfg(test)]
mod tests;
