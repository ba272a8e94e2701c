use std::{path::PathBuf, time::Duration};

use super::*;
use crate::{
    launcher::{
        backend::Image,
        spec::{Input, NetworkChoice, RunSpec},
    },
    policy::Pattern,
};

fn image() -> Image {
    Image {
        id: "sha256:00".to_owned(),
        env: vec![
            ("PATH".to_owned(), "/usr/bin".to_owned()),
            ("SECRET".to_owned(), "x".to_owned()),
        ],
        volumes: Vec::new(),
    }
}

fn planned(
    spec: &RunSpec,
    change: impl FnOnce(&mut Facts<'_>, &mut Image),
) -> Result<Plan, PlanError> {
    let (labels, mut image) = (Labels::sample(), image());
    let nothing = Image::default();
    let mut facts = Facts {
        labels: &labels,
        image: &nothing,
        slice: None,
        slot: None,
        resolv_conf: Some(PathBuf::from("/state/01JD/resolv.conf")),
        input: None,
        has_ipv6: true,
        podman: None,
    };
    change(&mut facts, &mut image);
    facts.image = &image;
    plan(spec, &facts)
}

fn simple() -> RunSpec {
    RunSpec::new("agent-python", ["python3", "-c", "print(1)"])
}

fn everything() -> RunSpec {
    let mut spec = simple();
    spec.profile = Some("default".to_owned());
    spec.allow = vec![Pattern::parse_allow("api.example.com").unwrap()];
    spec.network = NetworkChoice::Egress;
    spec.input = Some(Input::Copy(PathBuf::from("/data")));
    spec.output = Some(PathBuf::from("/results"));
    spec.stdin = true;
    spec
}

fn shown(mut plan: Plan) -> String {
    if let Filter::Inline(filter) = &mut plan.sandbox.seccomp {
        "(config/agent-seccomp.json)".clone_into(filter);
    }
    serde_json::to_string_pretty(&plan).unwrap()
}

#[test]
fn the_default_is_the_strictest() {
    let plan = planned(&simple(), |_, _| {}).unwrap();
    insta::assert_snapshot!(shown(plan));
}

#[test]
fn a_run_with_everything() {
    let plan = planned(&everything(), |facts, image| {
        facts.slice = Some("10.231.0.8/29".parse().unwrap());
        facts.input = Some(InputFacts::Copy {
            size: 1 << 20,
            inodes: 12,
        });
        image.volumes = vec!["/var/lib/data/".to_owned(), "/output".to_owned()];
    });
    insta::assert_snapshot!(shown(plan.unwrap()));
}

#[test]
fn a_slot_is_all_of_it_at_its_default() {
    let id = RunId::parse("01JS").unwrap();
    let slot = slot(&id, "10.231.0.8/29".parse().unwrap(), true).unwrap();
    insta::assert_snapshot!(serde_json::to_string_pretty(&slot).unwrap());
}

#[test]
fn a_sandbox_at_a_slot_is_the_same_in_the_namespace_of_its_holder() {
    let mut spec = everything();
    spec.input = None;
    let at = |slot: Option<&str>| {
        let slot = slot.map(|slot| RunId::parse(slot).unwrap());
        planned(&spec, |facts, _| {
            facts.slice = Some("10.231.0.8/29".parse().unwrap());
            facts.slot = slot;
        })
        .unwrap()
    };
    let (own, ahead) = (at(None), at(Some("01JS")));
    let Network::Slot(slot) = &ahead.network else {
        panic!("{:?}", ahead.network);
    };
    let namespace = slot.holder.namespace.clone().unwrap();
    assert_eq!(namespace.sysctls, own.sandbox.sysctls);
    assert_eq!(namespace.dns, own.sandbox.dns);
    assert_eq!(namespace.hostname, own.sandbox.hostname);
    assert_eq!(namespace.network, "agent-egress-01JS");
    // Nothing else of the sandbox differs but the name of the volume.
    let mut as_own = ahead.sandbox.clone();
    (as_own.sysctls, as_own.dns) = (namespace.sysctls, namespace.dns);
    for mount in &mut as_own.mounts {
        if let MountSource::Volume(name) = &mut mount.source {
            *name = name.replace("01JS", "01JD");
        }
    }
    assert_eq!(as_own, own.sandbox);
    assert_eq!(ahead.registration, own.registration);
    assert_eq!((&ahead.holder, &*ahead.volumes), (&None, &[][..]));
    assert_eq!(ahead.volume_at("/output"), Some(&slot.volume));
    assert_eq!(ahead.labels["eclusa.slot"], "01JS");
}

#[test]
fn a_run_has_a_slot_only_where_it_asks_for_what_a_slot_has() {
    type Change = fn(&mut RunSpec);
    let cases: &[(&str, Change, bool)] = &[
        ("the default", |_| {}, true),
        ("memory", |spec| spec.limits.memory *= 2, true),
        (
            "no output, other sizes",
            |spec| {
                spec.output = None;
                spec.limits.output *= 2;
            },
            true,
        ),
        (
            "a bound input",
            |spec| spec.input = Some(Input::Bind("/a".into())),
            true,
        ),
        (
            "a copied input",
            |spec| spec.input = Some(Input::Copy("/a".into())),
            false,
        ),
        (
            "another size of the output",
            |spec| spec.limits.output *= 2,
            false,
        ),
        (
            "other files of the holder",
            |spec| spec.limits.nofile += 1,
            false,
        ),
        (
            "another runtime",
            |spec| spec.runtime = Some("runsc".to_owned()),
            false,
        ),
        (
            "no network",
            |spec| spec.network = NetworkChoice::None,
            false,
        ),
        (
            "a named network",
            |spec| spec.network = named("shared"),
            false,
        ),
    ];
    for (what, change, expected) in cases {
        let mut spec = everything();
        spec.input = None;
        change(&mut spec);
        assert_eq!(fits_slot(&spec), *expected, "{what}");
    }
}

fn on_podman(facts: &mut Facts<'_>) {
    facts.podman = Some(PodmanFacts {
        seccomp: PathBuf::from("/state/seccomp/0123.json"),
        hosts: PathBuf::from("/state/hosts"),
        nproc: 96_000,
    });
}

#[test]
fn podman_is_told_what_it_does_otherwise() {
    let mut spec = everything();
    (spec.network, spec.profile, spec.allow) = (NetworkChoice::None, None, Vec::new());
    let plan = planned(&spec, |facts, image| {
        on_podman(facts);
        facts.input = Some(InputFacts::Copy {
            size: 1 << 20,
            inodes: 12,
        });
        image.volumes = vec!["/var/lib/data/".to_owned(), "/run".to_owned()];
    });
    insta::assert_snapshot!(shown(plan.unwrap()));
}

#[test]
fn nothing_is_started_that_podman_takes_for_an_init() {
    for (program, is_refused) in [
        ("/sbin/init", true),
        ("systemd", true),
        ("/opt/systemd", true),
        ("./init", false),
        ("sh", false),
    ] {
        let spec = RunSpec::new("agent-python", [program]);
        let plan = planned(&spec, |facts, _| on_podman(facts));
        assert_eq!(plan.is_err(), is_refused, "{program}: {plan:?}");
        planned(&spec, |_, _| {}).unwrap();
    }
}

#[test]
fn nothing_asked_for_weakens_the_hardening() {
    let mut asked = everything();
    asked.dangerously_run_as_root = true;
    asked.dangerously_allow_secret_env = true;
    asked.user = User { uid: 0, gid: 0 };
    let facts = |facts: &mut Facts<'_>, _: &mut Image| {
        facts.slice = Some("10.231.0.8/29".parse().unwrap());
    };
    let (least, most) = (
        planned(&simple(), |_, _| {}).unwrap().sandbox,
        planned(&asked, facts).unwrap().sandbox,
    );
    for sandbox in [&least, &most] {
        assert_eq!(sandbox.cap_drop, ["ALL"]);
        assert!(sandbox.no_new_privileges && sandbox.read_only_root && sandbox.init);
        assert_eq!(sandbox.masked_paths, least.masked_paths);
        assert_eq!(sandbox.readonly_paths, least.readonly_paths);
        assert_eq!(sandbox.sysctls, least.sysctls);
        assert_eq!(sandbox.ulimits, least.ulimits);
        assert_eq!(sandbox.seccomp, least.seccomp);
        assert!(sandbox.unset.contains(&"SECRET".to_owned()));
    }
}

