//! From a DNS query and the verdict on its name to the answer. The answer of an allowed name is
//! our own address, and nothing of it comes from anywhere but policy: no query of a client causes
//! one upstream.

mod encode;

use std::{net::Ipv4Addr, sync::Arc};

use super::question::{Fault, Query, RecordType};
use crate::{
    policy::{Decision, Reason, Verdict},
    record::DnsAnswer,
};

/// What a query is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnswerPlan {
    /// NOERROR with one A record.
    Address(Ipv4Addr),
    /// NOERROR without an answer (NODATA, RFC 2308 section 2.2). musl takes NXDOMAIN for AAAA as
    /// the end of the name; without HTTPS and SVCB records nobody learns ECH keys (RFC 9849).
    Empty,
    /// NXDOMAIN.
    NxDomain,
    /// REFUSED.
    Refused,
    /// NOTIMP.
    NotImplemented,
    /// FORMERR.
    FormatError,
    /// BADVERS (RFC 6891 section 6.1.3).
    BadVersion,
    /// SERVFAIL.
    ServerFailure,
}

/// An answer, and why it is this one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// What is answered.
    pub plan: AnswerPlan,
    /// What was decided.
    pub decision: Decision,
    /// Why.
    pub reason: Reason,
    /// Where the deciding rule stands.
    pub rule: Option<Arc<str>>,
}

impl AnswerPlan {
    /// As the record names it.
    pub fn recorded_as(self) -> DnsAnswer {
        match self {
            Self::Address(_) => DnsAnswer::Listener,
            Self::Empty => DnsAnswer::Empty,
            Self::NxDomain => DnsAnswer::NxDomain,
            Self::Refused
            | Self::NotImplemented
            | Self::FormatError
            | Self::BadVersion
            | Self::ServerFailure => DnsAnswer::Refused,
        }
    }
}

impl Answer {
    /// The answer to `query`, whose name `verdict` is about and which is one of `dns.names` when
    /// there is an `own_name`, the place of that entry. `address` is ours, as this client sees it;
    /// without one an allowed name has no address.
    pub fn plan(
        query: &Query<'_>,
        own_name: Option<Arc<str>>,
        verdict: Verdict,
        address: Option<Ipv4Addr>,
    ) -> Self {
        let record_type = match (query.fault, query.question) {
            (Some(Fault::Opcode), _) => {
                return Self::refuse(AnswerPlan::NotImplemented, Reason::QueryTypeRefused);
            }
            (Some(Fault::Class), _) => {
                return Self::refuse(AnswerPlan::Refused, Reason::QueryTypeRefused);
            }
            (Some(Fault::EdnsVersion), _) => {
                return Self::refuse(AnswerPlan::BadVersion, Reason::BadRequest);
            }
            (Some(Fault::Format), _) | (None, None) => {
                return Self::refuse(AnswerPlan::FormatError, Reason::BadRequest);
            }
            (None, Some(question)) => question.record_type,
        };
        let verdict = match own_name {
            Some(place) => Verdict {
                decision: Decision::Allow,
                reason: Reason::Allowlisted,
                rule: Some(place),
                grants: Arc::default(),
            },
            None => verdict,
        };
        if !verdict.passes() {
            return Self::of(AnswerPlan::NxDomain, verdict);
        }
        match record_type {
            RecordType::ANY | RecordType::AXFR | RecordType::IXFR => {
                Self::refuse(AnswerPlan::Refused, Reason::QueryTypeRefused)
            }
            RecordType::A => {
                let plan = address.map_or(AnswerPlan::Empty, AnswerPlan::Address);
                Self::of(plan, verdict)
            }
            _ => Self::of(AnswerPlan::Empty, verdict),
        }
    }

    /// The answer to a client that asks too often.
    pub fn rate_limited() -> Self {
        Self::refuse(AnswerPlan::Refused, Reason::RateLimited)
    }

    /// The answer when the record of the query cannot be written.
    pub fn unrecorded() -> Self {
        Self::refuse(AnswerPlan::ServerFailure, Reason::AuditUnavailable)
    }

    /// The response message; every time to live in it is `ttl`, in seconds. It has at most 512
    /// octets, which every client takes (RFC 1035 section 4.2.1), so that none is ever truncated.
    pub fn encode(&self, query: &Query<'_>, ttl: u32) -> Vec<u8> {
        encode::encode(self, query, ttl)
    }

    fn of(plan: AnswerPlan, verdict: Verdict) -> Self {
        Self {
            plan,
            decision: verdict.decision,
            reason: verdict.reason,
            rule: verdict.rule,
        }
    }

    fn refuse(plan: AnswerPlan, reason: Reason) -> Self {
        Self {
            plan,
            decision: Decision::Deny,
            reason,
            rule: None,
        }
    }
}

#[cfg(test)]
mod tests;
