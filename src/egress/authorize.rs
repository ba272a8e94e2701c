//! From a request to a `Permit` or a recorded `Denial`: limits, policy, addresses, record.

use std::sync::Arc;

use super::{
    Authorizer, Client, ClientKey, Connection, Endpoint, Permit, Rules,
    grant::Granted,
    refusal::{Refusal, subject_of},
};
use crate::{
    destination::Destination,
    policy::{Decision, Reason, Verdict},
    protocol::Denial,
    record::{Asked, Subject},
    resolver::Resolved,
};

impl Authorizer {
    /// Takes a place for a client connection.
    ///
    /// # Errors
    /// `over_capacity` or `shutting_down`, recorded.
    pub fn admit(self: &Arc<Self>, from: Endpoint, asked: &Asked) -> Result<Connection, Denial> {
        let rules = self.rules.load();
        let client = self.identify(&rules, from);
        let subject = subject_of(&client, from);
        if self.tasks.stopping().is_cancelled() {
            let refusal = Refusal::new(Reason::ShuttingDown);
            return Err(self.refused(client.ok().as_ref(), subject, asked.clone(), refusal));
        }
        let key = client
            .as_ref()
            .map_or(ClientKey::Address(from.peer), |client| client.key.clone());
        self.limiter
            .connect(self, key, from, &rules.limits)
            .map_err(|reason| {
                let refusal = Refusal::new(reason);
                self.refused(client.ok().as_ref(), subject, asked.clone(), refusal)
            })
    }

    /// Takes a place for a connection that carries DNS queries; none where there is none left, and
    /// for strangers. Security: without one, such connections would use up the descriptors of those
    /// that have theirs.
    pub fn admit_queries(self: &Arc<Self>, from: Endpoint) -> Option<Connection> {
        let rules = self.rules.load();
        let client = self.identify(&rules, from).ok()?;
        self.limiter
            .connect(self, client.key, from, &rules.limits)
            .ok()
    }

    /// Decides on one request: limits, policy, addresses, and the opening record, in this order.
    /// Nothing is looked up for what policy does not allow.
    ///
    /// # Errors
    /// The denial, recorded.
    pub async fn authorize(
        self: &Arc<Self>,
        connection: &Arc<Connection>,
        asked: Asked,
    ) -> Result<Permit, Denial> {
        let rules = self.rules.load_full();
        let from = connection.from();
        let client = match self.identify(&rules, from) {
            Ok(client) => client,
            Err(reason) => {
                let subject = Subject {
                    client: Some(from.peer),
                    ..Subject::default()
                };
                return Err(self.refused(None, subject, asked, Refusal::new(reason)));
            }
        };
        match self.grant(&rules, &client, &asked).await {
            Ok(granted) => {
                self.open_exchange(rules.generation, connection, client, (asked, granted))
            }
            Err(refusal) => {
                let subject = client.subject.clone();
                Err(self.refused(Some(&client), subject, asked, refusal))
            }
        }
    }

    /// Judges the host of a CONNECT to port 80, whose requests are then each authorised; nothing
    /// is looked up, and only a refusal is recorded.
    ///
    /// # Errors
    /// The denial, recorded.
    pub fn precheck(&self, connection: &Connection, asked: &Asked) -> Result<(), Denial> {
        let rules = self.rules.load();
        let from = connection.from();
        let client = match self.identify(&rules, from) {
            Ok(client) => client,
            Err(reason) => {
                let subject = Subject {
                    client: Some(from.peer),
                    ..Subject::default()
                };
                return Err(self.refused(None, subject, asked.clone(), Refusal::new(reason)));
            }
        };
        match self
            .admit_request(&rules, &client)
            .and_then(|()| judge(&client, asked))
        {
            Ok(_) => Ok(()),
            Err(refusal) => {
                let subject = client.subject.clone();
                Err(self.refused(Some(&client), subject, asked.clone(), refusal))
            }
        }
    }

