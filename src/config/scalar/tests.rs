//! Which texts are values, and how a message names a range.

use std::time::Duration;

use crate::config::{
    scalar,
    tests::{problem, valid},
};

#[test]
fn durations_have_a_unit_and_read_one_way() {
    let any = Duration::ZERO..=Duration::MAX;
    for (text, millis) in [
        ("500ms", 500),
        ("30s", 30_000),
        ("5m", 300_000),
        ("1h", 3_600_000),
        ("1h30m", 5_400_000),
        ("1m500ms", 60_500),
        ("2d", 172_800_000),
    ] {
        let duration = Duration::from_millis(millis);
        assert_eq!(scalar::duration(text, &any), Ok(duration), "{text}");
    }
    for text in [
        "",
        "30",
        "s",
        "-5s",
        "+5s",
        "1.5h",
        "30 s",
        " 30s",
        "30s ",
        "30S",
        "1m1h",
        "1m1m",
        "5min",
        "1 hour",
        "PT5S",
        "0x10s",
        "99999999999999999999s",
        "18446744073709551615d",
        "inf",
        "٣s",
    ] {
        assert!(scalar::duration(text, &any).is_err(), "{text:?}");
    }
    for (text, shown) in [
        ("90m", "90m"),
        ("1d", "1d"),
        ("1s500ms", "1500ms"),
        ("0s", "0ms"),
    ] {
        let duration = scalar::duration(text, &any).unwrap();
        assert_eq!(scalar::show_duration(duration), shown, "{text}");
        assert_eq!(scalar::duration(shown, &any), Ok(duration), "{shown}");
    }
}

#[test]
fn sizes_have_a_unit_and_read_one_way() {
    let any = 0..=u64::MAX;
    for (text, bytes) in [
        ("0", 0),
        ("512 B", 512),
        ("64 KiB", 65_536),
        ("64KiB", 65_536),
        ("100 MiB", 104_857_600),
        ("50MB", 50_000_000),
        ("1 kB", 1_000),
        ("2 GiB", 2_147_483_648),
    ] {
        assert_eq!(scalar::size(text, &any), Ok(bytes), "{text}");
    }
    for text in [
        "",
        "1024",
        "00",
        "MiB",
        "-1 MiB",
        "1.5 MiB",
        "1 K",
        "1m",
        "1 KB",
        "1 mib",
        "1  MiB",
        " 1 MiB",
        "0x10 B",
        "1 MiB ",
        "18446744073709551615 GiB",
        "unlimited",
    ] {
        assert!(scalar::size(text, &any).is_err(), "{text:?}");
    }
    for bytes in [0, 1, 1000, 1024, 65_536, 100_000_000, 104_857_600] {
        let shown = scalar::show_size(bytes);
        assert_eq!(scalar::size(&shown, &any), Ok(bytes), "{shown}");
    }
}

#[test]
fn ranges_have_no_bits_behind_their_prefix() {
    let config = valid(
        "[addresses]\nblocked = [\"203.0.113.0/24\", \"198.51.100.7\", \"2001:db8::/32\"]\n\
         own = [\"192.0.2.1\", \"::ffff:192.0.2.2\"]\nnat64 = [\"64:ff9b::/96\", \"2001:db8::/32\"]",
    );
    let blocked: Vec<_> = config
        .addresses
        .blocked
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(
        blocked,
        ["203.0.113.0/24", "198.51.100.7/32", "2001:db8::/32"]
    );
    let own: Vec<_> = config
        .addresses
        .own
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(own, ["192.0.2.1", "192.0.2.2"]);
    for (key, text, hint) in [
        ("blocked", "203.0.113.1/24", "write \"203.0.113.0/24\""),
        ("blocked", "203.0.113.0/33", "is not an IP range"),
        ("blocked", "203.0.113.0/024", "is not an IP range"),
        ("blocked", "203.0.113/24", "is not an IP range"),
        ("blocked", "203.0.113.0-203.0.113.9", "is not an IP range"),
        ("blocked", "0xcb007100/24", "is not an IP range"),
        ("blocked", "example.com", "is not an IP range"),
        (
            "blocked",
            "::ffff:10.0.0.0/104",
            "write \"10.0.0.0/8\", which covers both",
        ),
        ("blocked", "", "is not an IP range"),
        ("own", "192.0.2.0/24", "is a range; write one address"),
        ("own", "eth0", "is not an IP address"),
        ("nat64", "192.0.2.0/24", "is not IPv6"),
        (
            "nat64",
            "64:ff9b::/95",
            "its length is 32, 40, 48, 56, 64 or 96",
        ),
        (
            "nat64",
            "64:ff9b:0:0:ff00::/96",
            "its bits 64 to 71 are not zero",
        ),
    ] {
        let found = problem(&format!("[addresses]\n{key} = [\"{text}\"]"));
        assert!(
            found.starts_with(&format!("line 2: addresses.{key}[0]: ")),
            "{found}"
        );
        assert!(found.contains(hint), "{text}: {found}");
    }
}
