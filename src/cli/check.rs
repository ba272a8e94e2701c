//! `eclusa check`: validates a configuration, or says what it decides, without network traffic.

mod compare;
mod judge;
pub(super) mod report;

#[cfg(test)]
mod tests;

use std::{
    io::Write,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
};

use self::judge::{Judgement, TestResult};
use super::{CliError, Environment, Exit, config_file};
use crate::{
    config::{self, Config, suggest},
    policy::Policy,
};

/// `eclusa check`
#[derive(Debug, clap::Args)]
pub(crate) struct CheckArgs {
    /// The configuration. Default: $ECLUSA_CONFIG, else /etc/eclusa/eclusa.toml.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// The profile that decides. Default: `default`, else the only one.
    #[arg(long, value_name = "NAME", requires = "destinations")]
    pub(crate) profile: Option<String>,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
    /// Print every rule that was considered, and why it did or did not match.
    #[arg(long, requires = "destinations")]
    pub(crate) explain: bool,
    /// Judge a recorded log again, with its rotated files, and print what would be decided
    /// otherwise; `-` is standard input.
    #[arg(long, value_name = "AUDIT_LOG", conflicts_with_all = ["destinations", "profile"])]
    pub(crate) replay: Vec<PathBuf>,
    /// Compare two configurations: which patterns lead to another decision, and with --replay
    /// which destinations of a log.
    #[arg(long, num_args = 2, value_names = ["OLD", "NEW"],
          conflicts_with_all = ["destinations", "profile", "config"])]
    pub(crate) diff: Vec<PathBuf>,
    /// `https://host/path`, `http://host`, `host:port`, or `host` for its port 443. Without any,
    /// the configuration is validated and its `[[tests]]` are run.
    #[arg(value_name = "DESTINATION")]
    pub(crate) destinations: Vec<String>,
}

/// Checks the configuration, or the destinations named. Exit code 0: valid, or all allowed; 1: an
/// expectation does not hold, one is not allowed (`would_deny` is not), or a comparison finds a
/// change; 64: the configuration, a log or a destination is wrong.
pub(crate) fn run(
    args: &CheckArgs,
    environment: &Environment,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> anyhow::Result<ExitCode> {
    if !args.replay.is_empty() || !args.diff.is_empty() {
        return compare::run(args, environment, out, err);
    }
    let path = config_file::locate(args.config.as_deref(), environment);
    if args.destinations.is_empty() {
        return validate(&path, args.json, out);
    }
    let config = config_file::load(&path)?;
    let policy = choose(args.profile.as_deref(), &config)?;
    let judgements = judge(args, &config, policy)?;
    if args.json {
        report::judgements_json(&judgements, out)?;
    } else {
        report::judgements(&judgements, environment.colour_out, out)?;
    }
    Ok(code(judgements.iter().all(Judgement::is_allowed)))
}

/// Validates the file and runs its `[[tests]]`.
fn validate(path: &Path, json: bool, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    let config = match config_file::load(path) {
        Ok(config) => config,
        Err(error) => {
            if json {
                report::problems_json(path, &error, out)?;
            }
            return Err(error.into());
        }
    };
    let tests: Vec<_> = config
        .tests
        .iter()
        .filter_map(|expectation| TestResult::of(&config, expectation))
        .collect();
    if json {
        report::summary_json(path, &config, &tests, out)?;
    } else {
        report::summary(path, &config, &tests, out)?;
    }
    Ok(code(tests.iter().all(|test| test.passed)))
}

/// Judges every destination, or says what is wrong with each that cannot be read.
fn judge(
    args: &CheckArgs,
    config: &Config,
    (name, policy): (&Arc<str>, &Policy),
) -> Result<Vec<Judgement>, CliError> {
    let mut wrong = Vec::new();
    let mut judgements = Vec::new();
    for written in &args.destinations {
        match config::destination::parse(written) {
            Ok(destination) => {
                let mut judgement = Judgement::of(config, (name, policy), written, &destination);
                if args.explain {
                    judgement.explain(policy, &destination);
                }
                judgements.push(judgement);
            }
            Err(message) => wrong.push(message),
        }
    }
    if wrong.is_empty() {
        Ok(judgements)
    } else {
        Err(CliError::Usage(wrong.join("\n")))
    }
}

/// The profile that `--profile` names, else `default`, else the only one.
fn choose<'c>(
    named: Option<&str>,
    config: &'c Config,
) -> Result<(&'c Arc<str>, &'c Policy), CliError> {
    let policies = &config.policies;
    let names: Vec<&Arc<str>> = policies.profile_names().collect();
    let known = names.iter().map(|name| &***name);
    let wanted = match (named, &*names) {
        (Some(name), _) => name,
        (None, [only]) => only,
        (None, _) => "default",
    };
    let name = names.iter().copied().find(|name| &***name == wanted);
    match name.and_then(|name| Some((name, &**policies.profile(name)?))) {
        Some(found) => Ok(found),
        None if names.is_empty() => Err(CliError::Usage(
            "the configuration has no profile; add [profiles.default]".to_owned(),
        )),
        None if named.is_some() => Err(CliError::Usage(format!(
            "there is no profile {wanted:?}; {}",
            suggest::among(wanted, known)
        ))),
        None => Err(CliError::Usage(format!(
            "say which profile decides with --profile NAME; there are {}",
            known.collect::<Vec<_>>().join(", ")
        ))),
    }
}

fn code(all_well: bool) -> ExitCode {
    if all_well {
        ExitCode::SUCCESS
    } else {
        Exit::Denied.into()
    }
}
