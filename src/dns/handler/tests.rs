use std::{
    cell::{Cell, RefCell},
    sync::Arc,
    time::Duration,
};

use super::*;
use crate::{
    policy::{Decision, Reason, Verdict},
    record::DnsAnswer,
};

const ARRIVED_AT: Ipv4Addr = Ipv4Addr::new(172, 30, 0, 2);
const REGISTERED: Ipv4Addr = Ipv4Addr::new(10, 231, 0, 2);
const FIXED: Ipv4Addr = Ipv4Addr::new(172, 31, 0, 9);

fn settings(answer: DnsAnswerSource) -> Dns {
    Dns {
        answer,
        ttl: Duration::from_secs(30),
        names: vec![
            Name::parse("eclusa").unwrap(),
            Name::parse("proxy.example").unwrap(),
        ],
    }
}

fn query(labels: &[&[u8]], record_type: u16) -> Vec<u8> {
    let mut message = vec![0x12, 0x34, 0x01, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    for label in labels {
        message.push(u8::try_from(label.len()).unwrap());
        message.extend_from_slice(label);
    }
    message.push(0);
    message.extend(record_type.to_be_bytes());
    message.extend([0, 1]);
    message
}

/// `allowed.example` is allowed and nothing else.
fn judge(name: Option<&Name>, listener: Option<Ipv4Addr>) -> QueryVerdict {
    let (decision, reason) = match name {
        None => (Decision::Deny, Reason::BadRequest),
        Some(name) if name.as_str() == "allowed.example" => (Decision::Allow, Reason::Allowlisted),
        Some(_) => (Decision::Deny, Reason::NotAllowlisted),
    };
    QueryVerdict {
        subject: Subject::default(),
        verdict: Verdict {
            decision,
            reason,
            rule: None,
            grants: Arc::default(),
        },
        listener,
    }
}

/// The answer to `message` with its record; the record is none when nothing was recorded.
fn ask(message: &[u8]) -> (Option<Vec<u8>>, Option<DnsRecord>) {
    let recorded = RefCell::new(None);
    let answer = respond(
        message,
        &settings(DnsAnswerSource::Listener),
        Some(ARRIVED_AT),
        |name| Ok(judge(name, None)),
        |record| {
            assert_eq!(recorded.replace(Some(record)), None);
            Ok(())
        },
    );
    (answer, recorded.into_inner())
}

fn code(answer: &[u8]) -> u8 {
    answer[3] & 0x0F
}

/// The last four octets: the data of the only record of an answer with an address.
fn address(answer: &[u8]) -> Ipv4Addr {
    let octets: [u8; 4] = answer[answer.len() - 4..].try_into().unwrap();
    octets.into()
}

#[test]
fn what_is_no_query_is_neither_judged_nor_recorded() {
    for message in [&[][..], &[0; 11], &[0, 0, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0]] {
        assert_eq!(ask(message), (None, None), "{message:02x?}");
    }
}

/// The labels of a name, each ended by a slash since a dot may stand within one; the type; and
/// the response code with what is recorded.
const RECORDED: &[(&str, u16, &str)] = &[
    (
        "aLLoWeD/eXaMpLe",
        1,
        "0 aLLoWeD.eXaMpLe A listener allowlisted",
    ),
    (
        "allowed/example",
        28,
        "0 allowed.example AAAA empty allowlisted",
    ),
    (
        "allowed/example",
        65,
        "0 allowed.example HTTPS empty allowlisted",
    ),
    (
        "allowed/example",
        255,
        "5 allowed.example ANY refused query_type_refused",
    ),
    (
        "evil/example",
        255,
        "3 evil.example ANY nxdomain not_allowlisted",
    ),
    (
        "evil/example",
        65399,
        "3 evil.example TYPE65399 nxdomain not_allowlisted",
    ),
    (
        "data/allowed/example",
        1,
        "3 data.allowed.example A nxdomain not_allowlisted",
    ),
    (
        "allowed.example",
        1,
        "3 allowed\\.example A nxdomain bad_request",
    ),
    (
        "allowed/example\0",
        1,
        "3 allowed.example\\000 A nxdomain bad_request",
    ),
    (
        "allowed/example./x",
        1,
        "3 allowed.example\\..x A nxdomain bad_request",
    ),
];

#[test]
fn every_answer_is_recorded_as_it_is_given() {
    for (labels, record_type, expected) in RECORDED {
        let labels: Vec<&[u8]> = labels.split('/').map(str::as_bytes).collect();
        let (answer, record) = ask(&query(&labels, *record_type));
        let (answer, record) = (answer.unwrap(), record.unwrap());
        let given = format!(
            "{} {} {} {} {}",
            code(&answer),
            record.name,
            record.record_type,
            record.answer.as_str(),
            record.reason
        );
        assert_eq!(given, *expected);
    }
}

#[test]
fn our_own_names_are_always_answered() {
    for (labels, rule) in [
        (&[&b"ECLUSA"[..]][..], Some("dns.names[0]")),
        (&[b"proxy", b"example"], Some("dns.names[1]")),
        (&[b"eclusa", b"example"], None),
    ] {
        let (answer, record) = ask(&query(labels, 1));
        let (answer, record) = (answer.unwrap(), record.unwrap());
        assert_eq!(record.rule.as_deref(), rule);
        match rule {
            Some(_) => assert_eq!(address(&answer), ARRIVED_AT),
            None => assert_eq!(code(&answer), 3),
        }
    }
}

#[test]
fn a_registered_listener_goes_before_a_fixed_address_before_the_local_one() {
    let fixed = DnsAnswerSource::Fixed(FIXED);
    let local = DnsAnswerSource::Listener;
    for (listener, source, expected) in [
        (Some(REGISTERED), fixed, REGISTERED),
        (Some(REGISTERED), local, REGISTERED),
        (None, fixed, FIXED),
        (None, local, ARRIVED_AT),
    ] {
        let answer = respond(
            &query(&[b"allowed", b"example"], 1),
            &settings(source),
            Some(ARRIVED_AT),
            |name| Ok(judge(name, listener)),
            |_| Ok(()),
        );
        assert_eq!(
            address(&answer.unwrap()),
            expected,
            "{listener:?} {source:?}"
        );
    }
}

#[test]
fn a_stranger_is_neither_answered_nor_recorded() {
    let answer = respond(
        &query(&[b"allowed", b"example"], 1),
        &settings(DnsAnswerSource::Listener),
        Some(ARRIVED_AT),
        |_| Err(QueryRefusal::UnknownClient),
        |record| panic!("{record:?}"),
    );
    assert_eq!(answer, None);
}

#[test]
fn who_asks_too_often_is_refused_and_recorded() {
    let recorded = Cell::new(None);
    let answer = respond(
        &query(&[b"allowed", b"example"], 1),
        &settings(DnsAnswerSource::Listener),
        Some(ARRIVED_AT),
        |_| Err(QueryRefusal::RateLimited(Subject::default())),
        |record| {
            recorded.set(Some(record));
            Ok(())
        },
    );
    assert_eq!(code(&answer.unwrap()), 5);
    let record = recorded.take().unwrap();
    let fields = (&*record.name, record.decision, record.reason, record.answer);
    let expected = (
        "allowed.example",
        Decision::Deny,
        Reason::RateLimited,
        DnsAnswer::Refused,
    );
    assert_eq!(fields, expected);
}

#[test]
fn what_cannot_be_recorded_fails() {
    for labels in [&[&b"allowed"[..], b"example"], &[b"evil", b"example"]] {
        let answer = respond(
            &query(labels, 1),
            &settings(DnsAnswerSource::Listener),
            Some(ARRIVED_AT),
            |name| Ok(judge(name, None)),
            |_| Err(AuditError::Backlog(1)),
        );
        let answer = answer.unwrap();
        assert_eq!(code(&answer), 2);
        // Not an address in sight.
        assert_eq!(answer[6..12], [0; 6]);
    }
}

#[test]
fn a_faulty_query_is_judged_by_no_name() {
    let mut message = query(&[b"allowed", b"example"], 1);
    message.push(0);
    let (answer, record) = ask(&message);
    let record = record.unwrap();
    assert_eq!(code(&answer.unwrap()), 1);
    assert_eq!(
        (&*record.name, record.reason),
        ("allowed.example", Reason::BadRequest)
    );
    let (answer, record) = ask(&[0x12, 0x34, 0x28, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
    let record = record.unwrap();
    assert_eq!(code(&answer.unwrap()), 4);
    assert_eq!((&*record.name, &*record.record_type), ("", ""));
    assert_eq!(record.reason, Reason::QueryTypeRefused);
}
