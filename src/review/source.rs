//! Which files a log consists of, in which order, and what they hold.

mod decoded;
mod rotated;

use std::{
    fmt,
    fs::{self, File, Metadata},
    io::{self, ErrorKind, Read},
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use crate::audit::lines::Lines;

/// Where lines come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// Standard input.
    Stdin,
    /// A file by its name: a regular one, a pipe, a device.
    File(PathBuf),
    /// A file of a log that may be rotated while it is read: the file that had the name when it
    /// was looked for.
    Part {
        /// The name of the log, which its current file has.
        log: PathBuf,
        /// Its name then.
        path: PathBuf,
        /// What stays the same when it is renamed.
        identity: Identity,
    },
}

/// What a file is recognised by under another name: device and inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    device: u64,
    inode: u64,
}

/// Why a log cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// Nothing is there.
    #[error("there is no log {}; name the file, or - for standard input", .0.display())]
    NotFound(PathBuf),
    /// A folder.
    #[error("{} is a directory; name the file in it", .0.display())]
    Directory(PathBuf),
    /// It was removed after it was looked for.
    #[error("{} was removed by a rotation before it was read", .0.display())]
    Gone(PathBuf),
    /// The kernel or a decoder refuses.
    #[error("failed to read {name}{}", hint(.source))]
    Unreadable {
        /// What was read.
        name: String,
        /// Why it cannot be.
        source: io::Error,
    },
}

fn hint(error: &io::Error) -> &'static str {
    if error.kind() == ErrorKind::PermissionDenied {
        ", which the user of the proxy alone may read"
    } else {
        ""
    }
}

impl Source {
    /// What a command line names: `-` is standard input.
    ///
    /// # Errors
    /// There is no such file, or it is a directory.
    pub fn named(path: &Path) -> Result<Self, SourceError> {
        if path == Path::new("-") {
            return Ok(Self::Stdin);
        }
        inspect(path)?;
        Ok(Self::File(path.to_owned()))
    }

    /// The log at `path` with its rotated files, oldest first.
    ///
    /// # Errors
    /// There is neither such a file nor a rotated one of it.
    pub fn log(path: &Path) -> Result<Vec<Self>, SourceError> {
        let mut parts: Vec<(PathBuf, Identity)> = Vec::new();
        // The newest comes first: a file that a rotation renames meanwhile is met again, not missed.
        let newest = inspect(path).map(|found| (path.to_owned(), Identity::of(&found)));
        let older = match rotated::of(path) {
            Ok(older) => older,
            Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
            Err(source) => {
                let name = format!("the folder of {}", path.display());
                return Err(SourceError::Unreadable { name, source });
            }
        };
        let found = older.into_iter().rev().filter_map(|path| {
            let found = fs::metadata(&path).ok().filter(Metadata::is_file)?;
            Some((path, Identity::of(&found)))
        });
        let (newest, missing) = match newest {
            Ok(newest) => (Some(newest), None),
            Err(error @ SourceError::NotFound(_)) => (None, Some(error)),
            Err(error) => return Err(error),
        };
        for (path, identity) in newest.into_iter().chain(found) {
            if !parts.iter().any(|(_, known)| *known == identity) {
                parts.push((path, identity));
            }
        }
        match missing {
            Some(error) if parts.is_empty() => Err(error),
            _ => {
                let part = |(file, identity)| Self::Part {
                    log: path.to_owned(),
                    path: file,
                    identity,
                };
                Ok(parts.into_iter().rev().map(part).collect())
            }
        }
    }

    /// Whether it may be the continuation of an older file: a rotated one, one that has rotated
    /// files beside it, or what cannot be told.
    pub(super) fn may_follow(&self) -> bool {
        match self {
            Self::Stdin => true,
            Self::Part { log, path, .. } => log != path,
            Self::File(path) => {
                let has_older = rotated::of(path).is_ok_and(|older| !older.is_empty());
                has_older || rotated::is_one(path)
            }
        }
    }

    /// Whether it can be read a second time.
    pub(super) fn is_lasting(&self) -> bool {
        match self {
            Self::Stdin => false,
            Self::File(path) => path.metadata().is_ok_and(|found| found.is_file()),
            Self::Part { .. } => true,
        }
    }

    /// The lines, decompressed where the first bytes say so.
    ///
    /// # Errors
    /// It cannot be opened, or is compressed in a way that is not known here.
    pub fn open(&self) -> Result<Lines<Box<dyn Read>>, SourceError> {
        self.open_through(|file| Box::new(file))
    }

    /// The same; `through` sees the bytes of a file as they are read, still compressed.
    ///
    /// # Errors
    /// As `open`.
    pub fn open_through(
        &self,
        through: impl FnOnce(File) -> Box<dyn Read>,
    ) -> Result<Lines<Box<dyn Read>>, SourceError> {
        let reader = match self {
            Self::Stdin => Box::new(io::stdin()),
            Self::File(_) | Self::Part { .. } => through(self.file()?),
        };
        let content = decoded::decoded(reader).map_err(|source| self.unreadable(source))?;
        Ok(Lines::of(content))
    }

    /// The file as it stands on the disk, wherever it is now.
    ///
    /// # Errors
    /// It is standard input, or cannot be opened.
    pub fn file(&self) -> Result<File, SourceError> {
        let (log, path, identity) = match self {
            Self::Stdin => {
                let why = "standard input is no file";
                let source = io::Error::new(ErrorKind::Unsupported, why);
                return Err(self.unreadable(source));
            }
            Self::File(path) => {
                return File::open(path).map_err(|source| self.unreadable(source));
            }
            Self::Part {
                log,
                path,
                identity,
            } => (log, path, *identity),
        };
        let same = |path: &Path| {
            let file = File::open(path)?;
            let found = Identity::of(&file.metadata()?);
            io::Result::Ok((found == identity).then_some(file))
        };
        match same(path) {
            Ok(Some(file)) => return Ok(file),
            Ok(None) => {}
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(self.unreadable(error)),
        }
        let moved = rotated::of(log).unwrap_or_default();
        let found = moved.iter().find_map(|path| same(path).ok().flatten());
        found.ok_or_else(|| SourceError::Gone(path.clone()))
    }

    /// Its size on the disk in bytes, as far as it is known.
    pub fn size(&self) -> u64 {
        match self {
            Self::Stdin => 0,
            Self::File(path) | Self::Part { path, .. } => {
                fs::metadata(path).map_or(0, |found| found.len())
            }
        }
    }

    /// The error of a read from it.
    pub fn unreadable(&self, source: io::Error) -> SourceError {
        SourceError::Unreadable {
            name: self.to_string(),
            source,
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stdin => f.write_str("standard input"),
            Self::File(path) | Self::Part { path, .. } => path.display().fmt(f),
        }
    }
}

impl Identity {
    /// Of the file that `metadata` is of.
    pub fn of(metadata: &Metadata) -> Self {
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
        }
    }
}

fn inspect(path: &Path) -> Result<Metadata, SourceError> {
    match fs::metadata(path) {
        Ok(found) if found.is_dir() => Err(SourceError::Directory(path.to_owned())),
        Ok(found) => Ok(found),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            Err(SourceError::NotFound(path.to_owned()))
        }
        Err(source) => Err(SourceError::Unreadable {
            name: path.display().to_string(),
            source,
        }),
    }
}

#[cfg(test)]
mod tests;
