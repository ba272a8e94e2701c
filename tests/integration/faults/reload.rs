//! Reloads under load, and of files that are half written.

use std::{
    collections::BTreeSet,
    fs,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    thread,
};

use serde_json::Value;

use super::{Over, assert_serves, connect_head};
use crate::support::{
    client::{dial_from, problem, read_to_close, send, status},
    eventually,
    soundness::{Footprint, Metrics, assert_sound, health},
    world::World,
};

/// How often the configuration changes under load.
const RELOADS: u64 = 40;

/// Two policies that agree on nothing: who reads a part of each gives an answer that neither gives.
fn policies() -> [String; 2] {
    let policy = |open: &str, shut: &str| {
        format!(
            "[profiles.default]\ndeny = [\"{shut}\"]\n\
             [[profiles.default.rules]]\nhosts = [\"{open}\"]\naddresses = [\"127.0.0.0/8\"]\n\
             opaque = true\n\
             [[profiles.default.rules]]\nhosts = [\"{shut}\"]\n\
             [[clients]]\nsource = \"127.0.0.0/24\"\nprofile = \"default\"\n\
             [limits]\nrequests_per_second = 100000\n"
        )
    };
    [
        policy("opaque.example", "opaque2.example"),
        policy("opaque2.example", "opaque.example"),
    ]
}

/// Opens a tunnel to `host` again and again, and holds each until the next.
fn ask(world: &World, host: &str, source: &str, over: &AtomicBool, passed: &AtomicUsize) {
    let mut held = None;
    while !over.load(Ordering::Relaxed) {
        let mut stream = dial_from(source, world.proxy.listener("proxy"));
        let bytes = [connect_head(host).as_bytes(), b"hello\n"].concat();
        send(&mut stream, &bytes);
        let mut answer = vec![0; 4096];
        let length = std::io::Read::read(&mut stream, &mut answer).unwrap_or(0);
        answer.truncate(length);
        match status(&answer) {
            Some(200) => {
                passed.fetch_add(1, Ordering::Relaxed);
                held = Some(stream);
            }
            Some(403) => {
                answer.extend(read_to_close(&mut stream));
                assert_eq!(problem(&answer)["reason"], "denied_by_rule");
            }
            // A reload cut it before it was told anything.
            None => assert_eq!(length, 0),
            Some(other) => panic!("{other}: {}", String::from_utf8_lossy(&answer)),
        }
    }
    drop(held);
}

#[test]
fn traffic_flows_during_reloads_and_no_verdict_is_of_two_policies() {
    let [first, second] = policies();
    let world = World::with_policy(&first);
    let text = fs::read_to_string(world.proxy.config()).unwrap();
    let other = text.replace(&first, &second);
    assert_ne!(text, other);
    let before = Footprint::of(&world.proxy);
    let (over, passed) = (
        AtomicBool::new(false),
        [AtomicUsize::new(0), AtomicUsize::new(0)],
    );
    thread::scope(|scope| {
        let _over = Over(&over);
        for (at, host) in ["opaque.example", "opaque2.example"]
            .into_iter()
            .enumerate()
        {
            for client in 1..=2 {
                let (world, over, passed) = (&world, &over, &passed[at]);
                let source = format!("127.0.0.{}", 2 * at + client);
                scope.spawn(move || ask(world, host, &source, over, passed));
            }
        }
        for round in 1..=RELOADS {
            let (which, text) = if round % 2 == 1 {
                (1, &other)
            } else {
                (0, &text)
            };
            fs::write(world.proxy.config(), text).unwrap();
            if round % 4 < 2 {
                world.proxy.signal("HUP");
            } else {
                let reloaded = world.proxy.admin("POST", "/v1/reload", None);
                assert!(reloaded.status.success(), "{reloaded:?}");
            }
            eventually("the reload", || {
                (health(&world.proxy)["generation"] == round + 1).then_some(())
            });
            let reached = passed[which].load(Ordering::Relaxed);
            eventually("traffic under the new policy", || {
                (passed[which].load(Ordering::Relaxed) > reached).then_some(())
            });
        }
    });
    assert_of_one_policy(&world.proxy.audit());
    assert_eq!(health(&world.proxy)["generation"], RELOADS + 1);
    assert_sound(&world.proxy, before);
}

