//! From a request to a `Permit` or a recorded `Denial`: limits, policy, addresses, record.

use std::{
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

use super::{
    Authorizer, Client, ClientKey, Connection, Endpoint, Permit, Rules,
    open::Exchange,
    permit::Opened,
    refusal::{Refusal, subject_of},
};
use crate::{
    destination::Destination,
    policy::{Decision, Reason, Verdict},
    protocol::Denial,
    record::{Asked, DecisionRecord, Subject},
    resolver::Resolved,
};

/// A request that passed limits, policy and addresses.
struct Granted {
    destination: Destination,
    verdict: Verdict,
    resolved: Resolved,
}

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

    /// The verdict on an exchange that was allowed, as it would be now: to the same addresses, and
    /// on the same terms.
    pub(super) fn judge_again(
        &self,
        rules: &Rules,
        exchange: &Exchange,
    ) -> Result<Verdict, Refusal> {
        let client = self.identify(rules, exchange.from).map_err(Refusal::new)?;
        let verdict = client.policy.evaluate(&exchange.destination);
        if !verdict.passes() {
            return Err(Refusal::by(verdict));
        }
        if !exchange.has_terms(&verdict.grants, client.policy.ech()) {
            let what = "the policy changed while this was decided on; try again";
            return Err(Refusal {
                detail: Some(what.to_owned()),
                ..Refusal::new(Reason::NotAllowlisted)
            });
        }
        let vetted = exchange.vetted.as_slice().iter();
        let answer: Vec<IpAddr> = vetted.map(SocketAddr::ip).collect();
        let surroundings = self.surroundings(rules)?;
        let (destination, exceptions) = (&exchange.destination, &verdict.grants.addresses);
        match Resolved::vet(answer, destination, &rules.guard, &surroundings, exceptions) {
            Ok(_) => Ok(verdict),
            Err(error) => Err(Refusal::unresolved(error, verdict.rule)),
        }
    }

    /// The client as it is now, which must still be the one that was judged: its address may have
    /// become another run's.
    fn identify_again(
        &self,
        rules: &Rules,
        from: Endpoint,
        judged: &Client,
    ) -> Result<Client, Reason> {
        let client = self.identify(rules, from)?;
        let is_same = client.subject.run == judged.subject.run;
        is_same.then_some(client).ok_or(Reason::UnknownClient)
    }

    /// Lists the exchange, makes sure that it is still allowed, and writes its opening record.
    ///
    /// Security: listed before it is checked again, so that a reload or the end of the run during
    /// the look-up either finds it in the table or is seen here.
    fn open_exchange(
        self: &Arc<Self>,
        generation: u64,
        connection: &Arc<Connection>,
        judged: Client,
        (asked, granted): (Asked, Granted),
    ) -> Result<Permit, Denial> {
        let id = self.audit.new_id();
        let from = connection.from();
        let Granted {
            destination,
            verdict,
            resolved: Resolved { vetted, answer },
        } = granted;
        let grants = Arc::clone(&verdict.grants);
        let run = judged.subject.run.clone();
        let forced = self.tasks.forced();
        let to = (destination, vetted);
        let exchange = Exchange::new(from, run, to, grants.opaque, forced);
        let listed = self.open.list(id, exchange);
        let rules = self.rules.load_full();
        let client = match self.identify_again(&rules, from, &judged) {
            Ok(client) => client,
            Err(reason) => {
                return Err(self.refused(None, judged.subject, asked, Refusal::new(reason)));
            }
        };
        let same = rules.generation == generation && Arc::ptr_eq(&client.policy, &judged.policy);
        // What is recorded is the verdict of the policy in force, and not a part of each.
        let verdict = if same {
            Ok(verdict)
        } else {
            self.judge_again(&rules, &listed)
        };
        let verdict = match verdict {
            Ok(verdict) => verdict,
            Err(refusal) => {
                return Err(self.refused(Some(&client), client.subject.clone(), asked, refusal));
            }
        };
        let decision = DecisionRecord {
            id,
            subject: client.subject.clone(),
            asked,
            decision: verdict.decision,
            reason: verdict.reason,
            rule: verdict.rule,
            addresses: answer,
            status: None,
        };
        let asked = decision.asked.clone();
        match self.audit.open_exchange(decision) {
            Ok(exchange) => Ok(Permit::new(Opened {
                listed,
                exchange,
                client,
                connection: Arc::clone(connection),
                grants,
                generation: rules.generation,
                limits: Arc::clone(&rules.limits),
            })),
            Err(error) => {
                tracing::error!(%error, "request refused: its decision cannot be recorded");
                let refusal = Refusal::new(Reason::AuditUnavailable);
                Err(self.refused(Some(&client), client.subject.clone(), asked, refusal))
            }
        }
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
