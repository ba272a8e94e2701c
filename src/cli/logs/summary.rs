//! A summary as tables for a person, or as Markdown for a ticket.

use std::io::{self, Write};

use comfy_table::{Cell, CellAlignment, Table, presets::ASCII_MARKDOWN};
use indicatif::DecimalBytes;

use crate::{
    cli::table::{plain_table, verdict},
    record::escape::{Layout, escaped},
    review::{
        render::elapsed,
        summary::{By, ExchangeLine, GroupReport, Report, Rest},
    },
};

/// For whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// A person at a terminal, or a file of plain text.
    Text {
        /// Whether it may be coloured.
        colour: bool,
    },
    /// A page that renders Markdown.
    Markdown,
}

/// Writes the whole report.
pub(super) fn write(report: &Report, form: Form, out: &mut dyn Write) -> io::Result<()> {
    let mut groups = report.groups.iter().peekable();
    if groups.peek().is_none() {
        return writeln!(out, "No line was asked for, or there is none.");
    }
    for (number, group) in groups.enumerate() {
        if number > 0 {
            writeln!(out)?;
        }
        let title = match (report.by, &group.name) {
            (By::All, _) => "Summary".to_owned(),
            (By::Run, Some(run)) => format!("Run {}", form.text(run)),
            (By::Run, None) => "No run".to_owned(),
            (By::Profile, Some(profile)) => format!("Profile {}", form.text(profile)),
            (By::Profile, None) => "No profile".to_owned(),
            (By::Client, Some(client)) => format!("Client {}", form.text(client)),
            (By::Client, None) => "No client".to_owned(),
        };
        write_group(&title, group, form, out)?;
    }
    if let Some(beyond) = &report.beyond {
        writeln!(out)?;
        write_group("All others together", beyond, form, out)?;
    }
    Ok(())
}

fn write_group(
    title: &str,
    group: &GroupReport,
    form: Form,
    out: &mut dyn Write,
) -> io::Result<()> {
    match form {
        Form::Text { .. } => writeln!(out, "{title}")?,
        Form::Markdown => writeln!(out, "## {title}\n")?,
    }
    totals(group, form, out)?;
    reached(group, form, out)?;
    refused(group, form, out)?;
    asked(group, form, out)?;
    exchanges("Slowest", &group.slowest, form, out)?;
    exchanges("Largest uploads", &group.uploads, form, out)?;
    runs(group, form, out)
}

fn totals(group: &GroupReport, form: Form, out: &mut dyn Write) -> io::Result<()> {
    let totals = &group.totals;
    let mut lines = Vec::new();
    if let (Some(first), Some(last)) = (&group.first, &group.last) {
        lines.push(format!("from {first} to {last}"));
    }
    let (up, down) = (
        DecimalBytes(totals.bytes_up),
        DecimalBytes(totals.bytes_down),
    );
    lines.push(format!(
        "exchanges: {} let through ({up} up, {down} down), {} refused",
        totals.allowed, totals.denied,
    ));
    lines.push(format!(
        "DNS queries: {} answered, {} refused",
        totals.queries, totals.queries_denied
    ));
    for (count, what) in [
        (totals.would_deny, "let through by report mode alone"),
        (
            totals.unrecorded,
            "refused while the log could not be written, without a record",
        ),
    ] {
        if count > 0 {
            lines.push(format!("{what}: {count}"));
        }
    }
    let bullet = match form {
        Form::Text { .. } => "",
        Form::Markdown => "- ",
    };
    for line in lines {
        writeln!(out, "{bullet}{line}")?;
    }
    Ok(())
}

fn reached(group: &GroupReport, form: Form, out: &mut dyn Write) -> io::Result<()> {
    let mut table = form.table(&["HOST", "COUNT", "UP", "DOWN"]);
    for line in &group.allowed {
        table.add_row([
            Cell::new(form.text(&format!("{}:{}", line.host, line.port))),
            Cell::new(line.count),
            Cell::new(DecimalBytes(line.bytes_up)),
            Cell::new(DecimalBytes(line.bytes_down)),
        ]);
    }
    form.section("Reached", &mut table, &[1, 2, 3], out)?;
    form.rest(&group.allowed_rest, out)
}

fn refused(group: &GroupReport, form: Form, out: &mut dyn Write) -> io::Result<()> {
    let mut table = form.table(&["HOST", "DECISION", "REASON", "COUNT"]);
    for line in &group.denied {
        let host = line.host.as_deref().unwrap_or("-");
        let place = match line.port {
            Some(port) => format!("{host}:{port}"),
            None => host.to_owned(),
        };
        table.add_row([
            Cell::new(form.text(&place)),
            verdict(line.decision),
            Cell::new(form.text(&line.reason)),
            Cell::new(line.count),
        ]);
    }
    form.section("Refused", &mut table, &[3], out)?;
    form.rest(&group.denied_rest, out)
}

