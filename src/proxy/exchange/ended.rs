//! How an exchange ended.

use crate::{policy::Reason, protocol::forwarding::Then, record::Outcome};

/// How an exchange ended in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::proxy) struct Finished {
    /// What becomes of the client's connection.
    pub(in crate::proxy) client: Then,
    /// Whether the origin's connection can serve another request.
    pub(in crate::proxy) upstream_is_reusable: bool,
}

/// Why an exchange broke off.
#[derive(Debug)]
pub(in crate::proxy) struct Failed {
    pub(in crate::proxy) outcome: Outcome,
    /// What to tell the client, and the record, where there is a code for it.
    pub(in crate::proxy) reason: Option<Reason>,
    pub(in crate::proxy) detail: Option<String>,
    /// The client has seen a part of the response already.
    pub(in crate::proxy) told: bool,
    /// The origin closed without a word.
    pub(in crate::proxy) unheard: bool,
}

/// What stopped one of the two directions.
pub(super) struct Stop {
    pub(super) outcome: Outcome,
    pub(super) reason: Option<Reason>,
    pub(super) detail: Option<String>,
    pub(super) unheard: bool,
}

impl Stop {
    pub(super) fn quietly(outcome: Outcome) -> Self {
        Self {
            outcome,
            reason: None,
            detail: None,
            unheard: false,
        }
    }

    pub(super) fn because(outcome: Outcome, reason: Reason, detail: impl Into<String>) -> Self {
        Self {
            outcome,
            reason: Some(reason),
            detail: Some(detail.into()),
            unheard: false,
        }
    }

    pub(super) fn upstream(detail: impl Into<String>) -> Self {
        Self::because(Outcome::Refused, Reason::UpstreamError, detail)
    }
}
