//! What holds of every policy, whatever is in it.

use super::*;

/// Few labels, so that random patterns and names often meet.
fn name() -> impl Strategy<Value = String> {
    let base = prop::sample::select(vec![
        "w.example",
        "w.example",
        "w.example",
        "azure.com",
        "corp.internal",
    ]);
    (
        prop::collection::vec(prop::sample::select(vec!["a", "b", "metadata"]), 0..3),
        base,
    )
        .prop_map(|(labels, base)| {
            labels
                .iter()
                .rev()
                .fold(base.to_owned(), |n, l| format!("{l}.{n}"))
        })
}

fn host() -> impl Strategy<Value = String> {
    prop_oneof![
        8 => name(),
        1 => prop::sample::select(vec!["printer", "192.0.2.1", "192.0.2.2", "[2001:db8::1]"])
            .prop_map(ToOwned::to_owned),
        1 => Just("[::ffff:192.0.2.1]".to_owned()),
    ]
}

fn pattern_text() -> impl Strategy<Value = String> {
    let front = prop::sample::select(vec!["", "", "*.", "."]);
    let scheme = prop::sample::select(vec!["", "", "", "http://", "https://"]);
    let port = prop::sample::select(vec!["", "", "", ":443", ":80", ":8443"]);
    (scheme, front, host(), port)
        .prop_map(|(scheme, front, host, port)| format!("{scheme}{front}{host}{port}"))
}

fn list(parse: fn(&str) -> Result<Pattern, PatternError>) -> impl Strategy<Value = Vec<Rule>> {
    let rules = prop::collection::vec(pattern_text(), 0..8);
    rules.prop_map(move |texts| {
        texts
            .iter()
            .enumerate()
            .filter_map(|(at, text)| {
                Some(Rule {
                    place: format!("[{at}]").into(),
                    pattern: parse(text).ok()?,
                    addresses: Vec::new(),
                    opaque: false,
                })
            })
            .collect()
    })
}

fn any_profile() -> impl Strategy<Value = Profile> {
    let mode = prop::sample::select(vec![Mode::Enforce, Mode::Report]);
    (list(Pattern::parse_allow), list(Pattern::parse_deny), mode).prop_map(|(allow, deny, mode)| {
        Profile {
            mode,
            allow,
            deny,
            ..Profile::default()
        }
    })
}

fn destination() -> impl Strategy<Value = Destination> {
    let scheme = prop::sample::select(vec![Scheme::Http, Scheme::Https]);
    let port = prop::sample::select(vec![443, 80, 8443, 22]);
    (scheme, host(), port).prop_map(|(scheme, host, port)| Destination {
        scheme,
        host: Host::parse(&host).unwrap(),
        port,
    })
}

/// The documented rules, by a scan of the lists.
fn scanned(profile: &Profile, to: &Destination) -> (Decision, Reason, Vec<Arc<str>>) {
    if profile.deny.iter().any(|rule| rule.pattern.matches(to)) {
        return (Decision::Deny, Reason::DeniedByRule, Vec::new());
    }
    let is_local = to
        .host
        .name()
        .is_some_and(|name| name.is_special() || name.is_never_allowed());
    let is_mapped = match to.host {
        Host::Ip(address) => address != address.to_canonical(),
        Host::Name(_) => false,
    };
    let specificity = |hosts: &HostPattern| match hosts {
        HostPattern::Exact(_) => Some(usize::MAX),
        HostPattern::Below(base) | HostPattern::AtOrBelow(base) => {
            (!is_local).then(|| base.label_count())
        }
    };
    let named: Vec<(usize, &Rule)> = profile
        .allow
        .iter()
        .filter(|rule| rule.pattern.hosts.matches(&to.host) && !is_mapped)
        .filter_map(|rule| Some((specificity(&rule.pattern.hosts)?, rule)))
        .collect();
    let covering = || named.iter().filter(|(_, rule)| rule.pattern.matches(to));
    if let Some(best) = covering().map(|(specificity, _)| *specificity).max() {
        let places = covering()
            .filter(|(specificity, _)| *specificity == best)
            .map(|(_, rule)| Arc::clone(&rule.place))
            .collect();
        return (Decision::Allow, Reason::Allowlisted, places);
    }
    let reason = match &to.host {
        _ if !named.is_empty() => Reason::PortNotAllowed,
        Host::Ip(_) => Reason::IpLiteral,
        Host::Name(_) => Reason::NotAllowlisted,
    };
    let reported =
        reason == Reason::PortNotAllowed || (reason == Reason::NotAllowlisted && !is_local);
    let decision = if profile.mode == Mode::Report && reported {
        Decision::WouldDeny
    } else {
        Decision::Deny
    };
    (decision, reason, Vec::new())
}

