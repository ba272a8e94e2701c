//! The file under the log. A line is one write(2), newline included, so that another reader never
//! sees half of one and a line that did not fit leaves nothing behind.
//!
//! Written means that write(2) has returned: the record survives a crash of this process, not a
//! loss of power, because nothing waits for the disk.

mod rotation;

use std::{
    fs::File,
    io::{self, ErrorKind, Write as _},
    os::{
        fd::AsFd,
        unix::fs::{FileExt as _, FileTypeExt as _, MetadataExt as _, PermissionsExt as _},
    },
    path::{Path, PathBuf},
    sync::Arc,
};

use rustix::fs::{Mode, OFlags};

use self::rotation::{Rotated, suffixed};
use super::{AuditError, Metrics};
use crate::config;

/// Where lines are written.
#[derive(Debug)]
pub(super) struct Writer {
    name: String,
    file: File,
    /// Bytes of a line at the end of the file whose rest could not be written.
    torn: u64,
    /// None on a stream: standard output, or a character device.
    log: Option<LogFile>,
    metrics: Arc<Metrics>,
}

/// A regular file that only we write to.
#[derive(Debug)]
struct LogFile {
    path: PathBuf,
    len: u64,
    /// The length at which the next rotation is tried.
    rotate_at: u64,
    max_size: u64,
    keep: u32,
    /// A file of its own is locked, and not the log: it stays the same across a rotation, so that
    /// there is no moment in which another process finds an unlocked log under our path.
    _lock: File,
}

/// After a rotation that failed, the growth at which it is tried again.
const ROTATION_RETRY: u64 = 1 << 20;

impl Writer {
    /// Opens and locks the log, and ends a line that a crash tore.
    pub(super) fn open(
        settings: &config::Audit,
        metrics: Arc<Metrics>,
    ) -> Result<Self, AuditError> {
        let path = match &settings.sink {
            config::AuditSink::Stdout => {
                let stdout = io::stdout().as_fd().try_clone_to_owned();
                let file = stdout.map_err(|source| failed("on standard output", source))?;
                return Ok(Self::stream(
                    "on standard output".into(),
                    file.into(),
                    metrics,
                ));
            }
            config::AuditSink::File(path) => path,
        };
        let name = path.display().to_string();
        let fail = |source| failed(&name, source);
        let is_device = path
            .symlink_metadata()
            .is_ok_and(|found| found.file_type().is_char_device());
        if is_device {
            let file = open_log(path, Mode::empty()).map_err(fail)?;
            return Ok(Self::stream(name, file, metrics));
        }
        // Locked before it is opened: until then another process may rotate it.
        let lock = lock(path, &name)?;
        let file = open_log(path, Mode::from_raw_mode(0o600)).map_err(fail)?;
        let len = regular_len(&file).map_err(fail)?;
        let log = LogFile {
            path: path.clone(),
            len,
            rotate_at: settings.max_size,
            max_size: settings.max_size,
            keep: settings.keep,
            _lock: lock,
        };
        let mut writer = Self {
            name,
            file,
            torn: 0,
            log: Some(log),
            metrics,
        };
        writer
            .end_torn_line()
            .map_err(|source| failed(&writer.name, source))?;
        Ok(writer)
    }

    /// A writer to what cannot be rotated.
    pub(super) fn stream(name: String, file: File, metrics: Arc<Metrics>) -> Self {
        Self {
            name,
            file,
            torn: 0,
            log: None,
            metrics,
        }
    }

    /// What the log is called in messages.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// The files of the log, newest first, whether they are there or not; none for a stream.
    pub(super) fn files(&self) -> impl Iterator<Item = PathBuf> {
        let rotated = |log: &LogFile| {
            let path = log.path.clone();
            (1..=log.keep).map(move |number| suffixed(&path, &number.to_string()))
        };
        let current = self.log.iter().map(|log| log.path.clone());
        current.chain(self.log.iter().flat_map(rotated))
    }

    /// Writes one line; on failure nothing of it stays, or what stays is ended before the next.
    pub(super) fn write(&mut self, line: &[u8]) -> io::Result<()> {
        self.mend()?;
        self.rotate_before(line);
        match write_whole(&self.file, line) {
            Ok(()) => {
                self.grow(line);
                Ok(())
            }
            Err((written, error)) => {
                self.torn = written;
                // If this fails too, the next write begins with it.
                self.mend().unwrap_or_default();
                Err(error)
            }
        }
    }