fn asked(group: &GroupReport, form: Form, out: &mut dyn Write) -> io::Result<()> {
    let mut table = form.table(&["NAME", "TYPE", "DECISION", "COUNT"]);
    for line in &group.dns {
        let name = match line.name.as_str() {
            "" => "many names".to_owned(),
            name => form.text(name),
        };
        table.add_row([
            Cell::new(name),
            Cell::new(form.text(&line.record_type)),
            verdict(line.decision),
            Cell::new(line.count),
        ]);
    }
    form.section("Names asked for", &mut table, &[3], out)?;
    form.rest(&group.dns_rest, out)?;
    if group.samples.is_empty() {
        return Ok(());
    }
    let samples = group.samples.iter().map(|sample| form.text(sample));
    let samples = samples.collect::<Vec<_>>().join(" ");
    writeln!(out, "Among what was folded into one line: {samples}")
}

fn exchanges(
    title: &str,
    lines: &[ExchangeLine],
    form: Form,
    out: &mut dyn Write,
) -> io::Result<()> {
    let mut table = form.table(&["HOST", "TIME", "UP", "DOWN", "OUTCOME", "ID"]);
    for line in lines {
        table.add_row([
            Cell::new(form.text(&format!("{}:{}", line.host, line.port))),
            Cell::new(elapsed(line.duration_ms)),
            Cell::new(DecimalBytes(line.bytes_up)),
            Cell::new(DecimalBytes(line.bytes_down)),
            Cell::new(form.text(&line.outcome)),
            Cell::new(form.text(&line.id)),
        ]);
    }
    form.section(title, &mut table, &[1, 2, 3], out)
}

fn runs(group: &GroupReport, form: Form, out: &mut dyn Write) -> io::Result<()> {
    let mut table = form.table(&["RUN", "EXIT", "TIME", "COMMAND"]);
    for line in &group.runs {
        table.add_row([
            Cell::new(form.text(&line.run)),
            Cell::new(line.exit_code),
            Cell::new(elapsed(line.duration_ms)),
            Cell::new(form.text(&line.command.join(" "))),
        ]);
    }
    form.section("Runs", &mut table, &[1, 2], out)
}

impl Form {
    /// Text of others. In Markdown it stands as code, so that it can neither link, mention nor
    /// format anything, nor end its cell.
    fn text(self, text: &str) -> String {
        let text = escaped(text.as_bytes(), Layout::Line);
        match self {
            Self::Text { .. } => text,
            Self::Markdown => {
                let text = text.replace('`', "\\u{60}").replace('|', "\\u{7c}");
                format!("`{text}`")
            }
        }
    }

    fn table(self, header: &[&str]) -> Table {
        let mut table = Table::new();
        match self {
            Self::Text { colour } => table = plain_table(colour),
            Self::Markdown => {
                table.load_style(ASCII_MARKDOWN);
                table.force_no_tty();
            }
        }
        table.set_header(header);
        table
    }

    /// A table under its title; nothing where it has no rows.
    fn section(
        self,
        title: &str,
        table: &mut Table,
        numbers: &[usize],
        out: &mut dyn Write,
    ) -> io::Result<()> {
        if table.row_count() == 0 {
            return Ok(());
        }
        for number in numbers {
            if let Some(column) = table.column_mut(*number) {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        match self {
            Self::Text { .. } => writeln!(out, "\n{title}")?,
            Self::Markdown => writeln!(out, "\n### {title}\n")?,
        }
        for line in table.lines() {
            writeln!(out, "{}", line.trim())?;
        }
        Ok(())
    }

    /// What has no row.
    fn rest(self, rest: &Rest, out: &mut dyn Write) -> io::Result<()> {
        if rest.count > 0 || rest.bytes_up > 0 || rest.bytes_down > 0 {
            if self == Self::Markdown {
                writeln!(out)?;
            }
            write!(out, "and {} more", rest.count)?;
            if rest.bytes_up > 0 || rest.bytes_down > 0 {
                let (up, down) = (DecimalBytes(rest.bytes_up), DecimalBytes(rest.bytes_down));
                write!(out, " ({up} up, {down} down)")?;
            }
            writeln!(out)?;
        }
        if !rest.is_exact {
            writeln!(
                out,
                "There are too many others to tell apart; a row is the least it can be."
            )?;
        }
        Ok(())
    }
}
