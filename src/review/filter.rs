//! Which lines are asked for. Most lines of a long log are not, so a line in our own encoding is
//! judged by its bytes and parsed only when it passes.

mod conditions;
mod glance;
mod host;
mod run;

use ulid::Ulid;

pub use self::{
    conditions::{Conditions, Verdict},
    run::RUN_EVENT,
};
use self::{
    glance::{Fields, Glance, Moment},
    host::HostTest,
};
use super::{
    entry::Entry,
    exchanges::{Exchanges, Target},
};
use crate::{destination::Host, policy::Reason, record::LineError};

/// Passes lines that meet the conditions.
#[derive(Debug)]
pub struct Filter {
    conditions: Conditions,
    hosts: Vec<HostTest>,
    since: Option<Moment>,
    until: Option<Moment>,
    fields: Fields,
    exchanges: Exchanges<Decided>,
}

/// A line that passes.
#[derive(Clone, Debug, PartialEq)]
pub struct Passed {
    /// The record on it.
    pub entry: Entry,
    /// What a close is about; none where its decision was not seen.
    pub target: Option<Target>,
    /// Whether the decision of a close passed before it.
    pub follows: bool,
}

/// Whether a line passes, and if so, what it is about where it does not say itself.
enum Judged {
    Passes {
        target: Option<Target>,
        follows: bool,
    },
    Fails,
}

/// What the decision of an exchange says about its close.
#[derive(Debug)]
struct Decided {
    met: Met,
    target: Option<Target>,
    /// Whether it passed.
    passed: bool,
}

/// Conditions that a decision meets; its close meets them too.
#[derive(Clone, Copy, Debug, Default)]
struct Met {
    verdict: bool,
    reason: bool,
}

impl Filter {
    /// A filter that has seen nothing yet.
    pub fn new(conditions: Conditions) -> Self {
        Self {
            hosts: conditions.hosts.iter().map(HostTest::of).collect(),
            since: conditions.since.map(Moment::of),
            until: conditions.until.map(Moment::of),
            conditions,
            fields: Fields::default(),
            exchanges: Exchanges::default(),
        }
    }

    /// A line that passes, parsed; none where it does not. Of a line in our own encoding that does
    /// not pass, only what the conditions look at is known to be sound.
    ///
    /// # Errors
    /// The line is no record.
    pub fn pass(&mut self, line: &[u8]) -> Result<Option<Passed>, LineError> {
        if let Some(glance) = Glance::at(line) {
            return match self.judge(&glance) {
                Judged::Passes { target, follows } => Ok(Some(Passed {
                    entry: Entry::parse(line)?,
                    target,
                    follows,
                })),
                Judged::Fails => Ok(None),
            };
        }
        let entry = Entry::parse(line)?;
        let judged = match &entry {
            Entry::Event(event) => self.judge(&Glance::of(event)),
            Entry::Run(run) if self.passes_run(run) => Judged::Passes {
                target: None,
                follows: false,
            },
            Entry::Run(_) => Judged::Fails,
        };
        Ok(match judged {
            Judged::Passes { target, follows } => Some(Passed {
                entry,
                target,
                follows,
            }),
            Judged::Fails => None,
        })
    }

    fn judge(&mut self, line: &Glance<'_>) -> Judged {
        if !self.is_about(line) {
            return Judged::Fails;
        }
        // What a close is judged by is learnt from its decision, whatever the time of that.
        let (has_content, (target, follows)) = match line.event() {
            b"decision" => (self.has_decision(line), (None, false)),
            b"close" => self.has_close(line),
            _ => (self.has_content(line), (None, false)),
        };
        if has_content && self.is_of_event(line) && self.is_in_time(line) {
            if line.event() == b"decision"
                && let Some(decided) = line.id().and_then(|id| self.exchanges.of(id))
            {
                decided.passed = true;
            }
            Judged::Passes { target, follows }
        } else {
            Judged::Fails
        }
    }

    /// Whom it is about.
    fn is_about(&self, line: &Glance<'_>) -> bool {
        let Conditions {
            runs,
            profiles,
            clients,
            ..
        } = &self.conditions;
        any(runs, |run| begins(line.run(), run))
            && any(profiles, |name| line.profile() == Some(name.as_bytes()))
            && (clients.is_empty()
                || line
                    .client()
                    .is_some_and(|client| clients.iter().any(|range| range.contains(&client))))
    }

    fn is_of_event(&self, line: &Glance<'_>) -> bool {
        any(&self.conditions.events, |event| {
            line.event() == event.as_bytes()
        })
    }

