use std::collections::BTreeSet;

use serde_json::{from_value, json};

use super::*;
use crate::launcher::backend::docker::{container::sandbox, sample::plan_with_everything};

/// What each engine reported of the sample plan, with an image that has something for every field
/// that an image can have.
const REPORTS: [(&str, &str); 3] = [
    ("20.10", include_str!("docker-20.10.json")),
    ("26.1", include_str!("docker-26.1.json")),
    ("28.5", include_str!("docker-28.5.json")),
];

/// One change to each field that an engine reports: where, and what stands there then.
fn changes() -> Vec<(&'static str, Value)> {
    [resources(), host(), more_of_the_host(), config(), rest()].concat()
}

fn resources() -> Vec<(&'static str, Value)> {
    vec![
        (
            "/HostConfig/BlkioDeviceReadBps",
            json!([{"Path": "/dev/a", "Rate": 1}]),
        ),
        (
            "/HostConfig/BlkioDeviceReadIOps",
            json!([{"Path": "/dev/a", "Rate": 1}]),
        ),
        (
            "/HostConfig/BlkioDeviceWriteBps",
            json!([{"Path": "/dev/a", "Rate": 1}]),
        ),
        (
            "/HostConfig/BlkioDeviceWriteIOps",
            json!([{"Path": "/dev/a", "Rate": 1}]),
        ),
        ("/HostConfig/BlkioWeight", json!(10)),
        (
            "/HostConfig/BlkioWeightDevice",
            json!([{"Path": "/dev/a", "Weight": 1}]),
        ),
        ("/HostConfig/CpuCount", json!(1)),
        ("/HostConfig/CpuPercent", json!(1)),
        ("/HostConfig/CpuPeriod", json!(1)),
        ("/HostConfig/CpuQuota", json!(-1)),
        ("/HostConfig/CpuRealtimePeriod", json!(1)),
        ("/HostConfig/CpuRealtimeRuntime", json!(1)),
        ("/HostConfig/CpuShares", json!(2)),
        ("/HostConfig/CpusetCpus", json!("0")),
        ("/HostConfig/CpusetMems", json!("0")),
        ("/HostConfig/IOMaximumBandwidth", json!(1)),
        ("/HostConfig/IOMaximumIOps", json!(1)),
        ("/HostConfig/Memory", json!(0)),
        ("/HostConfig/MemoryReservation", json!(1)),
        ("/HostConfig/MemorySwap", json!(-1)),
        ("/HostConfig/MemorySwappiness", json!(60)),
        ("/HostConfig/NanoCpus", json!(0)),
        ("/HostConfig/OomKillDisable", json!(true)),
        ("/HostConfig/OomScoreAdj", json!(-1000)),
        ("/HostConfig/PidsLimit", json!(null)),
        ("/HostConfig/ShmSize", json!(1_000_000_000)),
        ("/HostConfig/Ulimits", json!([])),
        ("/HostConfig/Ulimits/1/Soft", json!(-1)),
        ("/HostConfig/Ulimits/1/Hard", json!(-1)),
        ("/HostConfig/Tmpfs", json!({})),
        ("/HostConfig/Tmpfs/~1tmp", json!("rw,exec")),
        ("/HostConfig/Tmpfs/~1unbounded", json!("")),
        ("/HostConfig/StorageOpt", json!({"size": "1G"})),
    ]
}

fn host() -> Vec<(&'static str, Value)> {
    vec![
        ("/HostConfig/Annotations", json!({"a": "b"})),
        ("/HostConfig/AutoRemove", json!(true)),
        ("/HostConfig/Binds", json!(["/:/host"])),
        ("/HostConfig/CapAdd", json!(["SYS_ADMIN"])),
        ("/HostConfig/CapDrop", json!(null)),
        ("/HostConfig/Cgroup", json!("container:a")),
        ("/HostConfig/CgroupParent", json!("/")),
        ("/HostConfig/CgroupnsMode", json!("host")),
        ("/HostConfig/ConsoleSize", json!([1, 0])),
        ("/HostConfig/ContainerIDFile", json!("/a")),
        ("/HostConfig/DeviceCgroupRules", json!(["a *:* rwm"])),
        ("/HostConfig/DeviceRequests", json!([{"Driver": "nvidia"}])),
        ("/HostConfig/Devices", json!([{"PathOnHost": "/dev/kvm"}])),
        ("/HostConfig/Dns", json!(["192.0.2.1"])),
        ("/HostConfig/DnsOptions", json!(["ndots:5"])),
        ("/HostConfig/DnsSearch", json!(["example.com"])),
        (
            "/HostConfig/ExtraHosts",
            json!(["host.docker.internal:host-gateway"]),
        ),
        ("/HostConfig/GroupAdd", json!(["0"])),
        ("/HostConfig/Init", json!(false)),
        ("/HostConfig/IpcMode", json!("shareable")),
        ("/HostConfig/Isolation", json!("process")),
        ("/HostConfig/Links", json!(["/a:/b/a"])),
    ]
}

