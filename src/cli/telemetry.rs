//! The log of this process: tracing to standard error, as text or JSON.

use std::{io, panic};

use tracing::error;
use tracing_subscriber::{EnvFilter, fmt, layer::SubscriberExt, util::SubscriberInitExt};

use super::{Cli, CliError, Command, Environment};

/// How log lines are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum LogFormat {
    /// A line for a person.
    Text,
    /// A JSON object a line, for a program.
    Json,
}

/// What is logged, and how.
pub(super) struct Telemetry {
    filter: EnvFilter,
    format: LogFormat,
    colour: bool,
}

impl Telemetry {
    /// Reads the flags, else the environment.
    ///
    /// # Errors
    /// A filter that cannot be read.
    pub(super) fn of(cli: &Cli, environment: &Environment) -> Result<Self, CliError> {
        let default = match cli.command {
            Command::Serve(_) => "info",
            Command::Run(_)
            | Command::Up(_)
            | Command::Down(_)
            | Command::Check(_)
            | Command::Logs(_)
            | Command::Health(_)
            | Command::Admin(_)
            | Command::Completions(_)
            | Command::Man(_)
            | Command::Doctor(_)
            | Command::Hold
            | Command::Keep(_)
            | Command::Probe(_) => "warn",
        };
        let written = cli.log_level.as_deref().or(environment.log.as_deref());
        Ok(Self {
            filter: parse_filter(written.unwrap_or(default))?,
            format: cli.log_format,
            colour: environment.colour_err,
        })
    }

    /// Starts logging for the whole process.
    pub(super) fn install(self) {
        let layer = fmt::layer().with_writer(io::stderr);
        let registry = tracing_subscriber::registry().with(self.filter);
        let installed = match self.format {
            LogFormat::Text => registry.with(layer.with_ansi(self.colour)).try_init(),
            LogFormat::Json => registry.with(layer.json().flatten_event(true)).try_init(),
        };
        if installed.is_ok() {
            panic::set_hook(Box::new(log_panic));
        }
    }
}

fn parse_filter(text: &str) -> Result<EnvFilter, CliError> {
    EnvFilter::builder().parse(text).map_err(|error| {
        CliError::Usage(format!(
            "cannot read the log filter {text:?} ({error}): write error, warn, info, debug or \
             trace, or a filter such as info,eclusa::dns=debug"
        ))
    })
}

/// One log line a panic, so that a JSON log stays JSON; the task that panicked unwinds as ever.
fn log_panic(panic: &panic::PanicHookInfo<'_>) {
    error!(
        location = panic.location().map(tracing::field::display),
        panic = panic.payload_as_str().unwrap_or("a value"),
        backtrace = %std::backtrace::Backtrace::capture(),
        "a task panicked"
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_filter_that_cannot_be_read_is_an_error() {
        for text in ["info", "off", "info,eclusa::dns=debug", "WARN"] {
            assert!(parse_filter(text).is_ok(), "{text}");
        }
        for text in ["eclusa=loud", "eclusa=debug=1"] {
            let message = parse_filter(text).unwrap_err().to_string();
            assert!(message.contains(text), "{message}");
            assert!(message.contains("write error, warn"), "{message}");
        }
    }
}
