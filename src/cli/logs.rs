//! `eclusa logs`: what the log says, for a person or a program.

mod args;
mod conditions;
mod reading;
mod stop;
mod summary;
mod verify;
mod view;

#[cfg(test)]
mod tests;

use std::{
    io::{self, ErrorKind, Write},
    process::ExitCode,
};

pub(crate) use self::args::{LogsArgs, usage};
use self::reading::{ReadError, Reading};
use super::Environment;
use crate::{
    record::escape::{Layout, escaped},
    review::{faults::Faults, source::SourceError},
};

/// Reads the logs and prints what was asked for. Exit code 64: a log cannot be read, or an argument
/// is wrong.
pub(crate) fn run(
    args: &LogsArgs,
    environment: &Environment,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> anyhow::Result<ExitCode> {
    if args.proof.verify {
        return verify::run(args, environment, out).or_else(|error| match error.downcast() {
            Ok(error) => closed(error),
            Err(other) => Err(other),
        });
    }
    let sources = args.sources(environment)?;
    let mut reading = Reading::new(args, environment, &sources, out)?;
    let mut unread = Vec::new();
    let followed = args.followed(&sources)?;
    let (current, complete) = match (&followed, sources.split_last()) {
        (Some(_), Some((current, complete))) => (Some(current), complete),
        _ => (None, &*sources),
    };
    for source in complete {
        match reading.read(source) {
            Ok(()) => {}
            Err(ReadError::Source(error)) => unread.push(error),
            Err(ReadError::Output(error)) => return closed(error),
        }
    }
    if let (Some(log), Some(current)) = (&followed, current) {
        match reading.follow(log, current, err) {
            Ok(()) => {}
            Err(ReadError::Source(error)) => unread.push(error),
            Err(ReadError::Output(error)) => return closed(error),
        }
    }
    match reading.finish() {
        Ok(faults) => tell(&faults, err)?,
        Err(error) => return closed(error),
    }
    outcome(unread, err)
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
        let fault = escaped(fault.as_bytes(), Layout::Line);
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
