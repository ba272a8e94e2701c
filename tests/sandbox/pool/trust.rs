//! What of a slot is not as it was made, and whose it is.

use std::{
    collections::BTreeSet,
    process::{Command, Stdio},
};

use eclusa::launcher::{Settings, plan::Owner, pool::Pool};
use rustix::process::Signal;
use serde_json::{Value, json};

use super::{Pooled, filled, idle, present, slots};
use crate::{
    backend::engine,
    docker::{AGENT_IMAGE, Container, attempt, docker, wait_until},
    run::finish_record,
};

fn admin(arguments: &[&str]) -> Value {
    let ask = ["exec", "eclusa-proxy", "/eclusa", "admin"];
    let output = attempt(Command::new("docker").args(ask).args(arguments));
    serde_json::from_str(&output.text).unwrap()
}

#[test]
#[ignore = "needs Docker"]
fn a_slot_that_is_not_as_it_was_made_is_not_used_and_goes() {
    type Change<'a> = &'a dyn Fn(&str);
    let pooled = Pooled::new(1);
    let stranger = Container(docker(&["run", "--detach", AGENT_IMAGE, "sleep", "600"]));
    let changes: [(&str, Change<'_>); 4] = [
        ("members", &|slot| {
            docker(&[
                "network",
                "connect",
                &format!("agent-egress-{slot}"),
                &stranger.0,
            ]);
        }),
        ("members", &|slot| {
            docker(&[
                "network",
                "disconnect",
                &format!("agent-egress-{slot}"),
                "eclusa-proxy",
            ]);
        }),
        ("that it runs", &|slot| {
            docker(&["pause", &format!("eclusa-holder-{slot}")]);
        }),
        ("No such container", &|slot| {
            docker(&["rm", "--force", &format!("eclusa-holder-{slot}")]);
        }),
    ];
    for (expected, change) in changes {
        let slot = filled(1).pop_first().unwrap();
        change(&slot);
        let ran = pooled
            .launcher
            .run(&["--network=egress"], &["true"])
            .succeeded();
        assert_eq!(ran.record.slot, None, "{expected}");
        let told = format!("slot {slot} of the pool was not used");
        let mut warnings = ran.record.warnings.iter();
        assert!(
            warnings.any(|said| said.contains(&told) && said.contains(expected)),
            "{expected}: {ran:?}"
        );
        wait_until("its end", || !present().contains(&slot));
    }
}

#[test]
#[ignore = "needs Docker"]
fn what_a_killed_launcher_claimed_goes_and_nobody_has_it_again() {
    let pooled = Pooled::new(1);
    let slot = idle().pop_first().unwrap();
    let running = pooled.start();
    running.sandbox();
    running.signal(Signal::KILL);
    running.finish(b"");
    let next = pooled
        .launcher
        .run(&["--network=egress"], &["true"])
        .succeeded();
    assert_eq!(next.record.slot, None, "the one that there was is used");
    let after = filled(1);
    assert!(!after.contains(&slot));
    wait_until("its end", || present() == after);
    let killed = "the launcher was killed; a later one removed the sandbox";
    let records = pooled.launcher.recorded();
    assert!(
        records
            .iter()
            .any(|record| record.error.as_deref() == Some(killed))
    );

    // In the midst of its claim: the proxy knows of a run, of which the engine has nothing.
    let pool = slots()[0]["pool"].clone();
    let wish = json!({"pool": pool, "expires_in": "1s"}).to_string();
    let claimed = admin(&["PUT", "/v1/runs/01DEAD", &wish]);
    let slot = claimed["slot"].as_str().unwrap();
    wait_until("the expiry", || slots()[0]["ended"] == true);
    let up = pooled.up(&[]);
    assert_eq!(
        (&up["pool"]["removed"], &up["pool"]["made"]),
        (&1.into(), &1.into())
    );
    assert!(!present().contains(slot) && !idle().contains(slot));
    assert_eq!(admin(&["GET", "/v1/runs"]), json!([]));
}

#[test]
#[ignore = "needs Docker"]
fn a_proxy_that_starts_anew_gives_no_slot_from_before_and_robs_no_run() {
    let pooled = Pooled::new(2);
    let before = idle();
    let running = pooled.start();
    running.sandbox();
    docker(&["restart", "eclusa-proxy"]);
    let ran = pooled
        .launcher
        .run(&["--network=egress"], &["true"])
        .succeeded();
    assert_eq!(ran.record.slot, None);
    let after = filled(2);
    assert!(after.is_disjoint(&before), "{after:?}");
    let ran = finish_record(running, b"still here\n").succeeded();
    assert_eq!(ran.stdout(), "still here\n");
    assert!(before.contains(&ran.record.slot.unwrap()));
    wait_until("the end of what was before", || present() == after);
}

#[test]
#[ignore = "needs Docker"]
fn the_pool_of_another_owner_is_left_alone() {
    let pooled = Pooled::new(1);
    let own = idle();
    let folder = pooled.launcher.path("other");
    let settings = Settings {
        pool: "10.231.0.0/16".parse().unwrap(),
        record: folder.join("runs.jsonl"),
        state: folder,
        owner: Owner {
            machine: "another".to_owned(),
            uid: 0,
        },
        process: "1.1.1".parse().unwrap(),
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let engine = engine().await;
        let filled = Pool::new(&engine, &settings).fill(1).await.unwrap();
        assert_eq!((filled.made, filled.removed), (1, 0));
    });
    let theirs: BTreeSet<String> = idle().difference(&own).cloned().collect();
    assert_eq!(theirs.len(), 1);
    for _ in 0..2 {
        let ran = pooled
            .launcher
            .run(&["--network=egress"], &["true"])
            .succeeded();
        assert!(ran.record.slot.is_none_or(|slot| !theirs.contains(&slot)));
        filled(2);
    }
    assert!(idle().is_superset(&theirs));
    // Without a proxy they are of no use to anybody.
    let down = pooled
        .launcher
        .bare(&["down"])
        .stdin(Stdio::null())
        .status();
    assert!(down.unwrap().success());
    assert_eq!(present(), BTreeSet::new());
}
