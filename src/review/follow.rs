//! A log that is read while it is written: from its file to the next one when it is rotated, and
//! from the start again when it is cut.

use std::{
    cell::Cell,
    collections::VecDeque,
    fs::{self, File},
    io::{self, ErrorKind, Read},
    path::{Path, PathBuf},
    rc::Rc,
};

use super::source::{Identity, Source, SourceError};
use crate::audit::lines::{Lines, RawLine};

/// A log and the place where reading has come to.
pub struct Follower {
    log: PathBuf,
    file: Begun,
    /// Files that a rotation made meanwhile, oldest first; the last one is the log's current file.
    later: VecDeque<Source>,
}

/// A file of the log that is being read.
struct Begun {
    lines: Lines<Box<dyn Read>>,
    identity: Identity,
    /// Bytes of the file, as they lie on the disk, that were read.
    read: Rc<Cell<u64>>,
}

/// What became of the log since the last look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// There is nothing new to be read.
    Same,
    /// It goes on in another file; there may be more at once.
    Rotated,
    /// The file was cut, and what stood in it may have been lost unread.
    Cut,
    /// Rotations removed files before they were read; it goes on with those that are left.
    Lost,
}

impl Follower {
    /// Follows `log` from the start of its current file, through which `source` leads.
    ///
    /// # Errors
    /// The file cannot be opened, or is not a regular one.
    pub fn open(log: &Path, source: &Source) -> Result<Self, SourceError> {
        Ok(Self {
            log: log.to_owned(),
            file: begin(source)?,
            later: VecDeque::new(),
        })
    }

    /// The next line; none where there is none for now. What stands of the last line is given once
    /// nobody will complete it.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn next_line(&mut self) -> Result<Option<RawLine<'_>>, SourceError> {
        let next = if self.later.is_empty() {
            self.file.lines.next_ended()
        } else {
            self.file.lines.next_line()
        };
        next.map_err(|source| SourceError::Unreadable {
            name: self.log.display().to_string(),
            source,
        })
    }

    /// Looks what became of the log, once there is no line for now.
    ///
    /// # Errors
    /// The log, or the file that follows, cannot be opened.
    pub fn turn(&mut self) -> Result<Turn, SourceError> {
        if let Some(next) = self.later.pop_front() {
            return match begin(&next) {
                Ok(file) => {
                    self.file = file;
                    Ok(Turn::Rotated)
                }
                Err(SourceError::Gone(_)) => Ok(Turn::Lost),
                Err(error) => Err(error),
            };
        }
        let current = match fs::metadata(&self.log) {
            Ok(found) => found,
            // It was moved away, and is not opened anew yet.
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Turn::Same),
            Err(source) => {
                let name = self.log.display().to_string();
                return Err(SourceError::Unreadable { name, source });
            }
        };
        let is_same = Identity::of(&current) == self.file.identity;
        if is_same && current.len() < self.file.read.get() {
            self.file = begin(&Source::named(&self.log)?)?;
            return Ok(Turn::Cut);
        }
        // An empty file may have been made for a writer that still writes to the old one.
        if is_same || current.len() == 0 {
            return Ok(Turn::Same);
        }
        let mut files = VecDeque::from(Source::log(&self.log)?);
        let own = files.iter().position(|file| match file {
            Source::Part { identity, .. } => *identity == self.file.identity,
            Source::Stdin | Source::File(_) => false,
        });
        // Ours was moved elsewhere, or removed by a rotation: which of the others are newer nobody
        // can tell, but for the current one.
        let passed = own.map_or_else(|| files.len().saturating_sub(1), |own| own + 1);
        files.drain(..passed);
        self.later = files;
        Ok(match own {
            None if passed > 0 => Turn::Lost,
            Some(_) | None => Turn::Rotated,
        })
    }
}

/// A file from its start.
fn begin(source: &Source) -> Result<Begun, SourceError> {
    let mut found = Err(ErrorKind::Unsupported.into());
    let read = Rc::new(Cell::new(0));
    let lines = source.open_through(|file| {
        found = file.metadata();
        Box::new(Counted {
            file,
            read: Rc::clone(&read),
        })
    })?;
    let found = found.and_then(|found| {
        if found.is_file() {
            return Ok(found);
        }
        let why = "what is followed is a regular file";
        Err(io::Error::new(ErrorKind::Unsupported, why))
    });
    let found = found.map_err(|error| source.unreadable(error))?;
    Ok(Begun {
        lines,
        identity: Identity::of(&found),
        read,
    })
}

