//! What becomes of each line.

use std::{
    collections::VecDeque,
    io::{self, Write},
    mem,
};

use super::{
    LogsArgs,
    summary::{self, Form},
};
use crate::{
    cli::{Environment, json::json},
    review::{
        Extent, RawLine,
        entry::Entry,
        filter::Passed,
        render::{Renderer, Row},
        suggest::Suggest,
        summary::Summary,
    },
};

/// Rows of each kind in a table, unless `--top` says otherwise.
const TOP: usize = 20;

/// The answer, in its form.
pub(super) struct View {
    kind: Kind,
    /// The last lines, until it is known which those are.
    tail: Option<Tail>,
}

enum Kind {
    /// The lines as they stand in the log.
    Original,
    /// Lines for a person.
    Readable(Renderer),
    /// Counts, in a form or as an object.
    Summary {
        summary: Box<Summary>,
        form: Option<Form>,
        top: Option<usize>,
    },
    /// Lines that would have allowed what was refused, as TOML or as an object.
    Suggestion {
        suggest: Box<Suggest>,
        as_json: bool,
    },
}

struct Tail {
    most: usize,
    held: VecDeque<Held>,
}

/// A line that may be printed later.
enum Held {
    Original(Vec<u8>),
    Readable(Passed),
}

impl View {
    pub(super) fn of(args: &LogsArgs, environment: &Environment) -> anyhow::Result<Self> {
        Ok(Self {
            kind: Kind::of(args, environment)?,
            tail: args.tail.map(|most| Tail {
                most: most.into(),
                held: VecDeque::new(),
            }),
        })
    }

    /// Takes in one line that passed.
    pub(super) fn take(
        &mut self,
        line: &RawLine<'_>,
        passed: Passed,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        let held = match (&mut self.kind, &self.tail) {
            (Kind::Summary { summary, .. }, _) => {
                summary.add(&passed);
                return Ok(());
            }
            (Kind::Suggestion { suggest, .. }, _) => {
                match &passed.entry {
                    Entry::Event(event) => suggest.line(event, passed.target.as_ref()),
                    Entry::Run(record) => suggest.run(record),
                }
                return Ok(());
            }
            (Kind::Original, None) => return original(line, out),
            (Kind::Original, Some(_)) => {
                let mut bytes = Vec::with_capacity(line.bytes.len());
                original(line, &mut bytes)?;
                Held::Original(bytes)
            }
            (Kind::Readable(_), _) => Held::Readable(passed),
        };
        match &mut self.tail {
            Some(tail) => {
                tail.held.push_back(held);
                if tail.held.len() > tail.most {
                    tail.held.pop_front();
                }
                Ok(())
            }
            None => self.show(&held, out),
        }
    }

    /// Prints the last lines of what was there; those that come now are printed as they come.
    pub(super) fn settle(&mut self, out: &mut dyn Write) -> io::Result<()> {
        let tail = mem::take(&mut self.tail);
        for held in tail.into_iter().flat_map(|tail| tail.held) {
            self.show(&held, out)?;
        }
        Ok(())
    }

    /// Prints what is known only at the end.
    pub(super) fn finish(mut self, out: &mut dyn Write) -> io::Result<()> {
        self.settle(out)?;
        match self.kind {
            Kind::Original | Kind::Readable(_) => Ok(()),
            Kind::Summary { summary, form, top } => {
                let report = summary.report(top);
                match form {
                    Some(form) => summary::write(&report, form, out),
                    None => json(&report, out),
                }
            }
            Kind::Suggestion { suggest, as_json } => {
                let suggestions = suggest.finish();
                if as_json {
                    json(&suggestions, out)
                } else {
                    suggestions.write_toml(out)
                }
            }
        }
    }

    fn show(&mut self, held: &Held, out: &mut dyn Write) -> io::Result<()> {
        match (held, &mut self.kind) {
            (Held::Original(bytes), _) => out.write_all(bytes),
            (Held::Readable(passed), Kind::Readable(renderer)) => {
                renderer.write(&Row::of(passed), out)
            }
            (
                Held::Readable(_),
                Kind::Original | Kind::Summary { .. } | Kind::Suggestion { .. },
            ) => Ok(()),
        }
    }
}

impl Kind {
    fn of(args: &LogsArgs, environment: &Environment) -> anyhow::Result<Self> {
        if args.suggest {
            return Ok(Self::Suggestion {
                suggest: Box::new(Suggest::new(args.in_force(environment)?)),
                as_json: args.json,
            });
        }
        if !args.summary {
            return Ok(if args.json {
                Self::Original
            } else {
                Self::Readable(Renderer::new(args.look(environment)))
            });
        }
        let colour = args.colour(environment);
        let form = match (args.json, args.markdown) {
            (true, _) => None,
            (false, true) => Some(Form::Markdown),
            (false, false) => Some(Form::Text { colour }),
        };
        let top = args.top.map(usize::from);
        Ok(Self::Summary {
            summary: Box::new(Summary::new(args.by())),
            form,
            top: top.or_else(|| form.map(|_| TOP)),
        })
    }
}

/// Prints the line as it stands in the log.
fn original(line: &RawLine<'_>, out: &mut dyn Write) -> io::Result<()> {
    out.write_all(line.bytes)?;
    match line.extent {
        // Only its end was lost of a line that can be read.
        Extent::Torn => out.write_all(b"\n"),
        Extent::Whole | Extent::Piece { .. } => Ok(()),
    }
}
