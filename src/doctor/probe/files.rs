//! Where the sandbox's program can write, how much, and whether it can run what it wrote.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    process::Command,
};

use super::{Notes, Orders, PROGRAM, code};
use crate::doctor::Probe;

/// One piece of what fills a place: below the limit of a file's size.
const PIECE: usize = 1024 * 1024;

/// Room for one file (as `launcher::plan` counts them).
const PER_FILE: u64 = 4096;

/// The fewest files that a place holds.
const LEAST_FILES: u64 = 1024;

pub(super) fn try_all(orders: &Orders, notes: &mut Notes<'_>) -> io::Result<()> {
    let probe = Probe::RootFileSystem;
    notes.tell(probe, "mount of /", root_mount()?)?;
    for folder in [
        "/",
        "/etc",
        "/run",
        "/run/eclusa",
        "/var/log/eclusa",
        "/dev",
    ] {
        let path = Path::new(folder).join("probe");
        notes.tell_call(
            probe,
            path.display().to_string(),
            "made",
            File::create_new(&path),
        )?;
    }
    for path in [PROGRAM, "/etc/hosts", "/etc/hostname", "/etc/resolv.conf"] {
        let opened = OpenOptions::new().append(true).open(path);
        notes.tell_call(probe, path, "opened for writing", opened)?;
    }
    for (place, size) in &orders.rooms {
        notes.tell(Probe::NoExec, place, execute_in(Path::new(place)))?;
        notes.tell(Probe::Room, place, fill(Path::new(place), *size))?;
        notes.tell(Probe::FileCount, place, crowd(Path::new(place), *size))?;
    }
    Ok(())
}

/// `ro` or `rw`, as /proc/self/mountinfo has it (proc_pid_mountinfo(5)).
fn root_mount() -> io::Result<String> {
    let mounts = fs::read_to_string("/proc/self/mountinfo")?;
    let options = mounts.lines().find_map(|line| {
        let fields: Vec<&str> = line.split(' ').collect();
        let is_root = fields.get(4) == Some(&"/");
        fields.get(5).copied().filter(|_| is_root)
    });
    let options = options.unwrap_or("not told");
    Ok(options.split(',').next().unwrap_or_default().to_owned())
}

/// What comes of running a file there: `noexec` refuses before the content is looked at, which no
/// kernel takes for a program.
fn execute_in(place: &Path) -> String {
    let path = place.join("program");
    let run = || {
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).mode(0o755);
        options.open(&path)?.write_all(b"\0\0\0\0")?;
        Command::new(&path).status()
    };
    let outcome = run().map_or_else(|error| code(&error), |_| "executed".to_owned());
    let removed = fs::remove_file(&path);
    removed.map_or_else(|error| code(&error), |()| outcome)
}

/// What ends the writing of twice as many bytes as the place may hold.
fn fill(place: &Path, size: u64) -> String {
    let piece = vec![b'x'; PIECE];
    let pieces = size.saturating_mul(2) / u64::try_from(PIECE).unwrap_or(u64::MAX);
    until_refused(place, pieces, |path| {
        File::create_new(path)?.write_all(&piece)
    })
}

/// What ends the making of twice as many files.
fn crowd(place: &Path, size: u64) -> String {
    let files = (size / PER_FILE).max(LEAST_FILES).saturating_mul(2);
    until_refused(place, files, |path| File::create_new(path).map(drop))
}

/// Makes files until that is refused, and removes them again.
fn until_refused(place: &Path, most: u64, make: impl Fn(&Path) -> io::Result<()>) -> String {
    let paths = || (0..most).map(|number| place.join(format!("file{number}")));
    let mut made: Vec<PathBuf> = Vec::new();
    let mut outcome = "no end of it".to_owned();
    for path in paths() {
        let result = make(&path);
        made.push(path);
        if let Err(error) = result {
            outcome = code(&error);
            break;
        }
    }
    for path in made {
        // The last may never have come to be.
        fs::remove_file(path).ok();
    }
    outcome
}
