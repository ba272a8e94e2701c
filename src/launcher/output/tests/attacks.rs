//! Archives as hostile code would write them.

use proptest::prelude::*;

use super::{super::place::BadName, *};

/// Refused without a look at the disk, with every road out of a folder that a name can take.
const NAMES: &[(&[u8], &str, BadName)] = &[
    (b"output/../x", "../x", BadName::Dots),
    (b"../outside/x", "../outside/x", BadName::Dots),
    (
        b"output/a/../../outside/x",
        "a/../../outside/x",
        BadName::Dots,
    ),
    (b"output/..", "..", BadName::Dots),
    (b"output/./x", "./x", BadName::Dots),
    (b"output//x", "/x", BadName::Dots),
    (b"output/x/", "x/", BadName::Dots),
    (b"output/", "output/", BadName::Dots),
    (b"/tmp/x", "/tmp/x", BadName::Absolute),
    (b"x", "x", BadName::Outside),
    (b"..", "..", BadName::Outside),
    (b"output/a\nb", r"a\nb", BadName::Control),
    (b"output/\x1b[2J", r"\u{1b}[2J", BadName::Control),
    (b"output/\x7f", r"\u{7f}", BadName::Control),
    (b"output/\xc2\x9b", r"\u{9b}", BadName::Control),
    (b"output/\xff", r"\xff", BadName::Encoding),
];

const KINDS: &[(EntryType, &str)] = &[
    (EntryType::Fifo, "FIFO"),
    (EntryType::Char, "device"),
    (EntryType::Block, "device"),
    (EntryType::Symlink, "symbolic link"),
    (EntryType::Link, "hard link"),
    (EntryType::Continuous, "neither a file nor a folder"),
    (EntryType::XGlobalHeader, "neither a file nor a folder"),
];

/// What is skipped of an archive with `name` as an entry of `kind`, and a file after it that must
/// not be harmed.
async fn alone_skipped(name: &[u8], kind: EntryType) -> (String, String) {
    let scene = Scene::new();
    let mut archive = Archive::new();
    archive.entry(name, kind, b"data");
    archive.file(b"output/good", b"good");
    let collected = scene.collect(in_pieces(&archive.bytes()), CAPS).await;
    let mut collected = collected.unwrap();
    let files: Vec<String> = scene.files(&collected).into_keys().collect();
    assert_eq!(files, ["good"], "{}", name.escape_ascii());
    let skipped = collected.skipped.pop().unwrap();
    assert_eq!(collected.skipped, [], "{}", name.escape_ascii());
    (skipped.path, skipped.why)
}

#[tokio::test]
async fn no_name_but_a_plain_one_below_the_folder_is_written() {
    for (name, path, why) in NAMES {
        let expected = ((*path).to_owned(), why.to_string());
        let skipped = alone_skipped(name, EntryType::Regular).await;
        assert_eq!(skipped, expected, "{}", name.escape_ascii());
    }
}

#[tokio::test]
async fn nothing_but_a_file_is_written() {
    for (kind, why) in KINDS {
        let skipped = alone_skipped(b"output/x", *kind).await;
        assert_eq!(skipped, ("x".to_owned(), (*why).to_owned()), "{kind:?}");
    }
    let odd = alone_skipped(b"output/x", EntryType::new(b'Z')).await;
    assert_eq!(odd.1, "neither a file nor a folder");
}

#[tokio::test]
async fn a_link_is_not_made_and_nothing_goes_through_it() {
    let scene = Scene::new();
    let outside = scene.root.path().join("outside");
    let mut archive = Archive::new();
    archive.link(EntryType::Symlink, b"output/d", outside.to_str().unwrap());
    archive.file(b"output/d/x", b"inside");
    archive.link(EntryType::Link, b"output/hard", "/etc/passwd");
    archive.link(EntryType::Symlink, b"output/up", "..");
    archive.file(b"output/up/outside/y", b"inside");
    archive.link(
        EntryType::Symlink,
        b"output/over",
        outside.join("z").to_str().unwrap(),
    );
    archive.file(b"output/over", b"inside");
    let collected = scene
        .collect(in_pieces(&archive.bytes()), CAPS)
        .await
        .unwrap();
    let files: Vec<String> = scene.files(&collected).into_keys().collect();
    assert_eq!(files, ["d/x", "over", "up/outside/y"]);
    assert_eq!(
        skipped(&collected),
        [
            ("d", "symbolic link"),
            ("hard", "hard link"),
            ("up", "symbolic link"),
            ("over", "symbolic link"),
        ]
    );
}

