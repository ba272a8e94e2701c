//! Opens and locks a log, and writes to it.

use std::{
    fs::File,
    io::{self, ErrorKind, Write as _},
    path::Path,
};

use rustix::fs::{Mode, OFlags};

use super::{AuditError, failed, rotation::suffixed};

/// Opens for appending. Security: a link in the place of the log would let whoever laid it choose
/// what we write to; and a FIFO must not make us wait for its reader.
pub(super) fn open_log(path: &Path, mode: Mode) -> io::Result<File> {
    let flags = OFlags::WRONLY
        | OFlags::APPEND
        | OFlags::CREATE
        | OFlags::CLOEXEC
        | OFlags::NOFOLLOW
        | OFlags::NONBLOCK;
    Ok(rustix::fs::open(path, flags, mode)?.into())
}

/// The length of a regular file; anything else is refused.
pub(super) fn regular_len(file: &File) -> io::Result<u64> {
    let metadata = file.metadata()?;
    if metadata.is_file() {
        return Ok(metadata.len());
    }
    let why = "it is not a regular file";
    Err(io::Error::new(ErrorKind::InvalidInput, why))
}

/// Locks the log at `path` for as long as the file that it gives is open.
pub(super) fn lock(path: &Path, name: &str) -> Result<File, AuditError> {
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

/// Writes all of `bytes`, in one write(2) wherever the kernel takes them at once. On failure says
/// how many bytes were written.
pub(super) fn write_whole(mut file: &File, bytes: &[u8]) -> Result<(), (usize, io::Error)> {
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
        return Err((bytes.len().saturating_sub(rest.len()), error));
    }
    Ok(())
}
