//! Events that are neither an exchange nor a query.

use std::net::SocketAddr;

use super::Subject;

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
