//! Answers for a program.

use std::io::{self, Write};

use serde::Serialize;

/// Prints one value over several lines.
pub(super) fn json(value: &impl Serialize, out: &mut dyn Write) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut *out, value)?;
    writeln!(out)
}
