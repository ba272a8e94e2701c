//! `eclusa run`: one command in a fresh sandbox.

mod args;
mod refusals;
mod show;

use std::{io::Write, process::ExitCode};

pub(crate) use self::args::RunArgs;
use self::show::Show;
use super::{Environment, config_file, engine, runtime::block_on, signals::Signals};
use crate::{
    config,
    launcher::{Io, LaunchError, Launcher, Settings},
    record::{
        RunRecord, encode,
        escape::{Layout, escaped},
    },
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
            if environment.is_terminal_err && !args.json {
                refusals::tell(&record, args.engine.host.as_deref(), err)?;
            }
            Ok(ExitCode::from(record.exit_code))
        }
        Err(error) => {
            let code = exit_code(&error);
            let error = format!("{error:#}");
            writeln!(err, "eclusa: {}", escaped(error.as_bytes(), Layout::Page))?;
            Ok(ExitCode::from(code))
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
    block_on(async {
        let stop = Signals::catch()?.into_stop();
        let backend = engine::connect(&args.engine, environment, loaded.as_ref()).await?;
        let launcher = Launcher::new(backend, settings);
        let (io, show) = Show::prepare(args, environment, spec.max_output)?;
        let io = Io { stop, ..io };
        let (record, shown) = tokio::join!(launcher.run(&spec, io), show.follow());
        let record = record?;
        shown.finish(&record).await;
        Ok(record)
    })
}

/// Prints the record where it was asked for, and what went wrong.
fn report(
    args: &RunArgs,
    environment: &Environment,
    record: &RunRecord,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> anyhow::Result<()> {
    // Security: what an engine or the sandbox said may stand in any of these.
    let plain = |text: &str| escaped(text.as_bytes(), Layout::Line);
    // The caller's own choices are always said; what is merely good to know only to a person.
    for warning in &record.warnings {
        if environment.is_terminal_err || warning.starts_with("--dangerously") {
            writeln!(err, "eclusa: warning: {}", plain(warning))?;
        }
    }
    if args.json {
        let mut record = record.clone();
        if !args.timings {
            record.timings = None;
        }
        let mut object = Vec::new();
        encode::ascii(&mut object, &record)?;
        object.push(b'\n');
        out.write_all(&object)?;
        return Ok(());
    }
    if let Some(error) = &record.error {
        writeln!(err, "eclusa: {}", plain(error))?;
    }
    for reached in record.limits.iter().filter(|reached| reached.is_certain()) {
        writeln!(err, "eclusa: limit reached: {}", plain(&reached.detail))?;
    }
    if args.timings {
        for timing in record.timings.iter().flatten() {
            writeln!(err, "eclusa: {:>8} ms  {}", timing.at_ms, timing.phase)?;
        }
    }
    Ok(())
}
