//! What one run reached and tried to reach, in counts: part of a run's record, and the answer of
//! `GET /v1/runs/{run}`.

use serde::{Deserialize, Serialize};

use super::Link;
use crate::policy::{Decision, Reason};

/// The network side of a run's record; the number of lines is bounded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetworkSummary {
    /// What was let through.
    pub allowed: Vec<AllowedLine>,
    /// What was refused.
    pub denied: Vec<DeniedLine>,
    /// The names asked for.
    pub dns: Vec<DnsLine>,
    /// Events that found no line of their own because there were too many.
    #[serde(default)]
    pub more: u64,
    /// The head of the audit log after the run's end: kept with the run, it proves later that
    /// nothing up to there was changed or cut off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub audit_head: Option<Link>,
}

/// The exchanges with one host and port.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AllowedLine {
    /// The host, in its canonical spelling.
    pub host: String,
    /// The port.
    pub port: u16,
    /// How many exchanges.
    pub count: u64,
    /// Bytes to the host.
    pub bytes_up: u64,
    /// Bytes from it.
    pub bytes_down: u64,
}

/// The refusals of one kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeniedLine {
    /// The host; none where none could be read.
    pub host: Option<String>,
    /// The port; none where none could be read.
    pub port: Option<u16>,
    /// Why.
    pub reason: Reason,
    /// How many refusals.
    pub count: u64,
}

/// The queries for one name and type.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DnsLine {
    /// The name as asked, escaped.
    pub name: String,
    /// The type's mnemonic.
    #[serde(rename = "type")]
    pub record_type: String,
    /// What was decided.
    pub decision: Decision,
    /// How many queries.
    pub count: u64,
}
