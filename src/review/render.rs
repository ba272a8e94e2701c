//! One entry as one aligned line for a person. Whatever others chose in it is escaped.

mod row;

use std::io::{self, Write};

use anstyle::{AnsiColor, Style};
use jiff::{Timestamp, tz::TimeZone};

use self::row::{Row, Tone};
use super::{entry::Entry, exchanges::Exchanges};

/// How lines look.
#[derive(Clone, Debug)]
pub struct Look {
    /// Whose times a terminal shows; none: RFC 3339 in UTC, as in the log, for programs.
    pub zone: Option<TimeZone>,
    /// Whether verdicts are coloured.
    pub colour: bool,
}

/// Writes entries one after another.
#[derive(Debug)]
pub struct Renderer {
    look: Look,
    /// The offset that the last header told.
    offset: Option<jiff::tz::Offset>,
    exchanges: Exchanges,
}

impl Renderer {
    /// A renderer that has seen nothing yet.
    pub fn new(look: Look) -> Self {
        Self {
            look,
            offset: None,
            exchanges: Exchanges::default(),
        }
    }

    /// Writes one line, and before it a header where the times' offset begins or changes.
    ///
    /// # Errors
    /// `out` cannot be written.
    pub fn write(&mut self, entry: &Entry, out: &mut dyn Write) -> io::Result<()> {
        let row = match entry {
            Entry::Event(line) => {
                self.exchanges.open(line);
                Row::of_event(line, &mut self.exchanges)
            }
            Entry::Run(record) => Row::of_run(record),
        };
        self.time(entry.time(), out)?;
        self.row(&row, out)
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
            let columns = columns([&head, "VERDICT", "WHO", "VIA", "TARGET"], 23);
            writeln!(out, "{dim}{columns}DETAIL{dim:#}")?;
        }
        let shown = local.strftime("%Y-%m-%d %H:%M:%S%.3f");
        write!(out, "{dim}{shown}{dim:#}  ")
    }

    fn row(&self, row: &Row, out: &mut dyn Write) -> io::Result<()> {
        let tone = self.style(match row.tone {
            Tone::Good => AnsiColor::Green.on_default(),
            Tone::Bad => AnsiColor::Red.on_default().bold(),
            Tone::Odd => AnsiColor::Yellow.on_default(),
            Tone::Plain => Style::new(),
            Tone::Quiet => Style::new().dimmed(),
        });
        let line = format!(
            "{tone}{:11}{tone:#}  {:15}  {:7}  {:40}  {}",
            row.verdict,
            row.who,
            row.via,
            row.target,
            row.detail.join(", ")
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

/// The heads of all columns but the last.
fn columns([time, verdict, who, via, target]: [&str; 5], width: usize) -> String {
    format!("{time:width$}  {verdict:11}  {who:15}  {via:7}  {target:40}  ")
}

#[cfg(test)]
mod tests;
