use std::{sync::Arc, time::Duration};

use proptest::prelude::*;

use super::*;
use crate::{
    destination::{Destination, Scheme},
    policy::{Decision, Reason},
    record::{DnsAnswer, EVENTS, Link, MAX_FIELD, RunId, Via},
};

const ID: Id = Id(ulid::Ulid(0x0193_4b9e_5c00_0000_0000_0000_0000_0001));

macro_rules! begin {
    ($event:literal) => {
        concat!(
            r#"{"schema":1,"ts":"2026-01-02T03:04:05.678Z","#,
            r#""prev":"ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad","#,
            r#""event":""#,
            $event,
            r#"","#
        )
    };
}

fn text(mut out: Vec<u8>) -> String {
    stamp(&mut out, "2026-01-02T03:04:05.6789Z".parse().unwrap());
    let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    bind(&mut out, &abc.parse().unwrap());
    String::from_utf8(out).unwrap()
}

fn subject() -> Subject {
    Subject {
        run: Some(RunId::parse("run-1").unwrap()),
        profile: Some("default".into()),
        client: Some("10.231.0.3".parse().unwrap()),
    }
}

fn refusal(target: &str) -> DecisionRecord {
    DecisionRecord {
        id: ID,
        subject: subject(),
        asked: Asked {
            via: Via::Connect,
            method: Some("CONNECT".into()),
            destination: Destination::parse_authority(Scheme::Https, "evil.example.net:443").ok(),
            target: Some(target.into()),
            path: None,
        },
        decision: Decision::Deny,
        reason: Reason::NotAllowlisted,
        rule: None,
        addresses: Vec::new(),
        status: Some(403),
    }
}

#[test]
fn a_refusal_is_one_line_with_the_fields_of_the_contract() {
    let line = text(decision(&refusal("evil.example.net:443"), None));
    assert_eq!(
        line,
        concat!(
            begin!("decision"),
            r#""id":"01JD5SWQ000000000000000001","run":"run-1","profile":"default","#,
            r#""client":"10.231.0.3","via":"connect","method":"CONNECT","#,
            r#""host":"evil.example.net","port":443,"decision":"deny","#,
            r#""reason":"not_allowlisted","status":403}"#,
            "\n"
        )
    );
}

#[test]
fn an_allowed_request_and_its_close_share_their_head() {
    let record = DecisionRecord {
        subject: Subject {
            run: None,
            ..subject()
        },
        asked: Asked {
            via: Via::Http,
            method: Some("GET".into()),
            destination: Destination::parse_authority(Scheme::Http, "[2001:db8::1]:80").ok(),
            target: Some("http://[2001:DB8::1]/a".into()),
            path: Some("/a".into()),
        },
        decision: Decision::Allow,
        reason: Reason::Allowlisted,
        rule: Some("profiles.default.allow[0]".into()),
        addresses: vec!["2001:db8::1".parse().unwrap()],
        status: None,
        ..refusal("")
    };
    let closing = Closing {
        outcome: Outcome::Refused,
        reason: Some(Reason::SniMismatch),
        status: Some(200),
        upstream: Some("[2001:db8::1]:80".parse().unwrap()),
        sni: Some("other.example".into()),
        ech: Some(false),
        bytes_up: 1,
        bytes_down: u64::MAX,
        duration: Duration::from_micros(1999),
    };
    let head = concat!(
        r#""id":"01JD5SWQ000000000000000001","run":null,"profile":"default","#,
        r#""client":"10.231.0.3","via":"http","#
    );
    let line = text(decision(&record, None));
    assert_eq!(
        line,
        concat!(
            begin!("decision"),
            r#"HEAD"method":"GET","#,
            r#""host":"[2001:db8::1]","port":80,"path":"/a","target":"http://[2001:DB8::1]/a","#,
            r#""decision":"allow","reason":"allowlisted","rule":"profiles.default.allow[0]","#,
            r#""addresses":["2001:db8::1"]}"#,
            "\n"
        )
        .replace("HEAD", head)
    );
    let line = text(close(&record, &closing));
    assert_eq!(
        line,
        concat!(
            begin!("close"),
            r#"HEAD"#,
            r#""reason":"sni_mismatch","status":200,"upstream":"[2001:db8::1]:80","#,
            r#""sni":"other.example","ech":false,"outcome":"refused","bytes_up":1,"#,
            r#""bytes_down":18446744073709551615,"duration_ms":1}"#,
            "\n"
        )
        .replace("HEAD", head)
    );
}