/// Every verdict is one that either policy gives, and there is a line for each reload.
fn assert_of_one_policy(lines: &[Value]) {
    let of = |event: &'static str| lines.iter().filter(move |line| line["event"] == event);
    let verdicts: BTreeSet<String> = of("decision")
        .map(|line| {
            let (decision, reason) = (&line["decision"], &line["reason"]);
            format!("{decision} {reason} {}", line["rule"])
        })
        .collect();
    let expected = [
        r#""allow" "allowlisted" "profiles.default.rules[0].hosts[0]""#,
        r#""deny" "denied_by_rule" "profiles.default.deny[0]""#,
    ];
    assert_eq!(verdicts, expected.map(str::to_owned).into());
    let outcomes: BTreeSet<&str> = of("close")
        .map(|line| line["outcome"].as_str().unwrap())
        .collect();
    assert!(outcomes.contains("policy_changed"), "{outcomes:?}");
    assert_eq!(
        of("reload").filter(|line| line["applied"] == true).count(),
        40
    );
}

#[test]
fn a_half_written_configuration_changes_nothing_and_is_told() {
    let world = World::standard();
    let before = Footprint::of(&world.proxy);
    let tunnel = world.tunnel_from("127.0.0.1", "opaque.example");
    let whole = fs::read_to_string(world.proxy.config()).unwrap();
    let fingerprint = health(&world.proxy)["config"].clone();
    // Wherever in a line the writer has come to by then.
    let is_within_line = |at: &usize| !whole.as_bytes()[at - 1..=*at].contains(&b'\n');
    let lengths: Vec<usize> = (1..whole.len() - 1)
        .filter(is_within_line)
        .step_by(31)
        .collect();
    for length in &lengths {
        let half = &whole.as_bytes()[..*length];
        fs::write(world.proxy.config(), half).unwrap();
        let answer = world.proxy.admin("POST", "/v1/reload", None);
        assert_eq!(answer.status.code(), Some(1), "{half:?}");
        let report = health(&world.proxy);
        assert_eq!(report["status"], "ok");
        assert!(report["reload_problem"].is_string(), "{report}");
        let in_force = (&report["generation"], &report["config"]);
        assert_eq!(in_force, (&1.into(), &fingerprint));
    }
    world.proxy.signal("HUP");
    eventually("every refusal to be recorded", || {
        let reloads = world.proxy.events("reload");
        let are_refused = reloads.iter().all(|line| line["applied"] == false);
        (reloads.len() > lengths.len() && are_refused).then_some(())
    });
    assert_eq!(Metrics::of(&world.proxy).value("eclusa_reload_failed"), 1);
    let check = crate::support::proxy::command()
        .args(["check", "-c"])
        .arg(world.proxy.config())
        .output()
        .unwrap();
    assert_eq!(check.status.code(), Some(64), "{check:?}");
    assert_serves(&world);

    fs::write(world.proxy.config(), &whole).unwrap();
    let answer = world.proxy.admin("POST", "/v1/reload", None);
    assert!(answer.status.success(), "{answer:?}");
    let report = health(&world.proxy);
    assert_eq!(report["reload_problem"], Value::Null);
    assert_eq!(Metrics::of(&world.proxy).value("eclusa_reload_failed"), 0);
    drop(tunnel);
    let ends = world
        .proxy
        .await_event("the tunnel's end", |line| line["event"] == "close");
    assert_ne!(ends["outcome"], "policy_changed");
    assert_sound(&world.proxy, before);
}
