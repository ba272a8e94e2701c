//! From the text to a `Config`: syntax first, then every key, then what holds between them.

use std::collections::BTreeSet;

use toml::de::{DeTable, Error as SyntaxError};

use super::{
    Config, Problems,
    document::{Report, Section},
    fingerprint::fingerprint,
    launcher, policies, settings, warnings,
};
use crate::policy::PolicySet;

/// Reads a configuration, or says everything that is wrong with it.
pub(super) fn config(text: &str) -> Result<Config, Problems> {
    let fingerprint = fingerprint(text.as_bytes());
    let (text, marked) = match text.strip_prefix('\u{feff}') {
        Some(rest) => (rest, true),
        None => (text, false),
    };
    let report = Report::new(text);
    if marked {
        let message = "the file begins with a byte order mark; save it as UTF-8 without one";
        report.add("", Some(0), message);
    }
    let (document, errors) = DeTable::parse_recoverable(text);
    let readable = syntax(&report, text, &errors);
    if errors.is_empty() && document.get_ref().is_empty() {
        let message = "the configuration is empty; it must at least say [listen] and [profiles]";
        report.add("", None, message);
    }
    // A table that is cut short by a slip would only bring problems that are not there.
    let config = readable.then(|| Section::root(&report, document.get_ref(), everything));
    let problems = report.into_problems();
    match config.flatten() {
        Some(config) if problems.is_empty() => Ok(Config {
            fingerprint,
            ..config
        }),
        Some(_) | None => Err(Problems(problems)),
    }
}

/// Notes every error of syntax, one a line; whether the keys can be judged all the same.
fn syntax(report: &Report, text: &str, errors: &[SyntaxError]) -> bool {
    const DUPLICATE: &str = "duplicate key";
    let mut lines = BTreeSet::new();
    for error in errors {
        let span = error.span().unwrap_or_default();
        let line = report.line(span.start);
        if !lines.insert(line) {
            continue;
        }
        if error.message() == DUPLICATE {
            let key = text.get(span.clone()).unwrap_or_default();
            report.add(
                key,
                Some(span.start),
                "this key stands here twice; keep one of them",
            );
        } else {
            let message = explain(text, span.start, error.message());
            report.add("", Some(span.start), format!("not TOML: {message}"));
        }
    }
    errors.iter().all(|error| error.message() == DUPLICATE)
}

/// What is wrong at the byte offset `at`; the parser takes a bare word for a kind of number.
fn explain(text: &str, at: usize, message: &str) -> String {
    let part_of_word = |c: char| c.is_alphanumeric() || "_-+.".contains(c);
    let (before, after) = text.split_at_checked(at).unwrap_or((text, ""));
    let start = before.trim_end_matches(part_of_word).len();
    let end = at + after.find(|c| !part_of_word(c)).unwrap_or(after.len());
    let word = text.get(start..end).unwrap_or_default();
    let value_expected = [
        "invalid float",
        "invalid boolean",
        "string values must be quoted",
    ]
    .iter()
    .any(|kind| message.starts_with(kind));
    if value_expected && word.is_empty() {
        "the value is missing".to_owned()
    } else if value_expected {
        format!("{word:?} is no value; text stands in quotes, and only true and false are words")
    } else {
        message.trim_end_matches(", expected nothing").to_owned()
    }
}

/// Reads every section; none when the policies do not fit together, which is then reported.
fn everything(root: &mut Section<'_>) -> Option<Config> {
    let listen = settings::listen(root);
    let dns = settings::dns(root);
    let resolver = settings::resolver(root);
    let addresses = settings::addresses(root);
    let profiles = policies::profiles(root);
    let clients = policies::clients(root, &profiles);
    let tests = policies::tests(root, &profiles);
    let audit = settings::audit(root);
    let limits = settings::limits(root);
    let launcher = launcher::launcher(root, &profiles, &clients);
    let ceiling = launcher.ceiling.clone();
    let policies = PolicySet::new(profiles, clients, ceiling)
        .map_err(|errors| {
            for error in errors {
                root.problem_at(error.key(), error.to_string());
            }
        })
        .ok()?;
    let mut config = Config {
        fingerprint: String::new(),
        listen,
        dns,
        resolver,
        addresses,
        policies,
        tests,
        audit,
        limits,
        launcher,
        warnings: Vec::new(),
    };
    config.warnings = warnings::of(&config);
    Some(config)
}
