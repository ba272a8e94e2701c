//! What applies a plan. An engine may fail to apply a field; it cannot forget one.

pub mod docker;

use std::{collections::BTreeMap, path::PathBuf, pin::Pin};

use bytes::Bytes;
use futures_util::Stream;
use ipnet::IpNet;
use tokio::io::AsyncWrite;

use super::{
    plan::{Labels, Plan, Slot, Volume},
    spec::Pull,
};

/// An engine that can make sandboxes.
///
/// The order of calls is `image`, `create`, `start`, `wait`, `collect`, `remove`; `kill` and
/// `remove` may come at any time, any number of times.
pub trait Backend {
    /// What the engine is.
    fn engine(&self) -> &Engine;

    /// The image by its reference, pulled where that is allowed.
    fn image(
        &self,
        reference: &str,
        pull: Pull,
    ) -> impl Future<Output = Result<Image, BackendError>> + Send;

    /// Every subnet that a network of the engine has, and what else must not be cut from.
    fn subnets(&self) -> impl Future<Output = Result<Vec<IpNet>, BackendError>> + Send;

    /// The proxy, where one runs.
    fn running_proxy(&self) -> impl Future<Output = Result<Option<Proxy>, BackendError>> + Send;

    /// Finds the proxy, or starts it.
    fn proxy(&self) -> impl Future<Output = Result<Proxy, BackendError>> + Send;

    /// One call of the proxy's admin socket: its status and body.
    fn admin(
        &self,
        proxy: &Proxy,
        call: AdminCall<'_>,
    ) -> impl Future<Output = Result<(u16, Bytes), BackendError>> + Send;

    /// Makes everything of the plan but starts nothing of the sandbox; what exists in the end has
    /// been held against the plan. The parts are made side by side. Not to be cancelled: an engine
    /// ends what it was asked for also when nobody waits for it any more, after any removal.
    fn create(
        &self,
        plan: &Plan,
        proxy: Option<&Proxy>,
    ) -> impl Future<Output = Result<(), BackendError>> + Send;

    /// Makes a slot, of which `create` then takes what a plan has of it; what exists in the end has
    /// been held against the slot. Not to be cancelled either.
    fn make_slot(
        &self,
        slot: &Slot,
        labels: &Labels,
        proxy: &Proxy,
    ) -> impl Future<Output = Result<(), BackendError>> + Send;

    /// Puts a tar archive into a volume of the plan.
    fn fill(
        &self,
        plan: &Plan,
        volume: &Volume,
        archive: ByteStream,
    ) -> impl Future<Output = Result<(), BackendError>> + Send;

    /// Starts the command, attached from its first byte.
    fn start(&self, plan: &Plan) -> impl Future<Output = Result<Streams, BackendError>> + Send;

    /// Waits until the command has ended, and confirms that nothing of the sandbox runs.
    fn wait(&self, plan: &Plan) -> impl Future<Output = Result<Ended, BackendError>> + Send;

    /// How much of its limits the sandbox uses now.
    fn usage(&self, plan: &Plan) -> impl Future<Output = Result<Usage, BackendError>> + Send;

    /// Kills every process of the sandbox; that it has ended already is as good.
    fn kill(&self, plan: &Plan) -> impl Future<Output = Result<(), BackendError>> + Send;

    /// The content of a volume of the plan, as a tar archive.
    fn collect(&self, plan: &Plan, volume: &Volume) -> ByteStream;

    /// Removes everything of the plan but its slot, which was made by others and is reaped by its
    /// objects; that something is gone already is as good.
    fn remove(
        &self,
        plan: &Plan,
        proxy: Option<&Proxy>,
    ) -> impl Future<Output = Result<(), BackendError>> + Send;

    /// Every object that bears the launcher's labels, whoever made it.
    fn objects(&self) -> impl Future<Output = Result<Vec<Object>, BackendError>> + Send;

    /// Removes one such object, and says whether it was still there; a network is first taken from
    /// whatever is attached to it.
    fn reap(&self, object: &Object) -> impl Future<Output = Result<bool, BackendError>> + Send;
}

/// Bytes as they come.
pub type ByteStream = Pin<Box<dyn Stream<Item = Result<Bytes, BackendError>> + Send>>;

/// What an engine is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Engine {
    /// Docker or Podman.
    pub kind: EngineKind,
    /// Its version, e.g. `28.5.2`.
    pub version: String,
    /// The version of its default runtime, where it says so.
    pub runtime_version: Option<String>,
    /// Whether it runs on this machine, so that paths mean the same to it: it is reached by a unix
    /// socket.
    pub is_local: bool,
    /// The sockets that must not be mounted: the engine's own.
    pub socket: Option<PathBuf>,
}

