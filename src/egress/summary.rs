//! What one run reached and tried to reach, counted while it happens; the size is bounded.

use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
};

use crate::{
    destination::Destination,
    policy::{Decision, Reason},
    record::{AllowedLine, DeniedLine, DnsLine, DnsRecord, NetworkSummary},
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

    /// The counts so far.
    pub fn network(&self) -> NetworkSummary {
        let counts = self.lock();
        let allowed = counts.allowed.iter();
        let denied = counts.denied.iter();
        let dns = counts.dns.iter();
        NetworkSummary {
            allowed: allowed
                .map(|((host, port), line)| AllowedLine {
                    host: host.clone(),
                    port: *port,
                    count: line.count,
                    bytes_up: line.bytes_up,
                    bytes_down: line.bytes_down,
                })
                .collect(),
            denied: denied
                .map(|((host, port, reason), count)| DeniedLine {
                    host: host.clone(),
                    port: *port,
                    reason: *reason,
                    count: *count,
                })
                .collect(),
            dns: dns
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
            audit_head: None,
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Counts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
