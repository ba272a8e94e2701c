//! The counters as text.

use std::{sync::atomic::Ordering, time::Duration};

use super::{BOUNDS, DECISIONS, Kind, Metrics, Text, position};
use crate::{
    policy::Reason,
    record::{DnsAnswer, Outcome, Via},
};

impl Metrics {
    /// The Prometheus text exposition format, version 0.0.4.
    pub fn render(&self) -> String {
        let mut text = Text::default();
        self.render_traffic(&mut text);
        self.render_durations(&mut text);
        self.render_log(&mut text);
        text.into_string()
    }

    fn render_traffic(&self, text: &mut Text) {
        text.family(
            "eclusa_requests_total",
            "Requests decided on, by road, decision and reason.",
            Kind::Counter,
        );
        let labels = Via::ALL.iter().flat_map(|via| {
            DECISIONS.iter().flat_map(move |decision| {
                Reason::ALL
                    .iter()
                    .map(move |reason| (via.as_str(), decision.as_str(), reason.code()))
            })
        });
        for ((via, decision, reason), value) in labels.zip(self.requests.values()) {
            if value > 0 {
                let labels = [("via", via), ("decision", decision), ("reason", reason)];
                text.sample(&labels, value);
            }
        }
        text.family(
            "eclusa_exchanges_closed_total",
            "Allowed exchanges that ended, by outcome.",
            Kind::Counter,
        );
        for (outcome, value) in Outcome::ALL.iter().zip(self.closed.values()) {
            text.sample(&[("outcome", outcome.as_str())], value);
        }
        text.family(
            "eclusa_bytes_total",
            "Bytes of ended exchanges; up is from the client to the origin.",
            Kind::Counter,
        );
        text.sample(
            &[("direction", "up")],
            self.bytes_up.load(Ordering::Relaxed),
        );
        text.sample(
            &[("direction", "down")],
            self.bytes_down.load(Ordering::Relaxed),
        );
        text.family(
            "eclusa_dns_queries_total",
            "DNS queries of known clients, by decision and answer.",
            Kind::Counter,
        );
        let labels = DECISIONS.iter().flat_map(|decision| {
            DnsAnswer::ALL
                .iter()
                .map(move |answer| (decision.as_str(), answer.as_str()))
        });
        for ((decision, answer), value) in labels.zip(self.queries.values()) {
            if value > 0 {
                text.sample(&[("decision", decision), ("answer", answer)], value);
            }
        }
    }

    fn render_durations(&self, text: &mut Text) {
        text.family(
            "eclusa_exchange_duration_seconds",
            "From the decision to the end of an exchange.",
            Kind::Histogram,
        );
        // Every exchange that was counted by its outcome and did not crash has a duration.
        let crashed = position(Outcome::ALL, &Outcome::Crash);
        let all: u64 = self
            .closed
            .values()
            .enumerate()
            .filter(|(at, _)| Some(*at) != crashed)
            .map(|(_, value)| value)
            .sum();
        let mut below = 0;
        for ((_, bound), value) in BOUNDS.iter().zip(self.durations.values()) {
            below += value;
            text.part("_bucket", &[("le", bound)], below);
        }
        // Counted in two steps, so that a scrape in between could otherwise go down here.
        let all = all.max(below);
        text.part("_bucket", &[("le", "+Inf")], all);
        let sum = Duration::from_micros(self.duration_micros.load(Ordering::Relaxed));
        text.part("_sum", &[], sum.as_secs_f64());
        text.part("_count", &[], all);
    }

    fn render_log(&self, text: &mut Text) {
        for (name, help, kind, value) in [
            (
                "eclusa_audit_folded_total",
                "Events that have no line of their own but are counted in one.",
                Kind::Counter,
                &self.folded,
            ),
            (
                "eclusa_audit_write_failures_total",
                "Attempts to write the audit log that failed.",
                Kind::Counter,
                &self.write_failures,
            ),
            (
                "eclusa_audit_backlog",
                "Records that wait until the audit log can be written again.",
                Kind::Gauge,
                &self.waiting,
            ),
            (
                "eclusa_audit_rotations_total",
                "Rotations of the audit log.",
                Kind::Counter,
                &self.rotations,
            ),
            (
                "eclusa_audit_rotation_failures_total",
                "Rotations that failed; the old file is written on.",
                Kind::Counter,
                &self.rotation_failures,
            ),
        ] {
            text.family(name, help, kind);
            text.sample(&[], value.load(Ordering::Relaxed));
        }
        text.family(
            "eclusa_audit_writable",
            "Whether the audit log can be written; while it cannot, traffic is refused.",
            Kind::Gauge,
        );
        let writable = !self.not_writable.load(Ordering::Relaxed);
        text.sample(&[], u8::from(writable));
    }
}
