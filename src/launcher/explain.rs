//! What the end of a run means: which limit it met, and whether its command ran at all.

use super::{
    backend::{Ended, EngineKind},
    spec::RunSpec,
};
use crate::{
    config::show_duration,
    record::{Evidence, Limit, LimitReached},
};

/// What was seen of a run.
#[derive(Clone, Debug, Default)]
pub(super) struct Seen<'a> {
    pub(super) ended: Ended,
    pub(super) timed_out: bool,
    /// The most processes seen at once.
    pub(super) pids: u64,
    pub(super) stdout_truncated: bool,
    pub(super) stderr_truncated: bool,
    /// How much it wrote to standard output.
    pub(super) stdout_bytes: u64,
    /// The end of standard error as far as it was kept.
    pub(super) stderr: &'a str,
}

/// SIGXFSZ, as a shell and an init report it.
const FILE_SIZE_SIGNAL: i64 = 128 + 25;

/// The limits that a run met, the surest evidence for each.
pub(super) fn limits(spec: &RunSpec, seen: &Seen<'_>) -> Vec<LimitReached> {
    let mut met: Vec<LimitReached> = Vec::new();
    let mut note = |limit, evidence, detail: String| {
        if met.iter().all(|known| known.limit != limit) {
            met.push(LimitReached {
                limit,
                evidence,
                detail,
            });
        }
    };
    let limits = &spec.limits;
    if seen.timed_out {
        let after = show_duration(spec.timeout);
        note(
            Limit::Timeout,
            Evidence::Launcher,
            format!("killed after {after}; --timeout raises it"),
        );
    }
    if seen.ended.oom_killed {
        let detail = format!(
            "the kernel killed a process for memory at {} bytes, files in /workspace and /tmp \
             included; --memory raises it",
            limits.memory
        );
        note(Limit::Memory, Evidence::Engine, detail);
    }
    if seen.pids >= limits.pids.into() {
        let detail = format!("{} processes and threads; --pids raises it", limits.pids);
        note(Limit::Pids, Evidence::Engine, detail);
    }
    if seen.ended.exit_code == FILE_SIZE_SIGNAL {
        let detail = format!("a file of {} bytes; --fsize raises it", limits.fsize);
        note(Limit::FileSize, Evidence::Engine, detail);
    }
    let cut = match (seen.stdout_truncated, seen.stderr_truncated) {
        (true, true) => Some("standard output and standard error were each"),
        (true, false) => Some("standard output was"),
        (false, true) => Some("standard error was"),
        (false, false) => None,
    };
    if let Some(cut) = cut {
        let detail = format!(
            "{cut} cut after {} bytes; --max-output raises it",
            spec.max_output
        );
        note(Limit::Output, Evidence::Launcher, detail);
    }
    for (limit, says, option) in COMPLAINTS {
        if says.iter().any(|says| seen.stderr.contains(says)) {
            let detail = format!("its standard error says so; {option} raises it");
            note(*limit, Evidence::Program, detail);
        }
    }
    met
}

/// What programs write when a limit stops them: the texts of strerror(3), and those of runtimes
/// that have their own.
const COMPLAINTS: &[(Limit, &[&str], &str)] = &[
    (
        Limit::Pids,
        &[
            "Resource temporarily unavailable",
            "can't start new thread",
            "unable to create native thread",
            "uv_thread_create",
            "pthread_create failed",
        ],
        "--pids",
    ),
    (
        Limit::Disk,
        &["No space left on device", "ENOSPC"],
        "--workspace-size, --tmp-size or --output-size",
    ),
    (Limit::FileSize, &["File too large", "EFBIG"], "--fsize"),
    (
        Limit::OpenFiles,
        &["Too many open files", "EMFILE"],
        "--nofile",
    ),
    (
        Limit::Memory,
        &[
            "Cannot allocate memory",
            "MemoryError",
            "java.lang.OutOfMemoryError: Java heap space",
            "JavaScript heap out of memory",
        ],
        "--memory",
    ),
];

/// Why the init could not execute `program`, where that is what ended the run; none for a command
/// that ran and itself exited with 126 or 127. Only a run that wrote the init's one line and
/// nothing else is taken for that; of the line nothing is repeated, for a program can write it too.
/// With it what `eclusa run` exits with.
pub(super) fn not_executed(
    seen: &Seen<'_>,
    program: &str,
    engine: EngineKind,
) -> Option<(u8, String)> {
    let line = seen.stderr.strip_suffix('\n').unwrap_or(seen.stderr);
    let says_init = match engine {
        EngineKind::Docker => line.starts_with("[FATAL tini ("),
        EngineKind::Podman => line.contains("(catatonit:"),
    };
    if !says_init || line.contains('\n') || seen.stdout_bytes > 0 {
        return None;
    }
    // catatonit ends with 1 whatever the reason.
    let is_pid1 = engine == EngineKind::Podman && line.contains("): failed to exec pid1: ");
    let code = match seen.ended.exit_code {
        1 if is_pid1 && line.ends_with("No such file or directory") => 127,
        1 if is_pid1 => 126,
        code => code,
    };
    match code {
        127 => Some((
            127,
            format!("there is no such command in the image: {program:?}"),
        )),
        126 => {
            let cause = CAUSES.iter().find(|cause| line.ends_with(*cause));
            let cause = cause.map(|cause| format!(": {cause}")).unwrap_or_default();
            let why = format!("the command cannot be executed: {program:?}{cause}");
            Some((126, why))
        }
        _ => None,
    }
}

/// Why execve(2) fails, as strerror(3) says it.
const CAUSES: &[&str] = &[
    "Permission denied",
    "Exec format error",
    "Is a directory",
    "Not a directory",
    "Argument list too long",
    "Text file busy",
    "Too many levels of symbolic links",
    "Operation not permitted",
];

/// What `eclusa run` exits with.
pub(super) fn exit_code(ended: &Ended, timed_out: bool) -> u8 {
    if timed_out {
        return 124;
    }
    // Something may be killed for memory while the command itself goes on and ends in order.
    u8::try_from(ended.exit_code).unwrap_or(125)
}

/// The signal that ended the run, where it is known: an exit code of 128 and more may be the
/// program's own choice.
pub(super) fn signal(ended: &Ended, killed: bool) -> Option<u8> {
    (killed || (ended.oom_killed && ended.exit_code == 137)).then_some(9)
}

#[cfg(test)]
mod tests;
