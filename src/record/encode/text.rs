//! Text of a client's choice: escaped to printable ASCII and cut.

use std::{
    fmt::{self, Write as _},
    io,
};

use serde::{Serialize, Serializer, ser::SerializeSeq};
use serde_json::ser::Formatter;

use crate::record::MAX_FIELD;

/// Entries of one list; a longer list is cut and ends in `…(N more)`. 128 entries of `MAX_FIELD`
/// bytes, each escaped to six, stay below the 1 MiB that a reader takes.
const MAX_ITEMS: usize = 128;

/// Escapes whatever is not printable ASCII. This covers DEL, C1, the bidirectional controls, and
/// U+2028, which serde_json leaves as they are; C0, quotes and backslashes it escapes by itself.
pub(super) struct Ascii;

impl Formatter for Ascii {
    fn write_string_fragment<W>(&mut self, writer: &mut W, fragment: &str) -> io::Result<()>
    where
        W: ?Sized + io::Write,
    {
        if fragment.bytes().all(|b| (b' '..=b'~').contains(&b)) {
            return writer.write_all(fragment.as_bytes());
        }
        for c in fragment.chars() {
            if (' '..='~').contains(&c) {
                write!(writer, "{c}")?;
            } else {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    write!(writer, "\\u{unit:04x}")?;
                }
            }
        }
        Ok(())
    }
}

/// Text of a client's choice, cut at `MAX_FIELD`.
pub(super) struct Clip<'a>(pub(super) &'a str);

impl Serialize for Clip<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.0.len() <= MAX_FIELD {
            return serializer.serialize_str(self.0);
        }
        serializer.collect_str(&format_args!("{}", clipped(self.0, MAX_FIELD)))
    }
}

/// The head of `text`, at most `max` bytes on a character boundary, and where it was longer the
/// mark that says how long. What was cut at `MAX_FIELD` before keeps its mark.
pub(crate) fn clipped(text: &str, max: usize) -> impl fmt::Display {
    let (text, length) = as_cut_before(text).unwrap_or((text, text.len()));
    fmt::from_fn(move |f| {
        let head = text.get(..text.floor_char_boundary(max)).unwrap_or(text);
        f.write_str(head)?;
        if head.len() == length {
            return Ok(());
        }
        write!(f, "…({length} bytes)")
    })
}

/// The head and the true length of a text that was cut at `MAX_FIELD`.
fn as_cut_before(text: &str) -> Option<(&str, usize)> {
    let (head, mark) = text.rsplit_once("…(")?;
    let length = mark.strip_suffix(" bytes)")?.parse().ok()?;
    // A character has up to four bytes, so a cut is up to three short of its place.
    let is_cut = head.len() <= MAX_FIELD && head.len() + 3 >= MAX_FIELD && length > MAX_FIELD;
    is_cut.then_some((head, length))
}

/// A list of texts, each cut, and cut as a whole at `MAX_ITEMS`.
pub(super) struct ClipAll<'a>(pub(super) &'a [String]);

impl Serialize for ClipAll<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut list = serializer.serialize_seq(None)?;
        for text in self.0.iter().take(MAX_ITEMS) {
            list.serialize_element(&Clip(text))?;
        }
        let more = self.0.len().saturating_sub(MAX_ITEMS);
        if more > 0 {
            list.serialize_element(&format_args!("…({more} more)"))?;
        }
        list.end()
    }
}

/// Whether `value` displays as `text`, found out without building the text.
pub(super) fn is_written_as(value: &impl fmt::Display, text: &str) -> bool {
    struct Rest<'a>(&'a str);

    impl fmt::Write for Rest<'_> {
        fn write_str(&mut self, part: &str) -> fmt::Result {
            self.0 = self.0.strip_prefix(part).ok_or(fmt::Error)?;
            Ok(())
        }
    }

    let mut rest = Rest(text);
    write!(rest, "{value}").is_ok() && rest.0.is_empty()
}
