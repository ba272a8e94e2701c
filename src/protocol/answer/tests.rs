use hickory_net::proto::{
    op::{Message, MessageType, ResponseCode},
    rr::{RData, rdata::opt::EdnsOption},
};

use super::*;

const OURS: Ipv4Addr = Ipv4Addr::new(172, 30, 0, 2);

/// A query for `name`, one label, with an OPT record when `edns` says so.
fn query(name: &str, record_type: u16, edns: bool) -> Vec<u8> {
    let mut message = vec![0x12, 0x34, 0x01, 0x10, 0, 1, 0, 0, 0, 0, 0, u8::from(edns)];
    for label in name.split('.') {
        message.push(u8::try_from(label.len()).unwrap());
        message.extend(label.bytes());
    }
    message.push(0);
    message.extend(record_type.to_be_bytes());
    message.extend([0, 1]);
    if edns {
        message.extend([0, 0, 41, 0xFF, 0xFF, 0, 0, 0x80, 0, 0, 0]);
    }
    message
}

fn verdict(decision: Decision, reason: Reason) -> Verdict {
    Verdict {
        decision,
        reason,
        rule: Some("profiles.default.allow[0]".into()),
        grants: Arc::default(),
    }
}

fn allowed() -> Verdict {
    verdict(Decision::Allow, Reason::Allowlisted)
}

fn denied() -> Verdict {
    verdict(Decision::Deny, Reason::NotAllowlisted)
}

#[test]
fn an_allowed_name_has_our_address_and_nothing_else() {
    for (record_type, expected) in [
        (1, AnswerPlan::Address(OURS)),
        (28, AnswerPlan::Empty),
        (5, AnswerPlan::Empty),
        (10, AnswerPlan::Empty),
        (15, AnswerPlan::Empty),
        (16, AnswerPlan::Empty),
        (25, AnswerPlan::Empty),
        (33, AnswerPlan::Empty),
        (64, AnswerPlan::Empty),
        (65, AnswerPlan::Empty),
        (65399, AnswerPlan::Empty),
        (251, AnswerPlan::Refused),
        (252, AnswerPlan::Refused),
        (255, AnswerPlan::Refused),
    ] {
        let message = query("allowed.example", record_type, false);
        let read = Query::read(&message).unwrap();
        for (verdict, own_name) in [
            (allowed(), None),
            (verdict(Decision::WouldDeny, Reason::NotAllowlisted), None),
            (denied(), Some("dns.names[0]".into())),
        ] {
            let rule = own_name.clone();
            let answer = Answer::plan(&read, own_name, verdict.clone(), Some(OURS));
            assert_eq!(answer.plan, expected, "{record_type}");
            let recorded = (answer.decision, answer.reason, answer.rule);
            if expected == AnswerPlan::Refused {
                let refused = (Decision::Deny, Reason::QueryTypeRefused, None);
                assert_eq!(recorded, refused, "{record_type}");
            } else if rule.is_some() {
                let own = (Decision::Allow, Reason::Allowlisted, rule);
                assert_eq!(recorded, own, "{record_type}");
            } else {
                let same = (verdict.decision, verdict.reason, verdict.rule);
                assert_eq!(recorded, same, "{record_type}");
            }
        }
    }
}

#[test]
fn a_denied_name_does_not_exist_whatever_the_type() {
    for record_type in [1, 28, 5, 10, 15, 16, 25, 33, 64, 65, 251, 252, 255, 65399] {
        let message = query("evil.example", record_type, false);
        let read = Query::read(&message).unwrap();
        let answer = Answer::plan(&read, None, denied(), Some(OURS));
        assert_eq!(
            answer,
            Answer::of(AnswerPlan::NxDomain, denied()),
            "{record_type}"
        );
    }
}

#[test]
fn without_an_address_of_ours_an_allowed_name_has_none() {
    let message = query("allowed.example", 1, false);
    let read = Query::read(&message).unwrap();
    let answer = Answer::plan(&read, None, allowed(), None);
    assert_eq!(answer, Answer::of(AnswerPlan::Empty, allowed()));
}

#[test]
fn a_fault_is_answered_the_same_whatever_policy_says() {
    for (fault, plan, reason) in [
        (Fault::Format, AnswerPlan::FormatError, Reason::BadRequest),
        (
            Fault::Opcode,
            AnswerPlan::NotImplemented,
            Reason::QueryTypeRefused,
        ),
        (Fault::Class, AnswerPlan::Refused, Reason::QueryTypeRefused),
        (
            Fault::EdnsVersion,
            AnswerPlan::BadVersion,
            Reason::BadRequest,
        ),
    ] {
        let message = query("allowed.example", 1, false);
        let read = Query {
            fault: Some(fault),
            ..Query::read(&message).unwrap()
        };
        for verdict in [allowed(), denied()] {
            let answer = Answer::plan(&read, None, verdict, Some(OURS));
            assert_eq!(answer, Answer::refuse(plan, reason), "{fault:?}");
        }
    }
}

