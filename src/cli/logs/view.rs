//! What becomes of each line.

use std::io::{self, Write};

use super::LogsArgs;
use crate::{
    cli::Environment,
    record::LineError,
    review::{Extent, RawLine, entry::Entry, render::Renderer},
};

/// The form of the answer.
pub(super) enum View {
    /// The lines as they stand in the log.
    Original,
    /// Lines for a person.
    Readable(Renderer),
}

/// A line that is no record, and where it could be read at all, why not.
pub(super) type Fault = Option<LineError>;

impl View {
    pub(super) fn of(args: &LogsArgs, environment: &Environment) -> Self {
        if args.json {
            Self::Original
        } else {
            Self::Readable(Renderer::new(args.look(environment)))
        }
    }

    /// Takes in one line; the fault of one that is no record.
    pub(super) fn take(
        &mut self,
        line: &RawLine<'_>,
        out: &mut dyn Write,
    ) -> io::Result<Option<Fault>> {
        match line.extent {
            Extent::Whole | Extent::Torn => {}
            Extent::Piece { .. } => return Ok(Some(None)),
        }
        let entry = match Entry::parse(line.bytes) {
            Ok(entry) => entry,
            Err(error) => return Ok(Some(Some(error))),
        };
        match self {
            Self::Original => {
                out.write_all(line.bytes)?;
                // Only the end was lost of a line that can be read.
                if line.extent == Extent::Torn {
                    out.write_all(b"\n")?;
                }
            }
            Self::Readable(renderer) => renderer.write(&entry, out)?,
        }
        Ok(None)
    }
}
