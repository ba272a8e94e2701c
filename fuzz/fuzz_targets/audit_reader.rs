//! A log is read whatever stands in it: each line counts once, a record that is written out anew
//! is the same record, a chain is proven wherever it was rotated or torn, and whatever is changed
//! in it shows, no earlier and hardly later than where it was done.

#![no_main]

use std::{
    fs::{self, File},
    io::{self, Read},
    path::Path,
};

use eclusa::{
    record::{Line, Link},
    review::{
        Extent, Lines,
        entry::Entry,
        faults::Faults,
        filter::{Conditions, Filter},
        render::{Look, Renderer, Row},
        scan,
        source::Source,
        verify::{Beginning, Proof, verify},
    },
};
use libfuzzer_sys::fuzz_target;
use tempfile::TempDir;

/// What is read through a decoder, which is not what is tried here.
const COMPRESSED: [&[u8]; 5] = [b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"\xfd7zXZ", b"BZh", b"PK"];

fuzz_target!(|input: (u8, u16, u16, u8, &[u8])| {
    let (piece, cut, at, flip, bytes) = input;
    let lines = lines(bytes, usize::MAX);
    assert_eq!(lines, self::lines(bytes, usize::from(piece).max(1)));
    assert_eq!(lines.concat(), bytes);
    let mut filter = Filter::new(Conditions::default());
    lines.iter().for_each(|line| record(line, &mut filter));
    // In memory: on a disk an input takes ten times as long.
    let folder = TempDir::new_in("/dev/shm").unwrap();
    read(folder.path(), bytes, usize::from(cut));
    chain(
        folder.path(),
        &lines,
        usize::from(cut),
        (usize::from(at), flip),
    );
});

/// Gives at most so many bytes a call.
struct Slow<'a>(&'a [u8], usize);

impl Read for Slow<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.1.min(self.0.len()).min(buffer.len());
        let (given, rest) = self.0.split_at(length);
        buffer[..length].copy_from_slice(given);
        self.0 = rest;
        Ok(length)
    }
}

fn lines(log: &[u8], piece: usize) -> Vec<Vec<u8>> {
    let mut lines = Lines::of(Slow(log, piece));
    let mut found: Vec<Vec<u8>> = Vec::new();
    while let Some(line) = lines.next_line().unwrap() {
        assert_eq!(line.number, found.len() as u64 + 1);
        assert_eq!(line.offset, found.concat().len() as u64);
        let ends = line.bytes.ends_with(b"\n");
        let extent = if ends { Extent::Whole } else { Extent::Torn };
        assert_eq!(line.extent, extent);
        found.push(line.bytes.to_vec());
    }
    found
}

/// What is taken for a record is the same record in another spelling, passes where nothing is
/// asked for, and is shown as one line that drives no terminal.
fn record(line: &[u8], filter: &mut Filter) {
    let (entry, passed) = (Entry::parse(line), filter.pass(line));
    let (Ok(entry), Ok(Some(passed))) = (&entry, &passed) else {
        assert!(entry.is_err() && passed.is_err());
        return;
    };
    assert_eq!(passed.entry, *entry);
    // The time is found without the rest where it stands as we write it.
    if let (Entry::Event(event), Some(time)) = (entry, Line::time_of(line)) {
        assert_eq!(event.ts, time);
    }
    if let Ok(value) = serde_json::from_slice::<serde_json::Value>(line) {
        let anew = serde_json::to_vec_pretty(&value).unwrap();
        assert_eq!(Entry::parse(&anew).unwrap(), *entry);
    }
    let mut shown = Vec::new();
    let look = Look {
        zone: None,
        colour: false,
    };
    Renderer::new(look)
        .write(&Row::of(passed), &mut shown)
        .unwrap();
    let (end, text) = shown.split_last().unwrap();
    assert_eq!(*end, b'\n');
    assert!(!String::from_utf8_lossy(text).contains(char::is_control));
}

/// Each line of a log in two files is an event, a run or a fault; what is proven of it is so.
fn read(folder: &Path, bytes: &[u8], cut: usize) {
    let files = bytes.split_at(cut.min(bytes.len()));
    let Some(sources) = rotated(folder, files) else {
        return;
    };
    let count = [files.0, files.1].map(|file| file.split_inclusive(|byte| *byte == b'\n').count());
    let count = count.iter().sum::<usize>() as u64;
    let (mut faults, mut events) = (Faults::default(), 0);
    let runs = scan::events(&sources, &mut faults, plainly, |_| events += 1).unwrap();
    assert_eq!(runs + events + faults.count, count);
    let proof = verify(&sources, None, plainly).unwrap();
    assert!(proof.lines() <= count && proof.unchained + proof.torn_count <= proof.lines());
    if proof.is_whole() {
        assert_eq!(proof.lines(), count);
        names_the_line_before(files, &proof);
    }
}