/// A family of engines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EngineKind {
    /// Docker, or what behaves like it.
    Docker,
    /// Podman's compatible API.
    Podman,
}

/// An image, as far as a plan needs it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Image {
    /// Its id, a digest.
    pub id: String,
    /// Its environment.
    pub env: Vec<(String, String)>,
    /// Paths that it declares as volumes.
    pub volumes: Vec<String>,
}

/// The proxy container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proxy {
    /// The container's id.
    pub id: String,
    /// Its name.
    pub name: String,
    /// Its image's id.
    pub image: String,
    /// Its host name, by which its admin socket is told from another's.
    pub hostname: String,
    /// Where its admin socket may be reached from here.
    pub socket: Option<PathBuf>,
    /// The fingerprint of the configuration in force; none where it does not tell.
    pub config: Option<String>,
}

/// A call of the admin socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AdminCall<'a> {
    /// The method, e.g. `PUT`.
    pub method: &'a str,
    /// The path, e.g. `/v1/runs/01JD`.
    pub path: &'a str,
    /// The body, JSON; empty for none.
    pub body: &'a str,
}

/// The streams of a running command.
pub struct Streams {
    /// What it writes, in order.
    pub output: Pin<Box<dyn Stream<Item = Result<Chunk, BackendError>> + Send>>,
    /// Its standard input, where the plan has one; shutting it down is the end of the file.
    pub input: Option<Pin<Box<dyn AsyncWrite + Send>>>,
}

/// A piece of output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Chunk {
    /// From standard output.
    Stdout(Bytes),
    /// From standard error.
    Stderr(Bytes),
}

/// How a command ended, confirmed by the engine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ended {
    /// Its exit code; 128 and the signal's number where a signal ended it.
    pub exit_code: i64,
    /// Whether the kernel killed something in the sandbox for memory.
    pub oom_killed: bool,
    /// What the engine says went wrong.
    pub error: Option<String>,
}

/// What a sandbox uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Processes and threads.
    pub pids: Option<u64>,
}

/// Something that bears the launcher's labels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Object {
    /// What it is.
    pub kind: ObjectKind,
    /// Its id; of a volume its name.
    pub id: String,
    /// Its name.
    pub name: String,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
}

/// Kinds of objects, in the order in which they are reaped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ObjectKind {
    /// A container.
    Container,
    /// A network.
    Network,
    /// A volume.
    Volume,
}

/// Why an engine did not do it.
#[derive(Debug, thiserror::Error)]
pub enum BackendError {
    /// Nothing answers.
    #[error(
        "no engine answers at {endpoint}: {why}; start it, or name another with --host or DOCKER_HOST"
    )]
    Unreachable {
        /// Where it was sought.
        endpoint: String,
        /// What the transport says.
        why: String,
    },
    /// There is no such image.
    #[error("there is no image {0}; pull or build it, or check the name")]
    NoImage(String),
    /// The range is in use.
    #[error("the network range {0} is in use")]
    SubnetTaken(IpNet),
    /// A network that was asked for by name cannot be joined.
    #[error("network {name}: {why}")]
    Network {
        /// Its name.
        name: String,
        /// Why.
        why: String,
    },
    /// What the engine made is not what was planned.
    #[error(
        "the engine did not apply {what}: planned {planned}, got {got}; the sandbox was not started"
    )]
    NotApplied {
        /// The field.
        what: String,
        /// As planned.
        planned: String,
        /// As the engine reports it.
        got: String,
    },
    /// There is no such command in the image.
    #[error("there is no command {0:?} in the image")]
    CommandNotFound(String),
    /// The command cannot be executed.
    #[error("{0:?} cannot be executed")]
    CommandNotExecutable(String),
    /// The engine cannot do it at all.
    #[error("{0}")]
    Unsupported(String),
    /// The proxy does not do its part.
    #[error("the proxy {0}")]
    Proxy(String),
    /// The engine went away, or took too long.
    #[error("the engine does not answer, failed to {doing}: {why}")]
    Gone {
        /// What was being done.
        doing: String,
        /// What the transport says.
        why: String,
    },
    /// The engine refused.
    #[error("failed to {doing}: {why}")]
    Refused {
        /// What was being done.
        doing: String,
        /// What the engine says.
        why: String,
    },
}
