//! Rotation: `FILE` becomes `FILE.1`, `FILE.1` becomes `FILE.2`, and the oldest is gone.

use std::{
    ffi::OsString,
    fs::{self, File},
    io::{self, ErrorKind},
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use rustix::fs::Mode;

use super::open_log;

/// The new file.
pub(super) struct Rotated {
    pub(super) file: File,
    pub(super) len: u64,
}

/// Rotates the files of `path`, whose current one is `old`. The new file is open before anything
/// is renamed: most of what can fail, a full disk or a folder that may not be written, fails
/// before anything has changed. After a failure in between the chain has a gap and no loss.
pub(super) fn rotate(old: &File, path: &Path, keep: u32) -> io::Result<Rotated> {
    let fresh = suffixed(path, "new");
    let mode = Mode::from_raw_mode(old.metadata()?.permissions().mode());
    let file = open_log(&fresh, mode)?;
    // One that an earlier attempt left behind is empty; anything else is not ours to overwrite.
    let len = file.metadata()?.len();
    if len > 0 {
        return Err(io::Error::new(
            ErrorKind::AlreadyExists,
            format!("{} is not empty", fresh.display()),
        ));
    }
    for older in (1..keep).rev() {
        let from = suffixed(path, &older.to_string());
        rename_if_there(&from, &suffixed(path, &(older + 1).to_string()))?;
    }
    if keep > 0 {
        rename_if_there(path, &suffixed(path, "1"))?;
    }
    fs::rename(&fresh, path)?;
    Ok(Rotated { file, len })
}

/// `path` with `.suffix` after its whole name.
pub(super) fn suffixed(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(".");
    name.push(suffix);
    name.into()
}

fn rename_if_there(from: &Path, to: &Path) -> io::Result<()> {
    match fs::rename(from, to) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        renamed => renamed,
    }
}
