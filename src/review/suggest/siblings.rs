//! The narrowest lines for a set of wishes: exact ones, and a wildcard where at least three names
//! side by side were asked for.

use std::collections::{BTreeMap, BTreeSet};

use super::{Evidence, Finding, FindingKind, Suggestion, exact, ports};
use crate::{
    destination::{Destination, Host, Name},
    policy::{HostPattern, Pattern, Ports},
    review::counted,
};

/// So many names below one domain are its naming, and not a choice of hosts.
const LEAST_SIBLINGS: usize = 3;

/// So many names below one domain, looked up and not asked for, are no hosts that are needed.
const MOST_BY_DNS: usize = 20;

/// The most siblings that are named.
const MOST_NAMED: usize = 8;

/// One wish: where to, how often, and whether by DNS alone.
pub(super) type Wish = (Destination, Evidence, bool);

/// Lines in the order in which they open more and more, and what is no line.
pub(super) fn narrowest(wishes: Vec<Wish>) -> (Vec<Suggestion>, Vec<(Finding, Evidence)>) {
    // Security: names that carry data out are denied one by one for good reason, and a wildcard
    // above them is what their author wants.
    let (data, plain): (Vec<Wish>, Vec<Wish>) = wishes.into_iter().partition(is_data);
    let (mut lines, mut findings) = (Vec::new(), Vec::new());
    let (of_data, _) = families(data.clone());
    for ((_, parent), family) in of_data {
        if family.len() >= LEAST_SIBLINGS || family.iter().all(|wish| wish.2) {
            findings.push(found(&parent, &family));
        } else {
            lines.extend(family.into_iter().map(line));
        }
    }
    let mut wildcards = Vec::new();
    let (of_plain, alone) = families(plain);
    lines.extend(alone.into_iter().map(line));
    for ((ports, parent), family) in of_plain {
        let (by_dns, asked): (Vec<Wish>, Vec<Wish>) = family.into_iter().partition(|wish| wish.2);
        if by_dns.len() > MOST_BY_DNS {
            findings.push(found(&parent, &by_dns));
        } else {
            lines.extend(by_dns.into_iter().map(line));
        }
        let is_below = |wish: &Wish| is_at_or_below(&wish.0, &parent);
        let may_be = asked.len() >= LEAST_SIBLINGS && !data.iter().any(is_below);
        let wildcard = Name::parse(&parent).ok().filter(|_| may_be);
        let wildcard = wildcard.map(|parent| Pattern {
            hosts: HostPattern::Below(parent),
            ports,
        });
        match wildcard.filter(may_stand) {
            Some(wildcard) => wildcards.push(whole(&wildcard, asked)),
            None => lines.extend(asked.into_iter().map(line)),
        }
    }
    (in_order(lines, wildcards), findings)
}

/// Wishes by their ports and the domain above them.
type Families = BTreeMap<(Ports, String), Vec<Wish>>;

/// By the domain above and the ports; and those that have none above.
fn families(wishes: Vec<Wish>) -> (Families, Vec<Wish>) {
    let mut families = Families::new();
    let mut alone = Vec::new();
    for wish in wishes {
        match parent(&wish.0) {
            Some(parent) => families
                .entry((ports(&wish.0), parent))
                .or_default()
                .push(wish),
            None => alone.push(wish),
        }
    }
    (families, alone)
}

/// Exact lines, then wildcards; without what another line covers.
fn in_order(mut lines: Vec<Suggestion>, mut wildcards: Vec<Suggestion>) -> Vec<Suggestion> {
    let patterns: Vec<Pattern> = wildcards
        .iter()
        .filter_map(|wildcard| Pattern::parse_allow(&wildcard.pattern).ok())
        .collect();
    let is_covered = |line: &Suggestion| {
        let Ok(own) = Pattern::parse_allow(&line.pattern) else {
            return false;
        };
        patterns.iter().any(|other| {
            let HostPattern::Below(base) = &other.hosts else {
                return false;
            };
            let is_below = match &own.hosts {
                HostPattern::Exact(host) => other.hosts.matches(host),
                HostPattern::Below(inner) | HostPattern::AtOrBelow(inner) => {
                    inner != base && inner.is_at_or_below(base.as_str())
                }
            };
            is_below && own.ports == other.ports
        })
    };
    lines.retain(|line| !is_covered(line));
    wildcards.retain(|line| !is_covered(line));
    lines.sort_by(|one, other| one.pattern.cmp(&other.pattern));
    wildcards.sort_by(|one, other| one.pattern.cmp(&other.pattern));
    lines.extend(wildcards);
    lines
}

fn is_at_or_below(destination: &Destination, zone: &str) -> bool {
    let name = destination.host.name();
    name.is_some_and(|name| name.is_at_or_below(zone))
}

/// The domain directly above a name.
fn parent(destination: &Destination) -> Option<String> {
    let Host::Name(name) = &destination.host else {
        return None;
    };
    let (_, parent) = name.as_str().split_once('.')?;
    Some(parent.to_owned())
}

/// Security: not over a public suffix, nor over names of the local site.
fn may_stand(wildcard: &Pattern) -> bool {
    Pattern::parse_allow(&wildcard.to_string()).is_ok()
}

fn line((destination, evidence, by_dns_alone): Wish) -> Suggestion {
    Suggestion {
        pattern: exact(&destination).to_string(),
        evidence,
        siblings: Vec::new(),
        by_dns_alone,
    }
}

fn whole(wildcard: &Pattern, family: Vec<Wish>) -> Suggestion {
    let mut suggestion = Suggestion {
        pattern: wildcard.to_string(),
        evidence: Evidence::default(),
        siblings: named(&family),
        by_dns_alone: family.iter().all(|(_, _, by_dns_alone)| *by_dns_alone),
    };
    for (_, evidence, _) in family {
        suggestion.evidence.add(&evidence);
    }
    suggestion
}

fn named(family: &[Wish]) -> Vec<String> {
    let names: BTreeSet<String> = family
        .iter()
        .map(|(destination, _, _)| destination.host.to_string())
        .collect();
    let more = names.len().saturating_sub(MOST_NAMED);
    let mut named: Vec<String> = names.into_iter().take(MOST_NAMED).collect();
    if more > 0 {
        named.push(format!("and {more} more"));
    }
    named
}

fn found(parent: &str, family: &[Wish]) -> (Finding, Evidence) {
    let mut evidence = Evidence::default();
    for (_, more, _) in family {
        evidence.add(more);
    }
    let about = format!("{} below {parent}", counted(family.len(), "name"));
    let samples = named(family).join(", ");
    (
        Finding::new(FindingKind::DataInNames, about, &samples),
        evidence,
    )
}

/// Whether a label looks like encoded data and not like a host: longer than hosts are named, or a
/// mixture of letters and digits that base32 and hexadecimal have.
fn is_data((destination, _, _): &Wish) -> bool {
    let is_encoded = |label: &str| {
        let digits = label.bytes().filter(u8::is_ascii_digit).count();
        let plain = label.bytes().all(|byte| byte.is_ascii_alphanumeric());
        let is_mixed =
            digits * 4 >= label.len() || (label.len() >= 12 && digits * 8 >= label.len());
        label.len() >= 30 || (label.len() >= 10 && plain && is_mixed)
    };
    let name = destination.host.name();
    name.is_some_and(|name| name.as_str().split('.').any(is_encoded))
}
