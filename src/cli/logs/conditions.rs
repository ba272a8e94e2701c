//! The options that say which lines are asked for.

use std::time::Duration;

use ipnet::IpNet;
use jiff::{Timestamp, civil, tz::TimeZone};

use crate::{
    cli::CliError,
    config::{self, suggest},
    policy::{Pattern, Ports, Reason},
    record::EVENTS,
    review::filter::{Conditions, RUN_EVENT, Verdict},
};

/// Filters: all that are given must be met; of one given repeatedly, any.
#[derive(Debug, Default, clap::Args)]
#[command(next_help_heading = "Filters (all must be met; of one that is repeated, any)")]
pub(crate) struct ConditionArgs {
    /// A run, by its id or the beginning of it.
    #[arg(long, value_name = "ID")]
    pub(crate) run: Vec<String>,
    /// A profile.
    #[arg(long, value_name = "NAME")]
    pub(crate) profile: Vec<String>,
    /// A client's address, or a range of them.
    #[arg(long, value_name = "ADDRESS|RANGE", value_parser = config::range)]
    pub(crate) client: Vec<IpNet>,
    /// A host as policy writes it: `api.example.com`, `*.example.com`, `.example.com`, `host:port`.
    /// Decisions, DNS queries, and each close whose decision matches.
    #[arg(long, value_name = "PATTERN", value_parser = parse_host)]
    pub(crate) host: Vec<Pattern>,
    /// What was refused, also what would be without report mode, and what was cut later.
    #[arg(long)]
    pub(crate) denied: bool,
    /// What was let through, and its end.
    #[arg(long)]
    pub(crate) allowed: bool,
    /// Why it was decided so, or cut later.
    #[arg(long, value_name = "CODE", value_parser = parse_reason)]
    pub(crate) reason: Vec<Reason>,
    /// A kind of event: decision, close, dns, run_start, ...; `run` is a line of `eclusa run`'s
    /// record file.
    #[arg(long, value_name = "NAME", value_parser = parse_event)]
    pub(crate) event: Vec<String>,
    /// Not before: `1h30m` ago, a date or a time, in UTC with --utc, else local unless it says.
    #[arg(long, value_name = "TIME", value_parser = parse_when)]
    pub(crate) since: Option<When>,
    /// Before, likewise.
    #[arg(long, value_name = "TIME", value_parser = parse_when)]
    pub(crate) until: Option<When>,
}

/// A moment as an operator writes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum When {
    Ago(Duration),
    At(Timestamp),
    /// By a clock on some wall.
    On(civil::DateTime),
}

impl ConditionArgs {
    /// What is asked for, at the time `now` and by clocks of `zone`.
    pub(super) fn conditions(
        &self,
        now: Timestamp,
        zone: &TimeZone,
    ) -> Result<Conditions, CliError> {
        let moment = |when: Option<When>| when.map(|when| when.moment(now, zone)).transpose();
        let (since, until) = (moment(self.since)?, moment(self.until)?);
        if let (Some(since), Some(until)) = (since, until)
            && since >= until
        {
            return Err(CliError::Usage(format!(
                "--since {since} is not before --until {until}"
            )));
        }
        let verdicts = [
            (self.allowed, Verdict::Allowed),
            (self.denied, Verdict::Denied),
        ];
        Ok(Conditions {
            runs: self.run.clone(),
            profiles: self.profile.clone(),
            clients: self.client.clone(),
            hosts: self.host.clone(),
            verdicts: verdicts
                .into_iter()
                .filter_map(|(is_asked, verdict)| is_asked.then_some(verdict))
                .collect(),
            reasons: self.reason.clone(),
            events: self.event.clone(),
            since,
            until,
        })
    }
}

impl When {
    fn moment(self, now: Timestamp, zone: &TimeZone) -> Result<Timestamp, CliError> {
        let moment = match self {
            Self::Ago(duration) => now.checked_sub(duration),
            Self::At(at) => Ok(at),
            Self::On(time) => zone.to_timestamp(time),
        };
        moment.map_err(|error| CliError::Usage(format!("a time is out of range: {error}")))
    }
}

fn parse_when(text: &str) -> Result<When, String> {
    let ever = Duration::ZERO..=Duration::from_hours(24 * 366 * 100);
    if let Ok(at) = text.parse() {
        return Ok(When::At(at));
    }
    if let Ok(time) = text.parse() {
        return Ok(When::On(time));
    }
    config::duration(text, &ever).map(When::Ago).map_err(|_| {
        format!(
            "{text:?} is neither a time before now such as 90s, 1h30m or 7d, nor a date or time \
             such as 2026-01-02, 2026-01-02T03:04:05 or 2026-01-02T03:04:05Z"
        )
    })
}

fn parse_host(text: &str) -> Result<Pattern, String> {
    let pattern = Pattern::parse_deny(text).map_err(|error| error.to_string())?;
    match pattern.ports {
        Ports::Any | Ports::Web | Ports::Listed(_) => Ok(pattern),
        Ports::Http(port) | Ports::Https(port) => Err(format!(
            "the log has no schemes: write {}:{port}",
            pattern.hosts
        )),
    }
}

fn parse_reason(text: &str) -> Result<Reason, String> {
    let known = Reason::ALL.iter();
    let found = known.clone().find(|reason| reason.code() == text);
    found.copied().ok_or_else(|| {
        let nearest = suggest::among(text, known.map(|reason| reason.code()));
        format!("there is no such reason; {nearest}")
    })
}

fn parse_event(text: &str) -> Result<String, String> {
    let known = EVENTS.iter().copied().chain([RUN_EVENT]);
    if known.clone().any(|event| event == text) {
        return Ok(text.to_owned());
    }
    Err(format!(
        "there is no such event; {}",
        suggest::among(text, known)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_read_as_they_are_meant() {
        let now: Timestamp = "2026-07-10T12:00:00Z".parse().unwrap();
        let zone = TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").unwrap();
        for (text, expected) in [
            ("1h30m", "2026-07-10T10:30:00Z"),
            ("2d", "2026-07-08T12:00:00Z"),
            ("2026-07-02", "2026-07-01T22:00:00Z"),
            ("2026-01-02", "2026-01-01T23:00:00Z"),
            ("2026-07-02T03:04:05", "2026-07-02T01:04:05Z"),
            ("2026-07-02 03:04", "2026-07-02T01:04:00Z"),
            ("2026-07-02T03:04:05Z", "2026-07-02T03:04:05Z"),
            ("2026-07-02T03:04:05.5-01:00", "2026-07-02T04:04:05.5Z"),
        ] {
            let moment = parse_when(text).unwrap().moment(now, &zone).unwrap();
            assert_eq!(moment, expected.parse().unwrap(), "{text}");
        }
        for wrong in [
            "",
            "yesterday",
            "1",
            "-1h",
            "1y",
            "2026-13-01",
            "03:04",
            "1h 30m",
        ] {
            assert!(parse_when(wrong).unwrap_err().contains("1h30m"), "{wrong}");
        }
    }

    #[test]
    fn what_is_mistyped_names_the_nearest() {
        assert_eq!(parse_reason("not_allowlisted"), Ok(Reason::NotAllowlisted));
        let error = parse_reason("not_allowlist").unwrap_err();
        assert!(error.contains("did you mean `not_allowlisted`?"), "{error}");
        let error = parse_event("decisions").unwrap_err();
        assert!(error.contains("did you mean `decision`?"), "{error}");
        let error = parse_host("https://api.example.com").unwrap_err();
        assert!(error.contains("write api.example.com:443"), "{error}");
        assert!(parse_host("*.a.*").is_err());
    }
}
