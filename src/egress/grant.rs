//! From what was granted to a `Permit`: listed, judged again under the policy in force, recorded.

use std::{
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

use super::{
    Authorizer, Client, Connection, Endpoint, Permit, Rules, open::Exchange, permit::Opened,
    refusal::Refusal,
};
use crate::{
    destination::Destination,
    policy::{Reason, Verdict},
    protocol::Denial,
    record::{Asked, DecisionRecord},
    resolver::Resolved,
};

/// A request that passed limits, policy and addresses.
pub(super) struct Granted {
    pub(super) destination: Destination,
    pub(super) verdict: Verdict,
    pub(super) resolved: Resolved,
}

impl Authorizer {
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
    pub(super) fn open_exchange(
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
