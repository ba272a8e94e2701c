//! What a changed configuration would decide otherwise: on a recorded log, and by its patterns.

use std::{
    io::{self, Write},
    path::{Path, PathBuf},
    process::ExitCode,
};

use comfy_table::Cell;
use serde::Serialize;

use super::{CheckArgs, code};
use crate::{
    cli::{
        CliError, Environment, config_file,
        json::json,
        logs,
        progress::Progress,
        table::{plain_table, print_table, verdict},
    },
    record::{
        Line,
        escape::{Layout, escaped},
    },
    review::{
        counted,
        difference::{self, PatternChange},
        faults::Faults,
        judge::Judged,
        replay::{Baseline, Change, Counts, Replay, Replayed},
        scan,
        source::Source,
    },
};

/// What is printed, the object of `--json`.
#[derive(Serialize)]
struct Comparison<'a> {
    /// The configuration that is compared with; none where that is the record.
    old: Option<&'a Path>,
    new: &'a Path,
    /// Patterns that lead to another decision; none without `--diff`.
    #[serde(skip_serializing_if = "Option::is_none")]
    patterns: Option<Vec<PatternChange>>,
    /// Every setting that differs, in words; none without `--diff`.
    #[serde(skip_serializing_if = "Option::is_none")]
    settings: Option<Vec<String>>,
    /// What the log comes to; none without `--replay`.
    #[serde(skip_serializing_if = "Option::is_none")]
    replay: Option<Replayed>,
}

/// Compares. Exit code 0: nothing changes; 1: something does.
pub(super) fn run(
    args: &CheckArgs,
    environment: &Environment,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> anyhow::Result<ExitCode> {
    let (old, new) = match &*args.diff {
        [old, new] => (Some(old.clone()), new.clone()),
        _ => (
            None,
            config_file::locate(args.config.as_deref(), environment),
        ),
    };
    let old_config = old.as_deref().map(config_file::load).transpose()?;
    let new_config = config_file::load(&new)?;
    let baseline = old_config
        .as_ref()
        .map_or(Baseline::Recorded, Baseline::Config);
    let replay = match &*args.replay {
        [] => None,
        logs => {
            let sources = sources(logs)?;
            let progress = Progress::through(&sources, environment.is_terminal_err);
            let replay = Replay::new(baseline, &new_config);
            let replayed = replayed(replay, &sources, &progress, err);
            progress.end();
            Some(replayed?)
        }
    };
    let patterns = old_config
        .as_ref()
        .map(|old| difference::patterns(old, &new_config));
    let settings = old_config.as_ref().map(|old| old.changes(&new_config));
    let changed = replay.iter().any(|replayed| !replayed.changes.is_empty())
        || patterns.iter().any(|patterns| !patterns.is_empty())
        || settings.iter().any(|settings| !settings.is_empty());
    let comparison = Comparison {
        old: old.as_deref(),
        new: &new,
        patterns,
        settings,
        replay,
    };
    if args.json {
        json(&comparison, out)?;
    } else {
        comparison.print(environment.colour_out, out)?;
    }
    Ok(code(!changed))
}

fn sources(logs: &[PathBuf]) -> Result<Vec<Source>, CliError> {
    let mut sources = Vec::new();
    for log in logs {
        if log == Path::new("-") {
            sources.push(Source::Stdin);
        } else {
            sources.extend(Source::log(log).map_err(logs::usage)?);
        }
    }
    Ok(sources)
}

fn replayed(
    mut replay: Replay<'_>,
    sources: &[Source],
    progress: &Progress,
    err: &mut dyn Write,
) -> anyhow::Result<Replayed> {
    let mut faults = Faults::default();
    let watch = |file| progress.watch(file);
    let take = |line: &Line| replay.line(line);
    let runs = scan::events(sources, &mut faults, watch, take).map_err(logs::usage)?;
    progress.aside(|| logs::tell(&faults, err))?;
    if runs > 0 {
        let runs = counted(runs, "record");
        writeln!(
            err,
            "eclusa: warning: {runs} of runs passed over: they hold no events to judge"
        )?;
    }
    Ok(replay.finish())
}

impl Comparison<'_> {
    fn print(&self, colour: bool, out: &mut dyn Write) -> io::Result<()> {
        if let Some(patterns) = &self.patterns {
            print_patterns(patterns, colour, out)?;
        }
        for setting in self.settings.iter().flatten() {
            writeln!(out, "{setting}")?;
        }
        if let Some(replayed) = &self.replay {
            if self.patterns.is_some() {
                writeln!(out)?;
            }
            print_changes(&replayed.changes, colour, out)?;
            print_counts(&replayed.counts, out)?;
        }
        Ok(())
    }
}

fn print_patterns(patterns: &[PatternChange], colour: bool, out: &mut dyn Write) -> io::Result<()> {
    if patterns.is_empty() {
        return writeln!(out, "No pattern leads to another decision.");
    }
    let mut table = plain_table(colour);
    table.set_header([
        "PATTERN",
        "DESTINATION",
        "PROFILE",
        "OLD",
        "NEW",
        "REASON",
        "RULE",
    ]);
    for change in patterns {
        let mut row = vec![
            Cell::new(&change.pattern),
            Cell::new(&change.destination),
            Cell::new(&change.profile),
        ];
        row.extend(both(&change.old, &change.new));
        table.add_row(row);
    }
    print_table(&table, out)
}

