use super::*;

fn client(source: &str, profile: &str) -> ClientRange {
    ClientRange {
        source: source.parse().unwrap(),
        profile: profile.into(),
    }
}

fn profiles(names: &[&str]) -> BTreeMap<Arc<str>, Profile> {
    names
        .iter()
        .map(|name| ((*name).into(), Profile::default()))
        .collect()
}

#[test]
fn the_longest_prefix_that_holds_the_source_is_the_client() {
    let clients = vec![
        client("172.30.0.0/16", "wide"),
        client("172.30.0.7/24", "middle"),
        client("172.30.0.7/32", "one"),
        client("::/0", "six"),
        client("2001:db8::/32", "doc"),
        client("::ffff:192.0.2.0/120", "mapped"),
    ];
    let names = ["wide", "middle", "one", "six", "doc", "mapped"];
    let set = PolicySet::new(profiles(&names), clients.clone(), None).unwrap();
    for (source, expected) in [
        ("172.30.0.7", Some("one")),
        ("::ffff:172.30.0.7", Some("one")),
        ("172.30.0.8", Some("middle")),
        ("172.30.1.1", Some("wide")),
        ("172.31.0.1", None),
        ("192.0.2.1", Some("mapped")),
        ("2001:db8::1", Some("doc")),
        ("2001:db9::1", Some("six")),
    ] {
        let found = set
            .client(source.parse().unwrap())
            .and_then(|policy| policy.profile())
            .map(|name| &**name);
        assert_eq!(found, expected, "{source}");
    }
    assert_eq!(set.clients(), clients);
    assert!(set.client("172.30.0.7".parse().unwrap()).is_some());
    assert!(
        PolicySet::default()
            .client("10.0.0.1".parse().unwrap())
            .is_none()
    );
}

#[test]
fn everything_that_is_wrong_is_told_at_once_with_its_key() {
    let clients = vec![
        client("172.30.0.1/24", "default"),
        client("10.0.0.0/8", "defualt"),
        client("::ffff:172.30.0.0/120", "default"),
    ];
    let rule = |place: &str, opaque| Rule {
        place: place.into(),
        pattern: Pattern::parse_allow("a.example").unwrap(),
        addresses: Vec::new(),
        opaque,
    };
    let conflicting = Profile {
        allow: vec![
            rule("profiles.p.allow[0]", false),
            rule("profiles.p.rules[0]", true),
        ],
        ..Profile::default()
    };
    let mut profiles = profiles(&["default"]);
    profiles.insert("p".into(), conflicting);
    let errors = PolicySet::new(profiles, clients, Some("roof".into())).unwrap_err();
    let told: Vec<String> = errors
        .iter()
        .map(|error| format!("{}: {error}", error.key()))
        .collect();
    let expected = [
        "clients[1].profile: there is no profile \"defualt\"",
        "launcher.ceiling: there is no profile \"roof\"",
        "clients[2].source: 172.30.0.0/24 is already the source of clients[0]",
        "profiles.p.rules[0]: profiles.p.allow[0] and profiles.p.rules[0] name the same host and \
         port but differ in `addresses` or `opaque`",
    ];
    assert_eq!(told, expected);
}

#[test]
fn a_profile_is_found_by_its_name() {
    let set = PolicySet::new(profiles(&["b", "a"]), Vec::new(), None).unwrap();
    let names: Vec<&str> = set.profile_names().map(|name| &**name).collect();
    assert_eq!(names, ["a", "b"]);
    let found = set.profile("a").and_then(|policy| policy.profile());
    assert_eq!(found.map(|name| &**name), Some("a"));
    assert!(set.configured("a").is_some());
    assert!(set.profile("c").is_none());
}
