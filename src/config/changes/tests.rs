//! What a reload says.

use crate::config::tests::valid;

const OLD: &str = r#"[listen]
proxy = ["127.0.0.1:3128"]
[profiles.a]
allow = ["a.example", "b.example"]
deny = ["x.example"]
[profiles.gone]
[[clients]]
source = "10.1.0.0/16"
profile = "a"
[[clients]]
source = "10.2.0.0/16"
profile = "a"
[limits]
connections = 10
idle_timeout = "5m"
"#;

const NEW: &str = r#"[listen]
proxy = ["127.0.0.1:3129"]
[profiles.a]
mode = "report"
allow = ["b.example"]
[[profiles.a.rules]]
hosts = ["c.example"]
addresses = ["10.9.0.0/16"]
opaque = true
[profiles.new]
allow = ["n.example"]
[[clients]]
source = "10.1.0.0/16"
profile = "new"
[[clients]]
source = "10.3.0.0/16"
profile = "a"
[limits]
connections = 20
idle_timeout = "6m"
"#;

#[test]
fn a_reload_says_what_changes_and_what_needs_a_restart() {
    let (old, new) = (valid(OLD), valid(NEW));
    assert_eq!(
        old.restart_needed(&new),
        ["listen.proxy", "limits.connections"]
    );
    assert_eq!(
        old.changes(&new),
        [
            "listen.proxy: [127.0.0.1:3129], was [127.0.0.1:3128]",
            "limits.connections: 20, was 10",
            "limits.idle_timeout: 6m, was 5m",
            "profiles.a.mode: report, was enforce",
            "profiles.a: allows c.example at [10.9.0.0/16], opaque",
            "profiles.a: no longer allows a.example",
            "profiles.a: no longer denies x.example",
            "profiles.gone: removed",
            "profiles.new: added",
            "profiles.new: allows n.example",
            "clients: 10.1.0.0/16 is under \"new\", was \"a\"",
            "clients: 10.3.0.0/16 added, under \"a\"",
            "clients: 10.2.0.0/16 removed, was under \"a\"",
        ]
    );
    assert_eq!(old.changes(&old), Vec::<String>::new());
    assert_eq!(old.restart_needed(&old), Vec::<&str>::new());
}

#[test]
fn a_long_difference_is_counted() {
    let patterns: Vec<_> = (0..25).map(|n| format!("\"h{n}.example\"")).collect();
    let new = valid(&format!("[profiles.a]\nallow = [{}]", patterns.join(",")));
    let changes = valid("[profiles.a]").changes(&new);
    assert_eq!(changes.len(), 21);
    assert_eq!(changes[20], "profiles.a: allows 5 more");
}
