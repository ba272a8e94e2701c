//! The options of `eclusa run`, and the run that they ask for.

use std::{fs, path::PathBuf, time::Duration};

use crate::{
    cli::{CliError, engine::EngineArgs},
    config::Config,
    launcher::spec::{
        Input, Limits, NetworkChoice, Pull, Quantity, RunSpec, Seccomp, User, cpus, timeout,
    },
    policy::Pattern,
};

/// `eclusa run`
#[derive(Debug, clap::Args)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a switch of the command line"
)]
pub(crate) struct RunArgs {
    /// The image: a name, or better a digest or id.
    pub(crate) image: String,
    /// The command and its arguments.
    #[arg(
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "COMMAND"
    )]
    pub(crate) command: Vec<String>,

    /// The configuration. Default: $ECLUSA_CONFIG, else /etc/eclusa/eclusa.toml where it exists,
    /// else built-in defaults.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// A profile of the configuration; the run may reach what it allows.
    #[arg(long, value_name = "NAME")]
    pub(crate) profile: Option<String>,
    /// A host that this run may reach besides; may be repeated.
    #[arg(long, value_name = "HOST[:PORT]", value_parser = parse_allow)]
    pub(crate) allow: Vec<Pattern>,
    /// none, egress (a private network with the proxy), or the name of an internal network.
    /// Default: egress where --allow or --profile is given, else none.
    #[arg(long, value_name = "NETWORK")]
    pub(crate) network: Option<String>,
    /// Join the named network although it reaches the host or the world.
    #[arg(long)]
    pub(crate) dangerously_allow_network: bool,

    /// A directory bound read-only at /input.
    #[arg(long, value_name = "DIR", conflicts_with = "input_copy")]
    pub(crate) input: Option<PathBuf>,
    /// A directory copied to /input: for private directories and engines elsewhere.
    #[arg(long, value_name = "DIR")]
    pub(crate) input_copy: Option<PathBuf>,
    /// Where the files of /output go: a directory that is empty or does not exist.
    #[arg(long, value_name = "DIR")]
    pub(crate) output: Option<PathBuf>,

    /// Wall-clock time of the command, 100ms to 7 days. Default: launcher.timeout of the
    /// configuration, else 30s.
    #[arg(long, value_name = "TIME", value_parser = parse_timeout)]
    pub(crate) timeout: Option<Duration>,
    /// Memory without swap, files in memory included.
    #[arg(long, value_name = "SIZE", default_value = "512m", value_parser = |text: &str| Quantity::Memory.parse(text))]
    pub(crate) memory: u64,
    /// Processors.
    #[arg(long, value_name = "NUMBER", default_value = "1", value_parser = cpus)]
    pub(crate) cpus: u64,
    /// Processes and threads.
    #[arg(long, value_name = "NUMBER", default_value_t = 64, value_parser = clap::value_parser!(u32).range(2..=4_194_304))]
    pub(crate) pids: u32,
    /// Open files of one process.
    #[arg(long, value_name = "NUMBER", default_value_t = 256, value_parser = clap::value_parser!(u32).range(16..=1_048_576))]
    pub(crate) nofile: u32,
    /// The size of one file.
    #[arg(long, value_name = "SIZE", default_value = "50MB", value_parser = |text: &str| Quantity::File.parse(text))]
    pub(crate) fsize: u64,
    /// The size of /workspace.
    #[arg(long, value_name = "SIZE", default_value = "256m", value_parser = |text: &str| Quantity::Room.parse(text))]
    pub(crate) workspace_size: u64,
    /// The size of /tmp, and of each volume that the image declares.
    #[arg(long, value_name = "SIZE", default_value = "64m", value_parser = |text: &str| Quantity::Room.parse(text))]
    pub(crate) tmp_size: u64,
    /// The size of /output.
    #[arg(long, value_name = "SIZE", default_value = "100m", value_parser = |text: &str| Quantity::Room.parse(text))]
    pub(crate) output_size: u64,
    /// The most kept of standard output and of standard error, in bytes each.
    #[arg(long, value_name = "SIZE", default_value = "100000", value_parser = |text: &str| Quantity::Kept.parse(text))]
    pub(crate) max_output: u64,

    /// Whom the command runs as, numeric.
    #[arg(long, value_name = "UID:GID", default_value = "65534:65534", value_parser = parse_user)]
    pub(crate) user: User,
    /// Let that be user or group 0.
    #[arg(long)]
    pub(crate) dangerously_run_as_root: bool,
    /// A variable of its environment; may be repeated.
    #[arg(long, value_name = "NAME=VALUE", value_parser = parse_variable)]
    pub(crate) env: Vec<(String, String)>,
    /// Let variables be passed that look like credentials.
    #[arg(long)]
    pub(crate) dangerously_allow_secret_env: bool,
    /// The working directory.
    #[arg(long, value_name = "PATH", default_value = "/workspace")]
    pub(crate) workdir: String,
    /// A system call filter in Docker's JSON form, instead of ours.
    #[arg(long, value_name = "FILE")]
    pub(crate) seccomp: Option<PathBuf>,
    /// The engine's runtime, for example runsc.
    #[arg(long, value_name = "NAME")]
    pub(crate) runtime: Option<String>,
    /// Whether an image that is not there is pulled.
    #[arg(long, value_enum, default_value_t = PullChoice::Missing)]
    pub(crate) pull: PullChoice,

    #[command(flatten)]
    pub(crate) engine: EngineArgs,
    /// The launcher's record file. Default: launcher.record of the configuration, else
    /// eclusa/runs.jsonl in $XDG_STATE_HOME.
    #[arg(long, value_name = "FILE")]
    pub(crate) record: Option<PathBuf>,
    /// Print the whole record, one JSON object, and nothing else.
    #[arg(long)]
    pub(crate) json: bool,
    /// Pass our standard input to the command; else it reads an empty one.
    #[arg(long)]
    pub(crate) stdin: bool,
    /// Say how long each phase took.
    #[arg(long)]
    pub(crate) timings: bool,
}

