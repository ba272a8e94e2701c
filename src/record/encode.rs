//! Writes one event as one line of printable ASCII that ends in its newline, so that a terminal
//! shows a hostile name and does not obey it.

mod place;
mod text;

use std::net::IpAddr;

use jiff::Timestamp;
use serde::{Serialize, Serializer, ser::SerializeMap};

pub(crate) use self::{
    place::{HEAD, bind, named, stamp, time},
    text::clipped,
};
use self::{
    place::{NO_LINK, NO_TIME},
    text::{Ascii, Clip, ClipAll, is_written_as},
};
use super::{
    Asked, Closing, DecisionRecord, DnsRecord, Id, Line, Notice, Outcome, RunId, SCHEMA, Subject,
    Tally,
};
use crate::policy::Reason;

/// Encodes a decision into `out`, whose content is replaced.
pub(crate) fn decision(
    out: &mut Vec<u8>,
    record: &DecisionRecord,
    tally: Option<&Tally>,
) -> serde_json::Result<()> {
    line(out, &DecisionView(record, tally))
}

/// Encodes the end of the exchange that `decision` opened.
pub(crate) fn close(
    out: &mut Vec<u8>,
    decision: &DecisionRecord,
    closing: &Closing,
) -> serde_json::Result<()> {
    line(out, &CloseView(decision, closing))
}

/// Encodes the end of an exchange that a crash left open; what flowed is not known.
pub(crate) fn crash(out: &mut Vec<u8>, decision: &Line) -> serde_json::Result<()> {
    line(out, &CrashView(decision))
}

/// Encodes a DNS query; an empty name or type is left out (the root is `.`).
pub(crate) fn query(
    out: &mut Vec<u8>,
    id: Id,
    record: &DnsRecord,
    tally: Option<&Tally>,
) -> serde_json::Result<()> {
    line(out, &QueryView(id, record, tally))
}

/// Encodes an event that is neither an exchange nor a query.
pub(crate) fn notice(out: &mut Vec<u8>, id: Id, notice: &Notice) -> serde_json::Result<()> {
    line(out, &NoticeView(id, notice))
}

/// Encodes that the log could not be written from `since` on, and how many events, all of them
/// refused for it, have no record.
pub(crate) fn gap(
    out: &mut Vec<u8>,
    id: Id,
    since: Timestamp,
    count: u64,
) -> serde_json::Result<()> {
    line(out, &GapView(id, since, count))
}

fn line(out: &mut Vec<u8>, event: &impl Serialize) -> serde_json::Result<()> {
    out.clear();
    ascii(out, event)?;
    out.push(b'\n');
    Ok(())
}

/// Appends a value as JSON of printable ASCII, without a newline.
pub(crate) fn ascii(out: &mut Vec<u8>, value: &impl Serialize) -> serde_json::Result<()> {
    let mut serializer = serde_json::Serializer::with_formatter(out, Ascii);
    value.serialize(&mut serializer)
}

/// What every line begins with.
fn head<M: SerializeMap>(
    map: &mut M,
    event: &str,
    id: Id,
    subject: &Subject,
) -> Result<(), M::Error> {
    let run = subject.run.as_ref().map(RunId::as_str);
    let mut text = [0; ulid::ULID_LEN];
    let id = id.0.array_to_str(&mut text);
    let profile = subject.profile.as_deref();
    head_of(map, (event, id), (run, profile), subject.client)
}

fn head_of<M: SerializeMap>(
    map: &mut M,
    (event, id): (&str, &str),
    (run, profile): (Option<&str>, Option<&str>),
    client: Option<IpAddr>,
) -> Result<(), M::Error> {
    map.serialize_entry("schema", &SCHEMA)?;
    map.serialize_entry("ts", NO_TIME)?;
    map.serialize_entry("prev", &NO_LINK)?;
    map.serialize_entry("event", event)?;
    map.serialize_entry("id", &Clip(id))?;
    map.serialize_entry("run", &run.map(Clip))?;
    map.serialize_entry("profile", &profile.map(Clip))?;
    map.serialize_entry("client", &client)
}

/// An entry that is left out where there is nothing to say.
fn some<M: SerializeMap>(
    map: &mut M,
    key: &str,
    value: Option<impl Serialize>,
) -> Result<(), M::Error> {
    match value {
        Some(value) => map.serialize_entry(key, &value),
        None => Ok(()),
    }
}

fn tally<M: SerializeMap>(map: &mut M, tally: Option<&Tally>) -> Result<(), M::Error> {
    let Some(tally) = tally else { return Ok(()) };
    some(map, "count", Some(tally.count).filter(|count| *count > 1))?;
    let samples = Some(&*tally.samples).filter(|samples| !samples.is_empty());
    some(map, "samples", samples.map(ClipAll))
}

struct DecisionView<'a>(&'a DecisionRecord, Option<&'a Tally>);

impl Serialize for DecisionView<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(record, count) = self;
        let asked = &record.asked;
        let mut map = serializer.serialize_map(None)?;
        head(&mut map, "decision", record.id, &record.subject)?;
        map.serialize_entry("via", asked.via.as_str())?;
        some(&mut map, "method", asked.method.as_deref().map(Clip))?;
        if let Some(destination) = &asked.destination {
            match destination.host.name() {
                Some(name) => map.serialize_entry("host", name.as_str())?,
                None => map.serialize_entry("host", &format_args!("{}", destination.host))?,
            }
            map.serialize_entry("port", &destination.port)?;
        }
        some(&mut map, "path", asked.path.as_deref().map(Clip))?;
        some(&mut map, "target", odd_target(asked).map(Clip))?;
        map.serialize_entry("decision", &record.decision)?;
        map.serialize_entry("reason", record.reason.code())?;
        some(&mut map, "rule", record.rule.as_deref())?;
        if !record.addresses.is_empty() {
            map.serialize_entry("addresses", &record.addresses)?;
        }
        some(&mut map, "status", record.status)?;
        tally(&mut map, *count)?;
        map.end()
    }
}

