//! Processes of a sandbox and the kernel below them: what they may call, what they are given, and
//! that none outlives the run.

use std::{fs, time::Duration};

use eclusa::record::Limit;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Launcher, finish, set_mode};

/// A line of the probes: an attempt, or a fact.
#[derive(Debug, Deserialize)]
struct Probe {
    #[serde(rename = "probe")]
    name: String,
    case: Option<String>,
    #[serde(default)]
    result: Value,
    #[serde(default)]
    allowed: Vec<Value>,
    #[serde(default)]
    fact: Value,
}

/// What came of the probes.
pub(crate) struct Probes(Vec<Probe>);

impl Probes {
    /// Reads what they wrote, and asserts that they came to their end and that every attempt came
    /// to what it may come to.
    pub(crate) fn read(lines: &str) -> Self {
        let probes: Vec<Probe> = lines
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        let done = probes.last().unwrap();
        assert_eq!(done.fact, json!(probes.len() - 1), "{done:?}");
        let escapes: Vec<&Probe> = probes
            .iter()
            .filter(|probe| probe.fact.is_null() && !probe.allowed.contains(&probe.result))
            .collect();
        assert!(escapes.is_empty(), "{escapes:#?}");
        Self(probes)
    }

    /// Asserts that something of each case was tried: a script that tried nothing would hold too.
    pub(crate) fn tried(&self, cases: &[&str]) {
        for case in cases {
            let of_case = |probe: &&Probe| probe.case.as_deref() == Some(case);
            let mut tried = self.0.iter().filter(of_case);
            assert!(
                tried.any(|probe| !probe.allowed.is_empty()),
                "nothing of {case}"
            );
        }
    }

    /// A fact that only whoever built the sandbox can judge.
    pub(crate) fn fact(&self, name: &str) -> &Value {
        let named = |probe: &&Probe| probe.name == name && !probe.fact.is_null();
        let fact = self.0.iter().find(named).map(|probe| &probe.fact);
        fact.ok_or(name).unwrap()
    }
}

#[test]
#[ignore = "needs Docker"]
fn every_escape_is_refused_and_nothing_of_the_host_leaks_in() {
    let launcher = Launcher::new();
    let docker = launcher.path(".docker");
    fs::create_dir(&docker).unwrap();
    let proxy = "http://user:hunter2@proxy.example.com:3128";
    let config = json!({"proxies": {"default": {"httpProxy": proxy, "httpsProxy": proxy}}});
    fs::write(docker.join("config.json"), config.to_string()).unwrap();
    let options = ["--max-output=1MB", &launcher.probes()];
    let mut run = launcher.command(&options, &["python3", "-I", "/input/probes.py"]);
    run.env("HOME", launcher.path(""))
        .env("DOCKER_CONFIG", &docker)
        .env("CI_JOB_TOKEN", "hunter2")
        .env("GITHUB_TOKEN", "hunter2");
    for name in ["HTTP_PROXY", "https_proxy", "ALL_PROXY", "no_proxy"] {
        run.env(name, proxy);
    }
    let ran = finish(&mut run).succeeded();
    let probes = Probes::read(ran.stdout());
    probes.tried(&[
        "N01", "N02", "N05", "N06", "N07", "N11", "O02", "O03", "O06", "O07", "P05", "P07",
    ]);
    let environment = json!({
        "HOME": "/workspace",
        "HOSTNAME": "sandbox",
        "LANG": "C.UTF-8",
        "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "TMPDIR": "/tmp",
    });
    assert_eq!(*probes.fact("environment"), environment);
    assert_eq!(*probes.fact("supplementary groups"), json!(["65534"]));
    let limits = probes.fact("limits");
    for (name, value) in [
        ("RLIMIT_FSIZE", 50_000_000),
        ("RLIMIT_NOFILE", 256),
        ("RLIMIT_CORE", 0),
        ("RLIMIT_MEMLOCK", 65536),
    ] {
        assert_eq!(limits[name], json!([value, value]), "{name}");
    }
    let hosts = probes.fact("hosts").as_array().unwrap();
    let aliases = hosts.iter().filter(|line| {
        let address = line[0].as_str().unwrap();
        address != "127.0.0.1" && !address.contains(':')
    });
    assert_eq!(aliases.count(), 0, "{hosts:?}");
    assert!(
        !probes
            .fact("set-id programs")
            .as_array()
            .unwrap()
            .is_empty()
    );
}

#[test]
#[ignore = "needs Docker"]
fn what_is_passed_in_is_data_to_everyone_on_its_way() {
    let launcher = Launcher::new();
    let odd = "$HOME ${X} $(id) `id` %s \"'\\ --privileged\n--cap-add=ALL\t,type=bind:rw";
    let input = launcher.path("in,ro=false:rw $(id) --privileged");
    fs::create_dir(&input).unwrap();
    set_mode(&input, 0o755);
    fs::write(input.join("file"), "read").unwrap();
    let options = [
        format!("--env=ODD={odd}"),
        format!("--input={}", input.display()),
    ];
    let script = "import json, os, sys
print(json.dumps([os.environ['ODD'], open('/input/file').read(), *sys.argv[1:]]))";
    let command = ["python3", "-I", "-c", script, odd, "--privileged", ""];
    let ran = launcher
        .run(&options.each_ref().map(String::as_str), &command)
        .succeeded();
    let arrived: Value = serde_json::from_str(ran.stdout()).unwrap();
    assert_eq!(arrived, json!([odd, "read", odd, "--privileged", ""]));
    assert_eq!(ran.record.command, command);
}

