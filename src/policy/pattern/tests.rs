use proptest::prelude::*;

use super::*;

fn allow(text: &str) -> Result<String, String> {
    shown(Pattern::parse_allow(text))
}

fn deny(text: &str) -> Result<String, String> {
    shown(Pattern::parse_deny(text))
}

fn shown(parsed: Result<Pattern, PatternError>) -> Result<String, String> {
    parsed
        .map(|pattern| pattern.to_string())
        .map_err(|error| error.to_string())
}

fn destination(scheme: Scheme, text: &str) -> Destination {
    Destination::parse_authority(scheme, text).unwrap()
}

#[test]
fn a_pattern_is_shown_in_its_canonical_form() {
    for (text, canonical) in [
        ("api.example.com", "api.example.com"),
        ("API.Example.COM.", "api.example.com"),
        ("*.CDN.example.com", "*.cdn.example.com"),
        ("*.cdn.example.com.:8443", "*.cdn.example.com:8443"),
        (".example.org", ".example.org"),
        ("db.example.com:8443", "db.example.com:8443"),
        ("http://plain.example.com", "http://plain.example.com"),
        ("HTTP://plain.example.com:80", "http://plain.example.com"),
        (
            "http://plain.example.com:8080",
            "http://plain.example.com:8080",
        ),
        ("https://*.example.com", "https://*.example.com"),
        ("https://.example.com:8443", "https://.example.com:8443"),
        ("https://[2001:db8::1]:8443", "https://[2001:db8::1]:8443"),
        ("192.0.2.1", "192.0.2.1"),
        ("192.0.2.1:22", "192.0.2.1:22"),
        ("[2001:db8::1]", "[2001:db8::1]"),
        ("2001:db8::1", "[2001:db8::1]"),
        ("::1", "[::1]"),
        ("fe80::a:b", "[fe80::a:b]"),
        ("[2001:db8::1]:443", "[2001:db8::1]:443"),
        ("xn--bcher-kva.example", "xn--bcher-kva.example"),
        ("_srv.example.com", "_srv.example.com"),
        ("*.wild.example", "*.wild.example"),
        ("db.corp.internal", "db.corp.internal"),
        ("printer", "printer"),
        ("octocat.github.io", "octocat.github.io"),
        ("*.octocat.github.io", "*.octocat.github.io"),
        ("*.bucket.s3.amazonaws.com", "*.bucket.s3.amazonaws.com"),
        ("co.uk", "co.uk"),
    ] {
        assert_eq!(allow(text), Ok(canonical.to_owned()), "{text}");
        assert_eq!(deny(text), Ok(canonical.to_owned()), "{text}");
        let parsed = Pattern::parse_allow(text);
        assert_eq!(parsed, Pattern::parse_allow(canonical), "{text}");
    }
}