    /// Records the refusal of a request that could not be read as one, or of a ClientHello on the
    /// transparent road.
    pub fn refuse(
        &self,
        connection: &Connection,
        asked: Asked,
        reason: Reason,
        detail: Option<String>,
    ) -> Denial {
        let from = connection.from();
        let client = self.identify(&self.rules.load(), from);
        // A stranger learns nothing but that he is one.
        let refusal = match &client {
            Ok(_) => Refusal {
                detail,
                ..Refusal::new(reason)
            },
            Err(unknown) => Refusal::new(*unknown),
        };
        let subject = subject_of(&client, from);
        self.refused(client.ok().as_ref(), subject, asked, refusal)
    }

    /// Records the refusal of what is cut without an answer: a protocol that is not spoken here, or
    /// a head that never became whole.
    pub fn refuse_silently(&self, connection: &Connection, asked: Asked, reason: Reason) {
        let from = connection.from();
        let client = self.identify(&self.rules.load(), from);
        let refusal = Refusal {
            silent: true,
            ..Refusal::new(client.as_ref().map_or_else(|unknown| *unknown, |_| reason))
        };
        let subject = subject_of(&client, from);
        drop(self.refused(client.ok().as_ref(), subject, asked, refusal));
    }

    async fn grant(
        &self,
        rules: &Rules,
        client: &Client,
        asked: &Asked,
    ) -> Result<Granted, Refusal> {
        self.admit_request(rules, client)?;
        let (destination, verdict) = judge(client, asked)?;
        self.limit_wildcard_names(rules, client, destination, &verdict)?;
        let unresolved = |error| Refusal::unresolved(error, verdict.rule.clone());
        let answer = self
            .resolver
            .look_up(destination)
            .await
            .map_err(unresolved)?;
        // Read after the look-up, which takes its time.
        let surroundings = self.surroundings(rules)?;
        let exceptions = &verdict.grants.addresses;
        let resolved = Resolved::vet(answer, destination, &rules.guard, &surroundings, exceptions)
            .map_err(unresolved)?;
        Ok(Granted {
            destination: destination.clone(),
            verdict,
            resolved,
        })
    }

    /// What every request passes before it is looked at.
    fn admit_request(&self, rules: &Rules, client: &Client) -> Result<(), Refusal> {
        if self.tasks.stopping().is_cancelled() {
            return Err(Refusal::new(Reason::ShuttingDown));
        }
        self.limiter
            .request(&client.key, &rules.limits)
            .map_err(|limited| Refusal {
                retry_after: Some(limited.retry_after),
                ..Refusal::new(Reason::RateLimited)
            })
    }

    /// Security: labels under a wildcard reach that zone's own servers, so their number is bound;
    /// report mode lets any name through and is bound the same way.
    fn limit_wildcard_names(
        &self,
        rules: &Rules,
        client: &Client,
        destination: &Destination,
        verdict: &Verdict,
    ) -> Result<(), Refusal> {
        let chosen_by_client = verdict.grants.wildcard || verdict.decision == Decision::WouldDeny;
        let Some(name) = destination.host.name().filter(|_| chosen_by_client) else {
            return Ok(());
        };
        self.limiter
            .wildcard_name(&client.key, name, &rules.limits)
            .map_err(|limited| Refusal {
                rule: verdict.rule.clone(),
                retry_after: Some(limited.retry_after),
                ..Refusal::new(Reason::RateLimited)
            })
    }
}

fn judge<'a>(client: &Client, asked: &'a Asked) -> Result<(&'a Destination, Verdict), Refusal> {
    let Some(destination) = &asked.destination else {
        return Err(Refusal::new(Reason::BadRequest));
    };
    let verdict = client.policy.evaluate(destination);
    if verdict.passes() {
        Ok((destination, verdict))
    } else {
        Err(Refusal::by(verdict))
    }
}
