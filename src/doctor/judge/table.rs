//! The table: for each probe what is tried, what may come of it, and what to do where something else
//! does.

use crate::doctor::{Ground, Probe};

/// What may be seen.
pub(super) enum Allowed {
    /// Each result is one of these.
    Results(&'static [&'static str]),
    /// Each thing is one of these, whatever its value.
    Subjects(&'static [&'static str]),
}

/// No way there: the kernel says so at once, or nobody answers. A refused connection is an answer.
const UNREACHED: Allowed = Allowed::Results(&[
    "ENETUNREACH",
    "EHOSTUNREACH",
    "ETIMEDOUT",
    "EPERM",
    "EACCES",
    "EADDRNOTAVAIL",
    "EAFNOSUPPORT",
    "nobody",
    "none",
]);

/// The same without silence, which of what is nobody's shows that a packet was taken.
const UNSENT: Allowed = Allowed::Results(&[
    "ENETUNREACH",
    "EHOSTUNREACH",
    "EPERM",
    "EACCES",
    "EADDRNOTAVAIL",
    "EAFNOSUPPORT",
    "nobody",
]);

/// An answer that holds nothing, or none.
const NO_DATA: Allowed = Allowed::Results(&[
    "NXDOMAIN",
    "NOERROR 0",
    "REFUSED",
    "SERVFAIL",
    "ETIMEDOUT",
    "ECONNREFUSED",
    "ENETUNREACH",
    "EHOSTUNREACH",
    "EPERM",
    "nobody",
]);

const NO_SOCKET: Allowed = Allowed::Results(&[
    "EPERM",
    "EACCES",
    "EAFNOSUPPORT",
    "EPROTONOSUPPORT",
    "ESOCKTNOSUPPORT",
]);

const REFUSED: Allowed = Allowed::Results(&["EPERM", "EACCES", "ENOSYS"]);

/// What the launcher sets, and of Podman its own; nothing of the host's is among it.
const ENVIRONMENT: &[&str] = &[
    "PATH",
    "HOME",
    "HOSTNAME",
    "LANG",
    "TMPDIR",
    "http_proxy",
    "https_proxy",
    "all_proxy",
    "no_proxy",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
    "NODE_USE_ENV_PROXY",
    "JAVA_TOOL_OPTIONS",
    "container",
    "TERM",
];

const ALIASES: &[&str] = &[
    "localhost",
    "ip6-localhost",
    "ip6-loopback",
    "ip6-localnet",
    "ip6-mcastprefix",
    "ip6-allnodes",
    "ip6-allrouters",
    "sandbox",
];

/// The engines' inits, and us.
const PROCESSES: &[&str] = &["docker-init", "tini", "catatonit", "podman-init", "eclusa"];

const DEVICES: &[&str] = &[
    "console", "core", "fd", "full", "mqueue", "null", "ptmx", "pts", "random", "shm", "stderr",
    "stdin", "stdout", "tty", "urandom", "zero",
];

pub(super) fn allowed(probe: Probe, ground: Ground) -> Allowed {
    match probe {
        Probe::HostTcp
        | Probe::HostUdp
        | Probe::EnginePorts
        | Probe::Gateway
        | Probe::Metadata
        | Probe::Neighbour
        | Probe::DnsElsewhere
        | Probe::Ipv6LinkLocal => UNREACHED,
        Probe::DirectTcp | Probe::DirectUdp => UNSENT,
        Probe::Ipv6Addresses => Allowed::Results(&["none"]),
        Probe::ByProxy => Allowed::Results(&["403"]),
        Probe::DnsDenied => Allowed::Results(&["NXDOMAIN"]),
        Probe::DnsTypes => match ground {
            // Silence would show nothing there: the server is ours.
            Ground::Private => Allowed::Results(&["NXDOMAIN", "NOERROR 0", "REFUSED"]),
            Ground::Shared | Ground::None => NO_DATA,
        },
        Probe::DnsEmbedded => NO_DATA,
        Probe::RawSockets | Probe::PingSockets | Probe::OtherSockets => NO_SOCKET,
        Probe::Identity => Allowed::Results(&["65534 65534 65534 65534"]),
        Probe::Capabilities => Allowed::Results(&["0000000000000000"]),
        Probe::NoNewPrivileges => Allowed::Results(&["1"]),
        Probe::Seccomp => Allowed::Results(&["2"]),
        Probe::Namespaces | Probe::Mounts | Probe::MemoryPrograms => REFUSED,
        Probe::Processes => Allowed::Subjects(PROCESSES),
        Probe::KernelSettings => {
            Allowed::Results(&["EROFS", "EACCES", "EPERM", "ENOENT", "ENOTDIR"])
        }
        Probe::MaskedPaths => Allowed::Results(&["empty", "ENOENT", "EACCES", "EPERM"]),
        Probe::Devices => Allowed::Subjects(DEVICES),
        Probe::EngineSockets => Allowed::Results(&["ENOENT", "ENOTDIR"]),
        Probe::RootFileSystem => Allowed::Results(&["ro", "EROFS", "EACCES", "EPERM", "ENOENT"]),
        Probe::NoExec => Allowed::Results(&["EACCES"]),
        Probe::Room | Probe::FileCount => Allowed::Results(&["ENOSPC"]),
        Probe::Environment => Allowed::Subjects(ENVIRONMENT),
        Probe::HostAliases => Allowed::Subjects(ALIASES),
        Probe::CoreDumps => Allowed::Results(&["0"]),
        Probe::OpenFiles => Allowed::Results(&["EMFILE"]),
        Probe::FileSize => Allowed::Results(&["SIGXFSZ"]),
        Probe::Pids => Allowed::Results(&["EAGAIN"]),
        Probe::Memory | Probe::WallClock => Allowed::Results(&["SIGKILL"]),
    }
}

