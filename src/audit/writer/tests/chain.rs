use super::*;
use crate::record::{Id, Notice};

/// A record that names no line yet.
fn record(number: u128) -> Vec<u8> {
    let mut line = encode::notice(Id(ulid::Ulid(number)), &Notice::Stop);
    encode::stamp(&mut line, "2026-01-02T03:04:05.678Z".parse().unwrap());
    line
}

fn write(writer: &mut Writer, numbers: std::ops::Range<u128>) {
    for number in numbers {
        writer.write([&mut record(number)[..]]).unwrap();
    }
}

/// The link of the last line of `text`; every line that names one names that before it.
fn linked(text: &[u8]) -> Link {
    let mut last = Link::FIRST;
    for line in text.split_inclusive(|byte| *byte == b'\n') {
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        if let Some(named) = Link::named_by(line) {
            assert_eq!(named, last, "{}", line.escape_ascii());
        }
        last = last.then(line);
    }
    last
}

/// All that stands in `files`, oldest first.
fn content(files: &[PathBuf]) -> Vec<u8> {
    files
        .iter()
        .flat_map(|file| fs::read(file).unwrap())
        .collect()
}

#[test]
fn every_line_names_the_one_before_it_across_starts_and_rotations() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("log");
    let (mut head, mut files) = (Link::FIRST, Vec::new());
    for start in 0..4 {
        let mut writer = open(&path, 700, 20).unwrap();
        assert_eq!(writer.head(), head, "start {start}");
        write(&mut writer, 0..7);
        head = writer.head();
        files = writer.files().filter(|file| file.exists()).collect();
    }
    assert!(files.len() > 8, "{files:?}");
    files.reverse();
    assert_eq!(linked(&content(&files)), head);
}

#[test]
fn a_start_after_a_rotation_goes_on_from_the_rotated_file() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("log");
    let mut writer = open(&path, 1000, 2).unwrap();
    write(&mut writer, 0..2);
    let head = writer.head();
    drop(writer);
    fs::rename(&path, suffixed(&path, "1")).unwrap();
    assert_eq!(open(&path, 1000, 2).unwrap().head(), head);
}

#[test]
fn a_line_torn_by_a_crash_is_bound_and_the_chain_goes_on() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("log");
    let mut writer = open(&path, 10_000, 1).unwrap();
    write(&mut writer, 0..1);
    let mut next = record(1);
    encode::bind(&mut next, &writer.head());
    drop(writer);
    let whole = fs::read(&path).unwrap();
    for length in [0, 1, 40, Link::HEAD - 1, Link::HEAD, next.len() - 1] {
        fs::write(&path, [&whole, &next[..length]].concat()).unwrap();
        let mut writer = open(&path, 10_000, 1).unwrap();
        write(&mut writer, 2..4);
        let text = fs::read(&path).unwrap();
        assert_eq!(linked(&text), writer.head(), "{length}");
    }
}

#[test]
fn a_line_that_failed_is_not_in_the_chain_unless_something_of_it_stays() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("log");
    let mut writer = open(&path, 10_000, 1).unwrap();
    write(&mut writer, 0..1);
    // What a short write leaves; here it can be removed, and on a pipe it cannot.
    (&writer.file).write_all(b"{\"sch").unwrap();
    writer.torn = b"{\"sch".to_vec();
    write(&mut writer, 1..2);
    let text = fs::read(&path).unwrap();
    assert_eq!(
        (linked(&text), text.split(|b| *b == b'\n').count()),
        (writer.head(), 3)
    );

    let (mut reader, pipe) = io::pipe().unwrap();
    let file = File::from(std::os::fd::OwnedFd::from(pipe));
    let mut writer = Writer::stream("pipe".into(), file, Arc::default());
    write(&mut writer, 0..1);
    (&writer.file).write_all(b"{\"sch").unwrap();
    writer.torn = b"{\"sch".to_vec();
    write(&mut writer, 1..3);
    let head = writer.head();
    drop(writer);
    let mut text = Vec::new();
    io::Read::read_to_end(&mut reader, &mut text).unwrap();
    assert_eq!(
        (linked(&text), text.split(|b| *b == b'\n').count()),
        (head, 5)
    );

    let mut full = open(Path::new("/dev/full"), 100, 1).unwrap();
    full.write([&mut record(0)[..]]).unwrap_err();
    assert_eq!(full.head(), Link::FIRST);
}

#[test]
fn a_log_that_was_moved_away_goes_on_in_the_next_file_torn_line_included() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("log");
    let moved = folder.path().join("moved");
    for torn in ["", "{\"sch"] {
        fs::remove_file(&path).unwrap_or_default();
        let mut writer = open(&path, 10_000, 1).unwrap();
        write(&mut writer, 0..2);
        fs::rename(&path, &moved).unwrap();
        (&writer.file).write_all(torn.as_bytes()).unwrap();
        writer.torn = torn.into();
        writer.verify().unwrap();
        write(&mut writer, 2..4);
        let old = fs::read(&moved).unwrap();
        let old = [&old[..], if torn.is_empty() { b"" } else { b"\n" }].concat();
        let all = [old, fs::read(&path).unwrap()].concat();
        assert_eq!(linked(&all), writer.head(), "{torn}");
    }
}

#[test]
fn the_last_lines_of_an_earlier_version_are_bound_and_nothing_breaks() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("log");
    let old = "{\"schema\":1,\"ts\":\"2026-01-02T03:04:05.678Z\",\"event\":\"stop\"}\n".repeat(3);
    fs::write(&path, &old).unwrap();
    fs::write(suffixed(&path, "1"), &old).unwrap();
    let mut writer = open(&path, 10_000, 1).unwrap();
    write(&mut writer, 0..2);
    let text = fs::read(&path).unwrap();
    assert!(text.starts_with(old.as_bytes()));
    assert_eq!(linked(&text), writer.head());
}
