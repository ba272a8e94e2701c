use proptest::prelude::*;

use super::*;
use crate::protocol::Framing;

const LIMIT: usize = 64 * 1024;

fn request(text: &str) -> RequestHead {
    let (head, length) = RequestHead::parse(text.as_bytes(), LIMIT)
        .unwrap()
        .unwrap_or_else(|| panic!("{text:?} is not whole"));
    assert_eq!(length, text.len(), "{text:?}");
    head
}

fn malformed(bytes: &[u8]) -> &'static str {
    match RequestHead::parse(bytes, LIMIT) {
        Err(HeadError::Malformed(what)) => what,
        other => panic!("{:?}: {other:?}", bytes.escape_ascii().to_string()),
    }
}

#[test]
fn heads_of_real_clients_are_read() {
    let text = "GET http://allowed.example/a?b=c HTTP/1.1\r\nHost: allowed.example\r\n\
                User-Agent: curl/7.88.1\r\nAccept: */*\r\nProxy-Connection: Keep-Alive\r\n\r\n";
    let head = request(text);
    assert_eq!(&*head.method, "GET");
    assert_eq!(&*head.target, "http://allowed.example/a?b=c");
    assert_eq!(head.version, Version::Http11);
    let names: Vec<_> = head.fields.iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["host", "user-agent", "accept", "proxy-connection"]);
    assert_eq!(head.fields.one("user-agent"), Some(&b"curl/7.88.1"[..]));

    let old_python = request("CONNECT allowed.example:443 HTTP/1.0\r\n\r\n");
    assert_eq!(old_python.version, Version::Http10);
    assert!(old_python.wants_close());
}

#[test]
fn what_follows_the_head_is_not_part_of_it() {
    let text = b"GET / HTTP/1.1\r\nHost: a.example\r\n\r\nGET /2 HTTP/1.1\n\nrest";
    let (head, length) = RequestHead::parse(text, LIMIT).unwrap().unwrap();
    assert_eq!(&*head.target, "/");
    assert!(text[length..].starts_with(b"GET /2"));
}

/// CASES A: what parsers read in two ways.
#[test]
fn ambiguous_requests_are_refused() {
    const HOST: &str = "Host: allowed.example\r\n";
    for fields in [
        "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: chunked\r\nContent-Length: 0\r\n",
        "Transfer-Encoding: ,chunked\r\n",
        "Transfer-Encoding: chunked,\r\n",
        "Transfer-Encoding: gzip, chunked\r\n",
        "Transfer-Encoding: chunked, chunked\r\n",
        "Transfer-Encoding: chunked;q=1\r\n",
        "Transfer-Encoding: xchunked\r\n",
        "Transfer-Encoding: \"chunked\"\r\n",
        "Transfer-Encoding: identity\r\n",
        "Transfer-Encoding: chun\x0bked\r\n",
        "Transfer-Encoding:\r\n",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n",
        "Content-Length: +1\r\n",
        "Content-Length: -1\r\n",
        "Content-Length: 1, 1\r\n",
        "Content-Length:\r\n",
        "Content-Length: 0x1\r\n",
        "Content-Length: 1 1\r\n",
        "Content-Length: 1.0\r\n",
        "Content-Length: 18446744073709551616\r\n",
        "Content-Length: \u{661}\r\n",
        "Content-Length: 1\r\nContent-Length: 2\r\n",
        "Content-Length: 1\r\nContent-Length: 1\r\n",
        "Host: allowed.example\r\n",
        "Host: evil.example\r\n",
        "host:\r\n",
        "X: 1\0 2\r\n",
        "X: 1\rY: 2\r\n",
        "X: 1\x7f\r\n",
        "X: 1\x1b[2J\r\n",
        "X: 1\r\n 2\r\n",
        "X: 1\r\n\t2\r\n",
        "X : 1\r\n",
        "X\t: 1\r\n",
        " X: 1\r\n",
        ": 1\r\n",
        "X\r\n",
        "X: 1\n",
        "X: 1\n\r\n",
        "X\u{e9}: 1\r\n",
        "X(: 1\r\n",
        "X\0: 1\r\n",
        "Expect: 200-ok\r\n",
        "Expect: 100-continue, 100-continue\r\n",
        "Expect: 100-continue\r\nExpect: 100-continue\r\n",
    ] {
        let text = format!("POST http://allowed.example/ HTTP/1.1\r\n{HOST}{fields}\r\n");
        malformed(text.as_bytes());
        let first = format!("POST http://allowed.example/ HTTP/1.1\r\n{fields}{HOST}\r\n");
        malformed(first.as_bytes());
    }
}

