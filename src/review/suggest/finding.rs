//! Refusals that no entry of a list should undo by itself.

use serde::Serialize;

use super::{Wanted, exact};
use crate::{
    policy::{Pattern, Reason},
    record::Line,
    review::{exchanges::Target, name},
};

/// A kind of finding, the gravest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FindingKind {
    /// The name resolves to an address that no sandbox may reach.
    AddressBlocked,
    /// Labels that look like data: somebody may be carrying it out by name.
    DataInNames,
    /// A rule of the configuration denies it.
    DeniedByRule,
    /// The machine itself, or its cloud's credentials.
    NeverAllowed,
    /// An address where a name belongs.
    IpLiteral,
    /// A name of the local site.
    LocalName,
    /// A DNS query that no connection needs.
    OtherQuery,
    /// A profile of a name that no configuration can have.
    OddProfile,
    /// A client that no run and no range accounts for.
    UnknownClient,
    /// Refused or cut for what was sent.
    Message,
    /// A limit.
    Limit,
    /// The origin, or the proxy itself.
    Trouble,
    /// Folded under a flood; the log holds samples of the destinations and no more.
    Folded,
}

/// What was refused, and what is to be known of it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub struct Finding {
    /// Which kind.
    pub kind: FindingKind,
    /// The destination, the client or the reason.
    pub about: String,
    /// The rule, the addresses or the samples.
    pub detail: String,
}

impl FindingKind {
    /// What to make of it.
    pub fn advice(self) -> &'static str {
        match self {
            Self::AddressBlocked => {
                "resolves to an address that no sandbox may reach; if that is meant, write a rule \
                 with this host and its `addresses`"
            }
            Self::DataInNames => {
                "looks like data in names; find out what the run did before anything is allowed"
            }
            Self::DeniedByRule => "a deny names it, and a deny beats every allow",
            Self::NeverAllowed => "no entry can allow it",
            Self::IpLiteral => "an address instead of a name; if it is meant, write it out",
            Self::LocalName => {
                "a name of the local site; if it is meant, write a rule with this host and its \
                 `addresses`"
            }
            Self::OtherQuery => {
                "a DNS query that no connection needs; no list changes its answer to a denied name, \
                 and names can carry data out"
            }
            Self::OddProfile => "not a profile's name; the log is not the proxy's alone",
            Self::UnknownClient => "not a client; add [[clients]], or start it with `eclusa run`",
            Self::Message => {
                "refused for what was sent, which no list changes; not_tls needs a rule with \
                 `opaque = true`"
            }
            Self::Limit => "a limit; see [limits]",
            Self::Trouble => "not a matter of policy",
            Self::Folded => "too many to be recorded one by one; the samples are all there is",
        }
    }

    fn of(reason: Reason) -> Self {
        match reason {
            Reason::AddressBlocked | Reason::LoopDetected => Self::AddressBlocked,
            Reason::DeniedByRule => Self::DeniedByRule,
            Reason::IpLiteral => Self::IpLiteral,
            Reason::UnknownClient => Self::UnknownClient,
            Reason::NotAllowlisted | Reason::PortNotAllowed => Self::Folded,
            Reason::RateLimited | Reason::OverCapacity | Reason::BudgetExceeded => Self::Limit,
            Reason::BadRequest
            | Reason::HostMismatch
            | Reason::HeaderTooLarge
            | Reason::MethodNotAllowed
            | Reason::QueryTypeRefused
            | Reason::SniMismatch
            | Reason::SniMissing
            | Reason::NotTls
            | Reason::EchRefused => Self::Message,
            Reason::Allowlisted
            | Reason::AuditUnavailable
            | Reason::ShuttingDown
            | Reason::ResolveFailed
            | Reason::ResolveTimeout
            | Reason::ConnectFailed
            | Reason::ConnectTimeout
            | Reason::UpstreamError => Self::Trouble,
        }
    }
}

impl Finding {
    pub(super) fn new(kind: FindingKind, about: String, detail: &str) -> Self {
        Self {
            kind,
            about,
            detail: name(detail),
        }
    }

    /// What a line that is no wish comes to.
    pub(super) fn of(
        reason: Reason,
        line: &Line,
        (wanted, target): (Option<&Wanted>, Option<&Target>),
    ) -> Self {
        let kind = match FindingKind::of(reason) {
            FindingKind::Folded if line.name.is_some() => FindingKind::OtherQuery,
            kind => kind,
        };
        let destination = || {
            let destination = wanted?.clone().destination();
            Some(exact(&destination).to_string())
        };
        let (about, detail) = match kind {
            FindingKind::AddressBlocked => {
                let addresses: Vec<_> = line.addresses.iter().map(ToString::to_string).collect();
                (destination(), addresses.join(", "))
            }
            FindingKind::DeniedByRule => (destination(), line.rule.clone().unwrap_or_default()),
            FindingKind::IpLiteral => return Self::of_literal(destination()),
            FindingKind::OtherQuery => (
                line.name.clone(),
                line.record_type.clone().unwrap_or_default(),
            ),
            FindingKind::UnknownClient => {
                (line.client.map(|client| client.to_string()), String::new())
            }
            FindingKind::Folded => (None, line.samples.join(", ")),
            FindingKind::DataInNames
            | FindingKind::NeverAllowed
            | FindingKind::LocalName
            | FindingKind::OddProfile
            | FindingKind::Message
            | FindingKind::Limit
            | FindingKind::Trouble => match target {
                Some(target) => (
                    Some(format!("{}:{}", target.host, target.port)),
                    reason.code().to_owned(),
                ),
                None => (None, String::new()),
            },
        };
        let about = about.unwrap_or_else(|| reason.code().to_owned());
        Self::new(kind, about, &detail)
    }

    fn of_literal(about: Option<String>) -> Self {
        let about = about.unwrap_or_else(|| Reason::IpLiteral.code().to_owned());
        match Pattern::parse_allow(&about) {
            Ok(_) => Self::new(FindingKind::IpLiteral, about, ""),
            Err(error) => Self::new(FindingKind::NeverAllowed, about, &error.to_string()),
        }
    }
}