fn more_of_the_host() -> Vec<(&'static str, Value)> {
    vec![
        ("/HostConfig/LogConfig/Type", json!("json-file")),
        ("/HostConfig/LogConfig/Config", json!({"max-size": "1m"})),
        ("/HostConfig/MaskedPaths", json!([])),
        ("/HostConfig/Mounts", json!([])),
        ("/HostConfig/Mounts/0/ReadOnly", json!(false)),
        (
            "/HostConfig/Mounts/1/BindOptions/Propagation",
            json!("rshared"),
        ),
        (
            "/HostConfig/Mounts/1/BindOptions/NonRecursive",
            json!(false),
        ),
        ("/HostConfig/Mounts/2/VolumeOptions/NoCopy", json!(false)),
        ("/HostConfig/NetworkMode", json!("bridge")),
        ("/HostConfig/PidMode", json!("host")),
        (
            "/HostConfig/PortBindings",
            json!({"80/tcp": [{"HostPort": "80"}]}),
        ),
        ("/HostConfig/PortBindings/443~1tcp", json!(null)),
        ("/HostConfig/Privileged", json!(true)),
        ("/HostConfig/PublishAllPorts", json!(true)),
        ("/HostConfig/ReadonlyPaths", json!([])),
        ("/HostConfig/ReadonlyRootfs", json!(false)),
        ("/HostConfig/RestartPolicy/Name", json!("always")),
        ("/HostConfig/RestartPolicy/MaximumRetryCount", json!(1)),
        ("/HostConfig/SecurityOpt", json!(["no-new-privileges"])),
        ("/HostConfig/SecurityOpt/0", json!("seccomp=unconfined")),
        (
            "/HostConfig/SecurityOpt/1",
            json!("no-new-privileges=false"),
        ),
        ("/HostConfig/Sysctls", json!({})),
        ("/HostConfig/Sysctls/net.ipv4.ip_forward", json!("")),
        ("/HostConfig/UTSMode", json!("host")),
        ("/HostConfig/UsernsMode", json!("host")),
        ("/HostConfig/VolumeDriver", json!("other")),
        ("/HostConfig/VolumesFrom", json!(["a"])),
    ]
}

fn config() -> Vec<(&'static str, Value)> {
    vec![
        ("/Config/ArgsEscaped", json!(true)),
        ("/Config/AttachStderr", json!(false)),
        ("/Config/AttachStdin", json!(false)),
        ("/Config/AttachStdout", json!(false)),
        ("/Config/Cmd", json!(["-c", "exit 1"])),
        ("/Config/Domainname", json!("example.com")),
        ("/Config/Entrypoint", json!(["/bin/false"])),
        ("/Config/Env", json!(["HOME=/workspace"])),
        ("/Config/Env/0", json!("ALL_PROXY=http://192.0.2.1")),
        ("/Config/Env/15", json!("BAZ=qux")),
        (
            "/Config/Healthcheck",
            json!({"Test": ["CMD-SHELL", "/bin/true"]}),
        ),
        ("/Config/Hostname", json!("other")),
        ("/Config/Image", json!("other")),
        ("/Config/Labels", json!({})),
        ("/Config/Labels/eclusa.run", json!("another")),
        ("/Config/Labels/eclusa.role", json!("proxy")),
        ("/Config/NetworkDisabled", json!(true)),
        ("/Config/OpenStdin", json!(false)),
        ("/Config/StdinOnce", json!(false)),
        ("/Config/StopSignal", json!("SIGTERM")),
        ("/Config/StopTimeout", json!(10)),
        ("/Config/Tty", json!(true)),
        ("/Config/User", json!("0")),
        ("/Config/WorkingDir", json!("/")),
    ]
}

fn rest() -> Vec<(&'static str, Value)> {
    vec![
        ("/Image", json!("sha256:11")),
        ("/Name", json!("/other")),
        ("/Path", json!("/bin/false")),
        ("/Args", json!(["exit 0", "-c"])),
        ("/Mounts", json!([])),
        ("/Mounts/0/RW", json!(true)),
        ("/Mounts/1/Source", json!("/")),
        ("/Mounts/1/Type", json!("volume")),
        ("/Mounts/2/Name", json!("another")),
        ("/Mounts/2/Destination", json!("/data")),
        ("/NetworkSettings/Networks", json!({})),
        ("/NetworkSettings/Networks/bridge", json!({})),
        (
            "/NetworkSettings/Networks/agent-egress-01JD/IPAMConfig",
            json!({"IPv4Address": "10.240.0.4"}),
        ),
    ]
}

#[test]
fn what_engines_report_of_a_plan_that_they_applied_is_accepted() {
    let planned = sandbox(&plan_with_everything()).unwrap();
    for (engine, report) in REPORTS {
        let report = serde_json::from_str(report).unwrap();
        compare(&planned, &report).unwrap_or_else(|error| panic!("{engine}: {error}"));
    }
}

