//! What must hold after any fault: every record has its other half and the chain is whole, health
//! and the counters say what the log says, and what was open is given back.

use std::{collections::BTreeMap, fs, path::PathBuf};

use serde_json::Value;

use super::{
    eventually,
    proxy::{TestProxy, command},
};

/// What a process holds of what it must give back.
#[derive(Clone, Copy, Debug)]
pub struct Footprint {
    /// Open files that are no pipes.
    descriptors: usize,
    /// Ends of pipes.
    pipes: usize,
    /// Resident memory.
    kibibytes: u64,
}

/// Descriptors that come and go by themselves: a reading of the interfaces, idle connections to a
/// resolver and to the admin socket.
const DESCRIPTORS_AT_REST: usize = 4;

/// Empty pipes that the relay keeps for bulk.
const PIPES_KEPT: usize = 16;

/// What an allocator keeps, and the tables whose bound is far below it.
const KIBIBYTES_KEPT: u64 = 24 * 1024;

impl Footprint {
    /// Of a running proxy.
    pub fn of(proxy: &TestProxy) -> Self {
        let process = PathBuf::from(format!("/proc/{}", proxy.pid()));
        let status = fs::read_to_string(process.join("status")).unwrap();
        let resident = status
            .lines()
            .find_map(|line| line.strip_prefix("VmRSS:")?.strip_suffix("kB"))
            .unwrap();
        let open = fs::read_dir(process.join("fd")).unwrap();
        // One that is closed meanwhile leads nowhere.
        let open = open.filter_map(|entry| fs::read_link(entry.unwrap().path()).ok());
        let (pipes, others): (Vec<_>, Vec<_>) =
            open.partition(|what| what.to_string_lossy().starts_with("pipe:"));
        Self {
            descriptors: others.len(),
            pipes: pipes.len(),
            kibibytes: resident.trim().parse().unwrap(),
        }
    }

    /// Waits until the proxy holds no more than this, but for what it may keep.
    pub fn await_return(self, proxy: &TestProxy) {
        let what = format!("the proxy to be back at {self:?}");
        eventually(&what, || {
            let now = Self::of(proxy);
            let is_back = now.descriptors <= self.descriptors + DESCRIPTORS_AT_REST
                && now.pipes <= self.pipes + 2 * PIPES_KEPT
                && now.kibibytes <= self.kibibytes + KIBIBYTES_KEPT;
            is_back.then_some(())
        });
    }
}

/// Waits until nothing is open, and asserts that the proxy is well and its log whole; then that
/// what it holds is back at `before`.
pub fn assert_sound(proxy: &TestProxy, before: Footprint) {
    eventually("every exchange to end", || {
        let metrics = Metrics::of(proxy);
        let open = ["eclusa_exchanges_open", "eclusa_connections_open"];
        let at_rest = open.iter().all(|name| metrics.value(name) == 0);
        at_rest.then_some(())
    });
    assert_eq!(health(proxy)["status"], "ok");
    let metrics = Metrics::of(proxy);
    assert_eq!(metrics.value("eclusa_healthy"), 1);
    assert_eq!(metrics.value("eclusa_audit_writable"), 1);
    assert_eq!(metrics.value("eclusa_audit_backlog"), 0);
    // An ordinary close is written a moment after the end.
    eventually("every close to be written", || {
        let lines = proxy.audit();
        let of = |event: &str| lines.iter().filter(|line| line["event"] == event).count();
        let denied = lines
            .iter()
            .filter(|line| line["event"] == "decision" && line["decision"] == "deny");
        (of("close") >= of("decision") - denied.count()).then_some(())
    });
    assert_paired(&proxy.audit());
    assert_counted(proxy, &metrics);
    assert_chained(proxy);
    before.await_return(proxy);
}

/// The answer of `GET /healthz`.
pub fn health(proxy: &TestProxy) -> Value {
    let output = proxy.admin("GET", "/healthz", None);
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

/// Every decision that lets something through has one close behind it, and no other line has.
pub fn assert_paired(lines: &[Value]) {
    let mut open: BTreeMap<&str, &Value> = BTreeMap::new();
    let mut closed = 0;
    for line in lines {
        let id = line["id"].as_str().unwrap();
        let passes = line["event"] == "decision" && line["decision"] != "deny";
        if passes {
            assert!(open.insert(id, line).is_none(), "opened twice: {line}");
        } else if line["event"] == "close" {
            closed += 1;
            let opened = open.remove(id);
            assert!(
                opened.is_some(),
                "closed twice, or never opened, after {closed}: {line}"
            );
        }
    }
    assert!(open.is_empty(), "never closed: {open:#?}");
}

/// Since the last start the counters say what the log says.
fn assert_counted(proxy: &TestProxy, metrics: &Metrics) {
    let lines = proxy.audit();
    let started = lines.iter().rposition(|line| line["event"] == "start");
    let (before, since) = lines.split_at(started.unwrap());
    // A crash is closed when the log is opened, just before the start is recorded.
    let closed_at_start = before
        .iter()
        .rev()
        .take_while(|line| line["outcome"] == "crash")
        .count();
    let folded = metrics.value("eclusa_audit_folded_total");
    for (decision, folded) in [("allow", 0), ("deny", folded), ("would_deny", folded)] {
        let of_kind = |line: &&Value| line["event"] == "decision" && line["decision"] == decision;
        let written = since.iter().filter(of_kind).count();
        let written = u64::try_from(written).unwrap();
        let label = format!("decision=\"{decision}\"");
        let counted = metrics.sum("eclusa_requests_total", &label);
        let is_true = (written..=written + folded).contains(&counted);
        assert!(is_true, "{decision}: {written} written, {counted} counted");
    }
    let closes = since.iter().filter(|line| line["event"] == "close").count() + closed_at_start;
    let counted = metrics.sum("eclusa_exchanges_closed_total", "");
    assert_eq!(counted, u64::try_from(closes).unwrap());
}

/// Asserts that `eclusa logs --verify` proves the log.
pub fn assert_chained(proxy: &TestProxy) {
    let mut verify = command();
    verify.args(["logs", "--verify"]);
    let proof = verify
        .arg(proxy.folder().join("audit.jsonl"))
        .output()
        .unwrap();
    assert!(proof.status.success(), "{proof:?}");
}

/// The counters at one moment.
pub struct Metrics(String);

impl Metrics {
    /// As the admin socket tells them.
    pub fn of(proxy: &TestProxy) -> Self {
        let output = proxy.admin("GET", "/metrics", None);
        Self(String::from_utf8(output.stdout).unwrap())
    }

    /// A metric without labels.
    pub fn value(&self, name: &str) -> u64 {
        let mut samples = self.samples(name);
        let (_, value) = samples
            .next()
            .unwrap_or_else(|| panic!("no {name}: {}", self.0));
        value
    }

    /// The sum of the samples whose labels contain `labels`.
    pub fn sum(&self, name: &str, labels: &str) -> u64 {
        let chosen = self.samples(name).filter(|(of, _)| of.contains(labels));
        chosen.map(|(_, value)| value).sum()
    }

    fn samples<'a>(&'a self, name: &'a str) -> impl Iterator<Item = (&'a str, u64)> {
        self.0.lines().filter_map(move |line| {
            let (labels, value) = line.strip_prefix(name)?.rsplit_once(' ')?;
            let is_this = labels.is_empty() || labels.starts_with('{');
            is_this.then(|| (labels, value.parse().unwrap()))
        })
    }
}
