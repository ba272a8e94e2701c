//! The values of the hardening: what no run can do without.

use std::collections::BTreeMap;

use crate::launcher::spec::Limits;

/// `/dev/shm`, in bytes: Docker's own default, here stated. It counts as memory.
pub(super) const SHM: u64 = 64 * 1024 * 1024;

/// Where Podman mounts file systems in memory over a read-only root, open to all, from which programs
/// can be run and which have no size; what the plan has there stands instead.
pub(super) const PODMAN_TMPFS: &[&str] = &["/run", "/var/tmp"];

/// The fewest processes: the init and the command.
pub(super) const LEAST_PIDS: u32 = 2;

/// Paths hidden from a sandbox: Docker's list with `/proc/interrupts` and the like, which newer
/// engines have and older ones lack.
pub(super) const MASKED_PATHS: &[&str] = &[
    "/proc/acpi",
    "/proc/asound",
    "/proc/interrupts",
    "/proc/kcore",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/sched_debug",
    "/proc/scsi",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/sys/devices/virtual/powercap",
    "/sys/firmware",
];

/// Paths that stay readable and cannot be written.
pub(super) const READONLY_PATHS: &[&str] = &[
    "/proc/bus",
    "/proc/fs",
    "/proc/irq",
    "/proc/sys",
    "/proc/sysrq-trigger",
];

/// Resource limits (getrlimit(2)) by the names that engines use.
pub(super) fn ulimits(limits: &Limits) -> BTreeMap<String, u64> {
    [
        ("nofile", u64::from(limits.nofile)),
        ("fsize", limits.fsize),
        // A core dump would be a copy of memory wherever the host's core_pattern sends it.
        ("core", 0),
        ("memlock", 64 * 1024),
        ("msgqueue", 819_200),
        ("nice", 0),
        ("rtprio", 0),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into()
}

/// Kernel settings of the sandbox's own network namespace.
pub(super) fn sysctls(has_ipv6: bool) -> BTreeMap<String, String> {
    // Security: engines let every group open ICMP sockets; an empty range lets none.
    let mut sysctls = vec![("net.ipv4.ping_group_range", "1 0")];
    if has_ipv6 {
        // Security: an internal bridge keeps an IPv6 link-local address of the host.
        sysctls.extend([
            ("net.ipv6.conf.all.disable_ipv6", "1"),
            ("net.ipv6.conf.default.disable_ipv6", "1"),
        ]);
    }
    sysctls
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}

/// The most files of a file system in memory: one for every page, so that neither can be had
/// without the other, within bounds that keep the kernel's own bookkeeping small.
pub(super) fn inodes(size: u64) -> u64 {
    (size / 4096).clamp(1024, 1_000_000)
}
