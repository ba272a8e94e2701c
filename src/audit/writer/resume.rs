//! Finds where the chain of a log stands: the link of its last line. The newest file is read from
//! its end, back to a line that names the one before it; what stands behind that is taken in.

use std::{
    fs::File,
    io::{self, ErrorKind, Seek as _, SeekFrom},
    os::unix::fs::FileExt as _,
    path::{Path, PathBuf},
};

use crate::{
    audit::{chain::Chain, lines::Lines},
    record::Link,
};

/// How much is read at once, backwards.
const CHUNK: u64 = 1 << 16;

/// The link of the last line in `files`, newest first. Where no line names one, as in a log of an
/// earlier version, the newest file that is not empty is bound from its beginning.
pub(super) fn head(files: impl Iterator<Item = PathBuf>) -> io::Result<Link> {
    let mut behind: Vec<File> = Vec::new();
    for path in files {
        let Some((mut file, len)) = open(&path)? else {
            continue;
        };
        if let Some(at) = last_naming(&file, len)? {
            file.seek(SeekFrom::Start(at))?;
            behind.push(file);
            let oldest_first = behind.into_iter().rev();
            return oldest_first.into_iter().try_fold(Link::FIRST, after);
        }
        behind.push(file);
    }
    behind.into_iter().take(1).try_fold(Link::FIRST, after)
}

/// A file that is there, is one and holds something, with its length.
fn open(path: &Path) -> io::Result<Option<(File, u64)>> {
    let is_file = |found: std::fs::Metadata| found.is_file();
    match path.metadata().map(is_file) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Ok(false) => return Ok(None),
        Ok(true) => {}
        Err(error) => return Err(error),
    }
    let file = File::open(path)?;
    let len = file.metadata()?.len();
    Ok((len > 0).then_some((file, len)))
}

/// Where the last line begins that names the one before it.
fn last_naming(file: &File, len: u64) -> io::Result<Option<u64>> {
    let head = u64::try_from(Link::HEAD).unwrap_or_default();
    let mut buffer = Vec::new();
    let mut end = len;
    while end > 0 {
        let start = end.saturating_sub(CHUNK);
        // From the newline before the first line, to the head of one that begins at the end.
        let from = start.saturating_sub(1);
        let upto = end.saturating_add(head).min(len);
        buffer.resize(usize::try_from(upto - from).unwrap_or_default(), 0);
        file.read_exact_at(&mut buffer, from)?;
        let begins = memchr::memrchr_iter(b'\n', &buffer).map(|newline| newline + 1);
        let first = (from == 0).then_some(0);
        let found = begins.chain(first).find(|at| {
            let line = buffer.get(*at..).unwrap_or_default();
            Link::named_by(line).is_some()
        });
        if let Some(at) = found {
            return Ok(Some(from + u64::try_from(at).unwrap_or_default()));
        }
        end = start;
    }
    Ok(None)
}

/// The link of the last line in what is left of `file`, before which one of `before` stands.
fn after(before: Link, file: File) -> io::Result<Link> {
    let mut chain = Chain::after(before);
    let mut lines = Lines::of(file);
    while let Some(line) = lines.next_line()? {
        chain.take(&line);
    }
    chain.end();
    Ok(chain.last())
}

#[cfg(test)]
mod tests;
