mod chain;

use std::{fs, io::Write as _, path::Path};

use rustix::fs::OFlags;
use tempfile::TempDir;

use super::*;

fn settings(path: &Path, max_size: u64, keep: u32) -> config::Audit {
    config::Audit {
        sink: config::AuditSink::File(path.to_owned()),
        max_size,
        keep,
    }
}

fn open(path: &Path, max_size: u64, keep: u32) -> Result<Writer, AuditError> {
    Writer::open(&settings(path, max_size, keep), Arc::default())
}

fn names(folder: &TempDir) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn a_log_is_appended_to_and_only_its_owner_may_read_it() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("audit.jsonl");
    for line in ["one\n", "two\n"] {
        open(&path, 100, 1)
            .unwrap()
            .write([&mut line.as_bytes().to_vec()[..]])
            .unwrap();
    }
    assert_eq!(fs::read_to_string(&path).unwrap(), "one\ntwo\n");
    let mode = path.metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn a_second_process_is_refused_also_after_a_rotation() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("audit.jsonl");
    let mut writer = open(&path, 6, 1).unwrap();
    for _ in 0..3 {
        let second = open(&path, 6, 1).unwrap_err();
        assert!(matches!(second, AuditError::Locked(_)), "{second}");
        writer.write([&mut b"line\n".to_vec()[..]]).unwrap();
    }
    drop(writer);
    open(&path, 6, 1).unwrap();
}

#[test]
fn what_is_no_log_is_refused_with_the_reason() {
    let folder = TempDir::new().unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::write(at("target"), "").unwrap();
    std::os::unix::fs::symlink(at("target"), at("link")).unwrap();
    fs::create_dir(at("folder")).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        at("fifo"),
        rustix::fs::FileType::Fifo,
        Mode::RUSR | Mode::WUSR,
        0,
    )
    .unwrap();
    for name in ["link", "folder", "fifo"] {
        let error = open(&at(name), 100, 1).unwrap_err();
        assert!(matches!(error, AuditError::Io { .. }), "{name}: {error}");
    }
    let error = open(&at("missing/audit.jsonl"), 100, 1).unwrap_err();
    assert!(matches!(error, AuditError::NoFolder(_)), "{error}");
    assert_eq!(fs::read(at("target")).unwrap(), b"");
}

#[test]
fn rotation_keeps_as_many_files_as_it_should_and_loses_no_line() {
    for (keep, expected) in [
        (0, vec!["log", "log.lock"]),
        (1, vec!["log", "log.1", "log.lock"]),
        (3, vec!["log", "log.1", "log.2", "log.3", "log.lock"]),
    ] {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("log");
        let mut writer = open(&path, 10, keep).unwrap();
        for number in 0..10 {
            writer
                .write([&mut format!("{number:04}\n").into_bytes()[..]])
                .unwrap();
        }
        assert_eq!(names(&folder), expected);
        assert_eq!(fs::read_to_string(&path).unwrap(), "0008\n0009\n");
        for number in 1..=keep {
            let file = suffixed(&path, &number.to_string());
            let first = 10 - 2 * (number + 1);
            let content = format!("{first:04}\n{:04}\n", first + 1);
            assert_eq!(fs::read_to_string(file).unwrap(), content, "{number}");
        }
    }
}

#[test]
fn a_rotated_log_keeps_its_mode_and_an_endless_line_its_file() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("log");
    let mut writer = open(&path, 10, 1).unwrap();
    // Readable by a group, if the operator wants it so; a umask takes no bit of this mode.
    fs::set_permissions(&path, fs::Permissions::from_mode(0o440)).unwrap();
    let long = format!("{}\n", "x".repeat(100));
    writer.write([&mut long.clone().into_bytes()[..]]).unwrap();
    writer.write([&mut b"next\n".to_vec()[..]]).unwrap();
    assert_eq!(fs::read_to_string(suffixed(&path, "1")).unwrap(), long);
    let mode = path.metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o440);
}

#[test]
fn a_rotation_that_fails_loses_nothing_and_is_tried_again() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("log");
    // A folder in the place of the oldest file: it can be neither replaced nor opened.
    fs::create_dir_all(suffixed(&path, "1").join("inside")).unwrap();
    let mut writer = open(&path, 10, 1).unwrap();
    for _ in 0..4 {
        writer.write([&mut b"line\n".to_vec()[..]]).unwrap();
    }
    assert_eq!(fs::read_to_string(&path).unwrap(), "line\n".repeat(4));
    fs::remove_dir_all(suffixed(&path, "1")).unwrap();
    writer.write([&mut b"line\n".to_vec()[..]]).unwrap();
    assert_eq!(names(&folder), ["log", "log.lock", "log.new"]);
    let mut long = vec![b'x'; usize::try_from(ROTATION_RETRY).unwrap()];
    writer.write([&mut long[..]]).unwrap();
    assert_eq!(fs::read(&path).unwrap(), long);
    let old = fs::read_to_string(suffixed(&path, "1")).unwrap();
    assert_eq!(old, "line\n".repeat(5));
    assert_eq!(names(&folder), ["log", "log.1", "log.lock"]);
    let text = writer.metrics.render();
    assert!(text.contains("eclusa_audit_rotations_total 1\n"), "{text}");
    assert!(
        text.contains("eclusa_audit_rotation_failures_total 1\n"),
        "{text}"
    );
}

