//! Writes one event as one line of printable ASCII that ends in its newline, so that a terminal
//! shows a hostile name and does not obey it. Written without serde, because each decision waits
//! for its line; the tests hold every value to what serde_json makes of it.

mod object;
mod place;
mod text;

use std::net::IpAddr;

use jiff::Timestamp;

use self::{
    object::{Object, Value},
    text::is_written_as,
};
pub(crate) use self::{
    place::{HEAD, bind, named, stamp, time},
    text::{ascii, clipped},
};
use super::{
    Asked, Closing, DecisionRecord, DnsRecord, Id, Line, Notice, Outcome, RunId, Subject, Tally,
};
use crate::policy::Reason;

/// The line of a decision.
pub(crate) fn decision(record: &DecisionRecord, count: Option<&Tally>) -> Vec<u8> {
    let asked = &record.asked;
    let mut line = head("decision", record.id, &record.subject);
    line.field("via").code(asked.via.as_str());
    line.some("method", asked.method.as_deref(), Value::clip);
    if let Some(destination) = &asked.destination {
        match destination.host.name() {
            Some(name) => line.field("host").text(name.as_str()),
            None => line.field("host").text(&destination.host.to_string()),
        }
        line.field("port").number(destination.port);
    }
    line.some("path", asked.path.as_deref(), Value::clip);
    line.some("target", odd_target(asked), Value::clip);
    line.field("decision").code(record.decision.as_str());
    line.field("reason").code(record.reason.code());
    line.some("rule", record.rule.as_deref(), Value::text);
    if !record.addresses.is_empty() {
        line.field("addresses")
            .list(&record.addresses, |entry, address| entry.address(*address));
    }
    line.some("status", record.status, Value::number);
    tally(&mut line, count);
    line.end()
}

/// The line of the end of the exchange that `decision` opened.
pub(crate) fn close(decision: &DecisionRecord, closing: &Closing) -> Vec<u8> {
    let mut line = head("close", decision.id, &decision.subject);
    line.field("via").code(decision.asked.via.as_str());
    line.some("reason", closing.reason.map(Reason::code), Value::code);
    line.some("status", closing.status, Value::number);
    line.some("upstream", closing.upstream, Value::socket);
    line.some("sni", closing.sni.as_deref(), Value::clip);
    line.some("ech", closing.ech, Value::flag);
    line.field("outcome").code(closing.outcome.as_str());
    line.field("bytes_up").number(closing.bytes_up);
    line.field("bytes_down").number(closing.bytes_down);
    let duration = u64::try_from(closing.duration.as_millis()).unwrap_or(u64::MAX);
    line.field("duration_ms").number(duration);
    line.end()
}

/// The line of the end of an exchange that a crash left open; what flowed is not known.
pub(crate) fn crash(decision: &Line) -> Vec<u8> {
    let id = decision.id.as_deref().unwrap_or_default();
    let identity = (decision.run.as_deref(), decision.profile.as_deref());
    let mut line = head_of(("close", id), identity, decision.client);
    line.some("via", decision.via.as_deref(), Value::clip);
    line.field("outcome").code(Outcome::Crash.as_str());
    line.end()
}

/// The line of a DNS query; an empty name or type is left out (the root is `.`).
pub(crate) fn query(id: Id, record: &DnsRecord, count: Option<&Tally>) -> Vec<u8> {
    let present = |text| Some(text).filter(|text: &&str| !text.is_empty());
    let mut line = head("dns", id, &record.subject);
    line.some("name", present(&record.name), Value::clip);
    line.some("type", present(&record.record_type), Value::clip);
    line.field("decision").code(record.decision.as_str());
    line.field("reason").code(record.reason.code());
    line.some("rule", record.rule.as_deref(), Value::text);
    line.field("answer").code(record.answer.as_str());
    tally(&mut line, count);
    line.end()
}

/// The line of an event that is neither an exchange nor a query.
pub(crate) fn notice(id: Id, notice: &Notice) -> Vec<u8> {
    let proxy = Subject::default();
    match notice {
        Notice::Start { version, listeners } => {
            let mut line = head("start", id, &proxy);
            line.field("version").code(version);
            line.field("listeners")
                .list(listeners, |entry, socket| entry.socket(*socket));
            line
        }
        Notice::Stop => head("stop", id, &proxy),
        Notice::Reload {
            generation,
            changes,
            applied,
        } => {
            let mut line = head("reload", id, &proxy);
            line.field("generation").number(*generation);
            line.field("applied").flag(*applied);
            line.field("changes").clips(changes);
            line
        }
        Notice::RunStart { subject, allow } => {
            let mut line = head("run_start", id, subject);
            line.field("allow").clips(allow);
            line
        }
        Notice::RunChange { subject, allow } => {
            let mut line = head("run_change", id, subject);
            line.field("allow").clips(allow);
            line
        }
        Notice::RunEnd { subject, cut } => {
            let mut line = head("run_end", id, subject);
            line.field("cut").number(*cut);
            line
        }
        Notice::RunExpired { subject } => head("run_expired", id, subject),
    }
    .end()
}

/// The line that says that the log could not be written from `since` on, and how many events, all
/// of them refused for it, have no record.
pub(crate) fn gap(id: Id, since: Timestamp, count: u64) -> Vec<u8> {
    let mut line = head("gap", id, &Subject::default());
    line.field("since").text(&format!("{since:.3}"));
    line.field("count").number(count);
    line.end()
}

/// What every line begins with.
fn head(event: &'static str, id: Id, subject: &Subject) -> Object {
    let run = subject.run.as_ref().map(RunId::as_str);
    let mut text = [0; ulid::ULID_LEN];
    let id = id.0.array_to_str(&mut text);
    let profile = subject.profile.as_deref();
    head_of((event, id), (run, profile), subject.client)
}

fn head_of(
    (event, id): (&'static str, &str),
    (run, profile): (Option<&str>, Option<&str>),
    client: Option<IpAddr>,
) -> Object {
    let mut line = Object::begin(event);
    line.field("id").clip(id);
    line.or_null("run", run, Value::clip);
    line.or_null("profile", profile, Value::clip);
    line.or_null("client", client, Value::address);
    line
}

fn tally(line: &mut Object, tally: Option<&Tally>) {
    let Some(tally) = tally else { return };
    line.some(
        "count",
        Some(tally.count).filter(|count| *count > 1),
        Value::number,
    );
    let samples = Some(&*tally.samples).filter(|samples| !samples.is_empty());
    line.some("samples", samples, Value::clips);
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

#[cfg(test)]
mod tests;
