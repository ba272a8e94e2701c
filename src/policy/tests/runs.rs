//! What a run adds for itself, and what bounds it.

use std::collections::BTreeMap;

use super::*;

fn patterns(texts: &[&str]) -> Vec<Pattern> {
    texts
        .iter()
        .map(|text| Pattern::parse_allow(text).unwrap())
        .collect()
}

fn set(profiles: Vec<(&str, Profile)>, ceiling: Option<&str>) -> PolicySet {
    let profiles: BTreeMap<Arc<str>, Profile> = profiles
        .into_iter()
        .map(|(name, mut profile)| {
            for rule in profile.allow.iter_mut().chain(&mut profile.deny) {
                rule.place = format!("{name}.{}", rule.place).into();
            }
            (name.into(), profile)
        })
        .collect();
    PolicySet::new(profiles, Vec::new(), ceiling.map(Into::into)).unwrap()
}

#[test]
fn a_run_without_a_profile_has_its_own_list_only() {
    let set = set(
        vec![
            ("default", profile(&["allowed.example"], &[])),
            ("other", profile(&[], &["*.denied.example"])),
        ],
        None,
    );
    let run = set
        .for_run(
            None,
            &patterns(&["own.example", "*.denied.example", "10.1.2.3"]),
        )
        .unwrap();
    assert_eq!(run.profile(), None);
    for (destination, expected) in [
        ("own.example:443", "allow allowlisted run.allow[0]"),
        ("own.example:22", "deny port_not_allowed run.allow[0]"),
        ("allowed.example:443", "deny not_allowlisted -"),
        ("a.denied.example:443", "deny denied_by_rule other.deny[0]"),
        ("10.1.2.3:443", "allow allowlisted run.allow[2]"),
        ("10.1.2.4:443", "deny ip_literal -"),
    ] {
        assert_eq!(decided(&run, destination), expected, "{destination}");
    }
    let grants = run.evaluate(&to("10.1.2.3:443")).grants;
    assert_eq!(grants.addresses, ["10.1.2.3/32".parse().unwrap()]);
    let nothing = set.for_run(None, &[]).unwrap();
    assert_eq!(
        decided(&nothing, "own.example:443"),
        "deny not_allowlisted -"
    );
}

#[test]
fn a_run_has_its_profile_and_its_own_list_within_every_deny() {
    let set = set(
        vec![
            (
                "default",
                profile(&["allowed.example"], &["secret.own.example"]),
            ),
            (
                "other",
                profile(&["elsewhere.example"], &["x.own.example:443"]),
            ),
        ],
        None,
    );
    let run = set
        .for_run(
            Some("default"),
            &patterns(&[".own.example", "allowed.example:22"]),
        )
        .unwrap();
    assert_eq!(run.profile().map(|name| &**name), Some("default"));
    for (destination, expected) in [
        ("allowed.example:443", "allow allowlisted default.allow[0]"),
        ("allowed.example:22", "allow allowlisted run.allow[1]"),
        ("allowed.example:25", "deny port_not_allowed run.allow[1]"),
        ("own.example:443", "allow allowlisted run.allow[0]"),
        ("a.own.example:443", "allow allowlisted run.allow[0]"),
        (
            "secret.own.example:443",
            "deny denied_by_rule default.deny[0]",
        ),
        ("x.own.example:443", "deny denied_by_rule other.deny[0]"),
        ("http://x.own.example:80", "allow allowlisted run.allow[0]"),
        ("elsewhere.example:443", "deny not_allowlisted -"),
        ("metadata.goog:443", "deny not_allowlisted -"),
    ] {
        assert_eq!(decided(&run, destination), expected, "{destination}");
    }
    for (name, expected) in [
        ("x.own.example", "allow allowlisted run.allow[0]"),
        ("secret.own.example", "deny denied_by_rule default.deny[0]"),
        ("elsewhere.example", "deny not_allowlisted -"),
    ] {
        assert_eq!(named(&run, name), expected, "{name}");
    }
    let wildcard = |destination| run.evaluate(&to(destination)).grants.wildcard;
    assert!(wildcard("a.own.example:443"));
    assert!(!wildcard("own.example:443"));
    let unknown = set.for_run(Some("nobody"), &[]).unwrap_err();
    assert_eq!(unknown, UnknownProfile("nobody".to_owned()));
}

fn run_under_a_ceiling() -> Policy {
    let ceiling = Profile {
        allow: vec![
            rule("rules[0]", "*.wild.example", &["10.0.0.0/8"], true),
            rule("rules[1]", "https://tls.example", &[], false),
            rule("rules[2]", "10.1.2.3", &[], false),
        ],
        deny: rules("deny", &["closed.wild.example"], Pattern::parse_deny),
        ..Profile::default()
    };
    let set = set(
        vec![
            ("default", profile(&["allowed.example"], &[])),
            ("ceiling", ceiling),
        ],
        Some("ceiling"),
    );
    let own = patterns(&[
        "a.wild.example",
        "tls.example",
        "evil.example",
        "10.1.2.3",
        "10.1.2.4",
        "*.wild.example:8443",
        "closed.wild.example",
        ".wild.example",
    ]);
    set.for_run(Some("default"), &own).unwrap()
}

