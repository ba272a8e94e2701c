use std::fs;

use tempfile::TempDir;

use super::*;
use crate::audit::lines::MAX_LINE;

fn chained(before: Link) -> Vec<u8> {
    let head = r#"{"schema":1,"ts":"2026-01-02T03:04:05.678Z","prev":""#;
    format!("{head}{before}\",\"event\":\"stop\"}}\n").into_bytes()
}

/// The links of all lines of `text`, read the simple way.
fn simply(text: &[u8]) -> Link {
    let lines = text.strip_suffix(b"\n").unwrap_or(text);
    lines
        .split(|byte| *byte == b'\n')
        .fold(Link::FIRST, Link::then)
}

/// What is found in files of this content, oldest first.
fn found(files: &[&[u8]]) -> Link {
    let folder = TempDir::new().unwrap();
    let paths: Vec<PathBuf> = (0..files.len())
        .map(|number| folder.path().join(number.to_string()))
        .collect();
    for (path, content) in paths.iter().zip(files) {
        fs::write(path, content).unwrap();
    }
    let nothing = folder.path().join("missing");
    let folder_in_between = folder.path().to_owned();
    let newest_first = paths.into_iter().rev();
    head(newest_first.chain([nothing, folder_in_between])).unwrap()
}

#[test]
fn the_chain_stands_at_the_last_line_whatever_stands_behind_one_that_names_another() {
    let one = chained(Link::FIRST);
    let two = chained(simply(&one));
    let all = [&one[..], &two].concat();
    let torn = b"{\"schema\":1,\"ts\":\"20\n";
    assert_eq!(found(&[]), Link::FIRST);
    assert_eq!(found(&[b"", b""]), Link::FIRST);
    for (what, files) in [
        ("one file", vec![&all[..]]),
        ("two files", vec![&one, &two]),
        ("an empty one last", vec![&one, &two, b""]),
        ("torn at the end", vec![&one, &two, torn]),
        ("torn in between", vec![&one, torn, &two]),
        ("torn twice", vec![&one, torn, b"\n", b"x\n\ny\n"]),
        ("empty in between", vec![&one, b"", torn]),
        ("without its newline", vec![&one, b"x"]),
    ] {
        assert_eq!(found(&files), simply(&files.concat()), "{what}");
    }
}

#[test]
fn where_no_line_names_another_the_newest_file_is_bound_from_its_beginning() {
    let old = b"{\"schema\":1}\n{\"schema\":1}\n";
    assert_eq!(found(&[b"older\n", old]), simply(old));
    assert_eq!(found(&[b"older\n", old, b""]), simply(old));
}

#[test]
fn the_last_line_is_found_wherever_a_chunk_ends() {
    let line = chained(Link::FIRST);
    let chunk = usize::try_from(CHUNK).unwrap();
    for behind in (0..line.len() + 2).chain([chunk - 1, chunk, 2 * chunk + 7]) {
        for chunks in [1, 2] {
            // Foreign bytes so that the line begins about `behind` before the end of a chunk.
            let after = (chunks * chunk).saturating_sub(behind);
            let text = [&b"x\n"[..], &line, &vec![b'y'; after], b"\n"].concat();
            assert_eq!(found(&[&text]), simply(&text), "{behind} {chunks}");
        }
    }
}

#[test]
fn a_line_longer_than_a_piece_is_taken_in_whole() {
    let long = vec![b'x'; 2 * MAX_LINE + 1];
    for text in [
        [&chained(Link::FIRST)[..], &long, b"\nnext\n"].concat(),
        [&chained(Link::FIRST)[..], &long[2..], b"\n"].concat(),
    ] {
        assert_eq!(found(&[&text]), simply(&text));
    }
}
