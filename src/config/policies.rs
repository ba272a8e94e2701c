//! `[profiles]`, `[[clients]]`, `[[tests]]` and `launcher.ceiling`: who may reach what.

#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    sync::Arc,
};

use ipnet::IpNet;

use super::{Expectation, destination, document::Section, item::Item, scalar, suggest};
use crate::{
    destination::{AddressClass, address::classify},
    policy::{ClientRange, Decision, EchMode, Mode, Pattern, Ports, Profile, Reason, Rule},
};

const A_PATTERN: &str = "a pattern in quotes such as \"api.example.com\"";
const A_PROFILE: &str = "a profile's name in quotes";
pub(super) const A_RANGE: &str = "an IP range in quotes such as \"10.199.0.0/24\"";

/// The longest name of a profile; it stands in every record.
const MAX_PROFILE_NAME: usize = 64;

/// Whether a profile can have this name.
pub(crate) fn is_profile_name(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    (1..=MAX_PROFILE_NAME).contains(&name.len()) && name.bytes().all(plain)
}

/// Every profile by its name.
pub(super) fn profiles(root: &mut Section<'_>) -> BTreeMap<Arc<str>, Profile> {
    let profiles = root.named_tables("profiles", |name, section| {
        if !is_profile_name(name) {
            section.problem(format!(
                "{name:?} is not a name for a profile: 1 to {MAX_PROFILE_NAME} letters, digits, \
                 hyphens and underscores"
            ));
        }
        let name: Arc<str> = name.into();
        (Arc::clone(&name), profile(name, section))
    });
    profiles.into_iter().collect()
}

fn profile(name: Arc<str>, section: &mut Section<'_>) -> Profile {
    let modes = [("enforce", Mode::Enforce), ("report", Mode::Report)];
    let ech = [("refuse", EchMode::Refuse), ("allow", EchMode::Allow)];
    let mode = choice(section.take("mode"), &modes);
    let ech = choice(section.take("ech"), &ech);
    let mut allow = patterns(section, "allow", |text| {
        Pattern::parse_allow(text).map_err(|error| format!("{text:?}: {error}"))
    });
    let deny = patterns(section, "deny", |text| {
        Pattern::parse_deny(text).map_err(|error| format!("{text:?}: {error}"))
    });
    allow.extend(section.tables("rules", rules).into_iter().flatten());
    Profile {
        name: Some(name),
        mode: mode.unwrap_or_default(),
        ech: ech.unwrap_or_default(),
        allow,
        deny,
    }
}

fn patterns(
    section: &mut Section<'_>,
    key: &'static str,
    parse: impl Fn(&str) -> Result<Pattern, String>,
) -> Vec<Rule> {
    let items = section.take(key).and_then(|item| item.list(A_PATTERN));
    let rules = items.into_iter().flatten().filter_map(|item| {
        Some(Rule {
            pattern: item.parsed(A_PATTERN, &parse)?,
            place: item.path.into(),
            addresses: Vec::new(),
            opaque: false,
        })
    });
    rules.collect()
}

/// One `[[profiles.NAME.rules]]`: a rule for each of its hosts.
fn rules(section: &mut Section<'_>) -> Vec<Rule> {
    let hosts = section.required("hosts", "[\"api.example.com\"]");
    let ports = section
        .take("ports")
        .map_or(Some(Ports::Web), |item| rule_ports(&item));
    let addresses = rule_addresses(section.take("addresses"));
    let opaque = section.flag("opaque");
    let items = hosts.and_then(|item| {
        let items = item.list(A_PATTERN)?;
        if items.is_empty() {
            item.problem(
                "the rule names no host and so allows nothing; name one, or drop the rule",
            );
        }
        Some(items)
    });
    let rules = items.into_iter().flatten().filter_map(|item| {
        let mut pattern = item.parsed(A_PATTERN, rule_host)?;
        pattern.ports = ports.clone()?;
        Some(Rule {
            pattern,
            place: item.path.into(),
            addresses: addresses.clone(),
            opaque,
        })
    });
    rules.collect()
}

fn rule_host(text: &str) -> Result<Pattern, String> {
    let pattern = Pattern::parse_allow(text).map_err(|error| format!("{text:?}: {error}"))?;
    match pattern.ports {
        Ports::Web => Ok(pattern),
        Ports::Any | Ports::Http(_) | Ports::Https(_) | Ports::Listed(_) => Err(format!(
            "{text:?} has a port or scheme of its own; write the host alone, and ports = [PORT] \
             in the rule"
        )),
    }
}

fn rule_ports(item: &Item<'_>) -> Option<Ports> {
    let items = item.list("a port without quotes such as 443")?;
    if items.is_empty() {
        item.problem("the rule names no port; name one, or leave the key out for 443 and 80");
        return None;
    }
    let mut ports = BTreeSet::new();
    for item in items {
        let port = item.number(1..=65_535)?;
        if !ports.insert(u16::try_from(port).ok()?) {
            item.problem(format!("{port} stands here twice"));
        }
    }
    Some(Ports::Listed(ports.into_iter().collect()))
}

