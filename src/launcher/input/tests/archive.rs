//! What `--input-copy` sends.

use std::{
    ffi::OsStr,
    io::{Read as _, Write as _},
};

use futures_util::StreamExt as _;
use tar::EntryType;

use super::*;
use crate::launcher::backend::{BackendError, ByteStream};

/// An entry: path, type, mode, owner, time, link and content.
type Row = (
    Vec<u8>,
    EntryType,
    u32,
    (u64, u64),
    u64,
    Option<Vec<u8>>,
    Vec<u8>,
);

async fn drain(mut archive: ByteStream) -> Result<Vec<u8>, BackendError> {
    let mut bytes = Vec::new();
    while let Some(piece) = archive.next().await {
        let piece = piece?;
        assert!((1..=64 * 1024).contains(&piece.len()));
        bytes.extend_from_slice(&piece);
    }
    Ok(bytes)
}

fn rows(archive: &[u8]) -> Vec<Row> {
    let mut archive = tar::Archive::new(archive);
    let mut rows = Vec::new();
    for entry in archive.entries().unwrap() {
        let mut entry = entry.unwrap();
        let mut content = Vec::new();
        entry.read_to_end(&mut content).unwrap();
        let header = entry.header();
        rows.push((
            entry.path_bytes().into_owned(),
            header.entry_type(),
            header.mode().unwrap(),
            (header.uid().unwrap(), header.gid().unwrap()),
            header.mtime().unwrap(),
            entry.link_name_bytes().map(std::borrow::Cow::into_owned),
            content,
        ));
    }
    rows
}

fn dated(path: &Path, seconds: i64) {
    let time = rustix::fs::Timespec {
        tv_sec: seconds,
        tv_nsec: 999_999_999,
    };
    let times = rustix::fs::Timestamps {
        last_access: time,
        last_modification: time,
    };
    rustix::fs::utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW).unwrap();
}

#[tokio::test]
async fn a_private_folder_is_copied_for_everybody_to_read() {
    let root = tempfile::tempdir().unwrap();
    let at = |path: &str| root.path().join(path);
    fs::create_dir(at("b")).unwrap();
    fs::write(at("b/secret"), "x").unwrap();
    fs::hard_link(at("b/secret"), at("again")).unwrap();
    fs::write(at("run.sh"), "#!").unwrap();
    symlink("b/secret", at("link")).unwrap();
    symlink("/usr/bin/python3", at("python")).unwrap();
    for (path, mode) in [("b/secret", 0o600), ("run.sh", 0o4700), ("b", 0o700)] {
        chmod(&at(path), mode);
    }
    for path in ["again", "run.sh", "link", "python", "b"] {
        dated(&at(path), 1_700_000_000);
    }
    dated(&at("b/secret"), -5);
    let copy = copy(root.path(), &[]).unwrap();
    let row = |path: &str, kind, mode, time, link: Option<&str>, content: &str| {
        (
            path.as_bytes().to_vec(),
            kind,
            mode,
            (0, 0),
            time,
            link.map(|link| link.as_bytes().to_vec()),
            content.as_bytes().to_vec(),
        )
    };
    let now = 1_700_000_000;
    assert_eq!(
        rows(&drain(copy.archive).await.unwrap()),
        [
            row("again", EntryType::Regular, 0o444, 0, None, "x"),
            row("b/", EntryType::Directory, 0o555, now, None, ""),
            row("b/secret", EntryType::Regular, 0o444, 0, None, "x"),
            row("link", EntryType::Symlink, 0o777, now, Some("b/secret"), ""),
            row(
                "python",
                EntryType::Symlink,
                0o777,
                now,
                Some("/usr/bin/python3"),
                ""
            ),
            row("run.sh", EntryType::Regular, 0o555, now, None, "#!"),
        ]
    );
    assert_eq!(copy.inodes, 6 + 64);
    assert_eq!(copy.size, 1024 * 1024 + 6 * 4096 + 3 * 4096);
}

#[tokio::test]
async fn odd_names_arrive_as_they_are() {
    let root = tree();
    let long = "n".repeat(255);
    let folder = root.path().join(&long).join(&long);
    fs::create_dir_all(&folder).unwrap();
    let names: [&[u8]; 5] = [b"\xff\xfe", b"a\nb", b" ", b"-rf", long.as_bytes()];
    for name in names {
        fs::write(folder.join(OsStr::from_bytes(name)), name).unwrap();
    }
    let target = format!("{long}/{long}");
    symlink(&target, root.path().join("z")).unwrap();
    let archive = drain(copy(root.path(), &[]).unwrap().archive)
        .await
        .unwrap();
    let rows = rows(&archive);
    for name in names {
        let path = [long.as_bytes(), long.as_bytes(), name].join(&b'/');
        let row = rows.iter().find(|row| row.0 == path);
        assert_eq!(row.unwrap().6, name, "{}", name.escape_ascii());
    }
    assert_eq!(rows.last().unwrap().5.as_deref(), Some(target.as_bytes()));
}

