//! One message in, one answer out, and its record between them: no sockets.

use std::net::Ipv4Addr;

use crate::{
    audit::AuditError,
    config::{Dns, DnsAnswerSource},
    destination::Name,
    egress::{QueryRefusal, QueryVerdict},
    protocol::{
        answer::Answer,
        question::{Query, Question},
    },
    record::{DnsRecord, Subject},
};

/// Answers `message`. `arrived_at` is the local address that it came in on, when that is an IPv4
/// one. `judge` and `record` are those of the authorizer; each is called at most once, in this
/// order. None: there is no answer, since it is no query, or nobody whom we know asks.
pub fn respond(
    message: &[u8],
    settings: &Dns,
    arrived_at: Option<Ipv4Addr>,
    judge: impl FnOnce(Option<&Name>) -> Result<QueryVerdict, QueryRefusal>,
    record: impl FnOnce(DnsRecord) -> Result<(), AuditError>,
) -> Option<Vec<u8>> {
    let query = Query::read(message)?;
    let name = query
        .question
        .filter(|_| query.fault.is_none())
        .and_then(|question| question.name.to_policy());
    let (subject, answer) = match judge(name.as_ref()) {
        Err(QueryRefusal::UnknownClient) => return None,
        Err(QueryRefusal::RateLimited(subject)) => (subject, Answer::rate_limited()),
        Ok(judged) => {
            let own_name = name.and_then(|name| settings.place_of(&name));
            let address = judged.listener.or(match settings.answer {
                DnsAnswerSource::Fixed(address) => Some(address),
                DnsAnswerSource::Listener => arrived_at,
            });
            let answer = Answer::plan(&query, own_name, judged.verdict, address);
            (judged.subject, answer)
        }
    };
    let answer = match record(record_of(subject, query.question, &answer)) {
        Ok(()) => answer,
        Err(error) => {
            tracing::debug!(%error, "query refused: it cannot be recorded");
            Answer::unrecorded()
        }
    };
    let ttl = u32::try_from(settings.ttl.as_secs()).unwrap_or(u32::MAX);
    Some(answer.encode(&query, ttl))
}

/// The name and type are empty where they cannot be read.
fn record_of(subject: Subject, question: Option<Question<'_>>, answer: &Answer) -> DnsRecord {
    DnsRecord {
        subject,
        name: question.map_or_else(String::new, |question| question.name.to_string()),
        record_type: question.map_or_else(String::new, |question| question.record_type.to_string()),
        decision: answer.decision,
        reason: answer.reason,
        rule: answer.rule.clone(),
        answer: answer.plan.recorded_as(),
    }
}

#[cfg(test)]
mod tests;
