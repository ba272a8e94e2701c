//! One tunnel or one HTTP request: its decision and its end.

use std::{
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use super::{Id, Subject};
use crate::{
    destination::Destination,
    policy::{Decision, Reason},
};

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
