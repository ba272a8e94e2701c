//! `--input-copy`: a folder as a tar archive that is made while it is sent.

use std::{
    ffi::OsStr,
    fs::File,
    io::{self, Read},
    os::{fd::AsFd as _, unix::ffi::OsStrExt as _},
    path::{Component, Path, PathBuf},
};

use bytes::Bytes;
use futures_util::{FutureExt as _, StreamExt as _, future, stream};
use rustix::{
    fs::{Access, AtFlags, FileType, Mode, OFlags, Statx},
    io::Errno,
};
use tar::{Builder, EntryType, Header};
use tokio::sync::mpsc;

use super::{
    InputError,
    resolve::Input,
    walk::{Found, Kind, walk},
};
use crate::launcher::backend::{BackendError, ByteStream};

/// Pieces of the archive that wait for the engine.
const WAITING: usize = 4;
/// The length of one.
const PIECE: usize = 64 * 1024;
/// What a file in memory takes room in.
const PAGE: u64 = 4096;
/// Room for what an engine makes besides.
const SPARE: u64 = 1024 * 1024;
const SPARE_INODES: u64 = 64;

/// A folder on its way into a sandbox.
pub struct Copy {
    /// The room that the copy takes in memory, in bytes.
    pub size: u64,
    /// The files, folders and links that it has.
    pub inodes: u64,
    /// The content of the folder as a tar archive, read from the disk while it is asked for. All
    /// of it belongs to 0:0 and everybody may read it; names, links, times and whether a file is
    /// executable stay; hard links become files. The order is that of the names.
    pub archive: ByteStream,
}

/// Measures the folder at `path`, and copies it once the archive is read. It reads the whole tree,
/// so call it where it may block. `guarded` is as for `bindable`.
///
/// A file that grows meanwhile is copied as long as it was when its turn came; one that shrinks is
/// an error in the stream, as is anything that cannot be read by then.
///
/// # Errors
/// As for `bindable`, but that the launcher has to be able to read the tree and not the sandbox.
pub fn copy(path: &Path, guarded: &[&Path]) -> Result<Copy, InputError> {
    let input = Input::open(path, guarded)?;
    let (mut size, mut inodes) = (SPARE, SPARE_INODES);
    walk(&input.path, input.folder.as_fd(), &mut |found| {
        let room = judge(&input.path, found)?;
        size = size.saturating_add(room).saturating_add(PAGE);
        inodes = inodes.saturating_add(1);
        Ok(())
    })?;
    Ok(Copy {
        size,
        inodes,
        archive: archive(input),
    })
}

/// Whether something can be copied, and the room that its content takes.
fn judge(root: &Path, found: &Found<'_>) -> Result<u64, InputError> {
    match found.kind {
        // The walk opens it next.
        Kind::Folder => Ok(0),
        Kind::File => {
            rustix::fs::accessat(found.folder, found.name, Access::READ_OK, AtFlags::EACCESS)
                .map_err(|error| InputError::unreadable(&root.join(found.path), error))?;
            Ok(found.stat.stx_size.next_multiple_of(PAGE))
        }
        Kind::Link => target(root, found).map(|_| 0),
    }
}

/// Where a link leads, unless that is out of the folder.
fn target(root: &Path, found: &Found<'_>) -> Result<PathBuf, InputError> {
    let target = rustix::fs::readlinkat(found.folder, found.name, Vec::new())
        .map_err(|error| InputError::unreadable(&root.join(found.path), error))?;
    let target = PathBuf::from(OsStr::from_bytes(target.to_bytes()));
    if leads_out(found.path, &target) {
        return Err(InputError::LeadsOut(root.join(found.path)));
    }
    Ok(target)
}

/// Whether a link at `path` leads above the folder that is copied, as its text tells. An absolute
/// one leads to a file of the image.
fn leads_out(path: &Path, target: &Path) -> bool {
    let mut depth = path.components().count().saturating_sub(1);
    for component in target.components() {
        match component {
            Component::RootDir => return false,
            Component::Normal(_) => depth = depth.saturating_add(1),
            Component::ParentDir if depth == 0 => return true,
            Component::ParentDir => depth = depth.saturating_sub(1),
            Component::Prefix(_) | Component::CurDir => {}
        }
    }
    false
}

/// The archive of a folder. A thread begins to write it when it is first asked for.
fn archive(input: Input) -> ByteStream {
    let pieces = async move {
        let (sender, receiver) = mpsc::channel(WAITING);
        let writing = tokio::task::spawn_blocking(move || write(&input, sender));
        let pieces = stream::unfold(receiver, async |mut receiver| {
            let piece: Bytes = receiver.recv().await?;
            Some((Ok(piece), receiver))
        });
        // An archive that merely stops would be taken for a whole one.
        let end = async move {
            let why = match writing.await {
                Ok(Ok(())) => return None,
                Ok(Err(error)) => error.to_string(),
                Err(error) => error.to_string(),
            };
            let doing = "copy the input".to_owned();
            Some(Err(BackendError::Refused { doing, why }))
        };
        pieces.chain(stream::once(end).filter_map(future::ready))
    };
    Box::pin(pieces.flatten_stream())
}

