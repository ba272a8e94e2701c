//! The counts of one group.

use jiff::Timestamp;

use super::{
    counts::{Counts, Sums},
    report::{ExchangeLine, GroupReport, RunLine, Totals},
    rows::{self, Query, Refusal},
};
use crate::{
    destination::Host,
    policy::Decision,
    record::{Line, RunRecord},
    review::{exchanges::Target, name},
};

/// How many of the slowest, of the largest, and of the samples are kept.
const TOP: usize = 5;

/// Executions that are listed.
const MAX_RUNS: usize = 1000;

#[derive(Debug, Default)]
pub(super) struct Group {
    first: Option<Timestamp>,
    last: Option<Timestamp>,
    totals: Totals,
    allowed: Counts<Target>,
    denied: Counts<Refusal>,
    dns: Counts<Query>,
    samples: Vec<String>,
    slowest: Vec<ExchangeLine>,
    uploads: Vec<ExchangeLine>,
    runs: Vec<RunLine>,
}

impl Group {
    /// Makes this one of `groups` that share the room for rows.
    pub(super) fn share(&mut self, groups: usize) {
        self.allowed.share(groups);
        self.denied.share(groups);
        self.dns.share(groups);
    }

    /// Counts an event; of a close, what it is about and whether its decision was counted.
    pub(super) fn event(&mut self, line: &Line, (target, follows): (Option<&Target>, bool)) {
        self.at(Some(line.ts));
        let count = line.count.unwrap_or(1);
        match line.event.as_str() {
            "decision" => self.decision(line, count),
            "close" => self.close(line, (target, follows)),
            "dns" => self.query(line, count),
            "gap" => add(&mut self.totals.unrecorded, count),
            _ => {}
        }
        let room = TOP.saturating_sub(self.samples.len());
        let samples = line.samples.iter().take(room).map(|sample| name(sample));
        self.samples.extend(samples);
    }

    /// Counts an execution, and its network where that `is_new`.
    pub(super) fn run(&mut self, record: &RunRecord, is_new: bool) {
        self.at(record.started.parse().ok());
        add(&mut self.totals.runs, 1);
        if self.runs.len() < MAX_RUNS {
            self.runs.push(RunLine {
                run: name(&record.run),
                command: record
                    .command
                    .iter()
                    .take(TOP)
                    .map(|word| name(word))
                    .collect(),
                exit_code: record.exit_code,
                duration_ms: record.duration_ms,
            });
        }
        let network = record.network.as_ref().filter(|_| is_new);
        for line in network.iter().flat_map(|network| &network.allowed) {
            let sums = Sums {
                count: line.count,
                bytes_up: line.bytes_up,
                bytes_down: line.bytes_down,
            };
            add(&mut self.totals.allowed, line.count);
            self.transferred(sums);
            let host = name(&line.host).into();
            let port = line.port;
            self.allowed.add(Target { host, port }, sums);
        }
        for line in network.iter().flat_map(|network| &network.denied) {
            let refusal = Refusal {
                host: line.host.as_deref().map(name),
                port: line.port,
                decision: Decision::Deny,
                reason: line.reason.code().to_owned(),
            };
            self.refused(refusal, line.count);
        }
        for line in network.iter().flat_map(|network| &network.dns) {
            let (name, record_type) = (name(&line.name), name(&line.record_type));
            self.asked(&name, record_type, line.decision, line.count);
        }
    }

    fn decision(&mut self, line: &Line, count: u64) {
        let refusal = |decision| Refusal {
            host: line.host.as_deref().map(name),
            port: line.port,
            decision,
            reason: name(line.reason.as_deref().unwrap_or("-")),
        };
        match line.decision.as_deref() {
            Some("allow") => self.let_through(line, count),
            Some("would_deny") => {
                self.let_through(line, count);
                self.refused(refusal(Decision::WouldDeny), count);
            }
            Some(_) | None => self.refused(refusal(Decision::Deny), count),
        }
    }

    fn let_through(&mut self, line: &Line, count: u64) {
        add(&mut self.totals.allowed, count);
        if let Some(target) = Target::of(line) {
            self.allowed.add(target, Sums::of_count(count));
        }
    }

    /// Counts what was refused, or would be.
    fn refused(&mut self, refusal: Refusal, count: u64) {
        let total = match refusal.decision {
            Decision::WouldDeny => &mut self.totals.would_deny,
            Decision::Deny | Decision::Allow => &mut self.totals.denied,
        };
        add(total, count);
        self.denied.add(refusal, Sums::of_count(count));
    }

