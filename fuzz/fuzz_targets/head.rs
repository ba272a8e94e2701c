//! The gate of HTTP: a head that is let in is read by the most lenient of parsers as it is read
//! here, arrives alike in pieces, reads the same when it is written out again, and a pipeline that
//! is sent on is the pipeline that came in.

#![no_main]

use eclusa::protocol::{
    BodyDecoder, Framing, HeadError, RequestHead, ResponseHead, Version,
    body::{CHUNK_END, Decoded, LAST_CHUNK, chunk_header},
    forwarding::{self, Then},
    route_absolute, route_origin,
};
use libfuzzer_sys::fuzz_target;

/// So small that inputs reach it.
const LIMIT: usize = 1024;

/// Fields that may come with a head, so that ours fit beside them.
const CROWDED: usize = 120;

fuzz_target!(|input: (u8, &[u8])| {
    let (piece, bytes) = input;
    let whole = RequestHead::parse(bytes, LIMIT);
    in_pieces(bytes, usize::from(piece).max(bytes.len() / 64 + 1), &whole);
    if let Ok(Some((head, length))) = &whole {
        let raw = &bytes[..*length];
        as_others_read_it(raw, head);
        let written = written(&request_line(head), head.fields.iter());
        assert_eq!(
            RequestHead::parse(&written, usize::MAX),
            Ok(Some((head.clone(), written.len())))
        );
        pipeline(bytes);
    }
    if let Ok(Some((head, _))) = ResponseHead::parse(bytes, LIMIT) {
        response(&head);
    }
});

/// A connection gives what it received so far; the first answer to it is the answer to all.
fn in_pieces(bytes: &[u8], piece: usize, whole: &Result<Option<(RequestHead, usize)>, HeadError>) {
    let mut given = 0;
    while given < bytes.len() {
        given = (given + piece).min(bytes.len());
        match (RequestHead::parse(&bytes[..given], LIMIT), whole) {
            (Ok(None), _) => {}
            (Err(early), Err(late)) => return assert_eq!(early.reason(), late.reason()),
            (found, _) => return assert_eq!(&found, whole),
        }
    }
    assert_eq!(*whole, Ok(None));
}

/// Reads the fields as a parser would that takes every line end, every blank and every comma for
/// what it may mean: it finds the same fields, one Host, and one framing.
fn as_others_read_it(raw: &[u8], head: &RequestHead) {
    let text = raw.strip_suffix(b"\r\n\r\n").unwrap();
    let mut lines = text
        .split(|byte| matches!(byte, b'\n' | b'\r' | b'\0' | 0x0b | 0x0c))
        .filter(|line| !line.is_empty());
    assert_eq!(lines.next(), Some(request_line(head).as_bytes()));
    let fields: Vec<(String, &[u8])> = lines
        .map(|line| {
            let colon = line.iter().position(|byte| *byte == b':').unwrap();
            let name = String::from_utf8(line[..colon].trim_ascii().to_ascii_lowercase()).unwrap();
            (name, line[colon + 1..].trim_ascii())
        })
        .collect();
    let read = fields.iter().map(|(name, value)| (name.as_str(), *value));
    assert!(read.eq(head.fields.iter()));
    let named = |sought: &'static str| {
        let named = fields.iter().filter(move |(name, _)| name == sought);
        named.map(|(_, value)| *value)
    };
    let hosts = named("host").count();
    assert!(hosts == 1 || hosts == 0 && head.version == Version::Http10);
    let list = |sought| -> Vec<&[u8]> {
        named(sought)
            .flat_map(|value| value.split(|byte| *byte == b','))
            .collect()
    };
    let framing = match (&*list("content-length"), &*list("transfer-encoding")) {
        ([], []) => Framing::Empty,
        ([length], []) => {
            assert!(length.iter().all(u8::is_ascii_digit));
            Framing::Length(str::from_utf8(length).unwrap().parse().unwrap())
        }
        ([], [coding]) => {
            assert!(coding.eq_ignore_ascii_case(b"chunked") && head.version == Version::Http11);
            Framing::Chunked
        }
        (lengths, codings) => panic!("{lengths:?} {codings:?}"),
    };
    assert_eq!(Framing::of_request(head), Ok(framing));
}

