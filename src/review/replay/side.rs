//! One configuration in front of a recorded log: who each client is under it, and what it decides.

use std::{collections::HashMap, fmt};

use super::super::judge::Judged;
use crate::{
    config::Config,
    destination::{Destination, Name, Scheme},
    policy::{Pattern, Policy, UnknownProfile},
    record::Line,
};

/// The most runs that are known at once: those of a log that begins them and never ends them.
const MOST_RUNS: usize = 65_536;

/// What was asked, as far as policy judges it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Asked {
    Exchange(Destination),
    Name(Name),
}

/// An event of a run whose start is not in the log, and with it the run's own list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct UnknownRun;

/// A configuration, and the policies of the runs that are registered at this point of the log.
#[derive(Debug)]
pub(super) struct Side<'c> {
    config: &'c Config,
    runs: HashMap<String, Result<Policy, UnknownProfile>>,
}

impl<'c> Side<'c> {
    pub(super) fn new(config: &'c Config) -> Self {
        Self {
            config,
            runs: HashMap::new(),
        }
    }

    /// A run is registered; one whose list cannot be read back stays unknown.
    pub(super) fn start(&mut self, line: &Line) {
        let allow: Result<Vec<Pattern>, _> = line
            .allow
            .iter()
            .map(|pattern| Pattern::parse_allow(pattern))
            .collect();
        let (Some(run), Ok(allow)) = (&line.run, allow) else {
            return;
        };
        if self.runs.len() < MOST_RUNS || self.runs.contains_key(run) {
            let policies = &self.config.policies;
            let policy = policies.for_run(line.profile.as_deref(), &allow);
            self.runs.insert(run.clone(), policy);
        }
    }

    /// A run is removed.
    pub(super) fn end(&mut self, line: &Line) {
        if let Some(run) = &line.run {
            self.runs.remove(run);
        }
    }

    /// Decides on what `line` records.
    pub(super) fn judge(&self, line: &Line, asked: &Asked) -> Result<Judged, UnknownRun> {
        let policy = match &line.run {
            Some(run) => match self.runs.get(run).ok_or(UnknownRun)? {
                Ok(policy) => policy,
                // Such a run is refused when it is registered, and with it all that it asks.
                Err(unknown) => return Ok(Judged::unregistered(unknown)),
            },
            None => match line.client.and_then(|own| self.config.policies.client(own)) {
                Some(policy) => policy,
                None => return Ok(Judged::unknown_client()),
            },
        };
        Ok(match asked {
            Asked::Exchange(to) => Judged::destination(self.config, policy, to, &line.addresses),
            Asked::Name(name) => Judged::name(self.config, policy, name),
        })
    }
}

impl Asked {
    /// None where the record holds no destination, or none that could be read.
    pub(super) fn of(line: &Line) -> Option<Self> {
        if line.event == "dns" {
            return Some(Self::Name(Name::parse(line.name.as_deref()?).ok()?));
        }
        line.destination().map(Self::Exchange)
    }
}

impl fmt::Display for Asked {
    /// As `check` takes it: `https://a.example`, `http://a.example:8080`; a name as it is.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exchange(to) => {
                let scheme = to.scheme.as_str();
                match (to.scheme, to.port) {
                    (Scheme::Https, 443) | (Scheme::Http, 80) => {
                        write!(f, "{scheme}://{}", to.host)
                    }
                    _ => write!(f, "{scheme}://{to}"),
                }
            }
            Self::Name(name) => name.fmt(f),
        }
    }
}