fn rule_addresses(item: Option<Item<'_>>) -> Vec<IpNet> {
    let items = item.and_then(|item| item.list(A_RANGE));
    let ranges = items.into_iter().flatten().filter_map(|item| {
        let range = item.parsed(A_RANGE, scalar::range)?;
        if let Some(what) = metadata(range) {
            item.problem(format!(
                "{range} is {what}, which no rule can open: whoever reaches it holds the \
                 credentials of this host"
            ));
        }
        Some(range)
    });
    ranges.collect()
}

/// What a range is when every address of it belongs to a cloud's metadata service.
fn metadata(range: IpNet) -> Option<&'static str> {
    /// No metadata range is longer than this many addresses, so no longer range is looked through.
    const LONGEST: usize = 256;
    let what = |address: IpAddr| match classify(address, &[]) {
        AddressClass::Metadata(what) => Some(what),
        AddressClass::Public | AddressClass::Special(_) => None,
    };
    let first = what(range.network())?;
    let mut addresses = subnet(range).take(LONGEST + 1);
    let short = subnet(range).take(LONGEST + 1).count() <= LONGEST;
    (short && addresses.all(|address| what(address).is_some())).then_some(first)
}

/// Every address of a range, its first and last included.
fn subnet(range: IpNet) -> impl Iterator<Item = IpAddr> {
    range
        .subnets(range.max_prefix_len())
        .into_iter()
        .flatten()
        .map(|host| host.addr())
}

/// Every `[[clients]]`; the same source twice is a problem, so that none of them is dead.
pub(super) fn clients(
    root: &mut Section<'_>,
    profiles: &BTreeMap<Arc<str>, Profile>,
) -> Vec<ClientRange> {
    let mut taken: BTreeMap<IpNet, String> = BTreeMap::new();
    let clients = root.tables("clients", |section| {
        let profile = section
            .required("profile", "\"NAME\"")
            .and_then(|item| known_profile(&item, profiles));
        let item = section.required("source", "\"10.199.0.0/24\"")?;
        let source = item.parsed(A_RANGE, scalar::range)?;
        if let Some(first) = taken.get(&source) {
            item.problem(format!("{source} is already the source of {first}"));
            return None;
        }
        taken.insert(source, section.path().to_owned());
        Some(ClientRange {
            source,
            profile: profile?,
        })
    });
    clients.into_iter().flatten().collect()
}

/// Reads a profile's name and holds that there is such a profile.
pub(super) fn known_profile(
    item: &Item<'_>,
    profiles: &BTreeMap<Arc<str>, Profile>,
) -> Option<Arc<str>> {
    item.parsed(A_PROFILE, |name| {
        let known = profiles.get_key_value(name);
        known.map(|(name, _)| Arc::clone(name)).ok_or_else(|| {
            let suggestion = suggest::among(name, profiles.keys().map(|name| &**name));
            format!("there is no profile {name:?}; {suggestion}")
        })
    })
}

/// Every `[[tests]]`.
pub(super) fn tests(
    root: &mut Section<'_>,
    profiles: &BTreeMap<Arc<str>, Profile>,
) -> Vec<Expectation> {
    let expectations = root.tables("tests", |section| {
        let written = section.required("destination", "\"https://evil.example.net/\"");
        let profile = section
            .required("profile", "\"NAME\"")
            .and_then(|item| known_profile(&item, profiles));
        let expect = choice(
            section.required("expect", "\"deny\""),
            &[
                ("allow", Decision::Allow),
                ("deny", Decision::Deny),
                ("would_deny", Decision::WouldDeny),
            ],
        );
        let reasons: Vec<_> = Reason::ALL
            .iter()
            .map(|reason| (reason.code(), *reason))
            .collect();
        let reason = choice(section.take("reason"), &reasons);
        let written = written.and_then(|item| {
            item.parsed("a destination in quotes", |text| {
                destination::parse(text).map(|destination| (text.to_owned(), destination))
            })
        });
        let (written, destination) = written?;
        Some(Expectation {
            place: section.path().into(),
            line: section.line(),
            written,
            destination,
            profile: profile?,
            expect: expect?,
            reason,
        })
    });
    expectations.into_iter().flatten().collect()
}

/// Reads one of a few words.
fn choice<T: Copy>(item: Option<Item<'_>>, choices: &[(&str, T)]) -> Option<T> {
    let item = item?;
    let words = choices.iter().map(|(word, _)| *word);
    let expected = "a word in quotes";
    item.parsed(expected, |text| {
        let found = choices.iter().find(|(word, _)| *word == text);
        found.map(|(_, choice)| *choice).ok_or_else(|| {
            format!(
                "{text:?} is not known here; {}",
                suggest::among(text, words)
            )
        })
    })
}
