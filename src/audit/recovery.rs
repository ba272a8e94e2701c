//! Finds what a crash left open: decisions that let something through and have no close, since
//! the last start or stop. The newest file is read first, and older ones only as far as needed.

use std::{
    collections::{HashMap, HashSet},
    fs::File,
    io::{self, ErrorKind},
    path::{Path, PathBuf},
};

use serde::Deserialize;
use ulid::Ulid;

use super::lines::{Extent, Lines};
use crate::record::Line;

/// What one file holds after the last start or stop in it.
#[derive(Debug, Default)]
struct Scan {
    /// Decisions without a close, as they stand there.
    open: HashMap<Ulid, Vec<u8>>,
    /// Closes of decisions that an older file holds.
    closed: HashSet<Ulid>,
    /// Whether a start or stop was seen: older files do not matter.
    complete: bool,
    /// Torn and foreign lines.
    skipped: u64,
}

/// The part of a line that tells whether it opens or closes an exchange. Our own codes and ids
/// have no escapes and can be borrowed.
#[derive(Deserialize)]
struct Head<'a> {
    event: &'a str,
    id: Option<&'a str>,
    decision: Option<&'a str>,
}

/// The decisions to be closed, in the order in which they were made. `files` are newest first.
pub(super) fn unclosed(files: impl Iterator<Item = PathBuf>) -> io::Result<Vec<Line>> {
    let mut found: Vec<(Ulid, Line)> = Vec::new();
    let mut closed_later = HashSet::new();
    for file in files {
        // A rotation that failed half-way leaves a gap in the numbers.
        let Some(scan) = scan(&file)? else { continue };
        if scan.skipped > 0 {
            tracing::warn!(
                log = %file.display(),
                lines = scan.skipped,
                "audit log has lines that are no records"
            );
        }
        let open = scan
            .open
            .into_iter()
            .filter(|(id, _)| !closed_later.contains(id));
        found.extend(open.filter_map(|(id, line)| Some((id, Line::parse(&line).ok()?))));
        if scan.complete {
            break;
        }
        closed_later.extend(scan.closed);
    }
    found.sort_unstable_by_key(|(id, _)| *id);
    Ok(found.into_iter().map(|(_, line)| line).collect())
}

fn scan(path: &Path) -> io::Result<Option<Scan>> {
    let file = match File::open(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        opened => opened?,
    };
    let mut lines = Lines::of(file);
    let mut scan = Scan::default();
    while let Some(line) = lines.next_line()? {
        match line.extent {
            Extent::Whole if scan.read(line.bytes).is_some() => {}
            Extent::Whole | Extent::Torn | Extent::Piece { first: true } => scan.skipped += 1,
            Extent::Piece { first: false } => {}
        }
    }
    Ok(Some(scan))
}

impl Scan {
    /// Takes in one line; none where it is not a record.
    fn read(&mut self, line: &[u8]) -> Option<()> {
        let head: Head<'_> = serde_json::from_slice(line).ok()?;
        let id = head.id.and_then(|id| Ulid::from_string(id).ok());
        match (head.event, head.decision) {
            ("start" | "stop", _) => {
                self.open.clear();
                self.closed.clear();
                self.complete = true;
            }
            ("decision", Some("allow" | "would_deny")) => {
                self.open.insert(id?, line.to_owned());
            }
            ("close", _) => {
                let id = id?;
                if self.open.remove(&id).is_none() {
                    self.closed.insert(id);
                }
            }
            _ => {}
        }
        Some(())
    }
}

#[cfg(test)]
mod tests;