#[test]
fn a_query_and_a_folded_one() {
    let record = DnsRecord {
        subject: subject(),
        name: r"Evil\.\000.example.net.".into(),
        record_type: "TYPE65399".into(),
        decision: Decision::Deny,
        reason: Reason::NotAllowlisted,
        rule: None,
        answer: DnsAnswer::NxDomain,
    };
    let head = concat!(
        begin!("dns"),
        r#""id":"01JD5SWQ000000000000000001","run":"run-1","profile":"default","#,
        r#""client":"10.231.0.3","#
    );
    let tail = r#""decision":"deny","reason":"not_allowlisted","answer":"nxdomain""#;
    let named = r#""name":"Evil\\.\\000.example.net.","type":"TYPE65399","#;
    let line = text(query(ID, &record, None));
    assert_eq!(line, format!("{head}{named}{tail}}}\n"));

    let folded = DnsRecord {
        name: String::new(),
        record_type: String::new(),
        ..record
    };
    let tally = Tally {
        count: 3,
        samples: vec!["a.example.".into(), "\u{202e}b.example.".into()],
    };
    let line = text(query(ID, &folded, Some(&tally)));
    let counted = r#""count":3,"samples":["a.example.","\u202eb.example."]"#;
    assert_eq!(line, format!("{head}{tail},{counted}}}\n"));
}

