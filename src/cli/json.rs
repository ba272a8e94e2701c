//! Answers for a program.

use std::io::{self, Write};

use serde::Serialize;

use crate::record::encode;

/// Prints one value over several lines, in printable ASCII: what a client chose stands in it
/// unchanged, and a terminal that it is shown on does not obey it.
pub(super) fn json(value: &impl Serialize, out: &mut dyn Write) -> io::Result<()> {
    let mut text = encode::ascii(&serde_json::to_string_pretty(value)?);
    text.push(b'\n');
    out.write_all(&text)
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
