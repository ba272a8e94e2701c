use std::{io::Write as _, os::unix::fs::symlink};

use super::*;

/// The text of every source, in order.
fn content(sources: &[Source]) -> Vec<String> {
    sources
        .iter()
        .map(|source| {
            let mut lines = source.open().unwrap();
            let mut text = String::new();
            while let Some(line) = lines.next_line().unwrap() {
                text.push_str(str::from_utf8(line.bytes).unwrap());
            }
            text
        })
        .collect()
}

fn gzip(text: &str) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(text.as_bytes()).unwrap();
    encoder.finish().unwrap()
}

fn zstd(text: &str) -> Vec<u8> {
    let level = ruzstd::encoding::CompressionLevel::Fastest;
    ruzstd::encoding::compress_to_vec(text.as_bytes(), level)
}

#[test]
fn content_is_decompressed_by_its_first_bytes_whatever_the_name() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log.txt");
    let long = "a line of a log\n".repeat(100_000);
    let skippable = [b"\x50\x2a\x4d\x18\x03\0\0\0abc".to_vec(), zstd("one\n")].concat();
    for (what, bytes, expected) in [
        ("plain", b"one\n".to_vec(), "one\n"),
        ("empty", Vec::new(), ""),
        ("short", b"x".to_vec(), "x"),
        ("gzip", gzip(&long), &*long),
        (
            "two members",
            [gzip("one\n"), gzip("two\n")].concat(),
            "one\ntwo\n",
        ),
        ("zstd", zstd(&long), &*long),
        (
            "two frames",
            [zstd("one\n"), zstd("two\n")].concat(),
            "one\ntwo\n",
        ),
        (
            "frame to be skipped",
            [zstd(""), skippable].concat(),
            "one\n",
        ),
    ] {
        fs::write(&path, bytes).unwrap();
        assert!(
            content(&[Source::named(&path).unwrap()]) == [expected],
            "{what}"
        );
    }
}

#[test]
fn what_cannot_be_read_says_why() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    let read_all = |path: &Path| {
        let mut lines = Source::named(path)?.open()?;
        loop {
            match lines.next_line() {
                Ok(Some(_)) => {}
                Ok(None) => return Ok(()),
                Err(source) => return Err(Source::named(path)?.unreadable(source)),
            }
        }
    };
    let error = read_all(&path).unwrap_err();
    assert!(matches!(error, SourceError::NotFound(_)), "{error}");
    let error = read_all(folder.path()).unwrap_err();
    assert!(matches!(error, SourceError::Directory(_)), "{error}");
    let mut torn = gzip("a line\n");
    torn.truncate(torn.len() - 5);
    let mut damaged = zstd(&"a line\n".repeat(1000));
    *damaged.last_mut().unwrap() ^= 1;
    for (bytes, expected) in [
        (b"\xfd7zXZ\0...".to_vec(), "compressed by xz"),
        (b"BZh91AY".to_vec(), "compressed by bzip2"),
        (torn, "failed to read"),
        (damaged, "failed to read"),
    ] {
        fs::write(&path, bytes).unwrap();
        let error = anyhow::Error::from(read_all(&path).unwrap_err());
        assert!(format!("{error:#}").contains(expected), "{error:#}");
    }
}

#[test]
fn a_log_has_its_rotated_files_oldest_first_and_each_once() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let log = at("audit.jsonl");
    assert!(matches!(Source::log(&log), Err(SourceError::NotFound(_))));
    fs::write(at("audit.jsonl.1"), "two\n").unwrap();
    assert_eq!(content(&Source::log(&log).unwrap()), ["two\n"]);
    fs::write(at("audit.jsonl.2"), gzip("one\n")).unwrap();
    fs::write(&log, "three\n").unwrap();
    symlink(at("audit.jsonl.1"), at("audit.jsonl.3")).unwrap();
    fs::create_dir(at("audit.jsonl.4")).unwrap();
    let found = content(&Source::log(&log).unwrap());
    assert_eq!(found, ["one\n", "two\n", "three\n"]);
}

#[test]
fn a_file_that_is_rotated_before_it_is_read_is_found_again() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let log = at("audit.jsonl");
    fs::write(at("audit.jsonl.1"), "one\n").unwrap();
    fs::write(&log, "two\n").unwrap();
    let sources = Source::log(&log).unwrap();
    fs::rename(at("audit.jsonl.1"), at("audit.jsonl.2")).unwrap();
    fs::rename(&log, at("audit.jsonl.1")).unwrap();
    fs::write(&log, "three\n").unwrap();
    assert_eq!(content(&sources), ["one\n", "two\n"]);
    fs::remove_file(at("audit.jsonl.2")).unwrap();
    let error = sources[0].open().err().unwrap();
    assert!(matches!(error, SourceError::Gone(_)), "{error}");
}
