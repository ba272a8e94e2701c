//! What is recorded, schema version 1: one JSON line per event. Never a header, a body, a query
//! string or a secret; what a client chose is escaped and cut (`MAX_FIELD`).

pub(crate) mod encode;
pub(crate) mod escape;

mod chain;
mod digest;
mod line;
mod network;
mod run;

use std::{
    fmt,
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};

pub(crate) use self::chain::Linking;
pub use self::{
    chain::{Link, LinkError},
    digest::{Digest, Hashing},
    line::{Line, LineError},
    network::{AllowedLine, DeniedLine, DnsLine, NetworkSummary},
    run::{Evidence, Limit, LimitReached, Output, OutputFile, RunRecord, SkippedOutput, Timing},
};
use crate::{
    destination::Destination,
    policy::{Decision, Reason},
};

/// The version of the schema, in every line.
pub const SCHEMA: u32 = 1;

/// Every kind of event.
pub const EVENTS: &[&str] = &[
    "decision",
    "close",
    "dns",
    "run_start",
    "run_end",
    "run_expired",
    "reload",
    "start",
    "stop",
    "gap",
];

/// The longest text of a client's choice in one field, in bytes; longer text is cut and ends in
/// `…(N bytes)` with its true length.
pub const MAX_FIELD: usize = 1024;

/// The id of an exchange or event, a ULID: unique, and sorted by time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Id(pub ulid::Ulid);

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The id of a run, given by the launcher: 1 to 64 letters, digits, `-` and `_`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RunId(Arc<str>);

/// The text is not a run id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a run id is 1 to 64 letters, digits, hyphens and underscores")]
pub struct RunIdError;

impl RunId {
    /// Reads a run id.
    pub fn parse(text: &str) -> Result<Self, RunIdError> {
        let plain = (1..=64).contains(&text.len())
            && text
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_');
        if plain {
            Ok(Self(text.into()))
        } else {
            Err(RunIdError)
        }
    }

    /// The id's text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<ulid::Ulid> for RunId {
    fn from(id: ulid::Ulid) -> Self {
        Self(id.to_string().into())
    }
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Whom an event is about.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Subject {
    /// The registered run; none for a client of `[[clients]]`, and for unknown ones.
    pub run: Option<RunId>,
    /// The profile; none for a run with only its own list, and for unknown clients.
    pub profile: Option<Arc<str>>,
    /// The client's address, v4-mapped unwrapped; none on events about the proxy itself.
    pub client: Option<IpAddr>,
}

/// The road a request came by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Via {
    /// CONNECT on the proxy port.
    Connect,
    /// Absolute-form HTTP on the proxy port, or plain HTTP inside a CONNECT to port 80.
    Http,
    /// Transparent TLS, routed by SNI.
    Sni,
    /// Transparent HTTP, routed by Host.
    Host,
}

impl Via {
    /// Every road.
    pub const ALL: &[Self] = &[Self::Connect, Self::Http, Self::Sni, Self::Host];

    /// As the record writes it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Connect => "connect",
            Self::Http => "http",
            Self::Sni => "sni",
            Self::Host => "host",
        }
    }
}

/// What was asked, as far as it could be read.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Asked {
    /// The road.
    pub via: Via,
    /// The method, where there was one.
    pub method: Option<String>,
    /// The destination, where one could be read.
    pub destination: Option<Destination>,
    /// The raw request target, Host or SNI as the client wrote it, without a query; recorded as
    /// `target` where it differs from the canonical destination.
    pub target: Option<String>,
    /// The path without its query, where the proxy saw one.
    pub path: Option<String>,
}

/// A `decision` event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecisionRecord {
    /// Shared with the close of the same exchange.
    pub id: Id,
    /// Whom it is about.
    pub subject: Subject,
    /// What was asked.
    pub asked: Asked,
    /// What was decided.
    pub decision: Decision,
    /// Why.
    pub reason: Reason,
    /// Where the deciding rule stands.
    pub rule: Option<Arc<str>>,
    /// What the name resolved to; empty where nothing was looked up.
    pub addresses: Vec<IpAddr>,
    /// A refusal's HTTP status; none where the connection was cut.
    pub status: Option<u16>,
}

/// How an allowed exchange ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// Both directions ended in order.
    Done,
    /// The client went away first.
    ClientClosed,
    /// The origin went away first.
    UpstreamClosed,
    /// Refused after the decision; `reason` says why.
    Refused,
    /// Nothing flowed for `limits.idle_timeout`.
    Idle,
    /// `limits.lifetime` was over.
    Lifetime,
    /// `limits.max_upload_bytes` were sent.
    Budget,
    /// A reload no longer allows it.
    PolicyChanged,
    /// The run was removed or expired.
    RunEnded,
    /// The proxy stopped.
    Shutdown,
    /// An error on either side, or in the proxy.
    Error,
    /// Found open at the start after a crash.
    Crash,
}

