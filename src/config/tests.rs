//! What is said of a whole file, and the files that are shipped.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use proptest::prelude::{ProptestConfig, any, proptest};

use super::Config;

/// The configuration, which must be a valid one.
pub(super) fn valid(text: &str) -> Config {
    Config::parse(text).unwrap_or_else(|problems| panic!("{problems}\nin\n{text}"))
}

fn problems(text: &str) -> Vec<String> {
    let problems = Config::parse(text).expect_err(text);
    problems.0.iter().map(ToString::to_string).collect()
}

/// The only problem of `text`.
pub(super) fn problem(text: &str) -> String {
    let mut found = problems(text);
    assert_eq!(found.len(), 1, "{found:#?}\nin\n{text}");
    found.remove(0)
}

#[test]
fn several_problems_are_reported_together_in_the_order_of_lines() {
    let text = r#"[listen]
proxi = ["0.0.0.0:3128"]
dns = [":53"]

[profiles.default]
alow = ["api.example.com"]
deny = "evil.example.net"

[[clients]]
source = "10.199.0.1/24"
profile = "defualt"

[[tests]]
destination = "evil.example.net"
expect = "denied"

[limits]
connections = 0
idle_timeout = 300
lifetime = "1 hour"
"#;
    assert_eq!(
        problems(text),
        [
            "line 2: listen.proxi: unknown key; did you mean `proxy`?",
            "line 3: listen.dns[0]: \":53\" has no address; write \"127.0.0.1:53\" for this host \
             alone or \"0.0.0.0:53\" for every sandbox-side interface",
            "line 6: profiles.default.alow: unknown key; did you mean `allow`?",
            "line 7: profiles.default.deny: expected a list; write [\"evil.example.net\"]",
            "line 10: clients[0].source: \"10.199.0.1/24\" has bits set behind its prefix; write \
             \"10.199.0.0/24\"",
            "line 11: clients[0].profile: there is no profile \"defualt\"; did you mean `default`?",
            "line 13: tests[0].profile: missing; write profile = \"NAME\"",
            "line 15: tests[0].expect: \"denied\" is not known here; did you mean `deny`?",
            "line 18: limits.connections: 0 is out of range: write 1 to 1000000",
            "line 19: limits.idle_timeout: expected a duration in quotes such as \"30s\", found \
             the number 300",
            "line 20: limits.lifetime: \"1 hour\" is not a duration; write for example \"30s\", \
             \"5m\" or \"1h\" (ms, s, m, h, d)",
        ]
    );
}

const NOT_TOML: &[(&str, &str)] = &[
    (
        "",
        "the configuration is empty; it must at least say [listen] and [profiles]",
    ),
    (
        "# nothing\n\n",
        "the configuration is empty; it must at least say [listen] and [profiles]",
    ),
    (
        "\u{feff}[listen]\n",
        "line 1: the file begins with a byte order mark; save it as UTF-8 without one",
    ),
    (
        "[limits]\nconnections = 0443\n",
        "line 2: not TOML: unexpected leading zero",
    ),
    (
        "[limits]\nconnections = no\n",
        "line 2: not TOML: \"no\" is no value; text stands in quotes, and only true and false are words",
    ),
    (
        "[limits]\nconnections = null\n",
        "line 2: not TOML: \"null\" is no value; text stands in quotes, and only true and false are words",
    ),
    (
        "[limits]\nconnections = True\n",
        "line 2: not TOML: \"True\" is no value; text stands in quotes, and only true and false are words",
    ),
    (
        "[limits]\nconnections = 1m\n",
        "line 2: not TOML: \"1m\" is no value; text stands in quotes, and only true and false are words",
    ),
    (
        "[limits]\nconnections = 10.0.0.1\n",
        "line 2: not TOML: \"10.0.0.1\" is no value; text stands in quotes, and only true and false are words",
    ),
    (
        "[limits]\nconnections = allowed.example\n",
        "line 2: not TOML: \"allowed.example\" is no value; text stands in quotes, and only true and false are words",
    ),
    (
        "[limits]\nconnections =\n",
        "line 2: not TOML: the value is missing",
    ),
    (
        "[listen]\nproxy: [\"0.0.0.0:3128\"]\n",
        "line 2: not TOML: key with no value, expected `=`",
    ),
    (
        "[listen]\nproxy = [\"0.0.0.0:3128\"\n[dns]\n",
        "line 3: not TOML: missing comma between array elements, expected `,`",
    ),
    (
        "[limits\n",
        "line 1: not TOML: unclosed table, expected `]`",
    ),
    (
        "[profiles.a]\nmode = \"a\u{0}\"\n",
        "line 2: not TOML: invalid basic string, expected non-double-quote visible characters, `\\`",
    ),
    (
        "[limits]\nconnections = 1\nconnections = 2\n",
        "line 3: connections: this key stands here twice; keep one of them",
    ),
    (
        "[limits]\nconnections = 1\n[limits]\n",
        "line 3: limits: this key stands here twice; keep one of them",
    ),
];

