//! `eclusa logs`: what the log says, for a person or a program.

mod args;
mod verify;
mod view;

use std::{
    io::{self, BufWriter, ErrorKind, Write},
    process::ExitCode,
};

pub(crate) use self::args::{LogsArgs, usage};

use self::view::View;
use super::Environment;
use crate::review::{
    faults::Faults,
    source::{Source, SourceError},
};

/// Bytes that are written at once.
const CHUNK: usize = 1 << 16;

/// Reads the logs and prints what was asked for. Exit code 64: a log cannot be read, or an argument
/// is wrong.
pub(crate) fn run(
    args: &LogsArgs,
    environment: &Environment,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> anyhow::Result<ExitCode> {
    if args.proof.verify {
        return verify::run(args, environment, out);
    }
    let sources = args.sources(environment)?;
    let mut reading = Reading {
        view: View::of(args, environment),
        faults: Faults::default(),
        out: BufWriter::with_capacity(CHUNK, out),
    };
    let mut unread = Vec::new();
    for source in &sources {
        match reading.read(source) {
            Ok(()) => {}
            Err(ReadError::Source(error)) => unread.push(error),
            Err(ReadError::Output(error)) => return closed(error),
        }
    }
    if let Err(error) = reading.out.flush() {
        return closed(error);
    }
    tell(&reading.faults, err)?;
    outcome(unread, err)
}

/// One pass over the logs.
struct Reading<'o> {
    view: View,
    faults: Faults,
    out: BufWriter<&'o mut dyn Write>,
}

/// Why a log was not read to its end.
enum ReadError {
    /// It cannot be read; the next one may be.
    Source(SourceError),
    /// Nobody takes what is printed.
    Output(io::Error),
}

impl Reading<'_> {
    fn read(&mut self, source: &Source) -> Result<(), ReadError> {
        let mut lines = source.open().map_err(ReadError::Source)?;
        loop {
            let line = match lines.next_line() {
                Ok(Some(line)) => line,
                Ok(None) => return Ok(()),
                Err(error) => return Err(ReadError::Source(source.unreadable(error))),
            };
            let taken = self.view.take(&line, &mut self.out);
            if let Some(fault) = taken.map_err(ReadError::Output)? {
                self.faults.add(source, &line, fault.as_ref());
            }
        }
    }
}

/// Ends where the output does not take any more: a reader that went away, as `head` does, has what
/// it wanted.
fn closed(error: io::Error) -> anyhow::Result<ExitCode> {
    if error.kind() == ErrorKind::BrokenPipe {
        return Ok(ExitCode::SUCCESS);
    }
    Err(error.into())
}

/// Says what was passed over.
pub(super) fn tell(faults: &Faults, err: &mut dyn Write) -> io::Result<()> {
    for fault in &faults.named {
        writeln!(err, "eclusa: warning: {fault}; passed over")?;
    }
    let named = u64::try_from(faults.named.len()).unwrap_or(u64::MAX);
    match faults.count.saturating_sub(named) {
        0 => Ok(()),
        more => writeln!(err, "eclusa: warning: {more} more lines are no records"),
    }
}

/// The last of what could not be read is the error, those before it warnings.
fn outcome(mut unread: Vec<SourceError>, err: &mut dyn Write) -> anyhow::Result<ExitCode> {
    let Some(last) = unread.pop() else {
        return Ok(ExitCode::SUCCESS);
    };
    for error in unread {
        writeln!(err, "eclusa: warning: {}", usage(error))?;
    }
    Err(usage(last).into())
}
