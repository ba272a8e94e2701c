//! The real path of a folder, made without following a link.

use std::{
    env,
    ffi::OsStr,
    fs,
    os::fd::{AsFd as _, OwnedFd},
    path::{Component, Path, PathBuf},
};

use rustix::{
    fs::{CWD, FileType, Mode, OFlags},
    io::Errno,
};

use super::{InputError, forbidden};

/// A folder that a sandbox may see, as far as its path and place tell.
#[derive(Debug)]
pub(super) struct Input {
    /// Absolute, and without a link, `.` or `..` in it.
    pub(super) path: PathBuf,
    /// The folder itself, open for reading.
    pub(super) folder: OwnedFd,
}

/// What tells one directory from every other: its file system and its inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Identity {
    device: u64,
    inode: u64,
}

impl Input {
    /// Opens the folder at `path`, and refuses it where `forbidden` does.
    pub(super) fn open(path: &Path, guarded: &[&Path]) -> Result<Self, InputError> {
        if path.as_os_str().is_empty() {
            return Err(InputError::Empty);
        }
        let steps = steps(path)?;
        let real: PathBuf = [OsStr::new("/")]
            .into_iter()
            .chain(steps.iter().map(|step| step.name.as_os_str()))
            .collect();
        let innermost = match steps.last() {
            Some(step) => step.folder.as_fd(),
            None => CWD,
        };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let start = if steps.is_empty() { "/" } else { "." };
        let folder = rustix::fs::openat(innermost, start, flags, Mode::empty())
            .map_err(|source| InputError::unreadable(&real, source))?;
        let identities: Vec<Identity> = steps.iter().map(|step| step.identity).collect();
        forbidden::judge(&real, &folder, &identities, guarded)?;
        Ok(Self { path: real, folder })
    }
}

impl Identity {
    /// Of an open file or directory, or of one at a path, links followed.
    pub(super) fn of(stat: &rustix::fs::Stat) -> Self {
        Self {
            device: stat.st_dev,
            inode: stat.st_ino,
        }
    }
}

/// One component of a path, and the directory that it leads to.
struct Step {
    name: PathBuf,
    folder: OwnedFd,
    identity: Identity,
}

/// Every directory from below the root to the one at `path`. As no link is followed, `..` is the
/// step before.
fn steps(path: &Path) -> Result<Vec<Step>, InputError> {
    let whole = if path.is_absolute() {
        path.to_owned()
    } else {
        let working = env::current_dir().map_err(|_| InputError::Missing(path.to_owned()))?;
        working.join(path)
    };
    let mut steps: Vec<Step> = Vec::new();
    let mut so_far = PathBuf::from("/");
    for component in whole.components() {
        match component {
            Component::Prefix(_) | Component::RootDir | Component::CurDir => {}
            Component::ParentDir => {
                steps.pop();
                so_far.pop();
            }
            Component::Normal(name) => {
                so_far.push(name);
                let step = step(steps.last(), name, &so_far, &whole)?;
                steps.push(step);
            }
        }
    }
    Ok(steps)
}

fn step(
    before: Option<&Step>,
    name: &OsStr,
    so_far: &Path,
    whole: &Path,
) -> Result<Step, InputError> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let opened = match before {
        Some(before) => rustix::fs::openat(&before.folder, name, flags, Mode::empty()),
        None => rustix::fs::open(Path::new("/").join(name), flags, Mode::empty()),
    };
    let failed = |source: Errno| InputError::unreadable(so_far, source);
    let folder = opened.map_err(failed)?;
    let stat = rustix::fs::fstat(&folder).map_err(failed)?;
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::Directory => Ok(Step {
            name: name.into(),
            folder,
            identity: Identity::of(&stat),
        }),
        FileType::Symlink => Err(InputError::Link {
            link: so_far.to_owned(),
            real: fs::canonicalize(whole).ok(),
        }),
        _ => Err(InputError::NotAFolder(so_far.to_owned())),
    }
}