    /// Sees to it that the path still leads to our file: a log that was moved or removed by
    /// another hand is opened anew.
    pub(super) fn verify(&mut self) -> io::Result<()> {
        let Some(log) = &mut self.log else {
            return Ok(());
        };
        let ours = self.file.metadata()?;
        match log.path.symlink_metadata() {
            Ok(found) if (found.dev(), found.ino()) == (ours.dev(), ours.ino()) => return Ok(()),
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        let mode = Mode::from_raw_mode(ours.permissions().mode());
        let file = open_log(&log.path, mode)?;
        log.len = regular_len(&file)?;
        tracing::warn!(log = self.name, "audit log was moved away, opened anew");
        log.rotate_at = log.max_size;
        self.file = file;
        self.torn = 0;
        Ok(())
    }

    /// Removes what stands of a line that could not be written whole, or else ends it.
    fn mend(&mut self) -> io::Result<()> {
        if self.torn == 0 {
            return Ok(());
        }
        if self.log.is_some() {
            let len = self.file.metadata()?.len();
            if self.file.set_len(len.saturating_sub(self.torn)).is_ok() {
                self.torn = 0;
                return Ok(());
            }
        }
        // A stream, or a file with the append-only attribute.
        write_whole(&self.file, b"\n").map_err(|(_, error)| error)?;
        self.torn = 0;
        Ok(())
    }

    /// A crash in the middle of a write leaves a line without its end.
    fn end_torn_line(&mut self) -> io::Result<()> {
        let Some(log) = &self.log else { return Ok(()) };
        let Some(last_at) = log.len.checked_sub(1) else {
            return Ok(());
        };
        let mut last = [0];
        File::open(&log.path)?.read_exact_at(&mut last, last_at)?;
        if last == *b"\n" {
            return Ok(());
        }
        tracing::warn!(log = self.name, "audit log ends in a torn line");
        write_whole(&self.file, b"\n").map_err(|(_, error)| error)?;
        self.grow(b"\n");
        Ok(())
    }

    fn grow(&mut self, line: &[u8]) {
        if let Some(log) = &mut self.log {
            log.len += u64::try_from(line.len()).unwrap_or(u64::MAX);
        }
    }

    /// Rotates where `line` would make the file too long. A rotation that fails costs no record:
    /// the old file is written on.
    fn rotate_before(&mut self, line: &[u8]) {
        let Some(log) = &mut self.log else { return };
        let grown = log.len + u64::try_from(line.len()).unwrap_or(u64::MAX);
        if log.len == 0 || grown <= log.rotate_at {
            return;
        }
        match rotation::rotate(&self.file, &log.path, log.keep) {
            Ok(Rotated { file, len }) => {
                self.file = file;
                (log.len, log.rotate_at) = (len, log.max_size);
                self.metrics.rotated();
            }
            Err(error) => {
                tracing::warn!(log = self.name, %error, "audit log cannot be rotated");
                log.rotate_at = log.len + ROTATION_RETRY;
                self.metrics.rotation_failed();
            }
        }
    }
}

/// Opens for appending. Security: a link in the place of the log would let whoever laid it choose
/// what we write to; and a FIFO must not make us wait for its reader.
fn open_log(path: &Path, mode: Mode) -> io::Result<File> {
    let flags = OFlags::WRONLY
        | OFlags::APPEND
        | OFlags::CREATE
        | OFlags::CLOEXEC
        | OFlags::NOFOLLOW
        | OFlags::NONBLOCK;
    Ok(rustix::fs::open(path, flags, mode)?.into())
}

/// The length of a regular file; anything else is refused.
fn regular_len(file: &File) -> io::Result<u64> {
    let metadata = file.metadata()?;
    if metadata.is_file() {
        return Ok(metadata.len());
    }
    let why = "it is not a regular file";
    Err(io::Error::new(ErrorKind::InvalidInput, why))
}

fn lock(path: &Path, name: &str) -> Result<File, AuditError> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let mode = Mode::from_raw_mode(0o600);
    let opened = rustix::fs::open(suffixed(path, "lock"), flags, mode);
    let file: File = opened
        .map_err(|errno| match io::Error::from(errno) {
            error if error.kind() == ErrorKind::NotFound => AuditError::NoFolder(name.to_owned()),
            error => failed(name, error),
        })?
        .into();
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(std::fs::TryLockError::WouldBlock) => Err(AuditError::Locked(name.to_owned())),
        Err(std::fs::TryLockError::Error(source)) => Err(failed(name, source)),
    }
}

fn failed(name: &str, source: io::Error) -> AuditError {
    AuditError::Io {
        path: name.to_owned(),
        source,
    }
}

/// Writes all of `bytes`, in one write(2) wherever the kernel takes them at once. On failure says
/// how much was written.
fn write_whole(mut file: &File, bytes: &[u8]) -> Result<(), (u64, io::Error)> {
    let mut rest = bytes;
    while !rest.is_empty() {
        let error = match file.write(rest) {
            Ok(0) => ErrorKind::WriteZero.into(),
            Ok(written) => {
                rest = rest.get(written..).unwrap_or_default();
                continue;
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => error,
        };
        let written = bytes.len().saturating_sub(rest.len());
        return Err((u64::try_from(written).unwrap_or(u64::MAX), error));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
