//! What is counted by, and the rows that come of it.

use super::{counts::Sums, report::RefusedLine};
use crate::{
    policy::Decision,
    record::{AllowedLine, DnsLine},
    review::exchanges::Target,
};

/// What was refused and why.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Refusal {
    pub(super) host: Option<String>,
    pub(super) port: Option<u16>,
    pub(super) decision: Decision,
    pub(super) reason: String,
}

/// What was asked for by DNS.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Query {
    pub(super) name: String,
    pub(super) record_type: String,
    pub(super) decision: Decision,
}

pub(super) fn allowed((target, sums): (Target, Sums)) -> AllowedLine {
    AllowedLine {
        host: target.host.into(),
        port: target.port,
        count: sums.count,
        bytes_up: sums.bytes_up,
        bytes_down: sums.bytes_down,
    }
}

pub(super) fn denied((refusal, sums): (Refusal, Sums)) -> RefusedLine {
    RefusedLine {
        host: refusal.host,
        port: refusal.port,
        decision: refusal.decision,
        reason: refusal.reason,
        count: sums.count,
    }
}

pub(super) fn dns((query, sums): (Query, Sums)) -> DnsLine {
    DnsLine {
        name: query.name,
        record_type: query.record_type,
        decision: query.decision,
        count: sums.count,
    }
}
