use proptest::prelude::*;

use super::*;

const LIMIT: usize = 4096;

/// The content, and how many bytes of `wire` the body took; none when it is not whole.
type Taken = Result<(Vec<u8>, Option<usize>), HeadError>;

/// Feeds `wire` in pieces of the given lengths, in turn.
fn take(framing: Framing, wire: &[u8], pieces: &[usize]) -> Taken {
    let mut decoder = BodyDecoder::new(framing);
    let (mut content, mut at, mut given) = (Vec::new(), 0, 0);
    let mut pieces = pieces.iter().cycle();
    loop {
        match decoder.decode(&wire[at..given])? {
            Decoded::Data { skip, data } => {
                assert!(data > 0);
                content.extend_from_slice(&wire[at + skip..at + skip + data]);
                at += skip + data;
            }
            Decoded::End { skip } => return Ok((content, Some(at + skip))),
            Decoded::More { skip } => {
                assert_eq!(at + skip, given);
                at = given;
                if given == wire.len() {
                    return Ok((content, None));
                }
                given = (given + pieces.next().unwrap()).min(wire.len());
            }
        }
    }
}

fn whole(wire: &str) -> Taken {
    take(Framing::Chunked, wire.as_bytes(), &[usize::MAX / 2])
}

#[test]
fn chunks_are_decoded_and_extensions_and_trailers_dropped() {
    for (wire, content, rest) in [
        ("0\r\n\r\n", "", ""),
        ("5\r\nhello\r\n0\r\n\r\n", "hello", ""),
        (
            "5\r\nhello\r\n00A\r\n0123456789\r\n000\r\n\r\nGET /",
            "hello0123456789",
            "GET /",
        ),
        ("1;a=b;c=\"d\"\r\nx\r\n0;e\r\n\r\n", "x", ""),
        (
            "1\r\nx\r\n0\r\nAuthorization: Bearer x\r\nHost: evil.example\r\n\r\nrest",
            "x",
            "rest",
        ),
        ("2\r\n\r\n\r\n0\r\n\r\n", "\r\n", ""),
    ] {
        let taken = Ok((content.as_bytes().to_vec(), Some(wire.len() - rest.len())));
        assert_eq!(whole(wire), taken, "{wire:?}");
    }
}

#[test]
fn odd_chunks_are_refused() {
    for wire in [
        "\r\n",
        "g\r\n",
        " 1\r\nx\r\n0\r\n\r\n",
        "1 \r\nx\r\n0\r\n\r\n",
        "1\t\r\nx\r\n0\r\n\r\n",
        "0x1\r\nx\r\n0\r\n\r\n",
        "+1\r\nx\r\n0\r\n\r\n",
        "-1\r\nx\r\n0\r\n\r\n",
        "1\nx\r\n0\r\n\r\n",
        "1\rx\r\n0\r\n\r\n",
        "1\r\r\nx\r\n0\r\n\r\n",
        "1\r\nx\n0\r\n\r\n",
        "1\r\nxy\r\n0\r\n\r\n",
        "1\r\nx\r\r\n0\r\n\r\n",
        "1;a\nx\r\n0\r\n\r\n",
        "1;a\rb\r\nx\r\n0\r\n\r\n",
        "1;\0\r\nx\r\n0\r\n\r\n",
        "1; a\r\nx\r\n0\r\n\r\n",
        "1 ;a\r\nx\r\n0\r\n\r\n",
        "1,1\r\nx\r\n0\r\n\r\n",
        "00000000000000001\r\nx\r\n",
        "fffffffffffffffff\r\n",
        "0\n\r\n",
        "0\r\n\n",
        "0\r\nX: 1\n\r\n",
        "0\r\nX: 1\r2\r\n\r\n",
        "0\r\nX: \0\r\n\r\n",
        "0\r\n folded\r\n\r\n",
        "0\r\n\rX",
    ] {
        assert!(
            matches!(whole(wire), Err(HeadError::Malformed(_))),
            "{wire:?}"
        );
    }
}

#[test]
fn the_largest_size_is_read_and_not_overflowed() {
    let mut decoder = BodyDecoder::new(Framing::Chunked);
    let wire = b"ffffffffffffffff\r\nabc";
    assert_eq!(
        decoder.decode(wire),
        Ok(Decoded::Data { skip: 18, data: 3 })
    );
    assert!(!decoder.is_whole_at_end_of_stream());
}

#[test]
fn extensions_and_trailers_are_bounded_over_the_whole_body() {
    let chunk = format!("1;{}\r\nx\r\n", "a".repeat(1024));
    assert!(whole(&format!("{}0\r\n\r\n", chunk.repeat(16))).is_ok());
    assert!(whole(&format!("{}0\r\n\r\n", chunk.repeat(17))).is_err());
    let trailer = format!("x: {}\r\n", "a".repeat(1021));
    assert!(whole(&format!("0\r\n{}\r\n", trailer.repeat(8))).is_ok());
    assert!(whole(&format!("0\r\n{}\r\n", trailer.repeat(9))).is_err());
}

#[test]
fn a_length_ends_exactly_and_the_rest_stays() {
    for (length, wire, taken) in [
        (0, "rest", Ok((vec![], Some(0)))),
        (4, "bodyrest", Ok((b"body".to_vec(), Some(4)))),
        (9, "body", Ok((b"body".to_vec(), None))),
    ] {
        for pieces in [&[1][..], &[3], &[100]] {
            assert_eq!(
                take(Framing::Length(length), wire.as_bytes(), pieces),
                taken,
                "{length}"
            );
        }
    }
}