#[test]
fn every_changed_field_is_refused_and_named() {
    let planned = sandbox(&plan_with_everything()).unwrap();
    for (engine, report) in REPORTS {
        for (path, value) in changes() {
            let mut changed: Value = serde_json::from_str(report).unwrap();
            put(&mut changed, path, value);
            let outcome = compare(&planned, &from_value(changed).unwrap());
            let Err(BackendError::NotApplied { what, .. }) = outcome else {
                panic!("{engine}: {path} may be changed: {outcome:?}");
            };
            let section = path.split('/').nth(1).unwrap();
            let field = path.split('/').nth(2).unwrap_or_default();
            let names = match section {
                "HostConfig" | "Config" => format!("{section}.{field}"),
                "Path" | "Args" => "the command".to_owned(),
                "Mounts" => "the mount at /".to_owned(),
                "NetworkSettings" => "the networks".to_owned(),
                other => other.to_owned(),
            };
            assert!(
                what.starts_with(&names),
                "{engine}: {path} is called {what}"
            );
        }
    }
}

#[test]
fn no_field_that_an_engine_reports_is_left_out_of_the_table() {
    let excepted = EXCEPTIONS
        .iter()
        .map(|exception| exception.field.to_owned());
    let changed = changes();
    let changed = changed.iter().map(|(path, _)| {
        let mut parts = path.split('/').skip(1);
        format!(
            "{}.{}",
            parts.next().unwrap(),
            parts.next().unwrap_or_default()
        )
    });
    let known: BTreeSet<String> = excepted.chain(changed).collect();
    for (engine, report) in REPORTS {
        // As the library reads it, and as it would write a report with every field.
        let report: ContainerInspectResponse = serde_json::from_str(report).unwrap();
        for (section, fields) in [
            ("Config", object(&report.config)),
            ("HostConfig", object(&report.host_config)),
        ] {
            for field in fields.keys() {
                let field = format!("{section}.{field}");
                assert!(known.contains(&field), "{engine}: {field}");
            }
        }
    }
}

#[test]
fn a_mount_that_nobody_planned_is_refused() {
    let planned = sandbox(&plan_with_everything()).unwrap();
    let mut report: Value = serde_json::from_str(REPORTS[2].1).unwrap();
    let anonymous = json!({"Type": "volume", "Name": "0123", "Destination": "/data", "RW": true});
    report["Mounts"].as_array_mut().unwrap().push(anonymous);
    let error = compare(&planned, &from_value(report).unwrap()).unwrap_err();
    assert!(error.to_string().contains("the mount at /data"), "{error}");
}

#[test]
fn the_times_of_a_health_check_that_is_off_do_not_matter() {
    let planned = sandbox(&plan_with_everything()).unwrap();
    for (test, is_accepted) in [(json!(["NONE"]), true), (json!(["CMD", "true"]), false)] {
        let mut report: Value = serde_json::from_str(REPORTS[0].1).unwrap();
        report["Config"]["Healthcheck"] = json!({"Test": test, "Interval": 1_000_000_000});
        let outcome = compare(&planned, &from_value(report).unwrap());
        assert_eq!(outcome.is_ok(), is_accepted, "{test}: {outcome:?}");
    }
}

#[test]
fn what_an_environment_holds_is_not_told() {
    let planned = sandbox(&plan_with_everything()).unwrap();
    let mut report: Value = serde_json::from_str(REPORTS[2].1).unwrap();
    report["Config"]["Env"] = json!(["HOME=secret", "API_KEY=secret=secret"]);
    let error = compare(&planned, &from_value(report).unwrap())
        .unwrap_err()
        .to_string();
    assert!(error.contains(r#"got ["HOME","API_KEY"];"#), "{error}");
    assert!(
        !error.contains("secret") && !error.contains("/workspace"),
        "{error}"
    );
}

#[test]
fn a_warning_is_an_error_unless_it_cannot_matter() {
    for (warning, expected) in [
        (
            "Your kernel does not support swap limit capabilities or the cgroup is not mounted. \
             Memory limited without swap.",
            Some("the limit of memory without swap"),
        ),
        (
            "Your kernel does not support memory limit capabilities or the cgroup is not mounted. \
             Limitation discarded.",
            Some("the memory limit"),
        ),
        (
            "Your kernel does not support CPU CFS scheduler. CPU period/quota discarded.",
            Some("the limit of processors"),
        ),
        (
            "Your kernel does not support PIDs limit capabilities or the cgroup is not mounted. \
             PIDs limit discarded.",
            Some("the limit of processes"),
        ),
        ("Something new.", Some("all of the plan")),
        (
            "IPv4 forwarding is disabled. Networking will not work.",
            None,
        ),
    ] {
        let outcome = warnings(&[warning.to_owned()]);
        let what = match outcome {
            Err(BackendError::NotApplied { what, .. }) => Some(what),
            _ => None,
        };
        assert_eq!(what.as_deref(), expected, "{warning}");
    }
}

/// Writes a value at a JSON pointer whose last part need not exist yet.
fn put(value: &mut Value, path: &str, new: Value) {
    let (parent, last) = path.rsplit_once('/').unwrap();
    let last = last.replace("~1", "/");
    match value.pointer_mut(parent).unwrap() {
        Value::Array(items) => items[last.parse::<usize>().unwrap()] = new,
        Value::Object(fields) => {
            fields.insert(last, new);
        }
        other => panic!("{path} is in {other}"),
    }
}
