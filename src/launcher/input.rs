//! `--input` and `--input-copy`: a folder of the host that hostile code may read. A bind mount shows
//! whatever stands at a path, and read-only does not stop a connection to a socket below it, so the
//! folder is judged by its real path, by what it is, by where it lies on its file system, and by
//! everything in it.
//!
//! What the host's owner does to the folder afterwards is not judged. Set-id programs are let
//! through: `no-new-privileges` makes them plain ones, while `nosuid` would not reach a bind mount.

mod copy;
mod forbidden;
mod mounts;
mod resolve;
mod walk;

use std::{
    fmt, io,
    os::fd::AsFd as _,
    path::{Path, PathBuf},
};

use rustix::{
    fs::{AtFlags, Statx, StatxFlags},
    io::Errno,
};

pub use self::{
    copy::{Copy, copy},
    walk::{MAX_DEPTH, MAX_ENTRIES},
};
use self::{
    resolve::Input,
    walk::{Kind, walk},
};
use super::spec::User;

/// The real path of a folder that may be bound at `/input` for `user`. It reads the whole tree, so
/// call it where it may block.
///
/// `guarded` is refused besides what always is, and so is whatever lies in it or holds it: the
/// engine's socket and the launcher's own files.
///
/// # Errors
/// The path leads over a link; the folder must not be seen by a sandbox; or something in it must
/// not, would not be shown, or cannot be read by `user`.
pub fn bindable(path: &Path, user: User, guarded: &[&Path]) -> Result<PathBuf, InputError> {
    let input = Input::open(path, guarded)?;
    if input.path.to_str().is_none() {
        return Err(InputError::NotUtf8(input.path));
    }
    let stat = rustix::fs::statx(
        &input.folder,
        "",
        AtFlags::EMPTY_PATH,
        StatxFlags::BASIC_STATS,
    )
    .map_err(|source| InputError::unreadable(&input.path, source))?;
    readable(&input.path, Kind::Folder, &stat, user)?;
    walk(&input.path, input.folder.as_fd(), &mut |found| {
        readable(&input.path.join(found.path), found.kind, found.stat, user)
    })?;
    Ok(input.path)
}

/// Judges by the mode alone: a sandbox has no capability that overrides it, not even as root, and
/// no group besides its own.
fn readable(path: &Path, kind: Kind, stat: &Statx, user: User) -> Result<(), InputError> {
    let needed = match kind {
        Kind::Folder => 0o5,
        Kind::File => 0o4,
        Kind::Link => return Ok(()),
    };
    let shift = if stat.stx_uid == user.uid {
        6
    } else if stat.stx_gid == user.gid {
        3
    } else {
        0
    };
    if (stat.stx_mode >> shift) & needed == needed {
        return Ok(());
    }
    Err(InputError::NotForUser {
        path: path.to_owned(),
        user,
    })
}

/// Why a folder is not shown to a sandbox.
#[derive(Debug, thiserror::Error)]
pub enum InputError {
    /// An empty path would be the working directory.
    #[error("the path of the input is empty; write the path of a folder")]
    Empty,
    /// There is nothing.
    #[error("{0:?} does not exist")]
    Missing(PathBuf),
    /// There is something else.
    #[error("{0:?} is no folder")]
    NotAFolder(PathBuf),
    /// Engines take paths as UTF-8.
    #[error("{0:?} is not UTF-8; use --input-copy")]
    NotUtf8(PathBuf),
    /// Part of the path is a link, which may lead elsewhere by the time an engine follows it.
    #[error("{link:?} is a symbolic link{}", Instead(.real.as_deref()))]
    Link {
        /// The link.
        link: PathBuf,
        /// Where the path leads, unless it leads nowhere.
        real: Option<PathBuf>,
    },
    /// It is no business of a sandbox.
    #[error(
        "{path:?} is, holds or lies in {what}, which a sandbox must not see; name another folder"
    )]
    Forbidden {
        /// The folder.
        path: PathBuf,
        /// What it must not see.
        what: String,
    },
    /// It would show as an empty folder, or as what it hides.
    #[error(
        "something is mounted at {0:?}, which the sandbox would not see; unmount it, or name a \
         folder that holds no mount point"
    )]
    Mounted(PathBuf),
    /// It is a door to somewhere else.
    #[error(
        "{path:?} is a {what}, and read-only does not keep a sandbox from using it; remove it, or \
         name a folder without"
    )]
    Special {
        /// Where.
        path: PathBuf,
        /// `socket`, `FIFO` or `device`.
        what: &'static str,
    },
    /// The sandbox's user would fail to read it.
    #[error(
        "{path:?} cannot be read by {}:{}, whom the sandbox runs as; use --input-copy, or make it \
         readable to others", .user.uid, .user.gid
    )]
    NotForUser {
        /// The file or folder.
        path: PathBuf,
        /// Who cannot read it.
        user: User,
    },
    /// The launcher itself fails to read it.
    #[error("{path:?} cannot be read: {source}")]
    Unreadable {
        /// The file or folder.
        path: PathBuf,
        /// What the kernel says.
        source: Errno,
    },
    /// It is too large to be judged.
    #[error("{0:?} holds more than {MAX_ENTRIES} files and folders; name a smaller folder")]
    TooMany(PathBuf),
    /// It is too deep to be judged.
    #[error("{0:?} lies more than {MAX_DEPTH} folders deep; name a smaller folder")]
    TooDeep(PathBuf),
    /// Engines refuse such a link in what is copied in.
    #[error(
        "{0:?} is a symbolic link that leads out of the folder; remove it, or make it absolute"
    )]
    LeadsOut(PathBuf),
    /// What was promised to the engine is not there any more.
    #[error("{0:?} changed while it was copied; try again when nothing writes to it")]
    Changed(PathBuf),
    /// The copy cannot be packed or handed over.
    #[error("{path:?} cannot be copied: {source}")]
    NotCopied {
        /// The file or folder.
        path: PathBuf,
        /// What went wrong.
        source: io::Error,
    },
    /// Nothing can be said about bind mounts.
    #[error("cannot tell what is mounted where: /proc/self/{file}: {why}")]
    Mounts {
        /// Below /proc/self.
        file: String,
        /// Why.
        why: String,
    },
}

impl InputError {
    fn unreadable(path: &Path, source: Errno) -> Self {
        let path = path.to_owned();
        match source {
            Errno::NOENT => Self::Missing(path),
            source => Self::Unreadable { path, source },
        }
    }
}

/// What to write instead of a link.
struct Instead<'a>(Option<&'a Path>);

impl fmt::Display for Instead<'_> {
    #[expect(
        clippy::unnecessary_debug_formatting,
        reason = "a name may hold control characters"
    )]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(real) => write!(f, "; write {real:?} instead"),
            None => f.write_str(" that leads nowhere"),
        }
    }
}

#[cfg(test)]
mod tests;
