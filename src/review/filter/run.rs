//! Whether a run of the launcher's record file is asked for: by what it reached and was refused.

use jiff::Timestamp;

use super::{Conditions, Filter, Verdict, any};
use crate::{
    policy::Decision,
    record::{NetworkSummary, RunRecord},
};

/// The event that a line of a launcher's record file stands for.
pub const RUN_EVENT: &str = "run";

impl Filter {
    pub(super) fn passes_run(&self, record: &RunRecord) -> bool {
        let Conditions {
            runs,
            profiles,
            clients,
            verdicts,
            reasons,
            events,
            since,
            until,
            ..
        } = &self.conditions;
        let none = NetworkSummary::default();
        let network = record.network.as_ref().unwrap_or(&none);
        let denied = &network.denied;
        let is_denied = !denied.is_empty()
            || network
                .dns
                .iter()
                .any(|line| line.decision == Decision::Deny);
        let is_allowed = !network.allowed.is_empty();
        let started: Option<Timestamp> = record.started.parse().ok();
        let host = |host: &str, port: Option<u16>| self.has_host(|| Some(host.as_bytes()), || port);
        clients.is_empty()
            && any(runs, |run| record.run.starts_with(run))
            && any(profiles, |name| record.profile.as_ref() == Some(name))
            && any(events, |event| event == RUN_EVENT)
            && any(reasons, |reason| {
                denied.iter().any(|line| line.reason == *reason)
            })
            && any(verdicts, |verdict| match verdict {
                Verdict::Allowed => is_allowed,
                Verdict::Denied => is_denied,
            })
            && since.is_none_or(|since| started.is_some_and(|started| started >= since))
            && until.is_none_or(|until| started.is_some_and(|started| started < until))
            && (self.hosts.is_empty()
                || network
                    .allowed
                    .iter()
                    .any(|line| host(&line.host, Some(line.port)))
                || denied.iter().any(|line| {
                    line.host
                        .as_deref()
                        .is_some_and(|name| host(name, line.port))
                })
                || network.dns.iter().any(|line| host(&line.name, None)))
    }
}
