//! Limits that are met by meeting them.

use std::{
    fs::File,
    io::{self, Write},
    os::unix::process::ExitStatusExt,
    process::{Command, Stdio},
    sync::{PoisonError, RwLock},
    thread,
};

use rustix::process::{Resource, getrlimit};

use super::{Notes, Orders, PROGRAM, code};
use crate::doctor::Probe;

/// More than any sandbox of doctor's may have.
const TOO_MANY_FILES: usize = 2048;
const TOO_MANY_THREADS: usize = 512;
const TOO_LONG_A_FILE: usize = 64 * 1024 * 1024;

const PIECE: usize = 1024 * 1024;

pub(super) fn try_all(orders: &Orders, notes: &mut Notes<'_>) -> io::Result<()> {
    let core = getrlimit(Resource::Core).maximum;
    let core = core.map_or_else(|| "unlimited".to_owned(), |bytes| bytes.to_string());
    notes.tell(Probe::CoreDumps, "bytes of a core dump", core)?;
    notes.tell(Probe::OpenFiles, "files", open_files())?;
    notes.tell(Probe::Pids, "threads", threads())?;
    notes.tell(
        Probe::FileSize,
        "one file",
        end_of(&["probe", "file-size"])?,
    )?;
    let bytes = orders.memory.saturating_mul(2).to_string();
    let end = end_of(&["probe", "memory", "--bytes", &bytes])?;
    notes.tell(Probe::Memory, "twice the memory", end)
}

fn open_files() -> String {
    let mut open = Vec::new();
    while open.len() < TOO_MANY_FILES {
        match File::open("/dev/null") {
            Ok(file) => open.push(file),
            Err(error) => return code(&error),
        }
    }
    format!("{TOO_MANY_FILES} open")
}

fn threads() -> String {
    let gate = RwLock::new(());
    let closed = gate.write();
    thread::scope(|scope| {
        let mut outcome = format!("{TOO_MANY_THREADS} started");
        for _ in 0..TOO_MANY_THREADS {
            let wait = || drop(gate.read().unwrap_or_else(PoisonError::into_inner));
            if let Err(error) = thread::Builder::new().spawn_scoped(scope, wait) {
                outcome = code(&error);
                break;
            }
        }
        drop(closed);
        outcome
    })
}

/// How a process of ours ends: the signal that ended it, else what it said last.
fn end_of(arguments: &[&str]) -> io::Result<String> {
    let mut child = Command::new(PROGRAM);
    let child = child.args(arguments).stderr(Stdio::null()).output()?;
    Ok(match (child.status.signal(), child.status.code()) {
        // signal(7).
        (Some(9), _) => "SIGKILL".to_owned(),
        (Some(25), _) => "SIGXFSZ".to_owned(),
        (Some(signal), _) => format!("signal {signal}"),
        (None, Some(0)) => "went through".to_owned(),
        (None, _) => "failed".to_owned(),
    })
}

/// Writes a file until the kernel ends this process (setrlimit(2), `RLIMIT_FSIZE`).
pub(super) fn write_too_much() -> io::Result<()> {
    let piece = vec![b'x'; PIECE];
    let mut file = File::create("/workspace/long")?;
    for _ in 0..TOO_LONG_A_FILE / PIECE {
        file.write_all(&piece)?;
    }
    Ok(())
}

/// Takes memory until the kernel ends this process.
pub(super) fn take_memory(bytes: u64) -> io::Result<()> {
    // It is this process that is to die, and no other of the sandbox (proc_pid_oom_score_adj(5)).
    std::fs::write("/proc/self/oom_score_adj", "1000")?;
    let mut taken = Vec::new();
    let pieces = bytes / u64::try_from(PIECE).map_err(io::Error::other)?;
    for number in 0..pieces {
        let content = u8::try_from(number % 255).unwrap_or_default() + 1;
        taken.push(vec![content; PIECE]);
    }
    std::hint::black_box(&taken);
    Ok(())
}
