//! What one run reached and tried to reach, counted while it happens; the size is bounded.

use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
};

use serde::Serialize;

use crate::{
    destination::Destination,
    policy::{Decision, Reason},
    record::DnsRecord,
};

/// The most distinct lines of one kind; what is beyond is counted under `more`.
const MAX_LINES: usize = 1000;

/// Counts of one run.
#[derive(Debug, Default)]
pub struct Summary(Mutex<Counts>);

#[derive(Debug, Default)]
struct Counts {
    allowed: BTreeMap<(String, u16), Allowed>,
    denied: BTreeMap<(Option<String>, Option<u16>, Reason), u64>,
    dns: BTreeMap<(String, String, bool), u64>,
    more: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Allowed {
    count: u64,
    bytes_up: u64,
    bytes_down: u64,
}

/// The summary as `GET /v1/runs/{run}` gives it.
#[derive(Serialize)]
struct Network {
    allowed: Vec<AllowedLine>,
    denied: Vec<DeniedLine>,
    dns: Vec<DnsLine>,
    /// Events that found no line of their own because there were too many.
    more: u64,
}

#[derive(Serialize)]
struct AllowedLine {
    host: String,
    port: u16,
    count: u64,
    bytes_up: u64,
    bytes_down: u64,
}

#[derive(Serialize)]
struct DeniedLine {
    host: Option<String>,
    port: Option<u16>,
    reason: Reason,
    count: u64,
}

#[derive(Serialize)]
struct DnsLine {
    name: String,
    #[serde(rename = "type")]
    record_type: String,
    decision: Decision,
    count: u64,
}

impl Summary {
    pub(super) fn allowed(&self, destination: &Destination, up: u64, down: u64) {
        let mut counts = self.lock();
        let key = (destination.host.to_string(), destination.port);
        if counts.allowed.len() >= MAX_LINES && !counts.allowed.contains_key(&key) {
            counts.more += 1;
            return;
        }
        let line = counts.allowed.entry(key).or_default();
        line.count += 1;
        line.bytes_up += up;
        line.bytes_down += down;
    }

    pub(super) fn denied(&self, destination: Option<&Destination>, reason: Reason) {
        let mut counts = self.lock();
        let key = (
            destination.map(|destination| destination.host.to_string()),
            destination.map(|destination| destination.port),
            reason,
        );
        if counts.denied.len() >= MAX_LINES && !counts.denied.contains_key(&key) {
            counts.more += 1;
            return;
        }
        *counts.denied.entry(key).or_default() += 1;
    }

    pub(super) fn query(&self, query: &DnsRecord) {
        let mut counts = self.lock();
        let allowed = query.decision != Decision::Deny;
        let key = (query.name.clone(), query.record_type.clone(), allowed);
        if counts.dns.len() >= MAX_LINES && !counts.dns.contains_key(&key) {
            counts.more += 1;
            return;
        }
        *counts.dns.entry(key).or_default() += 1;
    }

    /// The summary as an object: `allowed`, `denied`, `dns`, `more`.
    pub fn to_json(&self) -> serde_json::Value {
        let counts = self.lock();
        let network = Network {
            allowed: counts
                .allowed
                .iter()
                .map(|((host, port), line)| AllowedLine {
                    host: host.clone(),
                    port: *port,
                    count: line.count,
                    bytes_up: line.bytes_up,
                    bytes_down: line.bytes_down,
                })
                .collect(),
            denied: counts
                .denied
                .iter()
                .map(|((host, port, reason), count)| DeniedLine {
                    host: host.clone(),
                    port: *port,
                    reason: *reason,
                    count: *count,
                })
                .collect(),
            dns: counts
                .dns
                .iter()
                .map(|((name, record_type, allowed), count)| DnsLine {
                    name: name.clone(),
                    record_type: record_type.clone(),
                    decision: if *allowed {
                        Decision::Allow
                    } else {
                        Decision::Deny
                    },
                    count: *count,
                })
                .collect(),
            more: counts.more,
        };
        serde_json::to_value(network).unwrap_or_default()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Counts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
