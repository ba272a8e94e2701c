//! What can be asked for.

use ipnet::IpNet;
use jiff::Timestamp;

use crate::policy::{Pattern, Reason};

/// What is asked for: each kind that is not empty must be met, by any one of its values.
#[derive(Clone, Debug, Default)]
pub struct Conditions {
    /// Runs, by their id or its beginning.
    pub runs: Vec<String>,
    /// Profiles.
    pub profiles: Vec<String>,
    /// Ranges of client addresses.
    pub clients: Vec<IpNet>,
    /// Hosts: of a decision, of the decision that a close ends, of a DNS query.
    pub hosts: Vec<Pattern>,
    /// How it was decided.
    pub verdicts: Vec<Verdict>,
    /// Why: of the line, or of the decision that a close ends.
    pub reasons: Vec<Reason>,
    /// Kinds of events; `run` is a line of a launcher's record file.
    pub events: Vec<String>,
    /// The first moment.
    pub since: Option<Timestamp>,
    /// The first moment that is too late.
    pub until: Option<Timestamp>,
}

/// How something was decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It was let through, and so are its close and what it transferred.
    Allowed,
    /// It was refused, would be without report mode, or was cut after it was let through.
    Denied,
}
