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

/// `config/eclusa.toml` tells operators what a reload cannot change.
#[test]
fn the_shipped_file_says_which_limits_need_a_restart() {
    let defaults = valid("[profiles.default]");
    let changed = valid(
        "[limits]\nconnections = 1\nconnections_per_client = 1\nrequests_per_second = 1\n\
         dns_queries_per_second = 1\nwildcard_names_per_minute = 1\n\
         denials_recorded_per_minute = 1\nheader_timeout = \"1s\"\nconnect_timeout = \"1s\"\n\
         idle_timeout = \"1s\"\nlifetime = \"1s\"\ndrain_timeout = \"1s\"\n\
         max_header_bytes = \"1 KiB\"\nmax_upload_bytes = \"1 B\"\n",
    );
    let shipped = include_str!("../../../config/eclusa.toml");
    let (_, limits) = shipped.split_once("\n[limits]\n").unwrap();
    let (limits, _) = limits.split_once("\n# ---").unwrap();
    let mut said = Vec::new();
    let mut comment = String::new();
    for line in limits.lines() {
        if line.starts_with('#') {
            comment.push_str(line);
        } else if let Some((key, _)) = line.split_once(" = ") {
            if comment.contains("needs a restart") {
                said.push(format!("limits.{key}"));
            }
            comment.clear();
        }
    }
    assert_eq!(said, defaults.restart_needed(&changed));
}
