//! `eclusa up`: the proxy container that `eclusa run` uses.

use std::{io::Write, path::PathBuf, process::ExitCode};

use serde::Serialize;

use super::{Environment, config_file, engine, runtime::block_on};
use crate::launcher::{
    LaunchError, Settings,
    pool::{self, Filled, Pool},
    proxy::{Action, Up},
};

/// `eclusa up`
#[derive(Debug, clap::Args)]
pub(crate) struct UpArgs {
    /// The configuration. Default: $ECLUSA_CONFIG, else /etc/eclusa/eclusa.toml; without any of
    /// them a running proxy keeps what it has, and a new one lets each run reach what it names.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Have this many private networks ready ahead of the runs that will take them, 0 for none; each
    /// is used once and replaced. Default: as many as before.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(..=i64::from(pool::MOST)))]
    pub(crate) pool: Option<u32>,
    #[command(flatten)]
    pub(crate) engine: engine::EngineArgs,
    /// Print what was done as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Starts it, or brings it to what is asked for.
pub(crate) fn run(
    args: &UpArgs,
    environment: &Environment,
    out: &mut dyn Write,
) -> anyhow::Result<ExitCode> {
    let config = config_file::load_if_any(args.config.as_deref(), environment)?;
    for warning in config.iter().flat_map(|loaded| &loaded.config.warnings) {
        tracing::warn!(%warning, "configuration");
    }
    let defaults = config_file::launcher(config.as_ref());
    let settings = Settings::of_this_process(defaults.pool, None);
    let done = block_on(async {
        let engine = engine::connect(&args.engine, environment, config.as_ref()).await?;
        let settings = match (settings, args.pool) {
            (Err(error), Some(_)) => return Err(LaunchError::State(error).into()),
            (settings, _) => settings.ok(),
        };
        let pool = settings.as_ref().map(|own| Pool::new(&engine, own));
        // Asked before: a proxy that is made anew has none.
        let size = match (args.pool, &pool) {
            (Some(size), _) => Some(size),
            (None, Some(pool)) => pool.size().await.ok().flatten(),
            (None, None) => None,
        };
        let up = engine.up().await?;
        let pool = match (pool, size) {
            (Some(pool), Some(size)) => Some(pool.fill(size).await?),
            (Some(_) | None, _) => None,
        };
        Ok(Done { up, pool })
    })?;
    if args.json {
        serde_json::to_writer(&mut *out, &done)?;
        writeln!(out)?;
    } else {
        write!(out, "{}", in_words(&done.up))?;
        if let Some(Filled {
            idle,
            made,
            removed,
        }) = done.pool
        {
            writeln!(
                out,
                "pool:      {idle} ready, {made} made, {removed} removed"
            )?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// What it did, and what became of the pool.
#[derive(Debug, Serialize)]
struct Done {
    #[serde(flatten)]
    up: Up,
    #[serde(skip_serializing_if = "Option::is_none")]
    pool: Option<Filled>,
}

fn in_words(up: &Up) -> String {
    let action = match up.action {
        Action::Started => "started",
        Action::None => "runs already, as asked for",
        Action::Reloaded => "took up the configuration",
        Action::Replaced => "made anew",
    };
    let mut lines = vec![
        format!("{}: {action}", up.container),
        format!("image:     {}", up.image),
        format!("address:   {}", up.address.as_deref().unwrap_or("none")),
        format!(
            "audit log: {} in volume {}{}",
            up.audit.file,
            up.audit.volume,
            up.audit
                .mountpoint
                .as_ref()
                .map_or_else(String::new, |folder| format!(" ({folder})"))
        ),
    ];
    lines.extend(
        up.changes
            .iter()
            .map(|change| format!("changed:   {change}")),
    );
    lines.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::launcher::proxy::AuditPlace;

    #[test]
    fn up_says_what_runs_and_where_the_audit_log_is() {
        let up = Up {
            action: Action::Reloaded,
            container: "eclusa-proxy".to_owned(),
            id: "c0ffee".to_owned(),
            image: "sha256:ba7816bf".to_owned(),
            address: Some("172.18.0.2".to_owned()),
            config: "5e77".to_owned(),
            audit: AuditPlace {
                volume: "eclusa-audit".to_owned(),
                mountpoint: Some("/var/lib/docker/volumes/eclusa-audit/_data".to_owned()),
                file: "audit.jsonl",
            },
            changes: vec!["profiles.default: allows api.example.com".to_owned()],
        };
        insta::assert_snapshot!(in_words(&up), @r"
        eclusa-proxy: took up the configuration
        image:     sha256:ba7816bf
        address:   172.18.0.2
        audit log: audit.jsonl in volume eclusa-audit (/var/lib/docker/volumes/eclusa-audit/_data)
        changed:   profiles.default: allows api.example.com
        ");
        let bare = Up {
            address: None,
            audit: AuditPlace {
                mountpoint: None,
                ..up.audit.clone()
            },
            ..up
        };
        assert!(in_words(&bare).contains("audit.jsonl in volume eclusa-audit\n"));
    }
}
