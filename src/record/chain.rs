//! The chain of the log: a line names the link of the line before it, so that none can be changed,
//! removed or moved without a trace in all that follow.
//!
//! The link of a line is the SHA-256 of its bytes without the newline. A line that names none,
//! torn by a crash or of another program, is bound in all the same: its link is the SHA-256 of the
//! link before it, as text, and then its bytes.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{Digest, Hashing, encode};

/// The link of one line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Link(Digest);

/// The text is not a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a link is 64 lower-case hexadecimal digits")]
pub struct LinkError;

impl Link {
    /// What the first line of a log names: nothing stands before it.
    pub const FIRST: Self = Self(Digest::ZERO);

    /// How much of a line's beginning tells what it names.
    pub(crate) const HEAD: usize = encode::HEAD;

    /// The link that `line` names in its place, where it does; its first `HEAD` bytes are enough.
    pub fn named_by(line: &[u8]) -> Option<Self> {
        encode::named(line).and_then(Digest::read).map(Self)
    }

    /// The link of `line`, without its newline, which stands after a line of this link.
    #[must_use]
    pub fn then(self, line: &[u8]) -> Self {
        let mut linking = self.begin(line);
        linking.add(line);
        linking.finish()
    }

    /// Begins the link of a line that begins with `head`, and is then taken in piece by piece.
    pub(crate) fn begin(self, head: &[u8]) -> Linking {
        let mut hashing = Hashing::default();
        if Self::named_by(head).is_none() {
            hashing.update(self.as_bytes());
        }
        Linking(hashing)
    }

    /// Its text.
    pub(crate) fn as_bytes(&self) -> &[u8; Digest::LEN] {
        self.0.as_bytes()
    }
}

/// The link of a line whose bytes are still coming.
#[derive(Debug)]
pub(crate) struct Linking(Hashing);

impl Linking {
    /// Takes in the next piece, the head included.
    pub(crate) fn add(&mut self, piece: &[u8]) {
        self.0.update(piece);
    }

    /// The link.
    pub(crate) fn finish(self) -> Link {
        Link(self.0.finish())
    }
}

impl FromStr for Link {
    type Err = LinkError;

    fn from_str(text: &str) -> Result<Self, LinkError> {
        let text = text.as_bytes().try_into().map_err(|_| LinkError)?;
        Digest::read(text).map(Self).ok_or(LinkError)
    }
}

impl fmt::Display for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Serialize for Link {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Link {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OTHER: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

    fn line(prev: &str) -> String {
        format!(r#"{{"schema":1,"ts":"2026-01-02T03:04:05.678Z","prev":"{prev}","event":"stop"}}"#)
    }

    #[test]
    fn a_line_names_a_link_only_in_its_place_and_in_full() {
        let other: Link = OTHER.parse().unwrap();
        let whole = line(OTHER);
        assert_eq!(Link::named_by(whole.as_bytes()), Some(other));
        let head = whole.as_bytes().split_at(Link::HEAD).0;
        assert_eq!(Link::named_by(head), Some(other), "torn behind it");
        let torn = head.split_at(Link::HEAD - 1).0;
        assert_eq!(Link::named_by(torn), None);
        for foreign in [
            String::new(),
            "syslog: hello".to_owned(),
            line(&OTHER.to_ascii_uppercase()),
            line(OTHER.trim_start_matches("ba")),
            whole.replace("\"schema\":1", "\"schema\":2"),
            whole.replace("T03", "\n03"),
            format!(" {whole}"),
        ] {
            assert_eq!(Link::named_by(foreign.as_bytes()), None, "{foreign}");
        }
    }

    #[test]
    fn the_link_of_a_line_is_what_sha256sum_prints_of_it() {
        let before: Link = OTHER.parse().unwrap();
        let chained = line(OTHER);
        let expected = Digest::of(chained.as_bytes()).to_string();
        assert_eq!(before.then(chained.as_bytes()).to_string(), expected);
        // What another line stands before does not matter: the line itself names it.
        assert_eq!(
            Link::FIRST.then(chained.as_bytes()),
            before.then(chained.as_bytes())
        );
        let expected = Digest::of(format!("{OTHER}torn").as_bytes()).to_string();
        assert_eq!(before.then(b"torn").to_string(), expected);
        assert_ne!(Link::FIRST.then(b"torn"), before.then(b"torn"));
    }

    #[test]
    fn only_sixty_four_lower_case_digits_are_a_link() {
        for text in [
            "",
            "0",
            &"0".repeat(63),
            &OTHER.to_uppercase(),
            &"g".repeat(64),
        ] {
            assert_eq!(text.parse::<Link>(), Err(LinkError), "{text}");
        }
        assert_eq!(OTHER.parse::<Link>().unwrap().to_string(), OTHER);
        assert_eq!(Link::FIRST.to_string(), "0".repeat(64));
    }
}
