//! Every profile of a configuration, and which one a client is under.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet, HashMap},
    net::IpAddr,
    sync::Arc,
};

use foldhash::fast::FixedState;
use ipnet::IpNet;

use super::{
    HostPattern, Pattern, Policy, Profile, Rule, RuleConflict,
    index::{Index, Purpose, Sought, every_way},
    lists::{Lists, Own},
};
use crate::destination::{Destination, address::canonical_range};

/// `[[clients]]`: a range of sources and its profile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientRange {
    /// The range.
    pub source: IpNet,
    /// The profile's name.
    pub profile: Arc<str>,
}

/// All that the configuration says of who may reach what. A clone shares the compiled lists.
#[derive(Clone, Debug)]
pub struct PolicySet {
    profiles: BTreeMap<Arc<str>, (Arc<Profile>, Arc<Policy>)>,
    clients: Vec<ClientRange>,
    by_source: BySource,
    /// The denies of every profile, which bind what a run names for itself.
    every_deny: Arc<Index>,
    ceiling: Option<Arc<Lists>>,
}

/// Finds the longest range that holds an address: one probe a length in use.
#[derive(Clone, Debug, Default)]
struct BySource {
    /// In descending order.
    lengths: BTreeSet<Reverse<u8>>,
    ranges: HashMap<IpNet, Arc<Policy>, FixedState>,
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
        let known: BTreeSet<Arc<str>> = profiles.keys().map(Arc::clone).collect();
        let mut errors = check_names(&known, &clients, ceiling.as_ref());
        errors.extend(check_ranges(&clients));
        let denies: Vec<Rule> = profiles
            .values()
            .flat_map(|profile| profile.deny.iter().cloned())
            .collect();
        let mut compiled = BTreeMap::new();
        for (name, mut profile) in profiles {
            profile.name = Some(Arc::clone(&name));
            match Policy::compile(profile.clone()) {
                Ok(policy) => drop(compiled.insert(name, (Arc::new(profile), Arc::new(policy)))),
                Err(conflicts) => errors.extend(conflicts.into_iter().map(Into::into)),
            }
        }
        let every_deny = Index::build(Purpose::Deny, denies).unwrap_or_else(|conflicts| {
            errors.extend(conflicts.into_iter().map(Into::into));
            Index::empty(Purpose::Deny)
        });
        if !errors.is_empty() {
            return Err(errors);
        }
        let by_source = BySource::new(&clients, &compiled);
        let ceiling = ceiling
            .and_then(|ceiling| compiled.get(&ceiling))
            .map(|(_, policy)| Arc::clone(&policy.lists));
        Ok(Self {
            profiles: compiled,
            clients,
            by_source,
            every_deny: Arc::new(every_deny),
            ceiling,
        })
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

    /// Every `[[clients]]` range, in the order of the file.
    pub fn clients(&self) -> &[ClientRange] {
        &self.clients
    }

    /// The policy of the longest `[[clients]]` prefix that holds `source`.
    pub fn client(&self, source: IpAddr) -> Option<&Arc<Policy>> {
        self.by_source.find(source.to_canonical())
    }

    /// The policy of a run: its profile's lists and its own `allow`; without a profile its own
    /// `allow` only. What the run adds for itself is bound by every configured deny and by the
    /// ceiling. Only the run's own list is compiled.
    pub fn for_run(
        &self,
        profile: Option<&str>,
        allow: &[Pattern],
    ) -> Result<Policy, UnknownProfile> {
        let base = match profile {
            Some(name) => self
                .profile(name)
                .map(|policy| Policy::clone(policy))
                .ok_or_else(|| UnknownProfile(name.to_owned()))?,
            None => Policy::deny_all(),
        };
        if allow.is_empty() {
            return Ok(base);
        }
        let own = Own::new(
            allow,
            Arc::clone(&self.every_deny),
            self.ceiling.as_ref().map(Arc::clone),
        );
        Ok(Policy {
            own: Some(Arc::new(own)),
            ..base
        })
    }

    /// The first entry that names one host or literal which the ceiling allows on none of the
    /// entry's ports; a wildcard, and a single port, is bound when it is used.
    pub fn beyond_ceiling<'a>(&self, allow: &'a [Pattern]) -> Option<&'a Pattern> {
        let ceiling = self.ceiling.as_ref()?;
        allow.iter().find(|pattern| {
            let HostPattern::Exact(host) = &pattern.hosts else {
                return false;
            };
            let ways = pattern
                .ports
                .listed()
                .unwrap_or_else(|| every_way().collect());
            let mut judged = ways.into_iter().map(|(port, scheme)| {
                let destination = Destination {
                    scheme,
                    host: host.clone(),
                    port,
                };
                ceiling.judge(&Sought::new(&destination)).is_allowed()
            });
            !judged.any(|allowed| allowed)
        })
    }
}

impl Default for PolicySet {
    /// No profile and no client: nothing is allowed to anybody.
    fn default() -> Self {
        Self {
            profiles: BTreeMap::new(),
            clients: Vec::new(),
            by_source: BySource::default(),
            every_deny: Arc::new(Index::empty(Purpose::Deny)),
            ceiling: None,
        }
    }
}

impl BySource {
    fn new(
        clients: &[ClientRange],
        profiles: &BTreeMap<Arc<str>, (Arc<Profile>, Arc<Policy>)>,
    ) -> Self {
        let mut found = Self::default();
        for client in clients {
            let range = canonical_range(client.source);
            if let Some((_, policy)) = profiles.get(&client.profile) {
                found.lengths.insert(Reverse(range.prefix_len()));
                found.ranges.insert(range, Arc::clone(policy));
            }
        }
        found
    }

    fn find(&self, source: IpAddr) -> Option<&Arc<Policy>> {
        self.lengths.iter().find_map(|Reverse(length)| {
            // A length over 32 is of no IPv4 range.
            let range = IpNet::new(source, *length).ok()?;
            self.ranges.get(&range.trunc())
        })
    }
}

fn check_names(
    known: &BTreeSet<Arc<str>>,
    clients: &[ClientRange],
    ceiling: Option<&Arc<str>>,
) -> Vec<PolicySetError> {
    let by_clients = clients
        .iter()
        .enumerate()
        .map(|(at, client)| (format!("clients[{at}].profile"), &client.profile));
    let by_ceiling = ceiling.map(|ceiling| ("launcher.ceiling".to_owned(), ceiling));
    by_clients
        .chain(by_ceiling)
        .filter(|(_, profile)| !known.contains(*profile))
        .map(|(key, profile)| PolicySetError::UnknownProfile {
            key,
            profile: Arc::clone(profile),
        })
        .collect()
}

fn check_ranges(clients: &[ClientRange]) -> Vec<PolicySetError> {
    let mut first_by_range = HashMap::new();
    let mut errors = Vec::new();
    for (at, client) in clients.iter().enumerate() {
        let range = canonical_range(client.source);
        let first = *first_by_range.entry(range).or_insert(at);
        if first != at {
            errors.push(PolicySetError::DuplicateClient {
                key: format!("clients[{at}].source"),
                first: format!("clients[{first}]"),
                range,
            });
        }
    }
    errors
}

#[cfg(test)]
mod tests;
