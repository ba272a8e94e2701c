//! Profiles, rules, clients and expectations.

use crate::{
    config::{
        destination,
        tests::{problem, valid},
    },
    policy::{Decision, EchMode, HostPattern, Mode, Ports, Reason},
};

const ONE_CLIENT: &str = "[profiles.default]\nallow = []\n[[clients]]\nprofile = \"default\"\n";

#[test]
fn a_client_has_a_source_of_its_own_and_a_known_profile() {
    let config = valid(&format!("{ONE_CLIENT}source = \"10.199.0.7\""));
    assert_eq!(
        config.policies.clients()[0].source.to_string(),
        "10.199.0.7/32"
    );
    for (text, expected) in [
        (
            format!(
                "{ONE_CLIENT}source = \"10.0.0.0/8\"\n[[clients]]\nsource = \"10.0.0.0/8\"\nprofile = \"default\""
            ),
            "line 7: clients[1].source: 10.0.0.0/8 is already the source of clients[0]",
        ),
        (
            ONE_CLIENT.to_owned(),
            "line 3: clients[0].source: missing; write source = \"10.199.0.0/24\"",
        ),
        (
            format!("{ONE_CLIENT}source = \"10.0.0.0/8\"\nname = \"x\""),
            "line 6: clients[0].name: unknown key; known: `profile`, `source`",
        ),
        (
            "[[clients]]\nsource = \"10.0.0.0/8\"\nprofile = \"default\"".to_owned(),
            "line 3: clients[0].profile: there is no profile \"default\"; there is none yet",
        ),
        (
            "[launcher]\nceiling = \"default\"".to_owned(),
            "line 2: launcher.ceiling: there is no profile \"default\"; there is none yet",
        ),
        (
            format!("{ONE_CLIENT}source = \"10.231.4.0/24\"\n[launcher]\npool = \"10.231.0.0/16\""),
            "line 7: launcher.pool: 10.231.0.0/16 overlaps the [[clients]] source 10.231.4.0/24, \
             so no run could be registered from it; write a range that no client has",
        ),
    ] {
        assert_eq!(problem(&text), expected, "{text}");
    }
}

#[test]
fn a_profile_is_read_with_the_places_of_its_rules() {
    let config = valid(
        r#"[profiles.build]
mode = "report"
ech = "allow"
allow = ["api.example.com"]
deny = ["*.evil.example"]
[[profiles.build.rules]]
hosts = ["a.example", "*.b.example"]
ports = [8443, 443]
addresses = ["10.20.0.0/16"]
opaque = true
[[profiles.build.rules]]
hosts = ["c.example"]
"#,
    );
    let profile = config.policies.configured("build").unwrap();
    assert_eq!((profile.mode, profile.ech), (Mode::Report, EchMode::Allow));
    let allow: Vec<_> = profile
        .allow
        .iter()
        .map(|rule| (&*rule.place, rule.opaque))
        .collect();
    assert_eq!(
        allow,
        [
            ("profiles.build.allow[0]", false),
            ("profiles.build.rules[0].hosts[0]", true),
            ("profiles.build.rules[0].hosts[1]", true),
            ("profiles.build.rules[1].hosts[0]", false),
        ]
    );
    assert_eq!(
        profile.allow[1].pattern.ports,
        Ports::Listed(vec![443, 8443])
    );
    assert_eq!(profile.allow[3].pattern.ports, Ports::Web);
    assert_eq!(
        profile.allow[2].addresses,
        ["10.20.0.0/16".parse().unwrap()]
    );
    assert!(matches!(
        profile.allow[2].pattern.hosts,
        HostPattern::Below(_)
    ));
    assert_eq!(&*profile.deny[0].place, "profiles.build.deny[0]");
}

const RULES: &[(&str, &str)] = &[
    (
        "ports = [443]",
        "line 1: profiles.a.rules[0].hosts: missing; write hosts = [\"api.example.com\"]",
    ),
    (
        "hosts = []",
        "line 2: profiles.a.rules[0].hosts: the rule names no host and so allows nothing; name one, or drop the rule",
    ),
    (
        "hosts = \"a.example\"",
        "line 2: profiles.a.rules[0].hosts: expected a list; write [\"a.example\"]",
    ),
    (
        "hosts = [\"a.example:443\"]",
        "line 2: profiles.a.rules[0].hosts[0]: \"a.example:443\" has a port or scheme of its own; write the host alone, and ports = [PORT] in the rule",
    ),
    (
        "hosts = [\"http://a.example\"]",
        "line 2: profiles.a.rules[0].hosts[0]: \"http://a.example\" has a port or scheme of its own; write the host alone, and ports = [PORT] in the rule",
    ),
    (
        "hosts = [\"a.example\"]\nports = []",
        "line 3: profiles.a.rules[0].ports: the rule names no port; name one, or leave the key out for 443 and 80",
    ),
    (
        "hosts = [\"a.example\"]\nports = [0]",
        "line 3: profiles.a.rules[0].ports[0]: 0 is out of range: write 1 to 65535",
    ),
    (
        "hosts = [\"a.example\"]\nports = [65536]",
        "line 3: profiles.a.rules[0].ports[0]: 65536 is out of range: write 1 to 65535",
    ),
    (
        "hosts = [\"a.example\"]\nports = [\"443\"]",
        "line 3: profiles.a.rules[0].ports[0]: expected a whole number without quotes, found the text \"443\"",
    ),
    (
        "hosts = [\"a.example\"]\nports = [443, 443]",
        "line 3: profiles.a.rules[0].ports[1]: 443 stands here twice",
    ),
    (
        "hosts = [\"a.example\"]\naddresses = [\"10.0.0.1/8\"]",
        "line 3: profiles.a.rules[0].addresses[0]: \"10.0.0.1/8\" has bits set behind its prefix; write \"10.0.0.0/8\"",
    ),
    (
        "hosts = [\"a.example\"]\nhost = \"x\"",
        "line 3: profiles.a.rules[0].host: unknown key; did you mean `hosts`?",
    ),
];

