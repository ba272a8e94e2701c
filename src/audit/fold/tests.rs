use proptest::{collection::vec, prelude::*};

use super::*;
use crate::{
    destination::{Destination, Scheme},
    policy::Reason,
    record::{Asked, DecisionRecord, DnsAnswer, DnsRecord, Id, Via},
};

const START: Duration = Duration::from_secs(1000);

fn subject(client: &str) -> Subject {
    Subject {
        run: None,
        profile: Some("default".into()),
        client: Some(client.parse().unwrap()),
    }
}

fn query(client: &str, name: &str, decision: Decision) -> DnsRecord {
    DnsRecord {
        subject: subject(client),
        name: name.into(),
        record_type: "A".into(),
        decision,
        reason: match decision {
            Decision::Allow => Reason::Allowlisted,
            Decision::Deny | Decision::WouldDeny => Reason::NotAllowlisted,
        },
        rule: None,
        answer: DnsAnswer::NxDomain,
    }
}

fn refusal(client: &str, authority: &str) -> DecisionRecord {
    DecisionRecord {
        id: Id(ulid::Ulid(1)),
        subject: subject(client),
        asked: Asked {
            via: Via::Http,
            method: Some("GET".into()),
            destination: Destination::parse_authority(Scheme::Http, authority).ok(),
            target: Some(format!("http://{authority}/a?b")),
            path: Some("/a".into()),
        },
        decision: Decision::Deny,
        reason: Reason::NotAllowlisted,
        rule: None,
        addresses: vec!["192.0.2.1".parse().unwrap()],
        status: Some(403),
    }
}

/// Written lines and counted events, for `events` that come at one time.
fn judge<'a>(
    fold: &mut Fold,
    now: Duration,
    events: impl IntoIterator<Item = Event<'a>>,
) -> (u64, u64) {
    let (mut written, mut counted) = (0, 0);
    for event in events {
        match fold.judge(event, now) {
            Fate::Written => written += 1,
            Fate::Counted => counted += 1,
        }
    }
    (written, counted)
}

fn count(lines: &[(Folded, Tally)]) -> u64 {
    lines.iter().map(|(_, tally)| tally.count).sum()
}

#[test]
fn identical_events_beyond_twenty_are_one_line_when_their_window_ends() {
    let mut fold = Fold::new(600);
    let again = query("10.0.0.1", "evil.example.", Decision::Deny);
    let events = std::iter::repeat_n(Event::Query(&again), 1000);
    assert_eq!(judge(&mut fold, START, events), (20, 980));
    assert_eq!(fold.over(START + Duration::from_millis(9_999)), []);
    let tally = Tally {
        count: 980,
        samples: Vec::new(),
    };
    let expected = (Folded::Query(Box::new(again.clone())), tally);
    assert_eq!(fold.over(START + REPEAT_WINDOW), [expected]);
    assert_eq!(fold.all(), []);
    let events = [Event::Query(&again)];
    assert_eq!(judge(&mut fold, START + REPEAT_WINDOW, events), (1, 0));
}

#[test]
fn a_slow_repeat_is_never_folded() {
    let mut fold = Fold::new(600);
    let again = refusal("10.0.0.1", "evil.example:80");
    for second in 0..300 {
        let now = START + Duration::from_secs(second);
        let events = [Event::Refusal(&again)];
        assert_eq!(judge(&mut fold, now, events), (1, 0), "{second}");
    }
    assert_eq!(fold.all(), []);
}

#[test]
fn events_that_differ_in_anything_recorded_are_not_identical() {
    let base = refusal("10.0.0.1", "evil.example:80");
    let with = |change: fn(&mut DecisionRecord)| {
        let mut record = base.clone();
        change(&mut record);
        record
    };
    let others = [
        base.clone(),
        with(|record| record.subject = subject("10.0.0.2")),
        with(|record| record.asked.via = Via::Host),
        with(|record| record.asked.method = Some("POST".into())),
        with(|record| record.asked.destination = None),
        with(|record| record.reason = Reason::DeniedByRule),
        with(|record| record.status = None),
        with(|record| record.rule = Some("profiles.default.deny[0]".into())),
        refusal("10.0.0.1", "evil.example:8080"),
        refusal("10.0.0.1", "sub.evil.example:80"),
    ];
    let mut fold = Fold::new(600);
    let events = others
        .iter()
        .flat_map(|record| std::iter::repeat_n(Event::Refusal(record), 21));
    let expected = u64::try_from(others.len()).unwrap();
    assert_eq!(judge(&mut fold, START, events), (20 * expected, expected));
    assert_eq!(fold.all().len(), others.len());
}

