//! The lines of a log as bytes, in bounded memory: a log may be longer than memory, and what stands
//! in it need not be ours.

use std::io::{self, ErrorKind, Read};

use memchr::memchr;

/// The longest line, its newline included, that is given whole; a longer one is not ours.
pub const MAX_LINE: usize = 1 << 20;

/// Bytes read at once.
const CHUNK: usize = 1 << 18;

/// A line, or a piece of one that is too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawLine<'l> {
    /// Its bytes, the newline included where there is one.
    pub bytes: &'l [u8],
    /// Its number in the file, from 1.
    pub number: u64,
    /// Where `bytes` begins, in bytes of the uncompressed file.
    pub offset: u64,
    /// How much of the line this is.
    pub extent: Extent,
}

/// How much of a line is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// All of it, newline included.
    Whole,
    /// The file ends before the line does.
    Torn,
    /// A piece of a line that is longer than `MAX_LINE`; the pieces follow each other.
    Piece {
        /// Whether the line begins here.
        first: bool,
    },
}

/// Reads line after line.
#[derive(Debug)]
pub struct Lines<R> {
    reader: R,
    buffer: Vec<u8>,
    /// The first byte of `buffer` that was not given yet.
    start: usize,
    /// Where no newline was looked for yet.
    searched: usize,
    /// The end of what was read.
    end: usize,
    number: u64,
    offset: u64,
    is_inside: bool,
}

impl<R: Read> Lines<R> {
    /// The lines of `reader`, from line 1.
    pub fn of(reader: R) -> Self {
        Self {
            reader,
            buffer: vec![0; CHUNK],
            start: 0,
            searched: 0,
            end: 0,
            number: 1,
            offset: 0,
            is_inside: false,
        }
    }

    /// The next line; at the end of the file also one that is torn.
    pub fn next_line(&mut self) -> io::Result<Option<RawLine<'_>>> {
        let ended = self.find()?;
        Ok(ended.or_else(|| self.rest()).map(|found| self.give(found)))
    }

    /// The next line that has its end. None where the file has no more for now: a later call looks
    /// again, and what stands of a line is kept.
    pub fn next_ended(&mut self) -> io::Result<Option<RawLine<'_>>> {
        Ok(self.find()?.map(|found| self.give(found)))
    }

    /// Bytes of the file that were given.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Reads on until a line ends or is too long.
    fn find(&mut self) -> io::Result<Option<Found>> {
        loop {
            let unseen = self.buffer.get(self.searched..self.end);
            if let Some(at) = memchr(b'\n', unseen.unwrap_or_default()) {
                let length = self.searched + at + 1 - self.start;
                let extent = self.extent_of(Extent::Whole);
                return Ok(Some((length, extent, End::Newline)));
            }
            self.searched = self.end;
            let length = self.end - self.start;
            if length >= MAX_LINE {
                let first = !self.is_inside;
                return Ok(Some((length, Extent::Piece { first }, End::Open)));
            }
            if self.fill()? == 0 {
                return Ok(None);
            }
        }
    }

    /// What the file ends in.
    fn rest(&self) -> Option<Found> {
        let length = self.end - self.start;
        (length > 0).then_some((length, self.extent_of(Extent::Torn), End::Open))
    }

    /// `alone`, or the last piece of a line that is too long.
    fn extent_of(&self, alone: Extent) -> Extent {
        if self.is_inside {
            Extent::Piece { first: false }
        } else {
            alone
        }
    }

    fn give(&mut self, (length, extent, end): Found) -> RawLine<'_> {
        let (from, number, offset) = (self.start, self.number, self.offset);
        self.start += length;
        self.searched = self.start;
        self.offset += u64::try_from(length).unwrap_or(u64::MAX);
        match end {
            End::Newline => {
                self.number += 1;
                self.is_inside = false;
            }
            End::Open => self.is_inside = true,
        }
        let bytes = self.buffer.get(from..self.start).unwrap_or_default();
        RawLine {
            bytes,
            number,
            offset,
            extent,
        }
    }

    /// Reads once behind what is there, and makes room for it.
    fn fill(&mut self) -> io::Result<usize> {
        if self.end == self.buffer.len() {
            if self.start == 0 {
                let longer = self.buffer.len().saturating_mul(2).min(MAX_LINE);
                self.buffer.resize(longer, 0);
            } else {
                self.buffer.copy_within(self.start..self.end, 0);
                self.end -= self.start;
                self.searched = self.end;
                self.start = 0;
            }
        }
        let room = self.buffer.get_mut(self.end..).unwrap_or_default();
        loop {
            match self.reader.read(room) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                read => {
                    let read = read?;
                    self.end += read;
                    return Ok(read);
                }
            }
        }
    }
}