#[test]
fn a_ceiling_bounds_what_a_run_names_and_gives_its_grants() {
    let run = run_under_a_ceiling();
    for (destination, expected) in [
        // The profile itself is no matter of the ceiling.
        ("allowed.example:443", "allow allowlisted default.allow[0]"),
        ("a.wild.example:443", "allow allowlisted run.allow[0]"),
        ("tls.example:443", "allow allowlisted run.allow[1]"),
        (
            "http://tls.example:80",
            "deny port_not_allowed ceiling.rules[1]",
        ),
        ("evil.example:443", "deny not_allowlisted -"),
        ("10.1.2.3:443", "allow allowlisted run.allow[3]"),
        ("10.1.2.4:443", "deny ip_literal -"),
        (
            "b.wild.example:8443",
            "deny port_not_allowed ceiling.rules[0]",
        ),
        (
            "closed.wild.example:443",
            "deny denied_by_rule ceiling.deny[0]",
        ),
        ("b.wild.example:443", "allow allowlisted run.allow[7]"),
        ("wild.example:443", "deny not_allowlisted -"),
    ] {
        assert_eq!(decided(&run, destination), expected, "{destination}");
    }
    for (destination, addresses, opaque, wildcard) in [
        ("a.wild.example:443", &["10.0.0.0/8"][..], true, false),
        ("b.wild.example:443", &["10.0.0.0/8"], true, true),
        ("10.1.2.3:443", &["10.1.2.3/32"], false, false),
    ] {
        let expected = Grants {
            addresses: addresses
                .iter()
                .map(|range| range.parse().unwrap())
                .collect(),
            opaque,
            wildcard,
        };
        assert_eq!(
            *run.evaluate(&to(destination)).grants,
            expected,
            "{destination}"
        );
    }
}

#[test]
fn the_first_single_host_beyond_the_ceiling_is_told() {
    let set = set(
        vec![(
            "ceiling",
            profile(&[".wild.example", "10.1.2.3:22"], &["no.wild.example"]),
        )],
        Some("ceiling"),
    );
    for (pattern, beyond) in [
        ("wild.example", false),
        ("a.wild.example", false),
        ("https://a.wild.example", false),
        ("a.wild.example:8443", true),
        ("no.wild.example", true),
        ("evil.example", true),
        ("*.evil.example", false),
        ("10.1.2.3:22", false),
        ("10.1.2.3", true),
        ("10.1.2.4:22", true),
    ] {
        let own = patterns(&["wild.example", pattern]);
        let expected = beyond.then(|| &own[1]);
        assert_eq!(set.beyond_ceiling(&own), expected, "{pattern}");
    }
    let free = PolicySet::default();
    assert_eq!(free.beyond_ceiling(&patterns(&["evil.example"])), None);
}

#[test]
fn report_mode_of_the_profile_holds_for_the_run_and_its_own_list_narrows_nothing() {
    let reporting = Profile {
        mode: Mode::Report,
        ..profile(&["allowed.example"], &[])
    };
    let set = set(
        vec![
            ("default", reporting),
            ("other", profile(&[], &["own.example", "192.0.2.1"])),
        ],
        None,
    );
    let run = set
        .for_run(
            Some("default"),
            &patterns(&["own.example", "192.0.2.1", "fine.example"]),
        )
        .unwrap();
    for (destination, expected) in [
        ("evil.example:443", "would_deny not_allowlisted -"),
        ("fine.example:443", "allow allowlisted run.allow[2]"),
        ("own.example:443", "would_deny not_allowlisted -"),
        ("192.0.2.1:443", "deny denied_by_rule other.deny[1]"),
        ("192.0.2.2:443", "deny ip_literal -"),
        ("x.internal:443", "deny not_allowlisted -"),
    ] {
        assert_eq!(decided(&run, destination), expected, "{destination}");
    }
}

#[test]
fn an_explanation_for_a_run_includes_its_own_list_and_its_bounds() {
    let set = set(
        vec![
            ("default", profile(&["allowed.example"], &["no.example"])),
            ("ceiling", profile(&[".own.example"], &[])),
        ],
        Some("ceiling"),
    );
    let run = set
        .for_run(Some("default"), &patterns(&["a.own.example"]))
        .unwrap();
    let places: Vec<String> = run
        .explain(&to("a.own.example:443"))
        .into_iter()
        .map(|one| format!("{} {}", one.place, one.matched))
        .collect();
    let expected = [
        "default.deny[0] false",
        "default.allow[0] false",
        "run.allow[0] true",
        "default.deny[0] false",
        "ceiling.allow[0] true",
    ];
    assert_eq!(places, expected);
}