    fn close(&mut self, line: &Line, (target, follows): (Option<&Target>, bool)) {
        // An exchange whose decision is not among the lines counts by its close alone.
        let count = u64::from(!follows);
        let address = line.upstream.map(|upstream| Target {
            host: Host::Ip(upstream.ip()).to_string().into(),
            port: upstream.port(),
        });
        let target = target.cloned().or(address);
        if line.reason.is_some() {
            let refusal = Refusal {
                host: target.as_ref().map(|target| target.host.to_string()),
                port: target.as_ref().map(|target| target.port),
                decision: Decision::Deny,
                reason: name(line.reason.as_deref().unwrap_or("-")),
            };
            self.refused(refusal, 1);
        }
        let sums = Sums {
            count,
            bytes_up: line.bytes_up.unwrap_or_default(),
            bytes_down: line.bytes_down.unwrap_or_default(),
        };
        add(&mut self.totals.allowed, count);
        self.transferred(sums);
        let Some(target) = target else { return };
        let exchange = ExchangeLine {
            id: line.id.as_deref().map(name).unwrap_or_default(),
            host: target.host.to_string(),
            port: target.port,
            outcome: line.outcome.as_deref().map(name).unwrap_or_default(),
            bytes_up: sums.bytes_up,
            bytes_down: sums.bytes_down,
            duration_ms: line.duration_ms.unwrap_or_default(),
        };
        keep_top(&mut self.slowest, &exchange, |line| line.duration_ms);
        keep_top(&mut self.uploads, &exchange, |line| line.bytes_up);
        if sums != Sums::default() {
            self.allowed.add(target, sums);
        }
    }

    fn query(&mut self, line: &Line, count: u64) {
        let decision = match line.decision.as_deref() {
            Some("allow") => Decision::Allow,
            Some("would_deny") => Decision::WouldDeny,
            Some(_) | None => Decision::Deny,
        };
        let asked = line.name.as_deref().map(name).unwrap_or_default();
        let record_type = line.record_type.as_deref().map(name).unwrap_or_default();
        self.asked(&asked, record_type, decision, count);
    }

    fn asked(&mut self, name: &str, record_type: String, decision: Decision, count: u64) {
        let total = match decision {
            Decision::Allow => &mut self.totals.queries,
            Decision::Deny => &mut self.totals.queries_denied,
            Decision::WouldDeny => &mut self.totals.would_deny,
        };
        add(total, count);
        let query = Query {
            // Clients mix the case at random (draft-vixie-dnsext-dns0x20).
            name: name.to_ascii_lowercase(),
            record_type,
            decision,
        };
        self.dns.add(query, Sums::of_count(count));
    }

    fn transferred(&mut self, sums: Sums) {
        add(&mut self.totals.bytes_up, sums.bytes_up);
        add(&mut self.totals.bytes_down, sums.bytes_down);
    }

    fn at(&mut self, time: Option<Timestamp>) {
        self.first = [self.first, time].into_iter().flatten().min();
        self.last = [self.last, time].into_iter().flatten().max();
    }

    /// What was counted.
    pub(super) fn report(self, name: Option<String>, top: Option<usize>) -> GroupReport {
        let (allowed, allowed_rest) = self.allowed.into_rows(top);
        let (denied, denied_rest) = self.denied.into_rows(top);
        let (dns, dns_rest) = self.dns.into_rows(top);
        let time = |time: Option<Timestamp>| time.map(|time| format!("{time:.3}"));
        GroupReport {
            name,
            first: time(self.first),
            last: time(self.last),
            totals: self.totals,
            allowed: allowed.into_iter().map(rows::allowed).collect(),
            allowed_rest,
            denied: denied.into_iter().map(rows::denied).collect(),
            denied_rest,
            dns: dns.into_iter().map(rows::dns).collect(),
            dns_rest,
            samples: self.samples,
            slowest: self.slowest,
            uploads: self.uploads,
            runs: self.runs,
        }
    }
}

fn add(total: &mut u64, count: u64) {
    *total = total.saturating_add(count);
}

/// Puts `exchange` in its place among the first, largest first; nothing that measures 0.
fn keep_top(
    top: &mut Vec<ExchangeLine>,
    exchange: &ExchangeLine,
    measure: fn(&ExchangeLine) -> u64,
) {
    let own = measure(exchange);
    let at = top.partition_point(|other| measure(other) >= own);
    if own > 0 && at < TOP {
        top.insert(at, exchange.clone());
        top.truncate(TOP);
    }
}