#[test]
fn a_folded_line_says_only_what_its_events_share() {
    let mut fold = Fold::new(1);
    let paths: Vec<DecisionRecord> = ["/a", "/b", "/c"]
        .into_iter()
        .map(|path| {
            let mut record = refusal("10.0.0.1", "evil.example:80");
            record.asked.path = Some(path.into());
            record
        })
        .collect();
    let other = refusal("10.0.0.1", "other.example:80");
    let events = paths.iter().chain([&other, &other]).map(Event::Refusal);
    assert_eq!(judge(&mut fold, START, events), (1, 4));

    let mut same = refusal("10.0.0.1", "evil.example:80");
    (same.asked.path, same.asked.target) = (None, None);
    same.addresses = Vec::new();
    let mut distinct = same.clone();
    (distinct.asked.method, distinct.asked.destination) = (None, None);
    let lines = fold.all();
    assert_eq!(
        lines,
        [
            (
                Folded::Refusal(Box::new(same)),
                Tally {
                    count: 2,
                    samples: Vec::new()
                }
            ),
            (
                Folded::Refusal(Box::new(distinct)),
                Tally {
                    count: 2,
                    samples: vec!["other.example:80".into()]
                }
            ),
        ]
    );
}

#[test]
fn a_million_distinct_names_are_bounded_lines_with_the_true_count() {
    let mut fold = Fold::new(600);
    let (mut lines, mut counted) = (0, 0);
    let mut asked = query("10.0.0.1", "", Decision::Deny);
    for number in 0..1_000_000_u32 {
        // 5,000 a second: 200 seconds in all.
        let now = START + Duration::from_millis(u64::from(number) / 5);
        asked.name = format!("{number}.evil.example.");
        if fold.judge(Event::Query(&asked), now) == Fate::Written {
            lines += 1;
        }
        if number % 5000 == 0 {
            let over = fold.over(now);
            lines += over.len();
            counted += count(&over);
            assert!(fold.repeats.len() <= 1200, "{}", fold.repeats.len());
        }
    }
    let rest = fold.all();
    counted += count(&rest);
    lines += rest.len();
    let written = 4 * 600;
    assert_eq!(counted, 1_000_000 - written);
    assert!(lines < 2410, "{lines}");
    assert_eq!(rest.len(), 1);
    assert_eq!(rest[0].1.samples.len(), MAX_SAMPLES);
}

#[test]
fn one_client_does_not_use_up_the_rate_of_another() {
    let mut fold = Fold::new(2);
    let noisy: Vec<DnsRecord> = (0..10)
        .map(|n| query("10.0.0.1", &format!("{n}.example."), Decision::Deny))
        .collect();
    let events = noisy.iter().map(Event::Query);
    assert_eq!(judge(&mut fold, START, events), (2, 8));
    let quiet = query("10.0.0.2", "a.example.", Decision::Deny);
    assert_eq!(judge(&mut fold, START, [Event::Query(&quiet)]), (1, 0));
}

#[test]
fn allowed_queries_do_not_use_up_the_rate_of_denials() {
    let mut fold = Fold::new(2);
    let allowed: Vec<DnsRecord> = (0..10)
        .map(|n| query("10.0.0.1", &format!("{n}.example."), Decision::Allow))
        .collect();
    let events = allowed.iter().map(Event::Query);
    assert_eq!(judge(&mut fold, START, events), (2, 8));
    for decision in [Decision::Deny, Decision::WouldDeny] {
        let denied = query("10.0.0.1", "evil.example.", decision);
        let events = [Event::Query(&denied)];
        assert_eq!(judge(&mut fold, START, events), (1, 0), "{decision:?}");
    }
}

#[test]
fn a_run_has_one_rate_whatever_its_sources() {
    let mut fold = Fold::new(2);
    let of = |source: &str, name: &str| {
        let mut record = query(source, name, Decision::Deny);
        record.subject.run = Some(RunId::parse("run-1").unwrap());
        record
    };
    let events = [
        of("10.0.0.1", "a."),
        of("10.0.0.2", "b."),
        of("10.0.0.3", "c."),
    ];
    let judged = judge(&mut fold, START, events.iter().map(Event::Query));
    assert_eq!(judged, (2, 1));
    assert_eq!(fold.of_run(&RunId::parse("run-2").unwrap()), []);
    assert_eq!(count(&fold.of_run(&RunId::parse("run-1").unwrap())), 1);
    assert_eq!(fold.all(), []);
}

#[test]
fn a_rate_is_full_again_after_a_minute() {
    let mut fold = Fold::new(1);
    for (second, name, expected) in [
        (0, "a.", (1, 0)),
        (59, "b.", (0, 1)),
        (60, "c.", (1, 0)),
        (61, "d.", (0, 1)),
    ] {
        let record = query("10.0.0.1", name, Decision::Deny);
        let now = START + Duration::from_secs(second);
        let judged = judge(&mut fold, now, [Event::Query(&record)]);
        assert_eq!(judged, expected, "{name}");
    }
}

