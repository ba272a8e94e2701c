//! The launcher's own record file: one line for each run, whatever its network.

use std::{
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use rustix::{fs::FallocateFlags, io::Errno};

use crate::record::RunRecord;

/// Room that is held for a line before a run starts, in bytes; lines are a few hundred, and those
/// of runs that reached a thousand hosts some hundred thousand.
const RESERVE: u64 = 256 * 1024;

/// The open record file.
#[derive(Debug)]
pub(super) struct Ledger {
    file: File,
    path: PathBuf,
}

/// Why a run cannot be recorded.
#[derive(Debug, thiserror::Error)]
#[error("failed to {doing} the record file {}; a run that cannot be recorded does not start", .path.display())]
pub struct LedgerError {
    doing: &'static str,
    path: PathBuf,
    source: io::Error,
}

impl Ledger {
    /// Opens the file for appending, readable by its owner alone, and makes sure of room for a
    /// line; folders above it are made.
    pub(super) fn open(path: &Path) -> Result<Self, LedgerError> {
        let failed = |doing| {
            move |source| LedgerError {
                doing,
                path: path.to_owned(),
                source,
            }
        };
        if let Some(folder) = path
            .parent()
            .filter(|folder| !folder.as_os_str().is_empty())
        {
            DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(folder)
                .map_err(failed("make the folder of"))?;
        }
        // Security: a device takes every line and keeps none, and a FIFO has opening it wait.
        if fs::metadata(path).is_ok_and(|found| !found.is_file()) {
            let why = "it is not a regular file";
            return Err(failed("open")(io::Error::other(why)));
        }
        let file = OpenOptions::new()
            .append(true)
            .create(true)
            .mode(0o600)
            .open(path)
            .map_err(failed("open"))?;
        let end = file.metadata().map_err(failed("inspect"))?.len();
        // Some file systems cannot hold room; there a full disk is found when the line is written.
        match rustix::fs::fallocate(&file, FallocateFlags::KEEP_SIZE, end, RESERVE) {
            Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::NODEV | Errno::SPIPE) => {}
            Err(errno) => return Err(failed("hold room in")(errno.into())),
        }
        Ok(Self {
            file,
            path: path.to_owned(),
        })
    }

    /// Appends the record in one write, so that lines of concurrent runs do not mix.
    pub(super) fn append(&self, record: &RunRecord) -> Result<(), LedgerError> {
        let failed = |source| LedgerError {
            doing: "write",
            path: self.path.clone(),
            source,
        };
        let line = record.line().map_err(|error| failed(error.into()))?;
        (&self.file).write_all(&line).map_err(failed)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::record::RunId;

    fn record(run: &str) -> RunRecord {
        let run = RunId::parse(run).unwrap();
        RunRecord::begun(&run, String::new(), String::new(), Vec::new())
    }

    #[test]
    fn each_run_is_a_line_of_a_private_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state/eclusa/runs.jsonl");
        for run in ["one", "two"] {
            Ledger::open(&path).unwrap().append(&record(run)).unwrap();
        }
        let text = fs::read_to_string(&path).unwrap();
        let runs: Vec<RunRecord> = text
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        assert_eq!(runs, [record("one"), record("two")]);
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn a_file_that_cannot_be_written_is_an_error_before_the_run() {
        let folder = tempfile::tempdir().unwrap();
        // The last two take every line, and keep none.
        for path in [
            folder.path(),
            Path::new("/dev/full"),
            Path::new("/dev/null"),
        ] {
            let error = Ledger::open(path).unwrap_err();
            assert!(error.to_string().contains("does not start"), "{error}");
        }
    }
}