#[test]
fn what_is_not_a_pattern_says_what_to_write_instead() {
    for (text, part) in [
        ("", "empty"),
        (" ", "empty"),
        ("https://", "empty"),
        (" api.example.com", "blanks"),
        ("api.example.com ", "blanks"),
        ("a.example b.example", "blanks"),
        ("api.example.com\n", "blanks"),
        ("api\0.example.com", "blanks"),
        ("*", "catch-all"),
        ("*:443", "catch-all"),
        ("https://*", "catch-all"),
        ("*.*", "catch-all"),
        ("*.", "catch-all"),
        ("**", "catch-all"),
        (".", "catch-all"),
        ("..", "catch-all"),
        ("a.*.example.com", "a star stands only in front"),
        ("api*.example.com", "a star stands only in front"),
        ("*api.example.com", "a star stands only in front"),
        ("**.example.com", "a star stands only in front"),
        ("*.*.example.com", "a star stands only in front"),
        ("api.example.com:*", "a star stands only in front"),
        ("*..example.com", "empty label"),
        ("..example.com", "empty label"),
        ("example.com..", "empty label"),
        ("bücher.example", "xn--"),
        ("*.bücher.example", "xn--"),
        ("-a.example.com", "hyphen"),
        ("api.example.com:0", "not a number from 1 to 65535"),
        ("api.example.com:", "not a number from 1 to 65535"),
        ("api.example.com:0443", "not a number from 1 to 65535"),
        ("api.example.com:65536", "not a number from 1 to 65535"),
        ("api.example.com:443:80", "not a number from 1 to 65535"),
        (
            "http://api.example.com:http",
            "not a number from 1 to 65535",
        ),
        ("user@api.example.com", "user information"),
        ("ftp://api.example.com", "ftp:// is not a scheme"),
        ("wss://api.example.com", "wss:// is not a scheme"),
        ("https://api.example.com/", "write api.example.com"),
        ("api.example.com/v1/*", "write api.example.com"),
        ("api.example.com?x", "write api.example.com"),
        ("10.0.0.0/8", "range of addresses"),
        ("2001:db8::/32", "range of addresses"),
        ("[2001:DB8::1]", "write [2001:db8::1]"),
        ("2001:db8:0::1", "write [2001:db8::1]"),
        ("::ffff:192.0.2.1", "write 192.0.2.1"),
        ("[::ffff:192.0.2.1]:443", "write 192.0.2.1"),
        (
            "2001:db8::1:443",
            "write [2001:db8::1:443] or [2001:db8::1]:443",
        ),
        ("[api.example.com]", "brackets hold only an IPv6 address"),
        ("[fe80::1%25eth0]", "brackets hold only an IPv6 address"),
        ("127.1", "looks like an address"),
        ("0x7f.1", "looks like an address"),
        ("*.0.0.1", "looks like an address"),
        (".192.0.2.1", "looks like an address"),
    ] {
        for parsed in [allow(text), deny(text)] {
            let message = parsed.expect_err(text);
            assert!(message.contains(part), "{text:?}: {message}");
        }
    }
}

#[test]
fn an_allow_over_a_public_suffix_or_a_special_zone_is_refused_and_named() {
    for (text, part) in [
        ("com", "com is a public suffix"),
        ("uk", "uk is a public suffix"),
        ("*.com", "com is a public suffix"),
        (".com", "com is a public suffix"),
        ("*.COM.:8443", "com is a public suffix"),
        ("https://*.co.uk", "co.uk is a public suffix"),
        ("*.github.io", "github.io is a public suffix"),
        (".github.io", "github.io is a public suffix"),
        ("*.s3.amazonaws.com", "s3.amazonaws.com is a public suffix"),
        ("*.workers.dev", "workers.dev is a public suffix"),
        ("*.ngrok.app", "ngrok.app is a public suffix"),
        ("*.foo.ck", "foo.ck is a public suffix"),
        ("*.sch.uk", "sch.uk is a public suffix"),
        (".kawasaki.jp", "kawasaki.jp is a public suffix"),
        (
            "*.elb.amazonaws.com",
            "elb.amazonaws.com is a public suffix",
        ),
        ("*.example", "example is a public suffix"),
        (".test", "test is a public suffix"),
        ("localhost", "localhost leads to the machine itself"),
        ("a.localhost", "a.localhost leads to the machine itself"),
        ("localhost:8080", "localhost leads to the machine itself"),
        ("metadata.google.internal", "metadata.google.internal leads"),
        ("169.254.169.254", "169.254.169.254 leads"),
        ("[fd00:ec2::254]:80", "[fd00:ec2::254] leads"),
        ("*.metadata.goog", "metadata.goog leads"),
        (".metadata.azure.com", "metadata.azure.com leads"),
        ("*.internal", "names in internal belong to the local site"),
        ("*.local", "names in local belong to the local site"),
        (
            ".corp.internal",
            "names in internal belong to the local site",
        ),
        ("*.home.arpa", "names in home.arpa belong to the local site"),
        ("*.onion", "names in onion belong to the local site"),
    ] {
        let message = allow(text).expect_err(text);
        assert!(message.contains(part), "{text:?}: {message}");
        assert!(deny(text).is_ok(), "{text:?}");
    }
}