impl Outcome {
    /// Every outcome.
    pub const ALL: &[Self] = &[
        Self::Done,
        Self::ClientClosed,
        Self::UpstreamClosed,
        Self::Refused,
        Self::Idle,
        Self::Lifetime,
        Self::Budget,
        Self::PolicyChanged,
        Self::RunEnded,
        Self::Shutdown,
        Self::Error,
        Self::Crash,
    ];

    /// As the record writes it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::ClientClosed => "client_closed",
            Self::UpstreamClosed => "upstream_closed",
            Self::Refused => "refused",
            Self::Idle => "idle",
            Self::Lifetime => "lifetime",
            Self::Budget => "budget",
            Self::PolicyChanged => "policy_changed",
            Self::RunEnded => "run_ended",
            Self::Shutdown => "shutdown",
            Self::Error => "error",
            Self::Crash => "crash",
        }
    }
}

/// The end of an allowed exchange; id, subject and road are those of its decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Closing {
    /// How it ended.
    pub outcome: Outcome,
    /// What refused it after the decision.
    pub reason: Option<Reason>,
    /// What the client was told.
    pub status: Option<u16>,
    /// The address dialled.
    pub upstream: Option<SocketAddr>,
    /// The server name of the ClientHello, as it stood there.
    pub sni: Option<String>,
    /// Whether the ClientHello carried Encrypted Client Hello; none where there was no hello.
    pub ech: Option<bool>,
    /// Bytes from the client to the origin.
    pub bytes_up: u64,
    /// Bytes from the origin to the client.
    pub bytes_down: u64,
    /// From the decision to the end.
    pub duration: Duration,
}

/// What our DNS server answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DnsAnswer {
    /// An A record with our own address.
    Listener,
    /// NOERROR without an answer.
    Empty,
    /// NXDOMAIN.
    NxDomain,
    /// REFUSED, or NOTIMP, FORMERR and BADVERS for what is not a plain query.
    Refused,
}

impl DnsAnswer {
    /// Every answer.
    pub const ALL: &[Self] = &[Self::Listener, Self::Empty, Self::NxDomain, Self::Refused];

    /// As the record writes it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Listener => "listener",
            Self::Empty => "empty",
            Self::NxDomain => "nxdomain",
            Self::Refused => "refused",
        }
    }
}

/// A `dns` event.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct DnsRecord {
    /// Whom it is about.
    pub subject: Subject,
    /// The name as asked, in master-file escapes (RFC 1035 section 5.1).
    pub name: String,
    /// The type's mnemonic, or `TYPE65399` (RFC 3597).
    pub record_type: String,
    /// What was decided.
    pub decision: Decision,
    /// Why.
    pub reason: Reason,
    /// Where the deciding rule stands.
    pub rule: Option<Arc<str>>,
    /// What was answered.
    pub answer: DnsAnswer,
}

/// What a folded line stands for; the rest of the line is what all its events share.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// How many events.
    pub count: u64,
    /// Some of what they differ in: `host:port`, raw targets or DNS names.
    pub samples: Vec<String>,
}

/// Events that are neither an exchange nor a query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// The proxy started, with its version and the addresses that it listens on.
    Start {
        /// The package version.
        version: &'static str,
        /// Every bound address.
        listeners: Vec<SocketAddr>,
    },
    /// The proxy stopped in order: every exchange before this line is closed.
    Stop,
    /// A reload was tried.
    Reload {
        /// Counts the policies since the start; unchanged when the reload failed.
        generation: u64,
        /// What changed, one line each; on failure the problems.
        changes: Vec<String>,
        /// Whether the new configuration is in force.
        applied: bool,
    },
    /// A run was registered.
    RunStart {
        /// Whom it is about; `client` is its first source.
        subject: Subject,
        /// Its own list, as patterns.
        allow: Vec<String>,
    },
    /// The registration of a run was changed: what follows is judged by the new one.
    RunChange {
        /// Whom it is about; `client` is its first source.
        subject: Subject,
        /// Its own list from now on.
        allow: Vec<String>,
    },
    /// A run was removed.
    RunEnd {
        /// Whom it is about.
        subject: Subject,
        /// Exchanges that its removal cut.
        cut: u64,
    },
    /// A run expired before it was removed: from now on its sources are unknown clients.
    RunExpired {
        /// Whom it is about.
        subject: Subject,
    },
}
