//! From refusals to the lines that would have allowed them, the narrowest first, each with its
//! evidence. What no line should open is a finding.

mod evidence;
mod finding;
mod render;
mod siblings;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap};

use serde::Serialize;

use self::siblings::narrowest;
pub use self::{
    evidence::Evidence,
    finding::{Finding, FindingKind},
};
use super::{exchanges::Target, judge::Judged, name};
use crate::{
    config::{Config, is_profile_name},
    destination::{Destination, Host, Name, Scheme},
    policy::{Decision, HostPattern, Pattern, Ports, Reason},
    record::{Line, RunRecord},
};

/// The most destinations that are told apart; refusals of others are counted.
const MOST_DESTINATIONS: usize = 20_000;

/// Refusals on their way to a suggestion.
#[derive(Debug)]
pub struct Suggest {
    /// What is in force; what it allows by now is not suggested again.
    config: Option<Config>,
    wanted: HashMap<(Owner, Wanted), Evidence>,
    findings: HashMap<Finding, Evidence>,
    refusals: u64,
    untold: u64,
}

/// Whose list would allow it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Owner {
    Profile(String),
    /// Runs that have their own list alone.
    Runs,
}

/// What was refused only because no list names it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Wanted {
    Exchange(Destination),
    /// By DNS alone.
    Name(Name),
}

/// A line for an `allow` list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Suggestion {
    /// The entry.
    pub pattern: String,
    /// What it rests on.
    pub evidence: Evidence,
    /// The names that a wildcard stands for; empty for an exact entry.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub siblings: Vec<String>,
    /// Whether the name was asked for by DNS alone, so that its port is a guess.
    pub by_dns_alone: bool,
}

/// What would have allowed what was refused.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Suggestions {
    /// Refusals seen, of any kind.
    pub refusals: u64,
    /// Lines for each profile.
    pub profiles: BTreeMap<String, Vec<Suggestion>>,
    /// What runs without a profile were refused: `--allow` of `eclusa run`.
    pub runs: Vec<Suggestion>,
    /// What no line is suggested for, and why.
    pub findings: Vec<(Finding, Evidence)>,
    /// Refusals of destinations beyond those that are told apart.
    pub untold: u64,
}

impl Suggest {
    /// With the configuration in force, where there is one.
    pub fn new(config: Option<Config>) -> Self {
        Self {
            config,
            wanted: HashMap::new(),
            findings: HashMap::new(),
            refusals: 0,
            untold: 0,
        }
    }

    /// Takes the next line of a log; `target` is what a close is about, where that is known.
    pub fn line(&mut self, line: &Line, target: Option<&Target>) {
        let refused = matches!(line.decision.as_deref(), Some("deny" | "would_deny"));
        let after = line.event == "close" && line.reason.is_some();
        let reason = line.reason.as_deref().unwrap_or_default();
        let reason = Reason::ALL.iter().find(|known| known.code() == reason);
        let (true, Some(reason)) = (refused || after, reason) else {
            return;
        };
        self.refusals = self.refusals.saturating_add(line.count.unwrap_or(1));
        match (reason, wanted(line)) {
            (Reason::NotAllowlisted | Reason::PortNotAllowed, Some(wanted)) => {
                let evidence = Evidence::of(line);
                match &line.profile {
                    None => self.wish(Owner::Runs, wanted, &evidence),
                    Some(profile) if is_profile_name(profile) => {
                        self.wish(Owner::Profile(profile.clone()), wanted, &evidence);
                    }
                    Some(odd) => {
                        let finding = Finding::new(FindingKind::OddProfile, name(odd), "");
                        self.find(finding, &evidence);
                    }
                }
            }
            (reason, wanted) => {
                let finding = Finding::of(*reason, line, (wanted.as_ref(), target));
                self.find(finding, &Evidence::of(line));
            }
        }
    }

    /// Takes a run of the launcher's record file: what its network summary says was refused.
    pub fn run(&mut self, record: &RunRecord) {
        let owner = match record
            .profile
            .as_deref()
            .filter(|name| is_profile_name(name))
        {
            Some(profile) => Owner::Profile(profile.to_owned()),
            None => Owner::Runs,
        };
        for line in record.network.iter().flat_map(|network| &network.denied) {
            self.refusals = self.refusals.saturating_add(line.count);
            let host = line.host.as_deref().and_then(|host| Host::parse(host).ok());
            let is_wish = matches!(line.reason, Reason::NotAllowlisted | Reason::PortNotAllowed);
            let (true, Some(host), Some(port)) = (is_wish, host, line.port) else {
                continue;
            };
            let scheme = match port {
                80 => Scheme::Http,
                _ => Scheme::Https,
            };
            let wanted = Wanted::Exchange(Destination { scheme, host, port });
            self.wish(owner.clone(), wanted, &Evidence::of_run(record, line));
        }
    }

