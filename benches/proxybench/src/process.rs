//! What a proxy costs, as the kernel accounts it: of a process and of every process below it.

use std::{fs, time::Duration};

/// A process and those that it started, however deep, as they are now.
fn family(root: u32) -> Vec<u32> {
    let mut found = vec![root];
    let mut next = 0;
    while let Some(parent) = found.get(next) {
        let threads = fs::read_dir(format!("/proc/{parent}/task"))
            .into_iter()
            .flatten();
        for thread in threads.flatten() {
            let children = fs::read_to_string(thread.path().join("children")).unwrap_or_default();
            found.extend(
                children
                    .split_whitespace()
                    .filter_map(|pid| pid.parse::<u32>().ok()),
            );
        }
        next += 1;
    }
    found
}

/// The processor time of a process and of those that it started, also of those that ended.
pub(crate) fn processor_time(root: u32) -> Duration {
    /// utime, stime, cutime and cstime, counted from what follows the name.
    const TIMES: std::ops::Range<usize> = 11..15;
    /// Linux shows a hundredth of a second to every program, whatever its own clock.
    const TICK: Duration = Duration::from_millis(10);
    let ticks: u32 = family(root)
        .iter()
        .filter_map(|pid| fs::read_to_string(format!("/proc/{pid}/stat")).ok())
        .map(|stat| {
            let (_, fields) = stat.rsplit_once(')').unwrap_or_default();
            let fields = fields
                .split_whitespace()
                .skip(TIMES.start)
                .take(TIMES.len());
            fields
                .filter_map(|field| field.parse::<u32>().ok())
                .sum::<u32>()
        })
        .sum();
    TICK * ticks
}

/// Bytes of memory that are there now, shared pages counted for each process.
pub(crate) fn resident(root: u32) -> u64 {
    family(root)
        .iter()
        .map(|pid| resident_of(*pid).unwrap_or(0))
        .sum()
}

fn resident_of(pid: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kibibytes * 1024)
}
