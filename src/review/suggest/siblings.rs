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

/// The most siblings that are named.
const MOST_NAMED: usize = 8;

/// One wish: where to, how often, and whether by DNS alone.
pub(super) type Wish = (Destination, Evidence, bool);

/// Lines in the order in which they open more and more, and what is no line.
pub(super) fn narrowest(wishes: Vec<Wish>) -> (Vec<Suggestion>, Vec<(Finding, Evidence)>) {
    let mut families: BTreeMap<(Ports, String), Vec<Wish>> = BTreeMap::new();
    let mut lines = Vec::new();
    for wish in wishes {
        match parent(&wish.0) {
            Some(parent) => families
                .entry((ports(&wish.0), parent))
                .or_default()
                .push(wish),
            None => lines.push(line(wish)),
        }
    }
    let (mut wildcards, mut findings) = (Vec::new(), Vec::new());
    for ((ports, parent), family) in families {
        // Security: names that carry data out are denied one by one for good reason, and a
        // wildcard over them is what their author wants.
        let (data, plain): (Vec<Wish>, Vec<Wish>) = family.into_iter().partition(is_data);
        let is_flow = data.len() >= LEAST_SIBLINGS || data.iter().all(|wish| wish.2);
        let has_data = !data.is_empty();
        if has_data && is_flow {
            findings.push(data_in_names(&parent, &data));
        } else {
            lines.extend(data.into_iter().map(line));
        }
        let wildcard = Name::parse(&parent).ok().map(|parent| Pattern {
            hosts: HostPattern::Below(parent),
            ports,
        });
        let may_be = !has_data && plain.len() >= LEAST_SIBLINGS;
        match wildcard.filter(|wildcard| may_be && may_stand(wildcard)) {
            Some(wildcard) => wildcards.push(whole(&wildcard, plain)),
            None => lines.extend(plain.into_iter().map(line)),
        }
    }
    lines.sort_by(|one, other| one.pattern.cmp(&other.pattern));
    wildcards.sort_by(|one, other| one.pattern.cmp(&other.pattern));
    lines.extend(wildcards);
    (lines, findings)
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

fn data_in_names(parent: &str, family: &[Wish]) -> (Finding, Evidence) {
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

/// Whether the first label looks like encoded data and not like a host: longer than hosts are
/// named, or a mixture of letters and digits that base32 and hexadecimal have.
fn is_data((destination, _, _): &Wish) -> bool {
    let Host::Name(name) = &destination.host else {
        return false;
    };
    let label = name.as_str().split('.').next().unwrap_or_default();
    let digits = label.bytes().filter(u8::is_ascii_digit).count();
    let plain = label.bytes().all(|byte| byte.is_ascii_alphanumeric());
    label.len() >= 30 || (label.len() >= 12 && plain && digits * 8 >= label.len())
}
