//! `eclusa run` on Podman: a service of the distribution's package, started for these tests alone
//! below a folder of its own. Nothing of the machine's own Podman is touched.

use std::{
    collections::BTreeSet,
    fs::{self, File},
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex, PoisonError, Weak},
};

use eclusa::record::Limit;
use rustix::process::{Pid, Signal};
use serde_json::json;
use tempfile::TempDir;

use crate::{
    docker::{AGENT_IMAGE, Container, Output, attempt, docker, wait_until},
    run::{
        Launcher, Ran, Running,
        files::{input::input_can_be_read, large_file_is_named, output, writable_is_full},
        finish, objects_on,
        process::{
            Probes, command_is_not_outlived, fork_bomb_is_contained, init_reaps,
            root_has_no_capability,
        },
        set_mode,
        time::end,
    },
};

/// What a service may have in its environment, and no sandbox.
const PROXY: &str = "http://user:hunter2@proxy.example.com:3128";

/// What the service is told besides its folders: nothing here runs a systemd, and the runtime that
/// works with every layout of cgroups is `runc`.
const SETTINGS: &str = r#"
[engine]
cgroup_manager = "cgroupfs"
events_logger = "file"
runtime = "runc"
"#;

/// A service, and the agents' image in it.
struct Podman {
    folder: TempDir,
    service: Child,
}

impl Podman {
    /// The one that other tests use at the same time, else a new one.
    fn shared() -> Arc<Self> {
        static SHARED: Mutex<Weak<Podman>> = Mutex::new(Weak::new());
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        shared.upgrade().unwrap_or_else(|| {
            let podman = Arc::new(Self::start());
            *shared = Arc::downgrade(&podman);
            podman
        })
    }

    fn start() -> Self {
        // Not below /tmp, which other tests take for an input: its storage has a mount of its own.
        let mut folder = tempfile::Builder::new();
        let folder = folder.prefix("eclusa-podman-").tempdir_in("/var/tmp");
        let folder = folder.unwrap();
        fs::write(folder.path().join("containers.conf"), SETTINGS).unwrap();
        let log = File::create(folder.path().join("log")).unwrap();
        let mut service = command(&folder);
        service
            .args(["system", "service", "--time=0", &host(&folder)])
            .envs(["HTTP_PROXY", "https_proxy", "NO_PROXY"].map(|name| (name, PROXY)))
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log);
        let podman = Self {
            service: service.spawn().unwrap(),
            folder,
        };
        wait_until("Podman", || podman.docker(&["version"]).ok);
        let base = Container(docker(&["create", AGENT_IMAGE, "true"]));
        let image = podman.folder.path().join("image.tar");
        let image = image.to_str().unwrap();
        docker(&["export", "--output", image, &base.0]);
        let settings = [
            "--change=ENV API_TOKEN=hunter2",
            "--change=ENV GOPATH=/go",
            "--change=VOLUME /data",
        ];
        let import = [&["import"][..], &settings, &[image, AGENT_IMAGE]].concat();
        let imported = attempt(command(&podman.folder).args(import));
        assert!(imported.ok, "{imported:?}");
        fs::remove_file(image).unwrap();
        podman
    }

    fn host(&self) -> String {
        host(&self.folder)
    }

    /// Docker's own client, on Podman.
    fn docker(&self, arguments: &[&str]) -> Output {
        let mut docker = Command::new("docker");
        attempt(docker.args(arguments).env("DOCKER_HOST", self.host()))
    }

    fn is_older_than_5(&self) -> bool {
        let version = self.docker(&["version", "--format={{.Server.Version}}"]);
        version.text.starts_with(['3', '4'])
    }

    fn launcher(&self) -> Launcher {
        Launcher::on(&self.host())
    }
}

/// Podman's own client.
fn command(folder: &TempDir) -> Command {
    let path = |name: &str| folder.path().join(name);
    let mut podman = Command::new("podman");
    // What watches a container notes that its memory ran out, as a file where it was started.
    podman
        .current_dir(folder.path())
        .arg("--root")
        .arg(path("root"))
        .arg("--runroot")
        .arg(path("run"))
        .arg("--tmpdir")
        .arg(path("tmp"))
        .env("CONTAINERS_CONF", path("containers.conf"));
    podman
}

fn host(folder: &TempDir) -> String {
    format!("unix://{}", folder.path().join("podman.sock").display())
}