#[test]
fn a_line_torn_by_a_crash_is_ended_before_the_next() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("log");
    for (before, after) in [
        ("", "next\n"),
        ("whole\n", "whole\nnext\n"),
        ("whole\nto", "whole\nto\nnext\n"),
    ] {
        fs::write(&path, before).unwrap();
        open(&path, 100, 1)
            .unwrap()
            .write([&mut b"next\n".to_vec()[..]])
            .unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), after);
    }
}

#[test]
fn a_line_of_which_only_a_part_fits_leaves_nothing_behind() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("log");
    let mut writer = open(&path, 100, 1).unwrap();
    writer.write([&mut b"whole\n".to_vec()[..]]).unwrap();
    // What a short write leaves: bytes in the file, and their number.
    (&writer.file).write_all(b"{\"sch").unwrap();
    writer.torn = b"{\"sch".to_vec();
    writer.write([&mut b"next\n".to_vec()[..]]).unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "whole\nnext\n");
}

#[test]
fn a_torn_line_of_a_stream_is_ended() {
    let (mut reader, pipe) = io::pipe().unwrap();
    let file = File::from(std::os::fd::OwnedFd::from(pipe));
    let mut writer = Writer::stream("pipe".into(), file, Arc::default());
    (&writer.file).write_all(b"{\"sch").unwrap();
    writer.torn = b"{\"sch".to_vec();
    writer.write([&mut b"next\n".to_vec()[..]]).unwrap();
    drop(writer);
    let text = io::read_to_string(&mut reader).unwrap();
    assert_eq!(text, "{\"sch\nnext\n");
}

#[test]
fn a_full_disk_and_a_closed_pipe_are_errors() {
    let full = open(Path::new("/dev/full"), 100, 1).unwrap();
    let (reader, pipe) = io::pipe().unwrap();
    drop(reader);
    let pipe = File::from(std::os::fd::OwnedFd::from(pipe));
    let pipe = Writer::stream("pipe".into(), pipe, Arc::default());
    for (mut writer, expected) in [
        (full, ErrorKind::StorageFull),
        (pipe, ErrorKind::BrokenPipe),
    ] {
        for _ in 0..2 {
            let error = writer.write([&mut b"line\n".to_vec()[..]]).unwrap_err();
            assert_eq!((error.whole, error.source.kind()), (0, expected));
            assert_eq!(writer.torn, b"");
        }
    }
}

#[test]
fn a_pipe_that_takes_only_a_part_is_an_error_and_then_goes_on() {
    let (mut reader, pipe) = io::pipe().unwrap();
    let flags = rustix::fs::fcntl_getfl(&pipe).unwrap();
    rustix::fs::fcntl_setfl(&pipe, flags | OFlags::NONBLOCK).unwrap();
    let file = File::from(std::os::fd::OwnedFd::from(pipe));
    let mut writer = Writer::stream("pipe".into(), file, Arc::default());
    let mut long = vec![b'x'; 1 << 20];
    long.push(b'\n');
    let mut first = b"first\n".to_vec();
    let error = writer.write([&mut first[..], &mut long]).unwrap_err();
    assert_eq!(
        (error.whole, error.source.kind()),
        (1, ErrorKind::WouldBlock)
    );
    assert_eq!(writer.head(), Link::FIRST.then(b"first"));
    let torn = writer.torn.len();
    assert!((1..long.len()).contains(&torn), "{torn}");
    let mut taken = vec![0; first.len() + torn];
    io::Read::read_exact(&mut reader, &mut taken).unwrap();
    writer.write([&mut b"next\n".to_vec()[..]]).unwrap();
    drop(writer);
    assert_eq!(io::read_to_string(&mut reader).unwrap(), "\nnext\n");
}

#[test]
fn a_log_moved_away_by_another_hand_is_opened_anew() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("log");
    let mut writer = open(&path, 100, 1).unwrap();
    writer.write([&mut b"old\n".to_vec()[..]]).unwrap();
    writer.verify().unwrap();
    let moved = folder.path().join("moved");
    fs::rename(&path, &moved).unwrap();
    writer.verify().unwrap();
    writer.write([&mut b"new\n".to_vec()[..]]).unwrap();
    assert_eq!(fs::read_to_string(moved).unwrap(), "old\n");
    assert_eq!(fs::read_to_string(&path).unwrap(), "new\n");
    fs::remove_file(&path).unwrap();
    std::os::unix::fs::symlink("/dev/null", &path).unwrap();
    writer.verify().unwrap_err();
}
