//! The options of `eclusa logs`, and the files that they ask for.

use std::path::{Path, PathBuf};

use jiff::tz::TimeZone;

use crate::{
    cli::{CliError, Environment, config_file},
    config::AuditSink,
    record::Link,
    review::{
        render::Look,
        source::{Source, SourceError},
    },
};

/// `eclusa logs`
#[derive(Debug, clap::Args)]
pub(crate) struct LogsArgs {
    /// Logs to read, in this order; `-` is standard input. Compressed ones (gzip, zstd) are read as
    /// they are. Each is itself alone unless --rotated is given. Default: the audit log of the
    /// configuration with its rotated files, oldest first.
    #[arg(value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    /// The configuration that names the log. Default: $ECLUSA_CONFIG, else /etc/eclusa/eclusa.toml.
    #[arg(short, long, value_name = "FILE", conflicts_with = "files")]
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
    /// Show times in UTC. Default: local time on a terminal, RFC 3339 in UTC elsewhere.
    #[arg(long)]
    pub(crate) utc: bool,
    /// When verdicts are coloured; auto: on a terminal and without NO_COLOR.
    #[arg(long, value_enum, value_name = "WHEN", default_value_t = ColourChoice::Auto)]
    pub(crate) color: ColourChoice,
}

/// What is to be proven.
#[derive(Debug, clap::Args)]
pub(crate) struct ProofArgs {
    /// Prove that no line was changed, removed or moved, or name the first that was. Exit code 1:
    /// it was, or nothing is proven.
    #[arg(long)]
    pub(crate) verify: bool,
    /// With --verify: a head that was noted before (`eclusa admin GET /v1/audit`). Nothing up to it
    /// was cut off.
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

    fn configured(&self, environment: &Environment) -> anyhow::Result<Vec<Source>> {
        let path = config_file::locate(self.config.as_deref(), environment);
        let config = config_file::load(&path).map_err(|error| {
            let why = "no FILE was named, and the configuration that names the log cannot be used";
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

    /// How lines look.
    pub(super) fn look(&self, environment: &Environment) -> Look {
        let zone = match (environment.is_terminal_out, self.utc) {
            (true, true) => Some(TimeZone::UTC),
            (true, false) => Some(TimeZone::system()),
            (false, _) => None,
        };
        let colour = match self.color {
            ColourChoice::Auto => environment.colour_out,
            ColourChoice::Always => true,
            ColourChoice::Never => false,
        };
        Look { zone, colour }
    }
}

/// A log that cannot be read is a mistake in what was asked for.
pub(crate) fn usage(error: SourceError) -> CliError {
    CliError::Usage(format!("{:#}", anyhow::Error::from(error)))
}
