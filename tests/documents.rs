//! The documents, held to the code: what they name exists, and what exists is named.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test may panic")]

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

#[path = "documents/dependencies.rs"]
mod dependencies;
#[path = "documents/sbom.rs"]
mod sbom;

use eclusa::{
    policy::Reason,
    record::{DnsAnswer, Link, Outcome, Output, RunId, RunRecord, Via},
};

fn read(file: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    fs::read_to_string(root.join(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
}

fn files(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path, extension));
        } else if path.extension().is_some_and(|own| own == extension) {
            found.push(path);
        }
    }
    found
}

/// What stands between backticks.
fn code_spans(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// The rows of the tables below a heading, up to the next heading.
fn rows<'a>(document: &'a str, heading: &str) -> Vec<&'a str> {
    let (_, section) = document.split_once(&format!("\n{heading}\n")).unwrap();
    section
        .lines()
        .take_while(|line| !line.starts_with('#'))
        .filter(|line| line.starts_with("| ") && !line.starts_with("| ---"))
        .skip(1)
        .collect()
}

fn first_cell(row: &str) -> &str {
    row.trim_matches('|').split(" | ").next().unwrap()
}

#[test]
fn every_claim_of_the_threat_model_names_a_test_that_exists() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut tests = BTreeSet::new();
    for file in ["src", "tests"]
        .iter()
        .flat_map(|folder| files(&root.join(folder), "rs"))
    {
        let source = fs::read_to_string(file).unwrap();
        let names = source
            .lines()
            .filter_map(|line| {
                line.trim_start()
                    .trim_start_matches("async ")
                    .strip_prefix("fn ")
            })
            .map(|line| line.split(['(', '<']).next().unwrap().to_owned());
        tests.extend(names);
    }
    let security = read("SECURITY.md");
    let claims = rows(&security, "## Claims, and the test that holds each");
    assert!(claims.len() > 20, "{claims:?}");
    for claim in claims {
        let (_, held_by) = claim
            .trim_end_matches(['|', ' '])
            .rsplit_once(" | ")
            .unwrap();
        let named: Vec<&str> = code_spans(held_by).collect();
        assert!(!named.is_empty(), "{claim}");
        for test in named {
            assert!(tests.contains(test), "there is no test {test}: {claim}");
        }
    }
}

#[test]
fn the_reference_tells_every_reason_and_no_other() {
    let reference = read("docs/log.md");
    let told: BTreeSet<&str> = rows(&reference, "## Reasons")
        .iter()
        .flat_map(|row| code_spans(first_cell(row)))
        .collect();
    assert_eq!(
        told,
        Reason::ALL.iter().map(|reason| reason.code()).collect()
    );
}

/// `section.key` of a configuration, with `NAME` for a profile's name; a key may be commented out.
fn keys(config: &str) -> BTreeSet<String> {
    let mut section = String::new();
    let mut found = BTreeSet::new();
    for line in config
        .lines()
        .map(|line| line.trim_start_matches("# ").trim_start_matches('#'))
    {
        if let Some(header) = line.strip_prefix('[') {
            let header = header.trim_start_matches('[').split(']').next().unwrap();
            section = match header.split('.').collect::<Vec<_>>()[..] {
                ["profiles", _] => "profiles.NAME".to_owned(),
                ["profiles", _, "rules"] => "profiles.NAME.rules".to_owned(),
                _ => header.to_owned(),
            };
        } else if let Some((key, _)) = line.split_once(" = ")
            && key
                .chars()
                .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_' || c == ' ')
            && !key.trim().contains(' ')
        {
            found.insert(match section.as_str() {
                "profiles.NAME.rules" => section.clone(),
                _ => format!("{section}.{}", key.trim()),
            });
        }
    }
    found
}

#[test]
fn the_readme_tells_every_key_of_the_shipped_configuration_and_no_other() {
    let (readme, shipped) = (read("README.md"), read("config/eclusa.toml"));
    let told: BTreeSet<String> = rows(&readme, "## Configuration")
        .iter()
        .flat_map(|row| code_spans(first_cell(row)))
        .map(str::to_owned)
        .collect();
    assert_eq!(told, keys(&shipped));
}

#[test]
fn the_record_in_the_reference_is_one_that_the_log_reads() {
    let reference = read("docs/log.md");
    let (_, section) = reference.split_once("\n## The audit log\n").unwrap();
    let (_, rest) = section.split_once("```json\n").unwrap();
    let lines = rest.split("```").next().unwrap();
    let told: BTreeSet<&str> = rows(&reference, "## The audit log")
        .iter()
        .flat_map(|row| code_spans(first_cell(row)))
        .collect();
    let mut last = Link::FIRST;
    for line in lines.lines() {
        assert_eq!(Link::named_by(line.as_bytes()), Some(last), "{line}");
        last = last.then(line.as_bytes());
        let record: BTreeMap<String, serde_json::Value> = serde_json::from_str(line).unwrap();
        for field in record.keys() {
            assert!(
                told.contains(field.as_str()),
                "{field} is in no row: {line}"
            );
        }
    }
}