#[tokio::test]
async fn what_somebody_plants_in_the_folder_is_not_followed() {
    let scene = Scene::new();
    let target = Target::prepare(&scene.outputs()).unwrap();
    let outside = scene.root.path().join("outside");
    symlink(&outside, scene.outputs().join("d")).unwrap();
    symlink(outside.join("new"), scene.outputs().join("f")).unwrap();
    // Renamed after it was opened, with something else in its place.
    let moved = scene.root.path().join("moved");
    fs::rename(scene.outputs(), &moved).unwrap();
    symlink(&outside, scene.outputs()).unwrap();
    let mut archive = Archive::new();
    archive.file(b"output/d/x", b"x");
    archive.file(b"output/f", b"x");
    archive.file(b"output/good", b"x");
    let collected = target
        .collect(in_pieces(&archive.bytes()), CAPS)
        .await
        .unwrap();
    assert_eq!(
        skipped(&collected),
        [
            ("d/x", "the name of its folder is taken"),
            ("f", "its name is taken"),
        ]
    );
    assert_eq!(tree(&outside), BTreeMap::new());
    assert_eq!(fs::read(moved.join("good")).unwrap(), b"x");
}

#[tokio::test]
async fn the_first_of_a_name_wins() {
    let scene = Scene::new();
    let mut archive = Archive::new();
    archive.file(b"output/a", b"first");
    archive.file(b"output/a", b"second");
    archive.file(b"output/a/b", b"below a file");
    archive.file(b"output/c/d", b"first");
    archive.file(b"output/c", b"a folder");
    let collected = scene
        .collect(in_pieces(&archive.bytes()), CAPS)
        .await
        .unwrap();
    assert_eq!(
        scene.files(&collected),
        BTreeMap::from([
            ("a".to_owned(), b"first".to_vec()),
            ("c/d".to_owned(), b"first".to_vec()),
        ])
    );
    assert_eq!(
        skipped(&collected),
        [
            ("a", "its name is taken"),
            ("a/b", "the name of its folder is taken"),
            ("c", "its name is taken"),
        ]
    );
}

#[tokio::test]
async fn depth_and_length_are_bounded() {
    let deep = |parts: usize| "d/".repeat(parts - 1) + "f";
    for (path, why) in [
        (deep(32), None),
        (deep(33), Some("its path has more than 32 parts")),
        ("n".repeat(255), None),
        (
            "n".repeat(256),
            Some("its path has a part of more than 255 bytes"),
        ),
        (
            [&*"n".repeat(255); 5].join("/"),
            Some("its path has more than 1024 bytes"),
        ),
    ] {
        let scene = Scene::new();
        let mut archive = Archive::new();
        archive
            .0
            .append_pax_extensions([("path", format!("output/{path}").as_bytes())])
            .unwrap();
        archive.file(b"output/short", b"x");
        let collected = scene
            .collect(in_pieces(&archive.bytes()), CAPS)
            .await
            .unwrap();
        match why {
            None => assert_eq!(collected.outputs[0].path, path),
            Some(why) => assert_eq!(skipped(&collected)[0].1, why, "{path}"),
        }
        assert_eq!(scene.files(&collected).len(), usize::from(why.is_none()));
    }
}

#[tokio::test]
async fn extended_headers_change_no_rule() {
    for (records, why) in [
        (
            &b"19 path=../outside\n"[..],
            "its path has a part that is empty, \".\" or \"..\"",
        ),
        (b"18 path=/etc/cron\n", "its path is absolute"),
        (b"17 path=output/\0\n", "its path holds a control character"),
        (
            b"99 path=output/x\n",
            "an extended header of it cannot be read",
        ),
        (b"no record\n", "an extended header of it cannot be read"),
        // The value of an attribute, which a reader that goes by lines takes for records.
        (
            b"42 SCHILY.xattr.user.x=a\n16 path=output/y\n\n",
            "an extended header of it cannot be read",
        ),
    ] {
        let scene = Scene::new();
        let mut archive = Archive::new();
        archive.entry(b"pax", EntryType::XHeader, records);
        archive.file(b"output/x", b"x");
        archive.file(b"output/good", b"x");
        let collected = scene
            .collect(in_pieces(&archive.bytes()), CAPS)
            .await
            .unwrap();
        let files: Vec<String> = scene.files(&collected).into_keys().collect();
        assert_eq!(files, ["good"], "{}", records.escape_ascii());
        assert_eq!(skipped(&collected)[0].1, why, "{}", records.escape_ascii());
    }
}

#[tokio::test]
async fn a_sparse_file_is_skipped_by_the_bytes_that_it_takes() {
    let scene = Scene::new();
    let mut archive = Archive::new();
    let mut header = Archive::header(b"output/sparse", EntryType::GNUSparse, 512);
    let gnu = header.as_gnu_mut().unwrap();
    gnu.set_real_size(1 << 50);
    gnu.sparse[0].set_offset((1 << 50) - 512);
    gnu.sparse[0].set_length(512);
    header.set_cksum();
    archive.0.append(&header, &[1; 512][..]).unwrap();
    archive.file(b"output/good", b"x");
    let collected = scene
        .collect(in_pieces(&archive.bytes()), CAPS)
        .await
        .unwrap();
    assert_eq!(scene.files(&collected).len(), 1);
    assert_eq!(skipped(&collected), [("sparse", "sparse file")]);
}