#[test]
#[ignore = "needs Docker"]
fn root_in_a_sandbox_has_no_capability_either() {
    root_has_no_capability(&Launcher::new());
}

/// Root in a sandbox of any engine.
pub(crate) fn root_has_no_capability(launcher: &Launcher) {
    let error = launcher.refusal(&["--user=0:0"]);
    assert!(error.contains("--dangerously-run-as-root"), "{error}");
    let options = ["--user=0:0", "--dangerously-run-as-root"];
    let script = "grep -E '^(Uid|Cap|NoNewPrivs|Seccomp:)' /proc/self/status; \
                  touch /etc/x; chown 1 /workspace; mount -t proc proc /mnt";
    let ran = launcher.shell(&options, script);
    let expected = "Uid:\t0\t0\t0\t0\nCapInh:\t0000000000000000\nCapPrm:\t0000000000000000\n\
                    CapEff:\t0000000000000000\nCapBnd:\t0000000000000000\n\
                    CapAmb:\t0000000000000000\nNoNewPrivs:\t1\nSeccomp:\t2\n";
    assert_eq!(ran.stdout(), expected);
    for refused in ["touch: ", "chown: ", "mount: "] {
        assert!(ran.output().stderr.contains(refused), "{refused} {ran:?}");
    }
    assert!(ran.said.contains("--dangerously-run-as-root"), "{ran:?}");
}

#[test]
#[ignore = "needs Docker"]
fn a_fork_bomb_is_contained_and_named() {
    fork_bomb_is_contained(&Launcher::new());
}

/// A fork bomb in a sandbox of any engine.
pub(crate) fn fork_bomb_is_contained(launcher: &Launcher) {
    let bomb = "import os\nwhile True:\n try: os.fork()\n except OSError: pass";
    let ran = launcher.python(&["--timeout=3s"], bomb);
    assert_eq!(ran.code, Some(124), "{ran:?}");
    assert_eq!(ran.limits(), [Limit::Timeout, Limit::Pids], "{ran:?}");
    assert!(ran.took < Duration::from_secs(20), "{ran:?}");
    let named = ran.record.limits.iter();
    let pids = named.clone().find(|reached| reached.limit == Limit::Pids);
    assert!(pids.unwrap().detail.contains("--pids"), "{ran:?}");
}

#[test]
#[ignore = "needs Docker"]
fn a_memory_bomb_dies_alone_and_is_named() {
    let launcher = Launcher::new();
    let bomb = "python3 -I -c 'x = bytearray(80 << 20); print(len(x))'";
    let ran = launcher.shell(&["--memory=64m"], &format!("exec {bomb}"));
    assert_eq!(
        (ran.code, ran.record.signal),
        (Some(137), Some(9)),
        "{ran:?}"
    );
    assert!(ran.record.oom_killed && !ran.record.timed_out, "{ran:?}");
    assert_eq!(ran.limits(), [Limit::Memory], "{ran:?}");
    assert_eq!(ran.stdout(), "");

    // What lies in memory counts, and what is killed need not be the command.
    let script = "head -c 80M /dev/zero > /workspace/file; exit 3";
    let ran = launcher.shell(&["--memory=64m", "--fsize=1GB"], script);
    assert!(ran.record.oom_killed, "{ran:?}");
    assert_eq!(ran.limits(), [Limit::Memory], "{ran:?}");
}

#[test]
#[ignore = "needs Docker"]
fn nothing_outlives_the_command() {
    command_is_not_outlived(&Launcher::new());
}

/// A daemon in a sandbox of any engine.
pub(crate) fn command_is_not_outlived(launcher: &Launcher) {
    let daemon = "setsid sh -c 'while :; do date >> /tmp/x; sleep 1; done' & exit 7";
    let ran = launcher.shell(&["--timeout=60s"], daemon);
    assert_eq!(ran.code, Some(7), "{ran:?}");
    assert!(ran.took < Duration::from_secs(20), "it waited: {ran:?}");
}

#[test]
#[ignore = "needs Docker"]
fn an_init_reaps_what_loses_its_parent() {
    init_reaps(&Launcher::new());
}

/// Orphans in a sandbox of any engine.
pub(crate) fn init_reaps(launcher: &Launcher) {
    let script = r#"
import os, time
for _ in range(20):
    if os.fork() == 0:
        if os.fork() == 0:
            time.sleep(0.2)
        os._exit(0)
    os.wait()
def children():
    return len(open("/proc/1/task/1/children").read().split())
end = time.monotonic() + 10
while children() > 1 and time.monotonic() < end:
    time.sleep(0.05)
print(children(), os.getppid(), open("/proc/1/cmdline").read().split("\0")[1:3])
"#;
    let ran = launcher.python(&[], script).succeeded();
    assert_eq!(ran.stdout(), "1 1 ['--', 'python3']\n");
}
