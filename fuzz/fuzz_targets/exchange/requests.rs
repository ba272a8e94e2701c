//! The requests that an origin of plain HTTP gets, read by another parser than the proxy's.

use eclusa::record::Line;

/// Reads what came by one connection, and gives how many bytes of it are counted as sent: all but
/// the framing of chunks. Every request is well-formed and let through by one of `allowed`, and
/// nothing stands between two of them. Where the origin `switched`, what follows is not HTTP.
pub fn read(received: &[u8], switched: bool, allowed: &[&Line]) -> usize {
    let mut reader = Reader {
        rest: received,
        counted: 0,
    };
    while !reader.rest.is_empty() {
        let Some(body) = reader.head(allowed) else {
            // The rest of the head is on its way.
            reader.take(reader.rest.len());
            break;
        };
        let whole = match body {
            Body::Length(length) => reader.content(length),
            Body::Chunks => reader.chunks(),
            Body::Upgrade if switched => reader.content(reader.rest.len()),
            // An origin may answer it like any other; then another request may follow.
            Body::Upgrade => Some(()),
        };
        if whole.is_none() {
            break;
        }
    }
    reader.counted
}

/// What follows a head.
enum Body {
    Length(usize),
    Chunks,
    Upgrade,
}

struct Reader<'a> {
    rest: &'a [u8],
    counted: usize,
}

impl Reader<'_> {
    /// Takes in one head; none where there is only a part of it.
    fn head(&mut self, allowed: &[&Line]) -> Option<Body> {
        let mut fields = [httparse::EMPTY_HEADER; 256];
        let mut request = httparse::Request::new(&mut fields);
        let httparse::Status::Complete(length) = request.parse(self.rest).unwrap() else {
            return None;
        };
        let field = |name: &str| {
            let named = |field: &&httparse::Header<'_>| field.name.eq_ignore_ascii_case(name);
            let mut found = request.headers.iter().filter(named);
            let value = found.next().map(|field| field.value);
            assert!(found.next().is_none(), "{name} twice");
            value
        };
        let (method, target) = (request.method.unwrap(), request.path.unwrap());
        let path = target.split('?').next().unwrap();
        let host = std::str::from_utf8(field("host").unwrap()).unwrap();
        let is_recorded = allowed.iter().any(|line| {
            let recorded = line.path.as_deref().unwrap_or_default();
            // A long path is cut in the record.
            let same = recorded == path || recorded.ends_with(" bytes)");
            same && line.method.as_deref() == Some(method) && line.host.as_deref() == Some(host)
        });
        assert!(is_recorded, "{method} {host} {path} is none of {allowed:?}");
        let length_field = field("content-length");
        let body = match field("transfer-encoding") {
            Some(coding) => {
                assert_eq!((coding, length_field), (&b"chunked"[..], None));
                Body::Chunks
            }
            None if field("upgrade").is_some() => Body::Upgrade,
            None => Body::Length(length_field.map_or(0, |value| number(value, 10))),
        };
        self.take(length);
        Some(body)
    }

    /// Takes in what is there of so much content; none where some of it is missing.
    fn content(&mut self, length: usize) -> Option<()> {
        let there = length.min(self.rest.len());
        self.take(there);
        (there == length).then_some(())
    }

    fn chunks(&mut self) -> Option<()> {
        loop {
            let size = number(self.line()?, 16);
            self.content(size)?;
            assert_eq!(self.line()?, b"", "a chunk is longer than it says");
            if size == 0 {
                return Some(());
            }
        }
    }

    /// A line of framing.
    fn line(&mut self) -> Option<&[u8]> {
        let length = self.rest.windows(2).position(|end| end == b"\r\n")?;
        let (line, rest) = self.rest.split_at(length);
        self.rest = &rest[2..];
        Some(line)
    }

    fn take(&mut self, count: usize) {
        self.rest = &self.rest[count..];
        self.counted += count;
    }
}

fn number(digits: &[u8], radix: u32) -> usize {
    let digits = std::str::from_utf8(digits).unwrap();
    usize::from_str_radix(digits, radix).unwrap()
}
