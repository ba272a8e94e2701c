//! Whatever a client sends, the DNS server answers at most once, in at most 512 octets, under the
//! query's own id and question, with an address only where policy allowed the very name that was
//! asked, and never without a record.

#![no_main]

use std::{cell::Cell, net::Ipv4Addr, sync::Arc, time::Duration};

use eclusa::{
    audit::AuditError,
    config::{Dns, DnsAnswerSource},
    destination::Name,
    dns::handler::respond,
    egress::{QueryRefusal, QueryVerdict},
    policy::{Decision, Reason, Verdict},
    protocol::question::Query,
    record::{DnsRecord, Subject},
};
use libfuzzer_sys::fuzz_target;

const OURS: Ipv4Addr = Ipv4Addr::new(172, 30, 0, 2);

fuzz_target!(|message: &[u8]| {
    let settings = Dns {
        answer: DnsAnswerSource::Listener,
        ttl: Duration::from_secs(30),
        names: Vec::new(),
    };
    for allows in [false, true] {
        let judged = Cell::new(None);
        let recorded = Cell::new(None);
        let answer = respond(
            message,
            &settings,
            Some(OURS),
            |name| {
                judged.set(Some(name.cloned()));
                judge(name, allows)
            },
            |record| {
                recorded.set(Some(record));
                Ok::<(), AuditError>(())
            },
        );
        let Some(query) = Query::read(message) else {
            assert!(answer.is_none() && judged.take().is_none() && recorded.take().is_none());
            continue;
        };
        let (answer, record) = (answer.unwrap(), recorded.take().unwrap());
        check(message, &query, &answer);
        let name = judged.take().unwrap();
        check_decision(&answer, &record, allows.then_some(name).flatten());
    }
});

fn judge(name: Option<&Name>, allows: bool) -> Result<QueryVerdict, QueryRefusal> {
    let (decision, reason) = match name {
        Some(_) if allows => (Decision::Allow, Reason::Allowlisted),
        Some(_) => (Decision::Deny, Reason::NotAllowlisted),
        None => (Decision::Deny, Reason::BadRequest),
    };
    Ok(QueryVerdict {
        subject: Subject::default(),
        verdict: Verdict {
            decision,
            reason,
            rule: None,
            grants: Arc::default(),
        },
        listener: None,
    })
}

/// The header and the question are the query's own.
fn check(message: &[u8], query: &Query<'_>, answer: &[u8]) {
    assert!((12..=512).contains(&answer.len()));
    assert_eq!(answer[..2], message[..2]);
    // A response with the query's opcode and RD, and not truncated.
    assert_eq!(answer[2] & !0x04, message[2] & 0x79 | 0x80);
    let question = query.question.map_or(&[][..], |question| question.octets);
    assert_eq!(answer[5], u8::from(!question.is_empty()));
    assert!(answer[12..].starts_with(question) && message[12..].starts_with(question));
    assert_eq!(answer[11], u8::from(query.has_edns));
}

/// `allowed` is the name that policy let through.
fn check_decision(answer: &[u8], record: &DnsRecord, allowed: Option<Name>) {
    assert!(record.name.is_ascii() && !record.name.contains(char::is_control));
    let (code, answers, authorities) = (answer[3] & 0x0F, answer[7], answer[9]);
    let has_address = answer.windows(4).any(|octets| octets == OURS.octets());
    assert!(has_address || answers == 0);
    match allowed {
        Some(name) if record.decision == Decision::Allow => {
            assert_eq!(code, 0);
            assert_eq!(answers + authorities, 1);
            assert_eq!(record.name.to_ascii_lowercase(), name.as_str());
        }
        _ => {
            assert_ne!(record.decision, Decision::Allow);
            assert_eq!(answers, 0);
            assert_eq!(authorities, u8::from(code == 3));
        }
    }
}