#[test]
fn a_rule_says_whom_it_allows() {
    for &(rule, expected) in RULES {
        let text = format!("[[profiles.a.rules]]\n{rule}\n");
        assert_eq!(problem(&text), expected, "{text}");
    }
}

#[test]
fn no_rule_opens_a_metadata_address() {
    for range in [
        "169.254.169.254",
        "169.254.169.254/32",
        "168.63.129.16",
        "fd00:ec2::254",
    ] {
        let text =
            format!("[[profiles.a.rules]]\nhosts = [\"a.example\"]\naddresses = [\"{range}\"]");
        let found = problem(&text);
        assert!(found.contains("which no rule can open"), "{found}");
    }
    // A wider range may hold one; the guard still refuses that address.
    for range in ["169.254.0.0/16", "0.0.0.0/0", "::/0", "10.0.0.0/8"] {
        valid(&format!(
            "[[profiles.a.rules]]\nhosts = [\"a.example\"]\naddresses = [\"{range}\"]"
        ));
    }
}

#[test]
fn patterns_that_name_everybody_are_refused() {
    for text in [
        "*",
        "*.*",
        "*.com",
        "*.co.uk",
        "*.github.io",
        ".",
        "",
        " ",
        "*.s3.amazonaws.com",
        "*example.com",
        "api.*.example.com",
        "localhost",
        "metadata.google.internal",
        "*.internal",
        "a.example/path",
        "ftp://a.example",
        "a.example:0",
        "a.example:0443",
        "10.0.0.0/8",
        "2130706433",
        "bücher.example",
    ] {
        let found = problem(&format!("[profiles.a]\nallow = [{text:?}]"));
        let prefix = format!("line 2: profiles.a.allow[0]: {text:?}: ");
        assert!(found.starts_with(&prefix), "{found}");
    }
}

#[test]
fn rules_that_contradict_each_other_are_named_with_their_line() {
    let text = r#"[[profiles.a.rules]]
hosts = ["a.example"]
opaque = true
[[profiles.a.rules]]
hosts = ["b.example", "a.example"]
"#;
    let found = problem(text);
    assert!(
        found.starts_with("line 5: profiles.a.rules[1].hosts[1]: "),
        "{found}"
    );
}

#[test]
fn an_empty_list_allows_nothing() {
    for text in [
        "[profiles.a]\nallow = []",
        "[profiles.a]",
        "[profiles.a]\ndeny = []",
    ] {
        let config = valid(text);
        let destination = destination::parse("a.example").unwrap();
        let verdict = config.policies.profile("a").unwrap().evaluate(&destination);
        assert_eq!(verdict.decision, Decision::Deny, "{text}");
    }
}

#[test]
fn a_name_of_a_profile_is_plain() {
    for name in ["\"a b\"", "\"\"", "\"a.b\"", "\"ä\"", "\"../x\""] {
        let found = problem(&format!("[profiles.{name}]"));
        assert!(found.contains("is not a name for a profile"), "{found}");
    }
    valid("[profiles.a-b_C9]");
}

#[test]
fn expectations_are_read_whole() {
    let config = valid(
        "[profiles.a]\n[[tests]]\ndestination = \"https://evil.example.net/x\"\nprofile = \"a\"\n\
         expect = \"deny\"\nreason = \"not_allowlisted\"",
    );
    let [test] = &*config.tests else { panic!() };
    assert_eq!((&*test.place, test.line), ("tests[0]", 2));
    assert_eq!(test.written, "https://evil.example.net/x");
    assert_eq!(test.destination.to_string(), "evil.example.net:443");
    assert_eq!(
        (test.expect, test.reason),
        (Decision::Deny, Some(Reason::NotAllowlisted))
    );
    let found = problem(
        "[profiles.a]\n[[tests]]\ndestination = \"a.example\"\nprofile = \"a\"\nexpect = \"deny\"\n\
         reason = \"not_allowed\"",
    );
    assert_eq!(
        found,
        "line 6: tests[0].reason: \"not_allowed\" is not known here; did you mean \
         `not_allowlisted`?"
    );
}
