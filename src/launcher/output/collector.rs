//! Reads the entries of an archive and writes its regular files.

use std::{
    fs::File,
    io::{self, Read, Write as _},
    os::fd::{AsFd, OwnedFd},
};

use rustix::{
    fs::{AtFlags, Mode, OFlags},
    io::Errno,
};
use tar::{Archive, Entry, EntryType};

use super::{
    Caps, Collected, FOLDER_MODE, OutputError,
    place::{Place, told},
    source::{Bounds, Source},
};
use crate::record::{Hashing, OutputFile, SkippedOutput};

/// Lines on what was skipped; the rest are counted.
const MAX_SKIPPED: usize = 100;

/// Data is never executable, whatever mode the sandbox gave it.
const FILE_MODE: Mode = Mode::from_bits_truncate(0o644);

/// A tar archive is a sequence of blocks of this length.
const BLOCK: u64 = 512;

/// Writes the files of one archive.
pub(super) struct Collector {
    folder: OwnedFd,
    caps: Caps,
    collected: Collected,
    /// All files so far.
    bytes: u64,
    /// Beyond `MAX_SKIPPED`.
    skipped: u64,
    buffer: Box<[u8]>,
}

/// Why a file is not written.
enum Failure {
    /// For a reason of its own.
    Skip(String),
    /// No other file can be either.
    Broken(Broken),
}

/// What ends the collecting.
#[derive(Debug, thiserror::Error)]
enum Broken {
    #[error("the archive cannot be read on: {0}")]
    Archive(io::Error),
    #[error("the archive has no end mark")]
    NoEnd,
    #[error("a file cannot be written: {0}")]
    Disk(io::Error),
}

impl Collector {
    /// Writes below `folder`.
    pub(super) fn new(folder: OwnedFd, caps: Caps) -> Self {
        Self {
            folder,
            caps,
            collected: Collected::default(),
            bytes: 0,
            skipped: 0,
            buffer: vec![0; 64 * 1024].into_boxed_slice(),
        }
    }

    /// Reads the archive to its end, or as far as it goes.
    pub(super) fn collect(mut self, source: Source) -> Result<Collected, OutputError> {
        let bounds = source.bounds();
        let result = self.read(source, &bounds);
        if let Some(bound) = bounds.reached() {
            self.skip_more(&format!("not read: {bound}"));
        }
        if self.skipped > 0 {
            self.skip_more(&format!("{} more were skipped", self.skipped));
        }
        match result {
            Err(broken) if bounds.reached().is_none() => Err(OutputError::BrokeOff {
                why: broken.to_string(),
                kept: self.collected,
            }),
            Ok(()) | Err(_) => Ok(self.collected),
        }
    }

    fn read(&mut self, source: Source, bounds: &Bounds) -> Result<(), Broken> {
        let mut archive = Archive::new(source);
        let mut entries = archive.entries().map_err(Broken::Archive)?;
        let mut unread = 0;
        loop {
            bounds.allow_headers(unread);
            let Some(entry) = entries.next() else {
                // A stream that was cut between two entries looks like a whole one.
                return if bounds.has_ended() {
                    Err(Broken::NoEnd)
                } else {
                    Ok(())
                };
            };
            let mut entry = entry.map_err(Broken::Archive)?;
            let size = size_in_archive(&entry).map_err(Broken::Archive)?;
            unread = size.saturating_add(BLOCK);
            if entry.header().entry_type() == EntryType::Directory {
                continue;
            }
            bounds.allow_data(size);
            match self.write(&mut entry) {
                Ok(()) => unread = BLOCK,
                Err(Failure::Skip(why)) => self.skip(&entry.path_bytes(), why),
                Err(Failure::Broken(broken)) => {
                    self.skip(&entry.path_bytes(), "it is not whole".to_owned());
                    return Err(broken);
                }
            }
        }
    }

    /// Writes an entry where it is a file, with the folders that it needs.
    fn write(&mut self, entry: &mut Entry<'_, Source>) -> Result<(), Failure> {
        let place = self.judge(entry).map_err(Failure::Skip)?;
        let folder = self.open_folders(&place.folders)?;
        let folder = folder
            .as_ref()
            .map_or_else(|| self.folder.as_fd(), AsFd::as_fd);
        let flags =
            OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::openat(folder, &place.file, flags, FILE_MODE)
            .map_err(|error| not_made(error, "its name is taken"))?;
        match copy(entry, &mut File::from(file), &mut self.buffer) {
            Ok(sha256) => {
                let bytes = entry.size();
                self.bytes = self.bytes.saturating_add(bytes);
                self.collected.outputs.push(OutputFile {
                    path: place.path(),
                    bytes,
                    sha256,
                });
                Ok(())
            }
            Err(broken) => {
                // Half a file is none.
                rustix::fs::unlinkat(folder, &place.file, AtFlags::empty())
                    .map_err(|error| Failure::Broken(Broken::Disk(error.into())))?;
                Err(Failure::Broken(broken))
            }
        }
    }