#[test]
fn a_host_pattern_matches_label_by_label() {
    for (pattern, host, expected) in [
        ("allowed.example", "allowed.example", true),
        ("allowed.example", "notallowed.example", false),
        ("allowed.example", "allowed.example.evil.example", false),
        ("allowed.example", "data.allowed.example", false),
        ("a.b.example", "axb.example", false),
        ("*.wild.example", "wild.example", false),
        ("*.wild.example", "a.wild.example", true),
        ("*.wild.example", "a.b.c.wild.example", true),
        ("*.wild.example", "xwild.example", false),
        (".wild.example", "wild.example", true),
        (".wild.example", "a.wild.example", true),
        (".wild.example", "xwild.example", false),
        ("192.0.2.1", "192.0.2.1", true),
        ("192.0.2.1", "[::ffff:192.0.2.1]", true),
        ("192.0.2.1", "192.0.2.11", false),
        ("[2001:db8::1]", "[2001:db8::1]", true),
    ] {
        let pattern = Pattern::parse_allow(pattern).unwrap();
        let host = Host::parse(host).unwrap();
        assert_eq!(pattern.hosts.matches(&host), expected, "{pattern} {host}");
    }
}

#[test]
fn ports_and_schemes_are_as_written() {
    use Scheme::{Http, Https};
    for (pattern, scheme, port, in_allow, in_deny) in [
        ("a.example", Https, 443, true, true),
        ("a.example", Http, 443, true, true),
        ("a.example", Http, 80, true, true),
        ("a.example", Https, 80, true, true),
        ("a.example", Https, 22, false, true),
        ("a.example:8443", Https, 8443, true, true),
        ("a.example:8443", Http, 8443, true, true),
        ("a.example:8443", Https, 443, false, false),
        ("http://a.example", Http, 80, true, true),
        ("http://a.example", Https, 80, false, false),
        ("http://a.example", Http, 8080, false, false),
        ("http://a.example:8080", Http, 8080, true, true),
        ("http://a.example:8080", Http, 80, false, false),
        ("https://a.example", Https, 443, true, true),
        ("https://a.example", Http, 443, false, false),
        ("https://a.example", Https, 80, false, false),
    ] {
        let to = destination(scheme, &format!("a.example:{port}"));
        let found = Pattern::parse_allow(pattern).unwrap().matches(&to);
        assert_eq!(found, in_allow, "allow {pattern} {scheme:?} {port}");
        let found = Pattern::parse_deny(pattern).unwrap().matches(&to);
        assert_eq!(found, in_deny, "deny {pattern} {scheme:?} {port}");
    }
}

fn written() -> impl Strategy<Value = String> {
    let scheme = prop::sample::select(vec!["", "http://", "https://"]);
    let front = prop::sample::select(vec!["", "*.", "."]);
    let name = "[a-z0-9_]{1,5}(\\.[a-z0-9_]{1,5}){1,3}\\.[a-z]{2,5}";
    let port = prop::option::of(1..=65535_u16);
    (scheme, front, name, port).prop_map(|(scheme, front, name, port)| {
        let port = port.map_or(String::new(), |port| format!(":{port}"));
        format!("{scheme}{front}{name}{port}")
    })
}

proptest! {
    #[test]
    fn a_shown_pattern_parses_to_itself(text in written()) {
        let pattern = Pattern::parse_deny(&text).unwrap();
        prop_assert_eq!(Pattern::parse_deny(&pattern.to_string()), Ok(pattern));
        if let Ok(pattern) = Pattern::parse_allow(&text) {
            prop_assert_eq!(Pattern::parse_allow(&pattern.to_string()), Ok(pattern));
        }
    }

    #[test]
    fn no_text_panics_and_what_parses_shows_as_itself(text in "\\PC{0,40}|[*.:/a-z0-9\\[\\]]{0,20}") {
        for parse in [Pattern::parse_allow, Pattern::parse_deny] {
            if let Ok(pattern) = parse(&text) {
                prop_assert_eq!(parse(&pattern.to_string()), Ok(pattern));
            }
        }
    }
}
