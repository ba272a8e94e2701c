//! The golden tables of `tests/data/policy`: a configuration as an operator writes it, and what
//! it must decide. To change what a pattern matches is to change a row here.
//!
//! A file is a configuration with a `[table]`:
//!
//! - `cases`: destination, `allow` | `deny` | `would_deny` | `malformed`, reason, rule. A rule
//!   stands without the name of the profile in front, and is empty where no rule decides.
//! - `queries`: the same for a name that our DNS is asked for.
//! - `load_errors`: list, entry, and a part of what the problem says.

use std::{collections::BTreeMap, fs, path::Path};

use eclusa::{
    config::Config,
    destination::{Destination, Name, Scheme},
    policy::{Decision, Policy, Verdict},
};
use serde::Deserialize;

const PROFILE: &str = "default";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    #[serde(default)]
    cases: Vec<[String; 4]>,
    #[serde(default)]
    queries: Vec<[String; 4]>,
    #[serde(default)]
    load_errors: Vec<[String; 3]>,
}

#[test]
fn every_golden_table_holds() {
    let mut rows = BTreeMap::new();
    let mut wrong = Vec::new();
    for file in fs::read_dir("tests/data/policy").unwrap() {
        let path = file.unwrap().path();
        let (config, table) = read(&path);
        let at = path.file_name().unwrap().to_string_lossy().into_owned();
        let found = check(&config, &table);
        wrong.extend(found.into_iter().map(|row| format!("{at}: {row}")));
        rows.insert(
            at,
            table.cases.len() + table.queries.len() + table.load_errors.len(),
        );
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
    assert!(
        rows.len() >= 8 && rows.values().all(|rows| *rows > 0),
        "{rows:?}"
    );
}

/// The configuration without its `[table]`, and the table.
fn read(path: &Path) -> (String, Table) {
    let mut file: toml::Table = fs::read_to_string(path).unwrap().parse().unwrap();
    let table = file.remove("table").unwrap().try_into().unwrap();
    (file.to_string(), table)
}

/// Every row that came out otherwise.
fn check(config: &str, table: &Table) -> Vec<String> {
    let config = Config::parse(config).unwrap();
    let policy = config.policies.profile(PROFILE).unwrap();
    let cases = table
        .cases
        .iter()
        .map(|row| (row, decided(policy, &row[0])));
    let queries = table
        .queries
        .iter()
        .map(|row| (row, answered(policy, &row[0])));
    let decisions = cases.chain(queries).filter_map(|(row, found)| {
        let [asked, expected @ ..] = row;
        (*expected != found).then(|| format!("{asked}: {found:?}, expected {expected:?}"))
    });
    let loads = table.load_errors.iter().filter_map(|[list, entry, part]| {
        let found = load_error(list, entry);
        let told = found.contains(&format!("profiles.{PROFILE}.{list}")) && found.contains(part);
        (!told).then(|| format!("{list} = [{entry:?}]: {found:?}, expected {part:?}"))
    });
    decisions.chain(loads).collect()
}

fn decided(policy: &Policy, destination: &str) -> [String; 3] {
    let (scheme, authority) = match destination.split_once("://") {
        Some(("http", authority)) => (Scheme::Http, authority),
        Some((_, authority)) => (Scheme::Https, authority),
        None => (Scheme::Https, destination),
    };
    match Destination::parse_authority(scheme, authority) {
        Ok(destination) => shown(&policy.evaluate(&destination)),
        Err(_) => malformed(),
    }
}

fn answered(policy: &Policy, name: &str) -> [String; 3] {
    match Name::parse(name) {
        Ok(name) => shown(&policy.evaluate_name(&name)),
        Err(_) => malformed(),
    }
}

fn malformed() -> [String; 3] {
    ["malformed", "bad_request", ""].map(ToOwned::to_owned)
}

fn shown(verdict: &Verdict) -> [String; 3] {
    let decision = match verdict.decision {
        Decision::Allow => "allow",
        Decision::Deny => "deny",
        Decision::WouldDeny => "would_deny",
    };
    let prefix = format!("profiles.{PROFILE}.");
    let rule = verdict.rule.as_deref().map_or("", |rule| {
        rule.strip_prefix(&prefix)
            .unwrap_or("a rule of another profile")
    });
    [decision, verdict.reason.code(), rule].map(ToOwned::to_owned)
}

/// What is said of a configuration whose `list` holds `entry` alone.
fn load_error(list: &str, entry: &str) -> String {
    let entry = toml::Value::from(entry);
    match Config::parse(&format!("[profiles.{PROFILE}]\n{list} = [{entry}]\n")) {
        Ok(_) => "accepted".to_owned(),
        Err(problems) => problems.to_string(),
    }
}