/// An archive that never ends, and how much of it was taken.
fn endless(head: Vec<u8>) -> (ByteStream, Arc<AtomicU64>) {
    let taken = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&taken);
    let zeros = Bytes::from(vec![0; 64 * 1024]);
    let pieces = stream::iter([Bytes::from(head)])
        .chain(stream::repeat(zeros))
        .map(move |piece| {
            count.fetch_add(u64::try_from(piece.len()).unwrap(), Ordering::Relaxed);
            Ok(piece)
        });
    (Box::pin(pieces), taken)
}

#[tokio::test]
async fn what_a_header_promises_is_neither_allocated_nor_waited_for() {
    for (name, kind, size, why) in [
        (
            &b"output/huge"[..],
            EntryType::Regular,
            1 << 60,
            "not read: the archive is too long for what may be collected (--output-size), as sparse files make it",
        ),
        (
            b"output/dev",
            EntryType::Char,
            1 << 60,
            "not read: the archive is too long for what may be collected (--output-size), as sparse files make it",
        ),
        (
            b"long",
            EntryType::GNULongName,
            1 << 40,
            "not read: the headers of one entry take more than 1048576 bytes",
        ),
        (
            b"pax",
            EntryType::XHeader,
            1 << 40,
            "not read: the headers of one entry take more than 1048576 bytes",
        ),
    ] {
        let scene = Scene::new();
        let mut archive = Archive::new();
        archive.file(b"output/good", b"x");
        archive
            .0
            .append(&Archive::header(name, kind, size), &b""[..])
            .unwrap();
        let mut head = archive.bytes();
        head.truncate(head.len() - 1024);
        let (pieces, taken) = endless(head);
        let collected = scene.collect(pieces, CAPS).await.unwrap();
        assert_eq!(scene.files(&collected).len(), 1);
        assert_eq!(skipped(&collected).last().unwrap(), &("…", why));
        let taken = taken.load(Ordering::Relaxed);
        assert!(taken < 3 * 1024 * 1024, "{taken} {}", name.escape_ascii());
    }
    let scene = Scene::new();
    let mut archive = Archive::new();
    archive
        .0
        .append(
            &Archive::header(b"output/x", EntryType::Regular, u64::MAX),
            &b""[..],
        )
        .unwrap();
    let error = scene.collect(in_pieces(&archive.bytes()), CAPS).await;
    assert!(
        matches!(error, Err(OutputError::BrokeOff { .. })),
        "{error:?}"
    );
}

#[test]
fn an_archive_is_read_only_as_fast_as_it_is_wanted() {
    let (pieces, taken) = endless(Vec::new());
    let (sender, receiver) = mpsc::channel(WAITING);
    let mut pumping = Box::pin(pump(pieces, sender));
    assert!((&mut pumping).now_or_never().is_none());
    // Those that wait, the one in hand, and the head.
    assert!(taken.load(Ordering::Relaxed) <= 6 * 64 * 1024);
    drop(receiver);
    assert!(pumping.now_or_never().is_some());
}

fn run(archive: &[u8]) -> Result<(), TestCaseError> {
    let scene = Scene::new();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    let collected = match runtime.block_on(scene.collect(in_pieces(archive), CAPS)) {
        Ok(kept) | Err(OutputError::BrokeOff { kept, .. }) => kept,
        Err(error) => return Err(TestCaseError::fail(error.to_string())),
    };
    scene.files(&collected);
    let mut beside: Vec<_> = fs::read_dir(scene.root.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    beside.sort();
    prop_assert_eq!(beside, ["outputs", "outside"]);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn no_name_leads_out(
        entries in prop::collection::vec(
            (
                prop::collection::vec(
                    prop::sample::select(vec![
                        "output", "a", "b", ".", "..", "", "outside", "\0", "\u{202e}",
                    ]),
                    0..5,
                ),
                prop::sample::select(vec![b'0', b'1', b'2', b'5', b'L', b'S', b'x']),
                prop::collection::vec(any::<u8>(), 0..20),
            ),
            0..12,
        ),
    ) {
        let mut archive = Archive::new();
        for (parts, kind, data) in entries {
            archive.entry(parts.join("/").as_bytes(), EntryType::new(kind), &data);
        }
        run(&archive.bytes())?;
    }

    #[test]
    fn a_damaged_archive_leaves_whole_files_only(
        damages in prop::collection::vec((0_usize..6000, any::<u8>()), 1..4),
    ) {
        let mut archive = Archive::new();
        archive.file(b"output/a", &[1; 600]);
        archive.0.append_pax_extensions([("path", &b"output/long"[..])]).unwrap();
        archive.file(b"output/b", &[2; 300]);
        archive.link(EntryType::Symlink, b"output/c", "..");
        archive.file(b"output/c/d", b"x");
        let mut archive = archive.bytes();
        for (at, byte) in damages {
            if let Some(there) = archive.get_mut(at) {
                *there = byte;
            }
        }
        run(&archive)?;
    }
}
