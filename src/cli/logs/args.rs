//! The options of `eclusa logs`, and the files that they ask for.

use std::path::{Path, PathBuf};

use jiff::{Timestamp, tz::TimeZone};

use super::conditions::ConditionArgs;
use crate::{
    cli::{CliError, Environment, config_file},
    config::{AuditSink, Config},
    record::{
        Link,
        escape::{Layout, escaped},
    },
    review::{
        filter::Filter,
        render::Look,
        source::{Source, SourceError},
        summary::By,
    },
};

/// `eclusa logs`
#[derive(Debug, clap::Args)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a switch of the command line"
)]
pub(crate) struct LogsArgs {
    /// Logs to read, in this order; `-` is standard input. Compressed ones (gzip, zstd) are read as
    /// they are. Each is itself alone unless --rotated is given. Default: the audit log of the
    /// configuration with its rotated files, oldest first.
    #[arg(value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    /// The configuration that names the log. Default: $ECLUSA_CONFIG, else /etc/eclusa/eclusa.toml.
    /// With --suggest also what is in force, beside any FILE.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Read the rotated files of each FILE too, oldest first: FILE.1, FILE-20260102, also
    /// compressed.
    #[arg(long, requires = "files")]
    pub(crate) rotated: bool,
    /// Print the lines as they stand in the log.
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) proof: ProofArgs,
    /// Go on printing what is added, through rotations, until SIGINT or SIGTERM.
    #[arg(short, long, conflicts_with = "summary")]
    pub(crate) follow: bool,
    /// Print only the last lines of what is there; with --follow, before what is added.
    #[arg(short = 'n', long, value_name = "NUMBER", conflicts_with = "summary", value_parser = clap::value_parser!(u16))]
    pub(crate) tail: Option<u16>,
    /// Print what was reached, what was refused and why, and which names were asked for, counted;
    /// with --json as one object.
    #[arg(long)]
    pub(crate) summary: bool,
    /// Print the lines that would have allowed what was refused, as TOML, the narrowest first, each
    /// with its evidence; what no line should open is a finding.
    #[arg(long, conflicts_with_all = ["follow", "tail", "summary"])]
    pub(crate) suggest: bool,
    /// What the summary counts together.
    #[arg(long, value_enum, value_name = "WHAT", default_value_t = ByChoice::All, requires = "summary")]
    pub(crate) by: ByChoice,
    /// The most rows of each kind in the summary. Default: 20 in tables, all that are kept in JSON.
    #[arg(long, value_name = "NUMBER", requires = "summary", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) top: Option<u16>,
    /// Print the summary as Markdown, for a ticket or a pull request.
    #[arg(long, requires = "summary", conflicts_with = "json")]
    pub(crate) markdown: bool,
    /// Show times in UTC. Default: local time on a terminal, RFC 3339 in UTC elsewhere.
    #[arg(long)]
    pub(crate) utc: bool,
    /// When verdicts are coloured; auto: on a terminal and without NO_COLOR.
    #[arg(long, value_enum, value_name = "WHEN", default_value_t = ColourChoice::Auto)]
    pub(crate) color: ColourChoice,
    #[command(flatten)]
    pub(crate) conditions: ConditionArgs,
}

/// What is to be proven.
#[derive(Debug, clap::Args)]
pub(crate) struct ProofArgs {
    /// Prove that no line was changed, removed or moved, or name the first that was. Exit code 1:
    /// it was, or nothing is proven.
    #[arg(long, conflicts_with_all = ["ConditionArgs", "follow", "tail", "summary", "suggest"])]
    pub(crate) verify: bool,
    /// With --verify: a head that was noted before (`eclusa admin GET /v1/audit`). The log still has
    /// its line, so nothing was cut off the end since.
    #[arg(long, value_name = "LINK", requires = "verify")]
    pub(crate) head: Option<Link>,
}

/// `--color`
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum ColourChoice {
    Auto,
    Always,
    Never,
}

