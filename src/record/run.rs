//! The record of one execution: what `eclusa run --json` prints, and, without the program's
//! output, a line of the launcher's own record file.

use serde::{Deserialize, Serialize};

use super::{NetworkSummary, RunId, encode};

/// One execution, from its start to the removal of its sandbox.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "the fields are those that CONTRACTS lists"
)]
pub struct RunRecord {
    /// The version of this shape.
    pub schema: u32,
    /// The run's id, which its exchanges in the audit log bear too.
    pub run: String,
    /// When it began, RFC 3339 in UTC.
    pub started: String,
    /// The image's id, a digest of its configuration; as asked for where none was found.
    pub image: String,
    /// The command and its arguments.
    pub command: Vec<String>,
    /// The profile, where one was named.
    pub profile: Option<String>,
    /// What this run alone was allowed to reach, as patterns.
    pub allow: Vec<String>,
    /// What `eclusa run` exits with: the command's own code, 124 timed out, 125 the launcher failed
    /// or refused, 126 and 127 cannot be executed and not found, 137 killed.
    pub exit_code: u8,
    /// Whether the wall-clock limit ended it.
    pub timed_out: bool,
    /// Whether the kernel killed something in it for memory.
    pub oom_killed: bool,
    /// The signal that ended it, where it is known for sure.
    pub signal: Option<u8>,
    /// What went wrong outside of the program.
    pub error: Option<String>,
    /// The limits that it ran into.
    pub limits: Vec<LimitReached>,
    /// What the caller should know although the run went on.
    pub warnings: Vec<String>,
    /// From the start of the command to its end, in milliseconds.
    pub duration_ms: u64,
    /// What it wrote to standard output and error; absent from the record file.
    #[serde(flatten)]
    pub output: Option<Output>,
    /// The true length of its standard output.
    pub stdout_bytes: u64,
    /// The true length of its standard error.
    pub stderr_bytes: u64,
    /// Whether standard output was cut.
    pub stdout_truncated: bool,
    /// Whether standard error was cut.
    pub stderr_truncated: bool,
    /// The files collected from `/output`.
    pub outputs: Vec<OutputFile>,
    /// What of `/output` was not collected.
    pub outputs_skipped: Vec<SkippedOutput>,
    /// The container of the proxy that it went through; none without a network of our own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proxy: Option<String>,
    /// The slot of the pool whose network it had; none where one was made for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slot: Option<String>,
    /// What it reached and tried to reach; none where the proxy could not be asked.
    pub network: Option<NetworkSummary>,
    /// How long each phase took, where that was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timings: Option<Vec<Timing>>,
}

/// What a program wrote, up to the limit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Output {
    /// Standard output; bytes that are not UTF-8 are replaced.
    pub stdout: String,
    /// Standard error, likewise.
    pub stderr: String,
    /// Standard output as it was, in base64, where `stdout` had to replace bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdout_base64: Option<String>,
    /// Standard error as it was, likewise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stderr_base64: Option<String>,
}

/// A limit that a run met.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LimitReached {
    /// Which.
    pub limit: Limit,
    /// How it is known.
    pub evidence: Evidence,
    /// What happened and which option raises the limit.
    pub detail: String,
}

/// The limits of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// The wall clock.
    Timeout,
    /// Memory, with everything that lies in a tmpfs.
    Memory,
    /// Processes and threads.
    Pids,
    /// The size of one file.
    FileSize,
    /// Room or files in `/workspace`, `/tmp` or `/output`.
    Disk,
    /// What is kept of standard output and error.
    Output,
    /// Open files.
    OpenFiles,
}

/// How a limit is known to have been met.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Evidence {
    /// The launcher saw it itself.
    Launcher,
    /// The engine or the kernel says so.
    Engine,
    /// The program said so on standard error, which it may do without cause.
    Program,
}

/// A file collected from `/output`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutputFile {
    /// Its path below the output folder.
    pub path: String,
    /// Its length.
    pub bytes: u64,
    /// The SHA-256 of its content, in lower-case hexadecimal.
    pub sha256: String,
}

/// Something in `/output` that was not collected.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SkippedOutput {
    /// Its path below the output folder, escaped.
    pub path: String,
    /// Why.
    pub why: String,
}

/// One phase of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Timing {
    /// Its name.
    pub phase: String,
    /// From the start of `eclusa run` to its end, in milliseconds.
    pub at_ms: u64,
}

impl LimitReached {
    /// Whether somebody else than the program says so.
    pub fn is_certain(&self) -> bool {
        match self.evidence {
            Evidence::Launcher | Evidence::Engine => true,
            Evidence::Program => false,
        }
    }
}

impl RunRecord {
    /// The version of the shape.
    pub const SCHEMA: u32 = 1;

    /// A run of which nothing is known yet but what was asked.
    pub fn begun(run: &RunId, started: String, image: String, command: Vec<String>) -> Self {
        Self {
            schema: Self::SCHEMA,
            run: run.to_string(),
            started,
            image,
            command,
            profile: None,
            allow: Vec::new(),
            exit_code: 125,
            timed_out: false,
            oom_killed: false,
            signal: None,
            error: None,
            limits: Vec::new(),
            warnings: Vec::new(),
            duration_ms: 0,
            output: None,
            stdout_bytes: 0,
            stderr_bytes: 0,
            stdout_truncated: false,
            stderr_truncated: false,
            outputs: Vec::new(),
            outputs_skipped: Vec::new(),
            proxy: None,
            slot: None,
            network: Some(NetworkSummary::default()),
            timings: None,
        }
    }

    /// One line of the record file, in printable ASCII: everything but what the program wrote.
    ///
    /// # Errors
    /// None in practice: every field has a JSON form.
    pub fn line(&self) -> serde_json::Result<Vec<u8>> {
        let record = Self {
            output: None,
            ..self.clone()
        };
        let mut line = encode::ascii(&serde_json::to_string(&record)?);
        line.push(b'\n');
        Ok(line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_record_file_holds_all_but_the_output() {
        let run = RunId::parse("01JD").unwrap();
        let record = RunRecord {
            output: Some(Output {
                stdout: "secret".to_owned(),
                ..Output::default()
            }),
            ..RunRecord::begun(
                &run,
                "2026-01-01T00:00:00Z".to_owned(),
                "sha256:00".to_owned(),
                vec!["true".to_owned()],
            )
        };
        let line = String::from_utf8(record.line().unwrap()).unwrap();
        assert!(line.ends_with('\n') && !line.contains("secret") && !line.contains("\"stdout\""));
        let read: RunRecord = serde_json::from_str(&line).unwrap();
        assert_eq!(
            read,
            RunRecord {
                output: None,
                ..record.clone()
            }
        );
        let whole: RunRecord =
            serde_json::from_value(serde_json::to_value(&record).unwrap()).unwrap();
        assert_eq!(whole, record);
    }
}
