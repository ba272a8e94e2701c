//! What a mount can do to a path.

use std::process::Command;

use super::*;

/// A file system to mount others in, in a namespace of its own.
struct Playground(PathBuf);

impl Playground {
    fn new() -> Self {
        // Where it can be told.
        if let Ok(first) = fs::read_link("/proc/1/ns/mnt") {
            let own = fs::read_link("/proc/self/ns/mnt").unwrap();
            assert_ne!(own, first, "run it under unshare --mount");
        }
        let root = fs::canonicalize(tree().keep()).unwrap();
        mount(&["-t", "tmpfs", "-o", "mode=755", "tmpfs"], &root);
        Self(root)
    }
}

impl Drop for Playground {
    /// Nothing is removed recursively: there are bind mounts of the host in it.
    fn drop(&mut self) {
        let unmounted = Command::new("umount")
            .args(["--recursive", "--lazy"])
            .arg(&self.0)
            .status();
        assert!(unmounted.is_ok_and(|status| status.success()));
        fs::remove_dir(&self.0).unwrap();
    }
}

fn mount(arguments: &[&str], at: &Path) {
    fs::create_dir_all(at).unwrap();
    let status = Command::new("mount").args(arguments).arg(at).status();
    assert!(status.unwrap().success(), "mount {arguments:?} {at:?}");
}

#[test]
#[ignore = "needs a mount namespace of its own: run it under unshare --mount"]
fn mounted_inputs_are_judged_by_what_they_are() {
    let playground = Playground::new();
    let root = &*playground.0;
    let at = |path: &str| root.join(path);
    let bind = |what: &str, to: &str| mount(&["-o", "bind,ro", what], &at(to));
    let own = |path: &str| at(path).to_str().unwrap().to_owned();
    fs::create_dir_all(at("state/inner/deep")).unwrap();
    fs::create_dir_all(at("plain/folder")).unwrap();
    bind("/", "all");
    bind("/usr", "usr");
    bind("/dev", "dev");
    bind(&own("state"), "over");
    bind(&own("state/inner"), "view");
    bind(&own("plain"), "again");
    bind(&own("plain"), "bound/same-device");
    mount(&["-t", "proc", "proc"], &at("proc"));
    mount(&["-t", "sysfs", "sysfs"], &at("sys"));
    mount(&["-t", "tmpfs", "tmpfs"], &at("holder/inner/memory"));
    fs::create_dir(at("file")).unwrap();
    fs::write(at("file/hidden"), "").unwrap();
    let status = Command::new("mount")
        .args(["--bind", "/etc/passwd", &own("file/hidden")])
        .status();
    assert!(status.unwrap().success());

    let state = at("state");
    let guarded = [&*state];
    for (path, why) in [
        ("all", "the root of the host"),
        ("all/usr", "the root of the host"),
        ("view", "the launcher keeps to itself"),
        ("view/deep", "the launcher keeps to itself"),
        ("over", "the launcher keeps to itself"),
        ("over/inner", "the launcher keeps to itself"),
        ("proc", "a file system of the kernel"),
        ("proc/1", "a file system of the kernel"),
        ("sys/kernel", "a file system of the kernel"),
        ("dev", "a file system of the kernel"),
        ("holder", "something is mounted at"),
        ("holder/inner", "something is mounted at"),
        ("bound", "something is mounted at"),
        ("file", "something is mounted at"),
    ] {
        let refusal = refusal(&at(path), &guarded);
        assert!(refusal.contains(why), "{path}: {refusal}");
    }
    for path in [
        "holder/inner/memory",
        "again",
        "again/folder",
        "usr/include",
    ] {
        chmod(&at("holder/inner/memory"), 0o755);
        let bound = bindable(&at(path), User::NOBODY, &guarded);
        assert_eq!(bound.unwrap(), at(path));
    }
}

#[test]
#[ignore = "needs a mount namespace of its own: run it under unshare --mount"]
fn mounted_inputs_are_seen_by_the_walk_as_well() {
    let playground = Playground::new();
    let root = &*playground.0;
    let folder = fs::File::open(root).unwrap();
    mount(&["-t", "tmpfs", "tmpfs"], &root.join("late"));
    let error = walk(root, folder.as_fd(), &mut |_| Ok(()));
    assert!(matches!(error, Err(InputError::Mounted(path)) if path == root.join("late")));
}

#[test]
#[ignore = "needs root to make a device: run it under unshare --mount"]
fn mounted_inputs_may_hold_no_device() {
    let playground = Playground::new();
    let root = &*playground.0;
    for (name, kind, number) in [
        ("null", FileType::CharacterDevice, rustix::fs::makedev(1, 3)),
        ("disk", FileType::BlockDevice, rustix::fs::makedev(7, 200)),
    ] {
        let path = root.join(name);
        mknodat(CWD, &path, kind, Mode::from_raw_mode(0o600), number).unwrap();
        let refusal = refusal(root, &[]);
        assert!(
            refusal.starts_with(&format!("{path:?} is a device, ")),
            "{refusal}"
        );
        fs::remove_file(path).unwrap();
    }
}
