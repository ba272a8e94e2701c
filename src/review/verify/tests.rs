use std::{fs, io::Write as _, path::PathBuf};

use tempfile::TempDir;

use super::*;

/// A record that follows `before`.
fn record(before: Link, number: usize) -> Vec<u8> {
    let head = r#"{"schema":1,"ts":"2026-01-02T03:04:05.678Z","prev":""#;
    format!("{head}{before}\",\"event\":\"dns\",\"name\":\"{number}.example\"}}\n").into_bytes()
}

/// A record of an earlier version.
fn old(number: usize) -> Vec<u8> {
    let head = r#"{"schema":1,"ts":"2026-01-01T03:04:05.678Z","#;
    format!("{head}\"event\":\"dns\",\"name\":\"{number}.example\"}}\n").into_bytes()
}

/// The link of the last of `lines`, and what stands before them all is nothing.
fn head(lines: &[Vec<u8>]) -> Link {
    lines.iter().fold(Link::FIRST, |last, line| {
        last.then(line.strip_suffix(b"\n").unwrap_or(line))
    })
}

/// Lines after `lines`, chained to them.
fn go_on(mut lines: Vec<Vec<u8>>, more: usize) -> Vec<Vec<u8>> {
    for number in 0..more {
        lines.push(record(head(&lines), number));
    }
    lines
}

fn chained(count: usize) -> Vec<Vec<u8>> {
    go_on(Vec::new(), count)
}

fn plainly(file: File) -> Box<dyn Read> {
    Box::new(file)
}

/// What is proven of files of these lines, oldest first.
fn proven(files: &[&[Vec<u8>]], wanted: Option<Link>) -> Proof {
    let folder = TempDir::new().unwrap();
    let sources: Vec<Source> = files
        .iter()
        .enumerate()
        .map(|(number, lines)| {
            let path = folder.path().join(format!("log.{number}"));
            fs::write(&path, lines.concat()).unwrap();
            Source::named(&path).unwrap()
        })
        .collect();
    verify(&sources, wanted, plainly).unwrap()
}

/// Where it breaks, by file and line, and why.
fn broken(files: &[&[Vec<u8>]]) -> Option<(usize, u64, Cause)> {
    let proof = proven(files, None);
    assert_eq!(proof.is_whole(), proof.broken.is_none());
    proof
        .broken
        .map(|broken| (broken.at.file, broken.at.line, broken.cause))
}

fn at(file: usize, lines: &[Vec<u8>], line: usize) -> At {
    At {
        file,
        line: u64::try_from(line).unwrap(),
        offset: u64::try_from(lines[..line - 1].concat().len()).unwrap(),
    }
}

#[test]
fn a_log_is_proven_wherever_it_is_divided_into_files() {
    let lines = chained(4);
    for at in 0..=4 {
        let (older, newer) = lines.split_at(at);
        let proof = proven(&[older, newer], None);
        assert!(proof.is_whole());
        assert_eq!(
            (proof.begins, proof.head, proof.lines()),
            (Beginning::First, head(&lines), 4)
        );
        if at < 4 {
            // Without the older file it is proven from there on.
            let proof = proven(&[newer], None);
            let begins = [Beginning::First, Beginning::After(head(older))];
            assert!(proof.is_whole());
            assert_eq!(
                (proof.begins, proof.head),
                (begins[at.min(1)], head(&lines))
            );
        }
    }
    let time = "2026-01-02T03:04:05.678Z".parse().unwrap();
    let proof = proven(&[&lines], None);
    let file = &proof.files[0];
    assert_eq!(
        (file.first, file.last, file.lines),
        (Some(time), Some(time), 4)
    );
}

#[test]
fn whatever_byte_is_changed_it_shows() {
    let lines = chained(3);
    let known = head(&lines);
    let text = lines.concat();
    let last_at = text.len() - lines[2].len() - 1;
    for at in 0..text.len() {
        for bit in [0x01, 0x20] {
            let mut changed = text.clone();
            changed[at] ^= bit;
            let proof = proven(&[&[changed.clone()]], Some(known));
            assert!(!proof.is_whole(), "byte {at} with a head");
            // The last line, from the newline before it, is bound by nothing yet.
            let proof = proven(&[&[changed]], None);
            assert!(!proof.is_whole() || at >= last_at, "byte {at}");
        }
    }
    let changed = String::from_utf8(text)
        .unwrap()
        .replace("0.example", "9.example");
    let lines: Vec<Vec<u8>> = changed.split_inclusive('\n').map(Into::into).collect();
    let proof = proven(&[&lines], None).broken.unwrap();
    assert_eq!((proof.at.line, proof.cause), (2, Cause::Lost));
    assert_eq!(
        (proof.at.offset, proof.before),
        (
            u64::try_from(lines[0].len()).unwrap(),
            Some(at(0, &lines, 1))
        )
    );
    assert_eq!(
        (proof.expected, Some(proof.found)),
        (head(&lines[..1]), Link::named_by(&lines[1]))
    );
}

