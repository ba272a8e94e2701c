//! The file under the log. A line goes in one write(2), newline included, alone or with others, so
//! that another reader never sees half of one and a line that did not fit leaves nothing behind.
//!
//! Written means that write(2) has returned: the record survives a crash of this process, not a
//! loss of power, because nothing waits for the disk.

mod file;
mod resume;
mod rotation;
mod torn;

use std::{
    fs::File,
    io::{self, ErrorKind},
    mem,
    os::{
        fd::AsFd,
        unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _},
    },
    path::PathBuf,
    sync::Arc,
};

use rustix::fs::Mode;

use self::{
    file::{lock, open_log, regular_len, write_whole},
    rotation::{Rotated, suffixed},
};
use super::{AuditError, Metrics};
use crate::{
    config,
    record::{Link, encode},
};

/// Where lines are written.
#[derive(Debug)]
pub(super) struct Writer {
    name: String,
    file: File,
    /// The link of the last line, which the next one names.
    head: Link,
    /// Lines on their way, kept for its room.
    batch: Vec<u8>,
    /// The beginning of a line, at the end of the file, whose rest could not be written.
    torn: Vec<u8>,
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

/// A write that failed.
#[derive(Debug)]
pub(super) struct Unwritten {
    /// The number of lines, from the first, that are in the log for all that.
    pub(super) whole: usize,
    /// What the kernel says.
    pub(super) source: io::Error,
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
            head: Link::FIRST,
            batch: Vec::new(),
            torn: Vec::new(),
            log: Some(log),
            metrics,
        };
        match writer.resume() {
            Ok(()) => Ok(writer),
            Err(source) => Err(failed(&writer.name, source)),
        }
    }

    /// A writer to what can be neither rotated nor read back: each start begins a chain.
    pub(super) fn stream(name: String, file: File, metrics: Arc<Metrics>) -> Self {
        Self {
            name,
            file,
            head: Link::FIRST,
            batch: Vec::new(),
            torn: Vec::new(),
            log: None,
            metrics,
        }
    }

    /// What the log is called in messages.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Whether it is a regular file.
    pub(super) fn is_file(&self) -> bool {
        self.log.is_some()
    }

    /// The link of the last line.
    pub(super) fn head(&self) -> Link {
        self.head
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

    /// Writes lines in one write(2), each bound to the one before it. On failure nothing stays of
    /// those that are not whole, or what stays is ended before the next.
    pub(super) fn write<'l>(
        &mut self,
        lines: impl IntoIterator<Item = &'l mut [u8]>,
    ) -> Result<(), Unwritten> {
        self.mend()
            .map_err(|source| Unwritten { whole: 0, source })?;
        let mut batch = mem::take(&mut self.batch);
        batch.clear();
        let mut head = self.head;
        for line in lines {
            encode::bind(line, &head);
            head = head.then(line.strip_suffix(b"\n").unwrap_or(line));
            batch.extend_from_slice(line);
        }
        self.rotate_before(&batch);
        let written = match write_whole(&self.file, &batch) {
            Ok(()) => {
                self.grow(&batch);
                self.head = head;
                Ok(())
            }
            Err((written, source)) => {
                let whole = self.take_in(batch.get(..written).unwrap_or(&batch));
                // If this fails too, the next write begins with it.
                self.mend().unwrap_or_default();
                Err(Unwritten { whole, source })
            }
        };
        self.batch = batch;
        written
    }

    /// Sees to it that the path still leads to our file: a log that was moved or removed by
    /// another hand is opened anew, and its chain goes on.
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
        // What stands of a torn line goes away with the old file.
        self.bind_torn();
        self.file = file;
        self.end_torn_line()
    }

    /// Takes the chain up where the files of the log leave it.
    fn resume(&mut self) -> io::Result<()> {
        self.end_torn_line()?;
        self.head = resume::head(self.files())?;
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

fn failed(name: &str, source: io::Error) -> AuditError {
    AuditError::Io {
        path: name.to_owned(),
        source,
    }
}

#[cfg(test)]
mod tests;
