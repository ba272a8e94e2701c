//! The names of rotated files: `FILE.1` as `serve` and logrotate write them, `FILE-20260102` and
//! `STEM-20260102.EXT` as logrotate's `dateext` does, each also compressed.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    fs, io,
    path::{Path, PathBuf},
};

/// Endings of compressed files.
const COMPRESSED: [&str; 4] = [".gz", ".zst", ".bz2", ".xz"];

/// How old a rotated file is, sorted oldest first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Age {
    /// By the date in its name.
    Dated(String),
    /// By how often it was rotated; the higher the older.
    Numbered(std::cmp::Reverse<u32>),
}

/// The rotated files of the log at `path`, oldest first.
pub(super) fn of(path: &Path) -> io::Result<Vec<PathBuf>> {
    let Some(name) = path.file_name().and_then(|name| name.to_str()) else {
        return Ok(Vec::new());
    };
    let folder = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let mut found: BTreeMap<Age, OsString> = BTreeMap::new();
    for entry in fs::read_dir(folder)? {
        let other = entry?.file_name();
        let Some(age) = other.to_str().and_then(|other| age(name, other)) else {
            continue;
        };
        // A compressed file beside its plain one is not finished, or about to be removed.
        match found.get(&age) {
            Some(present) if present.len() <= other.len() => {}
            _ => drop(found.insert(age, other)),
        }
    }
    Ok(found.into_values().map(|name| folder.join(name)).collect())
}

/// Whether the name of a file is one that rotations give.
pub(super) fn is_one(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    let name = name.unwrap_or_default();
    let plain = COMPRESSED
        .iter()
        .find_map(|ending| name.strip_suffix(ending));
    let name = plain.unwrap_or(name);
    let ends_in_digits = |at: char| {
        name.rsplit_once(at)
            .is_some_and(|(_, end)| !end.is_empty() && end.bytes().all(|b| b.is_ascii_digit()))
    };
    let has_date = |(stem, _): (&str, &str)| {
        stem.rsplit_once('-')
            .is_some_and(|(_, end)| date(end).is_some())
    };
    plain.is_some()
        || ends_in_digits('.')
        || ends_in_digits('-')
        || name.rsplit_once('.').is_some_and(has_date)
}

/// The age of the file `other`, where it is a rotated one of the log `name`.
fn age(name: &str, other: &str) -> Option<Age> {
    let other = COMPRESSED
        .iter()
        .find_map(|ending| other.strip_suffix(ending))
        .unwrap_or(other);
    if let Some(rest) = other.strip_prefix(name) {
        if let Some(number) = rest.strip_prefix('.') {
            // logrotate's dateformat may begin with a dot.
            if number.len() >= 8 {
                return date(number);
            }
            let is_number = number.bytes().all(|b| b.is_ascii_digit());
            let number = is_number.then(|| number.parse().ok()).flatten()?;
            return Some(Age::Numbered(std::cmp::Reverse(number)));
        }
        return date(rest.strip_prefix('-')?);
    }
    let (stem, extension) = name.rsplit_once('.')?;
    let rest = other.strip_prefix(stem)?.strip_prefix('-')?;
    date(rest.strip_suffix(extension)?.strip_suffix('.')?)
}

/// `20260102`, `2026-01-02`, `20260102-13`, or seconds since 1970.
fn date(text: &str) -> Option<Age> {
    let digits = text.bytes().filter(u8::is_ascii_digit).count();
    let others = text
        .bytes()
        .filter(|b| !matches!(b, b'0'..=b'9' | b'-' | b'_' | b'T'));
    (digits >= 8 && others.count() == 0).then(|| Age::Dated(text.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_is_found_oldest_first_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        for name in [
            "audit.jsonl",
            "audit.jsonl.lock",
            "audit.jsonl.new",
            "audit.jsonl.",
            "audit.jsonl.1",
            "audit.jsonl.2",
            "audit.jsonl.2.gz",
            "audit.jsonl.10.zst",
            "audit.jsonl.1.old",
            "audit.jsonl-20260102.gz",
            "audit.jsonl-20260101",
            "audit-20251231.jsonl",
            "audit-notes.jsonl",
            "other.jsonl.1",
            "xaudit.jsonl.1",
        ] {
            fs::write(folder.path().join(name), "").unwrap();
        }
        let found = of(&folder.path().join("audit.jsonl")).unwrap();
        let names: Vec<_> = found
            .iter()
            .map(|path| path.file_name().unwrap().to_str().unwrap())
            .collect();
        assert_eq!(
            names,
            [
                "audit-20251231.jsonl",
                "audit.jsonl-20260101",
                "audit.jsonl-20260102.gz",
                "audit.jsonl.10.zst",
                "audit.jsonl.2",
                "audit.jsonl.1",
            ]
        );
    }
}