#[test]
fn lines_that_are_removed_moved_or_inserted_show() {
    let lines = chained(4);
    for gone in 1..3 {
        let mut left = lines.clone();
        left.remove(gone);
        let line = u64::try_from(gone + 1).unwrap();
        assert_eq!(broken(&[&left]), Some((0, line, Cause::Lost)), "{gone}");
    }
    let mut swapped = lines.clone();
    swapped.swap(1, 2);
    let moved = Cause::Moved(at(0, &swapped, 3));
    assert_eq!(broken(&[&swapped]), Some((0, 2, moved)));

    let mut twice = lines.clone();
    twice.insert(2, lines[1].clone());
    let moved = Cause::Moved(at(0, &twice, 1));
    assert_eq!(broken(&[&twice]), Some((0, 3, moved)));

    for foreign in [
        record(head(&lines[..2]), 9),
        b"hello\n".to_vec(),
        b"\n".to_vec(),
    ] {
        let mut more = lines.clone();
        more.insert(2, foreign);
        let moved = Cause::Moved(at(0, &more, 2));
        assert_eq!(broken(&[&more]), Some((0, 4, moved)));
    }
}

#[test]
fn files_that_are_cut_off_missing_or_in_disorder_show() {
    let lines = chained(6);
    let [one, two, three] = [&lines[..2], &lines[2..4], &lines[4..]];
    assert_eq!(broken(&[one, two, three]), None);
    assert_eq!(broken(&[one, &two[..1], three]), Some((2, 1, Cause::Lost)));
    assert_eq!(broken(&[one, &two[1..], three]), Some((1, 1, Cause::Lost)));
    assert_eq!(broken(&[one, three]), Some((1, 1, Cause::Lost)));
    let moved = Cause::Moved(at(2, two, 2));
    assert_eq!(broken(&[one, three, two]), Some((1, 1, moved)));
    assert_eq!(broken(&[one, &chained(2)]), Some((1, 1, Cause::Anew)));
    assert_eq!(broken(&[&[one, two, three].concat()]), None);
}

#[test]
fn only_a_head_tells_that_lines_were_cut_off_the_end() {
    let lines = chained(4);
    let known = head(&lines);
    assert!(proven(&[&lines[..3]], None).is_whole());
    let proof = proven(&[&lines[..3]], Some(known));
    assert_eq!((proof.is_whole(), proof.missing), (false, Some(known)));
    for before in 0..=4 {
        let wanted = head(&lines[..before]);
        assert!(proven(&[&lines], Some(wanted)).is_whole(), "{before}");
    }
    // The first line that is there names it, and that is no line.
    assert!(!proven(&[&lines[2..]], Some(head(&lines[..2]))).is_whole());
    assert!(!proven(&[&lines[2..]], Some(head(&lines[..1]))).is_whole());
}

#[test]
fn a_log_without_rotated_files_begins_with_its_first_line() {
    let lines = chained(4);
    let folder = TempDir::new().unwrap();
    let log = folder.path().join("log");
    fs::write(&log, lines[1..].concat()).unwrap();
    let alone = |sources: Vec<Source>| verify(&sources, None, plainly).unwrap().is_whole();
    assert!(!alone(Source::log(&log).unwrap()));
    assert!(!alone(vec![Source::named(&log).unwrap()]));
    // There it may have been rotated away.
    fs::write(folder.path().join("log.1"), &lines[0]).unwrap();
    assert!(alone(vec![Source::named(&log).unwrap()]));
    assert!(alone(Source::log(&log).unwrap()));
    for (name, may_be) in [
        ("log.3", true),
        ("log-20260102", true),
        ("log-20260102.gz", true),
        ("other-20260102.jsonl", true),
        ("third.jsonl", false),
    ] {
        let path = folder.path().join(name);
        fs::write(&path, lines[1..].concat()).unwrap();
        assert_eq!(alone(vec![Source::named(&path).unwrap()]), may_be, "{name}");
    }
}

