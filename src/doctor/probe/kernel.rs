//! What the kernel does for the sandbox's program: sockets, namespaces, mounts, settings, devices.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read},
    os::{fd::AsFd, unix::net::UnixStream},
    path::Path,
    process::{Command, Stdio},
};

use rustix::{
    fs::{CWD, MemfdFlags, memfd_create},
    io::Errno,
    mount::{
        FsOpenFlags, MountFlags, OpenTreeFlags, UnmountFlags, fsopen, mount, open_tree, unmount,
    },
    process::chroot,
    system::sethostname,
    thread::{self, UnshareFlags, move_into_link_name_space},
};
use socket2::{Domain, Protocol, Socket, Type};

use super::{Notes, PROGRAM, code};
use crate::doctor::Probe;

/// Families, types and protocols by number (socket(2), linux/socket.h).
const SOCKETS: &[(Probe, &str, i32, i32, i32)] = &[
    (Probe::RawSockets, "AF_INET raw, ICMP", 2, 3, 1),
    (Probe::RawSockets, "AF_INET raw, any protocol", 2, 3, 255),
    (Probe::RawSockets, "AF_INET6 raw, ICMPv6", 10, 3, 58),
    (Probe::RawSockets, "AF_PACKET raw", 17, 3, 0x300),
    (Probe::RawSockets, "AF_PACKET datagram", 17, 2, 0x300),
    (Probe::RawSockets, "AF_INET SOCK_PACKET", 2, 10, 0x300),
    (Probe::PingSockets, "AF_INET ping", 2, 2, 1),
    (Probe::PingSockets, "AF_INET6 ping", 10, 2, 58),
    (Probe::OtherSockets, "AF_VSOCK", 40, 1, 0),
    (Probe::OtherSockets, "AF_ALG", 38, 5, 0),
    (Probe::OtherSockets, "AF_XDP", 44, 3, 0),
    (Probe::OtherSockets, "AF_KEY", 15, 3, 2),
    (Probe::OtherSockets, "AF_CAN", 29, 3, 1),
    (Probe::OtherSockets, "AF_TIPC", 30, 1, 0),
    (Probe::OtherSockets, "AF_BLUETOOTH", 31, 5, 0),
    (Probe::OtherSockets, "AF_RDS", 21, 5, 0),
    (Probe::OtherSockets, "AF_QIPCRTR", 42, 2, 0),
    (Probe::OtherSockets, "AF_SMC", 43, 1, 0),
    (Probe::OtherSockets, "AF_NETLINK netfilter", 16, 3, 12),
    (Probe::OtherSockets, "AF_NETLINK audit", 16, 3, 9),
    (Probe::OtherSockets, "AF_NETLINK uevents", 16, 3, 15),
    (Probe::OtherSockets, "AF_NETLINK generic", 16, 3, 16),
    (Probe::OtherSockets, "AF_INET SCTP", 2, 1, 132),
    (Probe::OtherSockets, "AF_INET MPTCP", 2, 1, 262),
];

/// Written to by whoever wants to be root outside.
const SETTINGS: &[&str] = &[
    "/proc/sysrq-trigger",
    "/proc/sys/kernel/core_pattern",
    "/proc/sys/kernel/modprobe",
    "/proc/sys/kernel/hostname",
    "/proc/sys/net/ipv4/ip_forward",
    "/proc/sys/net/ipv6/conf/all/disable_ipv6",
    "/proc/sys/fs/binfmt_misc/register",
    "/proc/sys/vm/panic_on_oom",
    "/proc/irq/default_smp_affinity",
    "/sys/kernel/uevent_helper",
    "/sys/kernel/profiling",
    "/sys/fs/cgroup/release_agent",
    "/sys/fs/cgroup/cgroup.procs",
    "/sys/power/state",
];

/// What tells of the host, or of its memory.
const MASKED: &[&str] = &[
    "/proc/acpi",
    "/proc/asound",
    "/proc/interrupts",
    "/proc/kcore",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/sched_debug",
    "/proc/scsi",
    "/proc/timer_list",
    "/sys/devices/virtual/powercap",
    "/sys/firmware",
];

const ENGINES: &[&str] = &[
    "/var/run/docker.sock",
    "/run/docker.sock",
    "/run/podman/podman.sock",
    "/run/containerd/containerd.sock",
    "/run/crio/crio.sock",
];