#[test]
fn other_protocols_and_versions_are_refused() {
    for text in [
        "GET / HTTP/1.1\r\n\r\n",
        "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n",
        "GET http://allowed.example/\r\n\r\n",
        "GET /\r\n",
        "GET\r\n",
        "GET / HTTP/0.9\r\n",
        "GET / HTTP/1.2\r\n",
        "GET / HTTP/2.0\r\n",
        "GET / HTTP/1.10\r\n",
        "GET / HTTP/01.1\r\n",
        "GET / http/1.1\r\n",
        "GET / HTTP/1.1 \r\n",
        "GET  / HTTP/1.1\r\n",
        "GET /  HTTP/1.1\r\n",
        "GET /a b HTTP/1.1\r\n",
        "GET\t/ HTTP/1.1\r\n",
        "GET /\tHTTP/1.1\r\n",
        " GET / HTTP/1.1\r\n",
        "GET /\x0b HTTP/1.1\r\n",
        "GET /\r HTTP/1.1\r\n",
        "GET /\u{e9} HTTP/1.1\r\n",
        "GET /\0 HTTP/1.1\r\n",
        "GET /\x7f HTTP/1.1\r\n",
        "GET / HTTP/1.1\n",
        "G(T / HTTP/1.1\r\n",
        "\u{e9} / HTTP/1.1\r\n",
        "DESCRIBE rtsp://allowed.example/ RTSP/1.0\r\n",
        "OPTIONS sip:a@allowed.example SIP/2.0\r\n",
        "GET / ICY/1.0\r\n",
    ] {
        malformed(text.as_bytes());
    }
}

/// B22, J05, A15: nothing waits for a second byte.
#[test]
fn what_is_not_http_is_named_at_its_first_bytes() {
    for (bytes, what) in [
        (&b"\x05"[..], "SOCKS"),
        (b"\x04\x01\x01\xbb", "SOCKS"),
        (b"\x16", "TLS"),
        (b"PROXY ", "PROXY protocol"),
        (b"PROXY TCP4 10.0.0.9 10.0.0.1 1 2\r\n", "PROXY protocol"),
        (b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c", "PROXY protocol"),
        (b"\r", "empty line"),
        (b"\r\nGET / HTTP/1.1\r\n", "empty line"),
        (b"\n", "empty line"),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "HTTP/2"),
        (b"SSH-2.0-x\r\n", "not an HTTP request"),
        (b"\0", "not an HTTP request"),
        (b" ", "not an HTTP request"),
        (b"\x80", "not an HTTP request"),
        (&[b'A'; 33], "longer than 32"),
    ] {
        let said = malformed(bytes);
        assert!(said.contains(what), "{}: {said}", bytes.escape_ascii());
    }
    assert_eq!(RequestHead::parse(b"", LIMIT), Ok(None));
    assert_eq!(RequestHead::parse(&[b'A'; 32], LIMIT), Ok(None));
}

#[test]
fn a_head_over_the_limit_is_too_large_before_it_ends() {
    let limit = 256;
    let too_large = Err(HeadError::TooLarge { limit });
    let long_target = format!("GET /{}", "a".repeat(limit));
    let long_field = format!("GET / HTTP/1.1\r\nX: {}", "a".repeat(limit));
    for text in [long_target, long_field] {
        let bytes = text.as_bytes();
        assert_eq!(RequestHead::parse(&bytes[..limit - 1], limit), Ok(None));
        assert_eq!(RequestHead::parse(&bytes[..limit], limit), too_large);
        assert_eq!(RequestHead::parse(bytes, limit), too_large);
    }
    let exact = format!("GET / HTTP/1.1\r\nHost: {}\r\n\r\n", "a".repeat(limit - 26));
    assert_eq!(exact.len(), limit);
    assert!(matches!(
        RequestHead::parse(exact.as_bytes(), limit),
        Ok(Some(_))
    ));
    assert_eq!(
        RequestHead::parse(exact.as_bytes(), limit - 1),
        Err(HeadError::TooLarge { limit: limit - 1 })
    );
}

#[test]
fn the_129th_field_is_too_many() {
    for (count, fits) in [(127, true), (128, false), (10_000, false)] {
        let text = format!(
            "GET / HTTP/1.1\r\nHost: a.example\r\n{}\r\n",
            "X: 1\r\n".repeat(count)
        );
        let parsed = RequestHead::parse(text.as_bytes(), LIMIT);
        if fits {
            assert!(matches!(parsed, Ok(Some(_))), "{count}");
        } else {
            assert_eq!(parsed, Err(HeadError::TooLarge { limit: LIMIT }), "{count}");
        }
    }
}