#[test]
fn the_reference_tells_every_field_and_code_of_a_real_log() {
    let reference = read("docs/log.md");
    let rows = rows(&reference, "## The audit log");
    let fields: BTreeSet<&str> = rows
        .iter()
        .flat_map(|row| code_spans(first_cell(row)))
        .collect();
    for line in read("tests/data/logs/demo.jsonl").lines() {
        let record: BTreeMap<String, serde_json::Value> = serde_json::from_str(line).unwrap();
        for field in record.keys() {
            assert!(
                fields.contains(field.as_str()),
                "{field} is in no row: {line}"
            );
        }
    }
    let told: BTreeSet<&str> = rows.iter().flat_map(|row| code_spans(row)).collect();
    let outcomes = Outcome::ALL.iter().map(|outcome| outcome.as_str());
    let roads = Via::ALL.iter().map(|via| via.as_str());
    let answers = DnsAnswer::ALL.iter().map(|answer| answer.as_str());
    for code in outcomes.chain(roads).chain(answers) {
        assert!(told.contains(code), "{code} is in no row");
    }
}

#[test]
fn the_reference_tells_every_field_of_a_run() {
    let reference = read("docs/log.md");
    let rows = rows(&reference, "## The launcher's record file");
    let told: BTreeSet<&str> = rows
        .iter()
        .flat_map(|row| code_spans(first_cell(row)))
        .collect();
    let run = RunId::parse("01JD").unwrap();
    let record = RunRecord {
        output: Some(Output::default()),
        proxy: Some(String::new()),
        timings: Some(Vec::new()),
        ..RunRecord::begun(&run, String::new(), String::new(), Vec::new())
    };
    let fields: BTreeMap<String, serde_json::Value> =
        serde_json::from_str(&serde_json::to_string(&record).unwrap()).unwrap();
    for field in fields.keys() {
        assert!(told.contains(field.as_str()), "{field} is in no row");
    }
}

#[test]
fn the_map_is_short_and_names_every_module() {
    let map = read("ARCHITECTURE.md");
    assert!(map.lines().count() <= 150, "{} lines", map.lines().count());
    let named: BTreeSet<&str> = rows(&map, "## Layers")
        .iter()
        .flat_map(|row| code_spans(first_cell(row)))
        .collect();
    let library = read("src/lib.rs");
    let modules = library
        .lines()
        .filter_map(|line| line.strip_prefix("pub mod "));
    assert_eq!(
        named,
        modules.map(|line| line.trim_end_matches(';')).collect()
    );
}

#[test]
fn every_route_of_the_admin_socket_is_described() {
    let routes = read("src/admin/api.rs");
    let described = read("docs/orchestrators.md");
    let literals = routes.split('"').skip(1).step_by(2);
    let paths: Vec<&str> = literals.filter(|text| text.starts_with('/')).collect();
    assert!(
        paths.contains(&"/healthz") && paths.contains(&"/v1/slots/"),
        "{paths:?}"
    );
    for path in paths {
        assert!(
            described.contains(&format!(" {path}")),
            "{path} is not described"
        );
    }
}

#[test]
fn what_the_documents_link_and_the_map_names_exists() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for document in [
        "README.md",
        "SECURITY.md",
        "ARCHITECTURE.md",
        "CHANGELOG.md",
        "docs/README.md",
        "docs/benchmarks.md",
        "docs/dependencies.md",
        "docs/log.md",
        "docs/operators.md",
        "docs/orchestrators.md",
        "docs/platform.md",
    ] {
        let text = read(document);
        let here = Path::new(document).parent().unwrap();
        let links = text
            .split("](")
            .skip(1)
            .map(|rest| rest.split(')').next().unwrap());
        let paths = code_spans(&text).filter(|span| {
            ["src/", "tests/", "demo/", "config/", "scripts/"]
                .iter()
                .any(|top| span.starts_with(top))
        });
        let links = links.filter(|link| !link.starts_with("http"));
        let links = links.map(|link| here.join(link.split('#').next().unwrap()));
        for path in links.chain(paths.map(PathBuf::from)) {
            assert!(root.join(&path).exists(), "{document}: {}", path.display());
        }
    }
    let makefile = read("Makefile");
    let readme = read("README.md");
    for target in code_spans(&readme).filter_map(|span| span.strip_prefix("make ")) {
        assert!(makefile.contains(&format!("\n{target}:")), "make {target}");
    }
}

#[test]
fn one_version_stands_everywhere() {
    let version = env!("CARGO_PKG_VERSION");
    let image = format!("eclusa:{version}");
    for file in ["Makefile", "compose.yaml", "Dockerfile", "README.md"] {
        let text = read(file);
        assert!(text.contains(&image), "{file}");
        let tags = text.split("eclusa:0").skip(1);
        for tag in tags {
            assert!(
                format!("eclusa:0{tag}").starts_with(&image),
                "{file}: another version"
            );
        }
    }
    assert!(read("CHANGELOG.md").contains(version));
}
