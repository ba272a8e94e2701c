//! The rules considered for a destination and why each did or did not match.

use std::{cmp::Reverse, sync::Arc};

use super::{
    HostPattern, Policy,
    index::{Entry, Index},
};
use crate::destination::{Destination, Host};

/// One rule that was considered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Considered {
    /// Where the rule stands, e.g. `profiles.default.deny[2]`.
    pub place: Arc<str>,
    /// The rule's pattern as written.
    pub pattern: String,
    /// Whether it matched.
    pub matched: bool,
    /// Why, as a fragment: `the host matches, port 8080 is not in 443,80`.
    pub why: String,
}

/// Denies before allows, and of the allows the most specific host first; then what a run adds
/// and what bounds it.
pub(super) fn explain(policy: &Policy, destination: &Destination) -> Vec<Considered> {
    let own = policy.own.as_deref();
    let ceiling = own.and_then(|own| own.ceiling.as_deref());
    let lists = [
        Some(&policy.lists.deny),
        Some(&policy.lists.allow),
        own.map(|own| &own.allow),
        own.map(|own| &*own.every_deny),
        ceiling.map(|ceiling| &ceiling.allow),
    ];
    let decides = policy.evaluate(destination).rule;
    lists
        .into_iter()
        .flatten()
        .flat_map(|index| in_order(index, destination))
        .map(|(index, entry)| consider(index, entry, destination, decides.as_ref()))
        .collect()
}

fn in_order<'a>(
    index: &'a Index,
    destination: &Destination,
) -> impl Iterator<Item = (&'a Index, &'a Entry)> {
    let mut entries: Vec<&Entry> = index.entries().iter().collect();
    entries.sort_by_key(|entry| {
        let hosts = &entry.pattern.hosts;
        Reverse(hosts.matches(&destination.host).then(|| specificity(hosts)))
    });
    entries.into_iter().map(move |entry| (index, entry))
}

/// Exact before any wildcard, and a wildcard of more labels before one of fewer.
fn specificity(hosts: &HostPattern) -> usize {
    match hosts {
        HostPattern::Exact(_) => usize::MAX,
        HostPattern::Below(base) | HostPattern::AtOrBelow(base) => base.label_count(),
    }
}

fn consider(
    index: &Index,
    entry: &Entry,
    destination: &Destination,
    decides: Option<&Arc<str>>,
) -> Considered {
    let (matched, why) = match mismatch(index, entry, destination) {
        Some(why) => (false, why),
        None if decides == Some(&entry.place) => {
            (true, "the host and the port match: this decides".to_owned())
        }
        None => {
            let decides = decides.map_or("another rule", |place| place);
            let why = format!("the host and the port match, but {decides} decides");
            (true, why)
        }
    };
    Considered {
        place: Arc::clone(&entry.place),
        pattern: entry.pattern.to_string(),
        matched,
        why,
    }
}

/// Why `entry` does not cover `destination`.
fn mismatch(index: &Index, entry: &Entry, destination: &Destination) -> Option<String> {
    let Destination { scheme, host, port } = destination;
    let pattern = &entry.pattern;
    if !pattern.hosts.matches(host) {
        return Some("the host does not match".to_owned());
    }
    match (host, &pattern.hosts) {
        (Host::Name(name), HostPattern::Below(_) | HostPattern::AtOrBelow(_))
            if !index.wildcard_covers(name) =>
        {
            let why = "the host matches, but a name of the local site needs an entry of its own";
            return Some(why.to_owned());
        }
        (Host::Name(_) | Host::Ip(_), _) => {}
    }
    if !index.literal_covers(host) {
        return Some("the address matches, but not in this spelling".to_owned());
    }
    let ports = &pattern.ports;
    (!ports.cover(*scheme, *port)).then(|| {
        format!(
            "the host matches, port {port} by {}:// is not in {ports}",
            scheme.as_str()
        )
    })
}
