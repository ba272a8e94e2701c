//! What a sandbox may reach. `Policy::evaluate` is the whole decision on a destination, made
//! before anything is looked up:
//!
//! 1. a deny of the profile that covers it: `denied_by_rule`;
//! 2. the most specific allow that covers it (an exact host before the longest suffix): allowed,
//!    with what that rule opens besides;
//! 3. a run's own allow, where no profile denies the destination and the ceiling allows it;
//! 4. else refused: `ip_literal`, `port_not_allowed` where the host is named with other ports,
//!    `not_allowlisted`. Report mode lets the last two through as `would_deny`.

pub mod explain;
pub mod pattern;
pub mod profile;
pub mod reason;
pub mod set;

mod index;
mod lists;

use std::{
    iter,
    ops::ControlFlow,
    sync::{Arc, LazyLock},
};

use ipnet::IpNet;

pub use self::{
    explain::Considered,
    pattern::{HostPattern, Pattern, PatternError, Ports},
    profile::{EchMode, Mode, Profile, Rule, RuleConflict},
    reason::Reason,
    set::{ClientRange, PolicySet, PolicySetError, UnknownProfile},
};
use self::{
    index::{Reach, Sought, every_way},
    lists::{Judgement, Lists, Own},
};
use crate::destination::{Destination, Host, Name, Scheme};

/// What was decided, as the record writes it.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    /// Let through.
    Allow,
    /// Refused.
    Deny,
    /// Let through by report mode; enforced, it would have been refused.
    WouldDeny,
}

impl Decision {
    /// As the record writes it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Deny => "deny",
            Self::WouldDeny => "would_deny",
        }
    }
}

/// The answer of policy on one destination.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// What was decided.
    pub decision: Decision,
    /// Why.
    pub reason: Reason,
    /// Where the deciding rule stands, e.g. `profiles.default.allow[0]`; for `port_not_allowed`
    /// the rule that names the host.
    pub rule: Option<Arc<str>>,
    /// What the deciding rule opens besides the way itself; empty on a refusal.
    pub grants: Arc<Grants>,
}

impl Verdict {
    /// Whether the request goes through: `Allow` or `WouldDeny`.
    pub fn passes(&self) -> bool {
        match self.decision {
            Decision::Allow | Decision::WouldDeny => true,
            Decision::Deny => false,
        }
    }
}

/// What an allow rule opens besides the way itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Grants {
    /// Blocked ranges into which the host may resolve; for an IP literal, the literal itself.
    pub addresses: Vec<IpNet>,
    /// Whether the tunnel need not be TLS.
    pub opaque: bool,
    /// Whether a wildcard let the name through, so that its labels are the client's choice.
    pub wildcard: bool,
}

impl Grants {
    /// The grants that open nothing, allocated once.
    fn nothing(reach: Reach) -> &'static Arc<Self> {
        static WHOLE: LazyLock<Arc<Grants>> = LazyLock::new(Arc::default);
        static BELOW: LazyLock<Arc<Grants>> = LazyLock::new(|| {
            Arc::new(Grants {
                wildcard: true,
                ..Grants::default()
            })
        });
        match reach {
            Reach::Whole => &WHOLE,
            Reach::Below => &BELOW,
        }
    }
}

/// One profile, or one run's profile with its own list, compiled so that a decision costs the
/// same whatever the length of the lists. A clone shares them.
#[derive(Clone, Debug)]
pub struct Policy {
    lists: Arc<Lists>,
    own: Option<Arc<Own>>,
}

impl Policy {
    /// Compiles a profile.
    ///
    /// # Errors
    /// Every rule that grants something else than an equally specific one before it.
    pub fn compile(profile: Profile) -> Result<Self, Vec<RuleConflict>> {
        Ok(Self {
            lists: Arc::new(Lists::compile(profile)?),
            own: None,
        })
    }

    /// Allows nothing.
    pub fn deny_all() -> Self {
        Self {
            lists: Arc::new(Lists::empty()),
            own: None,
        }
    }

    /// The profile's name; none for a run that has only its own list.
    pub fn profile(&self) -> Option<&Arc<str>> {
        self.lists.name.as_ref()
    }

    /// Whether refusals are enforced or only reported.
    pub fn mode(&self) -> Mode {
        self.lists.mode
    }