/// `--pull`
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum PullChoice {
    Missing,
    Never,
}

impl RunArgs {
    /// The run that is asked for.
    pub(super) fn spec(&self, default_timeout: Duration) -> anyhow::Result<RunSpec> {
        let seccomp = match &self.seccomp {
            None => Seccomp::BuiltIn,
            Some(path) => Seccomp::Custom(read_profile(path)?),
        };
        let input = self.input.clone().map(Input::Bind);
        let image = RunSpec::new(&self.image, &self.command);
        Ok(RunSpec {
            profile: self.profile.clone(),
            allow: self.allow.clone(),
            network: self.network(),
            input: input.or_else(|| self.input_copy.clone().map(Input::Copy)),
            output: self.output.clone(),
            timeout: self.timeout.unwrap_or(default_timeout),
            limits: Limits {
                memory: self.memory,
                nano_cpus: self.cpus,
                pids: self.pids,
                nofile: self.nofile,
                fsize: self.fsize,
                workspace: self.workspace_size,
                tmp: self.tmp_size,
                output: self.output_size,
            },
            user: self.user,
            dangerously_run_as_root: self.dangerously_run_as_root,
            env: self.env.clone(),
            dangerously_allow_secret_env: self.dangerously_allow_secret_env,
            workdir: self.workdir.clone(),
            seccomp,
            runtime: self.runtime.clone(),
            pull: match self.pull {
                PullChoice::Missing => Pull::Missing,
                PullChoice::Never => Pull::Never,
            },
            max_output: usize::try_from(self.max_output)?,
            stdin: self.stdin,
            ..image
        })
    }

    fn network(&self) -> NetworkChoice {
        let has_policy = self.profile.is_some() || !self.allow.is_empty();
        match self.network.as_deref() {
            None if has_policy => NetworkChoice::Egress,
            None | Some("none") => NetworkChoice::None,
            Some("egress") => NetworkChoice::Egress,
            Some(name) => NetworkChoice::Named {
                name: name.to_owned(),
                dangerously_allow: self.dangerously_allow_network,
            },
        }
    }
}

/// What the configuration says of the run before anything is made; the proxy decides the same
/// again.
pub(super) fn check_policy(spec: &RunSpec, config: &Config) -> anyhow::Result<()> {
    config
        .policies
        .for_run(spec.profile.as_deref(), &spec.allow)
        .map_err(|error| CliError::Failed(error.to_string()))?;
    match config.policies.beyond_ceiling(&spec.allow) {
        Some(beyond) => Err(CliError::Failed(format!(
            "--allow {beyond} is beyond the ceiling that [launcher] sets"
        ))
        .into()),
        None => Ok(()),
    }
}

