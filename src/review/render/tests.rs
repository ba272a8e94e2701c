use super::*;
use crate::review::filter::{Conditions, Filter};

fn shown(look: Look, lines: &[&str]) -> String {
    let mut renderer = Renderer::new(look);
    let mut out = Vec::new();
    let mut filter = Filter::new(Conditions::default());
    for line in lines {
        let passed = filter.pass(line.as_bytes());
        let passed = passed.unwrap_or_else(|error| panic!("{line}: {error}"));
        renderer
            .write(&Row::of(&passed.unwrap()), &mut out)
            .unwrap();
    }
    String::from_utf8(out).unwrap()
}

const PLAIN: Look = Look {
    zone: None,
    colour: false,
};

/// A line with `rest` behind what every line has.
fn line(event: &str, rest: &str) -> String {
    format!(
        r#"{{"schema":1,"ts":"2026-01-02T03:04:05.678Z","event":"{event}","id":"01JD5SWQ00000000000000000A","run":"01JD5SWQ000000000000000001","profile":"default","client":"10.231.0.3"{rest}}}"#
    )
}

#[test]
fn every_event_is_one_line_for_a_person() {
    let lines = [
        line(
            "decision",
            r#","via":"connect","method":"CONNECT","host":"api.example.com","port":443,"decision":"allow","reason":"allowlisted","rule":"profiles.default.allow[0]","addresses":["192.0.2.1"]"#,
        ),
        line(
            "close",
            r#","via":"connect","upstream":"192.0.2.1:443","sni":"api.example.com","ech":false,"outcome":"done","bytes_up":900,"bytes_down":12000,"duration_ms":412"#,
        ),
        line(
            "decision",
            r#","via":"http","method":"GET","host":"evil.example.net","port":80,"path":"/x","decision":"deny","reason":"not_allowlisted","status":403,"count":12"#,
        ),
        line(
            "decision",
            r#","via":"sni","host":"in.example","port":443,"decision":"deny","reason":"address_blocked","addresses":["10.0.0.1"]"#,
        ),
        line(
            "decision",
            r#","via":"http","target":"http://[broken","decision":"deny","reason":"bad_request","status":400"#,
        ),
        line(
            "close",
            r#","via":"sni","sni":"other.example","outcome":"refused","reason":"sni_mismatch","bytes_up":0,"bytes_down":0,"duration_ms":3"#,
        ),
        line(
            "dns",
            r#","name":"evil.example.net.","type":"AAAA","decision":"would_deny","reason":"not_allowlisted","answer":"listener","count":600,"samples":["a.example.","b.example.","c.example.","d.example."]"#,
        ),
        line("run_start", r#","allow":["api.example.com","*.cdn.example.com"]"#),
        line("run_end", r#","cut":2"#),
        line("run_expired", ""),
        line("reload", r#","generation":2,"applied":true,"changes":["profiles.default.allow: 1 added"]"#),
        line("reload", r#","generation":2,"applied":false,"changes":["line 3: unknown key"]"#),
        line("start", r#","version":"0.1.0","listeners":["127.0.0.1:3128"]"#),
        line("stop", ""),
        line("gap", r#","since":"2026-01-02T03:04:01.000Z","count":7"#),
        line("later", ""),
        r#"{"schema":1,"run":"01JD5SWQ000000000000000001","started":"2026-01-02T03:04:05.678Z","image":"sha256:00","command":["python3","-I"],"profile":null,"allow":[],"exit_code":124,"timed_out":true,"oom_killed":false,"signal":null,"error":null,"limits":[],"warnings":[],"duration_ms":30000,"stdout_bytes":0,"stderr_bytes":0,"stdout_truncated":false,"stderr_truncated":false,"outputs":[],"outputs_skipped":[],"network":{"allowed":[],"denied":[{"host":"x.example","port":443,"reason":"not_allowlisted","count":3}],"dns":[]}}"#.to_owned(),
    ];
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    insta::assert_snapshot!(shown(PLAIN, &lines));
}

#[test]
fn a_terminal_shows_local_times_and_says_so_once_for_each_offset() {
    let summer = line("stop", "").replace("2026-01-02", "2026-07-02");
    let winter = line("stop", "");
    let zone = TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").unwrap();
    let look = Look {
        zone: Some(zone),
        colour: false,
    };
    insta::assert_snapshot!(shown(look, &[&winter, &winter, &summer]));
    let utc = Look {
        zone: Some(TimeZone::UTC),
        colour: true,
    };
    let text = shown(utc, &[&winter]);
    assert!(text.contains("TIME (UTC) "), "{text}");
    assert!(text.contains('\u{1b}'), "{text}");
}

#[test]
fn nothing_that_others_chose_reaches_the_terminal_as_it_came() {
    let hostile = r"\u001b]0;owned\u0007\u009b31m\u202e\n\r";
    let every_field = format!(
        r#","via":"{hostile}","method":"{hostile}","host":"{hostile}","port":443,"path":"{hostile}","target":"{hostile}","decision":"{hostile}","reason":"{hostile}","rule":"{hostile}","outcome":"{hostile}","sni":"{hostile}","name":"{hostile}","type":"{hostile}","answer":"{hostile}","samples":["{hostile}"],"allow":["{hostile}"],"version":"{hostile}","listeners":["{hostile}"],"changes":["{hostile}"],"since":"{hostile}","count":2"#
    );
    let events = [
        "decision",
        "close",
        "dns",
        "gap",
        "start",
        "reload",
        "run_start",
        "run_end",
        hostile,
    ];
    for event in events {
        let line = line(event, &every_field)
            .replace("01JD5SWQ000000000000000001", hostile)
            .replace("\"default\"", &format!("\"{hostile}\""));
        let text = shown(PLAIN, &[&line]);
        assert!(
            text.ends_with('\n') && text.lines().count() == 1,
            "{text:?}"
        );
        let body = text.trim_end_matches('\n');
        assert!(
            !body.contains(|c: char| c.is_control() || c == '\u{202e}'),
            "{text:?}"
        );
    }
}

#[test]
fn endless_text_is_cut() {
    let long = "x".repeat(5000);
    let text = shown(
        PLAIN,
        &[&line("dns", &format!(r#","name":"{long}","type":"A""#))],
    );
    assert!(text.len() < 400 && text.contains("…(5000 bytes)"), "{text}");
}