fn write(input: &Input, to: mpsc::Sender<Bytes>) -> Result<(), InputError> {
    let root = &*input.path;
    let mut archive = Builder::new(Pieces {
        to: Some(to),
        piece: Vec::with_capacity(PIECE),
    });
    let written = walk(root, input.folder.as_fd(), &mut |found| {
        append(&mut archive, root, found)
    });
    if written.is_err() {
        // A builder that is dropped writes the mark of a whole archive.
        archive.get_mut().to = None;
    }
    written?;
    archive
        .into_inner()
        .and_then(|mut pieces| pieces.send())
        .map_err(|source| not_copied(root, source))
}

fn append(archive: &mut Builder<Pieces>, root: &Path, found: &Found<'_>) -> Result<(), InputError> {
    let path = root.join(found.path);
    let failed = |source| not_copied(&path, source);
    match found.kind {
        Kind::Folder => {
            let mut header = header(EntryType::Directory, 0o555, found.stat);
            let name = found.path.join("");
            archive
                .append_data(&mut header, name, io::empty())
                .map_err(failed)
        }
        Kind::Link => {
            let mut header = header(EntryType::Symlink, 0o777, found.stat);
            let target = target(root, found)?;
            archive
                .append_link(&mut header, found.path, target)
                .map_err(failed)
        }
        Kind::File => {
            // It may be something else by now; a FIFO must not hold the launcher up.
            let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
            let file = rustix::fs::openat(found.folder, found.name, flags, Mode::empty())
                .map_err(|error| changed(&path, error))?;
            let stat = rustix::fs::fstat(&file).map_err(|error| changed(&path, error))?;
            if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
                return Err(InputError::Changed(path));
            }
            let size = u64::try_from(stat.st_size).unwrap_or(0);
            let mode = if stat.st_mode & 0o111 == 0 {
                0o444
            } else {
                0o555
            };
            let mut header = header(EntryType::Regular, mode, found.stat);
            header.set_size(size);
            let mut data = Exactly {
                file: file.into(),
                left: size,
                is_short: false,
            };
            let appended = archive.append_data(&mut header, found.path, &mut data);
            if data.is_short {
                return Err(InputError::Changed(path));
            }
            appended.map_err(failed)
        }
    }
}

fn header(kind: EntryType, mode: u32, stat: &Statx) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_uid(0);
    header.set_gid(0);
    header.set_size(0);
    header.set_mtime(u64::try_from(stat.stx_mtime.tv_sec).unwrap_or(0));
    header
}

fn not_copied(path: &Path, source: io::Error) -> InputError {
    InputError::NotCopied {
        path: path.to_owned(),
        source,
    }
}

/// It was a file a moment ago.
fn changed(path: &Path, error: Errno) -> InputError {
    match error {
        Errno::NOENT | Errno::LOOP | Errno::NXIO => InputError::Changed(path.to_owned()),
        error => InputError::unreadable(path, error),
    }
}

/// As many bytes of a file as its header promised.
struct Exactly {
    file: File,
    left: u64,
    is_short: bool,
}

impl Read for Exactly {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let most = usize::try_from(self.left).unwrap_or(usize::MAX);
        let most = most.min(into.len());
        let count = self.file.read(into.get_mut(..most).unwrap_or_default())?;
        if count == 0 && most > 0 {
            self.is_short = true;
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.left = self.left.saturating_sub(u64::try_from(count).unwrap_or(0));
        Ok(count)
    }
}

/// Sends what is written in pieces, and waits where nobody takes them.
struct Pieces {
    /// None once the archive is given up.
    to: Option<mpsc::Sender<Bytes>>,
    piece: Vec<u8>,
}

impl Pieces {
    fn send(&mut self) -> io::Result<()> {
        if self.piece.is_empty() {
            return Ok(());
        }
        let piece = std::mem::replace(&mut self.piece, Vec::with_capacity(PIECE));
        match &self.to {
            Some(to) if to.blocking_send(piece.into()).is_ok() => Ok(()),
            Some(_) | None => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }
}

impl io::Write for Pieces {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let room = PIECE.saturating_sub(self.piece.len());
        let (head, _) = bytes.split_at_checked(room).unwrap_or((bytes, &[]));
        self.piece.extend_from_slice(head);
        if self.piece.len() >= PIECE {
            self.send()?;
        }
        Ok(head.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
