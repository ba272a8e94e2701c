//! The proxy container that `eclusa run` attaches its sandboxes to: everything about it, chosen in
//! pure code.

mod archive;
mod elf;
mod image;
mod report;
mod settings;

#[cfg(test)]
mod tests;

use std::{collections::BTreeMap, path::PathBuf, time::Duration};

use serde::Serialize;

pub use self::{
    elf::Architecture,
    image::{ImageError, ImageName, OwnImage},
    report::{Action, AuditPlace, Down, Up},
    settings::{ProxySettings, ProxySettingsError},
};
use super::{backend::EngineKind, spec::User};

/// The container's name, which an engine gives once: who creates it has the others wait.
pub const NAME: &str = "eclusa-proxy";

/// The ordinary bridge that the proxy reaches the world by.
pub const UPLINK: &str = "egress-uplink";

/// What a proxy is found by, whoever started it.
pub const ROLE: (&str, &str) = ("eclusa.role", "proxy");

/// What the bridge is known by as ours.
pub const UPLINK_ROLE: (&str, &str) = ("eclusa.role", "uplink");

/// The label that names a proxy's image, which only a proxy made here bears.
pub const IMAGE_LABEL: &str = "eclusa.image";

/// The admin socket in the container.
pub const ADMIN_SOCKET: &str = "/run/eclusa/admin.sock";

/// The audit log in the container.
pub const AUDIT_FILE: &str = "/var/log/eclusa/audit.jsonl";

/// Where the configuration is in the container.
pub const CONFIG_FOLDER: &str = "/etc/eclusa";

/// The configuration in that folder.
pub const CONFIG_FILE: &str = "eclusa.toml";

/// Whom the proxy runs as.
pub const USER: User = User {
    uid: 65532,
    gid: 65532,
};

/// How the launcher's proxy is found, and made where there is none.
#[derive(Clone, Debug, Default)]
pub struct ProxyOptions {
    /// The static `eclusa` that our image is made from: `/proc/self/exe` for the command itself,
    /// and for a program that is not `eclusa` wherever that is installed.
    pub binary: Option<PathBuf>,
    /// The user's configuration; without one any running proxy is taken, and a new one gets the
    /// built-in configuration.
    pub settings: Option<ProxySettings>,
    /// Where the admin socket may be reached from here, if the user says so.
    pub admin: Option<PathBuf>,
}

/// The proxy container, whole.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ProxyPlan {
    /// Its name.
    pub name: &'static str,
    /// What it bears.
    pub labels: BTreeMap<&'static str, String>,
    /// The image's id.
    pub image: String,
    /// Its host name, which nobody else has.
    pub hostname: String,
    /// The program and its arguments.
    pub command: Vec<&'static str>,
    /// Whom it runs as.
    pub user: User,
    /// The network of its default route; slices are attached later.
    pub network: &'static str,
    /// Memory and swap together, in bytes.
    pub memory: u64,
    /// Processes and threads.
    pub pids: u32,
    /// Kernel settings of its own namespaces.
    pub sysctls: BTreeMap<&'static str, &'static str>,
    /// What it keeps.
    pub volumes: [ProxyVolume; 3],
    /// How the engine asks whether it is healthy.
    pub health: HealthCheck,
    /// The engine's log driver and its options; bounded, since what is logged is in part up to
    /// sandboxes.
    pub log: (&'static str, BTreeMap<&'static str, &'static str>),
    /// How long a stop may take.
    pub stop_timeout: Duration,
    /// Capabilities dropped.
    pub cap_drop: [&'static str; 1],
    /// Whether set-id programs and file capabilities are without effect.
    pub no_new_privileges: bool,
    /// Whether the root file system is read-only.
    pub read_only_root: bool,
    /// Whether the engine starts it again unless it was stopped.
    pub restart_unless_stopped: bool,
}

/// How an engine asks a container whether it is healthy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct HealthCheck {
    /// The program that says so, and its arguments.
    pub command: [&'static str; 2],
    /// Between two questions.
    pub interval: Duration,
    /// For one answer.
    pub timeout: Duration,
    /// After the start, in which no does not count.
    pub start_period: Duration,
    /// How often no makes it unhealthy.
    pub retries: u32,
}

/// A volume of the proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ProxyVolume {
    /// Its name.
    pub name: &'static str,
    /// Where it is mounted.
    pub target: &'static str,
    /// Whether `eclusa down` leaves it.
    pub kept: bool,
}

