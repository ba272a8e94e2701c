//! One DNS query.

use std::sync::Arc;

use super::Subject;
use crate::policy::{Decision, Reason};

/// What our DNS server answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DnsAnswer {
    /// An A record with our own address.
    Listener,
    /// NOERROR without an answer.
    Empty,
    /// NXDOMAIN.
    NxDomain,
    /// REFUSED, or NOTIMP, FORMERR and BADVERS for what is not a plain query.
    Refused,
}

impl DnsAnswer {
    /// Every answer.
    pub const ALL: &[Self] = &[Self::Listener, Self::Empty, Self::NxDomain, Self::Refused];

    /// As the record writes it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Listener => "listener",
            Self::Empty => "empty",
            Self::NxDomain => "nxdomain",
            Self::Refused => "refused",
        }
    }
}

/// A `dns` event.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct DnsRecord {
    /// Whom it is about.
    pub subject: Subject,
    /// The name as asked, in master-file escapes (RFC 1035 section 5.1).
    pub name: String,
    /// The type's mnemonic, or `TYPE65399` (RFC 3597).
    pub record_type: String,
    /// What was decided.
    pub decision: Decision,
    /// Why.
    pub reason: Reason,
    /// Where the deciding rule stands.
    pub rule: Option<Arc<str>>,
    /// What was answered.
    pub answer: DnsAnswer,
}