/// The info code and the text.
type ExtendedError = Option<(u16, &'static str)>;

/// Every answer, with the response code and the Extended DNS Error that it must carry.
fn answers() -> Vec<(Answer, ResponseCode, ExtendedError)> {
    let refuse = Answer::refuse;
    vec![
        (
            Answer::of(AnswerPlan::Address(OURS), allowed()),
            ResponseCode::NoError,
            None,
        ),
        (
            Answer::of(AnswerPlan::Empty, allowed()),
            ResponseCode::NoError,
            None,
        ),
        (
            Answer::of(AnswerPlan::NxDomain, denied()),
            ResponseCode::NXDomain,
            Some((15, "not_allowlisted")),
        ),
        (
            refuse(AnswerPlan::Refused, Reason::QueryTypeRefused),
            ResponseCode::Refused,
            Some((18, "query_type_refused")),
        ),
        (
            Answer::rate_limited(),
            ResponseCode::Refused,
            Some((18, "rate_limited")),
        ),
        (
            Answer::unrecorded(),
            ResponseCode::ServFail,
            Some((0, "audit_unavailable")),
        ),
        (
            refuse(AnswerPlan::NotImplemented, Reason::QueryTypeRefused),
            ResponseCode::NotImp,
            None,
        ),
        (
            refuse(AnswerPlan::FormatError, Reason::BadRequest),
            ResponseCode::FormErr,
            None,
        ),
        (
            refuse(AnswerPlan::BadVersion, Reason::BadRequest),
            ResponseCode::BADVERS,
            None,
        ),
    ]
}

#[test]
fn every_answer_is_a_whole_response() {
    for (answer, code, error) in answers() {
        let message = query("aLLoWeD.eXaMpLe", 1, true);
        let octets = answer.encode(&Query::read(&message).unwrap(), 30);
        // RFC 1035 section 4.1.2: the question as it was asked, its case too.
        let question = message.len() - 11;
        assert_eq!(octets[12..question], message[12..question], "{code}");
        let read = Message::from_vec(&octets).unwrap();
        assert_eq!(read.message_type, MessageType::Response);
        // 16 is BADVERS here and BADSIG elsewhere (RFC 6895 section 2.3).
        let codes = (u16::from(read.response_code), u16::from(code));
        assert_eq!((read.id, codes.0), (0x1234, codes.1));
        assert!(read.recursion_desired && read.recursion_available && read.checking_disabled);
        assert!(!read.truncation && !read.authentic_data);
        let edns = read.edns.as_ref().unwrap();
        assert_eq!((edns.version(), edns.max_payload()), (0, 1232));
        assert!(!edns.flags().dnssec_ok);
        let expected: Vec<EdnsOption> = error
            .into_iter()
            .map(|(info, text)| {
                EdnsOption::Unknown(15, [&u16::to_be_bytes(info), text.as_bytes()].concat())
            })
            .collect();
        let options: Vec<EdnsOption> = edns
            .options()
            .as_ref()
            .iter()
            .map(|o| o.1.clone())
            .collect();
        assert_eq!(options, expected, "{code}");
    }
}

#[test]
fn without_edns_in_the_query_there_is_none_in_the_answer() {
    let message = query("allowed.example", 1, false);
    for (answer, code, _) in answers() {
        let octets = answer.encode(&Query::read(&message).unwrap(), 30);
        assert_eq!(octets[10..12], [0, 0], "{code}");
        let read = Message::from_vec(&octets).unwrap();
        assert_eq!(read.edns, None, "{code}");
    }
}

#[test]
fn an_address_is_answered_with_its_ttl() {
    let message = query("allowed.example", 1, false);
    let answer = Answer::of(AnswerPlan::Address(OURS), allowed());
    let octets = answer.encode(&Query::read(&message).unwrap(), 30);
    let read = Message::from_vec(&octets).unwrap();
    assert!(read.authoritative);
    assert_eq!(read.answers.len(), 1);
    let record = &read.answers[0];
    assert_eq!(record.name, *read.queries[0].name());
    assert_eq!((record.ttl, &record.data), (30, &RData::A(OURS.into())));
    assert!(read.authorities.is_empty());
}

#[test]
fn a_negative_answer_can_be_cached_and_names_nobody() {
    let message = query("evil.example", 1, false);
    for plan in [AnswerPlan::Empty, AnswerPlan::NxDomain] {
        let answer = Answer::of(plan, denied());
        let octets = answer.encode(&Query::read(&message).unwrap(), 30);
        let read = Message::from_vec(&octets).unwrap();
        assert!(read.authoritative && read.answers.is_empty());
        assert_eq!(read.authorities.len(), 1, "{plan:?}");
        let record = &read.authorities[0];
        assert!(record.name.is_root());
        let RData::SOA(soa) = &record.data else {
            panic!("{record}");
        };
        assert_eq!((record.ttl, soa.minimum), (30, 30));
        let names = (soa.mname.to_ascii(), soa.rname.to_ascii());
        assert_eq!(
            names,
            ("localhost.".to_owned(), "nobody.invalid.".to_owned())
        );
    }
}

#[test]
fn the_longest_answer_fits_the_smallest_client() {
    let label = "a".repeat(63);
    let longest = format!("{label}.{label}.{label}.{}", "a".repeat(61));
    let message = query(&longest, 1, true);
    let read = Query::read(&message).unwrap();
    for plan in [
        AnswerPlan::Address(OURS),
        AnswerPlan::NxDomain,
        AnswerPlan::Refused,
    ] {
        for reason in Reason::ALL {
            let octets = Answer::refuse(plan, *reason).encode(&read, u32::MAX);
            assert!(octets.len() <= 512, "{plan:?} {reason}: {}", octets.len());
        }
    }
}

#[test]
fn an_unreadable_question_is_not_repeated() {
    let message = [0x12, 0x34, 0x21, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    let read = Query::read(&message).unwrap();
    let octets = Answer::plan(&read, None, denied(), None).encode(&read, 30);
    assert_eq!(octets, [0x12, 0x34, 0xA1, 0x84, 0, 0, 0, 0, 0, 0, 0, 0]);
}
