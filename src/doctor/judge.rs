//! What may come of each attempt. Pure: observations in, a verdict a probe out.

mod table;

use std::collections::BTreeMap;

use serde::Serialize;

use self::table::{Allowed, allowed, remedy, title};
use super::{Ground, Observation, Probe};

/// What a probe showed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Which.
    pub probe: Probe,
    /// What was tried.
    pub tried: &'static str,
    /// What happened, in short; where the boundary did not hold, what did not.
    pub happened: String,
    /// Whether it held.
    pub verdict: Verdict,
    /// What to do where it did not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remedy: Option<&'static str>,
    /// Every attempt.
    pub observations: Vec<Seen>,
}

/// One attempt of a finding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Seen {
    /// What it was made with.
    pub what: String,
    /// What happened.
    pub result: String,
}

/// Whether a boundary held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Every attempt failed as it must.
    Held,
    /// It is not there by the nature of such a network, and no fault.
    Open,
    /// One did not, or nothing was told.
    NotHeld,
}

/// How many attempts a summary tells of.
const TOLD: usize = 3;

/// Judges what was seen, a finding for every probe that is made on such a ground. What was not told
/// of has not held.
pub fn judge(ground: Ground, probes: &[Probe], seen: &[Observation]) -> Vec<Finding> {
    probes
        .iter()
        .map(|probe| {
            let of_it = seen
                .iter()
                .filter(|observation| observation.probe == *probe);
            finding(ground, *probe, of_it.cloned().collect())
        })
        .collect()
}

fn finding(ground: Ground, probe: Probe, seen: Vec<Observation>) -> Finding {
    let allowed = allowed(probe, ground);
    let beyond: Vec<&Observation> = seen.iter().filter(|seen| !allowed.holds(seen)).collect();
    let verdict = match (beyond.is_empty(), probe, ground) {
        _ if seen.is_empty() => Verdict::NotHeld,
        (true, _, _) => Verdict::Held,
        (false, Probe::Neighbour, Ground::Shared) => Verdict::Open,
        (false, _, _) => Verdict::NotHeld,
    };
    let happened = match verdict {
        Verdict::Held => in_numbers(&allowed, &seen),
        Verdict::Open | Verdict::NotHeld => in_detail(&beyond),
    };
    Finding {
        probe,
        tried: title(probe),
        happened,
        verdict,
        remedy: (verdict != Verdict::Held).then(|| remedy(probe, ground)),
        observations: seen
            .into_iter()
            .map(|Observation { what, result, .. }| Seen { what, result })
            .collect(),
    }
}

impl Allowed {
    fn holds(&self, seen: &Observation) -> bool {
        match self {
            Self::Results(results) => results.contains(&seen.result.as_str()),
            Self::Subjects(subjects) => subjects.contains(&seen.what.as_str()),
        }
    }
}

/// `EPERM (12), EAFNOSUPPORT (2)`, or how many of what was expected there were.
fn in_numbers(allowed: &Allowed, seen: &[Observation]) -> String {
    match allowed {
        Allowed::Subjects(_) => format!("{} as expected", seen.len()),
        Allowed::Results(_) => {
            let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
            for observation in seen {
                *counts.entry(&observation.result).or_default() += 1;
            }
            let counts = counts.iter().map(|(result, count)| match count {
                1 => (*result).to_owned(),
                _ => format!("{result} ({count})"),
            });
            counts.collect::<Vec<_>>().join(", ")
        }
    }
}

fn in_detail(beyond: &[&Observation]) -> String {
    if beyond.is_empty() {
        return "nothing was told of it".to_owned();
    }
    let told = beyond.iter().take(TOLD);
    let mut told: Vec<String> = told
        .map(|seen| format!("{}: {}", seen.what, seen.result))
        .collect();
    let rest = beyond.len().saturating_sub(TOLD);
    if rest > 0 {
        told.push(format!("and {rest} more"));
    }
    told.join(", ")
}

#[cfg(test)]
mod tests;
