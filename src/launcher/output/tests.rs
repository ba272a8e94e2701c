use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use bytes::Bytes;
use futures_util::{FutureExt as _, stream};
use tar::{Builder, EntryType, Header};
use tempfile::TempDir;

use super::*;
use crate::launcher::backend::BackendError;

mod attacks;

const CAPS: Caps = Caps {
    bytes: 100_000,
    files: 50,
};

/// An archive whose headers say what they are told to.
struct Archive(Builder<Vec<u8>>);

impl Archive {
    fn new() -> Self {
        let mut archive = Self(Builder::new(Vec::new()));
        archive.entry(b"output/", EntryType::Directory, b"");
        archive
    }

    fn header(name: &[u8], kind: EntryType, size: u64) -> Header {
        let mut header = Header::new_gnu();
        header.as_old_mut().name[..name.len()].copy_from_slice(name);
        header.set_entry_type(kind);
        header.set_mode(0o4777);
        header.set_uid(65534);
        header.set_gid(65534);
        header.set_mtime(0);
        header.set_size(size);
        header.set_cksum();
        header
    }

    fn entry(&mut self, name: &[u8], kind: EntryType, data: &[u8]) {
        let size = u64::try_from(data.len()).unwrap();
        self.0
            .append(&Self::header(name, kind, size), data)
            .unwrap();
    }

    fn file(&mut self, name: &[u8], data: &[u8]) {
        self.entry(name, EntryType::Regular, data);
    }

    fn link(&mut self, kind: EntryType, name: &[u8], target: &str) {
        let mut header = Self::header(name, kind, 0);
        header.set_link_name(target).unwrap();
        header.set_cksum();
        self.0.append(&header, &b""[..]).unwrap();
    }

    fn bytes(self) -> Vec<u8> {
        self.0.into_inner().unwrap()
    }
}

fn in_pieces(archive: &[u8]) -> ByteStream {
    let pieces: Vec<Result<Bytes, BackendError>> = archive
        .chunks(700)
        .map(|piece| Ok(Bytes::copy_from_slice(piece)))
        .collect();
    Box::pin(stream::iter(pieces))
}

/// A folder to collect into, beside one that nothing may get into.
struct Scene {
    root: TempDir,
}

impl Scene {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("outside")).unwrap();
        Self { root }
    }

    fn outputs(&self) -> PathBuf {
        self.root.path().join("outputs")
    }

    async fn collect(&self, archive: ByteStream, caps: Caps) -> Result<Collected, OutputError> {
        let target = Target::prepare(&self.outputs()).unwrap();
        let collected = target.collect(archive, caps).await;
        assert_eq!(tree(&self.root.path().join("outside")), BTreeMap::new());
        collected
    }

    /// The files collected, which must be those that are there.
    fn files(&self, collected: &Collected) -> BTreeMap<String, Vec<u8>> {
        let files = tree(&self.outputs());
        let named: BTreeMap<&str, u64> = collected
            .outputs
            .iter()
            .map(|output| (&*output.path, output.bytes))
            .collect();
        let there: BTreeMap<&str, u64> = files
            .iter()
            .map(|(path, data)| (&**path, u64::try_from(data.len()).unwrap()))
            .collect();
        assert_eq!(named, there);
        assert_eq!(named.len(), collected.outputs.len());
        files
    }
}

/// Every file below `folder`, and its content; a folder and a file is all that there may be.
fn tree(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut files = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(inner) = folders.pop() {
        for entry in fs::read_dir(inner).unwrap() {
            let path = entry.unwrap().path();
            let metadata = path.symlink_metadata().unwrap();
            if metadata.is_dir() {
                folders.push(path);
                continue;
            }
            assert!(metadata.is_file(), "{path:?} {metadata:?}");
            assert_eq!(metadata.permissions().mode() & 0o7133, 0, "{path:?}");
            assert_eq!(metadata.nlink(), 1, "{path:?}");
            let below = path.strip_prefix(folder).unwrap().to_str().unwrap();
            files.insert(below.to_owned(), fs::read(&path).unwrap());
        }
    }
    files
}

fn skipped(collected: &Collected) -> Vec<(&str, &str)> {
    collected
        .skipped
        .iter()
        .map(|one| (&*one.path, &*one.why))
        .collect()
}

