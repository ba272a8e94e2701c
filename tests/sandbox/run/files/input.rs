//! What of the host a sandbox is shown.

use std::{
    fs,
    os::unix::{fs::symlink, net::UnixListener},
    path::{Path, PathBuf},
    process::Command,
};

use super::super::{Launcher, Mounted, engine_socket, set_mode};
use crate::docker::attempt;

#[test]
#[ignore = "needs Docker"]
fn an_input_can_be_read_and_nothing_else() {
    input_can_be_read(&Launcher::new());
}

/// An input in a sandbox of any engine.
pub(crate) fn input_can_be_read(launcher: &Launcher) {
    let input = folder(&launcher.path("in put, ü"));
    fs::create_dir(input.join("sub")).unwrap();
    fs::write(input.join("sub/file"), "content").unwrap();
    symlink("../sub/file", input.join("sub/link")).unwrap();
    symlink("/etc/hostname", input.join("absolute")).unwrap();
    let script = r#"
cat sub/link; echo; echo $(cat absolute)
for path in . sub sub/file; do touch $path/new || touch -c $path; done
chmod 777 .; rm -f sub/file; mv sub other; ln sub/file /workspace/hard
grep -c " /input ro," /proc/self/mountinfo"#;
    let option = format!("--input={}", input.display());
    let ran = launcher.shell(&[&option, "--workdir=/input"], script);
    // A link leads to the sandbox's files and not to the host's.
    assert_eq!(ran.stdout(), "content\nsandbox\n1\n", "{ran:?}");
    assert!(input.join("sub/file").exists());
    let refused = ran.output().stderr.matches("Read-only file system").count();
    assert!(refused >= 5, "{ran:?}");
}

#[test]
#[ignore = "needs Docker"]
fn an_input_that_is_more_than_files_is_refused_and_says_why() {
    let launcher = Launcher::new();
    let made = |name: &str| folder(&launcher.path(name));
    let _socket = UnixListener::bind(made("socket").join("door")).unwrap();
    run("mkfifo", &[made("fifo").join("door")]);
    run(
        "mknod",
        &[
            made("device").join("door"),
            "c".into(),
            "1".into(),
            "3".into(),
        ],
    );
    fs::write(made("file").join("door"), "secret").unwrap();
    set_mode(&launcher.path("file/door"), 0o600);
    set_mode(&made("folder"), 0o700);
    symlink(made("real"), launcher.path("link")).unwrap();
    made("real/below");
    let _mounted = launcher.mount("mount/door", "size=64k");
    for (name, named, expected) in [
        ("socket", "socket/door", "is a socket"),
        ("fifo", "fifo/door", "is a FIFO"),
        ("device", "device/door", "is a device"),
        ("file", "file/door", "use --input-copy"),
        ("folder", "folder", "use --input-copy"),
        ("link", "link", "is a symbolic link; write"),
        ("link/below", "link", "is a symbolic link; write"),
        ("mount", "mount/door", "something is mounted at"),
        ("file/door", "file/door", "is no folder"),
        ("missing", "missing", "does not exist"),
    ] {
        let option = format!("--input={}", launcher.path(name).display());
        let error = launcher.refusal(&[&option]);
        let named = launcher.path(named);
        let named = named.to_str().unwrap();
        assert!(
            error.contains(named) && error.contains(expected),
            "{name}: {error}"
        );
    }
    for name in ["socket", "fifo", "device", "link", "mount", "missing"] {
        let option = format!("--input-copy={}", launcher.path(name).display());
        launcher.refusal(&[&option]);
    }
}

/// The host's own file system, the kernel's and the services', seen from the folder of a test.
const SPELLINGS: &str = "\
    / // /./ ///.// /.. /proc/self/root /proc/self/root/ /proc/1/root /proc/self/cwd /proc
    /proc/ /proc/sys //proc /sys /sys/fs/cgroup /dev /dev/shm /run /var/run /run/. /etc/..
    /etc/../run /var /var/lib/docker ../../.. link link/run root root/run services kernel
    kernel/sys state state/eclusa . /tmp";

/// Why; the state of an engine may lie elsewhere.
const REASONS: &[&str] = &[
    "which a sandbox must not see",
    "is a symbolic link",
    "is no folder",
    "something is mounted at",
    "\"/var/lib/docker\" does not exist",
];

#[test]
#[ignore = "needs Docker"]
fn what_no_sandbox_may_see_is_refused_in_every_spelling() {
    let launcher = Launcher::new();
    let bind = |name: &str, source: &str| {
        let target = folder(&launcher.path(name));
        run("mount", &["--bind".into(), source.into(), target.clone()]);
        Mounted(target)
    };
    let _bound = [
        bind("root", "/"),
        bind("services", "/run"),
        bind("kernel", "/proc"),
    ];
    symlink("/", launcher.path("link")).unwrap();
    let socket = engine_socket();
    let socket = socket.to_str().unwrap();
    let engine = Path::new(socket).parent().unwrap().to_str().unwrap();
    let own = |name: &str| launcher.path(name).to_str().unwrap().to_owned();
    let (state, up) = (own("state"), own("../.."));
    let spelled = SPELLINGS.split_whitespace();
    for path in spelled.chain([up.as_str(), &state, socket, engine]) {
        for option in ["--input", "--input-copy"] {
            let error = launcher.refusal(&[&format!("{option}={path}")]);
            let mut reasons = REASONS.iter();
            let is_due = reasons.any(|reason| error.contains(reason));
            assert!(is_due, "{option} {path}: {error}");
        }
    }
}

/// A folder that everybody may read.
fn folder(path: &Path) -> PathBuf {
    fs::create_dir_all(path).unwrap();
    set_mode(path, 0o755);
    path.to_owned()
}

fn run(program: &str, arguments: &[PathBuf]) {
    let done = attempt(Command::new(program).args(arguments));
    assert!(done.ok, "{program}: {done:?}");
}
