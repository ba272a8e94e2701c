//! Slots: made ahead by `eclusa up --pool`, each used by one run and by no other.

mod trust;

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::{
    docker::{WithoutProxy, attempt, docker, listed_by_proxy, wait_until, without_proxy},
    run::{Launcher, Running, finish_record, objects},
};

/// A launcher at a proxy with a pool; it has the engine's proxy to itself.
struct Pooled {
    launcher: Launcher,
    _alone: WithoutProxy,
}

impl Pooled {
    fn new(size: usize) -> Self {
        let alone = without_proxy();
        let pooled = Self {
            launcher: Launcher::alone(),
            _alone: alone,
        };
        let up = pooled.up(&[&format!("--pool={size}")]);
        let expected = json!({"idle": size, "made": size, "removed": 0});
        assert_eq!(up.get("pool"), Some(&expected));
        pooled
    }

    /// What `eclusa up --json` did, with more arguments.
    fn up(&self, arguments: &[&str]) -> Value {
        let mut up = self.launcher.bare(&["up", "--json"]);
        let up = attempt(up.args(arguments));
        assert!(up.ok, "{up:?}");
        serde_json::from_str(&up.text).unwrap()
    }

    /// A run that lives until its input ends.
    fn start(&self) -> Running {
        let options = ["--network=egress", "--stdin", "--timeout=100s"];
        Running::start(&mut self.launcher.command(&options, &["cat"]))
    }
}

/// What the proxy knows of slots.
fn slots() -> Vec<Value> {
    listed_by_proxy("/v1/slots")
}

/// The slots that can be claimed.
fn idle() -> BTreeSet<String> {
    let slots = slots()
        .into_iter()
        .filter(|line| line.get("run").is_some_and(Value::is_null));
    slots
        .filter_map(|line| Some(line.get("slot")?.as_str()?.to_owned()))
        .collect()
}

/// Waits until so many slots are idle again, and gives their ids.
fn filled(size: usize) -> BTreeSet<String> {
    let mut slots = BTreeSet::new();
    wait_until("a full pool", || {
        slots = idle();
        slots.len() == size
    });
    slots
}

/// The slots of which the engine has a part.
fn present() -> BTreeSet<String> {
    let objects = objects().into_iter();
    let slots = objects
        .filter(|object| object.labels.get("eclusa.slot") == object.labels.get("eclusa.run"));
    slots
        .filter_map(|object| object.labels.get("eclusa.slot").cloned())
        .collect()
}

#[test]
#[ignore = "needs Docker"]
fn of_ten_runs_at_once_four_have_a_slot_each_and_nobody_has_it_again() {
    let pooled = Pooled::new(4);
    let before = idle();
    let running: Vec<Running> = (0..10).map(|_| pooled.start()).collect();
    for run in &running {
        run.sandbox();
    }
    assert_eq!(idle(), BTreeSet::new());
    let records: Vec<_> = running
        .into_iter()
        .map(|run| finish_record(run, b"hello\n").succeeded().record)
        .collect();
    assert!(
        records
            .iter()
            .all(|record| record.output.as_ref().unwrap().stdout == "hello\n")
    );
    let used: Vec<String> = records
        .into_iter()
        .filter_map(|record| record.slot)
        .collect();
    assert_eq!(used.len(), 4, "{used:?}");
    assert_eq!(
        used.into_iter().collect::<BTreeSet<_>>(),
        before,
        "each has another"
    );
    let after = filled(4);
    assert!(after.is_disjoint(&before), "{after:?}");
    wait_until("the end of what was used", || present() == after);
}

