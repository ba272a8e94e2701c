//! `eclusa doctor`: whether the boundaries hold on this host.

use std::{
    io::{self, Write},
    path::PathBuf,
    process::ExitCode,
    time::Duration,
};

use comfy_table::{Cell, Color};
use indicatif::{ProgressBar, ProgressStyle};

use super::{
    CliError, Environment, Exit, config_file, engine,
    json::json,
    runtime::block_on,
    signals::Signals,
    table::{plain_table, print_table},
};
use crate::{
    config,
    doctor::{
        Doctor, Examination,
        judge::{Finding, Verdict},
    },
    launcher::{LaunchError, Settings},
    record::escape::{Layout, escaped},
    review::counted,
};

/// `eclusa doctor`
#[derive(Debug, clap::Args)]
pub(crate) struct DoctorArgs {
    /// The configuration. Default: $ECLUSA_CONFIG, else /etc/eclusa/eclusa.toml, if any.
    #[arg(short, long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// A network of yours, such as that of your sidecar. Default: a private one, as `run` makes it.
    #[arg(long, value_name = "NAME")]
    network: Option<String>,
    #[command(flatten)]
    engine: engine::EngineArgs,
    /// Print everything that was tried as JSON.
    #[arg(long)]
    json: bool,
}

/// How often the progress moves.
const TICK: Duration = Duration::from_millis(100);

/// Examines it. A boundary that does not hold is 1.
pub(crate) fn run(
    args: &DoctorArgs,
    environment: &Environment,
    out: &mut dyn Write,
) -> anyhow::Result<ExitCode> {
    let loaded = config_file::load_if_any(args.config.as_deref(), environment)?;
    let defaults = loaded
        .as_ref()
        .map_or_else(config::Launcher::default, |loaded| {
            loaded.config.launcher.clone()
        });
    let settings =
        Settings::of_this_process(defaults.pool, defaults.record).map_err(LaunchError::State)?;
    let bar = progress(environment.is_terminal_err);
    let examination = block_on(async {
        let stop = Signals::catch()?.into_stop();
        bar.set_message("connecting to the engine");
        let docker = engine::connect(&args.engine, environment, loaded.as_ref()).await?;
        bar.set_message("making the image of this binary");
        let doctor = Doctor::new(docker, settings, args.network.clone()).await?;
        let tell = |text: &str| bar.set_message(text.to_owned());
        Ok(doctor.examine(&stop, &tell).await?)
    });
    bar.finish_and_clear();
    // Whatever kept it from being tried, nothing is proven.
    let examination = examination.map_err(|error| CliError::Failed(format!("{error:#}")))?;
    if args.json {
        json(&examination, out)?;
    } else {
        report(&examination, environment.colour_out, out)?;
    }
    Ok(if examination.held {
        ExitCode::SUCCESS
    } else {
        Exit::Denied.into()
    })
}

