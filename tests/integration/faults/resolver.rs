//! Resolvers that are silent, slow or lying: what they say reaches nobody, and each way to fail has
//! its reason.

use std::{thread, time::Duration};

use hickory_net::proto::{op::ResponseCode, rr::RecordType};
use serde_json::json;

use super::{assert_serves, connect, refusal};
use crate::support::{
    client::{problem, status},
    dns_upstream::Reply,
    eventually,
    soundness::{Footprint, assert_sound},
    world::World,
};

/// How many clients ask for each name at once.
const AT_ONCE: usize = 6;

/// What a client is told: nothing but the 200 of a tunnel, or a status and a reason.
type Told = Option<(u16, &'static str)>;

/// Every way to answer for `name`, whose address is `good`.
fn replies(name: &str, good: &str) -> Vec<(Reply, Told)> {
    let honest = || Box::new(Reply::with_ttl(name, 0, &[good]));
    let silent = || Box::new(Reply::Silent);
    let addresses = |addresses: &[&str]| Reply::with_ttl(name, 0, addresses);
    let timeout = Some((504, "resolve_timeout"));
    let failed = Some((502, "resolve_failed"));
    let blocked = Some((403, "address_blocked"));
    vec![
        (Reply::Silent, timeout),
        (Reply::Garbage, failed),
        (Reply::Code(ResponseCode::ServFail), failed),
        (Reply::NxDomain, failed),
        // Another id, another question, and the truth never.
        (Reply::Forged(silent()), timeout),
        // Records of another name.
        (Reply::addresses("other.example", &[good]), failed),
        (Reply::Truncated(silent()), timeout),
        (Reply::Late(Duration::from_mins(1), honest()), timeout),
        (addresses(&["169.254.169.254"]), blocked),
        (addresses(&[good, "10.0.0.1"]), blocked),
        (addresses(&["8.8.8.8", good, "224.0.0.1"]), blocked),
        (Reply::Late(Duration::from_millis(500), honest()), None),
        (Reply::Forged(honest()), None),
        (Reply::Truncated(honest()), None),
    ]
}

#[test]
fn what_a_broken_or_lying_resolver_says_reaches_nobody() {
    let world = World::standard();
    assert_serves(&world);
    let before = Footprint::of(&world.proxy);
    let good = world.web.address.ip().to_string();
    let name = |at: usize| format!("n{at}.wild.example");
    let told: Vec<Told> = (0..replies("", &good).len())
        .map(|at| {
            let name = name(at);
            let (reply, told) = replies(&name, &good).swap_remove(at);
            world.upstream.set(&name, RecordType::A, reply);
            told
        })
        .collect();
    thread::scope(|scope| {
        for at in 0..told.len() * AT_ONCE {
            let (at, world, told) = (at % told.len(), &world, &told);
            scope.spawn(move || assert_told(world, &name(at), told[at]));
        }
    });
    let honest = told.iter().filter(|told| told.is_none()).count();
    eventually("every connection to be accepted", || {
        (world.web.seen.connections() >= honest * AT_ONCE).then_some(())
    });
    assert_eq!(world.web.seen.connections(), honest * AT_ONCE);
    assert_serves(&world);
    assert_sound(&world.proxy, before);
}

fn assert_told(world: &World, name: &str, told: Told) {
    let Some((code, reason)) = told else {
        let (answer, _stream) = connect(&world.proxy, name);
        assert_eq!(status(&answer), Some(200), "{name}");
        return;
    };
    let answer = refusal(&world.proxy, name);
    let problem = problem(&answer);
    assert_eq!(
        (status(&answer), &problem["reason"]),
        (Some(code), &json!(reason)),
        "{name}"
    );
}
