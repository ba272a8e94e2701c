//! The decision on one destination, as far as it can be made without a look-up.

use std::sync::Arc;

use serde::Serialize;

use crate::{
    config::{Config, Expectation},
    destination::Destination,
    policy::{Decision, Policy, Reason},
    review::judge::Judged,
};

/// What was decided on one destination; the fields are those of `--json`.
#[derive(Debug, Serialize)]
pub(super) struct Judgement {
    /// As written.
    pub(super) destination: String,
    pub(super) host: String,
    pub(super) port: u16,
    pub(super) profile: Arc<str>,
    pub(super) decision: Decision,
    pub(super) reason: Reason,
    /// Where the deciding rule stands; none where no rule matched.
    pub(super) rule: Option<Arc<str>>,
    /// Why the address of an IP literal is refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) detail: Option<String>,
    /// Every rule considered, with `--explain`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) considered: Option<Vec<Consideration>>,
}

/// One rule that was considered.
#[derive(Debug, Serialize)]
pub(super) struct Consideration {
    pub(super) rule: Arc<str>,
    pub(super) pattern: String,
    pub(super) matched: bool,
    pub(super) why: String,
}

impl Judgement {
    /// Judges `destination` as `serve` does before it looks anything up. The address of an IP
    /// literal is known without a look-up and so is judged too.
    pub(super) fn of(
        config: &Config,
        (name, policy): (&Arc<str>, &Policy),
        written: &str,
        destination: &Destination,
    ) -> Self {
        let judged = Judged::destination(config, policy, destination, &[]);
        Self {
            destination: written.to_owned(),
            host: destination.host.to_string(),
            port: destination.port,
            profile: Arc::clone(name),
            decision: judged.decision,
            reason: judged.reason,
            rule: judged.rule,
            detail: judged.detail,
            considered: None,
        }
    }

    /// Adds every rule considered.
    pub(super) fn explain(&mut self, policy: &Policy, destination: &Destination) {
        let rows = policy.explain(destination).into_iter();
        let considered = rows.map(|row| Consideration {
            rule: row.place,
            pattern: row.pattern,
            matched: row.matched,
            why: row.why,
        });
        self.considered = Some(considered.collect());
    }

    /// Whether policy allows it; report mode lets a `would_deny` through, but does not allow it.
    pub(super) fn is_allowed(&self) -> bool {
        match self.decision {
            Decision::Allow => true,
            Decision::Deny | Decision::WouldDeny => false,
        }
    }
}

/// How one of the `[[tests]]` came out.
#[derive(Debug, Serialize)]
pub(super) struct TestResult {
    /// E.g. `tests[0]`.
    pub(super) test: Arc<str>,
    pub(super) line: usize,
    pub(super) passed: bool,
    pub(super) expected: Decision,
    pub(super) expected_reason: Option<Reason>,
    #[serde(flatten)]
    pub(super) got: Judgement,
}

impl TestResult {
    /// Runs one expectation; none when its profile is not there, which a valid file excludes.
    pub(super) fn of(config: &Config, expectation: &Expectation) -> Option<Self> {
        let policy = config.policies.profile(&expectation.profile)?;
        let got = Judgement::of(
            config,
            (&expectation.profile, policy),
            &expectation.written,
            &expectation.destination,
        );
        let reason_holds = expectation.reason.is_none_or(|reason| reason == got.reason);
        Some(Self {
            test: Arc::clone(&expectation.place),
            line: expectation.line,
            passed: got.decision == expectation.expect && reason_holds,
            expected: expectation.expect,
            expected_reason: expectation.reason,
            got,
        })
    }
}