    /// What happens to a ClientHello with Encrypted Client Hello.
    pub fn ech(&self) -> EchMode {
        self.lists.ech
    }

    /// Judges one destination.
    pub fn evaluate(&self, destination: &Destination) -> Verdict {
        let sought = Sought::new(destination);
        let (reason, named_by) = match self.lists.judge(&sought) {
            Judgement::Refused(reason, named_by) => (reason, named_by),
            decided @ (Judgement::Allowed(..) | Judgement::Denied(_)) => {
                return Verdict::new(decided);
            }
        };
        let own = self.own.as_ref().map(|own| own.judge(&sought));
        if let Some(allowed @ Judgement::Allowed(..)) = own {
            return Verdict::new(allowed);
        }
        let refused = Verdict::new(Judgement::Refused(reason, named_by));
        // What the profile lets through is not for the run's own list to take away.
        if self.reports_only(reason, &destination.host) {
            return Verdict {
                decision: Decision::WouldDeny,
                ..refused
            };
        }
        match own {
            Some(more @ (Judgement::Denied(_) | Judgement::Refused(Reason::PortNotAllowed, _))) => {
                Verdict::new(more)
            }
            Some(Judgement::Refused(..) | Judgement::Allowed(..)) | None => refused,
        }
    }

    /// Judges a name for our DNS server: it passes when some port of it does, so that no client
    /// is led to a name that it then cannot reach.
    pub fn evaluate_name(&self, name: &Name) -> Verdict {
        let host = Host::Name(name.clone());
        let at = |(port, scheme)| Destination {
            scheme,
            host: host.clone(),
            port,
        };
        let evaluate = |way| self.evaluate(&at(way));
        let any_port = at((443, Scheme::Https));
        let sought = Sought::new(&any_port);
        if let Some(denied) = self.lists.deny.find_every_port(&sought) {
            return Verdict::new(Judgement::Denied(denied));
        }
        let mut first_refusal = None;
        let own = self.own.as_ref().map(|own| &own.allow);
        for list in iter::once(&self.lists.allow).chain(own) {
            let allowed = list.visit_ways(&sought, |way| {
                let verdict = evaluate(way);
                if verdict.decision == Decision::Allow {
                    return ControlFlow::Break(verdict);
                }
                first_refusal.get_or_insert(verdict);
                ControlFlow::Continue(())
            });
            if let ControlFlow::Break(verdict) = allowed {
                return verdict;
            }
        }
        if self.mode() == Mode::Report {
            // Only a deny can stand in the way of one port and not of another.
            let reported = every_way()
                .map(evaluate)
                .find(|verdict| verdict.passes() || verdict.reason != Reason::DeniedByRule);
            if let Some(verdict) = reported.filter(Verdict::passes) {
                return verdict;
            }
        }
        first_refusal
            .unwrap_or_else(|| Verdict::new(Judgement::Refused(Reason::NotAllowlisted, None)))
    }

    /// Every rule in the order considered, and why each did or did not match.
    pub fn explain(&self, destination: &Destination) -> Vec<Considered> {
        explain::explain(self, destination)
    }

    /// Security: report mode lets through what an operator may have forgotten to list, and never
    /// an IP literal, a name of the local site or a metadata name that no entry spells out.
    fn reports_only(&self, reason: Reason, host: &Host) -> bool {
        let is_ordinary = |name: &Name| !name.is_special() && !name.is_never_allowed();
        self.mode() == Mode::Report
            && (reason == Reason::PortNotAllowed
                || (reason == Reason::NotAllowlisted && host.name().is_some_and(is_ordinary)))
    }
}

impl Verdict {
    fn new(judgement: Judgement<'_>) -> Self {
        let nothing = || Arc::clone(Grants::nothing(Reach::Whole));
        let (decision, reason, place, grants) = match judgement {
            Judgement::Allowed(place, grants) => {
                (Decision::Allow, Reason::Allowlisted, Some(place), grants)
            }
            Judgement::Denied(place) => {
                let denied = Reason::DeniedByRule;
                (Decision::Deny, denied, Some(place), nothing())
            }
            Judgement::Refused(reason, place) => (Decision::Deny, reason, place, nothing()),
        };
        Self {
            decision,
            reason,
            rule: place.map(Arc::clone),
            grants,
        }
    }
}

#[cfg(test)]
mod tests;
