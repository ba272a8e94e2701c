//! Tables for a person.

use std::io::{self, Write};

use comfy_table::{Cell, Color, Table, presets::NOTHING};

use crate::policy::Decision;

/// A decision in its colour.
pub(in crate::cli) fn verdict(decision: Decision) -> Cell {
    let colour = match decision {
        Decision::Allow => Color::Green,
        Decision::Deny => Color::Red,
        Decision::WouldDeny => Color::Yellow,
    };
    Cell::new(decision.as_str()).fg(colour)
}

/// A table without lines that never wraps, so that it can be cut by columns as well as read.
pub(in crate::cli) fn plain_table(colour: bool) -> Table {
    let mut table = Table::new();
    table.load_style(NOTHING);
    if colour {
        table.enforce_styling();
        table.style_text_only();
    } else {
        table.force_no_tty();
    }
    table
}

/// Prints a table, each line without the blanks that fill it.
pub(in crate::cli) fn print_table(table: &Table, out: &mut dyn Write) -> io::Result<()> {
    for line in table.lines() {
        writeln!(out, "{}", line.trim())?;
    }
    Ok(())
}