#[tokio::test]
async fn files_are_written_with_their_folders_and_hashed() {
    let scene = Scene::new();
    let mut archive = Archive::new();
    archive.file(b"output/report.csv", b"a,b\n");
    archive.entry(b"output/empty/", EntryType::Directory, b"");
    archive.entry(b"output/a/", EntryType::Directory, b"");
    archive.file(b"output/a/b/deep name", b"");
    archive.file("output/größe".as_bytes(), &[7; 5000]);
    let collected = scene.collect(in_pieces(&archive.bytes()), CAPS).await;
    let collected = collected.unwrap();
    let expected = BTreeMap::from([
        ("report.csv".to_owned(), b"a,b\n".to_vec()),
        ("a/b/deep name".to_owned(), Vec::new()),
        ("größe".to_owned(), vec![7; 5000]),
    ]);
    assert_eq!(scene.files(&collected), expected);
    assert_eq!(collected.skipped, []);
    assert!(!scene.outputs().join("empty").exists());
    assert_eq!(
        collected.outputs[0],
        OutputFile {
            path: "report.csv".to_owned(),
            bytes: 4,
            sha256: "5be08c9684a1d25efcee09318204824278b08bbfb4aef973ffefd0b9d7478313".to_owned(),
        }
    );
}

#[tokio::test]
async fn long_paths_come_in_either_extension() {
    let scene = Scene::new();
    let long = format!("{}/{}", "d".repeat(120), "f".repeat(255));
    let mut archive = Archive::new();
    let mut header = Archive::header(b"", EntryType::Regular, 3);
    archive
        .0
        .append_data(&mut header, format!("output/{long}"), &b"gnu"[..])
        .unwrap();
    archive
        .0
        .append_pax_extensions([("path", &b"output/p/x"[..])])
        .unwrap();
    archive.file(b"output/short", b"pax");
    let collected = scene.collect(in_pieces(&archive.bytes()), CAPS).await;
    let collected = collected.unwrap();
    assert_eq!(
        scene.files(&collected),
        BTreeMap::from([(long, b"gnu".to_vec()), ("p/x".to_owned(), b"pax".to_vec()),])
    );
}

#[tokio::test]
async fn the_limits_hold_and_what_is_over_them_is_told() {
    let scene = Scene::new();
    let mut archive = Archive::new();
    archive.file(b"output/1", &[1; 60]);
    archive.file(b"output/2", &[2; 50]);
    archive.file(b"output/3", &[3; 40]);
    archive.file(b"output/4", b"");
    archive.file(b"output/5", b"");
    let caps = Caps {
        bytes: 100,
        files: 3,
    };
    let collected = scene.collect(in_pieces(&archive.bytes()), caps).await;
    let collected = collected.unwrap();
    let files: Vec<String> = scene.files(&collected).into_keys().collect();
    assert_eq!(files, ["1", "3", "4"]);
    assert_eq!(
        skipped(&collected),
        [
            (
                "2",
                "it has 50 bytes, and 40 are left of the 100 that are collected (--output-size)"
            ),
            ("5", "over the limit of 3 files"),
        ]
    );
}

#[tokio::test]
async fn a_long_list_of_skipped_entries_is_cut_and_counted() {
    let scene = Scene::new();
    let mut archive = Archive::new();
    for number in 0..130 {
        let name = format!("output/{number}");
        archive.link(EntryType::Symlink, name.as_bytes(), "/etc/passwd");
    }
    archive.file(b"output/last", b"x");
    let collected = scene.collect(in_pieces(&archive.bytes()), CAPS).await;
    let collected = collected.unwrap();
    assert_eq!(scene.files(&collected).len(), 1);
    let skipped = skipped(&collected);
    assert_eq!(skipped.len(), 101);
    assert_eq!(skipped[99], ("99", "symbolic link"));
    assert_eq!(skipped[100], ("…", "30 more were skipped"));
}