#[test]
fn a_cut_body_is_not_whole() {
    for (framing, wire, is_whole) in [
        (Framing::Empty, "", true),
        (Framing::Length(4), "bod", false),
        (Framing::Length(4), "body", true),
        (Framing::Chunked, "4\r\nbody\r\n0\r\n", false),
        (Framing::Chunked, "4\r\nbody\r\n0\r\n\r\n", true),
        (Framing::Chunked, "", false),
        (Framing::UntilClose, "anything", true),
    ] {
        let mut decoder = BodyDecoder::new(framing);
        let mut rest = wire.as_bytes();
        while let Decoded::Data { skip, data } = decoder.decode(rest).unwrap() {
            rest = &rest[skip + data..];
        }
        assert_eq!(
            decoder.is_whole_at_end_of_stream(),
            is_whole,
            "{framing:?} {wire:?}"
        );
    }
}

#[test]
fn a_response_is_framed_by_status_method_and_fields() {
    for (method, head, expected) in [
        ("GET", "200 OK\r\nContent-Length: 7", Framing::Length(7)),
        ("GET", "200 OK\r\nContent-Length: 0", Framing::Length(0)),
        (
            "GET",
            "200 OK\r\nTransfer-Encoding: Chunked",
            Framing::Chunked,
        ),
        ("GET", "200 OK\r\nX: 1", Framing::UntilClose),
        ("HEAD", "200 OK\r\nContent-Length: 7", Framing::Empty),
        (
            "HEAD",
            "200 OK\r\nTransfer-Encoding: chunked",
            Framing::Empty,
        ),
        ("head", "200 OK\r\nContent-Length: 7", Framing::Length(7)),
        ("GET", "204 No Content\r\nContent-Length: 7", Framing::Empty),
        (
            "GET",
            "304 Not Modified\r\nContent-Length: 7",
            Framing::Empty,
        ),
        ("GET", "100 Continue\r\nX: 1", Framing::Empty),
        ("GET", "101 Switching Protocols\r\nX: 1", Framing::Empty),
        ("CONNECT", "200 OK\r\nContent-Length: 7", Framing::Empty),
        (
            "CONNECT",
            "403 Forbidden\r\nContent-Length: 7",
            Framing::Length(7),
        ),
    ] {
        let text = format!("HTTP/1.1 {head}\r\n\r\n");
        let (parsed, _) = ResponseHead::parse(text.as_bytes(), LIMIT)
            .unwrap()
            .unwrap();
        assert_eq!(
            Framing::of_response(&parsed, method),
            Ok(expected),
            "{method} {head}"
        );
    }
}

#[test]
fn a_request_without_fields_has_no_body() {
    for (fields, expected) in [
        ("", Framing::Empty),
        ("Content-Length: 0\r\n", Framing::Length(0)),
        (
            "Content-Length: 18446744073709551615\r\n",
            Framing::Length(u64::MAX),
        ),
        ("transfer-encoding: CHUNKED\r\n", Framing::Chunked),
    ] {
        let text = format!("POST / HTTP/1.1\r\nHost: a.example\r\n{fields}\r\n");
        let (head, _) = RequestHead::parse(text.as_bytes(), LIMIT).unwrap().unwrap();
        assert_eq!(Framing::of_request(&head), Ok(expected), "{fields}");
    }
}

#[test]
fn what_ends_with_the_connection_is_chunked_for_who_understands_it() {
    for (framing, to_http10, to_http11) in [
        (Framing::Empty, Framing::Empty, Framing::Empty),
        (Framing::Length(1), Framing::Length(1), Framing::Length(1)),
        (Framing::Chunked, Framing::UntilClose, Framing::Chunked),
        (Framing::UntilClose, Framing::UntilClose, Framing::Chunked),
    ] {
        assert_eq!(framing.towards(Version::Http10), to_http10, "{framing:?}");
        assert_eq!(framing.towards(Version::Http11), to_http11, "{framing:?}");
    }
}

fn encode(chunks: &[Vec<u8>]) -> Vec<u8> {
    let mut wire = Vec::new();
    for chunk in chunks {
        if let Some(length) = NonZeroUsize::new(chunk.len()) {
            wire.extend_from_slice(chunk_header(length).as_bytes());
            wire.extend_from_slice(chunk);
            wire.extend_from_slice(CHUNK_END);
        }
    }
    wire.extend_from_slice(LAST_CHUNK);
    wire
}

proptest! {
    #[test]
    fn what_is_encoded_is_decoded_whatever_the_pieces(
        chunks in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..40), 0..6),
        pieces in proptest::collection::vec(1_usize..20, 1..5),
    ) {
        let wire = encode(&chunks);
        let length = wire.len();
        let wire = [wire, b"next".to_vec()].concat();
        prop_assert_eq!(
            take(Framing::Chunked, &wire, &pieces),
            Ok((chunks.concat(), Some(length)))
        );
    }

    #[test]
    fn any_bytes_are_decoded_alike_in_pieces_and_in_one(
        wire in "([0-3]{1,2}(;[a-z ]{0,2})?\r?\n.{0,3}\r?\n){0,4}[0\r\nx]{0,8}",
        pieces in proptest::collection::vec(1_usize..5, 1..5),
    ) {
        let bytes = wire.as_bytes();
        prop_assert_eq!(take(Framing::Chunked, bytes, &pieces), whole(&wire));
    }
}
