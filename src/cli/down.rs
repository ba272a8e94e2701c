//! `eclusa down`: no proxy container, and nothing of it but its audit log.

use std::{io::Write, process::ExitCode};

use super::{Environment, engine, runtime::block_on};
use crate::{
    config,
    launcher::{
        Settings,
        pool::{self, Turn},
        proxy::Down,
    },
};

/// `eclusa down`
#[derive(Debug, clap::Args)]
pub(crate) struct DownArgs {
    #[command(flatten)]
    pub(crate) engine: engine::EngineArgs,
    /// Print what was done as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Stops it, unless runs use it.
pub(crate) fn run(
    args: &DownArgs,
    environment: &Environment,
    out: &mut dyn Write,
) -> anyhow::Result<ExitCode> {
    let settings = Settings::of_this_process(config::Launcher::default().pool, None).ok();
    let down = block_on(async {
        let engine = engine::connect(&args.engine, environment, None).await?;
        let Some(settings) = settings else {
            return Ok(engine.down().await?);
        };
        // Nobody makes a slot for it meanwhile.
        let _turn = Turn::wait(&settings).await?;
        let down = engine.down().await?;
        pool::forget(&settings)?;
        Ok(down)
    })?;
    if args.json {
        serde_json::to_writer(&mut *out, &down)?;
        writeln!(out)?;
    } else {
        write!(out, "{}", in_words(&down))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn in_words(down: &Down) -> String {
    let mut lines: Vec<String> = down
        .removed
        .iter()
        .map(|removed| format!("removed {removed}"))
        .collect();
    if lines.is_empty() {
        lines.push("there was no proxy".to_owned());
    }
    if let Some(volume) = &down.kept {
        lines.push(format!("kept volume {volume}, the audit log"));
    }
    lines.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn down_says_what_went_and_what_stays() {
        assert_eq!(in_words(&Down::default()), "there was no proxy\n");
        let down = Down {
            removed: vec!["container eclusa-proxy".to_owned()],
            kept: Some("eclusa-audit".to_owned()),
        };
        assert_eq!(
            in_words(&down),
            "removed container eclusa-proxy\nkept volume eclusa-audit, the audit log\n"
        );
    }
}