#[test]
fn values_keep_their_bytes_without_the_whitespace_around_them() {
    let bytes =
        b"GET / HTTP/1.1\r\nHost: a.example\r\nX:\t caf\xc3\xa9\t1 \r\nX: \xff\r\nY:\r\n\r\n";
    let (head, _) = RequestHead::parse(bytes, LIMIT).unwrap().unwrap();
    let values: Vec<_> = head.fields.all("x").collect();
    assert_eq!(values, [&b"caf\xc3\xa9\t1"[..], b"\xff"]);
    assert_eq!(head.fields.one("x"), None);
    assert_eq!(head.fields.one("y"), Some(&b""[..]));
}

#[test]
fn lists_are_read_over_all_their_lines() {
    let head = request(
        "GET / HTTP/1.1\r\nHost: a.example\r\nConnection: , a ,,B\r\nconnection: Close\r\n\r\n",
    );
    let options: Vec<_> = head.fields.list("connection").collect();
    assert_eq!(options, [&b"a"[..], b"B", b"Close"]);
    assert!(head.fields.lists("connection", "b"));
    assert!(head.wants_close());
}

#[test]
fn only_websocket_is_an_upgrade() {
    const GOOD: &str = "Connection: keep-alive, Upgrade\r\nUpgrade: WebSocket\r\n\
                        Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
    for (line, fields, expected) in [
        ("GET / HTTP/1.1", GOOD.to_owned(), true),
        ("POST / HTTP/1.1", GOOD.to_owned(), false),
        ("get / HTTP/1.1", GOOD.to_owned(), false),
        ("GET / HTTP/1.0", GOOD.to_owned(), false),
        (
            "GET / HTTP/1.1",
            GOOD.replace("WebSocket\r", "h2c\r"),
            false,
        ),
        (
            "GET / HTTP/1.1",
            GOOD.replace("WebSocket\r", "h2c, websocket\r"),
            false,
        ),
        (
            "GET / HTTP/1.1",
            GOOD.replace("WebSocket\r", "TLS/1.2\r"),
            false,
        ),
        ("GET / HTTP/1.1", GOOD.replace(", Upgrade", ""), false),
        (
            "GET / HTTP/1.1",
            GOOD.replace("Sec-WebSocket-Key", "X"),
            false,
        ),
        (
            "GET / HTTP/1.1",
            format!("{GOOD}Upgrade: websocket\r\n"),
            false,
        ),
        (
            "GET / HTTP/1.1",
            format!("{GOOD}Content-Length: 5\r\n"),
            false,
        ),
        (
            "GET / HTTP/1.1",
            format!("{GOOD}Transfer-Encoding: chunked\r\n"),
            false,
        ),
    ] {
        let text = format!("{line}\r\nHost: a.example\r\n{fields}\r\n");
        let parsed = RequestHead::parse(text.as_bytes(), LIMIT);
        let upgrade = parsed.is_ok_and(|head| head.unwrap().0.is_websocket_upgrade());
        assert_eq!(upgrade, expected, "{text}");
    }
}

#[test]
fn expect_is_heard_in_http_1_1_only() {
    for (version, expected) in [("1.1", true), ("1.0", false)] {
        let head = request(&format!(
            "PUT / HTTP/{version}\r\nHost: a.example\r\nExpect: 100-Continue\r\n\
             Content-Length: 1\r\n\r\n"
        ));
        assert_eq!(head.expects_continue(), expected, "{version}");
    }
}

#[test]
fn responses_are_read_as_strictly() {
    let (head, _) = ResponseHead::parse(
        b"HTTP/1.1 404 Not \xe9 Found\r\nContent-Length: 3\r\n\r\nabc",
        LIMIT,
    )
    .unwrap()
    .unwrap();
    assert_eq!((head.status, &*head.phrase), (404, ""));
    assert!(!head.wants_close());
    for text in [
        "HTTP/1.1 200 OK\n\n",
        "HTTP/1.1 200 OK\r\nX: 1\n\r\n",
        "HTTP/1.1 99 x\r\n\r\n",
        "HTTP/1.1 099 x\r\n\r\n",
        "HTTP/1.1 600 x\r\n\r\n",
        "HTTP/1.1 2000 x\r\n\r\n",
        "HTTP/1.1 +20 x\r\n\r\n",
        "HTTP/1.1  200 OK\r\n\r\n",
        "HTTP/2 200 OK\r\n\r\n",
        "ICY 200 OK\r\n\r\n",
        "\r\nHTTP/1.1 200 OK\r\n\r\n",
        "SSH-2.0-x\r\n",
        "<html>",
        "HTTP/1.1 200 OK\r\nX : 1\r\n\r\n",
        "HTTP/1.1 200 OK\r\nX: 1\r\n 2\r\n\r\n",
        "HTTP/1.1 200 OK\r\nX: \0\r\n\r\n",
        "HTTP/1.1 200 O\0K\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
        "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
    ] {
        let parsed = ResponseHead::parse(text.as_bytes(), LIMIT);
        assert!(
            matches!(parsed, Err(HeadError::Malformed(_))),
            "{text:?}: {parsed:?}"
        );
    }
}

