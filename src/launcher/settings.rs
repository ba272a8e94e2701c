//! Where the launcher keeps what it needs between runs, and who it is.

use std::{
    env, fs, io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use ipnet::Ipv4Net;

use super::plan::{Owner, Process};
use crate::config::fingerprint;

/// What holds for every run of one launcher.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The range that slices are cut from.
    pub pool: Ipv4Net,
    /// The record file.
    pub record: PathBuf,
    /// A private folder for what is bound into sandboxes.
    pub state: PathBuf,
    /// Whose objects are ours.
    pub owner: Owner,
    /// This process.
    pub process: Process,
}

impl Settings {
    /// Settings for this process: `pool` and `record` as `[launcher]` has them, the state folder
    /// from `XDG_STATE_HOME` or `HOME`.
    ///
    /// # Errors
    /// Neither variable names a folder, or /proc cannot be read.
    pub fn of_this_process(pool: Ipv4Net, record: Option<PathBuf>) -> io::Result<Self> {
        let state = state_folder()?;
        Ok(Self {
            pool,
            record: record.unwrap_or_else(|| state.join("runs.jsonl")),
            state,
            owner: Owner {
                machine: machine(),
                uid: rustix::process::geteuid().as_raw(),
            },
            process: Process::this()?,
        })
    }
}

/// Which engine the environment names: `DOCKER_HOST`, and `XDG_RUNTIME_DIR` for Podman's socket.
pub(super) fn engine_of_environment() -> (Option<String>, Option<PathBuf>) {
    let set = |name| env::var_os(name).filter(|value| !value.is_empty());
    (
        set("DOCKER_HOST").map(|host| host.to_string_lossy().into_owned()),
        set("XDG_RUNTIME_DIR").map(PathBuf::from),
    )
}

/// The first `eclusa` of `PATH`; a relative folder there is passed over, for it would be another
/// one wherever the caller stands.
pub(super) fn installed_binary() -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    env::split_paths(&path)
        .filter(|folder| folder.is_absolute())
        .map(|folder| folder.join("eclusa"))
        .find(|file| file.is_file())
}

/// `$XDG_STATE_HOME/eclusa`, else `$HOME/.local/state/eclusa` (XDG Base Directory Specification:
/// a relative path is as good as none).
fn state_folder() -> io::Result<PathBuf> {
    let absolute = |name| {
        env::var_os(name)
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
    };
    absolute("XDG_STATE_HOME")
        .or_else(|| absolute("HOME").map(|home| home.join(".local/state")))
        .map(|folder| folder.join("eclusa"))
        .ok_or_else(|| {
            io::Error::new(
                io::ErrorKind::NotFound,
                "neither XDG_STATE_HOME nor HOME names a folder for the launcher's state",
            )
        })
}

/// An id of this machine that tells nothing about it (machine-id(5) asks for that), else its name.
fn machine() -> String {
    let id = match fs::read_to_string("/etc/machine-id") {
        Ok(id) if !id.trim().is_empty() => id,
        Ok(_) | Err(_) => rustix::system::uname()
            .nodename()
            .to_string_lossy()
            .into_owned(),
    };
    let mut told = fingerprint(format!("eclusa:{}", id.trim()).as_bytes());
    told.truncate(16);
    told
}

impl Process {
    /// The calling process.
    pub(super) fn this() -> io::Result<Self> {
        let pid = std::process::id();
        let start = start_of(pid)?
            .ok_or_else(|| io::Error::other("/proc does not show the launcher's own process"))?;
        Ok(Self {
            pid,
            start,
            namespace: pid_namespace()?,
        })
    }

    /// Whether it still runs; none where that cannot be seen from here.
    pub(super) fn is_alive(&self) -> Option<bool> {
        if pid_namespace().ok()? != self.namespace {
            return None;
        }
        Some(start_of(self.pid).ok()? == Some(self.start))
    }
}

fn pid_namespace() -> io::Result<u64> {
    Ok(fs::metadata(Path::new("/proc/self/ns/pid"))?.ino())
}

/// When a process started, in clock ticks since boot; none where there is no such process, or it has
/// ended and nobody has asked yet how.
fn start_of(pid: u32) -> io::Result<Option<u64>> {
    let stat = match fs::read_to_string(format!("/proc/{pid}/stat")) {
        Ok(stat) => stat,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    // The second field is the program's name in parentheses, which may itself hold some; the
    // start is the 22nd, so the 20th after them.
    let (_, rest) = stat.rsplit_once(')').unwrap_or_default();
    let mut fields = rest.split_whitespace();
    // A zombie, which whoever adopts orphans may never wait for, or one that just ends.
    if matches!(fields.next(), Some("Z" | "X" | "x")) {
        return Ok(None);
    }
    fields
        .nth(18)
        .and_then(|field| field.parse().ok())
        .map(Some)
        .ok_or_else(|| io::Error::other(format!("/proc/{pid}/stat is not readable as one")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_told_from_a_later_one_with_its_number() {
        let this = Process::this().unwrap();
        assert_eq!(this.is_alive(), Some(true));
        let former = Process {
            start: this.start - 1,
            ..this
        };
        assert_eq!(former.is_alive(), Some(false));
        let elsewhere = Process {
            namespace: this.namespace + 1,
            ..this
        };
        assert_eq!(elsewhere.is_alive(), None);
        let gone = Process {
            pid: 4_194_304,
            ..this
        };
        assert_eq!(gone.is_alive(), Some(false));
    }

    #[test]
    fn a_process_that_ended_is_dead_before_anybody_waits_for_it() {
        let mut child = std::process::Command::new("cat")
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let process = Process {
            pid: child.id(),
            start: start_of(child.id()).unwrap().unwrap(),
            ..Process::this().unwrap()
        };
        assert_eq!(process.is_alive(), Some(true));
        child.kill().unwrap();
        let pid = rustix::process::Pid::from_child(&child);
        // It stays what it is: a zombie.
        rustix::process::waitid(
            rustix::process::WaitId::Pid(pid),
            rustix::process::WaitIdOptions::EXITED | rustix::process::WaitIdOptions::NOWAIT,
        )
        .unwrap();
        assert_eq!(process.is_alive(), Some(false));
        child.wait().unwrap();
    }
}
