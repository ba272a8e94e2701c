//! Follows the chain of a log that is read line by line.

use super::lines::{Extent, RawLine};
use crate::record::{Link, Linking};

/// The links of lines, which may come in pieces.
#[derive(Debug)]
pub struct Chain {
    last: Link,
    /// A line of which more may come, or nothing but the end.
    open: Option<Linking>,
}

impl Chain {
    /// What follows a line of this link.
    pub fn after(last: Link) -> Self {
        Self { last, open: None }
    }

    /// The link of the last line that has its end.
    pub fn last(&self) -> Link {
        self.last
    }

    /// Takes in the next line, or the next piece of it.
    pub fn take(&mut self, line: &RawLine<'_>) {
        match line.extent {
            Extent::Piece { first: false } => {}
            Extent::Piece { first: true } | Extent::Whole | Extent::Torn => self.end(),
        }
        let (bytes, has_end) = match line.bytes.strip_suffix(b"\n") {
            Some(bytes) => (bytes, true),
            None => (line.bytes, false),
        };
        let last = self.last;
        let open = self.open.get_or_insert_with(|| last.begin(bytes));
        open.add(bytes);
        if has_end {
            self.end();
        }
    }

    /// Ends a line without its newline, which is as good as one with it.
    pub fn end(&mut self) {
        if let Some(line) = self.open.take() {
            self.last = line.finish();
        }
    }
}