#[tokio::test]
async fn the_same_folder_gives_the_same_archive() {
    let root = tree();
    for number in 0..300_u32 {
        let path = root
            .path()
            .join(format!("{}", number.wrapping_mul(2_654_435_761)));
        fs::write(path, vec![7; 1000]).unwrap();
    }
    let first = drain(copy(root.path(), &[]).unwrap().archive)
        .await
        .unwrap();
    let second = drain(copy(root.path(), &[]).unwrap().archive)
        .await
        .unwrap();
    assert!(first.len() > 400_000);
    assert!(first == second);
}

/// The lengths of what is copied of one large file and a small one when something happens to the folder after the first
/// piece of the archive was taken. Only a few more pieces were read by then.
async fn disturbed(disturb: impl FnOnce(&Path)) -> Result<Vec<usize>, String> {
    let root = tree();
    let path = root.path().join("large");
    fs::write(&path, vec![1; 4 * 1024 * 1024]).unwrap();
    fs::write(root.path().join("other"), "x").unwrap();
    let mut archive = copy(root.path(), &[]).unwrap().archive;
    let mut bytes = archive.next().await.unwrap().unwrap().to_vec();
    disturb(root.path());
    match drain(archive).await {
        Ok(rest) => {
            bytes.extend_from_slice(&rest);
            Ok(rows(&bytes).iter().map(|row| row.6.len()).collect())
        }
        Err(error) => Err(error.to_string()),
    }
}

#[tokio::test]
async fn a_file_that_grows_is_copied_as_long_as_it_was() {
    let lengths = disturbed(|root| {
        let mut file = fs::OpenOptions::new()
            .append(true)
            .open(root.join("large"))
            .unwrap();
        file.write_all(b"more").unwrap();
    });
    assert_eq!(lengths.await.unwrap(), [4 * 1024 * 1024, 1]);
}

#[tokio::test]
async fn what_changes_too_much_is_an_error_and_no_whole_archive() {
    type Disturb = fn(&Path);
    let cases: [(&str, Disturb, &str); 5] = [
        (
            "shrinks",
            |root| {
                let file = fs::OpenOptions::new()
                    .write(true)
                    .open(root.join("large"))
                    .unwrap();
                file.set_len(10).unwrap();
            },
            "large\" changed while it was copied",
        ),
        (
            "goes",
            |root| fs::remove_file(root.join("other")).unwrap(),
            "other\" does not exist",
        ),
        (
            "becomes a link",
            |root| {
                fs::remove_file(root.join("other")).unwrap();
                symlink("../../etc/shadow", root.join("other")).unwrap();
            },
            "other\" is a symbolic link that leads out of the folder",
        ),
        (
            "becomes a FIFO",
            |root| {
                let path = root.join("other");
                fs::remove_file(&path).unwrap();
                mknodat(CWD, path, FileType::Fifo, Mode::from_raw_mode(0o644), 0).unwrap();
            },
            "other\" is a FIFO",
        ),
        (
            "becomes a folder with a socket",
            |root| {
                fs::remove_file(root.join("other")).unwrap();
                fs::create_dir(root.join("other")).unwrap();
                drop(UnixListener::bind(root.join("other/socket")).unwrap());
            },
            "other/socket\" is a socket",
        ),
    ];
    for (case, disturb, why) in cases {
        let error = disturbed(disturb).await.unwrap_err();
        assert!(
            error.contains("copy the input") && error.contains(why),
            "{case}: {error}"
        );
    }
}

#[test]
fn a_dropped_archive_ends_its_thread() {
    let root = tree();
    fs::write(root.path().join("large"), vec![1; 4 * 1024 * 1024]).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    runtime.block_on(async {
        let mut archive = copy(root.path(), &[]).unwrap().archive;
        assert!(archive.next().await.unwrap().is_ok());
    });
    // It waits for the thread.
    drop(runtime);
}

#[test]
fn a_link_that_leads_out_of_the_folder_is_refused() {
    for (link, target, refused) in [
        ("a", "..", true),
        ("a", "../x", true),
        ("d/a", "..", false),
        ("d/a", "../x", false),
        ("d/a", "../../x", true),
        ("d/a", "./b/../../../x", true),
        ("a", "b/../c", false),
        ("a", "/etc/passwd", false),
        ("a", "/../..", false),
        ("a", "missing", false),
    ] {
        let root = tree();
        fs::create_dir(root.path().join("d")).unwrap();
        symlink(target, root.path().join(link)).unwrap();
        match copy(root.path(), &[]) {
            Ok(_) => assert!(!refused, "{link} -> {target}"),
            Err(InputError::LeadsOut(path)) => {
                assert!(refused && path.ends_with(link), "{link} -> {target}");
            }
            Err(error) => panic!("{link} -> {target}: {error}"),
        }
        bindable(root.path(), User::NOBODY, &[]).unwrap();
    }
}
