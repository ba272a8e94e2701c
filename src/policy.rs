//! What a sandbox may reach. `Policy::evaluate` is the whole decision on a destination, made
//! before anything is looked up: deny, then allow, else deny.

pub mod explain;
pub mod pattern;
pub mod profile;
pub mod reason;
pub mod set;

mod index;

use std::sync::Arc;

use ipnet::IpNet;

pub use self::{
    explain::Considered,
    pattern::{HostPattern, Pattern, PatternError, Ports},
    profile::{EchMode, Mode, Profile, Rule, RuleConflict},
    reason::Reason,
    set::{ClientRange, PolicySet, PolicySetError, UnknownProfile},
};
use crate::destination::{Destination, Name};

/// What was decided, as the record writes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    /// Let through.
    Allow,
    /// Refused.
    Deny,
    /// Let through by report mode; enforced, it would have been refused.
    WouldDeny,
}

/// The answer of policy on one destination.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// What was decided.
    pub decision: Decision,
    /// Why.
    pub reason: Reason,
    /// Where the deciding rule stands, e.g. `profiles.default.allow[0]`.
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

/// One profile, or one run's profile with its own list, compiled so that a decision costs the
/// same whatever the length of the lists.
#[derive(Clone, Debug)]
pub struct Policy {
    name: Option<Arc<str>>,
    mode: Mode,
    ech: EchMode,
    // the helper fills in the indexes
}

impl Policy {
    /// Compiles a profile.
    ///
    /// # Errors
    /// Every pair of equally specific rules that differ in what they grant.
    pub fn compile(profile: Profile) -> Result<Self, Vec<RuleConflict>> {
        let _ = profile;
        todo!()
    }

    /// Allows nothing.
    pub fn deny_all() -> Self {
        todo!()
    }

    /// The profile's name; none for a run that has only its own list.
    pub fn profile(&self) -> Option<&Arc<str>> {
        self.name.as_ref()
    }

    /// Whether refusals are enforced or only reported.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// What happens to a ClientHello with Encrypted Client Hello.
    pub fn ech(&self) -> EchMode {
        self.ech
    }

    /// Judges one destination.
    pub fn evaluate(&self, destination: &Destination) -> Verdict {
        let _ = destination;
        todo!()
    }

    /// Judges a name for our DNS server: allowed when some port of it is.
    pub fn evaluate_name(&self, name: &Name) -> Verdict {
        let _ = name;
        todo!()
    }

    /// Every rule in the order considered, and why each did or did not match.
    pub fn explain(&self, destination: &Destination) -> Vec<Considered> {
        let _ = destination;
        todo!()
    }
}
