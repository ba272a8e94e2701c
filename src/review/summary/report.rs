//! What a summary says; the fields are those of `logs --summary --json`.

use serde::Serialize;

use super::By;
use crate::{
    policy::Decision,
    record::{AllowedLine, DnsLine},
};

/// Everything.
#[derive(Debug, Serialize)]
pub struct Report {
    /// The version of this shape.
    pub schema: u32,
    /// What is counted together.
    pub by: By,
    /// One for each run, profile or client; one in all otherwise.
    pub groups: Vec<GroupReport>,
    /// What belongs to none of the first 500 groups.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub beyond: Option<GroupReport>,
}

impl Report {
    /// The version of the shape.
    pub const SCHEMA: u32 = 1;
}

/// One run, profile or client, or all of them.
#[derive(Debug, Serialize)]
pub struct GroupReport {
    /// The run, profile or client; none for all, and for what has none.
    pub name: Option<String>,
    /// The time of the first line, RFC 3339 in UTC.
    pub first: Option<String>,
    /// The time of the last line.
    pub last: Option<String>,
    /// Exact sums.
    pub totals: Totals,
    /// What was reached, `would_deny` included; most bytes first.
    pub allowed: Vec<AllowedLine>,
    /// Exchanges with what `allowed` does not list.
    pub allowed_rest: Rest,
    /// What was refused and why; most often first.
    pub denied: Vec<RefusedLine>,
    /// Refusals that `denied` does not list.
    pub denied_rest: Rest,
    /// The names asked for; most often first. An empty name stands for many, folded into one line.
    pub dns: Vec<DnsLine>,
    /// Queries that `dns` does not list.
    pub dns_rest: Rest,
    /// Some of what folded lines stand for.
    pub samples: Vec<String>,
    /// The exchanges that took longest.
    pub slowest: Vec<ExchangeLine>,
    /// The exchanges that sent most.
    pub uploads: Vec<ExchangeLine>,
    /// Executions, of a launcher's record file.
    pub runs: Vec<RunLine>,
}

/// Exact sums of one group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Totals {
    /// Exchanges that were let through.
    pub allowed: u64,
    /// Exchanges that were refused or cut.
    pub denied: u64,
    /// Exchanges and queries that report mode let through.
    pub would_deny: u64,
    /// DNS queries that were answered.
    pub queries: u64,
    /// DNS queries that were refused.
    pub queries_denied: u64,
    /// Bytes to the hosts.
    pub bytes_up: u64,
    /// Bytes from them.
    pub bytes_down: u64,
    /// Events, all refused, that have no record because the log could not be written.
    pub unrecorded: u64,
    /// Executions, of a launcher's record file.
    pub runs: u64,
}

/// What has no row of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Rest {
    /// How many exchanges, refusals or queries.
    pub count: u64,
    /// Bytes to the hosts.
    pub bytes_up: u64,
    /// Bytes from them.
    pub bytes_down: u64,
    /// Whether every row is exact. Where not, there were too many distinct ones, and a row says
    /// the least that it can be.
    #[serde(rename = "exact_rows")]
    pub is_exact: bool,
}

/// The refusals of one kind.
#[derive(Debug, Serialize)]
pub struct RefusedLine {
    /// The host; none where none could be read, or many are folded into one line.
    pub host: Option<String>,
    /// The port.
    pub port: Option<u16>,
    /// `deny`, or `would_deny`.
    pub decision: Decision,
    /// Why.
    pub reason: String,
    /// How many.
    pub count: u64,
}

/// One exchange.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ExchangeLine {
    /// Its id.
    pub id: String,
    /// The host, or the address where its decision is not among the lines.
    pub host: String,
    /// The port.
    pub port: u16,
    /// How it ended.
    pub outcome: String,
    /// Bytes to the host.
    pub bytes_up: u64,
    /// Bytes from it.
    pub bytes_down: u64,
    /// From the decision to the end.
    pub duration_ms: u64,
}

/// One execution.
#[derive(Debug, Serialize)]
pub struct RunLine {
    /// Its id.
    pub run: String,
    /// The command and its arguments.
    pub command: Vec<String>,
    /// What `eclusa run` exited with.
    pub exit_code: u8,
    /// How long the command ran.
    pub duration_ms: u64,
}