/// `--by`
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum ByChoice {
    All,
    Run,
    Profile,
    Client,
}

impl LogsArgs {
    /// The files, in the order in which they are read.
    pub(super) fn sources(&self, environment: &Environment) -> anyhow::Result<Vec<Source>> {
        if self.files.is_empty() {
            return self.configured(environment);
        }
        let mut sources = Vec::new();
        for path in &self.files {
            if self.rotated && path != Path::new("-") {
                sources.extend(Source::log(path).map_err(usage)?);
            } else {
                sources.push(Source::named(path).map_err(usage)?);
            }
        }
        Ok(sources)
    }

    /// The log that is followed; none without --follow.
    pub(super) fn followed(&self, sources: &[Source]) -> Result<Option<PathBuf>, CliError> {
        if !self.follow {
            return Ok(None);
        }
        match (sources.last(), &*self.files) {
            (Some(Source::Part { log, .. }), [] | [_]) => Ok(Some(log.clone())),
            (Some(Source::File(path)), [_]) => Ok(Some(path.clone())),
            _ => Err(CliError::Usage(
                "--follow is for one log, named by its FILE or by the configuration".to_owned(),
            )),
        }
    }

    /// The configuration in force: the one that names the log, or that is named beside it.
    pub(super) fn in_force(&self, environment: &Environment) -> anyhow::Result<Option<Config>> {
        if self.config.is_none() && !self.files.is_empty() {
            return Ok(None);
        }
        let path = config_file::locate(self.config.as_deref(), environment);
        Ok(Some(config_file::load(&path)?))
    }

    fn configured(&self, environment: &Environment) -> anyhow::Result<Vec<Source>> {
        let path = config_file::locate(self.config.as_deref(), environment);
        let config = config_file::load(&path).map_err(|error| {
            let why = "no FILE was named, and the configuration that names the log cannot be used \
                       (the log of a proxy that `eclusa run` started is with it: docker exec \
                       eclusa-proxy /eclusa logs)";
            anyhow::Error::from(error).context(why)
        })?;
        match config.audit.sink {
            AuditSink::File(path) => Ok(Source::log(&path).map_err(usage)?),
            AuditSink::Stdout => Err(CliError::Usage(format!(
                "audit.file is \"stdout\" in {}: the log is where the output of serve went; name \
                 the file that keeps it, or pipe it in and name -",
                path.display()
            ))
            .into()),
        }
    }

    /// Which lines are asked for, at the time `now`.
    pub(super) fn filter(&self, now: Timestamp) -> Result<Filter, CliError> {
        let zone = if self.utc {
            TimeZone::UTC
        } else {
            TimeZone::system()
        };
        Ok(Filter::new(self.conditions.conditions(now, &zone)?))
    }

    /// How lines look.
    pub(super) fn look(&self, environment: &Environment) -> Look {
        let zone = match (environment.is_terminal_out, self.utc) {
            (true, true) => Some(TimeZone::UTC),
            (true, false) => Some(TimeZone::system()),
            (false, _) => None,
        };
        Look {
            zone,
            colour: self.colour(environment),
        }
    }

    /// Whether the answer is coloured.
    pub(super) fn colour(&self, environment: &Environment) -> bool {
        match self.color {
            ColourChoice::Auto => environment.colour_out,
            ColourChoice::Always => true,
            ColourChoice::Never => false,
        }
    }

    /// What a summary counts together.
    pub(super) fn by(&self) -> By {
        match self.by {
            ByChoice::All => By::All,
            ByChoice::Run => By::Run,
            ByChoice::Profile => By::Profile,
            ByChoice::Client => By::Client,
        }
    }
}

/// A log that cannot be read is a mistake in what was asked for.
pub(crate) fn usage(error: SourceError) -> CliError {
    let message = format!("{:#}", anyhow::Error::from(error));
    CliError::Usage(escaped(message.as_bytes(), Layout::Page))
}