pub(super) fn try_all(notes: &mut Notes<'_>) -> io::Result<()> {
    for (probe, what, family, kind, protocol) in SOCKETS {
        let made = Socket::new(
            Domain::from(*family),
            Type::from(*kind),
            Some(Protocol::from(*protocol)),
        );
        notes.tell_call(*probe, *what, "made", made)?;
    }
    mounts(notes)?;
    memory_program(notes)?;
    for path in SETTINGS {
        let opened = OpenOptions::new().write(true).open(path);
        notes.tell_call(Probe::KernelSettings, *path, "opened", opened)?;
    }
    for path in MASKED {
        let seen = look(Path::new(path)).unwrap_or_else(|error| code(&error));
        notes.tell(Probe::MaskedPaths, *path, seen)?;
    }
    for entry in fs::read_dir("/dev")? {
        let name = entry?.file_name();
        notes.tell(Probe::Devices, name.to_string_lossy(), "there")?;
    }
    for path in ENGINES {
        let connected = UnixStream::connect(path);
        notes.tell_call(Probe::EngineSockets, *path, "connected", connected)?;
    }
    // A process of its own: where one succeeds, nothing that follows could be trusted.
    let child = Command::new(PROGRAM)
        .args(["probe", "namespaces"])
        .output()?;
    notes.out.write_all(&child.stdout)
}

/// Whether anything is to be seen there.
fn look(path: &Path) -> io::Result<String> {
    let is_empty = if path.is_dir() {
        fs::read_dir(path)?.next().is_none()
    } else {
        let mut byte = [0];
        File::open(path)?.read(&mut byte)? == 0
    };
    let seen = if is_empty { "empty" } else { "readable" };
    Ok(seen.to_owned())
}

fn mounts(notes: &mut Notes<'_>) -> io::Result<()> {
    let mut tell =
        |what, result: Result<(), Errno>| notes.tell_call(Probe::Mounts, what, "done", result);
    tell(
        "mount",
        mount("tmpfs", "/tmp", "tmpfs", MountFlags::empty(), None),
    )?;
    tell("umount", unmount("/workspace", UnmountFlags::DETACH))?;
    tell("fsopen", fsopen("tmpfs", FsOpenFlags::empty()).map(drop))?;
    tell(
        "open_tree",
        open_tree(CWD, "/", OpenTreeFlags::OPEN_TREE_CLONE).map(drop),
    )
}

/// A program that is on no file system, which `noexec` would not stop.
fn memory_program(notes: &mut Notes<'_>) -> io::Result<()> {
    let file = match memfd_create("program", MemfdFlags::empty()) {
        Ok(file) => File::from(file),
        Err(error) => {
            return notes.tell(Probe::MemoryPrograms, "memfd_create", code(&error.into()));
        }
    };
    io::copy(&mut File::open(PROGRAM)?, &mut &file)?;
    let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&file));
    let run = Command::new(path)
        .arg("--version")
        .stdout(Stdio::null())
        .status();
    notes.tell_call(
        Probe::MemoryPrograms,
        "memfd_create and execve",
        "executed",
        run,
    )
}

/// Tries to be somewhere else, or to become root in a namespace of its own.
pub(super) fn leave_namespaces(notes: &mut Notes<'_>) -> io::Result<()> {
    let mut tell =
        |what, result: Result<(), Errno>| notes.tell_call(Probe::Namespaces, what, "done", result);
    tell("sethostname".to_owned(), sethostname(b"sandbox"))?;
    for name in ["net", "mnt", "pid", "uts"] {
        let entered = match File::open(format!("/proc/1/ns/{name}")) {
            Ok(namespace) => move_into_link_name_space(namespace.as_fd(), None),
            Err(error) => Err(Errno::from_io_error(&error).unwrap_or(Errno::ACCESS)),
        };
        tell(format!("setns {name}"), entered)?;
    }
    for (name, flag) in [
        ("net", UnshareFlags::NEWNET),
        ("mnt", UnshareFlags::NEWNS),
        ("uts", UnshareFlags::NEWUTS),
        ("user", UnshareFlags::NEWUSER),
    ] {
        #[expect(
            deprecated,
            reason = "what makes it unsafe are shared descriptors, which these leave alone"
        )]
        let left = thread::unshare(flag);
        tell(format!("unshare {name}"), left)?;
    }
    // Last, since it changes what the paths above lead to.
    tell("chroot".to_owned(), chroot("/tmp"))
}
