//! The engine's side of the launcher: plans made and applied through the library, on a real engine.

mod inside;
mod network;
mod volumes;

use std::{env, path::Path, process::Command};

use eclusa::{
    launcher::{
        backend::{
            Backend, BackendError, Chunk, Ended, Object, ObjectKind, Proxy, Streams, docker::Docker,
        },
        plan::{Facts, InputFacts, Labels, Owner, Plan, Process, plan},
        proxy::ProxyOptions,
        spec::{Pull, RunSpec},
    },
    record::RunId,
};
use futures_util::StreamExt;
use ipnet::Ipv4Net;
use tokio::io::AsyncWriteExt;

use crate::docker::{AGENT_IMAGE, Container, attempt, docker, exec};

/// What a run wrote and how it ended.
#[derive(Debug, Default)]
struct Ran {
    stdout: String,
    stderr: String,
    ended: Ended,
}

/// The engine that the environment names, else the first that there is.
pub(crate) async fn engine() -> Docker {
    #[expect(clippy::disallowed_methods, reason = "as the command line reads it")]
    let host = env::var("DOCKER_HOST").ok();
    engine_at(host.as_deref()).await
}

/// The engine at that URL.
pub(crate) async fn engine_at(host: Option<&str>) -> Docker {
    // Only where there are volumes is it looked for.
    let options = ProxyOptions {
        binary: env::var_os("ECLUSA_BINARY").map(Into::into),
        ..ProxyOptions::default()
    };
    let docker = Docker::connect(host, None).await.unwrap();
    docker.with_proxy(options)
}

fn labels(run: &str) -> Labels {
    Labels {
        run: RunId::parse(run).unwrap(),
        slot: None,
        owner: Owner {
            machine: "test".to_owned(),
            uid: 0,
        },
        process: Process {
            pid: 1,
            start: 1,
            namespace: 1,
        },
        started: "2026-01-01T00:00:00Z".parse().unwrap(),
        deadline: "2026-01-01T00:01:00Z".parse().unwrap(),
        image: AGENT_IMAGE.to_owned(),
    }
}

/// A run of the tests: it removes what it made on every path out of one.
struct Run {
    engine: Docker,
    plan: Plan,
    proxy: Option<Proxy>,
}

impl Run {
    async fn new(id: &str, spec: &RunSpec) -> Self {
        Self::with(id, spec, None, None).await
    }

    /// On a slice at that range.
    async fn on(id: &str, spec: &RunSpec, slice: &str, proxy: Option<Proxy>) -> Self {
        let mut run = Self::with(id, spec, Some(slice.parse().unwrap()), None).await;
        run.proxy = proxy;
        run
    }

    /// With room for a copied input.
    async fn copying(id: &str, spec: &RunSpec, input: InputFacts) -> Self {
        Self::with(id, spec, None, Some(input)).await
    }

    async fn with(
        id: &str,
        spec: &RunSpec,
        slice: Option<Ipv4Net>,
        input: Option<InputFacts>,
    ) -> Self {
        let engine = engine().await;
        let image = engine.image(&spec.image, Pull::Never).await.unwrap();
        let labels = labels(id);
        let facts = Facts {
            labels: &labels,
            image: &image,
            slice,
            slot: None,
            resolv_conf: None,
            input,
            has_ipv6: Path::new("/proc/sys/net/ipv6").exists(),
            podman: None,
        };
        Self {
            plan: plan(spec, &facts).unwrap(),
            engine,
            proxy: None,
        }
    }

    async fn create(&self) -> Result<(), BackendError> {
        self.engine.create(&self.plan, self.proxy.as_ref()).await
    }

    async fn start(&self) -> Streams {
        self.engine.start(&self.plan).await.unwrap()
    }

    /// From the making to the removal.
    async fn run(&self, input: &[u8]) -> Ran {
        self.create().await.unwrap();
        let ran = self.execute(input).await;
        self.remove().await;
        ran
    }

    async fn execute(&self, input: &[u8]) -> Ran {
        let mut streams = self.start().await;
        if let Some(mut pipe) = streams.input.take() {
            pipe.write_all(input).await.unwrap();
            pipe.shutdown().await.unwrap();
        }
        let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
        while let Some(chunk) = streams.output.next().await {
            match chunk.unwrap() {
                Chunk::Stdout(bytes) => stdout.extend(bytes),
                Chunk::Stderr(bytes) => stderr.extend(bytes),
            }
        }
        Ran {
            stdout: String::from_utf8(stdout).unwrap(),
            stderr: String::from_utf8(stderr).unwrap(),
            ended: self.engine.wait(&self.plan).await.unwrap(),
        }
    }

    async fn remove(&self) {
        let removed = self.engine.remove(&self.plan, self.proxy.as_ref()).await;
        removed.unwrap();
        let left = self.left().await;
        assert!(left.is_empty(), "{left:?}");
    }