/// The target as the client wrote it, unless host, port and path say the same already.
fn odd_target(asked: &Asked) -> Option<&str> {
    let target = asked.target.as_deref()?;
    let Some(destination) = &asked.destination else {
        return Some(target);
    };
    let without_scheme = target
        .strip_prefix(destination.scheme.as_str())
        .and_then(|rest| rest.strip_prefix("://"));
    let authority = match (without_scheme, asked.path.as_deref()) {
        (Some(rest), Some(path)) => rest.strip_suffix(path).unwrap_or(rest),
        (Some(rest), None) => rest,
        (None, _) => target,
    };
    let said = is_written_as(&destination.host, authority) || is_written_as(destination, authority);
    (!said).then_some(target)
}

struct CloseView<'a>(&'a DecisionRecord, &'a Closing);

impl Serialize for CloseView<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(decision, closing) = self;
        let mut map = serializer.serialize_map(None)?;
        head(&mut map, "close", decision.id, &decision.subject)?;
        map.serialize_entry("via", decision.asked.via.as_str())?;
        some(&mut map, "reason", closing.reason.map(Reason::code))?;
        some(&mut map, "status", closing.status)?;
        some(&mut map, "upstream", closing.upstream)?;
        some(&mut map, "sni", closing.sni.as_deref().map(Clip))?;
        some(&mut map, "ech", closing.ech)?;
        map.serialize_entry("outcome", closing.outcome.as_str())?;
        map.serialize_entry("bytes_up", &closing.bytes_up)?;
        map.serialize_entry("bytes_down", &closing.bytes_down)?;
        let duration = u64::try_from(closing.duration.as_millis()).unwrap_or(u64::MAX);
        map.serialize_entry("duration_ms", &duration)?;
        map.end()
    }
}

struct CrashView<'a>(&'a Line);

impl Serialize for CrashView<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(line) = self;
        let mut map = serializer.serialize_map(None)?;
        let id = line.id.as_deref().unwrap_or_default();
        let identity = (line.run.as_deref(), line.profile.as_deref());
        head_of(&mut map, ("close", id), identity, line.client)?;
        some(&mut map, "via", line.via.as_deref().map(Clip))?;
        map.serialize_entry("outcome", Outcome::Crash.as_str())?;
        map.end()
    }
}

struct QueryView<'a>(Id, &'a DnsRecord, Option<&'a Tally>);

impl Serialize for QueryView<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(id, record, count) = self;
        let present = |text| Some(text).filter(|text: &&str| !text.is_empty()).map(Clip);
        let mut map = serializer.serialize_map(None)?;
        head(&mut map, "dns", *id, &record.subject)?;
        some(&mut map, "name", present(&record.name))?;
        some(&mut map, "type", present(&record.record_type))?;
        map.serialize_entry("decision", &record.decision)?;
        map.serialize_entry("reason", record.reason.code())?;
        some(&mut map, "rule", record.rule.as_deref())?;
        map.serialize_entry("answer", record.answer.as_str())?;
        tally(&mut map, *count)?;
        map.end()
    }
}

struct NoticeView<'a>(Id, &'a Notice);

impl Serialize for NoticeView<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(id, notice) = self;
        let proxy = Subject::default();
        let mut map = serializer.serialize_map(None)?;
        match notice {
            Notice::Start { version, listeners } => {
                head(&mut map, "start", *id, &proxy)?;
                map.serialize_entry("version", version)?;
                map.serialize_entry("listeners", listeners)?;
            }
            Notice::Stop => head(&mut map, "stop", *id, &proxy)?,
            Notice::Reload {
                generation,
                changes,
                applied,
            } => {
                head(&mut map, "reload", *id, &proxy)?;
                map.serialize_entry("generation", generation)?;
                map.serialize_entry("applied", applied)?;
                map.serialize_entry("changes", &ClipAll(changes))?;
            }
            Notice::RunStart { subject, allow } => {
                head(&mut map, "run_start", *id, subject)?;
                map.serialize_entry("allow", &ClipAll(allow))?;
            }
            Notice::RunChange { subject, allow } => {
                head(&mut map, "run_change", *id, subject)?;
                map.serialize_entry("allow", &ClipAll(allow))?;
            }
            Notice::RunEnd { subject, cut } => {
                head(&mut map, "run_end", *id, subject)?;
                map.serialize_entry("cut", cut)?;
            }
            Notice::RunExpired { subject } => head(&mut map, "run_expired", *id, subject)?,
        }
        map.end()
    }
}

struct GapView(Id, Timestamp, u64);

impl Serialize for GapView {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(id, since, count) = self;
        let mut map = serializer.serialize_map(None)?;
        head(&mut map, "gap", *id, &Subject::default())?;
        map.serialize_entry("since", &format_args!("{since:.3}"))?;
        map.serialize_entry("count", count)?;
        map.end()
    }
}

#[cfg(test)]
mod tests;
