use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
};

use futures_util::FutureExt as _;
use proptest::prelude::*;
use tokio::io::AsyncWrite;

use super::*;

fn captured(chunks: &[&[u8]], limit: usize) -> Captured {
    let mut capture = Capture::new(limit);
    for chunk in chunks {
        capture.push(chunk);
    }
    capture.finish()
}

/// What `chunks` look like at the other side; everything is ready at once.
fn shown(chunks: &[&[u8]], rendering: Rendering, limit: usize) -> Vec<u8> {
    let total = chunks.iter().map(|chunk| length(chunk)).sum();
    let mut seen = Vec::new();
    let mut passthrough = Passthrough::new(&mut seen, StreamName::Stdout, rendering, limit);
    for chunk in chunks {
        passthrough.push(chunk).now_or_never().unwrap().unwrap();
    }
    passthrough.finish(total).now_or_never().unwrap().unwrap();
    seen
}

#[test]
fn a_cut_leaves_no_half_character_and_no_byte_is_lost_of_what_is_no_text() {
    for (bytes, limit, text, base64, truncated) in [
        (&b""[..], 0, "", None, false),
        (b"abc", 3, "abc", None, false),
        (b"abc", 2, "ab", None, true),
        (b"abc", 0, "", None, true),
        ("a👋b".as_bytes(), 6, "a👋b", None, false),
        ("a👋b".as_bytes(), 5, "a👋", None, true),
        ("a👋b".as_bytes(), 4, "a", None, true),
        ("a👋b".as_bytes(), 2, "a", None, true),
        // Not cut: the half is the program's own.
        (b"a\xf0\x9f", 3, "a\u{fffd}", Some("YfCf"), false),
        // No text anyway: the half stays as it is.
        (
            b"\xff\xf0\x9f\x91\x8b",
            3,
            "\u{fffd}\u{fffd}",
            Some("//Cf"),
            true,
        ),
        (b"\0\x1b[m", 10, "\0\x1b[m", None, false),
    ] {
        let expected = Captured {
            text: text.to_owned(),
            base64: base64.map(str::to_owned),
            bytes: u64::try_from(bytes.len()).unwrap(),
            truncated,
        };
        assert_eq!(
            captured(&[bytes], limit),
            expected,
            "{}",
            bytes.escape_ascii()
        );
    }
}

#[test]
fn memory_is_bounded_by_the_limit_and_the_rest_is_counted() {
    let mut capture = Capture::new(100_000);
    let chunk = vec![b'y'; 30_000];
    for _ in 0..1000 {
        capture.push(&chunk);
        assert!(capture.kept.capacity() <= 100_000);
    }
    assert_eq!(capture.bytes(), 30_000_000);
    assert!(capture.is_truncated());
    assert_eq!(capture.finish().text.len(), 100_000);
    assert_eq!(Capture::new(usize::MAX).kept.capacity(), 0);
}

#[test]
fn a_terminal_is_not_driven_and_a_program_gets_the_bytes() {
    for (chunks, raw, terminal) in [
        (&[&b"plain\n"[..]][..], &b"plain\n"[..], "plain\n"),
        (&[b"\x1b[2J\x9b\0"], b"\x1b[2J\x9b\0", r"\u{1b}[2J\x9b\u{0}"),
        // The character, the control character and the line end lie across two pieces.
        (&[b"\xf0\x9f", b"\x91\x8b"], "👋".as_bytes(), "👋"),
        (&[b"\xc2", b"\x9b1m"], b"\xc2\x9b1m", r"\u{9b}1m"),
        (
            &[b"\xe2\x80", b"\xaex"],
            "\u{202e}x".as_bytes(),
            r"\u{202e}x",
        ),
        (&[b"a\r", b"\nb"], b"a\r\nb", "a\r\nb"),
        (&[b"a\r", b"b\r"], b"a\rb\r", r"a\rb\r"),
        (&[b"a\xe2\x80"], b"a\xe2\x80", r"a\xe2\x80"),
    ] {
        assert_eq!(shown(chunks, Rendering::Raw, 100), raw, "{chunks:?}");
        let seen = String::from_utf8(shown(chunks, Rendering::Terminal, 100)).unwrap();
        assert_eq!(seen, terminal, "{chunks:?}");
    }
}

