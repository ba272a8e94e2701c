//! Answers for a program.

use std::{
    fmt::Write as _,
    io::{self, Write},
};

use serde::Serialize;

/// Prints one value over several lines, in printable ASCII: what a client chose stands in it
/// unchanged, and a terminal that it is shown on does not obey it.
pub(super) fn json(value: &impl Serialize, out: &mut dyn Write) -> io::Result<()> {
    let text = serde_json::to_string_pretty(value)?;
    let mut plain = String::with_capacity(text.len() + 1);
    for c in text.chars() {
        if c.is_ascii() && c != '\u{7f}' {
            plain.push(c);
            continue;
        }
        // Only a string can hold it.
        for unit in c.encode_utf16(&mut [0; 2]) {
            write!(plain, "\\u{unit:04x}").map_err(io::Error::other)?;
        }
    }
    plain.push('\n');
    out.write_all(plain.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_escaped_is_read_back_as_it_was() {
        let text = "a\u{7f}\u{202e}é👋\"\\\n";
        let mut out = Vec::new();
        json(&text, &mut out).unwrap();
        assert!(
            out.iter()
                .all(|byte| (b' '..0x7f).contains(byte) || *byte == b'\n')
        );
        assert_eq!(serde_json::from_slice::<String>(&out).unwrap(), text);
    }
}