    fn is_in_time(&self, line: &Glance<'_>) -> bool {
        self.since
            .as_ref()
            .is_none_or(|since| !line.is_before(since))
            && self
                .until
                .as_ref()
                .is_none_or(|until| line.is_before(until))
    }

    /// What an event that is no exchange is about.
    fn has_content(&self, line: &Glance<'_>) -> bool {
        let Conditions {
            verdicts, reasons, ..
        } = &self.conditions;
        match line.event() {
            b"dns" => {
                let met = self.met(line);
                let name = || line.text(&self.fields.name);
                met.verdict && met.reason && self.has_host(name, || None)
            }
            // It stands for what was refused while the log could not be written.
            b"gap" => {
                let denied = verdicts.is_empty() || verdicts.contains(&Verdict::Denied);
                let reason = reasons.is_empty() || reasons.contains(&Reason::AuditUnavailable);
                self.hosts.is_empty() && denied && reason
            }
            _ => self.hosts.is_empty() && verdicts.is_empty() && reasons.is_empty(),
        }
    }

    fn has_decision(&mut self, line: &Glance<'_>) -> bool {
        let host = || line.text(&self.fields.host);
        let port = || line.number(&self.fields.port);
        if !self.has_host(host, port) {
            return false;
        }
        let met = self.met(line);
        // A close may pass through this decision, or through something of its own besides.
        if line.text(&self.fields.decision) != Some(b"deny")
            && let Some(id) = line.id()
        {
            let target = host().and_then(|host| {
                let host = str::from_utf8(host).ok()?;
                Target::new(host, port()?)
            });
            let passed = false;
            let decided = Decided {
                met,
                target,
                passed,
            };
            self.exchanges.open(id, decided);
        }
        met.verdict && met.reason
    }

    fn has_close(&mut self, line: &Glance<'_>) -> (bool, (Option<Target>, bool)) {
        let decided = line.id().and_then(|id: Ulid| self.exchanges.close(id));
        if decided.is_none() && !self.hosts.is_empty() {
            return (false, (None, false));
        }
        let Conditions {
            verdicts, reasons, ..
        } = &self.conditions;
        let met = decided
            .as_ref()
            .map_or_else(Met::default, |decided| decided.met);
        let cut = verdicts.contains(&Verdict::Denied) && line.text(&self.fields.reason).is_some();
        let verdict = verdicts.is_empty() || met.verdict || cut;
        let reason = reasons.is_empty() || met.reason || self.has_reason(line);
        let about = decided.map_or((None, false), |decided| (decided.target, decided.passed));
        (verdict && reason, about)
    }

    /// What a decision or a query meets.
    fn met(&self, line: &Glance<'_>) -> Met {
        let Conditions {
            verdicts, reasons, ..
        } = &self.conditions;
        let verdict = |sought: &Verdict| match line.text(&self.fields.decision) {
            Some(b"allow") => *sought == Verdict::Allowed,
            Some(b"deny" | b"would_deny") => *sought == Verdict::Denied,
            Some(_) | None => false,
        };
        Met {
            verdict: any(verdicts, verdict),
            reason: reasons.is_empty() || self.has_reason(line),
        }
    }

    fn has_reason(&self, line: &Glance<'_>) -> bool {
        let own = line.text(&self.fields.reason);
        let mut sought = self.conditions.reasons.iter();
        sought.any(|reason| own == Some(reason.code().as_bytes()))
    }

    fn has_host<'l>(
        &self,
        host: impl FnOnce() -> Option<&'l [u8]>,
        port: impl FnOnce() -> Option<u16>,
    ) -> bool {
        if self.hosts.is_empty() {
            return true;
        }
        let Some(host) = host() else { return false };
        let mut near = self
            .hosts
            .iter()
            .filter(|test| test.is_near(host))
            .peekable();
        if near.peek().is_none() {
            return false;
        }
        let parsed = str::from_utf8(host)
            .ok()
            .and_then(|host| Host::parse(host).ok());
        let port = port();
        parsed.is_some_and(|host| near.any(|test| test.covers(&host, port)))
    }
}

/// Whether any value holds, or none is asked for.
fn any<T>(values: &[T], holds: impl FnMut(&T) -> bool) -> bool {
    values.is_empty() || values.iter().any(holds)
}

fn begins(text: Option<&[u8]>, beginning: &str) -> bool {
    text.is_some_and(|text| text.starts_with(beginning.as_bytes()))
}

#[cfg(test)]
mod tests;