/// Every line from the first that names another names the one before it.
fn names_the_line_before((older, newer): (&[u8], &[u8]), proof: &Proof) {
    let (mut last, mut head) = (None, None);
    let lines = [older, newer].map(|file| file.split_inclusive(|byte| *byte == b'\n'));
    for line in lines.into_iter().flatten() {
        let named = Link::named_by(line);
        if let (Some(named), Some(last)) = (named, last) {
            assert_eq!(named, last);
        }
        // The last line may be one that is being written.
        head = last;
        let (line, has_end) = match line.strip_suffix(b"\n") {
            Some(line) => (line, true),
            None => (line, false),
        };
        if named.is_some() || last.is_some() {
            last = Some(last.unwrap_or(Link::FIRST).then(line));
        }
        head = if has_end { last } else { head };
    }
    assert_eq!(head.unwrap_or(Link::FIRST), proof.head);
}

/// A log as the proxy writes it, of records and of what crashes left, is proven; changed in one
/// byte it is not.
fn chain(folder: &Path, parts: &[Vec<u8>], cut: usize, (at, flip): (usize, u8)) {
    let (mut log, mut head, mut begins) = (Vec::new(), Link::FIRST, Vec::new());
    for part in parts.iter().take(16) {
        let part = part.strip_suffix(b"\n").unwrap_or(part);
        let odd = part.first().is_some_and(|byte| byte % 2 == 1);
        let is_torn = odd && Link::named_by(part).is_none() && Line::parse(part).is_err();
        let line = if is_torn && !log.is_empty() {
            part.to_vec()
        } else {
            begins.push(log.len());
            chained(head, part)
        };
        head = head.then(&line);
        log.extend(line);
        log.push(b'\n');
    }
    if log.is_empty() {
        return;
    }
    // A rotation falls between two lines.
    let ends = log.iter().take(cut).rposition(|byte| *byte == b'\n');
    let cut = ends.map_or(0, |end| end + 1);
    let Some(sources) = rotated(folder, log.split_at(cut)) else {
        return;
    };
    let proof = verify(&sources, Some(head), plainly).unwrap();
    assert!(proof.is_whole(), "{proof:?}");
    assert_eq!((proof.begins, proof.head), (Beginning::First, head));

    let at = at % log.len();
    let Some(byte) = log.get_mut(at).filter(|_| flip != 0) else {
        return;
    };
    *byte ^= flip;
    let Some(sources) = rotated(folder, log.split_at(cut)) else {
        return;
    };
    assert!(!verify(&sources, Some(head), plainly).unwrap().is_whole());
    let proof = verify(&sources, None, plainly).unwrap();
    let changed = log[..at].iter().rposition(|byte| *byte == b'\n');
    let changed = changed.map_or(0, |end| end + 1);
    // A changed newline makes one line of two, of which the second then names nothing.
    let witness = begins.iter().filter(|begin| **begin > at).nth(1);
    let broken = proof.broken.as_ref().map(|broken| {
        let before = if broken.at.file == 1 { cut } else { 0 };
        before + usize::try_from(broken.at.offset).unwrap()
    });
    assert!(broken.is_none_or(|broken| broken >= changed), "{proof:?}");
    if let Some(witness) = witness {
        assert!(broken.is_some_and(|broken| broken <= *witness), "{proof:?}");
    }
}

/// A record that bears `text` and follows `before`.
fn chained(before: Link, text: &[u8]) -> Vec<u8> {
    let head = r#"{"schema":1,"ts":"2026-01-02T03:04:05.678Z","prev":""#;
    let name = serde_json::to_string(&String::from_utf8_lossy(text)).unwrap();
    format!("{head}{before}\",\"event\":\"dns\",\"name\":{name}}}").into_bytes()
}

/// The sources of a log that was rotated once; none where a file would be decompressed.
fn rotated(folder: &Path, (older, newer): (&[u8], &[u8])) -> Option<Vec<Source>> {
    let is_compressed = |file: &[u8]| COMPRESSED.iter().any(|magic| file.starts_with(magic));
    if is_compressed(older) || is_compressed(newer) {
        return None;
    }
    let path = folder.join("audit.jsonl");
    fs::write(folder.join("audit.jsonl.1"), older).unwrap();
    fs::write(&path, newer).unwrap();
    let sources = Source::log(&path).unwrap();
    assert_eq!(sources.len(), 2);
    Some(sources)
}

fn plainly(file: File) -> Box<dyn Read> {
    Box::new(file)
}
