//! Events as fold sees them: what tells them apart, and what those of one line share.

use crate::{
    destination::Destination,
    policy::{Decision, Reason},
    record::{DecisionRecord, DnsAnswer, DnsRecord, MAX_FIELD, Subject, Via, encode::clipped},
};

/// The longest sample in bytes: a DNS name has at most 255 octets.
const MAX_SAMPLE: usize = 256;

/// An event that may be folded; borrowed, so that folding it away costs no allocation.
#[derive(Clone, Copy, Debug)]
pub(in crate::audit) enum Event<'a> {
    Refusal(&'a DecisionRecord),
    Query(&'a DnsRecord),
}

/// What a line with a count says besides it.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::audit) enum Folded {
    Refusal(Box<DecisionRecord>),
    Query(Box<DnsRecord>),
}

/// Which events one window counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Scope {
    /// Identical ones.
    Same,
    /// Those of one client with one reason.
    OfClient,
    /// Those of all clients with one reason.
    OfAll,
}

/// What the events of one window share, and all that their line may say of them.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Key<'a> {
    scope: Scope,
    subject: Option<&'a Subject>,
    decision: Decision,
    reason: Reason,
    road: Road,
    what: Option<What<'a>>,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Road {
    Proxy(Via, Option<u16>),
    Dns(DnsAnswer),
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum What<'a> {
    Destination(Option<&'a str>, Option<&'a Destination>, Option<&'a str>),
    Name(&'a str, &'a str, Option<&'a str>),
}

impl<'a> Event<'a> {
    pub(super) fn subject(self) -> &'a Subject {
        match self {
            Self::Refusal(record) => &record.subject,
            Self::Query(record) => &record.subject,
        }
    }

    pub(super) fn decision(self) -> Decision {
        match self {
            Self::Refusal(record) => record.decision,
            Self::Query(record) => record.decision,
        }
    }

    /// Whether a client cannot make us keep much by repeating this event: names are short by
    /// themselves, methods are not.
    pub(super) fn is_short(self) -> bool {
        match self {
            Self::Refusal(record) => record.asked.method.as_ref().is_none_or(|m| m.len() <= 64),
            Self::Query(record) => record.name.len() <= MAX_FIELD,
        }
    }

    /// Whether it is about no destination that could be read, so that identical events may have
    /// asked for different things.
    pub(super) fn is_nameless(self) -> bool {
        match self {
            Self::Refusal(record) => record.asked.destination.is_none(),
            Self::Query(_) => false,
        }
    }

    /// What tells this event from others with the same reason.
    pub(super) fn sample(self) -> String {
        match self {
            Self::Refusal(record) => match (&record.asked.destination, &record.asked.target) {
                (Some(destination), _) => destination.to_string(),
                (None, Some(target)) => clipped(target, MAX_SAMPLE).to_string(),
                (None, None) => String::new(),
            },
            Self::Query(record) => clipped(&record.name, MAX_SAMPLE).to_string(),
        }
    }
}

impl<'a> Key<'a> {
    pub(super) fn new(event: Event<'a>, scope: Scope) -> Self {
        let (reason, road, what) = match event {
            Event::Refusal(record) => (
                record.reason,
                Road::Proxy(record.asked.via, record.status),
                What::Destination(
                    record.asked.method.as_deref(),
                    record.asked.destination.as_ref(),
                    record.rule.as_deref(),
                ),
            ),
            Event::Query(record) => (
                record.reason,
                Road::Dns(record.answer),
                What::Name(&record.name, &record.record_type, record.rule.as_deref()),
            ),
        };
        Self {
            scope,
            subject: match scope {
                Scope::Same | Scope::OfClient => Some(event.subject()),
                Scope::OfAll => None,
            },
            decision: event.decision(),
            reason,
            road,
            what: match scope {
                Scope::Same => Some(what),
                Scope::OfClient | Scope::OfAll => None,
            },
        }
    }
}

impl Folded {
    /// The event that this line stands for, to be compared with others.
    pub(super) fn event(&self) -> Event<'_> {
        match self {
            Self::Refusal(record) => Event::Refusal(record),
            Self::Query(record) => Event::Query(record),
        }
    }

    /// Keeps of `event` what the events of a window share.
    pub(super) fn new(event: Event<'_>, scope: Scope) -> Self {
        let same = match scope {
            Scope::Same => true,
            Scope::OfClient | Scope::OfAll => false,
        };
        let subject = match scope {
            Scope::Same | Scope::OfClient => event.subject().clone(),
            Scope::OfAll => Subject::default(),
        };
        match event {
            Event::Refusal(record) => {
                let mut shared = DecisionRecord {
                    subject,
                    addresses: Vec::new(),
                    rule: record.rule.clone().filter(|_| same),
                    ..record.clone()
                };
                (shared.asked.path, shared.asked.target) = (None, None);
                if !same {
                    (shared.asked.method, shared.asked.destination) = (None, None);
                }
                Self::Refusal(Box::new(shared))
            }
            Event::Query(record) if same => Self::Query(Box::new(record.clone())),
            Event::Query(record) => Self::Query(Box::new(DnsRecord {
                subject,
                name: String::new(),
                record_type: String::new(),
                rule: None,
                ..*record
            })),
        }
    }
}
