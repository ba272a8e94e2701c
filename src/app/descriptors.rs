//! Room for open files: the soft limit is raised to fit the configured connections.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Descriptors of one client connection: its socket and the origin's.
const PER_CONNECTION: u64 = 2;

/// Kept under every limit: listeners, the log, the admin socket, and those that are turned away.
const LEAST_RESERVED: u64 = 128;

/// Descriptors of one worker: its runtime's, and a listener of its own for each of the three roads.
const PER_WORKER: u64 = 4 + 3;

/// Kept where there is room: besides, for look-ups, for idle connections to origins, for attempts
/// to connect beyond the first, and for pipes; at most a quarter of what there is.
const RESERVED: u64 = LEAST_RESERVED + 512 + 1024 + 256 + 256;

/// The process may not open enough files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "limits.connections = {connections} needs {needed} open files, but the hard limit is {hard}: \
     lower limits.connections or raise the limit (ulimit -n, LimitNOFILE, --ulimit nofile)"
)]
pub struct DescriptorError {
    /// The configured connections.
    pub connections: usize,
    /// Open files that these take.
    pub needed: u64,
    /// The hard limit of this process.
    pub hard: u64,
}

/// Raises the soft limit of open files for `connections`, and gives how many connections fit
/// beside what is reserved, and what `workers` take.
pub fn fit(connections: usize, workers: usize) -> Result<usize, DescriptorError> {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let hard = maximum.unwrap_or(u64::MAX);
    let of_workers = u64::try_from(workers)
        .unwrap_or(u64::MAX)
        .saturating_mul(PER_WORKER);
    let needed = u64::try_from(connections)
        .unwrap_or(u64::MAX)
        .saturating_mul(PER_CONNECTION);
    let fitting = fitting(connections, hard.saturating_sub(of_workers));
    if hard < needed || fitting == 0 {
        return Err(DescriptorError {
            connections,
            needed: needed
                .saturating_add(LEAST_RESERVED)
                .saturating_add(of_workers),
            hard,
        });
    }
    let wanted = needed
        .saturating_add(RESERVED)
        .saturating_add(of_workers)
        .min(hard);
    if current.is_some_and(|soft| soft < wanted)
        && let Err(error) = setrlimit(
            Resource::Nofile,
            Rlimit {
                current: Some(wanted),
                maximum,
            },
        )
    {
        tracing::error!(%error, wanted, "cannot raise the limit of open files");
        return Err(DescriptorError {
            connections,
            needed: wanted,
            hard: current.unwrap_or(hard),
        });
    }
    if fitting < connections {
        tracing::warn!(
            fitting,
            connections,
            hard,
            "open files bound the client connections"
        );
    }
    Ok(fitting)
}

/// Connections that leave the reserve free, at most those configured.
fn fitting(connections: usize, hard: u64) -> usize {
    let reserved = RESERVED.min(hard / 4).max(LEAST_RESERVED);
    let room = hard.saturating_sub(reserved) / PER_CONNECTION;
    connections.min(usize::try_from(room).unwrap_or(usize::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reserve_is_never_taken_by_connections() {
        for (connections, hard, expected) in [
            (10_000, 1_048_576, 10_000),
            (10_000, 20_000, 8_912),
            (100, 1_024, 100),
            (1_000, 1_024, 384),
            (100, 256, 64),
            (10, 64, 0),
        ] {
            assert_eq!(
                fitting(connections, hard),
                expected,
                "{connections} of {hard}"
            );
        }
    }

    #[test]
    fn what_cannot_fit_is_an_error_that_says_what_to_do() {
        let error = fit(usize::MAX / 4, 2).unwrap_err();
        assert!(
            error.to_string().contains("lower limits.connections"),
            "{error}"
        );
    }
}