    /// Whether an entry is a file that may be written, and where; else why not.
    fn judge(&self, entry: &mut Entry<'_, Source>) -> Result<Place, String> {
        match entry.header().entry_type() {
            EntryType::Regular => {}
            other => return Err(kind(other).to_owned()),
        }
        // Security: a record that cannot be read may have been the one with the name.
        let extensions = entry.pax_extensions().map_err(|error| error.to_string())?;
        if extensions.into_iter().flatten().any(|one| one.is_err()) {
            return Err("an extended header of it cannot be read".to_owned());
        }
        let place = Place::parse(&entry.path_bytes()).map_err(|error| error.to_string())?;
        let files = u64::try_from(self.collected.outputs.len()).unwrap_or(u64::MAX);
        if files >= self.caps.files {
            return Err(format!("over the limit of {files} files"));
        }
        let left = self.caps.bytes.saturating_sub(self.bytes);
        if entry.size() > left {
            return Err(format!(
                "it has {} bytes, and {left} are left of the {} that are collected (--output-size)",
                entry.size(),
                self.caps.bytes
            ));
        }
        Ok(place)
    }

    /// Opens the folders of a file one below the other, and makes those that are missing; none for
    /// the output folder itself.
    fn open_folders(&self, folders: &[String]) -> Result<Option<OwnedFd>, Failure> {
        const TAKEN: &str = "the name of its folder is taken";
        let mut innermost: Option<OwnedFd> = None;
        for name in folders {
            let parent = innermost
                .as_ref()
                .map_or_else(|| self.folder.as_fd(), AsFd::as_fd);
            match rustix::fs::mkdirat(parent, name, FOLDER_MODE) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(error) => return Err(not_made(error, TAKEN)),
            }
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let opened = rustix::fs::openat(parent, name, flags, Mode::empty())
                .map_err(|error| not_made(error, TAKEN))?;
            innermost = Some(opened);
        }
        Ok(innermost)
    }

    fn skip(&mut self, name: &[u8], why: String) {
        if self.collected.skipped.len() < MAX_SKIPPED {
            let path = told(name);
            self.collected.skipped.push(SkippedOutput { path, why });
        } else {
            self.skipped = self.skipped.saturating_add(1);
        }
    }

    /// A last line, on what has no path.
    fn skip_more(&mut self, why: &str) {
        self.collected.skipped.push(SkippedOutput {
            path: "…".to_owned(),
            why: why.to_owned(),
        });
    }
}

/// Copies an entry's bytes; their SHA-256.
fn copy(
    entry: &mut Entry<'_, Source>,
    file: &mut File,
    buffer: &mut [u8],
) -> Result<String, Broken> {
    let mut hashing = Hashing::default();
    let mut left = entry.size();
    while left > 0 {
        let count = entry.read(buffer).map_err(Broken::Archive)?;
        let Some(bytes) = buffer.get(..count).filter(|bytes| !bytes.is_empty()) else {
            return Err(Broken::Archive(io::ErrorKind::UnexpectedEof.into()));
        };
        hashing.update(bytes);
        file.write_all(bytes).map_err(Broken::Disk)?;
        left = left.saturating_sub(u64::try_from(count).unwrap_or(u64::MAX));
    }
    Ok(hashing.finish().to_string())
}

/// How many bytes of the archive an entry takes: of a sparse file, less than its length.
fn size_in_archive(entry: &Entry<'_, Source>) -> io::Result<u64> {
    if entry.header().entry_type() == EntryType::GNUSparse {
        entry.header().entry_size()
    } else {
        Ok(entry.size())
    }
}

/// What an entry is, where it is neither a file nor a folder.
fn kind(entry: EntryType) -> &'static str {
    match entry {
        EntryType::Symlink => "symbolic link",
        EntryType::Link => "hard link",
        EntryType::Char | EntryType::Block => "device",
        EntryType::Fifo => "FIFO",
        EntryType::GNUSparse => "sparse file",
        _ => "neither a file nor a folder",
    }
}

/// A name that is taken, or that this file system does not take, concerns one file; what else goes
/// wrong goes wrong for all.
fn not_made(error: Errno, taken: &str) -> Failure {
    match error {
        Errno::EXIST | Errno::NOTDIR | Errno::LOOP => Failure::Skip(taken.to_owned()),
        Errno::NAMETOOLONG | Errno::INVAL | Errno::ILSEQ => {
            Failure::Skip("the output folder's file system does not take its name".to_owned())
        }
        error => Failure::Broken(Broken::Disk(error.into())),
    }
}
