//! `eclusa logs --verify`: whether a log is as it was written.

use std::{
    io::{self, Write},
    process::ExitCode,
};

use serde::Serialize;

use super::{LogsArgs, args::usage};
use crate::{
    cli::{Environment, Exit, json::json, progress::Progress},
    record::{
        Link,
        escape::{Layout, escaped},
    },
    review::{
        counted,
        verify::{At, Beginning, Break, Cause, FileProof, Proof, verify},
    },
};

/// Proves the logs and prints the proof. Exit code 1: something was changed, or nothing is proven.
pub(super) fn run(
    args: &LogsArgs,
    environment: &Environment,
    out: &mut dyn Write,
) -> anyhow::Result<ExitCode> {
    let sources = args.sources(environment)?;
    let progress = Progress::through(&sources, environment.is_terminal_err);
    let proof = verify(&sources, args.proof.head, |file| progress.watch(file));
    progress.end();
    let proof = proof.map_err(usage)?;
    if args.json {
        json(&Report::of(&proof), out)?;
    } else {
        print(&proof, out)?;
    }
    Ok(if proof.is_whole() {
        ExitCode::SUCCESS
    } else {
        Exit::Denied.into()
    })
}

fn print(proof: &Proof, out: &mut dyn Write) -> io::Result<()> {
    for file in proof.read() {
        writeln!(out, "{}", FileLine(file))?;
    }
    match proof.begins {
        Beginning::Nowhere | Beginning::Unchained => {}
        Beginning::First => writeln!(out, "begins with the first line of the log")?,
        Beginning::After(link) => writeln!(out, "begins after {link}, which is not there")?,
        Beginning::Bound => writeln!(
            out,
            "begins after {} of an earlier version",
            counted(proof.unchained, "line")
        )?,
    }
    for at in &proof.torn {
        writeln!(
            out,
            "{}: names no line before it; torn, or not written by the proxy",
            Place(proof, *at)
        )?;
    }
    let named = u64::try_from(proof.torn.len()).unwrap_or(u64::MAX);
    match proof.torn_count.saturating_sub(named) {
        0 => {}
        more => writeln!(out, "{more} more lines are no whole records")?,
    }
    match (&proof.broken, proof.missing) {
        (Some(broken), _) => print_break(proof, broken, out),
        (None, Some(head)) => {
            writeln!(out, "head {}", proof.head)?;
            writeln!(
                out,
                "broken: no line has the link {head}: lines were cut off the end, or the files \
                 that held it are not there"
            )
        }
        (None, None) => {
            if proof.is_whole() {
                writeln!(out, "head {}", proof.head)?;
            }
            writeln!(out, "{}", verdict(proof))
        }
    }
}

fn verdict(proof: &Proof) -> String {
    match proof.begins {
        Beginning::Nowhere => "not proven: there is no line".to_owned(),
        Beginning::Unchained => {
            "not proven: no line names the one before it, as in a log of an earlier version"
                .to_owned()
        }
        Beginning::After(_) if !proof.may_follow => {
            "not proven: no rotated file could hold the line that the first one follows; the \
             beginning was removed, or moved elsewhere"
                .to_owned()
        }
        Beginning::After(_) => format!(
            "ok from there on: {}, none changed, removed or moved; what stood before was rotated \
             away, or is not among these files",
            extent(proof)
        ),
        Beginning::First | Beginning::Bound => {
            format!("ok: {}, none changed, removed or moved", extent(proof))
        }
    }
}

/// `59 lines in 1 file`.
fn extent(proof: &Proof) -> String {
    let (lines, files) = (proof.lines(), proof.files.len());
    format!("{} in {}", counted(lines, "line"), counted(files, "file"))
}

fn print_break(proof: &Proof, broken: &Break, out: &mut dyn Write) -> io::Result<()> {
    let at = broken.at;
    writeln!(out, "broken: {}, byte {}", Place(proof, at), at.offset)?;
    if broken.cause == Cause::Foreign {
        return writeln!(out, "  {}", why(proof, broken));
    }
    writeln!(out, "  it names     {}", broken.found)?;
    match broken.before {
        Some(before) => writeln!(
            out,
            "  not the last {} ({})",
            broken.expected,
            Place(proof, before)
        )?,
        None => writeln!(out, "  not the last {}", broken.expected)?,
    }
    writeln!(out, "  {}", why(proof, broken))
}