#[test]
fn an_origin_connection_with_doubtful_bytes_is_not_kept() {
    for (text, close) in [
        ("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n", false),
        ("HTTP/1.1 204 x\r\n\r\n", false),
        ("HTTP/1.1 204 x\r\nContent-Length: 0\r\n\r\n", false),
        ("HTTP/1.1 204 x\r\nContent-Length: 5\r\n\r\n", true),
        ("HTTP/1.1 204 x\r\nTransfer-Encoding: chunked\r\n\r\n", true),
        ("HTTP/1.1 103 x\r\nContent-Length: 5\r\n\r\n", true),
        ("HTTP/1.1 304 x\r\nContent-Length: 5\r\n\r\n", false),
        ("HTTP/1.1 200 OK\r\nConnection: CLOSE\r\n\r\n", true),
        ("HTTP/1.0 200 OK\r\nConnection: keep-alive\r\n\r\n", true),
    ] {
        let (head, _) = ResponseHead::parse(text.as_bytes(), LIMIT)
            .unwrap()
            .unwrap();
        assert_eq!(head.wants_close(), close, "{text}");
    }
}

/// What a stream gives, byte by byte: the first answer that is not "more".
fn fed_bytewise(bytes: &[u8]) -> Result<Option<(RequestHead, usize)>, HeadError> {
    for end in 0..=bytes.len() {
        match RequestHead::parse(&bytes[..end], 1024) {
            Ok(None) => {}
            other => return other,
        }
    }
    Ok(None)
}

fn verdict(
    parsed: Result<Option<(RequestHead, usize)>, HeadError>,
) -> Result<Option<(RequestHead, usize)>, Reason> {
    parsed.map_err(|error| error.reason())
}

proptest! {
    #[test]
    fn a_head_in_pieces_is_read_as_in_one(
        text in "(GET|CONNECT|P(UT|OST)) [!-~]{1,9} HTTP/1\\.[019]\r?\n\
                 ((Host|Content-Length|Transfer-Encoding|X|[a-z:]{0,3}) ?: ?(a\\.example|1|chunked|[ -~\t]{0,5})\r?\n){0,4}\
                 (\r?\n)?.{0,4}",
    ) {
        let whole = verdict(RequestHead::parse(text.as_bytes(), 1024));
        prop_assert_eq!(verdict(fed_bytewise(text.as_bytes())), whole);
    }

    #[test]
    fn any_bytes_give_an_answer(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let whole = verdict(RequestHead::parse(&bytes, 100));
        if let Ok(Some((head, length))) = whole {
            prop_assert!(length <= 100);
            prop_assert!(Framing::of_request(&head).is_ok());
        }
    }

    #[test]
    fn a_serialised_head_parses_to_itself(
        method in "[A-Z!#$%&'*+.^_`|~-]{1,32}",
        target in "/[!-~]{0,40}",
        fields in proptest::collection::vec(("x[a-z0-9-]{0,8}", "([!-~]([ -~\t]{0,20}[!-~])?)?"), 0..8),
    ) {
        prop_assume!(method != "PRI" && method != "PROXY");
        let lines: String = fields.iter().flat_map(|(n, v)| [n, ": ", v, "\r\n"]).collect();
        let text = format!("{method} {target} HTTP/1.1\r\nhost: a.example\r\n{lines}\r\n");
        let head = request(&text);
        prop_assert_eq!(&*head.method, &*method);
        prop_assert_eq!(&*head.target, &*target);
        let read: Vec<(String, String)> = head.fields.iter().skip(1)
            .map(|(n, v)| (n.to_owned(), String::from_utf8(v.to_vec()).unwrap()))
            .collect();
        prop_assert_eq!(read, fields);
    }
}