#[test]
fn a_file_that_is_not_toml_is_refused_with_its_line() {
    for &(text, expected) in NOT_TOML {
        assert_eq!(problem(text), expected, "{text:?}");
    }
}

#[test]
fn a_duplicate_key_does_not_hide_other_problems() {
    assert_eq!(
        problems("[limits]\nlifetme = 1\nconnections = 1\nconnections = 2\n"),
        [
            "line 2: limits.lifetme: unknown key; did you mean `lifetime`?",
            "line 4: connections: this key stands here twice; keep one of them",
        ]
    );
}

const OTHER_TYPES: &[(&str, &str)] = &[
    (
        "listen = 1",
        "line 1: listen: expected a table, found the number 1",
    ),
    (
        "[listen]\nproxy = \"0.0.0.0:3128\"",
        "line 2: listen.proxy: expected a list; write [\"0.0.0.0:3128\"]",
    ),
    (
        "[listen]\nproxy = [3128]",
        "line 2: listen.proxy[0]: expected an address in quotes such as \"127.0.0.1:3128\", \
             found the number 3128",
    ),
    (
        "[listen]\nproxy = 3128",
        "line 2: listen.proxy: expected a list, each element an address in quotes such as \
             \"127.0.0.1:3128\", found the number 3128",
    ),
    (
        "[listen]\ndangerously_listen_on_uplink = \"yes\"",
        "line 2: listen.dangerously_listen_on_uplink: expected true or false without quotes, \
             found the text \"yes\"",
    ),
    (
        "[limits]\nconnections = \"443\"",
        "line 2: limits.connections: expected a whole number without quotes, found the text \
             \"443\"",
    ),
    (
        "[limits]\nconnections = 1e3",
        "line 2: limits.connections: expected a whole number without quotes, found the number \
             1e3",
    ),
    (
        "[limits]\nlifetime = 2026-01-01",
        "line 2: limits.lifetime: expected a duration in quotes such as \"30s\", found the \
             date 2026-01-01",
    ),
    (
        "[clients]\nsource = \"10.0.0.0/8\"",
        "line 1: clients: expected a list of tables, each headed [[clients]], found a table",
    ),
    (
        "[profiles]\ndefault = []",
        "line 2: profiles.default: expected a table, found a list",
    ),
    (
        "[profiles.default]\nallow = [[\"a.example\"]]",
        "line 2: profiles.default.allow[0]: expected a pattern in quotes such as \
             \"api.example.com\", found a list",
    ),
    (
        "[profiles.default]\nallow = [\n  \"a.example\",\n  true,\n]",
        "line 4: profiles.default.allow[1]: expected a pattern in quotes such as \
             \"api.example.com\", found true",
    ),
];

#[test]
fn a_value_of_another_type_is_refused() {
    for &(text, expected) in OTHER_TYPES {
        assert_eq!(problem(text), expected, "{text}");
    }
}

#[test]
fn the_environment_is_not_expanded() {
    for (text, key) in [
        ("[listen]\nadmin = \"${DIR}/admin.sock\"", "listen.admin"),
        ("[listen]\nproxy = [\"${IP}:3128\"]", "listen.proxy[0]"),
        ("[profiles.a]\nallow = [\"${HOST}\"]", "profiles.a.allow[0]"),
        ("[profiles.a]\nmode = \"${MODE}\"", "profiles.a.mode"),
        ("[audit]\nmax_size = \"${SIZE}\"", "audit.max_size"),
    ] {
        let found = problem(text);
        assert!(found.starts_with(&format!("line 2: {key}: ")), "{found}");
        assert!(
            found.ends_with(
                "holds `${`, and the environment is not expanded here; write the value itself"
            ),
            "{found}"
        );
    }
}

/// The lines of `text` with every commented-out setting put into effect: a `#` with neither a
/// space nor another `#` behind it.
fn with_examples(text: &str) -> String {
    let lines = text.lines().map(|line| {
        let (indent, rest) = line.split_at(line.len() - line.trim_start().len());
        match rest.strip_prefix('#') {
            Some(setting) if !setting.is_empty() && !setting.starts_with([' ', '#']) => {
                format!("{indent}{setting}\n")
            }
            _ => format!("{line}\n"),
        }
    });
    lines.collect()
}

fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