pub(super) fn title(probe: Probe) -> &'static str {
    match probe {
        Probe::HostTcp => "TCP to a listener at every address of the host",
        Probe::HostUdp => "UDP to a listener at every address of the host",
        Probe::EnginePorts => "engine and kubelet APIs at every address of the host",
        Probe::Gateway => "TCP and UDP to the gateway",
        Probe::Metadata => "cloud metadata addresses",
        Probe::Neighbour => "TCP and UDP to another sandbox",
        Probe::DirectTcp => "TCP to the world, past the proxy",
        Probe::DirectUdp => "UDP to the world",
        Probe::ByProxy => "metadata, the host and a foreign name through the proxy",
        Probe::DnsElsewhere => "DNS at the host's own servers",
        Probe::DnsDenied => "the address of a name that no policy allows",
        Probe::DnsTypes => "record types that carry data, at the sandbox's server",
        Probe::DnsEmbedded => "a foreign name at the engine's resolver, 127.0.0.11",
        Probe::Ipv6Addresses => "IPv6 addresses of the sandbox",
        Probe::Ipv6LinkLocal => "IPv6 link-local addresses of the host",
        Probe::RawSockets => "raw and packet sockets",
        Probe::PingSockets => "ICMP sockets",
        Probe::OtherSockets => "AF_VSOCK, AF_ALG, netlink and other families",
        Probe::Identity => "user and group, real, effective, saved",
        Probe::Capabilities => "the five sets of capabilities",
        Probe::NoNewPrivileges => "the no_new_privs flag",
        Probe::Seccomp => "the mode of seccomp",
        Probe::Namespaces => "chroot, setns, unshare, sethostname",
        Probe::Mounts => "mount, umount, fsopen, open_tree",
        Probe::MemoryPrograms => "a program in memory, past noexec",
        Probe::Processes => "processes in sight",
        Probe::KernelSettings => "settings in /proc and /sys, for writing",
        Probe::MaskedPaths => "paths that tell of the host, for reading",
        Probe::Devices => "devices in /dev",
        Probe::EngineSockets => "sockets of engines",
        Probe::RootFileSystem => "writing to / and to system files",
        Probe::NoExec => "running a program from writable places",
        Probe::Room => "twice the room of each writable place",
        Probe::FileCount => "twice the files of each writable place",
        Probe::Environment => "the environment",
        Probe::HostAliases => "names in /etc/hosts",
        Probe::CoreDumps => "the size of a core dump",
        Probe::OpenFiles => "opening files without end",
        Probe::FileSize => "writing one file without end",
        Probe::Pids => "starting threads without end",
        Probe::Memory => "taking twice the memory",
        Probe::WallClock => "outliving the time limit",
    }
}

pub(super) fn remedy(probe: Probe, ground: Ground) -> &'static str {
    let network = match ground {
        Ground::Shared => SHARED,
        Ground::Private | Ground::None => PRIVATE,
    };
    match probe {
        Probe::HostTcp
        | Probe::HostUdp
        | Probe::EnginePorts
        | Probe::Gateway
        | Probe::Metadata
        | Probe::DirectTcp
        | Probe::DirectUdp
        | Probe::DnsElsewhere => network,
        Probe::Neighbour => match ground {
            Ground::Shared => NEIGHBOURS,
            Ground::Private | Ground::None => network,
        },
        Probe::ByProxy | Probe::DnsDenied | Probe::DnsTypes => PROXY,
        Probe::DnsEmbedded => RESOLVER,
        Probe::Ipv6Addresses | Probe::Ipv6LinkLocal => IPV6,
        Probe::RawSockets | Probe::PingSockets | Probe::OtherSockets | Probe::Seccomp => SECCOMP,
        Probe::Identity
        | Probe::Capabilities
        | Probe::NoNewPrivileges
        | Probe::Namespaces
        | Probe::Mounts
        | Probe::MemoryPrograms
        | Probe::Processes
        | Probe::KernelSettings
        | Probe::MaskedPaths
        | Probe::Devices
        | Probe::EngineSockets
        | Probe::RootFileSystem
        | Probe::NoExec
        | Probe::Environment
        | Probe::HostAliases => RUNTIME,
        Probe::Room
        | Probe::FileCount
        | Probe::CoreDumps
        | Probe::OpenFiles
        | Probe::FileSize
        | Probe::Pids
        | Probe::Memory => LIMITS,
        Probe::WallClock => "the engine does not kill when it is told to; see its log",
    }
}

const SHARED: &str = "make the network with `--internal -o \
                      com.docker.network.bridge.inhibit_ipv4=true`, and attach only sandboxes and \
                      the proxy";
const PRIVATE: &str = "this engine does not keep the network apart; do not run hostile code on it, \
                       and tell the maintainers its version";
const NEIGHBOURS: &str = "on a shared bridge sandboxes reach each other; where that matters, use \
                          `eclusa run`, which gives each a network of its own";
const PROXY: &str =
    "see what the audit log says of it (`eclusa logs`), and report it to the maintainers";
const RESOLVER: &str = "update Docker to 23.0.11, 25.0.4, 26.0.0 or later (CVE-2024-29018), and \
                        give containers the proxy as their DNS server";
const IPV6: &str = "switch IPv6 off in the sandbox (`--sysctl net.ipv6.conf.all.disable_ipv6=1`)";
const SECCOMP: &str =
    "the engine or its runtime does not apply seccomp; see `docker info`, Security Options";
const RUNTIME: &str = "the runtime does not apply what the engine was told; update or replace it \
                       (`docker info`, Default Runtime)";
const LIMITS: &str = "the kernel or the runtime does not apply this limit; see the warnings of \
                      `docker info`, and enable the cgroup controllers memory and pids";
