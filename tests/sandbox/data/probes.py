"""Escape attempts, to be made inside a sandbox by its own user.

    probes.py              every attempt
    probes.py fill DIR     writes into DIR until that is refused, by bytes and then by files

One JSON object a line. {"probe", "case", "result", "errno", "allowed"}: an attempt, and the results
that may come of it; the sandbox holds where each result is an allowed one. "ok" is a call that went
through, a signal is what the attempt died of. {"probe", "case", "fact"}: what only whoever built
the sandbox can judge. The last line is the probe "done", with the number of lines before it as its
fact; output without it was cut short.
"""

import ctypes
import errno
import fcntl
import glob
import json
import mmap
import os
import platform
import resource
import shutil
import signal
import socket
import stat
import struct
import subprocess
import sys
import termios
import threading

LIBC = ctypes.CDLL(None, use_errno=True)
ARM = platform.machine() == "aarch64"
REFUSED, ABSENT, WORKS = ["EPERM"], ["ENOSYS"], ["ok"]
NO_FAMILY = ["EPERM", "EAFNOSUPPORT"]
NO_ACCESS = ["EACCES", "ENOENT", "EPERM", "EROFS"]
HIGH = 1 << 32  # a bit of the register that the kernel does not read from an int
BUFFER = ctypes.create_string_buffer(4096)
NOWHERE = ctypes.create_string_buffer(b"/nonexistent")
ROOT = ctypes.create_string_buffer(b"/")
lines = 0


def emit(**line):
    global lines
    lines += 1
    print(json.dumps(line), flush=True)


def fact(case, probe, value):
    emit(probe=probe, case=case, fact=value)


def held(case, probe, allowed, result, number=None):
    emit(probe=probe, case=case, result=result, errno=number, allowed=allowed)


