//! Files of the launcher's private folder that sandboxes are given.

use std::{
    fs::{self, DirBuilder, OpenOptions},
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::Path,
};

/// Puts `content` at `path`, whole or not at all, unless it stands there already.
pub(super) fn place(path: &Path, content: &str) -> io::Result<()> {
    if fs::read(path).is_ok_and(|present| present == content.as_bytes()) {
        return Ok(());
    }
    let folder = path.parent().unwrap_or_else(|| Path::new("/"));
    DirBuilder::new()
        .recursive(true)
        .mode(0o755)
        .create(folder)?;
    let draft = path.with_extension(ulid::Ulid::generate().to_string());
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o644)
        .open(&draft)?;
    file.write_all(content.as_bytes())?;
    fs::rename(&draft, path)
}