#[test]
fn every_volume_of_an_image_is_in_memory() {
    let of = |volume: &str| {
        planned(&simple(), |_, image| {
            image.volumes = vec![volume.to_owned()];
        })
        .map(|plan| plan.sandbox.tmpfs.last().unwrap().target.clone())
    };
    for (volume, expected) in [
        ("/data", "/data"),
        ("/data/", "/data"),
        ("//data/./x", "/data/x"),
        ("/input", "/input"),
        ("/output", "/output"),
        ("/tmp/", "/tmp"),
        ("/workspace/x", "/workspace/x"),
    ] {
        assert_eq!(of(volume).as_deref(), Ok(expected), "{volume}");
    }
    for volume in [
        "/",
        "data",
        "",
        "/proc/x",
        "/sys",
        "/dev/shm",
        "/a/../proc",
        "/a:b",
        "/a,b",
    ] {
        assert_eq!(
            of(volume),
            Err(PlanError::ImageVolume(volume.to_owned())),
            "{volume}"
        );
    }
}

#[test]
fn what_no_sandbox_may_have_is_refused() {
    type Change = fn(&mut RunSpec);
    let cases: &[(Change, &str)] = &[
        (|spec| spec.command.clear(), "there is no command"),
        (
            |spec| spec.command = vec![String::new()],
            "there is no command",
        ),
        (|spec| spec.command.push("a\0".to_owned()), "NUL"),
        (|spec| spec.workdir = "tmp".to_owned(), "--workdir"),
        (|spec| spec.workdir = "/tmp/../etc".to_owned(), "--workdir"),
        (|spec| spec.user.uid = 0, "--dangerously-run-as-root"),
        (|spec| spec.user.gid = 0, "--dangerously-run-as-root"),
        (
            |spec| spec.limits.memory = 0,
            "--memory 0 is out of its range",
        ),
        (|spec| spec.limits.nano_cpus = 0, "--cpus"),
        (|spec| spec.limits.pids = 0, "--pids 0"),
        (|spec| spec.limits.pids = 1, "--pids 1"),
        (|spec| spec.limits.nofile = 0, "--nofile 0"),
        (|spec| spec.limits.fsize = 0, "--fsize 0"),
        (|spec| spec.limits.workspace = 0, "--workspace-size 0"),
        (|spec| spec.limits.tmp = u64::MAX, "--tmp-size"),
        (|spec| spec.limits.output = 0, "--output-size 0"),
        (|spec| spec.max_output = usize::MAX, "--max-output"),
        (|spec| spec.timeout = Duration::ZERO, "--timeout"),
        (|spec| spec.timeout = Duration::MAX, "--timeout"),
        (
            |spec| spec.profile = Some("x".to_owned()),
            "need --network egress",
        ),
        (|spec| spec.network = NetworkChoice::Egress, "no range"),
        (|spec| spec.network = named("host"), "never joined"),
        (|spec| spec.network = named("container:x"), "never joined"),
    ];
    for (change, expected) in cases {
        let mut spec = simple();
        change(&mut spec);
        let error = planned(&spec, |_, _| {}).unwrap_err().to_string();
        assert!(error.contains(expected), "{expected}: {error}");
    }
}

fn named(name: &str) -> NetworkChoice {
    NetworkChoice::Named {
        name: name.to_owned(),
        dangerously_allow: true,
    }
}
