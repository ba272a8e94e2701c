//! Verbs, flags and exit codes.

mod admin;
mod check;
mod completions;
mod config_file;
mod doctor;
mod down;
mod engine;
mod health;
mod hold;
mod json;
mod keep;
mod logs;
mod man;
mod probe;
mod progress;
mod run;
mod runtime;
mod serve;
mod signals;
mod table;
mod telemetry;
mod up;

#[cfg(test)]
mod tests;

use std::{
    env,
    ffi::OsString,
    io::{self, IsTerminal, Write},
    path::PathBuf,
    process::ExitCode,
};

use clap::{CommandFactory, Parser, Subcommand};

use self::{
    config_file::ConfigFileError,
    telemetry::{LogFormat, Telemetry},
};
use crate::record::escape::{Layout, escaped};

/// Runs one command and gives its exit code: 0 success or allowed, 1 denied or failed, 64 a
/// mistake in the arguments or the configuration (`EX_USAGE`), 70 a failure of our own
/// (`EX_SOFTWARE`).
pub fn main(args: impl Iterator<Item = OsString>) -> ExitCode {
    // Neither stream is locked: the audit log and the log write to them from other threads.
    run(
        args,
        &Environment::read(),
        Telemetry::install,
        &mut io::stdout(),
        &mut io::stderr(),
    )
}

/// What the process was started with besides its arguments.
#[derive(Clone, Debug, Default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "four facts of two streams that do not depend on each other"
)]
pub(crate) struct Environment {
    /// `ECLUSA_CONFIG`.
    pub(crate) config: Option<PathBuf>,
    /// `ECLUSA_LOG`.
    pub(crate) log: Option<String>,
    /// `DOCKER_HOST`.
    pub(crate) docker_host: Option<String>,
    /// `XDG_RUNTIME_DIR`.
    pub(crate) runtime_dir: Option<PathBuf>,
    /// Whether standard output is a terminal.
    pub(crate) is_terminal_out: bool,
    /// Whether standard error is a terminal.
    pub(crate) is_terminal_err: bool,
    /// Whether standard output is a terminal that may be coloured.
    pub(crate) colour_out: bool,
    /// Whether standard error is a terminal that may be coloured.
    pub(crate) colour_err: bool,
}

impl Environment {
    /// Reads the environment; an empty variable counts as unset, as <https://no-color.org> has it.
    fn read() -> Self {
        let set = |name| env::var_os(name).filter(|value| !value.is_empty());
        let text = |name| set(name).map(|value| value.to_string_lossy().into_owned());
        let colour = set("NO_COLOR").is_none();
        Self {
            config: set("ECLUSA_CONFIG").map(PathBuf::from),
            log: text("ECLUSA_LOG"),
            docker_host: text("DOCKER_HOST"),
            runtime_dir: set("XDG_RUNTIME_DIR").map(PathBuf::from),
            is_terminal_out: io::stdout().is_terminal(),
            is_terminal_err: io::stderr().is_terminal(),
            colour_out: colour && io::stdout().is_terminal(),
            colour_err: colour && io::stderr().is_terminal(),
        }
    }
}

/// An egress-control proxy with its own DNS server: lets out only what policy names.
#[derive(Debug, Parser)]
#[command(name = "eclusa", version, propagate_version = true)]
struct Cli {
    /// How log lines are written to standard error.
    #[arg(long, global = true, value_enum, default_value_t = LogFormat::Text)]
    log_format: LogFormat,

    /// What is logged: a level (error, warn, info, debug, trace) or a filter such as
    /// `info,eclusa::dns=debug`. Default: $ECLUSA_LOG, else info for serve and warn for the rest.
    #[arg(long, global = true, value_name = "FILTER")]
    log_level: Option<String>,

    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the proxy and the DNS server until SIGTERM or SIGINT; SIGHUP reloads.
    Serve(serve::ServeArgs),
    /// Run one command in a fresh sandbox, and remove the sandbox.
    Run(Box<run::RunArgs>),
    /// Start the proxy container that `run` uses, or bring it to what is asked for.
    Up(up::UpArgs),
    /// Stop the proxy container and remove it; its audit log is kept.
    Down(down::DownArgs),
    /// Validate a configuration, or say what it decides on destinations, without any network
    /// traffic.
    Check(check::CheckArgs),
    /// Show the audit log: what was let through, what was refused and why.
    Logs(Box<logs::LogsArgs>),
    /// Prove from inside of a sandbox that every boundary holds on this host.
    Doctor(doctor::DoctorArgs),
    /// Ask a running proxy whether it is healthy.
    Health(health::HealthArgs),
    /// Make one call of the admin socket.
    Admin(admin::AdminArgs),
    /// Print the completion script of a shell.
    Completions(completions::CompletionsArgs),
    /// Print or write the manual pages.
    Man(man::ManArgs),
    /// Do nothing until SIGTERM or SIGINT: what keeps a run's volumes mounted.
    #[command(hide = true)]
    Hold,
    /// Replace the slots that runs took from the pool, then end: what `run` leaves behind.
    #[command(hide = true)]
    Keep(keep::KeepArgs),
    /// Try from inside of a sandbox what must fail there, for `doctor`.
    #[command(hide = true)]
    Probe(probe::ProbeArgs),
}