#[test]
fn every_shipped_file_parses() {
    let mut seen = 0;
    for folder in ["config", "demo"] {
        for entry in fs::read_dir(repository(folder)).unwrap() {
            let path = entry.unwrap().path();
            if path
                .extension()
                .is_some_and(|extension| extension == "toml")
            {
                valid(&fs::read_to_string(&path).unwrap());
                seen += 1;
            }
        }
    }
    assert!(seen > 0);
    let explained = fs::read_to_string(repository("config/eclusa.toml")).unwrap();
    valid(&with_examples(&explained));
}

#[test]
fn every_toml_block_of_the_documentation_parses() {
    let mut files = vec![repository("README.md")];
    if let Ok(entries) = fs::read_dir(repository("docs")) {
        files.extend(entries.map(|entry| entry.unwrap().path()));
    }
    for file in files
        .iter()
        .filter(|file| file.extension().is_some_and(|ext| ext == "md"))
    {
        let Ok(text) = fs::read_to_string(file) else {
            continue;
        };
        for block in text.split("```toml\n").skip(1) {
            let block = block.split("```").next().unwrap();
            if let Err(problems) = Config::parse(block) {
                panic!("{}: {problems}\nin\n{block}", file.display());
            }
        }
    }
}

#[test]
fn the_shipped_file_starts_with_nothing_allowed_and_every_default() {
    let shipped = valid(&fs::read_to_string(repository("config/eclusa.toml")).unwrap());
    let defaults = valid("[profiles.default]");
    let profile = shipped.policies.configured("default").unwrap();
    assert!(profile.allow.is_empty() && profile.deny.is_empty());
    assert_eq!(shipped.warnings, Vec::<String>::new());
    let changes: Vec<_> = defaults
        .changes(&shipped)
        .into_iter()
        .filter(|line| !line.starts_with("listen."))
        .collect();
    assert_eq!(changes, Vec::<String>::new());
    assert_eq!(shipped.launcher, defaults.launcher);
}

/// The keys of the table that `header` opens: the reader itself names them when none is near.
fn known_keys(header: &str) -> BTreeSet<String> {
    let found = problem(&format!("{header}\nqqqqqqqq = 1\n"));
    let (_, known) = found.split_once("unknown key; known: ").expect(&found);
    let keys = known.split(", ");
    keys.map(|key| key.trim_matches('`').to_owned()).collect()
}

#[test]
fn the_shipped_file_names_every_key() {
    let text = with_examples(&fs::read_to_string(repository("config/eclusa.toml")).unwrap());
    let shipped: toml::Table = text.parse().unwrap();
    let sections = [
        ("listen", "[listen]"),
        ("dns", "[dns]"),
        ("resolver", "[resolver]"),
        ("addresses", "[addresses]"),
        ("profiles.default", "[profiles.default]"),
        (
            "profiles.default.rules",
            "[[profiles.default.rules]]\nhosts = [\"a.example\"]",
        ),
        (
            "clients",
            "[profiles.a]\n[[clients]]\nsource = \"10.0.0.0/8\"\nprofile = \"a\"",
        ),
        (
            "tests",
            "[profiles.a]\n[[tests]]\ndestination = \"a.example\"\nprofile = \"a\"\nexpect = \"deny\"",
        ),
        ("audit", "[audit]"),
        ("limits", "[limits]"),
        ("launcher", "[launcher]"),
    ];
    let listed: BTreeSet<_> = sections
        .iter()
        .map(|(path, _)| path.split('.').next().unwrap().to_owned())
        .collect();
    assert_eq!(known_keys(""), listed, "a section is missing in this test");
    for (path, header) in sections {
        let mut table = &toml::Value::Table(shipped.clone());
        for step in path.split('.') {
            table = &table[step];
            table = table.get(0).unwrap_or(table);
        }
        let written: BTreeSet<_> = table.as_table().unwrap().keys().cloned().collect();
        assert_eq!(written, known_keys(header), "{path}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn no_text_makes_the_reader_panic(text in "[a-z\\[\\]\\.\"=\\-#:/\\$\\{\\}0-9 \n\\PC]{0,200}") {
        drop(Config::parse(&text));
    }

    #[test]
    fn no_value_makes_the_reader_panic(text in any::<String>()) {
        let quoted = toml::Value::String(text).to_string();
        for key in ["listen.proxy", "resolver.servers", "addresses.nat64", "profiles.a.allow"] {
            drop(Config::parse(&format!("{key} = [{quoted}]")));
        }
        for key in ["audit.max_size", "limits.lifetime", "dns.answer", "listen.metrics"] {
            drop(Config::parse(&format!("{key} = {quoted}")));
        }
    }
}
