//! What of a log is no record: reported and passed over, never fatal.

use std::fmt;

use super::RawLine;
use crate::{audit::lines::Extent, record::LineError};

/// Faults that are named one by one; a log of another program would have nothing else.
const NAMED: usize = 5;

/// Lines that were passed over.
#[derive(Clone, Debug, Default)]
pub struct Faults {
    /// The first of them, each in one line.
    pub named: Vec<String>,
    /// How many there are in all.
    pub count: u64,
}

impl Faults {
    /// Counts a line that is no record; a line in pieces counts once.
    pub fn add(
        &mut self,
        source: &impl fmt::Display,
        line: &RawLine<'_>,
        error: Option<&LineError>,
    ) {
        let what = match (line.extent, error) {
            (Extent::Piece { first: false }, _) => return,
            (Extent::Piece { first: true }, _) => "is longer than 1 MiB".to_owned(),
            (Extent::Torn, _) => "is torn: it has no end".to_owned(),
            (Extent::Whole, Some(LineError::Newer(schema))) => {
                format!("is of schema {schema}, which a later version wrote")
            }
            (Extent::Whole, Some(LineError::Foreign(_)) | None) => "is not a record".to_owned(),
        };
        self.count += 1;
        if self.named.len() < NAMED {
            self.named
                .push(format!("{source}, line {}: {what}", line.number));
        }
    }
}
