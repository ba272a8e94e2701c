//! The engine's side of the launcher: plans made and applied through the library, on a real engine.

use std::{env, path::PathBuf, process::Command};

use bytes::Bytes;
use eclusa::{
    launcher::{
        backend::{
            Backend, BackendError, Chunk, Ended, Image, Object, ObjectKind, Proxy, Streams,
            docker::Docker,
        },
        plan::{Facts, Labels, Network, Owner, Plan, Process, plan},
        spec::{NetworkChoice, Pull, RunSpec},
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

async fn engine() -> Docker {
    #[expect(clippy::disallowed_methods, reason = "as the command line reads it")]
    let host = env::var("DOCKER_HOST").ok();
    Docker::connect(host.as_deref(), None).await.unwrap()
}

fn labels(run: &str) -> Labels {
    Labels {
        run: RunId::parse(run).unwrap(),
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
        Self::on(id, spec, None, None).await
    }

    async fn on(id: &str, spec: &RunSpec, slice: Option<Ipv4Net>, proxy: Option<Proxy>) -> Self {
        let engine = engine().await;
        let image = engine.image(&spec.image, Pull::Never).await.unwrap();
        let plan = planned(id, spec, &image, slice);
        Self {
            engine,
            plan,
            proxy,
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

fn planned(id: &str, spec: &RunSpec, image: &Image, slice: Option<Ipv4Net>) -> Plan {
    let labels = labels(id);
    let facts = Facts {
        labels: &labels,
        image,
        slice,
        resolv_conf: None,
        input: None,
        has_ipv6: PathBuf::from("/proc/sys/net/ipv6").exists(),
    };
    plan(spec, &facts).unwrap()
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
    let run = Run::new("dockertest-end", &shell("echo out; echo err >&2; exit 3")).await;
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
