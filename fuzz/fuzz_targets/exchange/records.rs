//! The audit log of one input, read while it is written.

use std::{collections::HashSet, fs::File, io::Read as _, net::SocketAddr, path::Path};

use eclusa::record::{Line, Link, Outcome};

/// The records so far. They are those of one client connection, whose exchanges follow each other.
pub struct Records {
    file: File,
    unread: Vec<u8>,
    last: Link,
    seen: HashSet<String>,
    /// The exchange that is open.
    open: Option<Line>,
    allowed: Vec<Line>,
    closed: Vec<Line>,
    refused: bool,
    /// No configuration in force allows anything.
    pub forbidden: bool,
}

impl Records {
    pub fn of(path: &Path) -> Self {
        Self {
            file: File::open(path).unwrap(),
            unread: Vec::new(),
            last: Link::FIRST,
            seen: HashSet::new(),
            open: None,
            allowed: Vec::new(),
            closed: Vec::new(),
            refused: false,
            forbidden: false,
        }
    }

    /// Reads what was written since. Every line is whole and names the one before it; exchanges
    /// open and close one after the other, and nothing comes after a refusal.
    pub fn read(&mut self) {
        self.file.read_to_end(&mut self.unread).unwrap();
        let unread = std::mem::take(&mut self.unread);
        for line in unread.split_inclusive(|byte| *byte == b'\n') {
            let text = line.strip_suffix(b"\n").unwrap();
            assert_eq!(Link::named_by(text), Some(self.last));
            self.last = self.last.then(text);
            let line = Line::parse(text).unwrap();
            match (line.event.as_str(), line.decision.as_deref()) {
                ("decision", Some("allow")) => self.opened(line),
                ("decision", Some("deny")) => self.was_refused(&line),
                ("close", None) => self.was_closed(line),
                _ => panic!("{line:?}"),
            }
        }
    }

    fn opened(&mut self, line: Line) {
        assert!(!self.refused && !self.forbidden, "{line:?}");
        assert!(self.seen.insert(line.id.clone().unwrap()), "{line:?}");
        assert!(!line.addresses.is_empty() && line.destination().is_some());
        assert!(self.open.replace(line.clone()).is_none(), "{line:?}");
        self.allowed.push(line);
    }

    fn was_refused(&mut self, line: &Line) {
        assert!(self.open.is_none() && !self.refused, "{line:?}");
        assert!(self.seen.insert(line.id.clone().unwrap()), "{line:?}");
        assert!(line.reason.is_some(), "{line:?}");
        self.refused = true;
    }

    fn was_closed(&mut self, line: Line) {
        let opened = self.open.take().unwrap_or_else(|| panic!("{line:?}"));
        assert_eq!((&opened.id, &opened.via), (&line.id, &line.via));
        let outcome = line.outcome.as_deref().unwrap();
        let known = Outcome::ALL.iter().any(|known| known.as_str() == outcome);
        assert!(known && outcome != Outcome::Crash.as_str(), "{line:?}");
        if let Some(upstream) = line.upstream {
            assert!(opened.addresses.contains(&upstream.ip()), "{line:?}");
            assert_eq!(Some(upstream.port()), opened.port);
        }
        self.refused |= line.reason.is_some();
        self.closed.push(line);
    }

    /// Whether the connection was refused, before or after a decision that allowed it.
    pub fn is_refused(&self) -> bool {
        self.refused
    }

    /// Whether everything that was opened is closed.
    pub fn is_paired(&self) -> bool {
        self.open.is_none() && self.allowed.len() == self.closed.len()
    }

    /// The exchanges that were let through to `address`.
    pub fn allowed(&self, address: SocketAddr) -> Vec<&Line> {
        let leads_there = |line: &&Line| {
            line.port == Some(address.port()) && line.addresses.contains(&address.ip())
        };
        self.allowed.iter().filter(leads_there).collect()
    }

    /// How many bytes to `address` were counted.
    pub fn counted_up(&self, address: SocketAddr) -> u64 {
        let closed = self.closed.iter();
        closed
            .filter(|line| line.upstream == Some(address))
            .filter_map(|line| line.bytes_up)
            .sum()
    }

    /// How many bytes were counted as sent by the client.
    pub fn counted_up_in_all(&self) -> u64 {
        self.closed.iter().filter_map(|line| line.bytes_up).sum()
    }
}