impl Drop for Podman {
    fn drop(&mut self) {
        attempt(command(&self.folder).args(["rm", "--all", "--force", "--time=0"]));
        attempt(command(&self.folder).args(["volume", "rm", "--all", "--force"]));
        let pid = Pid::from_child(&self.service);
        rustix::process::kill_process(pid, Signal::TERM).ok();
        self.service.wait().ok();
        let storage = self.folder.path().join("root/overlay");
        attempt(Command::new("umount").arg(storage));
    }
}

#[test]
#[ignore = "needs Docker and Podman"]
fn every_escape_from_podman_is_refused_and_nothing_of_the_host_leaks_in() {
    let podman = Podman::shared();
    let launcher = podman.launcher();
    let options = ["--max-output=1MB", &launcher.probes()];
    let ran = launcher.run(&options, &["python3", "-I", "/input/probes.py"]);
    let ran = ran.succeeded();
    let probes = Probes::read(ran.stdout());
    probes.tried(&[
        "N01", "N02", "N05", "N06", "N07", "N11", "O02", "O03", "O06", "O07", "P05", "P07",
    ]);
    // What the image has and must not reach a program is empty: Podman cannot leave it out.
    let environment = json!({
        "API_TOKEN": "",
        "GOPATH": "/go",
        "HOME": "/workspace",
        "HOSTNAME": "sandbox",
        "LANG": "C.UTF-8",
        "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "TERM": "xterm",
        "TMPDIR": "/tmp",
        "container": "podman",
    });
    assert_eq!(*probes.fact("environment"), environment);
    assert_eq!(*probes.fact("supplementary groups"), json!(["65534"]));
    let hosts = json!([["127.0.0.1", "localhost", "sandbox"]]);
    assert_eq!(*probes.fact("hosts"), hosts);
    let limits = probes.fact("limits");
    for (name, value) in [
        ("RLIMIT_FSIZE", 50_000_000),
        ("RLIMIT_NOFILE", 256),
        ("RLIMIT_CORE", 0),
        ("RLIMIT_MEMLOCK", 65536),
    ] {
        assert_eq!(limits[name], json!([value, value]), "{name}");
    }
    let mounts = probes.fact("writable mounts").as_array().unwrap();
    let targets = mounts.iter().map(|mount| mount["target"].as_str().unwrap());
    let expected = ["/data", "/dev/mqueue", "/dev/shm", "/tmp", "/workspace"];
    assert_eq!(targets.collect::<BTreeSet<_>>(), expected.into());
    assert!(ran.said.is_empty(), "{}", ran.said);
}

/// What no report of Podman's tells: it is seen from inside.
#[test]
#[ignore = "needs Docker and Podman"]
fn what_podman_does_not_report_holds() {
    let podman = Podman::shared();
    let launcher = podman.launcher();
    let script = r#"
cat /proc/sys/net/ipv4/ping_group_range; tail -n +3 /proc/net/dev | cut -d: -f 1
wc -c < /proc/interrupts; ls -A /proc/acpi | wc -l; ls -A /sys/firmware | wc -l
for path in /proc/sys/vm/swappiness /run/x /var/tmp/x; do echo > $path; done
cp /bin/true /data/true && /data/true; grep -c " /data .*noexec.*nr_inodes=" /proc/self/mountinfo"#;
    let ran = launcher.shell(&[], script);
    let hidden = ran.stdout().lines().map(str::trim).collect::<Vec<_>>();
    assert_eq!(hidden, ["1\t0", "lo", "0", "0", "0", "1"], "{ran:?}");
    let said = &ran.output().stderr;
    for refused in ["swappiness: Read", "/run/x: Perm", "/var/tmp/x: Perm"] {
        assert!(said.contains(refused), "{refused}: {said}");
    }
    assert!(said.contains("/data/true: Permission denied"), "{said}");
    let kinds = ["ipc", "mnt", "net", "pid", "uts"].map(|kind| format!("/proc/self/ns/{kind}"));
    let read = [&["readlink".to_owned()][..], &kinds].concat();
    let read: Vec<&str> = read.iter().map(String::as_str).collect();
    let ran = launcher.run(&[], &read).succeeded();
    let hosts = kinds.iter().map(|kind| fs::read_link(kind).unwrap());
    for (own, host) in ran.stdout().lines().zip(hosts) {
        assert_ne!(own, host.to_str().unwrap());
    }
    assert_eq!(ran.stdout().lines().count(), kinds.len());
    root_has_no_capability(&launcher);
}

