//! What a decision costs, with few patterns and with 100,000: the two should be near each other.
//! Each measurement walks over destinations all across the list: `policy` over as many as the
//! clients of one proxy use at a time, `policy_cold` over so many that what the list says of one
//! has mostly left the cache when it is asked for again.

#![expect(clippy::unwrap_used, reason = "a benchmark may panic")]

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use eclusa::{
    destination::{Destination, Host, Scheme},
    policy::{Decision, Pattern, Policy, Profile, Rule},
};

/// Each group and over how many destinations it walks.
const GROUPS: [(&str, usize); 2] = [("policy", 256), ("policy_cold", 4096)];

/// Of every ten patterns five are exact, three wildcards, two denies.
fn policy(patterns: usize) -> Policy {
    let mut profile = Profile::default();
    for at in 0..patterns {
        let (list, text) = match at % 10 {
            0..5 => ("allow", format!("api{at}.service{at}.example.com")),
            5..7 => ("allow", format!("*.cdn{at}.example.net")),
            7 => ("allow", format!(".site{at}.example.org:8443")),
            8 => ("deny", format!("private.cdn{at}.example.net")),
            _ => ("deny", format!("*.bad{at}.example.net")),
        };
        let (rules, parse): (_, fn(&str) -> _) = match list {
            "allow" => (&mut profile.allow, Pattern::parse_allow),
            _ => (&mut profile.deny, Pattern::parse_deny),
        };
        rules.push(Rule {
            place: format!("profiles.default.{list}[{}]", rules.len()).into(),
            pattern: parse(&text).unwrap(),
            addresses: Vec::new(),
            opaque: false,
        });
    }
    Policy::compile(profile).unwrap()
}

fn destinations(count: usize, patterns: usize, name: impl Fn(usize) -> String) -> Vec<Destination> {
    // A prime stride visits the list in no order that a cache could guess.
    (0..count)
        .map(|at| at * 7919 % (patterns / 10) * 10)
        .map(|at| Destination {
            scheme: Scheme::Https,
            host: Host::parse(&name(at)).unwrap(),
            port: 443,
        })
        .collect()
}

/// What is asked: its name, what is decided, and the host at a place in the list.
type Asked = (&'static str, Decision, Box<dyn Fn(usize) -> String>);

fn roads() -> [Asked; 5] {
    [
        (
            "allow_exact",
            Decision::Allow,
            Box::new(|at| format!("api{at}.service{at}.example.com")),
        ),
        (
            "allow_wildcard",
            Decision::Allow,
            Box::new(|at| format!("img.eu.cdn{}.example.net", at + 5)),
        ),
        (
            "deny",
            Decision::Deny,
            Box::new(|at| format!("x.bad{}.example.net", at + 9)),
        ),
        (
            "miss",
            Decision::Deny,
            Box::new(|at| format!("www.evil{at}.example.com")),
        ),
        (
            "miss_127_labels",
            Decision::Deny,
            Box::new(|_| format!("{}a", "a.".repeat(126))),
        ),
    ]
}

fn evaluate(criterion: &mut Criterion) {
    for patterns in [100, 100_000] {
        let policy = policy(patterns);
        for (group, count) in GROUPS {
            let mut group = criterion.benchmark_group(group);
            for (road, expected, name) in roads() {
                let destinations = destinations(count, patterns, name);
                for destination in &destinations {
                    let verdict = policy.evaluate(destination);
                    assert_eq!(verdict.decision, expected, "{destination}");
                }
                let mut next = destinations.iter().cycle();
                group.bench_function(BenchmarkId::new(road, patterns), |bencher| {
                    bencher.iter(|| next.next().map(|to| black_box(&policy).evaluate(to)));
                });
            }
            group.finish();
        }
    }
}

criterion_group!(benches, evaluate);
criterion_main!(benches);