#[test]
fn a_rate_of_zero_counts_everything() {
    let mut fold = Fold::new(0);
    let record = query("10.0.0.1", "a.", Decision::Deny);
    let events = std::iter::repeat_n(Event::Query(&record), 5);
    assert_eq!(judge(&mut fold, START, events), (0, 5));
    assert_eq!(count(&fold.all()), 5);
}

#[test]
fn too_many_clients_share_one_line_and_lose_no_count() {
    let mut fold = Fold::new(1);
    let mut record = query("10.0.0.1", "a.example.", Decision::Deny);
    let clients = u32::try_from(MAX_CLIENTS + MAX_BUCKETS + 1000).unwrap();
    let mut written = 0;
    for client in 0..clients {
        record.subject.client = Some(IpAddr::from((0x0a00_0000 + client).to_be_bytes()));
        let (one, _) = judge(&mut fold, START, [Event::Query(&record)]);
        written += one;
    }
    assert_eq!(written, u64::try_from(MAX_CLIENTS).unwrap());
    assert_eq!(fold.rates.len(), MAX_CLIENTS);
    assert_eq!(fold.repeats.len(), MAX_REPEATS);
    assert_eq!(fold.buckets.len(), MAX_BUCKETS + 1);
    let lines = fold.all();
    assert_eq!(count(&lines), u64::from(clients) - written);
    let of_all: Vec<_> = lines.iter().filter(|(_, tally)| tally.count > 1).collect();
    assert_eq!(of_all.len(), 1);
    let (Folded::Query(shared), tally) = of_all[0] else {
        panic!("{of_all:?}");
    };
    assert_eq!(shared.subject, Subject::default());
    assert_eq!(
        (tally.count, &*tally.samples),
        (1000, &["a.example.".into()][..])
    );
    // A minute later everyone has a rate again.
    fold.over(START + RATE_WINDOW);
    assert_eq!(fold.rates.len(), 0);
}

#[test]
fn a_long_method_is_held_by_the_rate_and_not_kept() {
    let mut fold = Fold::new(5);
    let mut long = refusal("10.0.0.1", "evil.example:80");
    long.asked.method = Some("X".repeat(65));
    let events = std::iter::repeat_n(Event::Refusal(&long), 100);
    assert_eq!(judge(&mut fold, START, events), (5, 95));
    assert!(fold.repeats.is_empty());
    let lines = fold.all();
    assert_eq!((lines.len(), count(&lines)), (1, 95));
}

#[test]
fn samples_are_cut_and_distinct() {
    let mut fold = Fold::new(0);
    let long = query("10.0.0.1", &"x".repeat(1000), Decision::Deny);
    let mut bad = refusal("10.0.0.1", "not a host");
    bad.asked.target = Some("é".repeat(1000));
    let events = [
        Event::Query(&long),
        Event::Query(&long),
        Event::Refusal(&bad),
    ];
    judge(&mut fold, START, events);
    let mut samples: Vec<String> = fold
        .all()
        .into_iter()
        .flat_map(|(_, tally)| tally.samples)
        .collect();
    samples.sort();
    assert_eq!(
        samples,
        [
            format!("{}…(1000 bytes)", "x".repeat(256)),
            format!("{}…(2000 bytes)", "é".repeat(128)),
        ]
    );
}

proptest! {
    /// Whatever comes when, every event is in one line, and a client's lines are bounded.
    #[test]
    fn no_event_is_lost_or_counted_twice(
        per_minute in 0..8_u32,
        steps in vec((0..3_u8, 0..6_u8, any::<bool>(), 0..4000_u64), 0..400),
    ) {
        let mut fold = Fold::new(per_minute);
        let (mut now, mut written, mut counted) = (START, 0, 0);
        for (client, name, is_query, wait) in &steps {
            now += Duration::from_millis(*wait);
            let client = format!("10.0.0.{client}");
            let query = query(&client, &format!("{name}.example."), Decision::Deny);
            let refusal = refusal(&client, &format!("{name}.example:80"));
            let event = if *is_query { Event::Query(&query) } else { Event::Refusal(&refusal) };
            written += judge(&mut fold, now, [event]).0;
            if wait % 3 == 0 {
                counted += count(&fold.over(now));
            }
        }
        counted += count(&fold.all());
        prop_assert_eq!(written + counted, u64::try_from(steps.len()).unwrap());
        let minutes = 1 + now.saturating_sub(START).as_secs() / 60;
        // A client's minutes begin with its first event, so one more may have begun.
        prop_assert!(written <= 3 * u64::from(per_minute) * (minutes + 1), "{}", written);
        prop_assert!(fold.repeats.is_empty() && fold.buckets.is_empty());
    }
}
