//! A refusal on its way to become a recorded denial.

use std::{net::IpAddr, sync::Arc, time::Duration};

use super::{Authorizer, Client, Endpoint};
use crate::{
    policy::{Decision, Reason, Verdict},
    protocol::Denial,
    record::{Asked, DecisionRecord, Id, Subject, Via},
    resolver::ResolveError,
};

/// Why a request was refused, before it became a recorded denial.
pub(super) struct Refusal {
    pub(super) reason: Reason,
    pub(super) rule: Option<Arc<str>>,
    pub(super) addresses: Vec<IpAddr>,
    pub(super) detail: Option<String>,
    pub(super) retry_after: Option<Duration>,
    /// The connection is cut without an answer.
    pub(super) silent: bool,
}

impl Refusal {
    pub(super) fn new(reason: Reason) -> Self {
        Self {
            reason,
            rule: None,
            addresses: Vec::new(),
            detail: None,
            retry_after: None,
            silent: false,
        }
    }

    /// A refusal by policy.
    pub(super) fn by(verdict: Verdict) -> Self {
        Self {
            rule: verdict.rule,
            ..Self::new(verdict.reason)
        }
    }

    /// A refusal because there is no vetted address.
    pub(super) fn unresolved(error: ResolveError, rule: Option<Arc<str>>) -> Self {
        let detail = Some(error.to_string());
        let (reason, addresses) = match error {
            ResolveError::Failed { .. } => (Reason::ResolveFailed, Vec::new()),
            ResolveError::Timeout(_) => (Reason::ResolveTimeout, Vec::new()),
            ResolveError::Blocked { blocked, answer } => {
                let reason = if blocked.is_loop {
                    Reason::LoopDetected
                } else {
                    Reason::AddressBlocked
                };
                (reason, answer)
            }
        };
        // Security: the agent is not told which address a name has inside.
        let detail = detail.filter(|_| addresses.is_empty());
        Self {
            rule,
            addresses,
            detail,
            ..Self::new(reason)
        }
    }
}

impl Authorizer {
    /// Records a refusal and makes its denial.
    pub(super) fn refused(
        &self,
        client: Option<&Client>,
        subject: Subject,
        asked: Asked,
        refusal: Refusal,
    ) -> Denial {
        let id: Id = self.audit.new_id();
        if let Some(run) = client.and_then(|client| client.run.as_ref()) {
            run.summary()
                .denied(asked.destination.as_ref(), refusal.reason);
        }
        let denial = Denial {
            reason: refusal.reason,
            id,
            run: subject.run.clone(),
            destination: asked.destination.clone(),
            detail: refusal.detail,
            retry_after: refusal.retry_after,
            is_unroutable: false,
        };
        let silent = refusal.silent || asked.via == Via::Sni;
        let record = DecisionRecord {
            id,
            subject,
            asked,
            decision: Decision::Deny,
            reason: refusal.reason,
            rule: refusal.rule,
            addresses: refusal.addresses,
            status: Denial::status_of(refusal.reason).filter(|_| !silent),
        };
        if let Err(error) = self.audit.refused(&record) {
            tracing::error!(%error, "a refusal cannot be recorded");
        }
        denial
    }
}

/// As whom a client is recorded that may be nobody.
pub(super) fn subject_of(client: &Result<Client, Reason>, from: Endpoint) -> Subject {
    match client {
        Ok(client) => client.subject.clone(),
        Err(_) => Subject {
            client: Some(from.peer),
            ..Subject::default()
        },
    }
}
