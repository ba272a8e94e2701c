//! Who a client is: the run registered for its address, else the `[[clients]]` range that holds
//! it, else nobody. Never taken from anything that the client sends.

use std::{
    net::{IpAddr, Ipv4Addr},
    sync::Arc,
};

use super::runs::{Run, RunTable, Source};
use crate::{
    policy::{Policy, PolicySet, Reason},
    record::{RunId, Subject},
};

/// The two ends of a client connection or datagram, v4-mapped unwrapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Endpoint {
    /// The client's address.
    pub peer: IpAddr,
    /// Our address that it spoke to.
    pub local: IpAddr,
}

/// What limits are counted by.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ClientKey {
    /// One run, whatever the number of its sources.
    Run(RunId),
    /// One source address.
    Address(IpAddr),
}

/// A client that we know.
#[derive(Clone, Debug)]
pub struct Client {
    /// As records name it.
    pub subject: Subject,
    /// What limits are counted by.
    pub key: ClientKey,
    /// What it may reach.
    pub policy: Arc<Policy>,
    /// Its run, when one is registered.
    pub run: Option<Arc<Run>>,
    /// What our DNS answers it, when its run says so.
    pub listener: Option<Ipv4Addr>,
}

pub(super) fn identify(
    from: Endpoint,
    runs: &RunTable,
    policies: &PolicySet,
) -> Result<Client, Reason> {
    let (policy, run) = match runs.source(from.peer) {
        Source::Active(run) => {
            // Security: a run's traffic arrives on its own listener and nowhere else.
            if run
                .listener()
                .is_some_and(|listener| IpAddr::V4(listener) != from.local)
            {
                return Err(Reason::UnknownClient);
            }
            (run.policy(), Some(run))
        }
        // Security: an address that was a run's does not fall back to a wider profile.
        Source::Expired => return Err(Reason::UnknownClient),
        Source::Unregistered => match policies.client(from.peer) {
            Some(policy) => (Arc::clone(policy), None),
            None => return Err(Reason::UnknownClient),
        },
    };
    Ok(Client {
        subject: Subject {
            run: run.as_ref().map(|run| run.id().clone()),
            profile: policy.profile().cloned(),
            client: Some(from.peer),
        },
        key: run.as_ref().map_or(ClientKey::Address(from.peer), |run| {
            ClientKey::Run(run.id().clone())
        }),
        listener: run.as_ref().and_then(|run| run.listener()),
        policy,
        run,
    })
}
