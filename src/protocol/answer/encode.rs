//! The octets of a response.

use super::{Answer, AnswerPlan};
use crate::{
    policy::Decision,
    protocol::question::{Query, RecordType},
};

/// What we take by UDP: below any usual MTU (DNS flag day 2020).
const PAYLOAD_SIZE: u16 = 1232;

/// Class IN (RFC 1035 section 3.2.4).
const IN: u16 = 1;

/// The option code of Extended DNS Errors (RFC 8914 section 2).
const EXTENDED_ERROR: u16 = 15;

/// RFC 1035 section 4.1.4: a pointer to the name of the question.
const QUESTION_NAME: u16 = 0xC00C;

/// A primary server and a mailbox that are nobody's, as other servers give for zones that they
/// make up. Nothing that tells one proxy from another.
const NOBODY: &[u8] = b"\x09localhost\x00\x06nobody\x07invalid\x00";

/// Serial, refresh, retry and expire of a zone that nobody transfers.
const SOA_TIMES: [u32; 4] = [1, 3600, 1200, 604_800];

pub(super) fn encode(answer: &Answer, query: &Query<'_>, ttl: u32) -> Vec<u8> {
    let mut message = Vec::with_capacity(512);
    put_header(&mut message, answer.plan, query);
    if let Some(question) = query.question {
        message.extend_from_slice(question.octets);
    }
    match answer.plan {
        AnswerPlan::Address(address) => {
            put_u16(&mut message, QUESTION_NAME);
            put_record(&mut message, RecordType::A, ttl, &address.octets());
        }
        AnswerPlan::Empty | AnswerPlan::NxDomain => {
            // RFC 2308 section 3: negative answers carry the SOA of their zone, which is what lets
            // them be cached. Everything is in our zone, so its apex is the root.
            message.push(0);
            let mut soa = NOBODY.to_vec();
            for time in SOA_TIMES.into_iter().chain([ttl]) {
                soa.extend_from_slice(&time.to_be_bytes());
            }
            put_record(&mut message, RecordType::SOA, ttl, &soa);
        }
        AnswerPlan::Refused
        | AnswerPlan::NotImplemented
        | AnswerPlan::FormatError
        | AnswerPlan::BadVersion
        | AnswerPlan::ServerFailure => {}
    }
    if query.has_edns {
        put_opt(&mut message, answer);
    }
    message
}

fn put_header(message: &mut Vec<u8>, plan: AnswerPlan, query: &Query<'_>) {
    const QR: u8 = 0x80;
    const AA: u8 = 0x04;
    const RA: u8 = 0x80;
    const CD: u8 = 0x10;
    let (answers, authorities) = match plan {
        AnswerPlan::Address(_) => (1, 0),
        AnswerPlan::Empty | AnswerPlan::NxDomain => (0, 1),
        AnswerPlan::Refused
        | AnswerPlan::NotImplemented
        | AnswerPlan::FormatError
        | AnswerPlan::BadVersion
        | AnswerPlan::ServerFailure => (0, 0),
    };
    put_u16(message, query.id);
    // AA and RA both, as servers do for local zones: what we say of a name is all that there is,
    // and glibc and Go take an empty answer that has neither for a lame referral.
    let authoritative = if answers + authorities > 0 { AA } else { 0 };
    let checking_disabled = if query.checking_disabled { CD } else { 0 };
    message.push(QR | (query.opcode << 3) | authoritative | u8::from(query.recursion_desired));
    message.push(RA | checking_disabled | (response_code(plan) & 0x0F));
    put_u16(message, u16::from(query.question.is_some()));
    put_u16(message, answers);
    put_u16(message, authorities);
    put_u16(message, u16::from(query.has_edns));
}

/// What follows the owner of a record.
fn put_record(message: &mut Vec<u8>, record_type: RecordType, ttl: u32, data: &[u8]) {
    put_u16(message, record_type.0);
    put_u16(message, IN);
    message.extend_from_slice(&ttl.to_be_bytes());
    put_length(message, data.len());
    message.extend_from_slice(data);
}

/// Our OPT record (RFC 6891 section 6.1.2): version 0, no flags, and of options only our own.
fn put_opt(message: &mut Vec<u8>, answer: &Answer) {
    let text = answer.reason.code().as_bytes();
    message.push(0);
    put_u16(message, RecordType::OPT.0);
    put_u16(message, PAYLOAD_SIZE);
    message.extend_from_slice(&[response_code(answer.plan) >> 4, 0, 0, 0]);
    match extended_error(answer) {
        Some(code) => {
            put_length(message, 4 + 2 + text.len());
            put_u16(message, EXTENDED_ERROR);
            put_length(message, 2 + text.len());
            put_u16(message, code);
            message.extend_from_slice(text);
        }
        None => put_length(message, 0),
    }
}

/// RFC 8914 section 4: why, beside a response code that does not say it.
fn extended_error(answer: &Answer) -> Option<u16> {
    const OTHER: u16 = 0;
    const BLOCKED: u16 = 15;
    const PROHIBITED: u16 = 18;
    match (answer.decision, answer.plan) {
        (Decision::Deny, AnswerPlan::NxDomain) => Some(BLOCKED),
        (Decision::Deny, AnswerPlan::Refused) => Some(PROHIBITED),
        (Decision::Deny, AnswerPlan::ServerFailure) => Some(OTHER),
        (Decision::Allow | Decision::WouldDeny | Decision::Deny, _) => None,
    }
}

/// RFC 6895 section 2.3.
fn response_code(plan: AnswerPlan) -> u8 {
    match plan {
        AnswerPlan::Address(_) | AnswerPlan::Empty => 0,
        AnswerPlan::FormatError => 1,
        AnswerPlan::ServerFailure => 2,
        AnswerPlan::NxDomain => 3,
        AnswerPlan::NotImplemented => 4,
        AnswerPlan::Refused => 5,
        AnswerPlan::BadVersion => 16,
    }
}

fn put_u16(message: &mut Vec<u8>, value: u16) {
    message.extend_from_slice(&value.to_be_bytes());
}

/// Every length here is that of a constant or of a reason code.
fn put_length(message: &mut Vec<u8>, length: usize) {
    put_u16(message, u16::try_from(length).unwrap_or(u16::MAX));
}
