//! The name that a query asks for, as its octets.

use std::fmt;

use crate::destination::Name;

/// A name on the wire (RFC 1035 section 3.1): at most 255 octets, labels of at most 63, each of
/// any octets, without compression. Its text is the master-file form (section 5.1) without the
/// final dot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueryName<'a>(&'a [u8]);

impl<'a> QueryName<'a> {
    /// Reads a name, and what follows it. A pointer is no name here: before the first name of a
    /// message there is nothing that it could point to.
    pub(super) fn read(body: &'a [u8]) -> Option<(Self, &'a [u8])> {
        let mut end = 0;
        loop {
            let length = usize::from(*body.get(end)?);
            if length > 63 {
                return None;
            }
            end += 1 + length;
            if end > 255 {
                return None;
            }
            if length == 0 {
                let (name, rest) = body.split_at_checked(end)?;
                return Some((Self(name), rest));
            }
        }
    }

    /// The labels without the root.
    pub fn labels(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let mut rest = self.0;
        std::iter::from_fn(move || {
            let (length, after) = rest.split_first().filter(|(length, _)| **length != 0)?;
            let (label, after) = after.split_at_checked(usize::from(*length))?;
            rest = after;
            Some(label)
        })
    }

    /// The name as policy knows it; none when policy could never name it.
    pub fn to_policy(self) -> Option<Name> {
        let mut text = String::with_capacity(self.0.len());
        for label in self.labels() {
            let label = std::str::from_utf8(label).ok()?;
            // Security: the one label `a.b` is not the two labels `a` and `b`.
            if label.contains('.') {
                return None;
            }
            if !text.is_empty() {
                text.push('.');
            }
            text.push_str(label);
        }
        Name::parse(&text).ok()
    }
}

impl fmt::Display for QueryName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut labels = self.labels().peekable();
        if labels.peek().is_none() {
            return f.write_str(".");
        }
        while let Some(label) = labels.next() {
            for octet in label {
                match octet {
                    b'.' | b'\\' | b'"' | b';' | b'(' | b')' | b'@' | b'$' => {
                        write!(f, "\\{}", char::from(*octet))?;
                    }
                    b'!'..=b'~' => write!(f, "{}", char::from(*octet))?,
                    _ => write!(f, "\\{octet:03}")?,
                }
            }
            if labels.peek().is_some() {
                f.write_str(".")?;
            }
        }
        Ok(())
    }
}
