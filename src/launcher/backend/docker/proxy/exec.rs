//! The admin socket through the engine's exec of `eclusa admin` in the container: for engines on
//! other machines, and for users who may speak to the engine but not see its files.

use bollard::{container::LogOutput, exec::StartExecResults, models::ExecConfig};
use bytes::Bytes;
use futures_util::StreamExt;
use tokio::time::timeout;

use super::{
    super::{
        Docker,
        error::{CallError, call},
    },
    admin::CALL_LIMIT,
};
use crate::launcher::backend::{AdminCall, BackendError};

/// The longest body, in bytes; it is an argument, which execve(2) bounds (`MAX_ARG_STRLEN`, 128
/// KiB).
const MOST_BODY: usize = 120 * 1024;

/// The most that is read of an answer, in bytes.
const MOST_ANSWER: usize = 16 * 1024 * 1024;

impl Docker {
    /// One call, its status and body.
    pub(super) async fn by_exec(
        &self,
        container: &str,
        AdminCall { method, path, body }: AdminCall<'_>,
    ) -> Result<(u16, Bytes), BackendError> {
        if body.len() > MOST_BODY {
            return Err(BackendError::Proxy(format!(
                "takes {} KiB by the engine's exec and the call has {}; name its admin socket with \
                 --admin, or a profile instead of a long list",
                MOST_BODY / 1024,
                body.len() / 1024
            )));
        }
        let mut command = vec!["/eclusa", "admin", "--status", "--", method, path];
        command.extend(Some(body).filter(|body| !body.is_empty()));
        let output = timeout(CALL_LIMIT, self.exec(container, &command)).await;
        let output = output
            .map_err(|_elapsed| BackendError::Proxy("did not answer in time".to_owned()))?
            .map_err(|error| error.during(format!("call {method} {path} of the proxy by exec")))?;
        answer_of(&output).ok_or_else(|| {
            let said = String::from_utf8_lossy(&output.stderr);
            BackendError::Proxy(format!("does not answer: {}", said.trim()))
        })
    }

    async fn exec(&self, container: &str, command: &[&str]) -> Result<Output, CallError> {
        let config = ExecConfig {
            cmd: Some(command.iter().map(|word| (*word).to_owned()).collect()),
            attach_stdout: Some(true),
            attach_stderr: Some(true),
            ..ExecConfig::default()
        };
        let exec = call(self.client.create_exec(container, config)).await?;
        let mut output = Output::default();
        let StartExecResults::Attached {
            output: mut streams,
            input: _input,
        } = call(self.client.start_exec(&exec.id, None)).await?
        else {
            return Ok(output);
        };
        while let Some(piece) = streams.next().await {
            match piece? {
                LogOutput::StdOut { message } => output.stdout.extend_from_slice(&message),
                LogOutput::StdErr { message } => output.stderr.extend_from_slice(&message),
                LogOutput::StdIn { .. } | LogOutput::Console { .. } => {}
            }
            if output.stdout.len() + output.stderr.len() > MOST_ANSWER {
                return Err(CallError::Transport("the answer does not end".to_owned()));
            }
        }
        Ok(output)
    }
}

/// What a command in the container wrote.
#[derive(Default)]
struct Output {
    stdout: Vec<u8>,
    stderr: Vec<u8>,
}

/// Reads what `eclusa admin --status` prints: the status on a line, then the body.
fn answer_of(output: &Output) -> Option<(u16, Bytes)> {
    let at = output.stdout.iter().position(|byte| *byte == b'\n')?;
    let (status, body) = output.stdout.split_at_checked(at)?;
    let status = std::str::from_utf8(status).ok()?.parse().ok()?;
    let body = body.get(1..).unwrap_or_default();
    let body = body.strip_suffix(b"\n").unwrap_or(body);
    Some((status, Bytes::copy_from_slice(body)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_by_exec_is_a_status_on_a_line_and_a_body() {
        let read = |stdout: &[u8]| {
            answer_of(&Output {
                stdout: stdout.to_vec(),
                stderr: Vec::new(),
            })
        };
        let answer = |status, body: &'static str| Some((status, Bytes::from(body)));
        for (stdout, expected) in [
            (&b"200\n[]\n"[..], answer(200, "[]")),
            (b"200\n{\n}\n\n", answer(200, "{\n}\n")),
            (b"404\n\n", answer(404, "")),
            (b"404\n", answer(404, "")),
            (b"", None),
            (b"200", None),
            (b"OK\n[]\n", None),
            (b"70000\n[]\n", None),
        ] {
            assert_eq!(read(stdout), expected, "{stdout:?}");
        }
    }
}