/// What may have been done.
fn why(proof: &Proof, broken: &Break) -> String {
    match broken.cause {
        Cause::Lost if broken.at.line == 1 => "the file before it was changed or cut off at its \
             end, or a file between the two is not there"
            .to_owned(),
        Cause::Lost => {
            "the line before it was changed, or lines between the two were removed".to_owned()
        }
        Cause::Moved(at) => format!(
            "the line that it names is {}: lines were moved or inserted, or the files are given \
             in another order",
            Place(proof, at)
        ),
        Cause::Anew => "a chain begins anew: what stood before was taken away while the proxy did \
             not run, or the proxy writes to a stream"
            .to_owned(),
        Cause::Foreign => {
            "it is a whole record and names none before it: the proxy did not write it, or an \
             earlier version did after this one"
                .to_owned()
        }
        Cause::Unbound => {
            "a line of an earlier version, before it in this file, was changed, removed or added"
                .to_owned()
        }
    }
}

/// A line by its file and number.
struct Place<'p>(&'p Proof, At);

impl std::fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let file = escaped(self.0.file(self.1).as_bytes(), Layout::Line);
        write!(f, "{file}, line {}", self.1.line)
    }
}

/// A file, its length and the times in it.
struct FileLine<'p>(&'p FileProof);

impl std::fmt::Display for FileLine<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self(file) = self;
        let name = escaped(file.file.as_bytes(), Layout::Line);
        write!(f, "{name}: {}", counted(file.lines, "line"))?;
        match (file.first, file.last) {
            (Some(first), Some(last)) => write!(f, ", {first:.3} to {last:.3}"),
            _ => Ok(()),
        }
    }
}

/// The proof for a program.
#[derive(Serialize)]
struct Report<'p> {
    /// `ok`, `broken` or `not_proven`.
    verdict: &'static str,
    files: Vec<FileReport<'p>>,
    lines: u64,
    /// Lines of an earlier version before the chain.
    unchained: u64,
    /// Lines in the chain that are no whole records.
    torn: u64,
    /// The link that the first line names, where it names one.
    after: Option<Link>,
    head: Link,
    /// The head that was asked for and is not there.
    #[serde(skip_serializing_if = "Option::is_none")]
    missing: Option<Link>,
    #[serde(skip_serializing_if = "Option::is_none")]
    broken: Option<BreakReport<'p>>,
}

#[derive(Serialize)]
struct FileReport<'p> {
    file: &'p str,
    lines: u64,
    first: Option<String>,
    last: Option<String>,
}

#[derive(Serialize)]
struct BreakReport<'p> {
    file: &'p str,
    line: u64,
    offset: u64,
    expected: Link,
    found: Link,
    /// `lost`, `moved`, `anew`, `unbound` or `foreign`.
    cause: &'static str,
    why: String,
}

impl<'p> Report<'p> {
    fn of(proof: &'p Proof) -> Self {
        let is_broken = proof.broken.is_some() || proof.missing.is_some();
        let time = |time: jiff::Timestamp| format!("{time:.3}");
        Self {
            verdict: match (proof.is_whole(), is_broken) {
                (true, _) => "ok",
                (false, true) => "broken",
                (false, false) => "not_proven",
            },
            files: proof
                .read()
                .iter()
                .map(|file| FileReport {
                    file: &file.file,
                    lines: file.lines,
                    first: file.first.map(time),
                    last: file.last.map(time),
                })
                .collect(),
            lines: proof.lines(),
            unchained: proof.unchained,
            torn: proof.torn_count,
            after: match proof.begins {
                Beginning::First => Some(Link::FIRST),
                Beginning::After(link) => Some(link),
                Beginning::Nowhere | Beginning::Unchained | Beginning::Bound => None,
            },
            head: proof.head,
            missing: proof.missing,
            broken: proof.broken.as_ref().map(|broken| BreakReport {
                file: proof.file(broken.at),
                line: broken.at.line,
                offset: broken.at.offset,
                expected: broken.expected,
                found: broken.found,
                cause: match broken.cause {
                    Cause::Lost => "lost",
                    Cause::Moved(_) => "moved",
                    Cause::Anew => "anew",
                    Cause::Unbound => "unbound",
                    Cause::Foreign => "foreign",
                },
                why: why(proof, broken),
            }),
        }
    }
}

#[cfg(test)]
mod tests;