#[test]
#[ignore = "needs Docker and Podman"]
fn the_limits_of_podman_are_met_and_named() {
    let podman = Podman::shared();
    let launcher = podman.launcher();
    writable_is_full(&launcher);
    large_file_is_named(&launcher);
    fork_bomb_is_contained(&launcher);

    let bomb = ["python3", "-I", "-c", "print(len(bytearray(80 << 20)))"];
    let ran = launcher.run(&["--memory=64m"], &bomb);
    assert_eq!((ran.code, ran.stdout()), (Some(137), ""), "{ran:?}");
    assert!(!ran.record.timed_out, "{ran:?}");
    let mut warnings = ran.record.warnings.iter();
    let is_warned = warnings.any(|warning| warning.contains("when the kernel kills for memory"));
    // Older ones do not say it, which is then said.
    assert_eq!(is_warned, podman.is_older_than_5(), "{ran:?}");
    assert_eq!(ran.record.oom_killed, !is_warned, "{ran:?}");
    assert_eq!(ran.limits().contains(&Limit::Memory), !is_warned, "{ran:?}");
}

#[test]
#[ignore = "needs Docker and Podman"]
fn the_ends_of_a_run_on_podman_are_told_apart() {
    let podman = Podman::shared();
    let launcher = podman.launcher();
    end::exit_codes_are_told_apart(&launcher);
    end::timeout_kills(&launcher);
    end::input_is_passed_through(&launcher);
    command_is_not_outlived(&launcher);
    init_reaps(&launcher);
}

#[test]
#[ignore = "needs Docker and Podman"]
fn what_goes_in_and_out_on_podman_is_files() {
    let podman = Podman::shared();
    let launcher = podman.launcher();
    input_can_be_read(&launcher);
    output::files_are_collected(&launcher);

    let private = launcher.path("private");
    fs::create_dir(&private).unwrap();
    fs::write(private.join("data"), "private content").unwrap();
    set_mode(&private.join("data"), 0o600);
    set_mode(&private, 0o700);
    let results = launcher.path("copied");
    let options = [
        format!("--input-copy={}", private.display()),
        format!("--output={}", results.display()),
    ];
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    let script = "cp /input/data /output; touch /input/new || echo refused";
    let ran = launcher.shell(&options, script).succeeded();
    assert_eq!(ran.stdout(), "refused\n");
    let copied = fs::read_to_string(results.join("data")).unwrap();
    assert_eq!(copied, "private content");
}

#[test]
#[ignore = "needs Docker and Podman"]
fn a_run_on_podman_is_removed_whatever_ends_its_launcher() {
    let podman = Podman::shared();
    let launcher = Launcher::alone_on(&podman.host());
    end::signal_removes(&launcher);

    let output = format!("--output={}", launcher.path("results").display());
    let mut run = launcher.command(&["--timeout=60s", &output], &["sleep", "600"]);
    let killed = Running::start(&mut run);
    let orphan = killed.sandbox();
    killed.signal(Signal::KILL);
    killed.finish(b"");
    assert_ne!(launcher.left(&orphan), []);
    finish(&mut launcher.command(&[], &["true"])).succeeded();
    assert_eq!(launcher.left(&orphan), []);
    let recorded = launcher.recorded();
    let told = recorded.iter().find(|record| record.run == orphan);
    let told = told.unwrap().error.as_deref().unwrap();
    assert!(told.contains("the launcher was killed"), "{told}");
    let left = objects_on(Some(&podman.host()));
    assert!(left.is_empty(), "{left:?}");
    let volumes = podman.docker(&["volume", "ls", "--quiet"]);
    assert_eq!(volumes.text, "", "of an image, or without a label");
}

#[test]
#[ignore = "needs Docker and Podman"]
fn what_podman_is_not_trusted_with_is_refused() {
    let podman = Podman::shared();
    let launcher = podman.launcher();
    for option in [
        "--allow=example.com",
        "--network=egress",
        "--network=podman",
    ] {
        let error = launcher.refusal(&[option]);
        assert!(
            error.starts_with("on Podman a sandbox has no network"),
            "{option}: {error}"
        );
    }
    let error = launcher.refusal(&["--runtime=nosuch"]);
    assert!(
        error.contains("did not apply HostConfig.Runtime"),
        "{error}"
    );
    let ran: Ran = launcher.run(&[], &["/sbin/init"]);
    let error = ran.record.error.unwrap();
    assert!(error.contains("for the init of a whole system"), "{error}");
    let up = launcher.bare(&["up"]).output().unwrap();
    assert_eq!(up.status.code(), Some(70), "{up:?}");
    let said = String::from_utf8(up.stderr).unwrap();
    assert!(
        said.contains("on Podman a sandbox has no network"),
        "{said}"
    );
}