/// The host in another spelling of the same: letters in the case that `mask` says, a final dot.
fn respelled(host: &str, mask: u32, final_dot: bool) -> String {
    let is_upper = |at: usize| mask >> (at % 32) & 1 == 1;
    let mut respelled: String = host
        .char_indices()
        .map(|(at, c)| {
            if is_upper(at) {
                c.to_ascii_uppercase()
            } else {
                c
            }
        })
        .collect();
    if final_dot && Name::parse(host).is_ok() {
        respelled.push('.');
    }
    respelled
}

fn compiled(profile: &Profile) -> Policy {
    Policy::compile(profile.clone()).unwrap()
}

proptest! {
    #[test]
    fn the_index_agrees_with_a_scan(profile in any_profile(), to in destination()) {
        let found = compiled(&profile).evaluate(&to);
        let (decision, reason, places) = scanned(&profile, &to);
        prop_assert_eq!((found.decision, found.reason), (decision, reason), "{}", to);
        if decision == Decision::Allow {
            prop_assert!(places.contains(&found.rule.unwrap()), "{}", to);
        }
    }

    #[test]
    fn adding_a_deny_never_allows(
        profile in any_profile(),
        more in list(Pattern::parse_deny),
        to in destination(),
    ) {
        let before = compiled(&profile).evaluate(&to);
        let mut stricter = profile;
        stricter.deny.extend(more);
        let after = compiled(&stricter).evaluate(&to);
        prop_assert!(before.passes() || !after.passes(), "{}", to);
    }

    #[test]
    fn adding_an_allow_never_denies(
        profile in any_profile(),
        more in list(Pattern::parse_allow),
        to in destination(),
    ) {
        let before = compiled(&profile).evaluate(&to);
        let mut wider = profile;
        wider.allow.extend(more);
        let after = compiled(&wider).evaluate(&to);
        prop_assert!(after.passes() || !before.passes(), "{}", to);
    }

    #[test]
    fn the_order_of_the_lists_does_not_matter(profile in any_profile(), to in destination()) {
        let found = compiled(&profile).evaluate(&to);
        let mut reversed = profile;
        reversed.allow.reverse();
        reversed.deny.reverse();
        let other = compiled(&reversed).evaluate(&to);
        prop_assert_eq!(
            (found.decision, found.reason, found.grants),
            (other.decision, other.reason, other.grants),
            "{}",
            to
        );
    }

    #[test]
    fn case_and_a_final_dot_do_not_matter(
        profile in any_profile(),
        host in host(),
        pattern in name(),
        front in prop::sample::select(vec!["", "*.", "."]),
        mask in any::<u32>(),
        final_dot in any::<bool>(),
    ) {
        let spelled = Host::parse(&respelled(&host, mask, final_dot)).unwrap();
        let to = |host: Host| Destination { scheme: Scheme::Https, host, port: 443 };
        let policy = compiled(&profile);
        let expected = policy.evaluate(&to(Host::parse(&host).unwrap()));
        prop_assert_eq!(policy.evaluate(&to(spelled)), expected, "{}", host);
        let spelled = respelled(&pattern, mask, final_dot);
        for parse in [Pattern::parse_allow, Pattern::parse_deny] {
            let [spelled, pattern] = [&spelled, &pattern].map(|name| parse(&format!("{front}{name}")));
            prop_assert_eq!(spelled, pattern);
        }
    }

    #[test]
    fn report_mode_changes_what_passes_and_never_why(
        profile in any_profile(),
        to in destination(),
        name in name(),
    ) {
        let in_mode = |mode| compiled(&Profile { mode, ..profile.clone() });
        let (enforcing, reporting) = (in_mode(Mode::Enforce), in_mode(Mode::Report));
        let (enforced, reported) = (enforcing.evaluate(&to), reporting.evaluate(&to));
        prop_assert_ne!(enforced.decision, Decision::WouldDeny);
        if reported.decision == Decision::WouldDeny {
            let why = reported.reason;
            prop_assert!([Reason::NotAllowlisted, Reason::PortNotAllowed].contains(&why), "{}", why);
            let decision = Decision::Deny;
            prop_assert_eq!(Verdict { decision, ..reported }, enforced, "{}", to);
        } else {
            prop_assert_eq!(reported, enforced, "{}", to);
        }
        // Of a name some port may pass that policy does not list, although others are denied.
        let name = Name::parse(&name).unwrap();
        let (enforced, reported) = (enforcing.evaluate_name(&name), reporting.evaluate_name(&name));
        prop_assert!(reported.decision == Decision::WouldDeny || reported == enforced, "{}", name);
        prop_assert!(!enforced.passes() || reported == enforced, "{}", name);
    }

    #[test]
    fn a_run_reaches_its_profile_and_of_its_own_list_what_no_deny_and_the_ceiling_leave(
        profiles in prop::array::uniform3(any_profile()),
        own in list(Pattern::parse_allow),
        is_bounded in any::<bool>(),
        to in destination(),
    ) {
        let [mine, other, ceiling] = profiles.map(|profile| Profile {
            mode: Mode::Enforce,
            ..profile
        });
        let listed = |allow: &[Rule]| {
            let profile = Profile { allow: allow.to_vec(), ..Profile::default() };
            compiled(&profile).evaluate(&to).passes()
        };
        let denied = |profile: &Profile| profile.deny.iter().any(|rule| rule.pattern.matches(&to));
        let is_own = listed(&own)
            && (!is_bounded || listed(&ceiling.allow))
            && ![&mine, &other, &ceiling].into_iter().any(denied);
        let expected = !denied(&mine) && (listed(&mine.allow) || is_own);
        let named = [("mine", mine), ("other", other), ("ceiling", ceiling)];
        let profiles = named.map(|(name, profile)| (name.into(), profile)).into();
        let bound = is_bounded.then(|| "ceiling".into());
        let set = PolicySet::new(profiles, Vec::new(), bound).unwrap();
        let own: Vec<Pattern> = own.into_iter().map(|rule| rule.pattern).collect();
        let run = set.for_run(Some("mine"), &own).unwrap();
        prop_assert_eq!(run.evaluate(&to).passes(), expected, "{}", to);
    }

    #[test]
    fn a_name_passes_exactly_when_some_destination_of_it_does(
        profile in any_profile(),
        name in name(),
    ) {
        let policy = compiled(&profile);
        let name = Name::parse(&name).unwrap();
        let mut ways = [443, 80, 8443, 22]
            .into_iter()
            .flat_map(|port| [(port, Scheme::Http), (port, Scheme::Https)]);
        let some_way_passes = ways.any(|(port, scheme)| {
            let host = Host::Name(name.clone());
            policy.evaluate(&Destination { scheme, host, port }).passes()
        });
        let found = policy.evaluate_name(&name);
        prop_assert_eq!(found.passes(), some_way_passes, "{} {:?}", name, found);
    }

    #[test]
    fn the_explanation_names_the_deciding_rule_as_matching(
        profile in any_profile(),
        to in destination(),
    ) {
        let policy = compiled(&profile);
        let verdict = policy.evaluate(&to);
        let explained = policy.explain(&to);
        prop_assert_eq!(explained.len(), profile.allow.len() + profile.deny.len());
        let allowed = verdict.reason == Reason::Allowlisted;
        if allowed || verdict.reason == Reason::DeniedByRule {
            let first = explained.iter().find(|one| one.matched).unwrap();
            prop_assert!(first.why.contains("decides"), "{:?}", first);
        } else {
            prop_assert!(explained.iter().all(|one| !one.matched), "{:?}", explained);
        }
    }
}
