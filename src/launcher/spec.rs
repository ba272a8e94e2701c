//! What was asked of the launcher. `RunSpec::new` has every limit at its default, so that none can
//! be forgotten.

mod credential;
mod quantity;

use std::{path::PathBuf, time::Duration};

pub use self::{
    credential::looks_like_a_credential,
    quantity::{Quantity, QuantityError, cpus, timeout},
};
use crate::policy::Pattern;

/// One execution as its author asks for it.
#[derive(Clone, Debug, PartialEq)]
pub struct RunSpec {
    /// The image, by name, tag, digest or id.
    pub image: String,
    /// The command and its arguments; the image's own entrypoint and command are not used.
    pub command: Vec<String>,
    /// A profile of the proxy's configuration.
    pub profile: Option<String>,
    /// Hosts that this run may reach besides its profile's.
    pub allow: Vec<Pattern>,
    /// The network.
    pub network: NetworkChoice,
    /// What stands at `/input`.
    pub input: Option<Input>,
    /// Where the files of `/output` go; without it there is no `/output`.
    pub output: Option<PathBuf>,
    /// Wall-clock time from the start of the command.
    pub timeout: Duration,
    /// What it may use.
    pub limits: Limits,
    /// Whom it runs as.
    pub user: User,
    /// Whether that may be user or group 0.
    pub dangerously_run_as_root: bool,
    /// Variables besides those that the launcher sets; they win over them.
    pub env: Vec<(String, String)>,
    /// Whether what looks like a credential may be among them.
    pub dangerously_allow_secret_env: bool,
    /// The working directory, an absolute path.
    pub workdir: String,
    /// The system call filter.
    pub seccomp: Seccomp,
    /// The engine's runtime, such as `runsc`; none: the engine's default.
    pub runtime: Option<String>,
    /// Whether a missing image may be pulled.
    pub pull: Pull,
    /// The most kept of standard output and of standard error, in bytes each.
    pub max_output: usize,
    /// Whether the command gets a standard input; else it reads an empty one.
    pub stdin: bool,
}

/// The network of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NetworkChoice {
    /// Only a loopback interface.
    None,
    /// A private network with the proxy and nobody else.
    Egress,
    /// A network that exists: internal and without a host address, unless the caller takes the
    /// danger.
    Named {
        /// Its name or id.
        name: String,
        /// `--dangerously-allow-network`.
        dangerously_allow: bool,
    },
}

/// What stands at `/input`, read-only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// A directory of the engine's host, bound.
    Bind(PathBuf),
    /// A directory whose content is copied in.
    Copy(PathBuf),
}

/// What a run may use; every size in bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// Memory, without swap; what lies in a tmpfs counts.
    pub memory: u64,
    /// Processors, in thousand-millionths of one.
    pub nano_cpus: u64,
    /// Processes and threads at once.
    pub pids: u32,
    /// Open files of one process.
    pub nofile: u32,
    /// The size of one file.
    pub fsize: u64,
    /// `/workspace`.
    pub workspace: u64,
    /// `/tmp`.
    pub tmp: u64,
    /// `/output`.
    pub output: u64,
}

/// A user and group id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct User {
    /// The user id.
    pub uid: u32,
    /// The group id.
    pub gid: u32,
}

/// The system call filter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seccomp {
    /// Ours, `config/agent-seccomp.json`.
    BuiltIn,
    /// The content of a profile in Docker's JSON form.
    Custom(String),
}

/// Whether a missing image may be pulled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pull {
    /// Pull it.
    Missing,
    /// It is an error.
    Never,
}

impl RunSpec {
    /// `command` in `image` with every default: no network, no input, no output.
    pub fn new(
        image: impl Into<String>,
        command: impl IntoIterator<Item = impl Into<String>>,
    ) -> Self {
        Self {
            image: image.into(),
            command: command.into_iter().map(Into::into).collect(),
            profile: None,
            allow: Vec::new(),
            network: NetworkChoice::None,
            input: None,
            output: None,
            timeout: Duration::from_secs(30),
            limits: Limits::default(),
            user: User::NOBODY,
            dangerously_run_as_root: false,
            env: Vec::new(),
            dangerously_allow_secret_env: false,
            workdir: "/workspace".to_owned(),
            seccomp: Seccomp::BuiltIn,
            runtime: None,
            pull: Pull::Missing,
            max_output: 100_000,
            stdin: false,
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        const MIB: u64 = 1024 * 1024;
        Self {
            memory: 512 * MIB,
            nano_cpus: 1_000_000_000,
            pids: 64,
            nofile: 256,
            fsize: 50_000_000,
            workspace: 256 * MIB,
            tmp: 64 * MIB,
            output: 100 * MIB,
        }
    }
}

impl User {
    /// 65534:65534, which owns nothing.
    pub const NOBODY: Self = Self {
        uid: 65534,
        gid: 65534,
    };
}
