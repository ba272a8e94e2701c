//! `eclusa run` on a real engine: what hostile code tries from within its sandbox, and what is left
//! of it. Every test drives the command itself and reads the record that it prints.

pub(crate) mod files;
mod many;
mod network;
pub(crate) mod process;
pub(crate) mod time;
mod toolchains;

use std::{
    env, fs,
    io::Write as _,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard},
    time::{Duration, SystemTime},
};

use eclusa::{
    launcher::{
        backend::{Backend as _, Object},
        plan::Labels,
    },
    record::{Limit, Output, RunRecord},
};
use rustix::process::{Pid, Signal};
use tempfile::TempDir;

use crate::{
    backend::{engine, engine_at},
    docker::{AGENT_IMAGE, attempt, wait_until},
};

/// What is tried from within, and what each attempt may come to.
const PROBES: &str = include_str!("data/probes.py");

/// Tests that leave orphans have the launchers to themselves: each start reaps.
static LAUNCHERS: RwLock<()> = RwLock::new(());

/// A user of the launcher, with folders of its own.
pub(crate) struct Launcher {
    folder: TempDir,
    /// The engine, where it is not the one that the environment names.
    host: Option<String>,
    _turn: Turn,
}

#[expect(dead_code, reason = "what is held is the lock")]
enum Turn {
    Shared(RwLockReadGuard<'static, ()>),
    Alone(RwLockWriteGuard<'static, ()>),
}

/// One execution that ended, as its caller sees it.
#[derive(Debug)]
pub(crate) struct Ran {
    /// The exit code of `eclusa` itself; none where a signal ended it.
    pub(crate) code: Option<i32>,
    pub(crate) record: RunRecord,
    /// What `eclusa` wrote to standard error.
    pub(crate) said: String,
    /// From its start to its end, the removal included.
    pub(crate) took: Duration,
}

/// One execution under way.
pub(crate) struct Running {
    child: Child,
    host: Option<String>,
    started: SystemTime,
}

impl Launcher {
    /// Beside others.
    pub(crate) fn new() -> Self {
        let turn = LAUNCHERS.read().unwrap_or_else(PoisonError::into_inner);
        Self::with(Turn::Shared(turn), None)
    }

    /// On another engine than the other tests.
    pub(crate) fn on(host: &str) -> Self {
        let turn = LAUNCHERS.read().unwrap_or_else(PoisonError::into_inner);
        Self::with(Turn::Shared(turn), Some(host.to_owned()))
    }

    /// On another engine, while no other test uses the launcher.
    pub(crate) fn alone_on(host: &str) -> Self {
        let turn = LAUNCHERS.write().unwrap_or_else(PoisonError::into_inner);
        Self::with(Turn::Alone(turn), Some(host.to_owned()))
    }

    /// While no other test uses the launcher.
    pub(crate) fn alone() -> Self {
        let turn = LAUNCHERS.write().unwrap_or_else(PoisonError::into_inner);
        Self::with(Turn::Alone(turn), None)
    }

    /// Below /tmp whatever TMPDIR says: an engine may share nothing else with this machine.
    fn with(turn: Turn, host: Option<String>) -> Self {
        let mut folder = tempfile::Builder::new();
        let folder = folder.prefix("eclusa-run-").tempdir_in("/tmp").unwrap();
        let launcher = Self {
            folder,
            host,
            _turn: turn,
        };
        set_mode(launcher.folder.path(), 0o755);
        launcher
    }

    /// A path in the folder of this test.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// `eclusa run --json` in the agents' image.
    pub(crate) fn command(&self, options: &[&str], command: &[&str]) -> Command {
        self.command_in(AGENT_IMAGE, options, command)
    }

    /// `eclusa run --json` in any image.
    pub(crate) fn command_in(&self, image: &str, options: &[&str], command: &[&str]) -> Command {
        let mut run = self.bare(&["run", "--json"]);
        run.args(options).arg(image).arg("--").args(command);
        run
    }

    /// `eclusa` with whatever follows.
    pub(crate) fn bare(&self, arguments: &[&str]) -> Command {
        let mut eclusa = Command::new(binary());
        eclusa
            .args(arguments)
            .env("XDG_STATE_HOME", self.path("state"))
            .env_remove("ECLUSA_CONFIG")
            .current_dir(self.folder.path());
        if let Some(host) = &self.host {
            eclusa.env("DOCKER_HOST", host);
        }
        eclusa
    }

    /// Runs a command in the agents' image to its end.
    pub(crate) fn run(&self, options: &[&str], command: &[&str]) -> Ran {
        finish(&mut self.command(options, command))
    }

    /// Runs a shell script there.
    pub(crate) fn shell(&self, options: &[&str], script: &str) -> Ran {
        self.run(options, &["sh", "-c", script])
    }

    /// Runs a Python script there.
    pub(crate) fn python(&self, options: &[&str], script: &str) -> Ran {
        self.run(options, &["python3", "-I", "-c", script])
    }

    /// The option that gives a run the attempts, as `/input/probes.py`.
    pub(crate) fn probes(&self) -> String {
        let folder = self.path("probes");
        fs::create_dir_all(&folder).unwrap();
        set_mode(&folder, 0o755);
        let file = folder.join("probes.py");
        fs::write(&file, PROBES).unwrap();
        set_mode(&file, 0o644);
        format!("--input={}", folder.display())
    }

    /// What a run that must not start says instead, and that it says so with 125.
    pub(crate) fn refusal(&self, options: &[&str]) -> String {
        let ran = self.run(options, &["true"]);
        assert_eq!(ran.code, Some(125), "{options:?}: {ran:?}");
        assert_eq!(ran.record.output, None, "{options:?}: it started");
        ran.record.error.unwrap()
    }

    /// A file system in memory, mounted in the folder of this test.
    pub(crate) fn mount(&self, name: &str, options: &str) -> Mounted {
        let path = self.path(name);
        fs::create_dir_all(&path).unwrap();
        let mut mount = Command::new("mount");
        mount
            .args(["-t", "tmpfs", "-o", options, "tmpfs"])
            .arg(&path);
        let mounted = attempt(&mut mount);
        assert!(mounted.ok, "{mounted:?}");
        Mounted(path)
    }

    /// What its engine still has of a run.
    pub(crate) fn left(&self, run: &str) -> Vec<Object> {
        left_on(self.host.as_deref(), run)
    }

    /// The lines of the launcher's own record file.
    pub(crate) fn recorded(&self) -> Vec<RunRecord> {
        records(&self.path("state/eclusa/runs.jsonl"))
    }
}

/// Unmounts on every path out of a test.
pub(crate) struct Mounted(pub(crate) PathBuf);

impl Drop for Mounted {
    fn drop(&mut self) {
        attempt(Command::new("umount").arg(&self.0));
    }
}

impl Ran {
    fn read(output: &std::process::Output, took: Duration) -> Self {
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let text = std::str::from_utf8(&output.stdout).unwrap();
        let mut lines = text.lines();
        let record = serde_json::from_str(lines.next().unwrap_or_default());
        let record = record.map_err(|error| format!("{error} in {text:?}; {said}"));
        let record: RunRecord = record.unwrap();
        assert_eq!(lines.next(), None, "a record is all that is printed");
        let code = output.status.code();
        assert_eq!(code, Some(record.exit_code.into()), "{record:?}");
        Self {
            code,
            record,
            said,
            took,
        }
    }

    /// What the command wrote.
    pub(crate) fn output(&self) -> &Output {
        assert_ne!(self.record.output, None, "it did not start: {self:?}");
        self.record.output.as_ref().unwrap()
    }

    /// What it wrote to standard output.
    pub(crate) fn stdout(&self) -> &str {
        &self.output().stdout
    }

    /// That it ended by itself and without an error.
    #[track_caller]
    pub(crate) fn succeeded(self) -> Self {
        assert_eq!(self.code, Some(0), "{self:?}");
        assert_eq!(self.record.error, None);
        self
    }

    /// The limits that somebody else than the program vouches for.
    pub(crate) fn limits(&self) -> Vec<Limit> {
        let limits = self.record.limits.iter();
        let certain = limits.filter(|reached| reached.is_certain());
        certain.map(|reached| reached.limit).collect()
    }
}

impl Running {
    /// Starts it. Its input is a pipe.
    pub(crate) fn start(run: &mut Command) -> Self {
        run.stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut settings = run.get_envs();
        let host = settings.find_map(|(name, value)| value.filter(|_| name == "DOCKER_HOST"));
        Self {
            host: host.map(|host| host.to_str().unwrap().to_owned()),
            started: SystemTime::now(),
            child: run.spawn().unwrap(),
        }
    }

    /// The process of the launcher.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits until the engine has a sandbox of it that runs, and gives the run's id.
    pub(crate) fn sandbox(&self) -> String {
        let process = format!("{}.", self.pid());
        let mut found = None;
        wait_until("the sandbox", || {
            let mut list = Command::new("docker");
            list.envs(self.host.as_ref().map(|host| ("DOCKER_HOST", host)))
                .args([
                    "ps",
                    "--filter=status=running",
                    "--filter=name=^eclusa-run-",
                ])
                .arg(r#"--format={{.Label "eclusa.process"}} {{.Label "eclusa.run"}}"#);
            let sandboxes = attempt(&mut list);
            assert!(sandboxes.ok, "{sandboxes:?}");
            let mut sandboxes = sandboxes
                .text
                .lines()
                .filter_map(|line| line.split_once(' '));
            let own = sandboxes.find(|(of, _)| of.starts_with(&process));
            found = own.map(|(_, run)| run.to_owned());
            found.is_some()
        });
        found.unwrap()
    }

    /// Sends a signal to the launcher.
    pub(crate) fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(i32::try_from(self.pid()).unwrap()).unwrap();
        rustix::process::kill_process(pid, signal).unwrap();
    }

    /// Gives it an input and waits for its end.
    pub(crate) fn finish(mut self, input: &[u8]) -> (std::process::Output, Duration) {
        // A command that reads nothing closes its end early.
        self.child.stdin.take().unwrap().write_all(input).ok();
        let output = self.child.wait_with_output().unwrap();
        (output, self.started.elapsed().unwrap())
    }
}

/// Runs it to its end.
pub(crate) fn finish(run: &mut Command) -> Ran {
    finish_with(run, b"")
}

/// Runs it to its end with an input, and asserts that the engine has nothing of it any more.
pub(crate) fn finish_with(run: &mut Command, input: &[u8]) -> Ran {
    finish_record(Running::start(run), input)
}

/// The same of one that was started before.
pub(crate) fn finish_record(running: Running, input: &[u8]) -> Ran {
    let host = running.host.clone();
    let (output, took) = running.finish(input);
    let ran = Ran::read(&output, took);
    let left = left_on(host.as_deref(), &ran.record.run);
    assert!(left.is_empty(), "{left:?} of {ran:?}");
    ran
}

/// The binary under test: the static one that `make sandbox` names, where a run needs our image.
pub(crate) fn binary() -> PathBuf {
    env::var_os("ECLUSA_BINARY").map_or_else(|| env!("CARGO_BIN_EXE_eclusa").into(), PathBuf::from)
}

/// What the engine still has of a run.
pub(crate) fn left(run: &str) -> Vec<Object> {
    left_on(None, run)
}

/// What that engine still has of a run.
fn left_on(host: Option<&str>, run: &str) -> Vec<Object> {
    let of_run = |object: &Object| object.labels.get(Labels::RUN).is_some_and(|of| of == run);
    let mut objects = objects_on(host);
    objects.retain(of_run);
    objects
}

/// What the engine has of all runs.
pub(crate) fn objects() -> Vec<Object> {
    objects_on(None)
}

/// What that engine has of all runs.
pub(crate) fn objects_on(host: Option<&str>) -> Vec<Object> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let engine = match host {
            Some(_) => engine_at(host).await,
            None => engine().await,
        };
        engine.objects().await.unwrap()
    })
}

/// The lines of a record file.
pub(crate) fn records(file: &Path) -> Vec<RunRecord> {
    let text = fs::read_to_string(file).unwrap();
    assert!(text.ends_with('\n'), "{text}");
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// Sets the mode of a file or folder.
pub(crate) fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// The SHA-256 of a file, as the host's own tool has it.
pub(crate) fn sha256(file: &Path) -> String {
    let sum = attempt(Command::new("sha256sum").arg(file));
    assert!(sum.ok, "{sum:?}");
    sum.text.split(' ').next().unwrap().to_owned()
}

/// The socket of the engine that the tests use.
pub(crate) fn engine_socket() -> PathBuf {
    let host = env::var_os("DOCKER_HOST").map(|host| host.into_string().unwrap());
    let path = host.as_deref().map_or("/var/run/docker.sock", |host| {
        host.strip_prefix("unix://").unwrap()
    });
    path.into()
}