def attempt(case, probe, allowed, action):
    """Runs `action` in a process of its own, because it may change that or end it."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        try:
            result, number = action() or "ok", None
        except OSError as error:
            number = error.errno
            result = errno.errorcode.get(number, str(error))
        os.write(write, json.dumps([result, number]).encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        said = pipe.read()
    _, status = os.waitpid(child, 0)
    result, number = json.loads(said or '["ran", null]')
    if os.WIFSIGNALED(status):
        result, number = signal.Signals(os.WTERMSIG(status)).name, None
    held(case, probe, allowed, result, number)


def register(value):
    return value if isinstance(value, ctypes.Array) else ctypes.c_ulong(value & (1 << 64) - 1)


def call(number, *arguments):
    """A system call past the C library, with whole registers."""
    me = os.getpid()
    result = LIBC.syscall(ctypes.c_long(number), *map(register, arguments))
    if os.getpid() != me:
        os._exit(0)  # the call has made a process
    if result == -1:
        raise OSError(ctypes.get_errno(), "")


def syscall(case, name, allowed, numbers, *arguments, note=""):
    number = numbers[ARM]
    if number is not None:
        attempt(case, f"{name} {note}".strip(), allowed, lambda: call(number, *arguments))


# The arguments below are such that, where the filter is missing, the kernel lets the call through
# or says something else than the filter would; and what is let through does no harm.


def processes_and_namespaces():
    ns = {"NEWTIME": 0x80, "NEWNS": 0x20000, "NEWCGROUP": 0x2000000, "NEWUTS": 0x4000000,
          "NEWIPC": 0x8000000, "NEWUSER": 0x10000000, "NEWPID": 0x20000000, "NEWNET": 0x40000000}
    for name, flag in ns.items():
        syscall("O06", "unshare", REFUSED, (272, 97), flag, note=name)
        if name != "NEWTIME":  # in clone that bit belongs to the exit signal
            flags = flag | ns["NEWUSER"] | signal.SIGCHLD
            syscall("O06", "clone", REFUSED, (56, 220), flags, 0, 0, 0, 0, note=name)
    request = struct.pack("<8Q", ns["NEWUSER"], 0, 0, 0, signal.SIGCHLD, 0, 0, 0)
    syscall("O06", "clone3", ABSENT, (435, 435), ctypes.create_string_buffer(request), 64)
    own = os.open("/proc/self/ns/uts", os.O_RDONLY)
    syscall("O06", "setns", REFUSED, (308, 268), own, 0)
    os.close(own)

    me, parent = os.getpid(), os.getppid()
    vector = ctypes.create_string_buffer(struct.pack("<QQ", ctypes.addressof(BUFFER), 8))
    syscall("O06", "ptrace", REFUSED, (101, 117), 0, 0, 0, 0, note="TRACEME")
    syscall("O06", "ptrace", REFUSED, (101, 117), 0x4206, me, 0, 0, note="SEIZE")
    syscall("O06", "process_vm_readv", REFUSED, (310, 270), me, vector, 1, vector, 1, 0)
    syscall("O06", "process_vm_writev", REFUSED, (311, 271), me, vector, 1, vector, 1, 0)
    syscall("O06", "kcmp", REFUSED, (312, 272), me, me, 0, 0, 1)
    pidfd = os.pidfd_open(me)
    syscall("O06", "pidfd_getfd", REFUSED, (438, 438), pidfd, 0, 0)
    os.close(pidfd)


def kernel_calls():
    kind = ctypes.create_string_buffer(b"user")
    syscall("O06", "keyctl", REFUSED, (250, 219), 0, -3, 1, note="GET_KEYRING_ID")
    syscall("O06", "add_key", REFUSED, (248, 217), kind, kind, kind, 4, -3)
    syscall("O06", "request_key", REFUSED, (249, 218), kind, kind, 0, 0)
    syscall("O06", "bpf", REFUSED, (321, 280), 0, BUFFER, 64)
    syscall("O06", "perf_event_open", REFUSED, (298, 241), BUFFER, 0, -1, -1, 0)
    syscall("O06", "userfaultfd", REFUSED, (323, 282), 1)
    syscall("O06", "io_uring_setup", ABSENT, (425, 425), 1, BUFFER)
    syscall("O06", "io_uring_enter", ABSENT, (426, 426), -1, 0, 0, 0, 0, 0)
    syscall("O06", "io_uring_register", ABSENT, (427, 427), -1, 0, 0, 0)
    syscall("O06", "io_setup", ABSENT, (206, 0), 1, BUFFER)

    handle = ctypes.create_string_buffer(struct.pack("<Ii", 128, 0), 256)
    syscall("O06", "name_to_handle_at", REFUSED, (303, 264), -100, ROOT, handle, BUFFER, 0)
    syscall("O06", "open_by_handle_at", REFUSED, (304, 265), 0, handle, 0)
    tmpfs = ctypes.create_string_buffer(b"tmpfs")
    syscall("O06", "mount", REFUSED, (165, 40), tmpfs, NOWHERE, tmpfs, 0, 0)
    syscall("O06", "umount2", REFUSED, (166, 39), NOWHERE, 0)
    syscall("O06", "pivot_root", REFUSED, (155, 41), NOWHERE, NOWHERE)
    syscall("O06", "chroot", REFUSED, (161, 51), NOWHERE)
    syscall("O06", "move_mount", REFUSED, (429, 429), -100, NOWHERE, -100, NOWHERE, 0)
    syscall("O06", "open_tree", REFUSED, (428, 428), -100, ROOT, 0)
    syscall("O06", "fsopen", REFUSED, (430, 430), tmpfs, 0)
    syscall("O06", "fsconfig", REFUSED, (431, 431), -1, 0, 0, 0, 0)
    syscall("O06", "fsmount", REFUSED, (432, 432), -1, 0, 0)
    syscall("O06", "fspick", REFUSED, (433, 433), -100, NOWHERE, 0)
    syscall("O06", "mount_setattr", REFUSED, (442, 442), -100, NOWHERE, 0, BUFFER, 32)
    syscall("O06", "statmount", ["ENOSYS", "EPERM"], (457, 457), BUFFER, BUFFER, 64, 0)
    syscall("O06", "fanotify_init", REFUSED, (300, 262), 0x200, 0)
    syscall("O06", "fanotify_mark", REFUSED, (301, 263), -1, 1, 1, -100, NOWHERE)
    syscall("O06", "quotactl", REFUSED, (179, 60), 0x80000100, NOWHERE, 0, BUFFER)

    for name, numbers in {
        "get_mempolicy": (239, 236), "mbind": (237, 235), "set_mempolicy": (238, 237),
        "migrate_pages": (256, 238), "move_pages": (279, 239), "mq_open": (240, 180),
        "msgget": (68, 186), "vmsplice": (278, 75), "process_madvise": (440, 440),
    }.items():
        syscall("O06", name, ABSENT, numbers, 0, 0, 0, 0, 0, 0)
    for name, numbers, arguments in (
        ("init_module", (175, 105), (0, 0, ROOT)), ("finit_module", (313, 273), (-1, ROOT, 0)),
        ("delete_module", (176, 106), (NOWHERE, 0)), ("kexec_load", (246, 104), (0, 99, 0, 0)),
        ("kexec_file_load", (320, 294), (-1, -1, 0, 0, 0)), ("reboot", (169, 142), (0, 0, 0, 0)),
        ("swapon", (167, 224), (NOWHERE, 0)), ("swapoff", (168, 225), (NOWHERE,)),
        ("acct", (163, 89), (NOWHERE,)), ("syslog", (103, 116), (10, 0, 0)),
        ("settimeofday", (164, 170), (0, 0)), ("clock_settime", (227, 112), (0, 0)),
        ("adjtimex", (159, 171), (BUFFER,)), ("clock_adjtime", (305, 266), (0, BUFFER)),
        ("sethostname", (170, 161), (ROOT, -1)), ("setdomainname", (171, 162), (ROOT, -1)),
        ("lookup_dcookie", (212, 18), (0, BUFFER, 1)), ("vhangup", (153, 58), ()),
        ("modify_ldt", (154, None), (0, BUFFER, 16)), ("iopl", (172, None), (0,)),
        ("ioperm", (173, None), (0x80, 1, 0)), ("uselib", (134, None), (NOWHERE,)),
        ("ustat", (136, None), (0, BUFFER)), ("sysfs", (139, None), (3,)),
        ("_sysctl", (156, None), (BUFFER,)), ("nfsservctl", (180, 42), (0, 0, 0)),
        ("get_kernel_syms", (177, None), (0,)), ("sync", (162, 81), ()),
    ):
        syscall("O06", name, REFUSED, numbers, *arguments)
    syscall("O06", "memfd_create", ABSENT, (319, 279), tmpfs, 0)
    syscall("O06", "memfd_create", ABSENT, (319, 279), tmpfs, 0x8, note="NOEXEC_SEAL")
    syscall("O06", "memfd_create", ABSENT, (319, 279), tmpfs, 0x10, note="EXEC")
    syscall("O06", "memfd_secret", ABSENT, (447, 447), 0)
    for persona, allowed in ((0xFFFFFFFF, WORKS), (-1, WORKS), (8, WORKS), (0x40000, REFUSED),
                             (0x400000, REFUSED), (HIGH | 0x40000, REFUSED)):
        syscall("O06", "personality", allowed, (135, 92), persona, note=f"{persona:#x}")
    for probe, code in () if ARM else (
        ("32-bit entry, int 0x80", b"\xb8\x14\0\0\0\xcd\x80\xc3"),  # getpid
        ("x32 entry", b"\xb8\x27\0\0\x40\x0f\x05\xc3"),  # getpid with bit 30
    ):
        attempt("O06", probe, ["SIGSYS", "EPERM"], lambda: machine_code(code))


def machine_code(code):
    memory = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    memory.write(code)
    run = ctypes.CFUNCTYPE(ctypes.c_long)(ctypes.addressof(ctypes.c_char.from_buffer(memory)))
    result = run()
    if result < 0:
        raise OSError(-result, "")


def sockets():
    def make(case, probe, allowed, *arguments, number=(41, 198)):
        syscall(case, probe, allowed, number, *arguments)

    names = {int(value): name for name, value in vars(socket).items() if name[:3] == "AF_"}
    for family in range(47):
        if family not in (socket.AF_UNIX, socket.AF_INET, socket.AF_INET6, socket.AF_NETLINK):
            name = names.get(family, f"family {family}")
            for kind in ("SOCK_STREAM", "SOCK_DGRAM", "SOCK_RAW", "SOCK_SEQPACKET"):
                make("O03", f"socket {name} {kind}", NO_FAMILY, family, getattr(socket, kind), 0)
    make("O03", "socket AF_VSOCK, a high bit set", NO_FAMILY, HIGH | 40, 1, 0)
    make("P05", "socket AF_PACKET, every frame", REFUSED, 17, 3, 0x300)
    make("P05", "socket AF_PACKET, a high bit set", REFUSED, HIGH | 17, 3, 0x300)
    make("P05", "socket AF_INET SOCK_PACKET", REFUSED, 2, 10, 0x300)
    for family, ping in ((2, 1), (10, 58)):
        for kind in (3, 3 | 0x80000, 3 | 0x800, HIGH | 3):
            make("P05", f"socket {names[family]}, raw {kind:#x}, ICMP", REFUSED, family, kind, ping)
        make("P05", f"socket {names[family]}, raw, any protocol", REFUSED, family, 3, 255)
        make("P05", f"socket {names[family]}, ping", REFUSED, family, 2, ping)
        for name, kind, protocol in (
            ("SCTP", 1, 132), ("SCTP packets", 5, 132), ("DCCP", 6, 33), ("SMC", 1, 256),
            ("MPTCP", 1, 262), ("UDP-Lite", 2, 136), ("L2TP", 2, 115),
        ):
            make("O03", f"socket {names[family]}, {name}", REFUSED, family, kind, protocol)
        make("O03", f"socket {names[family]}, TCP", WORKS, family, 1 | 0x80000, 6)
        make("O03", f"socket {names[family]}, UDP", WORKS, family, 2 | 0x800, 0)
    for protocol in range(1, 23):
        make("O03", f"socket AF_NETLINK {protocol}", REFUSED, 16, 3, protocol)
    make("O03", "socket AF_NETLINK, routes", WORKS, 16, 3 | 0x80000, 0)
    make("O03", "socket AF_UNIX", WORKS, 1, 1, 0)
    make("O03", "socket AF_UNIX, a high bit set", WORKS, HIGH | 1, 1, 0)
    make("O03", "socketpair AF_UNIX", WORKS, 1, 1, 0, BUFFER, number=(53, 199))
    make("O03", "socketpair AF_TIPC", NO_FAMILY, 30, 1, 0, BUFFER, number=(53, 199))

    def option(kind, level, number, value):
        with socket.socket(socket.AF_INET, kind) as made:
            made.setsockopt(level, number, value)

    stream, datagram = socket.SOCK_STREAM, socket.SOCK_DGRAM
    for probe, allowed, arguments in (
        ("TCP_ULP, TLS in the kernel", REFUSED, (stream, 6, 31, b"tls\0")),
        ("UDP_ENCAP, an IPsec end point", REFUSED, (datagram, 17, 100, 2)),
        ("TCP_NODELAY", WORKS, (stream, 6, socket.TCP_NODELAY, 1)),
        ("SO_KEEPALIVE", WORKS, (stream, 1, socket.SO_KEEPALIVE, 1)),
    ):
        attempt("O06", f"setsockopt {probe}", allowed, lambda: option(*arguments))


def terminals():
    def request(number):
        _, terminal = os.openpty()
        os.setsid()
        fcntl.ioctl(terminal, termios.TIOCSCTTY, 0)
        call(29 if ARM else 16, terminal, number, BUFFER)

    for name, number, allowed in (
        ("TIOCSTI", 0x5412, REFUSED), ("TIOCSTI, a high bit set", HIGH | 0x5412, REFUSED),
        ("TIOCLINUX", 0x541C, REFUSED), ("TIOCSETD", 0x5423, REFUSED),
        ("TCGETS", 0x5401, WORKS), ("TIOCGWINSZ", 0x5413, WORKS),
    ):
        attempt("O06", f"ioctl {name}", allowed, lambda: request(number))


def process():
    status = dict(line.split(":", 1) for line in open("/proc/self/status"))
    none, nobody = "0" * 16, "65534 65534 65534 65534"
    for name, allowed in (
        ("CapInh", none), ("CapPrm", none), ("CapEff", none), ("CapBnd", none), ("CapAmb", none),
        ("NoNewPrivs", "1"), ("Seccomp", "2"), ("Uid", nobody), ("Gid", nobody),
    ):
        held("O02", name, [allowed], " ".join(status[name].split()))
    fact("O02", "supplementary groups", status["Groups"].split())
    # The listing holds a descriptor of its own, which is gone when it is looked up.
    numbers = [fd for fd in os.listdir("/proc/self/fd") if os.path.lexists(f"/proc/self/fd/{fd}")]
    held("O07", "open descriptors", ["0 1 2"], " ".join(sorted(numbers, key=int)))
    fact("O08", "environment", dict(os.environ))
    limits = [name for name in dir(resource) if name.startswith("RLIMIT_")]
    fact("O01", "limits", {name: resource.getrlimit(getattr(resource, name)) for name in limits})

    programs = [path for folder in os.get_exec_path() for path in glob.glob(f"{folder}/*")]
    raising = [path for path in programs if os.stat(path).st_mode & (stat.S_ISUID | stat.S_ISGID)]
    fact("N11", "set-id programs", raising)
    if "/usr/local/bin/setuid-id" in raising:  # `id`; of the others only root can tell
        said = subprocess.run(["/usr/local/bin/setuid-id", "-u"], capture_output=True, text=True)
        held("N11", "a set-id program", ["65534"], said.stdout.strip() or said.stderr)

    thread = threading.Thread(target=lambda: None)
    attempt("O06", "a thread", WORKS, lambda: (thread.start(), thread.join()) and None)
    child = [sys.executable, "-S", "-c", ""]
    attempt("O06", "a program", WORKS, lambda: subprocess.run(child, check=True) and None)


def names():
    hosts = [line.split("#")[0].split() for line in open("/etc/hosts")]
    fact("P07", "hosts", [line for line in hosts if line])
    for name in (
        "host.docker.internal", "gateway.docker.internal", "host.containers.internal",
        "host-gateway", "metadata.google.internal", "kubernetes.default.svc",
    ):
        def resolve():
            try:
                return socket.getaddrinfo(name, 80)[0][4][0]
            except socket.gaierror:
                return "no such name"
        attempt("P07", f"look up {name}", ["no such name"], resolve)


def readable(path):
    if os.path.isdir(path):
        return "content" if os.listdir(path) else "empty"
    with open(path, "rb") as opened:
        return "content" if opened.read(1) else "empty"


def opened(path, flags):
    os.close(os.open(path, flags))


def root_files():
    for folder in (
        "/", "/bin", "/boot", "/dev", "/etc", "/home", "/lib", "/media", "/mnt", "/opt", "/proc",
        "/root", "/run", "/sbin", "/srv", "/sys", "/sys/fs/cgroup", "/usr", "/usr/local/bin",
        "/var", "/var/tmp",
    ):
        new, flags = f"{folder}/probe", os.O_CREAT | os.O_WRONLY
        attempt("N01", f"write into {folder}", NO_ACCESS, lambda: opened(new, flags))
    for path in (
        "/proc/sys/kernel/core_pattern", "/proc/sys/kernel/modprobe", "/proc/sys/kernel/hostname",
        "/proc/sys/vm/overcommit_memory", "/proc/sys/fs/binfmt_misc/register",
        "/proc/sysrq-trigger", "/proc/irq/default_smp_affinity", "/sys/kernel/uevent_helper",
        "/sys/power/state",
    ):
        attempt("N07", f"write {path}", NO_ACCESS, lambda: opened(path, os.O_WRONLY))
    for path in (
        "/proc/kcore", "/proc/keys", "/proc/latency_stats", "/proc/timer_list", "/proc/timer_stats",
        "/proc/sched_debug", "/proc/acpi", "/proc/scsi", "/proc/kmsg", "/proc/1/root/proc/kcore",
        "/sys/firmware",
    ):
        attempt("N07", f"read {path}", ["empty", *NO_ACCESS], lambda: readable(path))
    for name in (
        "mem", "kmem", "kmsg", "port", "fuse", "net/tun", "kvm", "vsock", "vhost-net", "uinput",
        "loop-control", "mapper/control", "dri/card0", "tty0", "tty1", "sda", "vda", "nvme0n1",
        "dm-0",
    ):
        attempt("N07", f"open /dev/{name}", NO_ACCESS, lambda: opened(f"/dev/{name}", os.O_RDONLY))
    fact("N07", "devices", sorted(os.listdir("/dev")))
    for case, path in (
        ("N05", "/var/run/docker.sock"), ("N05", "/run/docker.sock"),
        ("N05", "/run/containerd/containerd.sock"), ("N05", "/run/podman/podman.sock"),
        ("N05", "/run/crio/crio.sock"), ("N05", "/run/dbus/system_bus_socket"),
        ("N05", "/run/systemd/private"), ("N06", "/eclusa"), ("N06", "/etc/eclusa"),
        ("N06", "/run/eclusa"), ("N06", "/var/log/eclusa"), ("N06", "/run/secrets"),
    ):
        attempt(case, f"find {path}", ["ENOENT", "EACCES"], lambda: os.stat(path) and None)


def mounts():
    """What can be written, how much of it, and that nothing there can be executed."""
    writable = []
    for line in open("/proc/self/mountinfo"):
        mount, file_system = (part.split() for part in line.split(" - "))
        target, flags = mount[4].encode().decode("unicode_escape"), set(mount[5].split(","))
        if not os.path.isdir(target) or not os.access(target, os.W_OK):
            continue
        size = os.statvfs(target)
        total = {"bytes": size.f_blocks * size.f_frsize, "inodes": size.f_files}
        writable.append({"target": target, "type": file_system[0], **total})
        result = ",".join(sorted(flags & {"nodev", "noexec", "nosuid"}))
        held("N02", f"flags of {target}", ["nodev,noexec,nosuid"], result)
        if file_system[0] == "tmpfs":
            execution(target)
    fact("N09", "writable mounts", writable)


def mapped_file(part):
    """The path of the first file in this process's memory whose path has that part."""
    return next(path for path in open("/proc/self/maps").read().split() if part in path)