    /// The suggestions.
    pub fn finish(mut self) -> Suggestions {
        let mut by_owner: BTreeMap<Owner, Vec<(Destination, Evidence, bool)>> = BTreeMap::new();
        for ((owner, wanted), evidence) in self.merged() {
            if self.is_allowed(&owner, &wanted) {
                continue;
            }
            let by_dns_alone = matches!(wanted, Wanted::Name(_));
            let destination = wanted.destination();
            if let Some(finding) = self.refusal_of(&owner, &destination) {
                self.find(finding, &evidence);
                continue;
            }
            let wishes = by_owner.entry(owner).or_default();
            wishes.push((destination, evidence, by_dns_alone));
        }
        let mut suggestions = Suggestions {
            refusals: self.refusals,
            untold: self.untold,
            ..Suggestions::default()
        };
        for (owner, wanted) in by_owner {
            let (lines, findings) = narrowest(wanted);
            for (finding, evidence) in findings {
                self.find(finding, &evidence);
            }
            match owner {
                Owner::Profile(name) => drop(suggestions.profiles.insert(name, lines)),
                Owner::Runs => suggestions.runs = lines,
            }
        }
        suggestions.profiles.retain(|_, lines| !lines.is_empty());
        suggestions.findings = self.findings.into_iter().collect();
        suggestions.findings.sort_by(|(one, much), (other, more)| {
            let order = (one.kind, more.count, &one.about);
            order.cmp(&(other.kind, much.count, &other.about))
        });
        suggestions
    }

    fn wish(&mut self, owner: Owner, wanted: Wanted, evidence: &Evidence) {
        let key = (owner, wanted);
        if self.wanted.len() >= MOST_DESTINATIONS && !self.wanted.contains_key(&key) {
            self.untold = self.untold.saturating_add(evidence.count);
            return;
        }
        self.wanted.entry(key).or_default().add(evidence);
    }

    fn find(&mut self, finding: Finding, evidence: &Evidence) {
        if self.findings.len() >= MOST_DESTINATIONS && !self.findings.contains_key(&finding) {
            self.untold = self.untold.saturating_add(evidence.count);
            return;
        }
        self.findings.entry(finding).or_default().add(evidence);
    }

    /// A name that was looked up and then asked for is one wish.
    fn merged(&mut self) -> Vec<((Owner, Wanted), Evidence)> {
        let mut by_host: HashMap<(Owner, Name), Evidence> = HashMap::new();
        let mut exchanges = Vec::new();
        for ((owner, wanted), evidence) in self.wanted.drain() {
            match wanted {
                Wanted::Name(name) => drop(by_host.insert((owner, name), evidence)),
                exchange @ Wanted::Exchange(_) => exchanges.push(((owner, exchange), evidence)),
            }
        }
        for ((owner, wanted), _) in &exchanges {
            if let Wanted::Exchange(Destination {
                host: Host::Name(name),
                ..
            }) = wanted
            {
                by_host.remove(&(owner.clone(), name.clone()));
            }
        }
        let names = by_host
            .into_iter()
            .map(|((owner, name), evidence)| ((owner, Wanted::Name(name)), evidence));
        exchanges.into_iter().chain(names).collect()
    }

    /// Whether the configuration in force allows it by now.
    fn is_allowed(&self, owner: &Owner, wanted: &Wanted) -> bool {
        let (Some(config), Owner::Profile(name)) = (&self.config, owner) else {
            return false;
        };
        let judged = config.policies.profile(name).map(|policy| match wanted {
            Wanted::Exchange(to) => Judged::destination(config, policy, to, &[]),
            Wanted::Name(name) => Judged::name(config, policy, name),
        });
        judged.is_some_and(|judged| judged.decision == Decision::Allow)
    }

    /// Why no entry may open it.
    fn refusal_of(&self, owner: &Owner, destination: &Destination) -> Option<Finding> {
        let about = exact(destination).to_string();
        if let Err(error) = Pattern::parse_allow(&about) {
            let why = error.to_string();
            return Some(Finding::new(FindingKind::NeverAllowed, about, &why));
        }
        let Host::Name(name) = &destination.host else {
            return Some(Finding::new(FindingKind::IpLiteral, about, ""));
        };
        if name.is_special() {
            let zone = name.special_zone().unwrap_or_default();
            return Some(Finding::new(FindingKind::LocalName, about, zone));
        }
        let (Some(config), Owner::Profile(name)) = (&self.config, owner) else {
            return None;
        };
        let verdict = config.policies.profile(name)?.evaluate(destination);
        let rule = verdict.rule.as_deref().unwrap_or_default();
        (verdict.reason == Reason::DeniedByRule)
            .then(|| Finding::new(FindingKind::DeniedByRule, about, rule))
    }
}

/// What a line was about; of DNS queries, those that a connection begins with.
fn wanted(line: &Line) -> Option<Wanted> {
    if line.event == "dns" {
        if !matches!(line.record_type.as_deref(), Some("A" | "AAAA" | "HTTPS")) {
            return None;
        }
        return Some(Wanted::Name(Name::parse(line.name.as_deref()?).ok()?));
    }
    line.destination().map(Wanted::Exchange)
}

impl Wanted {
    /// A name by DNS alone most likely means HTTPS.
    fn destination(self) -> Destination {
        match self {
            Self::Exchange(destination) => destination,
            Self::Name(name) => Destination {
                scheme: Scheme::Https,
                host: Host::Name(name),
                port: 443,
            },
        }
    }
}

/// The narrowest entry that covers a destination.
fn exact(destination: &Destination) -> Pattern {
    Pattern {
        hosts: HostPattern::Exact(destination.host.clone()),
        ports: ports(destination),
    }
}

fn ports(destination: &Destination) -> Ports {
    match destination.scheme {
        Scheme::Http => Ports::Http(destination.port),
        Scheme::Https => Ports::Https(destination.port),
    }
}