    async fn left(&self) -> Vec<Object> {
        let mut objects = self.engine.objects().await.unwrap();
        let run = self.plan.run.to_string();
        objects.retain(|object| object.labels.get(Labels::RUN) == Some(&run));
        objects
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        let label = format!("label={}={}", Labels::RUN, self.plan.run);
        let script = format!(
            "docker ps -aqf {label} | xargs -r docker rm -fv; \
             docker network ls -qf {label} | xargs -r docker network rm; \
             docker volume ls -qf {label} | xargs -r docker volume rm"
        );
        attempt(Command::new("sh").args(["-c", &script]));
    }
}

fn python(script: &str) -> RunSpec {
    RunSpec::new(AGENT_IMAGE, ["python3", "-I", "-c", script])
}

fn shell(script: &str) -> RunSpec {
    RunSpec::new(AGENT_IMAGE, ["sh", "-c", script])
}

#[tokio::test]
#[ignore = "needs Docker"]
async fn a_command_runs_to_its_end_and_nothing_is_left() {
    let run = Run::new("backend-end", &shell("echo out; echo err >&2; exit 3")).await;
    let ran = run.run(b"").await;
    assert_eq!(
        (ran.stdout.as_str(), ran.stderr.as_str()),
        ("out\n", "err\n")
    );
    let expected = Ended {
        exit_code: 3,
        ..Ended::default()
    };
    assert_eq!(ran.ended, expected);
}

#[tokio::test]
#[ignore = "needs Docker"]
async fn a_command_that_ends_at_once_is_heard_to_its_last_byte() {
    for round in 0..10 {
        let run = Run::new(
            "backend-quick",
            &shell("head -c 200000 /dev/zero | tr '\\0' x"),
        )
        .await;
        let ran = run.run(b"").await;
        assert_eq!(
            (ran.stdout.len(), ran.ended.exit_code),
            (200_000, 0),
            "{round}"
        );
    }
}

#[tokio::test]
#[ignore = "needs Docker"]
async fn how_a_command_ends_is_told_apart() {
    let memory = "x = bytearray(2**30)";
    for (what, spec, expected, oom_killed) in [
        ("its own code", shell("exit 137"), 137, false),
        ("its own signal", shell("kill -KILL $$"), 137, false),
        (
            "no such command",
            RunSpec::new(AGENT_IMAGE, ["no-such-command"]),
            127,
            false,
        ),
        (
            "not executable",
            RunSpec::new(AGENT_IMAGE, ["/etc/passwd"]),
            126,
            false,
        ),
        ("too little memory", python(memory), 137, true),
    ] {
        let ran = Run::new("backend-ends", &spec).await.run(b"").await;
        assert_eq!(ran.ended.exit_code, expected, "{what}: {ran:?}");
        assert_eq!(ran.ended.oom_killed, oom_killed, "{what}: {ran:?}");
    }
}