/// Prints what a sandbox sees of its network.
const LOOK: &str = r#"
hostname; cat /etc/resolv.conf /proc/net/if_inet6 /proc/sys/net/ipv4/ping_group_range
cat /proc/sys/net/ipv6/conf/*/disable_ipv6; ls /sys/class/net; env | grep -i proxy | sort
getent ahostsv4 named.example.com | tr -s " "; getent ahostsv4 other.example.com || echo no such name
ip route; wc -l < /etc/hosts; touch /etc/hosts 2>/dev/null || echo read-only
id; grep -E "Cap|Seccomp:|NoNewPrivs" /proc/self/status; ls /proc | grep -c "^[0-9]"
"#;

#[test]
#[ignore = "needs Docker"]
fn a_sandbox_at_a_slot_sees_what_one_on_a_network_of_its_own_sees() {
    let pooled = Pooled::new(1);
    let look = |output: &str| {
        let ran = pooled.launcher.shell(
            &["--allow=named.example.com", &format!("--output={output}")],
            &format!("echo kept > /output/file; {LOOK}"),
        );
        let ran = ran.succeeded();
        assert_eq!(ran.record.outputs[0].bytes, 5, "{ran:?}");
        // Where its addresses are told, those of everybody.
        let addresses = ran
            .stdout()
            .split(|c: char| !(c.is_ascii_digit() || c == '.'));
        let own = addresses.filter(|word| word.starts_with("10.231."));
        let prefixes: BTreeSet<String> = own
            .map(|address| address.rsplit_once('.').unwrap().0.to_owned())
            .collect();
        let mut seen = ran.stdout().to_owned();
        for prefix in prefixes {
            seen = seen.replace(&prefix, "10.231.x");
        }
        let last = |text: &str| {
            let words = text.split_inclusive(|c: char| !(c.is_ascii_alphanumeric() || c == '.'));
            let plain = words.map(|word| match word.strip_prefix("10.231.x.") {
                // The proxy has the second address of eight, its run the third, the gateway the first.
                Some(rest) => {
                    let digits = rest.trim_end_matches(|c: char| !c.is_ascii_digit());
                    let at: u32 = digits.parse().unwrap();
                    format!("10.231.x.{}{}", at % 8, rest.trim_start_matches(digits))
                }
                None => word.to_owned(),
            });
            plain.collect::<String>()
        };
        (ran.record.slot.is_some(), last(&seen))
    };
    let (is_at_slot, at_slot) = look("first");
    assert!(is_at_slot);
    filled(1);
    pooled.up(&["--pool=0"]);
    assert_eq!(present(), BTreeSet::new());
    let (is_at_slot, on_its_own) = look("second");
    assert!(!is_at_slot);
    assert_eq!(at_slot, on_its_own);
    assert!(at_slot.contains("no such name"), "{at_slot}");
}

#[test]
#[ignore = "needs Docker"]
fn up_fills_and_empties_the_pool_and_down_removes_all_of_it() {
    let pooled = Pooled::new(2);
    let first = idle();
    // As many as before, where nothing is said.
    let again = pooled.up(&[]);
    assert_eq!(
        (&again["action"], &again["pool"]["idle"]),
        (&"none".into(), &2.into())
    );
    assert_eq!(again["pool"]["made"], 0);
    assert_eq!(idle(), first);
    let fewer = pooled.up(&["--pool=1"]);
    assert_eq!(
        (&fewer["pool"]["idle"], &fewer["pool"]["removed"]),
        (&1.into(), &1.into())
    );
    wait_until("the end of the other", || present() == idle());
    // A run that has one is not robbed of its network, nor is the proxy stopped under it.
    let running = pooled.start();
    running.sandbox();
    let refused = attempt(&mut pooled.launcher.bare(&["down"]));
    assert!(
        !refused.ok && refused.text.contains("serves a run"),
        "{refused:?}"
    );
    assert!(
        finish_record(running, b"")
            .succeeded()
            .record
            .slot
            .is_some()
    );
    filled(1);
    let down = attempt(&mut pooled.launcher.bare(&["down"]));
    assert!(down.ok && down.text.contains("removed slot "), "{down:?}");
    assert_eq!(present(), BTreeSet::new());
    let volumes = docker(&["volume", "ls", "--quiet", "--filter=label=eclusa.slot"]);
    assert_eq!(volumes, "");
}