def execution(folder):
    program, library = f"{folder}/program", f"{folder}/library.so"
    shutil.copy(os.path.realpath(sys.executable), program)
    os.chmod(program, 0o755)
    shutil.copy(mapped_file("/libc.so"), library)
    loader, arguments = mapped_file("/ld-"), ["-S", "-c", ""]
    private, device = {"flags": mmap.MAP_PRIVATE}, stat.S_IFCHR | 0o600

    def mapped():
        with open(program, "rb") as opened:
            executable = mmap.PROT_READ | mmap.PROT_EXEC
            mmap.mmap(opened.fileno(), 4096, prot=executable, **private)

    def protected():
        with open(program, "rb") as opened:
            writable = mmap.PROT_READ | mmap.PROT_WRITE
            memory = mmap.mmap(opened.fileno(), 4096, prot=writable, **private)
            address = ctypes.c_void_p(ctypes.addressof(ctypes.c_char.from_buffer(memory)))
            if LIBC.mprotect(address, ctypes.c_size_t(4096), mmap.PROT_READ | mmap.PROT_EXEC) != 0:
                raise OSError(ctypes.get_errno(), "")

    def unnamed():
        temporary = os.open(folder, os.O_TMPFILE | os.O_RDWR, 0o700)
        with open(program, "rb") as opened:
            os.write(temporary, opened.read())
        kept = os.open(f"/proc/self/fd/{temporary}", os.O_RDONLY)
        os.close(temporary)
        os.execve(kept, [program, *arguments], {})

    def loaded():
        done = subprocess.run([loader, program, *arguments], capture_output=True)
        return "ran" if done.returncode == 0 else "refused"

    def library_loaded():
        try:
            ctypes.CDLL(library)
            return "ran"
        except OSError:
            return "refused"

    for probe, allowed, action in (
        ("execute", ["EACCES"], lambda: os.execv(program, [program, *arguments])),
        ("execute a file without a name", ["EACCES"], unnamed),
        ("execute through the loader", ["refused"], loaded),
        ("load a library", ["refused"], library_loaded),
        ("map a file to execute", ["EPERM"], mapped),
        ("make a mapped file executable", ["EACCES"], protected),
        ("make a device", ["EPERM"], lambda: os.mknod(f"{folder}/null", device, os.makedev(1, 3))),
        ("make the 0:0 device", ["EPERM"], lambda: os.mknod(f"{folder}/gone", device, 0)),
        ("make a FIFO", WORKS, lambda: os.mkfifo(f"{folder}/fifo")),
    ):
        attempt("N02", f"{probe} in {folder}", allowed, action)
    for name in ("program", "library.so", "fifo"):
        os.unlink(f"{folder}/{name}")