/// The length of what was found, what it is, and what it ends in.
type Found = (usize, Extent, End);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Newline,
    Open,
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;

    /// Gives one piece a call, and then an end that later pieces may follow.
    struct Growing(VecDeque<Vec<u8>>);

    impl Read for Growing {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let Some(mut piece) = self.0.pop_front() else {
                return Ok(0);
            };
            let length = piece.len().min(buffer.len());
            buffer[..length].copy_from_slice(&piece[..length]);
            if length < piece.len() {
                self.0.push_front(piece.split_off(length));
            }
            Ok(length)
        }
    }

    /// Number, offset, length and extent of every line.
    fn all(log: &[u8]) -> Vec<(u64, u64, usize, Extent)> {
        let mut lines = Lines::of(log);
        let mut found = Vec::new();
        while let Some(line) = lines.next_line().unwrap() {
            let at = usize::try_from(line.offset).unwrap();
            assert_eq!(line.bytes, &log[at..at + line.bytes.len()]);
            found.push((line.number, line.offset, line.bytes.len(), line.extent));
        }
        assert_eq!(lines.offset(), u64::try_from(log.len()).unwrap());
        found
    }

    #[test]
    fn every_byte_is_given_once_with_its_place() {
        assert_eq!(all(b""), []);
        assert_eq!(
            all(b"one\n\ntorn"),
            [
                (1, 0, 4, Extent::Whole),
                (2, 4, 1, Extent::Whole),
                (3, 5, 4, Extent::Torn),
            ]
        );
    }

    #[test]
    fn a_line_that_is_too_long_comes_in_pieces_of_one_number() {
        let piece = |first| Extent::Piece { first };
        for (length, expected) in [
            (MAX_LINE, vec![Extent::Whole]),
            (MAX_LINE + 1, vec![piece(true), piece(false)]),
            (3 * MAX_LINE, vec![piece(true), piece(false), piece(false)]),
        ] {
            let mut log = vec![b'x'; length - 1];
            log.extend(b"\nnext\n");
            let found = all(&log);
            let (last, long) = found.split_last().unwrap();
            assert_eq!((last.0, last.2, last.3), (2, 5, Extent::Whole), "{length}");
            let extents: Vec<Extent> = long.iter().map(|line| line.3).collect();
            assert_eq!(extents, expected, "{length}");
            assert!(long.iter().all(|line| line.0 == 1), "{length}");
        }
    }

    #[test]
    fn many_lines_of_every_length_cross_the_buffer() {
        let log: Vec<u8> = (0..3000)
            .flat_map(|length| [vec![b'x'; length], vec![b'\n']].concat())
            .collect();
        let found = all(&log);
        assert!(found.iter().map(|line| line.2).eq(1..=3000));
        assert!(found.iter().all(|line| line.3 == Extent::Whole));
    }

    #[test]
    fn a_line_without_its_end_is_waited_for() {
        let pieces = [&b"one\ntw"[..], b"", b"o\nthr", b""];
        let mut lines = Lines::of(Growing(pieces.map(<[u8]>::to_vec).into()));
        let mut next = || lines.next_ended().unwrap().map(|line| line.bytes.to_vec());
        assert_eq!(next().as_deref(), Some(&b"one\n"[..]));
        assert_eq!(next(), None);
        assert_eq!(next().as_deref(), Some(&b"two\n"[..]));
        assert_eq!(next(), None);
        let torn = lines.next_line().unwrap().unwrap();
        assert_eq!((torn.bytes, torn.extent), (&b"thr"[..], Extent::Torn));
    }
}
