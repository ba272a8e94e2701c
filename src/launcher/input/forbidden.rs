//! What no sandbox may see, in whatever spelling and by whatever mount.

use std::{
    fs, io,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
};

use super::{
    InputError,
    mounts::{Location, Mounts},
    resolve::Identity,
};

/// Trees of the host that are refused, and so is what holds them. Engine sockets live in /run.
const TREES: &[(&str, &str)] = &[
    ("/proc", "/proc"),
    ("/sys", "/sys"),
    ("/dev", "/dev"),
    ("/run", "/run, where services keep sockets and secrets"),
    (
        "/var/run",
        "/var/run, where services keep sockets and secrets",
    ),
    ("/var/lib/docker", "the state of an engine"),
    ("/var/lib/containers", "the state of an engine"),
    ("/var/lib/containerd", "the state of an engine"),
    ("/var/snap/docker", "the state of an engine"),
    ("/etc/eclusa", "Eclusa's own files"),
    ("/var/lib/eclusa", "Eclusa's own files"),
    ("/var/log/eclusa", "Eclusa's own files"),
];

/// File systems that are no files: what is read there is the kernel's, of the host.
const KERNEL: &[&[u8]] = &[
    b"autofs",
    b"binfmt_misc",
    b"bpf",
    b"cgroup",
    b"cgroup2",
    b"configfs",
    b"debugfs",
    b"devpts",
    b"devtmpfs",
    b"efivarfs",
    b"fusectl",
    b"hugetlbfs",
    b"mqueue",
    b"nfsd",
    b"nsfs",
    b"proc",
    b"pstore",
    b"resctrl",
    b"rpc_pipefs",
    b"securityfs",
    b"selinuxfs",
    b"smackfs",
    b"sysfs",
    b"tracefs",
];

/// Something forbidden, as far as it can be told.
struct Forbidden {
    what: String,
    path: PathBuf,
    reach: Reach,
    identity: Option<Identity>,
    location: Option<Location>,
}

/// How far a prohibition goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reach {
    /// To the directory itself and to what holds it.
    Itself,
    /// To everything in it too.
    Tree,
}

/// Refuses the folder at `path`, a real path, where it is, holds or lies in what a sandbox must not
/// see, and where something is mounted in it. `identities` are those of the folder and of every
/// directory on the way to it, without the root.
pub(super) fn judge(
    path: &Path,
    folder: &OwnedFd,
    identities: &[Identity],
    guarded: &[&Path],
) -> Result<(), InputError> {
    let forbidden = |what: &str| InputError::Forbidden {
        path: path.to_owned(),
        what: what.to_owned(),
    };
    let mounts = Mounts::read()?;
    let mount = mounts.of_open(folder)?;
    if KERNEL.contains(&&*mount.kind) {
        return Err(forbidden("a file system of the kernel"));
    }
    let location = mount.location(path);
    for one in all(&mounts, guarded) {
        if one.covers(path) || one.is_among(identities) || one.is_at(location.as_ref()) {
            return Err(forbidden(&one.what));
        }
    }
    match mounts.below(path) {
        Some(point) => Err(InputError::Mounted(point.to_owned())),
        None => Ok(()),
    }
}

impl Forbidden {
    /// As it is now, and nothing where there is nothing; links in `path` are followed, as this one
    /// is the host's own.
    fn find(path: &Path, what: String, reach: Reach, mounts: &Mounts) -> Option<Self> {
        let path = match fs::canonicalize(path) {
            Ok(real) => real,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
            Err(_) => path.to_owned(),
        };
        Some(Self {
            what,
            reach,
            identity: rustix::fs::stat(&path).ok().map(|stat| Identity::of(&stat)),
            location: mounts
                .of_path(&path)
                .and_then(|mount| mount.location(&path)),
            path,
        })
    }

    fn covers(&self, path: &Path) -> bool {
        self.path.starts_with(path) || (self.reach == Reach::Tree && path.starts_with(&self.path))
    }

    fn is_among(&self, identities: &[Identity]) -> bool {
        self.identity
            .is_some_and(|identity| identities.contains(&identity))
    }

    /// A bind mount has another path, and one of a directory in the tree another identity; the
    /// place on the file system is the same.
    fn is_at(&self, location: Option<&Location>) -> bool {
        match (&self.location, location) {
            (Some(own), Some(other)) => {
                own.is_in(other) || (self.reach == Reach::Tree && other.is_in(own))
            }
            (None, _) | (_, None) => false,
        }
    }
}

#[expect(
    clippy::unnecessary_debug_formatting,
    reason = "a name may hold control characters"
)]
fn all(mounts: &Mounts, guarded: &[&Path]) -> Vec<Forbidden> {
    let root = (Path::new("/"), "the root of the host".to_owned());
    let guarded = guarded.iter().map(|path| {
        let what = format!("{path:?}, which the launcher keeps to itself");
        (*path, what)
    });
    let trees = TREES
        .iter()
        .map(|(path, what)| (Path::new(path), (*what).to_owned()));
    let reached = guarded.chain(trees).map(|one| (one, Reach::Tree));
    [(root, Reach::Itself)]
        .into_iter()
        .chain(reached)
        .filter_map(|((path, what), reach)| Forbidden::find(path, what, reach, mounts))
        .collect()
}
