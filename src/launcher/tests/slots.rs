//! Runs that find a slot, and who makes them.

use super::*;
use crate::launcher::{
    backend::Backend,
    pool::{self, Filled, Pool},
};

/// A bench at whose proxy a pool was asked for.
async fn pooled(script: Script) -> Bench {
    let bench = Bench::new(script);
    let settings = bench.settings();
    let filled = Pool::new(&&bench.fake, &settings).fill(2).await.unwrap();
    assert_eq!((filled.idle, filled.made, filled.removed), (2, 2, 0));
    assert!(pool::is_wanted(&settings));
    bench
}

fn count(calls: &[String], what: &str) -> usize {
    calls.iter().filter(|call| *call == what).count()
}

#[tokio::test(start_paused = true)]
async fn a_run_at_a_slot_makes_no_network_and_is_registered_by_its_claim() {
    let script = Script {
        slots: 1,
        ..quick()
    };
    let bench = pooled(script).await;
    let before = bench.fake.calls().len();
    let record = bench.run(&egress(), Io::none()).await;
    assert_eq!(
        (record.exit_code, record.slot.as_deref()),
        (0, Some("01JS"))
    );
    let calls = bench.fake.calls().split_off(before);
    let expected = [
        "image", "proxy", "PUT", "create", "start", "wait", "DELETE", "remove",
    ];
    let mut sorted = calls.clone();
    sorted[..2].sort();
    assert_eq!(sorted, expected);
    // There is no second one.
    let record = bench.run(&egress(), Io::none()).await;
    assert_eq!((record.exit_code, record.slot), (0, None));
    assert!(record.warnings.iter().all(|said| !said.contains("slot")));
}

#[tokio::test(start_paused = true)]
async fn a_slot_that_is_not_as_planned_is_given_up_and_a_network_made() {
    let script = Script {
        slots: 1,
        are_spoilt: true,
        ..quick()
    };
    let bench = pooled(script).await;
    let before = bench.fake.calls().len();
    let record = bench.run(&egress(), Io::none()).await;
    assert_eq!((record.exit_code, record.slot.as_deref()), (0, None));
    let told = "slot 01JS of the pool was not used: the engine did not apply agent-egress-01JS";
    let mut warnings = record.warnings.iter();
    assert!(warnings.any(|said| said.starts_with(told)), "{record:?}");
    let calls = bench.fake.calls().split_off(before);
    // Its address is given back before the run has another.
    let first = calls.iter().position(|call| call == "DELETE").unwrap();
    assert_eq!(count(&calls[..first], "PUT"), 1, "{calls:?}");
    assert_eq!(count(&calls[first..], "PUT"), 1, "{calls:?}");
    assert_eq!(count(&calls, "create"), 2, "{calls:?}");
}

#[tokio::test(start_paused = true)]
async fn who_asked_for_no_pool_or_for_more_than_a_slot_has_claims_none() {
    let script = Script {
        slots: 1,
        ..quick()
    };
    let bench = Bench::new(script.clone());
    let record = bench.run(&egress(), Io::none()).await;
    assert_eq!(record.slot, None);
    let bench = pooled(script).await;
    let mut spec = egress();
    spec.runtime = Some("runsc".to_owned());
    assert_eq!(bench.run(&spec, Io::none()).await.slot, None);
    pool::forget(&bench.settings()).unwrap();
    assert_eq!(bench.run(&egress(), Io::none()).await.slot, None);
}

#[tokio::test(start_paused = true)]
async fn a_slot_that_cannot_be_made_or_offered_is_removed() {
    for fails in ["make_slot", "PUT"] {
        let bench = Bench::new(Script {
            fails: Some(fails),
            ..quick()
        });
        let settings = bench.settings();
        let refused = Pool::new(&&bench.fake, &settings).fill(1).await;
        assert!(refused.is_err(), "{fails}");
    }
    // An address that somebody has: another range is taken.
    let bench = Bench::new(Script {
        taken_addresses: 1,
        ..quick()
    });
    let settings = bench.settings();
    let filled = Pool::new(&&bench.fake, &settings).fill(1).await.unwrap();
    assert_eq!((filled.idle, filled.made), (1, 1));
    assert_eq!(count(&bench.fake.calls(), "make_slot"), 2);
}

#[tokio::test(start_paused = true)]
async fn a_pool_is_kept_only_where_one_was_asked_for() {
    let bench = pooled(quick()).await;
    let settings = bench.settings();
    let fake = &bench.fake;
    let pool = Pool::new(&fake, &settings);
    assert_eq!(pool.size().await.unwrap(), Some(2));
    // The scripted engine has nothing of what was made, as after somebody removed it.
    assert_eq!(pool.keep().await.unwrap().made, 2);
    assert_eq!(pool.fill(0).await.unwrap(), Filled::default());
    assert_eq!(pool.keep().await.unwrap(), Filled::default());
    assert_eq!(pool.size().await.unwrap(), None);
    assert!(fake.objects().await.unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn the_parts_of_a_slot_are_no_orphans_of_a_run() {
    let bench = Bench::new(quick());
    let settings = bench.settings();
    let slot = crate::record::RunId::parse("01JS").unwrap();
    let labels = Labels {
        run: slot.clone(),
        slot: Some(slot),
        owner: settings.owner.clone(),
        ..Labels::sample()
    };
    let bench = Bench::new(Script {
        objects: vec![Object {
            kind: ObjectKind::Network,
            id: "agent-egress-01JS".to_owned(),
            name: "agent-egress-01JS".to_owned(),
            labels: labels.to_map(),
        }],
        ..quick()
    });
    bench.run(&egress(), Io::none()).await;
    assert_eq!(count(&bench.fake.calls(), "reap agent-egress-01JS"), 0);
    // The pool knows that no proxy has it on its list.
    let settings = bench.settings();
    let filled = Pool::new(&&bench.fake, &settings).fill(1).await.unwrap();
    assert_eq!(filled.removed, 1);
    assert_eq!(count(&bench.fake.calls(), "reap agent-egress-01JS"), 1);
}