#[test]
fn torn_and_foreign_lines_are_in_the_chain_and_named() {
    let torn = [b"{\"schema\":1,\"ts\":\"20\n".to_vec()];
    let mut of_chain = record(head(&chained(2)), 7);
    of_chain.truncate(140);
    of_chain.push(b'\n');
    let long = [[vec![b'x'; 3 << 20], b"\n".to_vec()].concat()];
    for between in [&torn[..], &[of_chain], &long] {
        let lines = go_on([&chained(2), between].concat(), 2);
        let proof = proven(&[&lines], None);
        assert!(proof.is_whole());
        assert_eq!(
            (&*proof.torn, proof.torn_count),
            (&[at(0, &lines, 3)][..], 1)
        );
        assert_eq!(proof.head, head(&lines));
        let mut changed = lines.clone();
        changed[2][1] ^= 1;
        assert_eq!(broken(&[&changed]), Some((0, 4, Cause::Lost)));
        let mut gone = lines;
        gone.remove(2);
        assert_eq!(broken(&[&gone]), Some((0, 3, Cause::Lost)));
    }
}

#[test]
fn a_line_that_is_being_written_is_not_the_head_yet() {
    let mut lines = chained(2);
    let before = head(&lines);
    let mut half = record(before, 7);
    half.truncate(150);
    lines.push(half);
    let proof = proven(&[&lines], None);
    assert!(proof.is_whole());
    assert_eq!((proof.head, proof.torn_count), (before, 1));
    // In an older file it stays so, and is bound by the next.
    let all = go_on(lines.clone(), 2);
    assert_eq!(broken(&[&lines, &all[3..]]), None);
    assert_eq!(broken(&[&lines[..2], &all[3..]]), Some((1, 1, Cause::Lost)));
}

#[test]
fn a_log_of_an_earlier_version_is_bound_where_the_chain_begins() {
    let before: Vec<Vec<u8>> = (0..3).map(old).collect();
    let lines = go_on(before.clone(), 2);
    let proof = proven(&[&before, &lines], None);
    assert!(proof.is_whole());
    assert_eq!((proof.begins, proof.unchained), (Beginning::Bound, 6));
    for (what, changed) in [
        ("changed", [&[old(7)], &lines[1..]].concat()),
        ("removed", lines[1..].to_vec()),
        ("added", [&[old(7)], &lines[..]].concat()),
    ] {
        let found = broken(&[&before, &changed]).map(|(file, _, cause)| (file, cause));
        assert_eq!(found, Some((1, Cause::Unbound)), "{what}");
    }
    // The newest file was empty at the upgrade.
    assert_eq!(broken(&[&before, &lines[3..]]), None);
    // An earlier version again, for a while, or somebody else: nobody can tell.
    let again = go_on([&lines[..], &[old(4)]].concat(), 2);
    assert_eq!(broken(&[&again]), Some((0, 6, Cause::Foreign)));
    assert_eq!(
        broken(&[&[&lines[..], &[old(4)]].concat()]),
        Some((0, 6, Cause::Foreign))
    );
}

#[test]
fn without_a_chain_nothing_is_proven() {
    let before: Vec<Vec<u8>> = (0..3).map(old).collect();
    for (files, begins) in [
        (vec![&before[..]], Beginning::Unchained),
        (vec![&[]], Beginning::Nowhere),
        (vec![], Beginning::Nowhere),
    ] {
        let proof = proven(&files, None);
        assert_eq!((proof.is_whole(), proof.begins), (false, begins));
    }
}

#[test]
fn compressed_files_are_proven_as_they_are() {
    let lines = chained(4);
    let folder = TempDir::new().unwrap();
    let path = |name: &str| -> PathBuf { folder.path().join(name) };
    let gz = File::create(path("log.1.gz")).unwrap();
    let mut gz = flate2::write::GzEncoder::new(gz, flate2::Compression::fast());
    gz.write_all(&lines[..2].concat()).unwrap();
    gz.finish().unwrap();
    fs::write(path("log"), lines[2..].concat()).unwrap();
    let proof = verify(&Source::log(&path("log")).unwrap(), None, plainly).unwrap();
    assert!(proof.is_whole(), "{proof:?}");
    assert_eq!((proof.begins, proof.lines()), (Beginning::First, 4));
}
