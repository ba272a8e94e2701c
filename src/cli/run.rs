//! `eclusa run`: one command in a fresh sandbox.

mod args;
mod show;

use std::{io::Write, process::ExitCode};

use tokio::signal::unix::{SignalKind, signal};

pub(crate) use self::args::RunArgs;
use self::show::Show;
use super::{Environment, config_file, engine};
use crate::{
    config,
    launcher::{Io, LaunchError, Launcher, Settings, Stop},
    record::RunRecord,
};

/// What `eclusa run` exits with when the launcher itself failed or refused.
pub(super) const LAUNCHER_FAILED: u8 = 125;

/// Runs it. Every failure but the command's own is 125, said on standard error; with `--json` it is
/// the record's `error` wherever there is a record.
pub(crate) fn run(
    args: &RunArgs,
    environment: &Environment,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> anyhow::Result<ExitCode> {
    match launch(args, environment) {
        Ok(record) => {
            report(args, environment, &record, out, err)?;
            Ok(ExitCode::from(record.exit_code))
        }
        Err(error) => {
            writeln!(err, "eclusa: {error:#}")?;
            Ok(ExitCode::from(exit_code(&error)))
        }
    }
}

fn exit_code(error: &anyhow::Error) -> u8 {
    error
        .downcast_ref::<LaunchError>()
        .map_or(LAUNCHER_FAILED, LaunchError::exit_code)
}

fn launch(args: &RunArgs, environment: &Environment) -> anyhow::Result<RunRecord> {
    let loaded = config_file::load_if_any(args.config.as_deref(), environment)?;
    let defaults = loaded
        .as_ref()
        .map_or_else(config::Launcher::default, |loaded| {
            loaded.config.launcher.clone()
        });
    let mut spec = args.spec(defaults.timeout)?;
    if let Some(loaded) = &loaded {
        args::check_policy(&spec, &loaded.config)?;
    }
    spec.stdin = args.stdin;
    let record = args.record.clone().or(defaults.record);
    let settings = Settings::of_this_process(defaults.pool, record).map_err(LaunchError::State)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let record = runtime.block_on(async {
        let stop = signals()?;
        let backend = engine::connect(&args.engine, environment, loaded.as_ref()).await?;
        let launcher = Launcher::new(backend, settings);
        let (io, show) = Show::prepare(args, environment, spec.max_output)?;
        let io = Io { stop, ..io };
        let (record, shown) = tokio::join!(launcher.run(&spec, io), show.follow());
        let record = record?;
        shown.finish(&record).await;
        anyhow::Ok(record)
    });
    // A read of standard input that is under way cannot be called back.
    runtime.shutdown_background();
    record
}

/// SIGINT and SIGTERM from now on, as a wish to stop.
fn signals() -> std::io::Result<Stop> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut hangup = signal(SignalKind::hangup())?;
    let (send, stop) = Stop::channel();
    let wait = async move {
        let number = tokio::select! {
            _ = interrupt.recv() => SignalKind::interrupt(),
            _ = terminate.recv() => SignalKind::terminate(),
            _ = hangup.recv() => SignalKind::hangup(),
        };
        // Nobody listens any more where the run has ended.
        send.send(u8::try_from(number.as_raw_value()).ok()).ok();
    };
    crate::drain::Tasks::new().spawn(wait);
    Ok(stop)
}

/// Prints the record where it was asked for, and what went wrong.
fn report(
    args: &RunArgs,
    environment: &Environment,
    record: &RunRecord,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> anyhow::Result<()> {
    // The caller's own choices are always said; what is merely good to know only to a person.
    for warning in &record.warnings {
        if environment.is_terminal_err || warning.starts_with("--dangerously") {
            writeln!(err, "eclusa: warning: {warning}")?;
        }
    }
    if args.json {
        let mut record = record.clone();
        if !args.timings {
            record.timings = None;
        }
        serde_json::to_writer(&mut *out, &record)?;
        writeln!(out)?;
        return Ok(());
    }
    if let Some(error) = &record.error {
        writeln!(err, "eclusa: {error}")?;
    }
    for reached in record.limits.iter().filter(|reached| reached.is_certain()) {
        writeln!(err, "eclusa: limit reached: {}", reached.detail)?;
    }
    if args.timings {
        for timing in record.timings.iter().flatten() {
            writeln!(err, "eclusa: {:>8} ms  {}", timing.at_ms, timing.phase)?;
        }
    }
    Ok(())
}
