use serde_json::{Value, from_value, json};

use super::*;
use crate::launcher::backend::docker::{
    container::{holder, sandbox},
    sample::plan_for_podman,
    verify,
};

/// What Podman reported of the sample plan.
const REPORT: &str = include_str!("podman-4.3.json");

/// What may stand in a report although it is not what was planned: what Podman does not report, and
/// what `verify` excepts for every engine. Of the kernel's own memory the library reads nothing.
const FREE: &[&str] = &[
    "Config.AttachStderr",
    "Config.AttachStdin",
    "Config.AttachStdout",
    "Config.Image",
    "Config.OnBuild",
    "Config.StdinOnce",
    "HostConfig.KernelMemory",
    "HostConfig.KernelMemoryTCP",
    "HostConfig.Runtime",
];

fn report() -> Value {
    serde_json::from_str(REPORT).unwrap()
}

/// Whether a report is taken for one on the sample plan.
fn is_accepted(report: Value) -> bool {
    let planned = sandbox(&plan_for_podman()).unwrap();
    let Ok(report) = from_value(report) else {
        return false;
    };
    verify::compare(&planned, &heard(&planned, report)).is_ok()
}

/// Something else than stands there.
fn other(value: &Value) -> Value {
    match value {
        Value::Null | Value::Array(_) => json!(["other"]),
        Value::Bool(value) => json!(!value),
        Value::Number(number) => json!(number.as_i64().unwrap() + 12345),
        Value::String(_) => json!("other"),
        Value::Object(_) => json!({"other": "x"}),
    }
}

#[test]
fn podman_is_told_in_its_own_words() {
    let plan = plan_for_podman();
    let sandbox = told(&sandbox(&plan).unwrap());
    let holder = told(&holder(&plan.labels, plan.holder.as_ref().unwrap(), "sha256:11").unwrap());
    let all = json!({"sandbox": sandbox, "holder": holder});
    insta::assert_snapshot!(format!("{all:#}"));
}

#[test]
fn what_podman_reports_of_a_plan_that_it_applied_is_accepted() {
    let planned = sandbox(&plan_for_podman()).unwrap();
    let report = from_value(report()).unwrap();
    verify::compare(&planned, &heard(&planned, report)).unwrap();
}

#[test]
fn every_field_that_podman_reports_otherwise_is_refused() {
    for section in ["Config", "HostConfig"] {
        for (field, value) in report()[section].as_object().unwrap() {
            let name = format!("{section}.{field}");
            let mut changed = report();
            changed[section][field] = other(value);
            assert_eq!(
                is_accepted(changed),
                FREE.contains(&name.as_str()),
                "{name}"
            );
        }
    }
    for field in ["Args", "Image", "Mounts", "Name", "Path"] {
        let mut changed = report();
        changed[field] = other(&changed[field]);
        assert!(!is_accepted(changed), "{field}");
    }
}

/// Changes that would each open something.
fn openings() -> Vec<(&'static str, Value)> {
    let memory = "eclusa-memory-1-01JD:/workspace:rw,noexec,nosuid,nodev,nocopy,rprivate,rbind";
    let input = "/srv/input:/input:ro,rprivate,bind";
    vec![
        (
            "/HostConfig/Tmpfs",
            json!({"/run": "rw,rprivate,nosuid,nodev,tmpcopyup"}),
        ),
        ("/HostConfig/Binds/1", json!(input.replace(":ro,", ":rw,"))),
        ("/HostConfig/Binds/1", json!(input.replace("bind", "rbind"))),
        (
            "/HostConfig/Binds/1",
            json!(input.replace("rprivate", "rshared")),
        ),
        (
            "/HostConfig/Binds/1",
            json!(input.replace("/srv/input", "/")),
        ),
        ("/HostConfig/Binds/4", json!(memory.replace("noexec,", ""))),
        (
            "/HostConfig/Binds/4",
            json!(memory.replace("noexec", "noexec,exec")),
        ),
        ("/HostConfig/Binds/4", json!(memory.replace("nodev", "dev"))),
        (
            "/HostConfig/Binds/4",
            json!("anonymous:/data2:rw,exec,rbind"),
        ),
        ("/HostConfig/CapDrop", json!(["NET_RAW"])),
        ("/HostConfig/CapAdd", json!(["SYS_ADMIN"])),
        ("/HostConfig/SecurityOpt", json!(["no-new-privileges"])),
        (
            "/HostConfig/SecurityOpt",
            json!(["no-new-privileges", "seccomp=unconfined"]),
        ),
        (
            "/HostConfig/SecurityOpt",
            json!([
                "no-new-privileges",
                "seccomp=/srv/seccomp.json",
                "apparmor=unconfined"
            ]),
        ),
        ("/HostConfig/Sysctls", json!({"net.ipv4.ip_forward": "1"})),
        ("/HostConfig/MaskedPaths", json!([])),
        ("/HostConfig/CgroupnsMode", json!("host")),
        ("/HostConfig/IpcMode", json!("host")),
        ("/HostConfig/Ulimits/0/Hard", json!(4096)),
        ("/HostConfig/CpuQuota", json!(200_000)),
        (
            "/Config/Env/0",
            json!("HTTP_PROXY=http://proxy.example.com:3128"),
        ),
        ("/Config/Env/2", json!("FOO=of the image")),
        ("/Mounts/1/RW", json!(false)),
        ("/NetworkSettings/Networks", json!({"podman": {}})),
    ]
}

#[test]
fn what_would_weaken_a_sandbox_is_refused() {
    for (field, value) in openings() {
        let mut changed = report();
        let (parent, last) = field.rsplit_once('/').unwrap();
        match changed.pointer_mut(parent).unwrap() {
            Value::Array(items) => items[last.parse::<usize>().unwrap()] = value.clone(),
            parent => parent[last] = value.clone(),
        }
        assert!(!is_accepted(changed), "{field} {value}");
    }
    let mut confined = report();
    let options = [
        "no-new-privileges",
        "seccomp=/srv/seccomp.json",
        "apparmor=containers-default",
    ];
    confined["HostConfig"]["SecurityOpt"] = json!(options);
    assert!(is_accepted(confined));
}

#[test]
fn only_the_holder_may_have_file_systems_of_podmans_own() {
    let plan = plan_for_podman();
    let own = json!({"HostConfig": {"Tmpfs": {"/run": "rw", "/tmp": "rw", "/other": "rw"}}});
    let left = |container: &Container| {
        let report = heard(container, from_value(own.clone()).unwrap());
        let tmpfs = report.host_config.unwrap().tmpfs.unwrap();
        let mut targets: Vec<String> = tmpfs.into_keys().collect();
        targets.sort();
        targets
    };
    let holder = holder(&plan.labels, plan.holder.as_ref().unwrap(), "sha256:11").unwrap();
    assert_eq!(left(&holder), ["/other"]);
    assert_eq!(left(&sandbox(&plan).unwrap()), ["/other", "/run", "/tmp"]);
}
