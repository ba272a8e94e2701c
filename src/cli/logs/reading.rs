//! One pass over the logs.

use std::{
    io::{self, BufWriter, ErrorKind, Write},
    mem,
    path::Path,
    time::Duration,
};

use jiff::Timestamp;

use super::{
    LogsArgs,
    stop::{self, Stop},
    view::View,
};
use crate::{
    cli::{Environment, progress::Progress},
    record::escape::{Layout, escaped},
    review::{
        Extent, RawLine,
        faults::Faults,
        filter::Filter,
        follow::{Follower, Turn},
        source::{Source, SourceError},
    },
};

/// Bytes that are written at once.
const CHUNK: usize = 1 << 16;

/// How long a followed log is left alone when there was nothing new.
const PAUSE: Duration = Duration::from_millis(200);

/// What reads, what passes, and where it goes.
pub(super) struct Reading<'o> {
    pass: Pass<'o>,
    progress: Progress,
    stop: Option<Stop>,
}

struct Pass<'o> {
    filter: Filter,
    view: View,
    faults: Faults,
    out: BufWriter<&'o mut dyn Write>,
    /// Whether each line is shown at once: somebody waits for it.
    is_prompt: bool,
}

/// Why a log was not read to its end.
pub(super) enum ReadError {
    /// It cannot be read; the next one may be.
    Source(SourceError),
    /// Nobody takes what is printed.
    Output(io::Error),
}

impl<'o> Reading<'o> {
    /// What `args` ask for, of `sources`.
    pub(super) fn new(
        args: &LogsArgs,
        environment: &Environment,
        sources: &[Source],
        out: &'o mut dyn Write,
    ) -> anyhow::Result<Self> {
        Ok(Self {
            pass: Pass {
                filter: args.filter(Timestamp::now())?,
                view: View::of(args, environment)?,
                faults: Faults::default(),
                out: BufWriter::with_capacity(CHUNK, out),
                is_prompt: environment.is_terminal_out,
            },
            progress: Progress::through(sources, environment.is_terminal_err),
            stop: args.follow.then(Stop::catch).transpose()?,
        })
    }

    /// Reads one log to its end.
    pub(super) fn read(&mut self, source: &Source) -> Result<(), ReadError> {
        let watch = |file| self.progress.watch(file);
        let mut lines = source.open_through(watch).map_err(ReadError::Source)?;
        while let Some(line) = lines
            .next_line()
            .map_err(|error| ReadError::Source(source.unreadable(error)))?
        {
            self.take(&line, source)?;
            if self.is_stopped() {
                break;
            }
        }
        Ok(())
    }

    /// Reads `log`, whose current file is `source`, until it is to stop.
    pub(super) fn follow(
        &mut self,
        log: &Path,
        source: &Source,
        err: &mut dyn Write,
    ) -> Result<(), ReadError> {
        let mut follower = Follower::open(log, source).map_err(ReadError::Source)?;
        let mut is_settled = false;
        while !self.is_stopped() {
            let next = follower.next_line().map_err(ReadError::Source)?;
            if let Some(line) = next {
                self.take(&line, source)?;
                continue;
            }
            match follower.turn().map_err(ReadError::Source)? {
                Turn::Rotated => {}
                Turn::Cut => note(err, source, "was cut; reading it anew")?,
                Turn::Lost => note(err, source, "was rotated away before all of it was read")?,
                Turn::Same => {
                    let faults = mem::take(&mut self.pass.faults);
                    super::tell(&faults, err).map_err(ReadError::Output)?;
                    if !is_settled {
                        is_settled = true;
                        self.progress.end();
                        self.pass
                            .view
                            .settle(&mut self.pass.out)
                            .map_err(ReadError::Output)?;
                    }
                    self.pause()?;
                }
            }
        }
        Ok(())
    }

    /// Prints what is known only at the end, and gives what was passed over.
    pub(super) fn finish(self) -> io::Result<Faults> {
        self.progress.end();
        let Pass {
            view,
            faults,
            mut out,
            ..
        } = self.pass;
        view.finish(&mut out)?;
        out.flush()?;
        Ok(faults)
    }

    fn take(&mut self, line: &RawLine<'_>, source: &Source) -> Result<(), ReadError> {
        let Self { pass, progress, .. } = self;
        pass.take(line, source, progress).map_err(ReadError::Output)
    }

    fn is_stopped(&self) -> bool {
        self.stop.as_ref().is_some_and(Stop::is_asked)
    }

    /// Shows what there is, and waits for more.
    fn pause(&mut self) -> Result<(), ReadError> {
        self.pass.out.flush().map_err(ReadError::Output)?;
        if stop::is_output_closed() {
            return Err(ReadError::Output(ErrorKind::BrokenPipe.into()));
        }
        if let Some(stop) = &mut self.stop {
            stop.wait(PAUSE);
        }
        Ok(())
    }
}

/// Says what became of the log that is followed.
fn note(err: &mut dyn Write, source: &Source, what: &str) -> Result<(), ReadError> {
    let note = format!("{source} {what}");
    let note = escaped(note.as_bytes(), Layout::Line);
    writeln!(err, "eclusa: warning: {note}").map_err(ReadError::Output)
}

impl Pass<'_> {
    fn take(&mut self, line: &RawLine<'_>, source: &Source, progress: &Progress) -> io::Result<()> {
        let passed = match line.extent {
            Extent::Whole | Extent::Torn => self.filter.pass(line.bytes).map_err(Some),
            Extent::Piece { .. } => Err(None),
        };
        match passed {
            Ok(Some(passed)) => {
                self.view.take(line, passed, &mut self.out)?;
                if self.is_prompt {
                    progress.aside(|| self.out.flush())?;
                }
            }
            Ok(None) => {}
            Err(error) => self.faults.add(source, line, error.as_ref()),
        }
        Ok(())
    }
}
