//! Names that a sandbox asks our DNS server for, judged by the same policy.

use std::{net::Ipv4Addr, sync::Arc};

use super::{Authorizer, Endpoint};
use crate::{
    audit::AuditError,
    destination::Name,
    policy::{Decision, Reason, Verdict},
    record::{DnsRecord, Subject},
};

/// A name that was judged for our DNS server.
#[derive(Clone, Debug)]
pub struct QueryVerdict {
    /// Whom it is about.
    pub subject: Subject,
    /// What policy says.
    pub verdict: Verdict,
    /// The answer that the run was registered with.
    pub listener: Option<Ipv4Addr>,
}

/// A query that is not judged.
#[derive(Clone, Debug)]
pub enum QueryRefusal {
    /// Nobody we know: dropped without an answer.
    UnknownClient,
    /// More than `limits.dns_queries_per_second`.
    RateLimited(Subject),
}

impl Authorizer {
    /// Judges a name for our DNS server. The caller plans the answer and records it with
    /// `record_query`.
    pub fn judge_query(
        &self,
        from: Endpoint,
        name: Option<&Name>,
    ) -> Result<QueryVerdict, QueryRefusal> {
        let rules = self.rules.load();
        let Ok(client) = self.identify(&rules, from) else {
            return Err(QueryRefusal::UnknownClient);
        };
        if self.limiter.query(&client.key, &rules.limits).is_err() {
            return Err(QueryRefusal::RateLimited(client.subject));
        }
        let verdict = match name {
            Some(name) => client.policy.evaluate_name(name),
            None => Verdict {
                decision: Decision::Deny,
                reason: Reason::BadRequest,
                rule: None,
                grants: Arc::default(),
            },
        };
        Ok(QueryVerdict {
            subject: client.subject,
            verdict,
            listener: client.listener,
        })
    }

    /// Records a query that was judged; when this fails the answer is SERVFAIL.
    pub fn record_query(&self, query: &DnsRecord) -> Result<(), AuditError> {
        if let Some(run) = query
            .subject
            .run
            .as_ref()
            .and_then(|run| self.runs.find(run))
        {
            run.summary().query(query);
        }
        self.audit.dns(query)
    }
}