fn read_profile(path: &PathBuf) -> anyhow::Result<String> {
    let failed = |why: String| CliError::Failed(format!("--seccomp {}: {why}", path.display()));
    let text = fs::read_to_string(path).map_err(|error| failed(error.to_string()))?;
    let profile: serde_json::Value =
        serde_json::from_str(&text).map_err(|error| failed(error.to_string()))?;
    // Security: a profile without it is no filter at all, and engines take it.
    if profile.get("defaultAction").is_none() {
        return Err(
            failed("it has no defaultAction, so it is not a seccomp profile".to_owned()).into(),
        );
    }
    Ok(text)
}

fn parse_allow(text: &str) -> Result<Pattern, String> {
    Pattern::parse_allow(text).map_err(|error| error.to_string())
}

fn parse_timeout(text: &str) -> Result<Duration, String> {
    timeout(text).map_err(|error| error.to_string())
}

fn parse_user(text: &str) -> Result<User, String> {
    let wrong = || format!("{text:?} is not UID:GID, two numbers; write for example 65534:65534");
    let (uid, gid) = text.split_once(':').ok_or_else(wrong)?;
    let id = |digits: &str| {
        let plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        // The last one means "no change" to chown(2) and setreuid(2).
        digits
            .parse::<u32>()
            .ok()
            .filter(|id| plain && *id != u32::MAX)
    };
    Ok(User {
        uid: id(uid).ok_or_else(wrong)?,
        gid: id(gid).ok_or_else(wrong)?,
    })
}

fn parse_variable(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        // Security: Docker would take the value from the launcher's own environment.
        _ => Err(format!(
            "{text:?} is not NAME=VALUE; nothing is taken from the environment of the launcher"
        )),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        run: RunArgs,
    }

    fn read(args: &[&str]) -> Result<RunSpec, String> {
        let words = ["run"].iter().chain(args).chain(&["image", "true", "-x"]);
        let command = Command::try_parse_from(words).map_err(|error| error.to_string())?;
        command
            .run
            .spec(Duration::from_secs(30))
            .map_err(|error| error.to_string())
    }

    #[test]
    fn without_options_it_is_the_default_run() {
        assert_eq!(read(&[]), Ok(RunSpec::new("image", ["true", "-x"])));
    }

    #[test]
    fn options_reach_the_run() {
        let spec = read(&[
            "--allow",
            "api.example.com:8443",
            "--memory",
            "1g",
            "--cpus",
            "0.5",
            "--timeout",
            "5m",
            "--env",
            "A=b=c",
            "--user",
            "1000:1000",
        ])
        .unwrap();
        assert_eq!(spec.network, NetworkChoice::Egress);
        assert_eq!(spec.allow[0].to_string(), "api.example.com:8443");
        assert_eq!(
            (spec.limits.memory, spec.limits.nano_cpus),
            (1 << 30, 500_000_000)
        );
        assert_eq!(spec.timeout, Duration::from_mins(5));
        assert_eq!(spec.env, [("A".to_owned(), "b=c".to_owned())]);
        assert_eq!(
            spec.user,
            User {
                uid: 1000,
                gid: 1000
            }
        );
        let named = read(&["--network", "backend"]).unwrap();
        let expected = NetworkChoice::Named {
            name: "backend".to_owned(),
            dangerously_allow: false,
        };
        assert_eq!(named.network, expected);
    }

    #[test]
    fn what_is_odd_is_refused_and_named() {
        for args in [
            ["--memory", "0"],
            ["--memory", "-1"],
            ["--memory", "unlimited"],
            ["--cpus", "0"],
            ["--pids", "0"],
            ["--pids", "-1"],
            ["--nofile", "0"],
            ["--fsize", "0"],
            ["--timeout", "0"],
            ["--timeout", "30"],
            ["--workspace-size", "0"],
            ["--tmp-size", ""],
            ["--output-size", "1kb"],
            ["--max-output", "-1"],
            ["--user", "root"],
            ["--user", "65534"],
            ["--user", "+1:1"],
            ["--user", "4294967295:1"],
            ["--env", "HOME"],
            ["--env", "=x"],
            ["--allow", "*"],
            ["--allow", "*.com"],
            ["--pull", "always"],
        ] {
            // With `=`, so that a minus sign does not begin an option of its own.
            let error = read(&[&args.join("=")]).unwrap_err();
            assert!(error.contains(args[0]), "{args:?}: {error}");
        }
    }
}
