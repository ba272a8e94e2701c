//! Networks that are made ahead of the runs that will have them.

use serde_json::{Value, json};

use super::{body, connect, register};
use crate::support::{client::status, world::World};

/// Offers a slot at an address that no `[[clients]]` range holds.
fn offer(world: &World, slot: &str, pool: &str, source: &str) -> Value {
    let slot = format!("/v1/slots/{slot}");
    let offered = json!({"pool": pool, "sources": [source]}).to_string();
    body(&world.proxy.admin("PUT", &slot, Some(&offered)))
}

fn claim(world: &World, run: &str, pool: &str) -> Value {
    let wish = json!({"pool": pool, "profile": "default", "expires_in": "1h"});
    register(world, run, &wish).1
}

fn slots(world: &World) -> Value {
    body(&world.proxy.admin("GET", "/v1/slots", None))
}

#[test]
fn a_slot_is_a_stranger_until_a_run_claims_it_and_after_that_run() {
    let world = World::standard();
    assert_eq!(offer(&world, "slot-1", "a", "127.0.7.7"), json!({}));
    let reached = || status(&connect(&world, "127.0.7.7", "allowed.example"));
    assert_eq!(reached(), Some(403));
    assert_eq!(
        world.proxy.events("decision")[0]["reason"],
        "unknown_client"
    );
    let claimed = claim(&world, "run-1", "a");
    assert_eq!(claimed["slot"], "slot-1", "{claimed}");
    assert_eq!(claimed["sources"], json!(["127.0.7.7"]));
    assert_eq!(reached(), Some(200));
    // Again, as a launcher repeats it: the addresses are the run's own by now.
    let own = json!({"sources": ["127.0.7.7"], "profile": "default", "expires_in": "1h"});
    assert!(register(&world, "run-1", &own).0);
    assert!(world.proxy.events("run_change").is_empty());

    assert_eq!(claim(&world, "run-2", "a")["status"], 409, "there is one");
    let line = &slots(&world)[0];
    assert_eq!(
        (&line["run"], &line["ended"]),
        (&json!("run-1"), &json!(false))
    );
    let withdrawn = world.proxy.admin("DELETE", "/v1/slots/slot-1", None);
    assert_eq!(body(&withdrawn)["status"], 404, "it is not idle");
    assert!(
        world
            .proxy
            .admin("DELETE", "/v1/runs/run-1", None)
            .status
            .success()
    );
    assert_eq!(reached(), Some(403));
    assert_eq!(claim(&world, "run-2", "a")["status"], 409, "it was used");
    assert_eq!(slots(&world), json!([]));
}

#[test]
fn of_many_that_claim_at_once_each_gets_another_slot() {
    let world = World::standard();
    for at in 1..=4 {
        offer(&world, &format!("slot-{at}"), "a", &format!("127.0.7.{at}"));
    }
    offer(&world, "foreign", "b", "127.0.7.9");
    let runs: Vec<String> = (0..10).map(|at| format!("run-{at}")).collect();
    let answers: Vec<Value> = std::thread::scope(|scope| {
        let claims: Vec<_> = runs
            .iter()
            .map(|run| scope.spawn(|| claim(&world, run, "a")))
            .collect();
        claims
            .into_iter()
            .map(|claim| claim.join().unwrap())
            .collect()
    });
    let mut given: Vec<&str> = answers
        .iter()
        .filter_map(|answer| answer["slot"].as_str())
        .collect();
    given.sort_unstable();
    assert_eq!(given, ["slot-1", "slot-2", "slot-3", "slot-4"]);
    let refused = answers.iter().filter(|answer| answer["status"] == 409);
    assert_eq!(refused.count(), 6, "{answers:?}");
}

#[test]
fn a_claim_that_is_refused_leaves_the_slot_to_another() {
    let world = World::standard();
    offer(&world, "slot-1", "a", "127.0.7.7");
    for (wish, expected) in [
        (
            json!({"pool": "a", "profile": "none", "expires_in": "9s"}),
            400,
        ),
        (
            json!({"pool": "a", "allow": ["*.com"], "expires_in": "9s"}),
            400,
        ),
        (
            json!({"pool": "a", "sources": ["127.0.7.8"], "expires_in": "9s"}),
            400,
        ),
        (json!({"pool": "b", "expires_in": "9s"}), 409),
    ] {
        let (_, answer) = register(&world, "run-1", &wish);
        assert_eq!(answer["status"], expected, "{wish}: {answer}");
    }
    assert_eq!(claim(&world, "run-2", "a")["slot"], "slot-1");
    for (slot, source, expected) in [("slot-1", "127.0.7.7", 409), ("slot-2", "127.0.7.7", 409)] {
        let answer = offer(&world, slot, "a", source);
        assert_eq!(answer["status"], expected, "{slot}: {answer}");
    }
}