#[tokio::test]
#[ignore = "needs Docker"]
async fn what_a_runtime_refuses_to_start_is_named() {
    for (command, expected) in [
        (
            "no-such-command",
            r#"there is no command "no-such-command" in the image"#,
        ),
        ("/etc/passwd", r#""/etc/passwd" cannot be executed"#),
    ] {
        let spec = RunSpec::new(AGENT_IMAGE, [command]);
        let mut run = Run::new("backend-refused", &spec).await;
        run.plan.sandbox.init = false;
        run.create().await.unwrap();
        let error = run.engine.start(&run.plan).await.err().unwrap();
        assert_eq!(error.to_string(), expected);
        run.remove().await;
    }
    let mut spec = shell("true");
    spec.runtime = Some("no-such-runtime".to_owned());
    let run = Run::new("backend-runtime", &spec).await;
    let error = run.create().await.err().unwrap().to_string();
    assert!(error.contains("no-such-runtime"), "{error}");
    run.remove().await;
}

#[tokio::test]
#[ignore = "needs Docker"]
async fn standard_input_is_passed_in_and_its_end_too() {
    let mut spec = shell("cat; echo end");
    spec.stdin = true;
    let input = vec![b'x'; 1_000_000];
    let ran = Run::new("backend-stdin", &spec).await.run(&input).await;
    assert_eq!(ran.stdout.len(), input.len() + "end\n".len());
    assert!(ran.stdout.ends_with("xend\n"));

    spec.stdin = false;
    let ran = Run::new("backend-nostdin", &spec).await.run(b"").await;
    assert_eq!(ran.stdout, "end\n");
}

#[tokio::test]
#[ignore = "needs Docker"]
async fn a_flood_of_output_does_not_fill_memory() {
    const FLOOD: usize = 1 << 28;
    let run = Run::new("backend-flood", &shell(&format!("yes | head -c {FLOOD}"))).await;
    run.create().await.unwrap();
    let before = resident();
    let mut streams = run.start().await;
    let (mut got, mut most) = (0, 0);
    while let Some(chunk) = streams.output.next().await {
        let Chunk::Stdout(bytes) = chunk.unwrap() else {
            panic!("on the wrong stream");
        };
        got += bytes.len();
        if got % (1 << 25) < bytes.len() {
            most = most.max(resident());
        }
    }
    assert_eq!(got, FLOOD);
    assert!(most < before + 32 * 1024, "{before} KiB, then {most} KiB");
    run.engine.wait(&run.plan).await.unwrap();
    run.remove().await;
}

/// Memory of this process in KiB.
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status
        .lines()
        .find(|line| line.starts_with("VmRSS:"))
        .unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[tokio::test]
#[ignore = "needs Docker"]
async fn a_kill_ends_everything_at_any_time_and_any_number_of_times() {
    let script =
        "trap '' TERM; setsid sh -c 'echo; while :; do sleep 1; done' & while :; do sleep 1; done";
    let run = Run::new("backend-kill", &shell(script)).await;
    run.engine.kill(&run.plan).await.unwrap();
    run.remove().await;
    run.create().await.unwrap();
    run.engine.kill(&run.plan).await.unwrap();
    let mut streams = run.start().await;
    assert!(
        streams
            .output
            .next()
            .await
            .is_some_and(|chunk| chunk.is_ok())
    );
    let usage = run.engine.usage(&run.plan).await.unwrap();
    assert!(usage.pids.is_some_and(|pids| pids >= 3), "{usage:?}");
    run.engine.kill(&run.plan).await.unwrap();
    let ended = run.engine.wait(&run.plan).await.unwrap();
    assert_eq!((ended.exit_code, ended.oom_killed), (137, false));
    run.engine.kill(&run.plan).await.unwrap();
    assert_eq!(run.engine.wait(&run.plan).await.unwrap(), ended);
    drop(streams);
    run.remove().await;
    run.remove().await;
    run.engine.kill(&run.plan).await.unwrap();
    let error = run.engine.wait(&run.plan).await.unwrap_err().to_string();
    assert!(
        error.contains("failed to wait for container eclusa-run-backend-kill"),
        "{error}"
    );
}

#[tokio::test]
#[ignore = "needs Docker"]
async fn an_image_is_found_or_the_error_names_it() {
    let engine = engine().await;
    let image = engine.image(AGENT_IMAGE, Pull::Never).await.unwrap();
    assert!(image.id.starts_with("sha256:"), "{image:?}");
    assert_eq!(engine.image(&image.id, Pull::Missing).await.unwrap(), image);
    for (reference, pull) in [
        ("eclusa-no-such-image", Pull::Never),
        ("../networks", Pull::Missing),
        (
            "sha256:0000000000000000000000000000000000000000000000000000000000000000",
            Pull::Missing,
        ),
    ] {
        let error = engine.image(reference, pull).await.unwrap_err().to_string();
        let expected =
            format!("there is no image {reference}; pull or build it, or check the name");
        assert_eq!(error, expected);
    }
    let error = engine
        .image("127.0.0.1:1/a", Pull::Missing)
        .await
        .unwrap_err()
        .to_string();
    assert!(
        error.starts_with("failed to pull image 127.0.0.1:1/a: "),
        "{error}"
    );
    assert!(error.contains("refused"), "{error}");
}

#[tokio::test]
#[ignore = "needs Docker"]
async fn what_a_dead_launcher_left_is_found_and_reaped() {
    let run = Run::new("backend-reap", &shell("sleep 600")).await;
    run.create().await.unwrap();
    drop(run.start().await);
    let label = format!("--label={}={}", Labels::RUN, run.plan.run);
    docker(&["volume", "create", &label, "backend-reap-volume"]);
    docker(&[
        "network",
        "create",
        "--internal",
        &label,
        "backend-reap-network",
    ]);
    let member = Container(docker(&["create", AGENT_IMAGE, "true"]));
    docker(&["network", "connect", "backend-reap-network", &member.0]);
    let running = Container(docker(&["run", "--detach", AGENT_IMAGE, "sleep", "600"]));
    docker(&["network", "connect", "backend-reap-network", &running.0]);

    let left = run.left().await;
    let kinds: Vec<ObjectKind> = left.iter().map(|object| object.kind).collect();
    assert_eq!(
        kinds,
        [
            ObjectKind::Container,
            ObjectKind::Network,
            ObjectKind::Volume
        ]
    );
    let names: Vec<&str> = left.iter().map(|object| object.name.as_str()).collect();
    let expected = [
        "eclusa-run-backend-reap",
        "backend-reap-network",
        "backend-reap-volume",
    ];
    assert_eq!(names, expected);
    for object in &left {
        assert!(run.engine.reap(object).await.unwrap(), "{object:?}");
        assert!(!run.engine.reap(object).await.unwrap(), "{object:?}");
    }
    assert!(run.left().await.is_empty());
    // It could not be started if it were still attached to what is gone.
    docker(&["start", &member.0]);
    exec(&running.0, &["true"]);
}
