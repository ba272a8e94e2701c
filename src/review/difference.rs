//! Two configurations side by side: which patterns of either lead to another decision.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use serde::Serialize;

use super::judge::Judged;
use crate::{
    config::Config,
    destination::{Destination, Host, Name, Scheme},
    policy::{HostPattern, Pattern, Policy, Profile},
};

/// The label that stands for all that a wildcard covers.
const SOME_LABEL: &str = "some-name";

/// A destination that a pattern names, and on which the configurations differ.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PatternChange {
    /// The profile.
    pub profile: Arc<str>,
    /// The pattern, as it would be written.
    pub pattern: String,
    /// Of the pattern's destinations the one that was judged; below a wildcard, a name with the
    /// label `some-name`. `host:port` where it is so for plain HTTP and tunnels alike.
    pub destination: String,
    /// Before.
    pub old: Judged,
    /// After.
    pub new: Judged,
}

/// Judges every destination that a pattern of either configuration spells out, and one below each
/// wildcard, under both. A profile that a configuration does not have allows nothing.
pub fn patterns(old: &Config, new: &Config) -> Vec<PatternChange> {
    let names: BTreeSet<&Arc<str>> = [old, new]
        .into_iter()
        .flat_map(|config| config.policies.profile_names())
        .collect();
    let of_profile = |profile| Pair { profile, old, new }.changes();
    names.into_iter().flat_map(of_profile).collect()
}

/// One profile in two configurations.
#[derive(Clone, Copy)]
struct Pair<'c> {
    profile: &'c Arc<str>,
    old: &'c Config,
    new: &'c Config,
}

impl Pair<'_> {
    fn changes(self) -> Vec<PatternChange> {
        let patterns: BTreeMap<String, &Pattern> = [self.old, self.new]
            .into_iter()
            .filter_map(|config| config.policies.configured(self.profile))
            .flat_map(patterns_of)
            .map(|pattern| (pattern.to_string(), pattern))
            .collect();
        let mut changes: Vec<_> = patterns
            .into_iter()
            .flat_map(|(text, pattern)| self.of_pattern(&text, pattern))
            .collect();
        let mut seen = BTreeSet::new();
        changes.retain(|change| seen.insert(change.destination.clone()));
        changes
    }

    fn of_pattern(self, text: &str, pattern: &Pattern) -> Vec<PatternChange> {
        let destinations = destinations(pattern);
        let ports = destinations.chunk_by(|one, other| one.to_string() == other.to_string());
        ports.flat_map(|ways| self.of_port(text, ways)).collect()
    }

    /// The ways to speak to one port; where all of them change alike, they are one line.
    fn of_port(self, pattern: &str, ways: &[Destination]) -> Vec<PatternChange> {
        let mut changes: Vec<PatternChange> = Vec::new();
        for way in ways {
            let (old, new) = (self.judge(self.old, way), self.judge(self.new, way));
            if old.decision != new.decision {
                changes.push(PatternChange {
                    profile: Arc::clone(self.profile),
                    pattern: pattern.to_owned(),
                    destination: format!("{}://{way}", way.scheme.as_str()),
                    old,
                    new,
                });
            }
        }
        if let ([first, second], [way, _]) = (&mut *changes, ways)
            && (&first.old, &first.new) == (&second.old, &second.new)
        {
            first.destination = way.to_string();
            changes.truncate(1);
        }
        changes
    }

    fn judge(self, config: &Config, destination: &Destination) -> Judged {
        let nothing = Policy::deny_all();
        let policy = config.policies.profile(self.profile);
        let policy = policy.map_or(&nothing, |policy| &**policy);
        Judged::destination(config, policy, destination, &[])
    }
}

fn patterns_of(profile: &Profile) -> impl Iterator<Item = &Pattern> {
    let rules = profile.allow.iter().chain(&profile.deny);
    rules.map(|rule| &rule.pattern)
}

/// What stands for all that a pattern covers.
fn destinations(pattern: &Pattern) -> Vec<Destination> {
    let below = |base: &Name| Name::parse(&format!("{SOME_LABEL}.{base}")).ok();
    let hosts = match &pattern.hosts {
        HostPattern::Exact(host) => vec![host.clone()],
        HostPattern::Below(base) => below(base).map(Host::Name).into_iter().collect(),
        HostPattern::AtOrBelow(base) => [Some(base.clone()), below(base)]
            .into_iter()
            .flatten()
            .map(Host::Name)
            .collect(),
    };
    let ways = pattern.ports.listed();
    let ways = ways.unwrap_or_else(|| vec![(443, Scheme::Https), (80, Scheme::Http)]);
    let at = |host: &Host, (port, scheme)| Destination {
        scheme,
        host: host.clone(),
        port,
    };
    hosts
        .iter()
        .flat_map(|host| ways.iter().map(move |way| at(host, *way)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(text: &str) -> Config {
        Config::parse(text).unwrap()
    }

    #[test]
    fn patterns_that_lead_to_another_decision_are_named_with_both() {
        let old = config(
            r#"
            [profiles.default]
            allow = ["kept.example", "http://gone.example", "*.wild.example", ".zone.example"]
            [profiles.gone]
            allow = ["https://only.example"]
            "#,
        );
        let new = config(
            r#"
            [profiles.default]
            allow = ["kept.example", "db.example:8443", "*.wild.example", ".zone.example"]
            deny = [".zone.example"]
            "#,
        );
        let found: Vec<_> = patterns(&old, &new)
            .into_iter()
            .map(|change| {
                let (old, new) = (change.old.reason.code(), change.new.reason.code());
                format!("{} {} {old} {new}", change.profile, change.destination)
            })
            .collect();
        insta::assert_snapshot!(found.join("\n"));
    }

    #[test]
    fn a_configuration_differs_in_nothing_from_itself_written_otherwise() {
        let one = config("[profiles.default]\nallow = [\"a.example\", \"b.example\"]");
        let other = config(
            "[profiles.default]\nallow = [\"b.example:80\", \"b.example:443\", \"a.example\"]",
        );
        assert_eq!(patterns(&one, &other), []);
    }
}