def memory():
    def memfd():
        made = os.memfd_create("program", 0)
        with open(os.path.realpath(sys.executable), "rb") as opened:
            shutil.copyfileobj(opened, os.fdopen(os.dup(made), "wb"))
        os.execve(made, ["program", "-S", "-c", ""], {})

    attempt("O06", "execute a memfd", ABSENT, memfd)
    code = b"\xc0\x03\x5f\xd6" if ARM else b"\x31\xc0\xc3"  # return
    attempt("O06", "memory to compile into", WORKS, lambda: machine_code(code))


def fill(folder):
    """Until it is refused: files as large as they may be, then empty ones; at most a gibibyte and a
    million of them."""
    made, written, largest, result = [], 0, 0, "nothing"

    def new():
        made.append(f"{folder}/{len(made)}")
        return os.open(made[-1], os.O_CREAT | os.O_WRONLY)

    try:
        while written < 1 << 30:
            file, own = new(), 0
            try:
                while written < 1 << 30:
                    own += os.write(file, bytes(1 << 20))
            except OSError as error:
                if error.errno != errno.EFBIG:
                    raise
            finally:
                written, largest = written + own, max(largest, own)
                os.close(file)
    except OSError as error:
        result = errno.errorcode[error.errno]
    held("N09", f"fill {folder} with bytes", ["ENOSPC"], result)
    fact("N09", "bytes", written)
    fact("N12", "largest file", largest)
    while made:
        os.unlink(made.pop())

    try:
        while len(made) < 1_000_000:
            os.close(new())
    except OSError as error:
        made.pop()
        result = errno.errorcode[error.errno]
    held("N09", f"fill {folder} with files", ["ENOSPC"], result)
    fact("N09", "files", len(made))
    while made:
        os.unlink(made.pop())


if __name__ == "__main__":
    if os.getuid() == 0:
        sys.exit("probes: not as root; the attempts are those of a sandbox's own user")
    # What a process gets when its file grows too large must be an error here, not its end.
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    if sys.argv[1:2] == ["fill"]:
        fill(sys.argv[2])
    else:
        process()
        processes_and_namespaces()
        kernel_calls()
        sockets()
        terminals()
        memory()
        root_files()
        mounts()
        names()
    fact(None, "done", lines)
