use proptest::prelude::*;

use super::*;
use crate::destination::Scheme;

mod properties;
mod runs;

fn rules(
    list: &str,
    patterns: &[&str],
    parse: fn(&str) -> Result<Pattern, PatternError>,
) -> Vec<Rule> {
    patterns
        .iter()
        .enumerate()
        .map(|(at, text)| Rule {
            place: format!("{list}[{at}]").into(),
            pattern: parse(text).unwrap_or_else(|error| panic!("{text}: {error}")),
            addresses: Vec::new(),
            opaque: false,
        })
        .collect()
}

fn profile(allow: &[&str], deny: &[&str]) -> Profile {
    Profile {
        allow: rules("allow", allow, Pattern::parse_allow),
        deny: rules("deny", deny, Pattern::parse_deny),
        ..Profile::default()
    }
}

fn policy(allow: &[&str], deny: &[&str]) -> Policy {
    Policy::compile(profile(allow, deny)).unwrap()
}

fn reporting(allow: &[&str], deny: &[&str]) -> Policy {
    Policy::compile(Profile {
        mode: Mode::Report,
        ..profile(allow, deny)
    })
    .unwrap()
}

fn to(text: &str) -> Destination {
    let (scheme, authority) = match text.strip_prefix("http://") {
        Some(authority) => (Scheme::Http, authority),
        None => (Scheme::Https, text),
    };
    Destination::parse_authority(scheme, authority)
        .unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// `decision reason rule`, as a table shows it.
fn shown(verdict: &Verdict) -> String {
    let decision = verdict.decision.as_str();
    let rule = verdict.rule.as_deref().unwrap_or("-");
    format!("{decision} {} {rule}", verdict.reason)
}

fn decided(policy: &Policy, destination: &str) -> String {
    shown(&policy.evaluate(&to(destination)))
}

fn named(policy: &Policy, name: &str) -> String {
    shown(&policy.evaluate_name(&Name::parse(name).unwrap()))
}

/// A rule of the long form: `PATTERN [RANGE] [opaque]`.
fn worded(place: &str, words: &str) -> Rule {
    let mut words: Vec<&str> = words.split(' ').collect();
    let opaque = words.pop_if(|word| *word == "opaque").is_some();
    let pattern = words.remove(0);
    rule(place, pattern, &words, opaque)
}

/// A rule of the long form.
fn rule(place: &str, pattern: &str, addresses: &[&str], opaque: bool) -> Rule {
    Rule {
        place: place.into(),
        pattern: Pattern::parse_allow(pattern).unwrap(),
        addresses: addresses
            .iter()
            .map(|range| range.parse().unwrap())
            .collect(),
        opaque,
    }
}

#[test]
fn an_empty_list_allows_nothing() {
    for policy in [policy(&[], &[]), Policy::deny_all()] {
        assert_eq!(decided(&policy, "a.example:443"), "deny not_allowlisted -");
        assert_eq!(named(&policy, "a.example"), "deny not_allowlisted -");
        assert_eq!(decided(&policy, "192.0.2.1:443"), "deny ip_literal -");
    }
}

#[test]
fn the_most_specific_rule_that_covers_the_port_decides() {
    let policy = policy(
        &[
            "*.wild.example",
            ".b.wild.example:8443",
            "a.b.wild.example:22",
            "a.b.wild.example:25",
            "http://plain.wild.example",
        ],
        &[],
    );
    for (destination, expected) in [
        ("a.b.wild.example:22", "allow allowlisted allow[2]"),
        ("a.b.wild.example:8443", "allow allowlisted allow[1]"),
        ("a.b.wild.example:443", "allow allowlisted allow[0]"),
        ("a.b.wild.example:6379", "deny port_not_allowed allow[2]"),
        ("b.wild.example:8443", "allow allowlisted allow[1]"),
        ("b.wild.example:443", "allow allowlisted allow[0]"),
        ("x.b.wild.example:22", "deny port_not_allowed allow[1]"),
        ("http://plain.wild.example:80", "allow allowlisted allow[4]"),
        ("plain.wild.example:443", "allow allowlisted allow[0]"),
        ("wild.example:443", "deny not_allowlisted -"),
        ("xwild.example:443", "deny not_allowlisted -"),
        ("a.wild.example.evil.example:443", "deny not_allowlisted -"),
    ] {
        assert_eq!(decided(&policy, destination), expected, "{destination}");
    }
}

#[test]
fn deny_beats_allow_whatever_the_order_and_however_specific() {
    let policy = policy(
        &["secret.wild.example", "*.wild.example", "some.example"],
        &[
            "*.wild.example:8443",
            "secret.wild.example",
            "some.example:443",
            "*.com",
        ],
    );
    for (destination, expected) in [
        ("secret.wild.example:443", "deny denied_by_rule deny[1]"),
        ("secret.wild.example:22", "deny denied_by_rule deny[1]"),
        ("secret.wild.example:8443", "deny denied_by_rule deny[1]"),
        ("a.wild.example:8443", "deny denied_by_rule deny[0]"),
        ("a.wild.example:443", "allow allowlisted allow[1]"),
        ("some.example:443", "deny denied_by_rule deny[2]"),
        ("http://some.example:80", "allow allowlisted allow[2]"),
        ("anything.com:443", "deny denied_by_rule deny[3]"),
        ("com:443", "deny not_allowlisted -"),
    ] {
        assert_eq!(decided(&policy, destination), expected, "{destination}");
    }
}

#[test]
fn a_special_name_needs_an_entry_of_its_own() {
    let allow = [
        "*.azure.com",
        "db.corp.internal",
        "printer",
        "*.wild.example",
    ];
    for (policy, elsewhere) in [
        (policy(&allow, &[]), "deny not_allowlisted -"),
        (reporting(&allow, &[]), "would_deny not_allowlisted -"),
    ] {
        for (destination, expected) in [
            ("db.corp.internal:443", "allow allowlisted allow[1]"),
            ("printer:443", "allow allowlisted allow[2]"),
            ("other.corp.internal:443", "deny not_allowlisted -"),
            ("host.docker.internal:443", "deny not_allowlisted -"),
            ("localhost:443", "deny not_allowlisted -"),
            ("foo.localhost:443", "deny not_allowlisted -"),
            ("metadata.google.internal:443", "deny not_allowlisted -"),
            ("metadata.azure.com:443", "deny not_allowlisted -"),
            ("metadata.goog:443", "deny not_allowlisted -"),
            ("x.local:443", "deny not_allowlisted -"),
            ("x.onion:443", "deny not_allowlisted -"),
            ("x.home.arpa:443", "deny not_allowlisted -"),
            ("scanner:443", "deny not_allowlisted -"),
            ("a.azure.com:443", "allow allowlisted allow[0]"),
            ("other.example:443", elsewhere),
        ] {
            assert_eq!(decided(&policy, destination), expected, "{destination}");
            let name = to(destination).host.name().unwrap().to_string();
            assert_eq!(named(&policy, &name), expected, "{name}");
        }
    }
}

#[test]
fn report_mode_lets_through_only_what_no_list_names() {
    let policy = reporting(
        &["allowed.example", "192.0.2.1"],
        &["denied.example", "allowed.example:22"],
    );
    for (destination, expected) in [
        ("allowed.example:443", "allow allowlisted allow[0]"),
        (
            "allowed.example:8443",
            "would_deny port_not_allowed allow[0]",
        ),
        ("allowed.example:22", "deny denied_by_rule deny[1]"),
        ("other.example:443", "would_deny not_allowlisted -"),
        ("denied.example:443", "deny denied_by_rule deny[0]"),
        ("192.0.2.1:443", "allow allowlisted allow[1]"),
        ("192.0.2.1:22", "would_deny port_not_allowed allow[1]"),
        ("192.0.2.2:443", "deny ip_literal -"),
        ("[2001:db8::1]:443", "deny ip_literal -"),
    ] {
        assert_eq!(decided(&policy, destination), expected, "{destination}");
    }
    let reported = policy.evaluate(&to("allowed.example:8443"));
    assert_eq!(*reported.grants, Grants::default());
}

#[test]
fn a_literal_matches_only_itself_written_out() {
    let policy = policy(
        &["192.0.2.1", "[2001:db8::1]:8443", "192.0.2.9"],
        &["192.0.2.9", "192.0.2.8"],
    );
    for (destination, expected) in [
        ("192.0.2.1:443", "allow allowlisted allow[0]"),
        ("192.0.2.1:22", "deny port_not_allowed allow[0]"),
        ("[::ffff:192.0.2.1]:443", "deny ip_literal -"),
        ("[64:ff9b::192.0.2.1]:443", "deny ip_literal -"),
        ("[2001:db8::1]:8443", "allow allowlisted allow[1]"),
        ("[2001:db8::2]:8443", "deny ip_literal -"),
        ("192.0.2.9:443", "deny denied_by_rule deny[0]"),
        ("[::ffff:192.0.2.9]:443", "deny denied_by_rule deny[0]"),
        ("[::ffff:192.0.2.8]:443", "deny denied_by_rule deny[1]"),
    ] {
        assert_eq!(decided(&policy, destination), expected, "{destination}");
    }
}

#[test]
fn a_rule_grants_its_addresses_and_a_literal_itself() {
    let policy = Policy::compile(Profile {
        allow: vec![
            rule(
                "rules[0]",
                "int.wild.example",
                &["10.20.0.5/16", "::ffff:10.1.0.0/112"],
                true,
            ),
            rule("rules[1]", ".wild.example", &[], false),
            rule("rules[2]", "10.9.9.9", &["10.8.0.0/16"], false),
            rule("rules[3]", "[fd00::1]", &[], false),
        ],
        ..Profile::default()
    })
    .unwrap();
    for (destination, addresses, opaque, wildcard) in [
        (
            "int.wild.example:443",
            &["10.1.0.0/16", "10.20.0.0/16"][..],
            true,
            false,
        ),
        ("wild.example:443", &[], false, false),
        ("other.wild.example:443", &[], false, true),
        (
            "10.9.9.9:443",
            &["10.8.0.0/16", "10.9.9.9/32"],
            false,
            false,
        ),
        ("[fd00::1]:443", &["fd00::1/128"], false, false),
        ("evil.example:443", &[], false, false),
        ("int.wild.example:22", &[], false, false),
    ] {
        let expected = Grants {
            addresses: addresses
                .iter()
                .map(|range| range.parse().unwrap())
                .collect(),
            opaque,
            wildcard,
        };
        let found = policy.evaluate(&to(destination)).grants;
        assert_eq!(*found, expected, "{destination}");
    }
}

#[test]
fn equally_specific_rules_that_differ_in_what_they_grant_are_a_conflict() {
    for (first, second, conflict) in [
        ("a.example", "a.example opaque", true),
        ("a.example", "a.example 10.0.0.0/8", true),
        ("a.example 10.0.0.0/8", "a.example 10.1.2.3/8", false),
        ("a.example", "a.example:443 opaque", true),
        ("a.example", "a.example:8443 opaque", false),
        ("a.example", "http://a.example 10.0.0.0/8", true),
        ("https://a.example", "http://a.example:443 opaque", false),
        ("*.a.example", ".a.example 10.0.0.0/8", true),
        (".a.example", "a.example 10.0.0.0/8", false),
        ("*.a.example", "*.b.a.example 10.0.0.0/8", false),
        ("192.0.2.1", "192.0.2.1 10.0.0.0/8", true),
        ("A.example opaque", "a.example. opaque", false),
    ] {
        let compiled = Policy::compile(Profile {
            allow: vec![worded("first", first), worded("second", second)],
            ..Profile::default()
        });
        let expected = conflict.then(|| {
            vec![RuleConflict {
                first: "first".into(),
                second: "second".into(),
            }]
        });
        assert_eq!(compiled.err(), expected, "{first} | {second}");
    }
}

#[test]
fn every_conflict_is_told_at_once_and_each_one_once() {
    let rules = [
        "a.example",
        "b.example",
        "a.example opaque",
        "b.example 10.0.0.0/8",
    ];
    let rules = rules
        .into_iter()
        .chain(["a.example:443 opaque"])
        .enumerate();
    let compiled = Policy::compile(Profile {
        allow: rules
            .map(|(at, words)| worded(&at.to_string(), words))
            .collect(),
        ..Profile::default()
    });
    let pairs: Vec<(String, String)> = compiled
        .unwrap_err()
        .into_iter()
        .map(|RuleConflict { first, second }| (first.to_string(), second.to_string()))
        .collect();
    let expected = [("0", "2"), ("1", "3"), ("0", "4")];
    assert_eq!(
        pairs,
        expected.map(|(first, second)| (first.to_owned(), second.to_owned()))
    );
}

#[test]
fn a_name_is_answered_when_some_port_of_it_passes() {
    let allow = [
        "a.example",
        "b.example:8443",
        "c.example",
        "http://d.example",
    ];
    let deny = [
        "a.example:443",
        "c.example:443",
        "c.example:80",
        "d.example:80",
        "x.example",
    ];
    let enforcing = policy(&allow, &deny);
    for (name, expected) in [
        ("a.example", "allow allowlisted allow[0]"),
        ("b.example", "allow allowlisted allow[1]"),
        ("c.example", "deny denied_by_rule deny[1]"),
        ("d.example", "deny denied_by_rule deny[3]"),
        ("x.example", "deny denied_by_rule deny[4]"),
        ("sub.a.example", "deny not_allowlisted -"),
        ("e.example", "deny not_allowlisted -"),
    ] {
        assert_eq!(named(&enforcing, name), expected, "{name}");
    }
    let reporting = reporting(&allow, &deny);
    for (name, expected) in [
        ("a.example", "allow allowlisted allow[0]"),
        ("c.example", "would_deny port_not_allowed allow[2]"),
        ("x.example", "deny denied_by_rule deny[4]"),
        ("e.example", "would_deny not_allowlisted -"),
    ] {
        assert_eq!(named(&reporting, name), expected, "{name}");
    }
}

#[test]
fn an_explanation_tells_of_every_rule_why() {
    let policy = policy(
        &[
            "*.wild.example",
            "a.wild.example:22",
            "a.wild.example",
            "b.example",
        ],
        &["secret.wild.example", "http://a.wild.example"],
    );
    let found: Vec<String> = policy
        .explain(&to("a.wild.example:443"))
        .into_iter()
        .map(|one| format!("{} {} {} {}", one.place, one.pattern, one.matched, one.why))
        .collect();
    let expected = [
        "deny[1] http://a.wild.example false \
         the host matches, port 443 by https:// is not in 80 by http://",
        "deny[0] secret.wild.example false the host does not match",
        "allow[1] a.wild.example:22 false \
         the host matches, port 443 by https:// is not in 22",
        "allow[2] a.wild.example true the host and the port match: this decides",
        "allow[0] *.wild.example true \
         the host and the port match, but allow[2] decides",
        "allow[3] b.example false the host does not match",
    ];
    assert_eq!(found, expected);
}

#[test]
fn an_explanation_tells_why_a_matching_pattern_does_not_count() {
    let policy = policy(&["*.azure.com", "192.0.2.1"], &[]);
    for (destination, at, why) in [
        (
            "metadata.azure.com:443",
            0,
            "the host matches, but a name of the local site needs an entry of its own",
        ),
        (
            "[::ffff:192.0.2.1]:443",
            0,
            "the address matches, but not in this spelling",
        ),
    ] {
        let found = policy.explain(&to(destination));
        assert_eq!(found[at].why, why, "{destination}");
        assert!(!found[at].matched, "{destination}");
    }
}
