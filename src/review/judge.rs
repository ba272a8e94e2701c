//! What a configuration decides on something that was asked before, without looking anything up.

use std::{net::IpAddr, sync::Arc};

use serde::Serialize;

use crate::{
    config::Config,
    destination::{BlockedAddress, Destination, Host, Name, Surroundings},
    policy::{Decision, Policy, Reason, UnknownProfile, Verdict},
};

/// A decision, and what it rests on.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct Judged {
    /// What is decided.
    pub decision: Decision,
    /// Why.
    pub reason: Reason,
    /// Where the deciding rule stands; none where no rule matched.
    pub rule: Option<Arc<str>>,
    /// Which address is refused and why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

impl Judged {
    /// Judges `destination` as `serve` does before it looks anything up, and then the addresses
    /// that its name is known to resolve to, none where they are not known. An IP literal is its
    /// own address. What the proxy's host would add, the addresses of its interfaces, is not known
    /// here.
    pub fn destination(
        config: &Config,
        policy: &Policy,
        destination: &Destination,
        known: &[IpAddr],
    ) -> Self {
        let verdict = policy.evaluate(destination);
        let literal = match destination.host {
            Host::Ip(address) => Some([address]),
            Host::Name(_) => None,
        };
        let addresses = literal.as_ref().map_or(known, |own| own);
        if !verdict.passes() || addresses.is_empty() {
            return verdict.into();
        }
        let exceptions = &verdict.grants.addresses;
        let surroundings = surroundings(config);
        match config
            .addresses
            .vet(&surroundings, destination, addresses, exceptions)
        {
            Ok(_) => verdict.into(),
            Err(blocked) => Self::blocked(verdict, &blocked),
        }
    }

    /// Judges a name as our DNS server does.
    pub fn name(config: &Config, policy: &Policy, name: &Name) -> Self {
        match config.dns.place_of(name) {
            Some(place) => Self {
                decision: Decision::Allow,
                reason: Reason::Allowlisted,
                rule: Some(place),
                detail: None,
            },
            None => policy.evaluate_name(name).into(),
        }
    }

    /// What everybody gets who is nobody's client.
    pub fn unknown_client() -> Self {
        Self {
            decision: Decision::Deny,
            reason: Reason::UnknownClient,
            rule: None,
            detail: None,
        }
    }

    /// What a run gets that cannot be registered.
    pub fn unregistered(unknown: &UnknownProfile) -> Self {
        Self {
            detail: Some(format!("{unknown}, so the run would not be registered")),
            ..Self::unknown_client()
        }
    }

    fn blocked(verdict: Verdict, blocked: &BlockedAddress) -> Self {
        let reason = if blocked.is_loop {
            Reason::LoopDetected
        } else {
            Reason::AddressBlocked
        };
        Self {
            decision: Decision::Deny,
            reason,
            rule: verdict.rule,
            detail: Some(blocked.to_string()),
        }
    }
}

impl From<Verdict> for Judged {
    fn from(verdict: Verdict) -> Self {
        Self {
            decision: verdict.decision,
            reason: verdict.reason,
            rule: verdict.rule,
            detail: None,
        }
    }
}

/// What is known to be ours without looking at a host.
fn surroundings(config: &Config) -> Surroundings {
    let listen = &config.listen;
    let lists = [&listen.proxy, &listen.dns, &listen.https, &listen.http];
    let sockets = lists.into_iter().flatten().chain(&listen.metrics);
    let clients = config.policies.clients();
    Surroundings {
        clients: clients.iter().map(|client| client.source).collect(),
        listeners: sockets.copied().collect(),
        ..Surroundings::default()
    }
}
