//! Whether the boundaries hold on this very host: a real sandbox beside a real neighbour tries what
//! must not work, by the binary itself. What runs inside reports and judges nothing (`probe`); what
//! may come of each attempt stands in one table (`judge`).

pub mod judge;
pub mod probe;

mod examine;
mod host;
mod versions;

use serde::{Deserialize, Serialize};

pub use self::{
    examine::{Doctor, DoctorError, Examination},
    versions::Versions,
};

/// One attempt, and what came of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Observation {
    /// Which boundary it was made at.
    pub probe: Probe,
    /// What it was made with: an address, a path, a name.
    pub what: String,
    /// What happened: `connected`, the error's name, a value that was read.
    pub result: String,
}

macro_rules! probes {
    ($($(#[$about:meta])+ $name:ident,)+) => {
        /// A boundary that is tried, in the order of the report.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum Probe {
            $($(#[$about])+ $name,)+
        }

        impl Probe {
            /// Every one.
            pub const ALL: &[Self] = &[$(Self::$name,)+];
        }
    };
}

probes! {
    /// The addresses of the host, by TCP.
    HostTcp,
    /// The addresses of the host, by UDP.
    HostUdp,
    /// The APIs of engines and of kubelet on the host.
    EnginePorts,
    /// The address where a gateway is, or would be.
    Gateway,
    /// Metadata services of clouds.
    Metadata,
    /// Another sandbox.
    Neighbour,
    /// The world, by TCP.
    DirectTcp,
    /// The world, by UDP.
    DirectUdp,
    /// What must not be had through the proxy.
    ByProxy,
    /// Name servers other than ours.
    DnsElsewhere,
    /// A name that no policy allows.
    DnsDenied,
    /// Record types that carry data.
    DnsTypes,
    /// The resolver that the engine puts into a network.
    DnsEmbedded,
    /// Addresses of IPv6.
    Ipv6Addresses,
    /// The host's link-local addresses.
    Ipv6LinkLocal,
    /// Sockets that make their own packets.
    RawSockets,
    /// Sockets for ICMP.
    PingSockets,
    /// Families beside those that programs need.
    OtherSockets,
    /// The user and the group.
    Identity,
    /// Every set of capabilities.
    Capabilities,
    /// Whether set-id programs are without effect.
    NoNewPrivileges,
    /// The system call filter.
    Seccomp,
    /// New namespaces, and others' ones.
    Namespaces,
    /// Mounts.
    Mounts,
    /// Programs in memory alone.
    MemoryPrograms,
    /// What runs besides.
    Processes,
    /// Settings of the kernel.
    KernelSettings,
    /// What of /proc and /sys is hidden.
    MaskedPaths,
    /// Devices.
    Devices,
    /// The sockets of engines.
    EngineSockets,
    /// The root file system.
    RootFileSystem,
    /// Programs in writable places.
    NoExec,
    /// Room in writable places.
    Room,
    /// How many files writable places hold.
    FileCount,
    /// The environment.
    Environment,
    /// Names in /etc/hosts.
    HostAliases,
    /// Core dumps.
    CoreDumps,
    /// Open files.
    OpenFiles,
    /// The size of one file.
    FileSize,
    /// Processes and threads.
    Pids,
    /// Memory.
    Memory,
    /// The wall clock.
    WallClock,
}

impl std::fmt::Display for Probe {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.serialize(f)
    }
}

/// What a sandbox is examined on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ground {
    /// A private network with the proxy.
    Private,
    /// A network that its user made.
    Shared,
    /// No network.
    None,
}