/// What is sent on of all requests in `bytes` is as many requests, each with its own content.
fn pipeline(bytes: &[u8]) {
    let came = messages(bytes);
    let mut sent = Vec::new();
    let mut judged = Vec::new();
    for (head, framing, content) in &came {
        let routed = route_absolute(head).or_else(|_| route_origin(head, None));
        let crowded = head.fields.iter().count() > CROWDED;
        let (Ok(route), false) = (routed, crowded) else {
            break;
        };
        if head.fields.all("max-forwards").next().is_some() {
            break;
        }
        sent.extend(forwarding::request_head(head, &route, *framing));
        sent.extend(framed(content, *framing));
        judged.push((&*head.method, route.origin_form, *framing, content));
    }
    let arrived = messages(&sent);
    let arrived = arrived.iter().map(|(head, framing, content)| {
        let target = head.target.clone();
        (&*head.method, target, *framing, content)
    });
    assert!(arrived.eq(judged));
}

/// The requests in `bytes` that are whole, up to the first that is not, or that is refused.
fn messages(mut bytes: &[u8]) -> Vec<(RequestHead, Framing, Vec<u8>)> {
    let mut found = Vec::new();
    while let Ok(Some((head, length))) = RequestHead::parse(bytes, usize::MAX) {
        bytes = &bytes[length..];
        let framing = Framing::of_request(&head).unwrap();
        let Some(content) = body(&mut bytes, framing) else {
            break;
        };
        // What follows an upgrade is not for this parser.
        let ends = head.is_websocket_upgrade();
        found.push((head, framing, content));
        if ends {
            break;
        }
    }
    found
}

/// Takes a body off `bytes`; none where it is not whole.
fn body(bytes: &mut &[u8], framing: Framing) -> Option<Vec<u8>> {
    let mut decoder = BodyDecoder::new(framing);
    let mut content = Vec::new();
    loop {
        let (skip, data, ends) = match decoder.decode(bytes).ok()? {
            Decoded::Data { skip, data } => (skip, data, false),
            Decoded::End { skip } => (skip, 0, true),
            Decoded::More { .. } => return None,
        };
        content.extend_from_slice(&bytes[skip..skip + data]);
        *bytes = &bytes[skip + data..];
        if ends {
            return Some(content);
        }
    }
}

/// A body as it is sent.
fn framed(content: &[u8], framing: Framing) -> Vec<u8> {
    match framing {
        Framing::Empty | Framing::Length(_) | Framing::UntilClose => content.to_vec(),
        Framing::Chunked => {
            let length = content.len().try_into();
            let chunk = length.map_or_else(
                |_| Vec::new(),
                |length| [chunk_header(length).as_bytes(), content, CHUNK_END].concat(),
            );
            [&*chunk, LAST_CHUNK].concat()
        }
    }
}

/// A response that the client may see is framed as was told, and speaks for the origin alone.
fn response(head: &ResponseHead) {
    let plain = b"GET http://a.example/ HTTP/1.1\r\nHost: a.example\r\n\r\n";
    let (asked, _) = RequestHead::parse(plain, LIMIT).unwrap().unwrap();
    let crowded = head.fields.iter().count() > CROWDED;
    if forwarding::check_response(head, &asked).is_err() || crowded {
        return;
    }
    assert!(!matches!(head.status, 101 | 407));
    for method in ["GET", "HEAD"] {
        let framing = Framing::of_response(head, method)
            .unwrap()
            .towards(Version::Http11);
        assert_ne!(framing, Framing::UntilClose);
        for then in [Then::KeepAlive, Then::Close] {
            let sent = forwarding::response_head(head, framing, then);
            let (sent, _) = ResponseHead::parse(&sent, usize::MAX).unwrap().unwrap();
            assert_eq!((sent.status, &sent.phrase), (head.status, &head.phrase));
            assert_eq!(Framing::of_response(&sent, method), Ok(framing));
            assert_eq!(
                sent.wants_close(),
                then == Then::Close && !head.is_interim()
            );
            let foreign = |name: &str| name.starts_with("proxy-") || name == "alt-svc";
            assert!(!sent.fields.iter().any(|(name, _)| foreign(name)));
        }
    }
}

fn request_line(head: &RequestHead) -> String {
    let version = match head.version {
        Version::Http10 => "HTTP/1.0",
        Version::Http11 => "HTTP/1.1",
    };
    format!("{} {} {version}", head.method, head.target)
}

fn written<'a>(line: &str, fields: impl Iterator<Item = (&'a str, &'a [u8])>) -> Vec<u8> {
    let mut out = [line.as_bytes(), b"\r\n"].concat();
    for (name, value) in fields {
        out.extend([name.as_bytes(), b": ", value, b"\r\n"].concat());
    }
    out.extend(b"\r\n");
    out
}
