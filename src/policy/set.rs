//! Every profile of a configuration, and which one a client is under.

use std::{collections::BTreeMap, net::IpAddr, sync::Arc};

use ipnet::IpNet;

use super::{Pattern, Policy, Profile, RuleConflict};

/// `[[clients]]`: a range of sources and its profile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientRange {
    /// The range.
    pub source: IpNet,
    /// The profile's name.
    pub profile: Arc<str>,
}

/// All that the configuration says of who may reach what.
#[derive(Clone, Debug, Default)]
pub struct PolicySet {
    profiles: BTreeMap<Arc<str>, (Arc<Profile>, Arc<Policy>)>,
    clients: Vec<ClientRange>,
    ceiling: Option<Arc<str>>,
}

/// A profile that the configuration does not have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no profile {0:?}")]
pub struct UnknownProfile(pub String);

/// What is wrong between the parts of a configuration that a `PolicySet` is made of.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PolicySetError {
    /// Two rules of one profile that cannot both hold.
    #[error(transparent)]
    Conflict(#[from] RuleConflict),
    /// `clients[N].profile` or `launcher.ceiling` names a profile that is not there.
    #[error("there is no profile {profile:?}")]
    UnknownProfile {
        /// The key that names it.
        key: String,
        /// The name as written.
        profile: Arc<str>,
    },
    /// Two `[[clients]]` with one range, so that neither is the longer prefix.
    #[error("{range} is already the source of {first}")]
    DuplicateClient {
        /// The key of the second.
        key: String,
        /// The key of the first.
        first: String,
        /// The range, without host bits.
        range: IpNet,
    },
}

impl PolicySetError {
    /// The key that has to change, e.g. `clients[1].profile`.
    pub fn key(&self) -> &str {
        match self {
            Self::Conflict(conflict) => &conflict.second,
            Self::UnknownProfile { key, .. } | Self::DuplicateClient { key, .. } => key,
        }
    }
}

impl PolicySet {
    /// Compiles every profile and checks the names and ranges that refer to them. A profile's
    /// name is its key in `profiles`.
    ///
    /// # Errors
    /// Everything that is wrong, at once.
    pub fn new(
        profiles: BTreeMap<Arc<str>, Profile>,
        clients: Vec<ClientRange>,
        ceiling: Option<Arc<str>>,
    ) -> Result<Self, Vec<PolicySetError>> {
        let _ = (profiles, clients, ceiling);
        todo!()
    }

    /// The policy of the profile `name`.
    pub fn profile(&self, name: &str) -> Option<&Arc<Policy>> {
        self.profiles.get(name).map(|(_, policy)| policy)
    }

    /// The profile `name` as configured, before it was compiled.
    pub fn configured(&self, name: &str) -> Option<&Profile> {
        self.profiles.get(name).map(|(profile, _)| &**profile)
    }

    /// The names of all profiles, sorted.
    pub fn profile_names(&self) -> impl Iterator<Item = &Arc<str>> {
        self.profiles.keys()
    }

    /// Every `[[clients]]` range.
    pub fn clients(&self) -> &[ClientRange] {
        &self.clients
    }

    /// The policy of the longest `[[clients]]` prefix that holds `source`.
    pub fn client(&self, source: IpAddr) -> Option<&Arc<Policy>> {
        let _ = source;
        todo!()
    }

    /// The policy of a run: its profile's lists and its own `allow`; without a profile its own
    /// `allow` only. What the run adds for itself is bound by every configured deny and by the
    /// ceiling.
    pub fn for_run(
        &self,
        profile: Option<&str>,
        allow: &[Pattern],
    ) -> Result<Policy, UnknownProfile> {
        let _ = (profile, allow);
        todo!()
    }

    /// The first entry that names one host or literal which the ceiling does not allow; a wildcard
    /// is bound when it is used.
    pub fn beyond_ceiling<'a>(&self, allow: &'a [Pattern]) -> Option<&'a Pattern> {
        let _ = allow;
        todo!()
    }
}
