use std::{
    fs,
    os::unix::{
        ffi::OsStrExt as _,
        fs::{MetadataExt as _, PermissionsExt as _, symlink},
        net::UnixListener,
    },
};

use rustix::fs::{CWD, FileType, Mode, mknodat};
use tempfile::TempDir;

use super::*;

mod archive;
mod mounted;

/// A folder that everybody may read.
fn tree() -> TempDir {
    let root = tempfile::tempdir().unwrap();
    chmod(root.path(), 0o755);
    root
}

fn chmod(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// Both kinds of input are refused, for the same reason; what it is.
fn refusal(path: &Path, guarded: &[&Path]) -> String {
    let bound = bindable(path, User::NOBODY, guarded)
        .unwrap_err()
        .to_string();
    let copied = copy(path, guarded).err().map(|error| error.to_string());
    assert_eq!(copied.as_ref(), Some(&bound), "{path:?}");
    bound
}

#[test]
fn the_host_is_refused_in_every_spelling() {
    for (path, why) in [
        ("", "the path of the input is empty"),
        ("/", "the root of the host"),
        ("//", "the root of the host"),
        ("/.", "the root of the host"),
        ("/..", "the root of the host"),
        ("/usr/../", "the root of the host"),
        ("/proc", "a file system of the kernel"),
        ("/usr/../proc/./", "a file system of the kernel"),
        ("/proc/sys", "a file system of the kernel"),
        ("/proc/self", "is a symbolic link; write \"/proc/"),
        (
            "/proc/self/root",
            "\"/proc/self\" is a symbolic link; write \"/\" instead",
        ),
        ("/dev", "which a sandbox must not see"),
        ("/dev/pts", "which a sandbox must not see"),
        ("/sys/kernel", "which a sandbox must not see"),
        ("/run", "which a sandbox must not see"),
        ("/missing-folder", "\"/missing-folder\" does not exist"),
        ("/missing-folder/..", "\"/missing-folder\" does not exist"),
        ("/etc/passwd", "\"/etc/passwd\" is no folder"),
        ("/etc/passwd/x", "\"/etc/passwd\" is no folder"),
        ("/etc/passwd/..", "\"/etc/passwd\" is no folder"),
    ] {
        let refusal = refusal(Path::new(path), &[]);
        assert!(refusal.contains(why), "{path}: {refusal}");
    }
}

#[test]
fn a_path_is_made_absolute_and_plain() {
    let root = tree();
    let real = fs::canonicalize(root.path()).unwrap();
    fs::create_dir_all(real.join("a/b")).unwrap();
    for (path, expected) in [
        ("", ""),
        ("a", "a"),
        ("a/", "a"),
        ("./a//b/.", "a/b"),
        ("a/b/../../a", "a"),
        ("a/b/../..", ""),
    ] {
        let input = Input::open(&real.join(path), &[]);
        let expected = fs::canonicalize(real.join(expected)).unwrap();
        assert_eq!(input.unwrap().path, expected, "{path}");
    }
    let relative = Input::open(Path::new("src/../src/launcher"), &[]).unwrap();
    assert_eq!(relative.path, fs::canonicalize("src/launcher").unwrap());
}

#[test]
fn a_link_anywhere_in_the_path_is_named_with_what_to_write_instead() {
    let root = tree();
    let real = fs::canonicalize(root.path()).unwrap();
    fs::create_dir_all(real.join("folder/inner")).unwrap();
    symlink("folder", real.join("link")).unwrap();
    symlink("link", real.join("second")).unwrap();
    symlink("nowhere", real.join("dangling")).unwrap();
    symlink("/", real.join("root")).unwrap();
    for (path, link, instead) in [
        ("link", "link", Some("folder")),
        ("link/", "link", Some("folder")),
        ("link/inner", "link", Some("folder/inner")),
        ("second/inner", "second", Some("folder/inner")),
        // Followed, it would be the folder that holds `folder`.
        ("link/inner/../..", "link", Some("")),
        ("folder/../link", "link", Some("folder")),
        ("dangling", "dangling", None),
    ] {
        let error = Input::open(&real.join(path), &[]).unwrap_err();
        let InputError::Link {
            link: named,
            real: told,
        } = error
        else {
            panic!("{path}: {error}");
        };
        assert_eq!(named, real.join(link), "{path}");
        let instead = instead.map(|path| fs::canonicalize(real.join(path)).unwrap());
        assert_eq!(told, instead, "{path}");
    }
    assert!(refusal(&real.join("root"), &[]).ends_with("is a symbolic link; write \"/\" instead"));
    assert!(
        refusal(&real.join("dangling"), &[]).ends_with("is a symbolic link that leads nowhere")
    );
}

#[test]
fn what_the_launcher_keeps_to_itself_is_refused_with_all_in_it_and_all_that_holds_it() {
    let root = tree();
    let real = fs::canonicalize(root.path()).unwrap();
    fs::create_dir_all(real.join("state/inner")).unwrap();
    fs::create_dir_all(real.join("other")).unwrap();
    fs::create_dir_all(real.join("sockets")).unwrap();
    let socket = real.join("sockets/engine.sock");
    let listener = UnixListener::bind(&socket).unwrap();
    symlink(real.join("state"), real.join("other/state")).unwrap();
    let through_link = real.join("other/state");
    let missing = real.join("other/missing");
    let guarded = [&*through_link, &*socket, &*missing];
    for path in ["", "state", "state/inner", "sockets"] {
        let refusal = refusal(&real.join(path), &guarded);
        assert!(
            refusal.contains("which the launcher keeps to itself"),
            "{path}: {refusal}"
        );
    }
    bindable(&real.join("other"), User::NOBODY, &guarded).unwrap();
    drop(listener);
}

#[test]
fn sockets_and_fifos_are_refused_wherever_they_are() {
    for (name, what) in [("socket", "socket"), ("fifo", "FIFO"), ("\x1b[2J", "FIFO")] {
        let root = tree();
        let real = fs::canonicalize(root.path()).unwrap();
        let folder = real.join("a/b");
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join(name);
        if what == "socket" {
            drop(UnixListener::bind(&path).unwrap());
        } else {
            mknodat(CWD, &path, FileType::Fifo, Mode::from_raw_mode(0o644), 0).unwrap();
        }
        let refusal = refusal(root.path(), &[]);
        assert!(
            refusal.starts_with(&format!("{path:?} is a {what}, ")),
            "{refusal}"
        );
        assert!(!refusal.contains('\x1b'), "{refusal}");
    }
}

#[test]
fn what_the_user_of_the_sandbox_cannot_read_is_refused_and_copying_is_named() {
    let root = tree();
    let owner = fs::metadata(root.path()).unwrap();
    let (uid, gid) = (owner.uid(), owner.gid());
    let other = User {
        uid: uid + 1,
        gid: gid + 1,
    };
    let member = User { uid: uid + 1, gid };
    let own = User { uid, gid: gid + 1 };
    for (folder, file, user, expected) in [
        (0o755, 0o644, other, None),
        (0o705, 0o604, other, None),
        (0o750, 0o644, other, Some("a")),
        (0o754, 0o644, other, Some("a")),
        (0o751, 0o644, other, Some("a")),
        (0o755, 0o640, other, Some("a/file")),
        (0o755, 0o611, other, Some("a/file")),
        (0o750, 0o640, member, None),
        // The class that a user is in decides, though another would allow it.
        (0o705, 0o644, member, Some("a")),
        (0o755, 0o604, member, Some("a/file")),
        (0o755, 0o044, own, Some("a/file")),
        (0o700, 0o400, own, None),
        // Set-id bits are without effect in a sandbox.
        (0o2755, 0o6755, other, None),
    ] {
        let real = fs::canonicalize(root.path()).unwrap();
        let (inner, path) = (real.join("a"), real.join("a/file"));
        fs::create_dir(&inner).unwrap();
        fs::write(&path, "x").unwrap();
        symlink("/etc/shadow", inner.join("link")).unwrap();
        chmod(&path, file);
        chmod(&inner, folder);
        let result = bindable(root.path(), user, &[]);
        match (&result, expected) {
            (Ok(path), None) => assert_eq!(*path, real),
            (Err(InputError::NotForUser { path, .. }), Some(named)) => {
                assert_eq!(*path, real.join(named));
            }
            (result, _) => panic!("{folder:o} {file:o} {user:?}: {result:?}"),
        }
        if let Err(error) = result {
            assert!(error.to_string().contains("use --input-copy"), "{error}");
        }
        chmod(&inner, 0o755);
        fs::remove_dir_all(&inner).unwrap();
    }
    chmod(root.path(), 0o700);
    let error = bindable(root.path(), other, &[]).unwrap_err();
    assert!(matches!(error, InputError::NotForUser { .. }), "{error}");
}

#[test]
fn a_path_that_an_engine_cannot_be_told_is_refused() {
    let root = tree();
    let path = root.path().join(std::ffi::OsStr::from_bytes(b"\xff"));
    fs::create_dir(&path).unwrap();
    let error = bindable(&path, User::NOBODY, &[]).unwrap_err();
    assert!(matches!(error, InputError::NotUtf8(_)), "{error}");
    assert!(copy(&path, &[]).is_ok());
}
