//! What is recorded, schema version 1: one JSON line per event. Never a header, a body, a query
//! string or a secret; what a client chose is escaped and cut (`MAX_FIELD`).

pub(crate) mod encode;
pub(crate) mod escape;

mod chain;
mod digest;
mod dns;
mod exchange;
mod line;
mod network;
mod notice;
mod run;

use std::{fmt, net::IpAddr, sync::Arc};

pub(crate) use self::chain::Linking;
pub use self::{
    chain::{Link, LinkError},
    digest::{Digest, Hashing},
    dns::{DnsAnswer, DnsRecord},
    exchange::{Asked, Closing, DecisionRecord, Outcome, Via},
    line::{Line, LineError},
    network::{AllowedLine, DeniedLine, DnsLine, NetworkSummary},
    notice::Notice,
    run::{Evidence, Limit, LimitReached, Output, OutputFile, RunRecord, SkippedOutput, Timing},
};
/// The version of the schema, in every line.
pub const SCHEMA: u32 = 1;

/// Every kind of event.
pub const EVENTS: &[&str] = &[
    "decision",
    "close",
    "dns",
    "run_start",
    "run_change",
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

/// What a folded line stands for; the rest of the line is what all its events share.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// How many events.
    pub count: u64,
    /// Some of what they differ in: `host:port`, raw targets or DNS names.
    pub samples: Vec<String>,
}