/// A failure whose exit code is not 70.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CliError {
    /// The arguments or the environment are wrong: 64.
    #[error("{0}")]
    Usage(String),
    /// What was asked for is not so, and the message says why: 1.
    #[error("{0}")]
    Failed(String),
}

/// The codes of `main` besides success.
pub(crate) enum Exit {
    /// `check`: a destination is denied, or an expectation does not hold. `health` and `admin`:
    /// the answer is not a success.
    Denied,
    /// `EX_USAGE`
    Usage,
    /// `EX_SOFTWARE`
    Internal,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        match exit {
            Exit::Denied => Self::from(1),
            Exit::Usage => Self::from(64),
            Exit::Internal => Self::from(70),
        }
    }
}

/// `main` with everything it touches passed in; `start_log` is for the whole process.
fn run(
    args: impl Iterator<Item = OsString>,
    environment: &Environment,
    start_log: fn(Telemetry),
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> ExitCode {
    let args: Vec<OsString> = args.collect();
    let result = match Cli::try_parse_from(&args) {
        Ok(cli) => Telemetry::of(&cli, environment)
            .map(start_log)
            .map_err(anyhow::Error::from)
            .and_then(|()| dispatch(&cli.command, environment, out, err)),
        Err(answer) => print_usage(&answer, environment, out, err).map(|code| {
            // What `run` exits with is the command's own, so its mistakes are the launcher's 125.
            if answer.use_stderr() && is_run(&args) {
                ExitCode::from(run::LAUNCHER_FAILED)
            } else {
                code
            }
        }),
    };
    let flushed = out.flush();
    match result.and_then(|code| flushed.map(|()| code).map_err(anyhow::Error::from)) {
        Ok(code) => code,
        Err(error) => {
            let code = exit_code(&error);
            // With standard error gone there is nowhere left to say it; the code still does.
            let error = format!("{error:#}");
            let shown = escaped(error.as_bytes(), Layout::Page);
            drop(writeln!(err, "eclusa: {shown}"));
            code
        }
    }
}

fn dispatch(
    command: &Command,
    environment: &Environment,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> anyhow::Result<ExitCode> {
    match command {
        Command::Serve(args) => serve::run(args, environment),
        Command::Run(args) => run::run(args, environment, out, err),
        Command::Up(args) => up::run(args, environment, out),
        Command::Down(args) => down::run(args, environment, out),
        Command::Check(args) => check::run(args, environment, out, err),
        Command::Logs(args) => logs::run(args, environment, out, err),
        Command::Doctor(args) => doctor::run(args, environment, out),
        Command::Health(args) => health::run(args, out),
        Command::Admin(args) => admin::run(args, out),
        Command::Completions(args) => completions::run(args, out),
        Command::Man(args) => man::run(args, out),
        Command::Hold => hold::run(),
        Command::Keep(args) => keep::run(args, environment),
        Command::Probe(args) => probe::run(args, out),
    }
}

/// Prints what clap has to say: help and version are results, all else is a mistake.
fn print_usage(
    answer: &clap::Error,
    environment: &Environment,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> anyhow::Result<ExitCode> {
    let text = answer.render();
    if answer.use_stderr() {
        if environment.colour_err {
            write!(err, "{}", text.ansi())?;
        } else {
            write!(err, "{text}")?;
        }
        Ok(Exit::Usage.into())
    } else {
        if environment.colour_out {
            write!(out, "{}", text.ansi())?;
        } else {
            write!(out, "{text}")?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Whether arguments that are wrong are those of `run`.
fn is_run(args: &[OsString]) -> bool {
    let matches = Cli::command()
        .ignore_errors(true)
        .try_get_matches_from(args);
    matches.is_ok_and(|matches| matches.subcommand_name() == Some("run"))
}

fn exit_code(error: &anyhow::Error) -> ExitCode {
    if error.is::<ConfigFileError>() {
        return Exit::Usage.into();
    }
    match error.downcast_ref::<CliError>() {
        Some(CliError::Usage(_)) => Exit::Usage.into(),
        Some(CliError::Failed(_)) => Exit::Denied.into(),
        None => Exit::Internal.into(),
    }
}