impl ProxyVolume {
    /// The admin socket.
    pub const SOCKET: Self = Self {
        name: "eclusa-proxy",
        target: "/run/eclusa",
        kept: false,
    };
    /// The configuration. It is mounted writable, because an engine puts no file into a volume that
    /// is not; what lies in it is root's.
    pub const CONFIG: Self = Self {
        name: "eclusa-config",
        target: CONFIG_FOLDER,
        kept: false,
    };
    /// The audit log.
    pub const AUDIT: Self = Self {
        name: "eclusa-audit",
        target: "/var/log/eclusa",
        kept: true,
    };
}

impl ProxyPlan {
    /// The proxy of `image` under `settings`. `unique` tells this container from every other.
    pub fn new(
        engine: EngineKind,
        (image, name): (&str, &ImageName),
        settings: &ProxySettings,
        unique: ulid::Ulid,
    ) -> Self {
        Self {
            name: NAME,
            labels: [(ROLE.0, ROLE.1.to_owned()), (IMAGE_LABEL, name.reference())].into(),
            image: image.to_owned(),
            hostname: format!("eclusa-{}", unique.to_string().to_ascii_lowercase()),
            command: vec!["/eclusa", "serve", "-c", "/etc/eclusa/eclusa.toml"],
            user: USER,
            network: UPLINK,
            memory: memory(settings.connections()),
            pids: 1024,
            sysctls: [
                ("net.ipv4.ip_forward", "0"),
                ("net.ipv4.ip_unprivileged_port_start", "0"),
                (IPV6_FORWARDING, "0"),
            ]
            .into(),
            volumes: [ProxyVolume::SOCKET, ProxyVolume::CONFIG, ProxyVolume::AUDIT],
            health: HealthCheck {
                command: ["/eclusa", "health"],
                interval: Duration::from_secs(10),
                timeout: Duration::from_secs(3),
                start_period: Duration::from_secs(5),
                retries: 3,
            },
            log: log(engine),
            stop_timeout: stop_timeout(settings.drain_timeout()),
            cap_drop: ["ALL"],
            no_new_privileges: true,
            read_only_root: true,
            restart_unless_stopped: true,
        }
    }

    /// The same for a kernel without IPv6, which has no such setting.
    #[must_use]
    pub fn without_ipv6(mut self) -> Self {
        self.sysctls.remove(IPV6_FORWARDING);
        self
    }

    /// Whether a container did not start because its kernel has no IPv6, by what the engine says.
    pub fn lacks_ipv6(refusal: &str) -> bool {
        refusal.contains(IPV6_FORWARDING) || refusal.contains("/proc/sys/net/ipv6/")
    }
}

/// Turned off explicitly, although it is off in a new namespace.
const IPV6_FORWARDING: &str = "net.ipv6.conf.all.forwarding";

/// What is left to the engine between the end of the drain and a kill.
const STOP_MARGIN: Duration = Duration::from_secs(5);

/// How long a stop may take where a drain may take `drain_timeout`.
pub fn stop_timeout(drain_timeout: Duration) -> Duration {
    drain_timeout + STOP_MARGIN
}

/// For itself, and for each connection the buffers of both of its sides, here and in the kernel.
fn memory(connections: usize) -> u64 {
    const MIB: u64 = 1024 * 1024;
    let connections = u64::try_from(connections).unwrap_or(u64::MAX);
    connections
        .saturating_mul(MIB / 8)
        .saturating_add(256 * MIB)
}

fn log(engine: EngineKind) -> (&'static str, BTreeMap<&'static str, &'static str>) {
    match engine {
        EngineKind::Docker => ("json-file", [("max-size", "10m"), ("max-file", "3")].into()),
        EngineKind::Podman => ("k8s-file", [("max-size", "10m")].into()),
    }
}
