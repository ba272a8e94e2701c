//! Who the sandbox's program is, and what it was told of the outside.

use std::{env, fs, io};

use super::Notes;
use crate::doctor::Probe;

/// Lines of /proc/self/status (proc_pid_status(5)) and what each belongs to.
const STATUS: &[(&str, Probe)] = &[
    ("Uid", Probe::Identity),
    ("Gid", Probe::Identity),
    ("CapInh", Probe::Capabilities),
    ("CapPrm", Probe::Capabilities),
    ("CapEff", Probe::Capabilities),
    ("CapBnd", Probe::Capabilities),
    ("CapAmb", Probe::Capabilities),
    ("NoNewPrivs", Probe::NoNewPrivileges),
    ("Seccomp", Probe::Seccomp),
];

pub(super) fn try_all(notes: &mut Notes<'_>) -> io::Result<()> {
    let status = fs::read_to_string("/proc/self/status")?;
    for (name, probe) in STATUS {
        let mut lines = status.lines().filter_map(|line| line.split_once(':'));
        let value = lines.find(|(key, _)| key == name).map(|(_, value)| value);
        let words: Vec<&str> = value.unwrap_or("not told").split_whitespace().collect();
        notes.tell(*probe, *name, words.join(" "))?;
    }
    for (name, _) in env::vars_os() {
        notes.tell(Probe::Environment, name.to_string_lossy(), "set")?;
    }
    aliases(notes)?;
    processes(notes)
}

fn aliases(notes: &mut Notes<'_>) -> io::Result<()> {
    let hosts = fs::read_to_string("/etc/hosts")?;
    for line in hosts.lines() {
        let mut words = line
            .split('#')
            .next()
            .unwrap_or_default()
            .split_whitespace();
        let Some(address) = words.next() else {
            continue;
        };
        for name in words {
            notes.tell(Probe::HostAliases, name, address)?;
        }
    }
    Ok(())
}

fn processes(notes: &mut Notes<'_>) -> io::Result<()> {
    for entry in fs::read_dir("/proc")? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if name.bytes().all(|byte| byte.is_ascii_digit())
            && let Ok(program) = fs::read_to_string(format!("/proc/{name}/comm"))
        {
            notes.tell(Probe::Processes, program.trim(), format!("process {name}"))?;
        }
    }
    Ok(())
}
