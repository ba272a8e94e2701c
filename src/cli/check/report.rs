//! What `check` prints: tables for a person, JSON for a program.

use std::{
    io::{self, Write},
    path::Path,
};

use comfy_table::Cell;
use serde::Serialize;

use super::judge::{Judgement, TestResult};
use crate::{
    cli::{
        config_file::ConfigFileError,
        json::json,
        table::{plain_table, print_table, verdict},
    },
    config::{Config, Problem},
    review::counted,
};

/// Prints decisions as a table, one line each, and below it the rules considered.
pub(super) fn judgements(
    judgements: &[Judgement],
    colour: bool,
    out: &mut dyn Write,
) -> io::Result<()> {
    let mut table = plain_table(colour);
    table.set_header(["DESTINATION", "PROFILE", "DECISION", "REASON", "RULE"]);
    for judgement in judgements {
        table.add_row([
            Cell::new(&judgement.destination),
            Cell::new(&judgement.profile),
            verdict(judgement.decision),
            Cell::new(judgement.reason),
            Cell::new(judgement.rule.as_deref().unwrap_or("-")),
        ]);
    }
    print_table(&table, out)?;
    for judgement in judgements {
        if let Some(detail) = &judgement.detail {
            writeln!(out, "{}: {detail}", judgement.destination)?;
        }
        considered(judgement, colour, out)?;
    }
    Ok(())
}

fn considered(judgement: &Judgement, colour: bool, out: &mut dyn Write) -> io::Result<()> {
    let Some(rows) = &judgement.considered else {
        return Ok(());
    };
    writeln!(out, "\nRules considered for {}:", judgement.destination)?;
    if rows.is_empty() {
        return writeln!(out, "none; what no rule names is refused");
    }
    let mut table = plain_table(colour);
    table.set_header(["RULE", "PATTERN", "MATCHED", "WHY"]);
    for row in rows {
        let matched = if row.matched { "yes" } else { "no" };
        table.add_row([&row.rule, &*row.pattern, matched, &row.why]);
    }
    print_table(&table, out)
}

/// Prints decisions as an array of objects.
pub(super) fn judgements_json(judgements: &[Judgement], out: &mut dyn Write) -> io::Result<()> {
    json(&judgements, out)
}

/// Prints what a valid configuration holds and how its expectations came out.
pub(super) fn summary(
    path: &Path,
    config: &Config,
    tests: &[TestResult],
    out: &mut dyn Write,
) -> io::Result<()> {
    for warning in &config.warnings {
        writeln!(out, "warning: {warning}")?;
    }
    for note in notes(config) {
        writeln!(out, "note: {note}")?;
    }
    let failed = tests.iter().filter(|test| !test.passed);
    for test in failed.clone() {
        writeln!(out, "{}", failure(test))?;
    }
    let counts = Counts::of(config);
    let failed = failed.count();
    let verdict = if failed == 0 { "OK" } else { "not as expected" };
    writeln!(
        out,
        "{}: {verdict}: {}, {}, {}, {} of {} passed, {}",
        path.display(),
        counted(counts.profiles, "profile"),
        counted(counts.patterns, "pattern"),
        counted(counts.clients, "client range"),
        tests.len() - failed,
        counted(tests.len(), "test"),
        counted(config.warnings.len(), "warning"),
    )
}

/// What is valid, and yet serves nobody.
fn notes(config: &Config) -> Vec<&'static str> {
    let listen = &config.listen;
    let lists = [&listen.proxy, &listen.dns, &listen.https, &listen.http];
    let mut notes = Vec::new();
    if lists.iter().all(|list| list.is_empty()) {
        notes.push("[listen] names no proxy, dns, https or http listener, so serve will not start");
    }
    if config.policies.clients().is_empty() {
        notes.push("there is no [[clients]], so only runs that a launcher registers are served");
    }
    notes
}

/// `line 12: tests[0]: https://evil.example.net/ under "default": expected deny, got allow ...`
fn failure(test: &TestResult) -> String {
    let got = &test.got;
    let expected = match test.expected_reason {
        Some(reason) => format!("{} ({reason})", test.expected.as_str()),
        None => test.expected.as_str().to_owned(),
    };
    let rule = match &got.rule {
        Some(rule) => format!("by {rule}"),
        None => "as no rule allows it".to_owned(),
    };
    format!(
        "line {}: {}: {} under {:?}: expected {expected}, got {} ({}) {rule}",
        test.line,
        test.test,
        got.destination,
        got.profile,
        got.decision.as_str(),
        got.reason,
    )
}

/// Prints the same as an object.
pub(super) fn summary_json(
    path: &Path,
    config: &Config,
    tests: &[TestResult],
    out: &mut dyn Write,
) -> io::Result<()> {
    let report = Report {
        config: path,
        valid: true,
        problems: &[],
        warnings: &config.warnings,
        notes: notes(config),
        counts: Some(Counts::of(config)),
        tests,
    };
    json(&report, out)
}

/// Prints why there is no valid configuration as the same object.
pub(super) fn problems_json(
    path: &Path,
    error: &ConfigFileError,
    out: &mut dyn Write,
) -> io::Result<()> {
    let whole_file;
    let problems = match error {
        ConfigFileError::Invalid { problems, .. } => &*problems.0,
        ConfigFileError::NoDefault
        | ConfigFileError::Unreadable { .. }
        | ConfigFileError::Directory(_)
        | ConfigFileError::TooLarge(_)
        | ConfigFileError::NotText { .. } => {
            whole_file = [Problem {
                key: String::new(),
                line: None,
                message: error.to_string(),
            }];
            &whole_file
        }
    };
    let report = Report {
        config: path,
        valid: false,
        problems,
        warnings: &[],
        notes: Vec::new(),
        counts: None,
        tests: &[],
    };
    json(&report, out)
}

/// The object that `check --json` prints without destinations.
#[derive(Serialize)]
struct Report<'r> {
    config: &'r Path,
    valid: bool,
    problems: &'r [Problem],
    warnings: &'r [String],
    notes: Vec<&'static str>,
    counts: Option<Counts>,
    tests: &'r [TestResult],
}

#[derive(Serialize)]
struct Counts {
    profiles: usize,
    patterns: usize,
    clients: usize,
}

impl Counts {
    fn of(config: &Config) -> Self {
        let policies = &config.policies;
        let profiles = policies
            .profile_names()
            .filter_map(|name| policies.configured(name));
        Self {
            profiles: policies.profile_names().count(),
            patterns: profiles
                .map(|profile| profile.allow.len() + profile.deny.len())
                .sum(),
            clients: policies.clients().len(),
        }
    }
}
