//! Text of somebody else's choice, made safe to print: nothing in it moves a cursor, drives a terminal
//! or reorders the line that it stands in.

/// Which of the characters that lay out text may stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Layout {
    /// None: the text is a part of one line. A backslash is escaped too, so that what is escaped
    /// cannot be told falsely.
    Line,
    /// Line feed, with or without a carriage return before it, and tab.
    Page,
}

/// `bytes` with every control character, C0 and C1, and every bidirectional control escaped, and
/// what is not UTF-8 as `\xNN`.
pub(crate) fn escaped(bytes: &[u8], layout: Layout) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        let mut chars = chunk.valid().chars().peekable();
        while let Some(c) = chars.next() {
            if stands(c, chars.peek().copied(), layout) {
                text.push(c);
            } else {
                text.extend(c.escape_default());
            }
        }
        for byte in chunk.invalid() {
            text.extend(std::ascii::escape_default(*byte).map(char::from));
        }
    }
    text
}

fn stands(c: char, next: Option<char>, layout: Layout) -> bool {
    match (c, layout) {
        ('\n' | '\t', Layout::Page) => true,
        ('\r', Layout::Page) => next == Some('\n'),
        ('\\', Layout::Line) => false,
        _ => !c.is_control() && !reorders(c),
    }
}

/// Whether `c` is a bidirectional control (Unicode's Bidi_Control), or breaks a line although it is
/// no control character.
fn reorders(c: char) -> bool {
    matches!(
        c,
        '\u{61c}'
            | '\u{200e}'
            | '\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2066}'..='\u{2069}'
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_drives_a_terminal_stands() {
        for (bytes, page, line) in [
            (&b"plain"[..], "plain", "plain"),
            ("Grüße 👋".as_bytes(), "Grüße 👋", "Grüße 👋"),
            (b"a\nb\tc", "a\nb\tc", r"a\nb\tc"),
            (b"a\r\nb", "a\r\nb", r"a\r\nb"),
            (b"100%\rfake", r"100%\rfake", r"100%\rfake"),
            (b"\r", r"\r", r"\r"),
            (
                b"\x1b]0;title\x07",
                r"\u{1b}]0;title\u{7}",
                r"\u{1b}]0;title\u{7}",
            ),
            (b"\0\x08\x7f", r"\u{0}\u{8}\u{7f}", r"\u{0}\u{8}\u{7f}"),
            (
                "\u{9b}31m\u{85}".as_bytes(),
                r"\u{9b}31m\u{85}",
                r"\u{9b}31m\u{85}",
            ),
            (b"\x9b31m", r"\x9b31m", r"\x9b31m"),
            (b"\xf0\x9f\x91", r"\xf0\x9f\x91", r"\xf0\x9f\x91"),
            (
                "txt.\u{202e}gnp\u{2066}\u{2028}\u{200f}".as_bytes(),
                r"txt.\u{202e}gnp\u{2066}\u{2028}\u{200f}",
                r"txt.\u{202e}gnp\u{2066}\u{2028}\u{200f}",
            ),
            (br"a\nb", r"a\nb", r"a\\nb"),
        ] {
            let at = bytes.escape_ascii();
            assert_eq!(escaped(bytes, Layout::Page), page, "{at}");
            assert_eq!(escaped(bytes, Layout::Line), line, "{at}");
        }
    }
}