#[test]
fn notices_have_their_own_fields() {
    let of = |event: &str, whom: &str, rest: &str| {
        format!(
            "{}\"id\":\"01JD5SWQ000000000000000001\",{whom}{rest}}}\n",
            begin!("EVENT").replace("EVENT", event)
        )
    };
    let nobody = r#""run":null,"profile":null,"client":null"#;
    let run = r#""run":"run-1","profile":"default","client":"10.231.0.3""#;
    for (given, expected) in [
        (
            Notice::Start {
                version: "0.1.0",
                listeners: vec!["0.0.0.0:53".parse().unwrap()],
            },
            of(
                "start",
                nobody,
                r#","version":"0.1.0","listeners":["0.0.0.0:53"]"#,
            ),
        ),
        (Notice::Stop, of("stop", nobody, "")),
        (
            Notice::Reload {
                generation: 2,
                changes: vec!["profiles.default.allow: 1 added".into()],
                applied: true,
            },
            of(
                "reload",
                nobody,
                r#","generation":2,"applied":true,"changes":["profiles.default.allow: 1 added"]"#,
            ),
        ),
        (
            Notice::RunStart {
                subject: subject(),
                allow: vec!["api.example.com".into()],
            },
            of("run_start", run, r#","allow":["api.example.com"]"#),
        ),
        (
            Notice::RunEnd {
                subject: subject(),
                cut: 2,
            },
            of("run_end", run, r#","cut":2"#),
        ),
        (
            Notice::RunExpired { subject: subject() },
            of("run_expired", run, ""),
        ),
    ] {
        assert_eq!(text(notice(ID, &given)), expected);
    }
}

#[test]
fn a_changed_registration_is_an_event_of_its_own() {
    let change = Notice::RunChange {
        subject: subject(),
        allow: vec!["new.example.com".into()],
    };
    let line = text(notice(ID, &change));
    let line = Line::parse(line.as_bytes()).unwrap();
    assert_eq!(line.event, "run_change");
    assert_eq!(line.allow, ["new.example.com"]);
    assert!(EVENTS.contains(&"run_change"));
}

#[test]
fn a_gap_says_since_when_and_how_much() {
    let since = "2026-01-02T03:00:00Z".parse().unwrap();
    assert_eq!(
        text(gap(ID, since, 7)),
        concat!(
            begin!("gap"),
            r#""id":"01JD5SWQ000000000000000001","run":null,"profile":null,"client":null,"#,
            r#""since":"2026-01-02T03:00:00.000Z","count":7}"#,
            "\n"
        )
    );
}

#[test]
fn hostile_text_stays_one_line_of_printable_ascii_and_reads_back_unchanged() {
    for hostile in [
        "\u{1b}[2J\u{1b}]0;owned\u{7}",
        "a\r\nb\0\t\u{b}\u{c}\u{8}",
        r#"","decision":"allow","x":"#,
        "back\\slash",
        "\u{7f}\u{80}\u{85}\u{9b}31m",
        "\u{202a}\u{202b}\u{202c}\u{202d}\u{202e}\u{2066}\u{2067}\u{2068}\u{2069}",
        "\u{2028}\u{2029}\u{feff}",
        "münchen 東京 😀",
        "\u{fffd}",
    ] {
        let line = text(decision(&refusal(hostile), None));
        let printable = line.strip_suffix('\n').unwrap();
        assert!(
            printable.bytes().all(|b| (b' '..=b'~').contains(&b)),
            "{line}"
        );
        let read = Line::parse(line.as_bytes()).unwrap();
        assert_eq!(read.target.as_deref(), Some(hostile));
        assert_eq!(read.decision.as_deref(), Some("deny"), "{hostile:?}");
    }
}

#[test]
fn long_text_is_cut_on_a_character_and_says_how_long_it_was() {
    let two = "é".repeat(MAX_FIELD);
    let expected_two = format!("{}…({} bytes)", "é".repeat(MAX_FIELD / 2), two.len());
    let odd = format!("x{two}");
    let expected_odd = format!("x{}…({} bytes)", "é".repeat(511), odd.len());
    for (given, expected) in [
        ("a".repeat(MAX_FIELD), "a".repeat(MAX_FIELD)),
        (
            "a".repeat(65_536),
            format!("{}…(65536 bytes)", "a".repeat(MAX_FIELD)),
        ),
        (two, expected_two),
        (odd, expected_odd),
    ] {
        let line = text(decision(&refusal(&given), None));
        let read = Line::parse(line.as_bytes()).unwrap();
        assert_eq!(read.target, Some(expected), "{} bytes", given.len());
    }
}

#[test]
fn a_long_list_is_cut_and_the_longest_line_is_below_what_a_reader_takes() {
    let changes = vec!["\u{1}".repeat(2 * MAX_FIELD); 10_000];
    let reload = Notice::Reload {
        generation: 1,
        changes,
        applied: true,
    };
    let line = text(notice(ID, &reload));
    assert!(
        line.ends_with("\"\\u2026(9872 more)\"]}\n"),
        "{}",
        line.len()
    );
    assert!(line.len() < 1 << 20, "{}", line.len());
}

#[test]
fn the_raw_target_is_recorded_where_it_says_more_than_host_port_and_path() {
    let host = "allowed.example:80";
    for (via, target, path, said) in [
        (Via::Connect, "allowed.example:80", None, true),
        (Via::Sni, "allowed.example", None, true),
        (Via::Sni, "ALLOWED.example", None, false),
        (Via::Connect, "allowed.example.:80", None, false),
        (Via::Connect, "allowed.example:80/", None, false),
        (Via::Http, "http://allowed.example/a", Some("/a"), true),
        (Via::Http, "http://allowed.example:80/a", Some("/a"), true),
        (Via::Http, "HTTP://allowed.example/a", Some("/a"), false),
        (Via::Http, "http://allowed.example/a/b", Some("/a"), false),
        (Via::Http, "https://allowed.example/a", Some("/a"), false),
        (Via::Http, "http://allowed.example:8080/", Some("/"), false),
    ] {
        let asked = Asked {
            via,
            method: None,
            destination: Destination::parse_authority(Scheme::Http, host).ok(),
            target: Some(target.into()),
            path: path.map(Into::into),
        };
        assert_eq!(odd_target(&asked).is_none(), said, "{target}");
    }
}

#[test]
fn a_crash_close_repeats_identity_and_claims_nothing_else() {
    let opened = text(decision(&refusal("evil.example.net:443"), None));
    let opened = Line::parse(opened.as_bytes()).unwrap();
    assert_eq!(
        text(crash(&opened)),
        concat!(
            begin!("close"),
            r#""id":"01JD5SWQ000000000000000001","run":"run-1","profile":"default","#,
            r#""client":"10.231.0.3","via":"connect","outcome":"crash"}"#,
            "\n"
        )
    );
}

#[test]
fn a_time_always_fills_its_place() {
    for (now, expected) in [
        ("2026-01-02T03:04:05Z", "2026-01-02T03:04:05.000Z"),
        ("2026-01-02T03:04:05.999999999Z", "2026-01-02T03:04:05.999Z"),
        ("-000001-01-02T03:04:05Z", "1970-01-01T00:00:00.000Z"),
        ("9999-12-30T00:00:00Z", "9999-12-30T00:00:00.000Z"),
    ] {
        let mut out = notice(ID, &Notice::Stop);
        stamp(&mut out, now.parse().unwrap());
        let line = String::from_utf8(out).unwrap();
        assert!(line.contains(&format!(r#""ts":"{expected}""#)), "{line}");
    }
    let shared: Arc<str> = "short".into();
    let mut short = shared.as_bytes().to_vec();
    stamp(&mut short, Timestamp::UNIX_EPOCH);
    bind(&mut short, &Link::FIRST);
    assert_eq!(short, b"short");
}

proptest! {
    #[test]
    fn a_time_stands_in_its_place_as_it_is_written_elsewhere(
        nanosecond in 0..=Timestamp::MAX.as_nanosecond(),
    ) {
        let now = Timestamp::from_nanosecond(nanosecond).unwrap();
        let mut line = notice(ID, &Notice::Stop);
        stamp(&mut line, now);
        let line = String::from_utf8(line).unwrap();
        let expected = format!(r#"{{"schema":1,"ts":"{now:.3}","prev":"0"#);
        prop_assert!(line.starts_with(&expected), "{line}");
    }

    #[test]
    fn any_text_is_one_printable_line_and_reads_back(
        target in ".{0,40}",
        path in any::<String>(),
        method in "\\PC*",
    ) {
        let mut record = refusal(&format!("/{target}"));
        record.asked.path = Some(path.clone());
        record.asked.method = Some(method.clone());
        let line = text(decision(&record, None));
        let printable = line.strip_suffix('\n').unwrap();
        prop_assert!(printable.bytes().all(|b| (b' '..=b'~').contains(&b)), "{}", line);
        let read = Line::parse(line.as_bytes()).unwrap();
        prop_assert_eq!(read.target, Some(format!("/{target}")));
        prop_assert_eq!(read.path, Some(clipped(&path, MAX_FIELD).to_string()));
        prop_assert_eq!(read.method, Some(clipped(&method, MAX_FIELD).to_string()));
        prop_assert_eq!(read.host.as_deref(), Some("evil.example.net"));
    }
}
