//! Text of a client's choice: escaped to printable ASCII and cut.

use std::fmt::{self, Write as _};

use crate::record::{MAX_FIELD, digest::hexadecimal};

/// Appends `text` as it stands between the quotes of a JSON string in printable ASCII. Besides what
/// JSON asks for this escapes DEL, C1, the bidirectional controls and U+2028, and all else that is
/// not ASCII.
pub(super) fn escape(out: &mut Vec<u8>, text: &str) {
    if is_plain(text) {
        out.extend_from_slice(text.as_bytes());
        return;
    }
    for c in text.chars() {
        match c {
            '"' => out.extend_from_slice(br#"\""#),
            '\\' => out.extend_from_slice(br"\\"),
            '\n' => out.extend_from_slice(br"\n"),
            '\r' => out.extend_from_slice(br"\r"),
            '\t' => out.extend_from_slice(br"\t"),
            '\u{8}' => out.extend_from_slice(br"\b"),
            '\u{c}' => out.extend_from_slice(br"\f"),
            ' '..='~' => out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
            _ => escape_units(out, c),
        }
    }
}

/// Whether `text` needs no escape. No byte ends the scan early, so that it takes many at a time.
fn is_plain(text: &str) -> bool {
    text.bytes().fold(true, |plain, byte| {
        plain & matches!(byte, b' '..=b'!' | b'#'..=b'[' | b']'..=b'~')
    })
}

/// JSON that serde_json wrote, in printable ASCII and newlines: what else there is stands in a
/// string.
pub(crate) fn ascii(json: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(json.len());
    for c in json.chars() {
        match c {
            '\n' | ' '..='~' => out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
            _ => escape_units(&mut out, c),
        }
    }
    out
}

fn escape_units(out: &mut Vec<u8>, c: char) {
    for unit in c.encode_utf16(&mut [0; 2]) {
        out.extend_from_slice(br"\u");
        out.extend_from_slice(unit.to_be_bytes().map(hexadecimal).as_flattened());
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

#[cfg(test)]
mod tests {
    use proptest::{char, collection, prelude::*, sample};

    use super::*;
    use crate::{
        policy::{Decision, Reason},
        record::{DnsAnswer, EVENTS, Outcome, Via},
    };

    /// Of all planes, and often of those that have an escape or are next to one.
    fn any_char() -> impl Strategy<Value = char> {
        let marks: Vec<char> =
            "\"\\/\u{7f}\u{80}\u{2028}\u{202e}\u{d7ff}\u{e000}\u{ffff}\u{10000}😀"
                .chars()
                .collect();
        prop_oneof![
            4 => char::range(' ', '~'),
            1 => char::range('\0', '\u{1f}'),
            1 => sample::select(marks),
            1 => any::<char>(),
        ]
    }

    proptest! {
        #[test]
        fn text_is_escaped_as_serde_json_does(
            plain in "[ -~]{0,70}",
            chars in collection::vec(any_char(), 0..70),
        ) {
            for text in [plain, chars.into_iter().collect()] {
                let mut quoted = b"\"".to_vec();
                escape(&mut quoted, &text);
                quoted.push(b'"');
                prop_assert_eq!(&quoted, &ascii(&serde_json::to_string(&text).unwrap()));
                prop_assert!(quoted.iter().all(|byte| matches!(byte, b' '..=b'~')));
                prop_assert_eq!(serde_json::from_slice::<String>(&quoted).unwrap(), text);
            }
        }
    }

    #[test]
    fn every_character_is_escaped_as_serde_json_does() {
        for c in '\0'..'\u{11000}' {
            let text = c.to_string();
            let mut quoted = b"\"".to_vec();
            escape(&mut quoted, &text);
            quoted.push(b'"');
            assert_eq!(
                quoted,
                ascii(&serde_json::to_string(&text).unwrap()),
                "{c:?}"
            );
        }
    }

    #[test]
    fn no_code_needs_an_escape() {
        let decisions = [Decision::Allow, Decision::Deny, Decision::WouldDeny];
        for decision in decisions {
            let written = serde_json::to_value(decision).unwrap();
            assert_eq!(written, decision.as_str());
        }
        let codes = (EVENTS.iter().copied())
            .chain(decisions.map(Decision::as_str))
            .chain(Via::ALL.iter().map(|via| via.as_str()))
            .chain(Reason::ALL.iter().map(|reason| reason.code()))
            .chain(Outcome::ALL.iter().map(|outcome| outcome.as_str()))
            .chain(DnsAnswer::ALL.iter().map(|answer| answer.as_str()));
        for code in codes {
            assert!(is_plain(code), "{code}");
        }
    }
}
