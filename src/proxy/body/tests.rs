use tokio::{
    io::AsyncReadExt,
    net::{TcpListener, TcpStream},
};

use super::*;
use crate::egress::Peer;

/// The outer and the inner end.
#[expect(clippy::disallowed_methods, reason = "a test is the peer")]
async fn connection() -> (TcpStream, Peer) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (outside, inside) = tokio::join!(TcpStream::connect(address), listener.accept());
    (outside.unwrap(), Peer::new(inside.unwrap().0))
}

/// Streams what a sender sends in `pieces`, and then closes, to a receiver; gives the result, what
/// the receiver got, and what was left unread.
async fn streamed(
    pieces: &[&str],
    (framing, framed): (Framing, Framing),
    budget: usize,
) -> (Result<(), &'static str>, String, String) {
    let ((mut sender, mut from), (mut receiver, mut to)) = tokio::join!(connection(), connection());
    let sending = async {
        for piece in pieces {
            sender.write_all(piece.as_bytes()).await.unwrap();
            tokio::task::yield_now().await;
        }
        sender.shutdown().await.unwrap();
    };
    let streaming = async {
        let (read, received, _) = from.split();
        let mut incoming = Incoming {
            from: read,
            received,
            framing,
        };
        let activity = Activity::new();
        let left = std::cell::Cell::new(budget);
        let (_, _, write) = to.split();
        let mut outgoing = Outgoing::new(write, b"HEAD|".to_vec(), framed, &activity);
        let passing = |length| {
            left.set(left.get().checked_sub(length).ok_or(BudgetExceeded)?);
            Ok(())
        };
        let result = stream(&mut incoming, &mut outgoing, passing).await;
        drop(outgoing);
        to.stream.shutdown().await.unwrap();
        result.map_err(|broken| match broken {
            Broken::Truncated => "truncated",
            Broken::Malformed(_) => "malformed",
            Broken::Budget => "budget",
            Broken::Sink => "sink",
        })
    };
    let mut got = String::new();
    let (result, (), read) = tokio::join!(streaming, sending, receiver.read_to_string(&mut got));
    read.unwrap();
    let left = String::from_utf8(from.received.unread().to_vec()).unwrap();
    (result, got, left)
}

#[tokio::test]
async fn a_body_is_framed_anew() {
    use Framing::{Chunked, Empty, Length, UntilClose};
    for (pieces, framing, framed, expected, left) in [
        (&["next"][..], Empty, Empty, "HEAD|", ""),
        (&["hello"], Length(5), Length(5), "HEAD|hello", ""),
        (
            &["hello, next"],
            Length(5),
            Length(5),
            "HEAD|hello",
            ", next",
        ),
        (&[""], Length(0), Length(0), "HEAD|", ""),
        (
            &["5;ext=1\r\nhello\r\n0\r\nTrailer: x\r\n\r\n"],
            Chunked,
            Chunked,
            "HEAD|5\r\nhello\r\n0\r\n\r\n",
            "",
        ),
        (
            &["5\r\nhello\r\n0\r\n\r\n"],
            Chunked,
            UntilClose,
            "HEAD|hello",
            "",
        ),
        (&["hello"], UntilClose, UntilClose, "HEAD|hello", ""),
        (
            &["hello"],
            UntilClose,
            Chunked,
            "HEAD|5\r\nhello\r\n0\r\n\r\n",
            "",
        ),
    ] {
        let (result, got, unread) = streamed(pieces, (framing, framed), usize::MAX).await;
        assert_eq!(
            (result, &*got, &*unread),
            (Ok(()), expected, left),
            "{pieces:?} {framing:?} {framed:?}"
        );
    }
}

#[tokio::test]
async fn a_cut_body_does_not_look_whole() {
    use Framing::{Chunked, Length};
    for (text, framing, expected) in [
        ("hell", Length(5), "truncated"),
        ("5\r\nhello\r\n", Chunked, "truncated"),
        ("5\r\nhello\r\n0\r\n", Chunked, "truncated"),
        ("5\r\nhello!", Chunked, "malformed"),
        ("-5\r\nhello\r\n0\r\n\r\n", Chunked, "malformed"),
    ] {
        let (result, got, _) = streamed(&[text], (framing, framing), usize::MAX).await;
        assert_eq!(result, Err(expected), "{text:?}");
        assert!(!got.contains("0\r\n\r\n"), "{text:?}: {got:?}");
    }
}

#[tokio::test]
async fn what_is_over_the_budget_is_not_sent() {
    let pieces = ["3\r\nabc\r\n", "3\r\ndef\r\n0\r\n\r\n"];
    let chunked = (Framing::Chunked, Framing::Chunked);
    let (result, got, _) = streamed(&pieces, chunked, 6).await;
    assert_eq!((result, got.contains("def")), (Ok(()), true));
    let (result, got, _) = streamed(&pieces, chunked, 5).await;
    assert_eq!(result, Err("budget"));
    assert!(
        !got.contains("def") && !got.contains("0\r\n\r\n"),
        "{got:?}"
    );
}

#[tokio::test]
async fn small_chunks_that_arrived_together_leave_together_and_in_order() {
    let chunk = format!("400\r\n{}\r\n", "a".repeat(1024));
    let large = format!("500\r\n{}\r\n", "b".repeat(1280));
    let body = format!("{}{large}1\r\nc\r\n0\r\n\r\n", chunk.repeat(40));
    let framings = (Framing::Chunked, Framing::Chunked);
    let (result, got, left) = streamed(&[&body], framings, 100_000).await;
    assert_eq!(
        (result, got, left),
        (Ok(()), format!("HEAD|{body}"), String::new())
    );
}
