//! `eclusa run`: one command in a fresh sandbox.

mod args;
mod refusals;
mod show;

use std::{io::Write, process::ExitCode};

pub(crate) use self::args::RunArgs;
use self::show::Show;
use comfy_table::{Cell, CellAlignment, Table};
use tokio::time::Instant;

use super::{
    Environment, config_file, engine,
    keep::{self, KeepArgs},
    runtime::block_on,
    signals::Signals,
    table::{plain_table, print_table},
};
use crate::{
    launcher::{Io, LaunchError, Launcher, Settings, pool, spec::NetworkChoice},
    record::{
        RunRecord, Timing, encode,
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
    let began = Instant::now();
    let loaded = config_file::load_if_any(args.config.as_deref(), environment)?;
    let defaults = config_file::launcher(loaded.as_ref());
    let mut spec = args.spec(defaults.timeout)?;
    if let Some(loaded) = &loaded {
        args::check_policy(&spec, &loaded.config)?;
    }
    spec.stdin = args.stdin;
    let record = args.record.clone().or(defaults.record);
    let settings = Settings::of_this_process(defaults.pool, record).map_err(LaunchError::State)?;
    let ran = block_on(async {
        let stop = Signals::catch()?.into_stop();
        let backend = engine::connect(&args.engine, environment, loaded.as_ref()).await?;
        let launcher = Launcher::new(backend, settings.clone());
        let (io, show) = Show::prepare(args, environment, spec.max_output)?;
        let io = Io { stop, began, ..io };
        let (record, shown) = tokio::join!(launcher.run(&spec, io), show.follow());
        let record = record?;
        shown.finish(&record).await;
        Ok(record)
    });
    if spec.network == NetworkChoice::Egress && pool::is_wanted(&settings) {
        let keep = KeepArgs {
            config: args.config.clone(),
            engine: args.engine.clone(),
        };
        if let Err(error) = keep::leave_behind(&keep) {
            tracing::warn!(%error, "the pool is not kept; `eclusa up` fills it again");
        }
    }
    ran
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
        let mut object = encode::ascii(&serde_json::to_string(&record)?);
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
        let phases = record.timings.as_deref().unwrap_or_default();
        print_table(&timings(phases), err)?;
    }
    Ok(())
}

/// How long each phase took, and when it ended, both from the start of `eclusa run`.
fn timings(phases: &[Timing]) -> Table {
    let mut table = plain_table(false);
    let number = |text: String| Cell::new(text).set_alignment(CellAlignment::Right);
    let head = |text: &str| number(text.to_owned());
    table.set_header([Cell::new("PHASE"), head("MS"), head("AT MS")]);
    let mut before = 0;
    for Timing { phase, at_ms } in phases {
        let took = at_ms.saturating_sub(before);
        let (took, at) = (number(took.to_string()), number(at_ms.to_string()));
        table.add_row([Cell::new(phase), took, at]);
        before = *at_ms;
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_phase_has_its_own_time_and_its_end() {
        let phases = [("connected", 4), ("prepared", 19), ("started", 131)];
        let phases = phases.map(|(phase, at_ms)| Timing {
            phase: phase.to_owned(),
            at_ms,
        });
        let mut shown = Vec::new();
        print_table(&timings(&phases), &mut shown).unwrap();
        insta::assert_snapshot!(String::from_utf8(shown).unwrap(), @r"
        PHASE       MS  AT MS
        connected    4      4
        prepared    15     19
        started    112    131
        ");
    }
}
