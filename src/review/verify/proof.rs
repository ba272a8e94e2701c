//! What is proven of a log, and what breaks its chain.

use jiff::Timestamp;

use super::NAMED;
use crate::{
    record::{Line, Link},
    review::{Extent, RawLine},
};

/// What is proven of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proof {
    /// Its files, oldest first; behind a break nothing of them is read.
    pub files: Vec<FileProof>,
    /// What the chain begins with.
    pub begins: Beginning,
    /// Whether there may be older files than those that were read: the first is a rotated one.
    pub may_follow: bool,
    /// Lines before the chain, of an earlier version.
    pub unchained: u64,
    /// The first of the lines that are in the chain and no records.
    pub torn: Vec<At>,
    /// How many they are in all.
    pub torn_count: u64,
    /// The link of the last line that has its end.
    pub head: Link,
    /// The first break.
    pub broken: Option<Break>,
    /// The head that was asked for, where no line has it.
    pub missing: Option<Link>,
}

/// One file of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileProof {
    /// Its name.
    pub file: String,
    /// Its lines.
    pub lines: u64,
    /// The time of its first record.
    pub first: Option<Timestamp>,
    /// The time of its last record.
    pub last: Option<Timestamp>,
}

/// A line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct At {
    /// Which of the files, from 0.
    pub file: usize,
    /// Its number in the file, from 1.
    pub line: u64,
    /// Where it begins, in bytes of the uncompressed file.
    pub offset: u64,
}

/// What the chain begins with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Beginning {
    /// There is no line.
    #[default]
    Nowhere,
    /// No line names another: nothing is proven.
    Unchained,
    /// The first line of the log.
    First,
    /// A line after one that is not there: of a file that was removed, or is not read.
    After(Link),
    /// A line that binds those of an earlier version before it.
    Bound,
}

/// Where a line does not name the one before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Break {
    /// The line.
    pub at: At,
    /// The line before it.
    pub before: Option<At>,
    /// The link of the line before it.
    pub expected: Link,
    /// The link that it names.
    pub found: Link,
    /// What may have been done.
    pub cause: Cause,
}

/// What kind of change breaks a chain in this way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// Nothing has the link that is named: the line before was changed, or lines between the two
    /// were removed.
    Lost,
    /// The line that is named stands elsewhere: lines were moved or inserted, or the files are
    /// given in another order.
    Moved(At),
    /// A chain begins: what was written before was taken away while nobody wrote.
    Anew,
    /// A line of an earlier version, before the chain, was changed, removed or added.
    Unbound,
    /// A whole record names none before it: the proxy did not write it.
    Foreign,
}

impl Proof {
    /// Whether every line is proven to be as it was written.
    pub fn is_whole(&self) -> bool {
        let is_chained = match self.begins {
            Beginning::First | Beginning::Bound => true,
            Beginning::After(_) => self.may_follow,
            Beginning::Nowhere | Beginning::Unchained => false,
        };
        is_chained && self.broken.is_none() && self.missing.is_none()
    }

    /// All lines.
    pub fn lines(&self) -> u64 {
        self.files.iter().map(|file| file.lines).sum()
    }

    /// The name of the file that a line stands in.
    pub fn file(&self, at: At) -> &str {
        self.files
            .get(at.file)
            .map_or_else(Default::default, |file| &*file.file)
    }

    /// The files that were read.
    pub fn read(&self) -> &[FileProof] {
        let read = self.broken.as_ref().map(|broken| broken.at.file + 1);
        let read = read.unwrap_or(self.files.len());
        self.files.get(..read).unwrap_or(&self.files)
    }

    pub(super) fn count(&mut self, at: At, line: &RawLine<'_>) {
        if self.begins == Beginning::Unchained {
            self.unchained += 1;
        } else if !is_record(line) {
            self.torn_count += 1;
            if self.torn.len() < NAMED {
                self.torn.push(at);
            }
        }
        if let Some(file) = self.files.get_mut(at.file) {
            file.count(line);
        }
    }
}

impl Default for Proof {
    fn default() -> Self {
        Self {
            files: Vec::new(),
            begins: Beginning::Nowhere,
            may_follow: true,
            unchained: 0,
            torn: Vec::new(),
            torn_count: 0,
            head: Link::FIRST,
            broken: None,
            missing: None,
        }
    }
}

impl FileProof {
    pub(super) fn of(file: String) -> Self {
        Self {
            file,
            lines: 0,
            first: None,
            last: None,
        }
    }

    fn count(&mut self, line: &RawLine<'_>) {
        self.lines += 1;
        let time = Line::time_of(line.bytes);
        self.first = self.first.or(time);
        self.last = time.or(self.last);
    }
}

impl At {
    pub(super) fn of(file: usize, line: &RawLine<'_>) -> Self {
        Self {
            file,
            line: line.number,
            offset: line.offset,
        }
    }
}

/// Whether a line is whole and ours, by its two ends.
fn is_record(line: &RawLine<'_>) -> bool {
    line.extent == Extent::Whole
        && Link::named_by(line.bytes).is_some()
        && line.bytes.ends_with(b"}\n")
}