/// A line that says what is under way; elsewhere than on a terminal, nothing.
fn progress(is_terminal: bool) -> ProgressBar {
    if !is_terminal {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new_spinner();
    let style = ProgressStyle::with_template("{spinner} {elapsed} {msg}");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
    bar.enable_steady_tick(TICK);
    bar
}

/// Prints a line for each probe, and below it what to do.
fn report(examination: &Examination, colour: bool, out: &mut dyn Write) -> io::Result<()> {
    // Security: what a sandbox or an engine told stands in most of these.
    let plain = |text: &str| escaped(text.as_bytes(), Layout::Line);
    let versions = &examination.versions;
    let unknown = "not told";
    writeln!(
        out,
        "{}, runtime {}, kernel {}\n",
        plain(&versions.engine),
        plain(versions.runtime.as_deref().unwrap_or(unknown)),
        plain(versions.kernel.as_deref().unwrap_or(unknown)),
    )?;
    let mut table = plain_table(colour);
    table.set_header(["PROBE", "TRIED", "HAPPENED", "VERDICT"]);
    for finding in &examination.probes {
        table.add_row([
            Cell::new(finding.probe),
            Cell::new(finding.tried),
            Cell::new(plain(&finding.happened)),
            verdict(finding.verdict),
        ]);
    }
    print_table(&table, out)?;
    writeln!(out)?;
    let of = |verdict: Verdict| {
        let findings = examination.probes.iter();
        findings.filter(move |finding| finding.verdict == verdict)
    };
    for (remedy, probes) in remedies(of(Verdict::NotHeld)) {
        writeln!(out, "{}: {remedy}", probes.join(", "))?;
    }
    for advice in &examination.advice {
        writeln!(out, "warning: {}", plain(advice))?;
    }
    for note in &examination.notes {
        writeln!(out, "note: {note}")?;
    }
    let (held, open) = (of(Verdict::Held).count(), of(Verdict::Open).count());
    let all = counted(examination.probes.len(), "probe");
    let open = match open {
        0 => String::new(),
        open => format!(", {open} left open by such a network"),
    };
    writeln!(out, "{held} of {all} held{open}")
}

/// What to do, each once, with the probes that call for it.
fn remedies<'f>(findings: impl Iterator<Item = &'f Finding>) -> Vec<(&'static str, Vec<String>)> {
    let mut remedies: Vec<(&'static str, Vec<String>)> = Vec::new();
    for finding in findings {
        let (probe, remedy) = (
            finding.probe.to_string(),
            finding.remedy.unwrap_or_default(),
        );
        match remedies.iter_mut().find(|(known, _)| *known == remedy) {
            Some((_, probes)) => probes.push(probe),
            None => remedies.push((remedy, vec![probe])),
        }
    }
    remedies
}

fn verdict(verdict: Verdict) -> Cell {
    match verdict {
        Verdict::Held => Cell::new("held").fg(Color::Green),
        Verdict::Open => Cell::new("open").fg(Color::Yellow),
        Verdict::NotHeld => Cell::new("NOT HELD").fg(Color::Red),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::{Ground, Probe, Versions, judge::Seen};

    fn finding(probe: Probe, verdict: Verdict, happened: &str) -> Finding {
        Finding {
            probe,
            tried: "an attempt",
            happened: happened.to_owned(),
            verdict,
            remedy: (verdict != Verdict::Held).then_some("do something"),
            observations: vec![Seen {
                what: "this".to_owned(),
                result: "EPERM".to_owned(),
            }],
        }
    }

    #[test]
    fn a_line_says_what_happened_and_what_to_do() {
        let examination = Examination {
            schema: 1,
            ground: Ground::Shared,
            network: Some("agents".to_owned()),
            versions: Versions {
                engine: "Docker 28.5.2".to_owned(),
                runtime: None,
                kernel: Some("6.12.0".to_owned()),
            },
            advice: vec!["an old engine".to_owned()],
            notes: vec!["a shared network".to_owned()],
            held: false,
            probes: vec![
                finding(Probe::HostTcp, Verdict::NotHeld, "192.0.2.1:80: connected"),
                finding(Probe::HostUdp, Verdict::NotHeld, "192.0.2.1:80: answered"),
                finding(Probe::Neighbour, Verdict::Open, "connected"),
                finding(Probe::Pids, Verdict::Held, "hostile\u{1b}[2J"),
            ],
        };
        let mut out = Vec::new();
        report(&examination, false, &mut out).unwrap();
        insta::assert_snapshot!(String::from_utf8(out).unwrap(), @r"
        Docker 28.5.2, runtime not told, kernel 6.12.0

        PROBE      TRIED       HAPPENED                 VERDICT
        host_tcp   an attempt  192.0.2.1:80: connected  NOT HELD
        host_udp   an attempt  192.0.2.1:80: answered   NOT HELD
        neighbour  an attempt  connected                open
        pids       an attempt  hostile\u{1b}[2J         held

        host_tcp, host_udp: do something
        warning: an old engine
        note: a shared network
        1 of 4 probes held, 1 left open by such a network
        ");
    }
}