fn print_changes(changes: &[Change], colour: bool, out: &mut dyn Write) -> io::Result<()> {
    if changes.is_empty() {
        return writeln!(out, "Nothing that was asked would be decided otherwise.");
    }
    let mut table = plain_table(colour);
    table.set_header([
        "ASKED", "PROFILE", "OLD", "NEW", "REASON", "RULE", "COUNT", "LAST",
    ]);
    for change in changes {
        let asked = if change.dns {
            format!("{} (dns)", change.asked)
        } else {
            change.asked.clone()
        };
        // Security: a profile stands as the log has it.
        let profile = change.profile.as_deref().unwrap_or("-");
        let mut row = vec![
            Cell::new(asked),
            Cell::new(escaped(profile.as_bytes(), Layout::Line)),
        ];
        row.extend(both(&change.old, &change.new));
        row.extend([Cell::new(change.count), Cell::new(&change.last)]);
        table.add_row(row);
    }
    print_table(&table, out)?;
    for change in changes {
        if let Some(detail) = &change.new.detail {
            writeln!(out, "{}: {detail}", change.asked)?;
        }
    }
    Ok(())
}

fn both(old: &Judged, new: &Judged) -> [Cell; 4] {
    [
        Cell::new(old.decision.as_str()),
        verdict(new.decision),
        Cell::new(new.reason),
        Cell::new(new.rule.as_deref().unwrap_or("-")),
    ]
}

fn print_counts(counts: &Counts, out: &mut dyn Write) -> io::Result<()> {
    let Counts {
        judged,
        unchanged,
        now_passed,
        now_refused,
        now_otherwise,
        not_of_policy,
        unknown_run,
        without_destination,
        untold,
    } = *counts;
    write!(out, "{}: {unchanged} as before", counted(judged, "event"))?;
    for (count, what) in [
        (now_refused, "refused now"),
        (now_passed, "let through now"),
        (now_otherwise, "let through otherwise"),
    ] {
        if count > 0 {
            write!(out, ", {count} {what}")?;
        }
    }
    writeln!(out, ".")?;
    for (count, why) in [
        (untold, "changes are beyond those listed"),
        (
            not_of_policy,
            "were refused for the message or the moment, which no list changes",
        ),
        (
            unknown_run,
            "are of runs whose own list is not in the log, or not the whole of it",
        ),
        (
            without_destination,
            "have no destination: folded ones, and what could not be read",
        ),
    ] {
        if count > 0 {
            writeln!(out, "{count} {why}.")?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use crate::cli::{
        Exit,
        tests::{configured, eclusa},
    };

    const OLD: &str = r#"
[profiles.default]
allow = ["api.example.com", "old.example.com"]
[[clients]]
source = "10.9.0.0/24"
profile = "default"
"#;

    const NEW: &str = r#"
[profiles.default]
allow = ["api.example.com", "new.example.com:8443"]
[[clients]]
source = "10.9.0.0/24"
profile = "default"
"#;

    fn log(folder: &std::path::Path) -> String {
        let line = |host: &str, decision: &str, reason: &str| {
            format!(
                r#"{{"schema":1,"ts":"2026-01-02T03:04:05.678Z","event":"decision","run":null,"profile":"default","client":"10.9.0.1","via":"connect","host":"{host}","port":443,"decision":"{decision}","reason":"{reason}"}}"#
            )
        };
        let lines = [
            line("old.example.com", "allow", "allowlisted"),
            line("evil.example.net", "deny", "not_allowlisted"),
            "torn".to_owned(),
            line("api.example.com", "allow", "allowlisted"),
        ];
        let path = folder.join("audit.jsonl");
        fs::write(&path, lines.join("\n")).unwrap();
        path.display().to_string()
    }

    #[test]
    fn a_log_is_judged_again() {
        let (folder, path) = configured(NEW);
        let log = log(folder.path());
        let ran = eclusa(&["check", "-c", &path, "--replay", &log]);
        insta::assert_snapshot!(ran.out);
        assert_eq!(ran.code, Exit::Denied.into());
        assert!(ran.err.contains("line 3: is not a record"), "{}", ran.err);
        let (_other, same) = configured(OLD);
        let ran = eclusa(&["check", "-c", &same, "--replay", &log]);
        assert_eq!(ran.code, std::process::ExitCode::SUCCESS, "{}", ran.out);
        assert!(ran.out.starts_with("Nothing that was asked"), "{}", ran.out);
    }

    #[test]
    fn two_configurations_are_compared_by_their_patterns_and_on_a_log() {
        let ((folder, old), (_other, new)) = (configured(OLD), configured(NEW));
        let log = log(folder.path());
        let ran = eclusa(&["check", "--diff", &old, &new, "--replay", &log]);
        insta::assert_snapshot!(ran.out);
        let ran = eclusa(&["check", "--diff", &old, &new, "--json"]);
        let told: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
        assert_eq!(told["patterns"][0]["pattern"], "new.example.com:8443");
        assert_eq!(told["patterns"][0]["new"]["decision"], "allow");
        assert_eq!(told.get("replay"), None);
        assert_eq!(ran.code, Exit::Denied.into());
        let ran = eclusa(&["check", "--diff", &old, &old]);
        assert_eq!(ran.out, "No pattern leads to another decision.\n");
    }
}