/// A file, and how much of it was read.
struct Counted {
    file: File,
    read: Rc<Cell<u64>>,
}

impl Read for Counted {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.file.read(buffer)?;
        let length = u64::try_from(count).unwrap_or(u64::MAX);
        self.read.set(self.read.get().saturating_add(length));
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use std::{fs::File, io::Write as _};

    use super::*;
    use crate::audit::lines::Extent;

    struct Log {
        folder: tempfile::TempDir,
        follower: Follower,
    }

    impl Log {
        fn at(&self, name: &str) -> PathBuf {
            self.folder.path().join(name)
        }

        fn append(&self, name: &str, text: &str) {
            let mut file = File::options()
                .append(true)
                .create(true)
                .open(self.at(name))
                .unwrap();
            file.write_all(text.as_bytes()).unwrap();
        }

        fn rename(&self, from: &str, to: &str) {
            fs::rename(self.at(from), self.at(to)).unwrap();
        }

        /// Every line that can be read now.
        fn now(&mut self) -> Vec<String> {
            let mut found = Vec::new();
            loop {
                while let Some(line) = self.follower.next_line().unwrap() {
                    found.push(shown(&line));
                }
                match self.follower.turn().unwrap() {
                    Turn::Same => return found,
                    Turn::Rotated => {}
                    Turn::Cut => found.push("cut".to_owned()),
                    Turn::Lost => found.push("lost".to_owned()),
                }
            }
        }
    }

    /// A line without its end; `~` where it has none.
    fn shown(line: &RawLine<'_>) -> String {
        let text = str::from_utf8(line.bytes).unwrap();
        match line.extent {
            Extent::Torn => format!("{text}~"),
            Extent::Whole | Extent::Piece { .. } => text.trim_end().to_owned(),
        }
    }

    fn log(content: &str) -> Log {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        fs::write(&path, content).unwrap();
        let source = Source::named(&path).unwrap();
        let follower = Follower::open(&path, &source).unwrap();
        Log { folder, follower }
    }

    #[test]
    fn lines_are_read_as_they_come_and_halves_are_waited_for() {
        let mut log = log("one\ntw");
        assert_eq!(log.now(), ["one"]);
        assert!(log.now().is_empty());
        log.append("log", "o\nthree\n");
        assert_eq!(log.now(), ["two", "three"]);
    }

    #[test]
    fn every_rotation_between_two_looks_is_followed() {
        let mut log = log("one\n");
        assert_eq!(log.now(), ["one"]);
        log.append("log", "two\ntorn");
        log.rename("log", "log.1");
        assert_eq!(log.now(), ["two"]);
        log.append("log", "three\n");
        log.rename("log.1", "log.2");
        log.rename("log", "log.1");
        log.append("log", "four\nfi");
        assert_eq!(log.now(), ["torn~", "three", "four"]);
        log.append("log", "ve\n");
        assert_eq!(log.now(), ["five"]);
    }

    #[test]
    fn an_empty_new_file_does_not_end_the_old_one() {
        let mut log = log("one\n");
        assert_eq!(log.now(), ["one"]);
        log.rename("log", "log.1");
        log.append("log", "");
        log.append("log.1", "two\n");
        assert_eq!(log.now(), ["two"]);
        log.append("log", "three\n");
        assert_eq!(log.now(), ["three"]);
    }

    #[test]
    fn a_file_that_was_cut_is_read_anew_and_one_moved_elsewhere_is_replaced() {
        let mut log = log("one\ntwo\n");
        assert_eq!(log.now(), ["one", "two"]);
        fs::write(log.at("log"), "new\n").unwrap();
        assert_eq!(log.now(), ["cut", "new"]);
        log.rename("log", "elsewhere");
        log.append("log", "three\n");
        assert_eq!(log.now(), ["three"]);
    }

    #[test]
    fn what_rotations_removed_unread_is_told() {
        let mut log = log("one\n");
        assert_eq!(log.now(), ["one"]);
        fs::remove_file(log.at("log")).unwrap();
        log.append("log.2", "two\n");
        log.append("log.1", "three\n");
        log.append("log", "four\n");
        assert_eq!(log.now(), ["lost", "four"]);
    }

    #[test]
    fn a_cut_within_a_half_read_line_is_seen() {
        let mut log = log("one\ntw");
        assert_eq!(log.now(), ["one"]);
        fs::write(log.at("log"), "five\n").unwrap();
        assert_eq!(log.now(), ["cut", "five"]);
    }
}