#[tokio::test]
async fn a_torn_archive_is_an_error_and_whole_files_stay() {
    let mut archive = Archive::new();
    archive.file(b"output/a", &[1; 600]);
    archive.file(b"output/b", &[2; 300]);
    let archive = archive.bytes();
    // Folder, two files, and the first block of the end mark.
    let end = 512 + 512 + 1024 + 512 + 512 + 512;
    for cut in (0..archive.len()).step_by(64) {
        let scene = Scene::new();
        let result = scene.collect(in_pieces(&archive[..cut]), CAPS).await;
        let whole = match cut {
            ..1624 => 0,
            1624..2860 => 1,
            _ => 2,
        };
        let collected = match result {
            Ok(collected) if cut >= end => collected,
            Err(OutputError::BrokeOff { kept, .. }) if cut < end => kept,
            other => panic!("{cut}: {other:?}"),
        };
        assert_eq!(scene.files(&collected).len(), whole, "{cut}");
    }
}

#[tokio::test]
async fn an_engine_that_fails_half_way_is_told() {
    let scene = Scene::new();
    let mut archive = Archive::new();
    archive.file(b"output/a", b"a");
    archive.file(b"output/b", &[2; 3000]);
    let archive = Bytes::from(archive.bytes());
    let gone = BackendError::Gone {
        doing: "copying".to_owned(),
        why: "reset".to_owned(),
    };
    let why = format!(
        "collecting the outputs broke off after 1 file: the archive cannot be read on: {gone}"
    );
    let pieces = stream::iter([Ok(archive.slice(..3000)), Err(gone)]);
    let error = scene.collect(Box::pin(pieces), CAPS).await.unwrap_err();
    assert_eq!(error.to_string(), why);
    let OutputError::BrokeOff { kept, .. } = error else {
        panic!("{error}");
    };
    assert_eq!(scene.files(&kept).len(), 1);
    assert_eq!(skipped(&kept), [("b", "it is not whole")]);
}

#[test]
fn a_dropped_call_leaves_whole_files_only() {
    let scene = Scene::new();
    let mut archive = Archive::new();
    archive.file(b"output/a", b"a");
    archive.file(b"output/b", &[2; 3000]);
    let head = Bytes::from(archive.bytes()).slice(..3000);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    runtime.block_on(async {
        let taken = Arc::new(AtomicU64::new(0));
        let seen = Arc::clone(&taken);
        let pieces = stream::iter([Ok(head)])
            .inspect(move |_| {
                seen.fetch_add(1, Ordering::Relaxed);
            })
            .chain(stream::pending());
        let mut collecting = Box::pin(scene.collect(Box::pin(pieces), CAPS));
        assert!((&mut collecting).now_or_never().is_none());
        assert_eq!(taken.load(Ordering::Relaxed), 1);
    });
    // The runtime's end waits for the writing thread.
    drop(runtime);
    let files: Vec<String> = tree(&scene.outputs()).into_keys().collect();
    assert_eq!(files, ["a"]);
}

#[test]
fn the_output_folder_is_new_or_empty_and_not_a_link() {
    let scene = Scene::new();
    let root = scene.root.path();
    fs::write(root.join("file"), "").unwrap();
    fs::create_dir(root.join("full")).unwrap();
    fs::write(root.join("full/.hidden"), "").unwrap();
    fs::create_dir(root.join("empty")).unwrap();
    symlink(root.join("empty"), root.join("link")).unwrap();
    symlink(root.join("nowhere"), root.join("dangling")).unwrap();
    symlink(root, root.join("parent")).unwrap();
    for (path, refused) in [
        ("new", None),
        ("new", None),
        ("empty", None),
        ("other/", None),
        ("parent/empty", None),
        ("full", Some("is not empty")),
        ("file", Some("exists and is no folder")),
        ("link", Some("is a symbolic link")),
        ("dangling", Some("is a symbolic link")),
        ("missing/new", Some("No such file or directory")),
        ("file/new", Some("Not a directory")),
        ("empty/..", Some("has no name of its own")),
    ] {
        let result = Target::prepare(&root.join(path));
        match (result, refused) {
            (Ok(_), None) => assert!(root.join(path).is_dir(), "{path}"),
            (Err(error), Some(why)) => {
                assert!(error.to_string().contains(why), "{path}: {error}");
            }
            (result, _) => panic!("{path}: {result:?}"),
        }
    }
    assert!(!root.join("nowhere").exists());
    assert!(matches!(
        Target::prepare(Path::new("/")),
        Err(OutputError::NoName(_))
    ));
}