#[test]
fn a_cut_is_marked_once_at_the_end_on_a_line_of_its_own() {
    for (chunks, limit, expected) in [
        (
            &[&b"abcd"[..], b"ef"][..],
            4,
            "abcd\n[eclusa: standard output cut after 4 bytes; 6 bytes in all]\n",
        ),
        (
            &[b"abc\n", b"def"],
            4,
            "abc\n[eclusa: standard output cut after 4 bytes; 7 bytes in all]\n",
        ),
        (
            &[b"abc"],
            0,
            "[eclusa: standard output cut after 0 bytes; 3 bytes in all]\n",
        ),
        // Half a character is not shown.
        (
            &[b"ab\xf0", b"\x9f\x91\x8b"],
            5,
            "ab\n[eclusa: standard output cut after 2 bytes; 6 bytes in all]\n",
        ),
        (&[b"abcd"], 4, "abcd"),
    ] {
        for rendering in [Rendering::Raw, Rendering::Terminal] {
            let seen = String::from_utf8(shown(chunks, rendering, limit)).unwrap();
            assert_eq!(seen, expected, "{chunks:?} {limit} {rendering:?}");
        }
    }
}

#[test]
fn a_program_that_waits_for_an_answer_gets_the_last_byte() {
    let mut seen = Vec::new();
    let mut passthrough = Passthrough::new(&mut seen, StreamName::Stdout, Rendering::Raw, 100_000);
    passthrough
        .push(b"\x93\xc3")
        .now_or_never()
        .unwrap()
        .unwrap();
    drop(passthrough);
    assert_eq!(seen, b"\x93\xc3");
}

#[test]
fn a_broken_pipe_is_told_once_and_nothing_is_written_after_it() {
    struct Broken {
        writes: usize,
    }

    impl AsyncWrite for Broken {
        fn poll_write(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
            _: &[u8],
        ) -> Poll<io::Result<usize>> {
            self.writes += 1;
            Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()))
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    let mut to = Broken { writes: 0 };
    let mut passthrough = Passthrough::new(&mut to, StreamName::Stderr, Rendering::Terminal, 4);
    let told = passthrough.push(b"ab").now_or_never().unwrap();
    assert_eq!(told.unwrap_err().kind(), io::ErrorKind::BrokenPipe);
    for _ in 0..3 {
        passthrough.push(b"cdef").now_or_never().unwrap().unwrap();
    }
    passthrough.finish(14).now_or_never().unwrap().unwrap();
    assert_eq!(to.writes, 1);
}

/// Text and bytes that are none, dense in what splits badly.
fn stream() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        any::<char>().prop_map(|c| c.to_string().into_bytes()),
        prop::sample::select(vec![
            &b"\r\n"[..],
            b"\r",
            b"\x1b[",
            b"\xf0\x9f\x91\x8b",
            b"\xf0\x9f",
            b"\x9b",
            b"\xe2\x80\xae",
            b"a",
        ])
        .prop_map(<[u8]>::to_vec),
    ];
    prop::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
}

fn split<'a>(mut bytes: &'a [u8], lengths: &[usize]) -> Vec<&'a [u8]> {
    let mut chunks = Vec::new();
    for length in lengths {
        let (chunk, rest) = bytes.split_at((*length).min(bytes.len()));
        chunks.push(chunk);
        bytes = rest;
    }
    chunks.push(bytes);
    chunks
}

proptest! {
    #[test]
    fn how_a_stream_is_split_makes_no_difference(
        bytes in stream(),
        lengths in prop::collection::vec(0_usize..6, 0..12),
        limit in 0_usize..40,
    ) {
        let chunks = split(&bytes, &lengths);
        let whole = captured(&[&bytes], limit);
        prop_assert_eq!(&captured(&chunks, limit), &whole);
        let kept = &bytes[..limit.min(bytes.len())];
        match &whole.base64 {
            Some(base64) => prop_assert_eq!(BASE64_STANDARD.decode(base64).unwrap(), kept),
            None => prop_assert!(
                kept.strip_prefix(whole.text.as_bytes())
                    .is_some_and(|left| left.is_empty() || whole.truncated && left.len() < 4)
            ),
        }
        for rendering in [Rendering::Raw, Rendering::Terminal] {
            let seen = shown(&chunks, rendering, limit);
            prop_assert_eq!(&seen, &shown(&[&bytes], rendering, limit));
            if rendering == Rendering::Raw && !whole.truncated {
                prop_assert_eq!(&seen, &bytes);
            }
            if rendering == Rendering::Terminal {
                let seen = String::from_utf8(seen).unwrap();
                let text = seen.replace("\r\n", "");
                prop_assert!(!text.chars().any(|c| c.is_control() && c != '\n' && c != '\t'));
            }
        }
    }
}
