//! The life of a command: started, watched, killed.

use std::time::Duration;

use bollard::{
    container::{AttachContainerResults, LogOutput},
    errors::Error,
    models::ContainerState,
    query_parameters::{
        AttachContainerOptions, KillContainerOptions, StatsOptions, WaitContainerOptions,
    },
};
use futures_util::{StreamExt, TryStreamExt};

use super::{
    Docker,
    error::{CallError, call, items, settled},
};
use crate::launcher::{
    backend::{BackendError, Chunk, Ended, Streams, Usage},
    plan::Plan,
};

/// How long an engine may take from the end of a command until it says so.
const END_LIMIT: Duration = Duration::from_secs(20);

/// How often it is asked meanwhile.
const END_INTERVAL: Duration = Duration::from_millis(20);

impl Docker {
    /// Attaches to the sandbox, then starts it, so that not a byte is missed.
    pub(super) async fn attach_and_start(&self, plan: &Plan) -> Result<Streams, BackendError> {
        let name = &plan.sandbox.name;
        let options = AttachContainerOptions {
            stream: true,
            stdin: plan.sandbox.stdin,
            stdout: true,
            stderr: true,
            logs: false,
            detach_keys: None,
        };
        let attached = call(self.client.attach_container(name, Some(options)))
            .await
            .map_err(|error| error.during(format!("attach to container {name}")))?;
        call(self.client.start_container(name, None))
            .await
            .map_err(|error| not_started(plan, error))?;
        let AttachContainerResults { output, input } = attached;
        Ok(Streams {
            output: output.map(chunk).boxed(),
            input: plan.sandbox.stdin.then_some(input),
        })
    }

    /// Waits for the end of the command; what it came to is read only from a container that the
    /// engine confirms as ended.
    pub(super) async fn wait_for_end(&self, plan: &Plan) -> Result<Ended, BackendError> {
        let name = &plan.sandbox.name;
        let gone = |error: CallError| error.during(format!("wait for container {name}"));
        let options = WaitContainerOptions {
            condition: "not-running".to_owned(),
        };
        // Also of a container that has ended already. The code is read below; the library makes an
        // error of one other than 0.
        let waited = self.client.wait_container(name, Some(options));
        match Box::pin(waited).next().await {
            Some(Ok(_) | Err(Error::DockerContainerWaitError { .. })) => {}
            Some(Err(error)) => return Err(gone(error.into())),
            None => return Err(gone(CallError::Transport("the answer ended".to_owned()))),
        }
        let confirmed = tokio::time::timeout(END_LIMIT, async {
            loop {
                let container = settled(|| self.client.inspect_container(name, None)).await?;
                if let Some(ended) = container.state.and_then(ended) {
                    return Ok(ended);
                }
                tokio::time::sleep(END_INTERVAL).await;
            }
        });
        match confirmed.await {
            Ok(ended) => ended.map_err(gone),
            Err(_elapsed) => Err(gone(CallError::Transport(format!(
                "it still runs {} s after its end",
                END_LIMIT.as_secs()
            )))),
        }
    }

    /// How many processes the sandbox has now.
    pub(super) async fn usage_now(&self, plan: &Plan) -> Result<Usage, BackendError> {
        let name = &plan.sandbox.name;
        // One shot: without it an engine takes a second for two samples.
        let options = StatsOptions {
            stream: false,
            one_shot: true,
        };
        let stats = items(Box::pin(self.client.stats(name, Some(options))));
        let stats = Box::pin(stats).try_next().await;
        let stats = stats.map_err(|error| error.during(format!("measure container {name}")))?;
        Ok(Usage {
            pids: stats.and_then(|stats| stats.pids_stats?.current),
        })
    }

    /// Kills every process of the sandbox by killing its first.
    pub(super) async fn kill_all(&self, plan: &Plan) -> Result<(), BackendError> {
        let name = &plan.sandbox.name;
        let options = KillContainerOptions {
            signal: "SIGKILL".to_owned(),
        };
        match call(self.client.kill_container(name, Some(options))).await {
            Ok(()) => Ok(()),
            Err(error) if error.is_missing() || ENDED.iter().any(|says| error.says(says)) => Ok(()),
            Err(error) => Err(error.during(format!("kill container {name}"))),
        }
    }
}

/// What Docker and Podman say of a container that has ended.
const ENDED: &[&str] = &["is not running", "can only kill running containers"];

/// Why a start was refused; the runtime's words tell whether the command is to blame.
fn not_started(plan: &Plan, error: CallError) -> BackendError {
    let command = plan.sandbox.command.first().map_or("", String::as_str);
    let has_command = error.says(&format!("exec: {command:?}"));
    let is_absent = ["executable file not found", "no such file or directory"];
    let is_inert = ["permission denied", "is a directory", "exec format error"];
    if has_command && is_absent.iter().any(|words| error.says(words)) {
        return BackendError::CommandNotFound(command.to_owned());
    }
    if has_command && is_inert.iter().any(|words| error.says(words)) {
        return BackendError::CommandNotExecutable(command.to_owned());
    }
    error.during(format!("start container {}", plan.sandbox.name))
}

/// What a container came to; none while anything of it runs.
fn ended(state: ContainerState) -> Option<Ended> {
    let runs = [state.running, state.paused, state.restarting];
    if runs.contains(&Some(true)) || state.pid.is_some_and(|pid| pid != 0) {
        return None;
    }
    Some(Ended {
        exit_code: state.exit_code?,
        oom_killed: state.oom_killed == Some(true),
        error: state.error.filter(|error| !error.is_empty()),
    })
}

fn chunk(output: Result<LogOutput, Error>) -> Result<Chunk, BackendError> {
    match output {
        Ok(LogOutput::StdOut { message }) => Ok(Chunk::Stdout(message)),
        Ok(LogOutput::StdErr { message }) => Ok(Chunk::Stderr(message)),
        Ok(LogOutput::StdIn { .. } | LogOutput::Console { .. }) => {
            let broken = CallError::Transport("its framing is broken".to_owned());
            Err(broken.during(READING))
        }
        Err(error) => Err(CallError::from(error).during(READING)),
    }
}

const READING: &str = "read what the command writes";
