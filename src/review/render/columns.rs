//! The columns of one entry.

use indicatif::DecimalBytes;

use super::elapsed;
use crate::{
    policy::Decision,
    record::{
        Line, RunRecord, encode,
        escape::{Layout, escaped},
    },
    review::{counted, exchanges::Target},
};

/// The longest text of others that is shown in one place, in bytes.
const MAX_TEXT: usize = 200;

/// The first characters of a run's id, which `--run` takes for the whole.
const SHORT_RUN: usize = 12;

/// The columns.
#[derive(Debug)]
pub(super) struct Columns {
    pub(super) verdict: String,
    pub(super) tone: Tone,
    pub(super) who: String,
    pub(super) via: String,
    pub(super) target: String,
    pub(super) detail: Vec<String>,
}

/// What a verdict means to its reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tone {
    Good,
    Bad,
    Odd,
    Plain,
    Quiet,
}

impl Columns {
    /// `target` is what a close is about.
    pub(super) fn of_event(line: &Line, target: Option<&Target>) -> Self {
        match line.event.as_str() {
            "decision" => Self::of_decision(line),
            "close" => Self::of_close(line, target),
            "dns" => Self::of_query(line),
            "gap" => {
                let since = line.since.as_deref().map(shown).unwrap_or_default();
                let lost = counted(line.count.unwrap_or_default(), "event");
                let lost = format!("{lost} since {since}");
                let detail = vec![format!("{lost} have no record, and were refused")];
                Self::of_proxy(line, "GAP", Tone::Bad, detail)
            }
            "start" => {
                let version = line.version.as_deref().map(shown).unwrap_or_default();
                let mut detail = vec![format!("eclusa {version}")];
                detail.extend(line.listeners.iter().map(|address| shown(address)));
                Self::of_proxy(line, "START", Tone::Quiet, detail)
            }
            "reload" => {
                let failed = line.applied == Some(false);
                let (verdict, tone) = if failed {
                    ("NO-RELOAD", Tone::Bad)
                } else {
                    ("RELOAD", Tone::Plain)
                };
                Self::of_proxy(
                    line,
                    verdict,
                    tone,
                    line.changes.iter().map(|t| shown(t)).collect(),
                )
            }
            start @ ("run_start" | "run_change") => {
                let allow = line.allow.iter().map(|pattern| shown(pattern));
                let detail = match &*allow.collect::<Vec<_>>() {
                    [] => Vec::new(),
                    allow => vec![format!("allow {}", allow.join(" "))],
                };
                let verdict = if start == "run_start" {
                    "RUN-START"
                } else {
                    "RUN-CHANGE"
                };
                Self::of_proxy(line, verdict, Tone::Plain, detail)
            }
            "run_end" => {
                let cut = line.cut.filter(|cut| *cut > 0);
                let detail = cut.map(|cut| format!("{} cut", counted(cut, "exchange")));
                Self::of_proxy(line, "RUN-END", Tone::Plain, detail.into_iter().collect())
            }
            other => {
                let verdict = shown(&other.replace('_', "-").to_ascii_uppercase());
                Self::of_proxy(line, &verdict, Tone::Quiet, Vec::new())
            }
        }
    }

    fn of_decision(line: &Line) -> Self {
        let (verdict, tone) = verdict(line.decision.as_deref());
        let target = match (Target::of(line), &line.target) {
            (Some(target), _) => {
                let method = line.method.as_deref().filter(|method| *method != "CONNECT");
                let method = method.map(|method| format!("{} ", shown(method)));
                let path = line.path.as_deref().map(shown).unwrap_or_default();
                format!("{}{}{path}", method.unwrap_or_default(), named(&target))
            }
            (None, Some(target)) => shown(target),
            (None, None) => "-".to_owned(),
        };
        let mut detail = why(line);
        detail.extend(line.status.map(|status| format!("status {status}")));
        // An address matters where it is what was refused.
        if line.reason.as_deref() == Some("address_blocked") {
            detail.extend(line.addresses.iter().map(ToString::to_string));
        }
        if line.host.is_some() {
            let asked = line.target.as_deref();
            detail.extend(asked.map(|asked| format!("asked as {}", shown(asked))));
        }
        detail.extend(tally(line));
        Self {
            verdict,
            tone,
            who: who(line),
            via: line.via.as_deref().map(shown).unwrap_or_default(),
            target,
            detail,
        }
    }

