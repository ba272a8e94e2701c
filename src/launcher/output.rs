//! `--output`: regular files out of the archive of a folder that hostile code filled, into a folder
//! of the host, and nothing else. No name in the archive is ever a path to the kernel: every step
//! is one component below a held folder, and no link is followed.

mod collector;
mod place;
mod source;

use std::{
    fmt,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
};

use futures_util::StreamExt as _;
use rustix::{
    fs::{Access, AtFlags, CWD, Dir, Mode, OFlags},
    io::Errno,
};
use tokio::sync::mpsc;

use self::{collector::Collector, source::Source};
use super::backend::ByteStream;
use crate::record::{OutputFile, SkippedOutput};

/// Pieces of an archive that wait for the disk.
const WAITING: usize = 4;

/// The folder that outputs are written to. It is held open from before the run, so that what
/// becomes of its path meanwhile makes no difference.
#[derive(Debug)]
pub struct Target {
    folder: OwnedFd,
}

/// How much is collected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caps {
    /// All files together, in bytes.
    pub bytes: u64,
    /// Files.
    pub files: u64,
}

/// What was collected, in the order of the archive.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Collected {
    /// The files that were written, each of them whole.
    pub outputs: Vec<OutputFile>,
    /// What was not, and why; a long list ends in a line that counts the rest. Folders are not
    /// listed: one is made where a file in it is written.
    pub skipped: Vec<SkippedOutput>,
}

/// Why outputs cannot be collected, or not all of them.
#[derive(Debug, thiserror::Error)]
pub enum OutputError {
    /// The path ends in no name.
    #[error("the output folder {0:?} has no name of its own; write the path of a new folder")]
    NoName(PathBuf),
    /// Its parent is missing, or is no folder.
    #[error("the output folder {path:?} cannot be made in {parent:?}: {source}")]
    Parent {
        /// The folder.
        path: PathBuf,
        /// Where it would stand.
        parent: PathBuf,
        /// What the kernel says.
        source: Errno,
    },
    /// Something else has its name.
    #[error("the output folder {0:?} is a symbolic link; write the path that it leads to")]
    Link(PathBuf),
    /// Something else has its name.
    #[error("the output folder {0:?} exists and is no folder")]
    NotAFolder(PathBuf),
    /// Outputs are never mixed with what is there.
    #[error("the output folder {0:?} is not empty; name a new one or an empty one")]
    NotEmpty(PathBuf),
    /// It cannot be used.
    #[error("the output folder {path:?} cannot be used: {source}")]
    Unusable {
        /// The folder.
        path: PathBuf,
        /// What the kernel says.
        source: Errno,
    },
    /// Collecting broke off.
    #[error("collecting the outputs broke off after {}: {why}", Files(.kept))]
    BrokeOff {
        /// What broke.
        why: String,
        /// What was collected before, and stays.
        kept: Collected,
    },
}

impl Target {
    /// The folder at `path`: made where it is missing, and else an empty one. Its parent must
    /// exist; `path` itself is not followed where it is a link.
    ///
    /// # Errors
    /// It is in use, or cannot be made or written.
    pub fn prepare(path: &Path) -> Result<Self, OutputError> {
        let name = path
            .file_name()
            .ok_or_else(|| OutputError::NoName(path.to_owned()))?;
        let parent = match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        let in_parent = |source| OutputError::Parent {
            path: path.to_owned(),
            parent: parent.to_owned(),
            source,
        };
        let folder = OFlags::DIRECTORY | OFlags::CLOEXEC;
        let parent = rustix::fs::openat(CWD, parent, folder | OFlags::PATH, Mode::empty())
            .map_err(in_parent)?;
        match rustix::fs::mkdirat(&parent, name, FOLDER_MODE) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(in_parent(error)),
        }
        let unusable = |source| OutputError::Unusable {
            path: path.to_owned(),
            source,
        };
        let folder = match rustix::fs::openat(
            &parent,
            name,
            folder | OFlags::RDONLY | OFlags::NOFOLLOW,
            Mode::empty(),
        ) {
            Ok(folder) => folder,
            Err(Errno::NOTDIR | Errno::LOOP) => return Err(in_its_place(path)),
            Err(error) => return Err(unusable(error)),
        };
        if !is_empty(&folder).map_err(unusable)? {
            return Err(OutputError::NotEmpty(path.to_owned()));
        }
        // Said now, not when a run's outputs are lost.
        rustix::fs::accessat(
            &folder,
            ".",
            Access::WRITE_OK | Access::EXEC_OK,
            AtFlags::EACCESS,
        )
        .map_err(unusable)?;
        Ok(Self { folder })
    }

    /// Writes the regular files of `archive`, which an engine made of a folder that hostile code
    /// filled: its entries stand below one folder, whose name is dropped. Everything in it is
    /// judged as if the hostile code had written the archive byte by byte.
    ///
    /// Memory is bounded, and so is how much of the archive is read: a sparse file that occupies
    /// nothing in the sandbox is a long one here. A stream that stalls is the caller's to time out;
    /// dropping the call leaves whole files only.
    ///
    /// # Errors
    /// The archive is torn or malformed, or the folder cannot be written; what was whole stays.
    pub async fn collect(self, archive: ByteStream, caps: Caps) -> Result<Collected, OutputError> {
        let (sender, receiver) = mpsc::channel(WAITING);
        let collected = tokio::task::spawn_blocking(move || {
            Collector::new(self.folder, caps).collect(Source::new(receiver, caps))
        });
        pump(archive, sender).await;
        collected.await.unwrap_or_else(|error| {
            Err(OutputError::BrokeOff {
                why: error.to_string(),
                kept: Collected::default(),
            })
        })
    }
}

/// Folders: the umask of the launcher may take bits away.
const FOLDER_MODE: Mode = Mode::from_bits_truncate(0o755);

/// What stands where a folder should.
fn in_its_place(path: &Path) -> OutputError {
    if path.is_symlink() {
        OutputError::Link(path.to_owned())
    } else {
        OutputError::NotAFolder(path.to_owned())
    }
}

fn is_empty(folder: &OwnedFd) -> Result<bool, Errno> {
    for entry in Dir::read_from(folder)? {
        if !matches!(entry?.file_name().to_bytes(), b"." | b"..") {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Hands the archive on until it ends or is no longer wanted.
async fn pump(mut archive: ByteStream, to: mpsc::Sender<source::Piece>) {
    loop {
        let piece = tokio::select! {
            () = to.closed() => return,
            piece = archive.next() => piece,
        };
        let Some(piece) = piece else { return };
        if to.send(piece).await.is_err() {
            return;
        }
    }
}

/// How many files were kept, for a person.
struct Files<'a>(&'a Collected);

impl fmt::Display for Files<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.outputs.len() {
            1 => f.write_str("1 file"),
            count => write!(f, "{count} files"),
        }
    }
}

#[cfg(test)]
mod tests;
