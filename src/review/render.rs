//! One entry as one aligned line for a person. Whatever others chose in it is escaped.

mod columns;

use std::io::{self, Write};

use anstyle::{AnsiColor, Style};
use jiff::{SignedDuration, Timestamp, tz::TimeZone};

use self::columns::{Columns, Tone};
use super::{entry::Entry, filter::Passed};

/// How lines look.
#[derive(Clone, Debug)]
pub struct Look {
    /// Whose times a terminal shows; none: RFC 3339 in UTC, as in the log, for programs.
    pub zone: Option<TimeZone>,
    /// Whether verdicts are coloured.
    pub colour: bool,
}

/// One entry as it is shown.
#[derive(Debug)]
pub struct Row {
    time: Option<Timestamp>,
    columns: Columns,
}

impl Row {
    /// What is shown of a line that passed.
    pub fn of(passed: &Passed) -> Self {
        let columns = match &passed.entry {
            Entry::Event(line) => Columns::of_event(line, passed.target.as_ref()),
            Entry::Run(record) => Columns::of_run(record),
        };
        Self {
            time: passed.entry.time(),
            columns,
        }
    }
}

/// Writes entries one after another.
#[derive(Debug)]
pub struct Renderer {
    look: Look,
    /// The offset that the last header told.
    offset: Option<jiff::tz::Offset>,
}

impl Renderer {
    /// A renderer that has seen nothing yet.
    pub fn new(look: Look) -> Self {
        Self { look, offset: None }
    }

    /// Writes one line, and before it a header where the times' offset begins or changes.
    ///
    /// # Errors
    /// `out` cannot be written.
    pub fn write(&mut self, row: &Row, out: &mut dyn Write) -> io::Result<()> {
        self.time(row.time, out)?;
        self.columns(&row.columns, out)
    }

    fn time(&mut self, time: Option<Timestamp>, out: &mut dyn Write) -> io::Result<()> {
        let dim = self.style(Style::new().dimmed());
        let Some(zone) = &self.look.zone else {
            return match time {
                Some(time) => write!(out, "{time:.3}  "),
                None => write!(out, "{:24}  ", "-"),
            };
        };
        let Some(time) = time else {
            return write!(out, "{dim}{:23}{dim:#}  ", "-");
        };
        let local = time.to_zoned_datetime(zone.clone());
        if self.offset != Some(local.offset()) {
            self.offset = Some(local.offset());
            let head = match local.offset().seconds() {
                0 => "TIME (UTC)".to_owned(),
                _ => format!("TIME (UTC{})", local.offset()),
            };
            let heads = heads([&head, "VERDICT", "WHO", "VIA", "TARGET"], 23);
            writeln!(out, "{dim}{heads}DETAIL{dim:#}")?;
        }
        let shown = local.strftime("%Y-%m-%d %H:%M:%S%.3f");
        write!(out, "{dim}{shown}{dim:#}  ")
    }

    fn columns(&self, columns: &Columns, out: &mut dyn Write) -> io::Result<()> {
        let tone = self.style(match columns.tone {
            Tone::Good => AnsiColor::Green.on_default(),
            Tone::Bad => AnsiColor::Red.on_default().bold(),
            Tone::Odd => AnsiColor::Yellow.on_default(),
            Tone::Plain => Style::new(),
            Tone::Quiet => Style::new().dimmed(),
        });
        let line = format!(
            "{tone}{:11}{tone:#}  {:15}  {:7}  {:40}  {}",
            columns.verdict,
            columns.who,
            columns.via,
            columns.target,
            columns.detail.join(", ")
        );
        writeln!(out, "{}", line.trim_end())
    }

    fn style(&self, style: Style) -> Style {
        if self.look.colour {
            style
        } else {
            Style::new()
        }
    }
}

/// How long something took, for a person.
pub fn elapsed(millis: u64) -> String {
    match i64::try_from(millis) {
        Ok(0) => "<1ms".to_owned(),
        millis => format!(
            "{:#}",
            SignedDuration::from_millis(millis.unwrap_or(i64::MAX))
        ),
    }
}

/// The heads of all columns but the last.
fn heads([time, verdict, who, via, target]: [&str; 5], width: usize) -> String {
    format!("{time:width$}  {verdict:11}  {who:15}  {via:7}  {target:40}  ")
}

#[cfg(test)]
mod tests;