    fn of_close(line: &Line, target: Option<&Target>) -> Self {
        let outcome = line.outcome.as_deref().unwrap_or("-");
        let (verdict, tone) = match outcome {
            "refused" => ("CUT", Tone::Bad),
            "error" | "crash" | "budget" | "policy_changed" => ("CLOSE", Tone::Odd),
            _ => ("CLOSE", Tone::Quiet),
        };
        let target = match (target, &line.sni, &line.upstream) {
            (Some(target), ..) => named(target),
            (None, Some(sni), _) => shown(sni),
            (None, None, Some(upstream)) => upstream.to_string(),
            (None, None, None) => "-".to_owned(),
        };
        let mut detail = vec![shown(outcome)];
        detail.extend(line.reason.as_deref().map(shown));
        let transferred = [("up", line.bytes_up), ("down", line.bytes_down)];
        for (way, bytes) in transferred {
            detail.extend(bytes.map(|bytes| format!("{way} {}", DecimalBytes(bytes))));
        }
        detail.extend(line.duration_ms.map(elapsed));
        Self {
            verdict: verdict.to_owned(),
            tone,
            who: who(line),
            via: line.via.as_deref().map(shown).unwrap_or_default(),
            target,
            detail,
        }
    }

    fn of_query(line: &Line) -> Self {
        let (verdict, tone) = verdict(line.decision.as_deref());
        let name = line.name.as_deref().map_or_else(|| "-".to_owned(), shown);
        let record_type = line.record_type.as_deref().map(shown).unwrap_or_default();
        let mut detail = why(line);
        let answer = line.answer.as_deref();
        detail.extend(answer.map(|answer| format!("answer {}", shown(answer))));
        detail.extend(tally(line));
        Self {
            verdict,
            tone,
            who: who(line),
            via: "dns".to_owned(),
            target: format!("{name} {record_type}"),
            detail,
        }
    }

    /// What is about the proxy or a run, and about no destination.
    fn of_proxy(line: &Line, verdict: &str, tone: Tone, detail: Vec<String>) -> Self {
        let profile = line.profile.as_deref();
        Self {
            verdict: verdict.to_owned(),
            tone,
            who: who(line),
            via: String::new(),
            target: profile
                .map(|name| format!("profile {}", shown(name)))
                .unwrap_or_default(),
            detail,
        }
    }

    pub(super) fn of_run(record: &RunRecord) -> Self {
        let tone = match record.exit_code {
            0 => Tone::Good,
            _ => Tone::Odd,
        };
        let mut detail = vec![format!("exit {}", record.exit_code)];
        if record.timed_out {
            detail.push("timed out".to_owned());
        }
        if record.oom_killed {
            detail.push("out of memory".to_owned());
        }
        detail.push(elapsed(record.duration_ms));
        detail.extend(record.error.as_deref().map(shown));
        let denied = record.network.iter().flat_map(|network| {
            let names = network.dns.iter();
            let names = names.filter(|line| line.decision == Decision::Deny);
            let connections = network.denied.iter().map(|line| line.count);
            connections.chain(names.map(|line| line.count))
        });
        let denied = denied.fold(0, u64::saturating_add);
        if denied > 0 {
            detail.push(format!("{denied} denied"));
        }
        detail.push(format!("image {}", shown(&record.image)));
        Self {
            verdict: "RUN".to_owned(),
            tone,
            who: short(&record.run),
            via: String::new(),
            target: shown(&record.command.join(" ")),
            detail,
        }
    }
}

fn verdict(decision: Option<&str>) -> (String, Tone) {
    match decision {
        Some("allow") => ("ALLOW".to_owned(), Tone::Good),
        Some("deny") => ("DENY".to_owned(), Tone::Bad),
        Some("would_deny") => ("WOULD-DENY".to_owned(), Tone::Odd),
        Some(other) => (shown(other), Tone::Odd),
        None => ("-".to_owned(), Tone::Odd),
    }
}

fn why(line: &Line) -> Vec<String> {
    let parts = [line.reason.as_deref(), line.rule.as_deref()];
    parts.into_iter().flatten().map(shown).collect()
}

fn tally(line: &Line) -> Vec<String> {
    let mut parts = Vec::new();
    parts.extend(line.count.map(|count| format!("{count} times")));
    if !line.samples.is_empty() {
        let samples = line.samples.iter().take(3).map(|sample| shown(sample));
        parts.push(format!("such as {}", samples.collect::<Vec<_>>().join(" ")));
    }
    parts
}

/// The run, else the client.
fn who(line: &Line) -> String {
    match (&line.run, &line.client) {
        (Some(run), _) => short(run),
        (None, Some(client)) => client.to_string(),
        (None, None) => "-".to_owned(),
    }
}

fn short(run: &str) -> String {
    shown(run.get(..SHORT_RUN).unwrap_or(run))
}

fn named(target: &Target) -> String {
    format!("{}:{}", shown(&target.host), target.port)
}

/// Text of others, escaped and cut.
fn shown(text: &str) -> String {
    let cut = encode::clipped(text, MAX_TEXT).to_string();
    escaped(cut.as_bytes(), Layout::Line)
}
