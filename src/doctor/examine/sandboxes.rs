//! Sandboxes of doctor's: the neighbour, the one that tries, the one that outstays its time.

use std::{fs, io, time::Duration};

use tokio::{io::DuplexStream, sync::mpsc};

use super::{Doctor, DoctorError};
use crate::{
    doctor::{
        Ground, Observation, Probe,
        host::{self, Bait},
        probe::{Listening, Orders, PROGRAM},
    },
    launcher::{
        Io, LaunchError, Stop,
        backend::Chunk,
        spec::{Limits, NetworkChoice, Pull, RunSpec},
    },
    record::RunRecord,
};

/// Long enough for every probe on a slow machine.
const TIMEOUT: Duration = Duration::from_mins(1);

/// The time of the sandbox that outstays it.
const SHORT: Duration = Duration::from_secs(1);

const MIB: u64 = 1024 * 1024;

/// Small enough that each is met in little time.
const MEMORY: u64 = 192 * MIB;
const ROOM: u64 = 8 * MIB;
const FILE: u64 = 4 * MIB;

/// Of `/dev/shm`, which no option sets (`launcher::plan`).
const SHM: u64 = 64 * MIB;

/// The most that is read of what a sandbox tells.
const MOST_TOLD: usize = 4 * 1024 * 1024;

impl Doctor {
    /// The sandbox that tries, with a neighbour while it does.
    pub(super) async fn beside_a_neighbour(
        &self,
        bait: &Bait,
        stop: &Stop,
        progress: &dyn Fn(&str),
    ) -> Result<Vec<Observation>, DoctorError> {
        if self.ground == Ground::None {
            return self.try_all(bait, None, stop, progress).await;
        }
        progress("starting a neighbour");
        let (hold, until) = tokio::io::duplex(1);
        let (live, mut told) = mpsc::unbounded_channel();
        let neighbour = self.neighbour(until, live, stop);
        let tried = async {
            // Without its word it has failed, and its record says why.
            let listening: Option<Listening> = first_line(&mut told).await;
            let seen = match listening {
                Some(listening) => self.try_all(bait, Some(listening), stop, progress).await,
                None => Ok(Vec::new()),
            };
            drop(hold);
            // Whatever else it says, nobody needs.
            while told.recv().await.is_some() {}
            seen
        };
        let (neighbour, seen) = tokio::join!(neighbour, tried);
        ended("neighbour", &neighbour?)?;
        seen
    }

    async fn neighbour(
        &self,
        until: DuplexStream,
        live: mpsc::UnboundedSender<Chunk>,
        stop: &Stop,
    ) -> Result<RunRecord, LaunchError> {
        let mut spec = self.spec(&["probe", "listen"]);
        spec.stdin = true;
        let io = Io {
            stdin: Some(Box::pin(until)),
            live: Some(live),
            stop: stop.clone(),
            ..Io::none()
        };
        self.launcher.run(&spec, io).await
    }

    async fn try_all(
        &self,
        bait: &Bait,
        neighbour: Option<Listening>,
        stop: &Stop,
        progress: &dyn Fn(&str),
    ) -> Result<Vec<Observation>, DoctorError> {
        progress("starting the sandbox");
        let orders = self.orders(bait, neighbour)?;
        let orders = serde_json::to_vec(&orders).map_err(io::Error::from)?;
        let mut spec = self.spec(&["probe", "all"]);
        spec.stdin = true;
        spec.output = Some(self.output.clone());
        let (live, told) = mpsc::unbounded_channel();
        let io = Io {
            stdin: Some(Box::pin(io::Cursor::new(orders))),
            live: Some(live),
            stop: stop.clone(),
            ..Io::none()
        };
        let (record, ()) = tokio::join!(self.launcher.run(&spec, io), follow(told, progress));
        // It is empty, or the run says what was wrong with it.
        fs::remove_dir_all(&self.output).ok();
        let record = record?;
        ended("sandbox", &record)?;
        let told = record.output.unwrap_or_default().stdout;
        Ok(told
            .lines()
            .filter_map(|line| serde_json::from_str(line).ok())
            .collect())
    }

    fn orders(&self, bait: &Bait, neighbour: Option<Listening>) -> io::Result<Orders> {
        let (host, link_local) = if self.is_local {
            host::addresses()?
        } else {
            (Vec::new(), Vec::new())
        };
        let ports = neighbour
            .as_ref()
            .map(|listening| (listening.tcp, listening.udp));
        let (tcp, udp) = ports.unwrap_or_default();
        let addresses = neighbour
            .into_iter()
            .flat_map(|listening| listening.addresses);
        let rooms = [
            ("/workspace", ROOM),
            ("/tmp", ROOM),
            ("/output", ROOM),
            ("/dev/shm", SHM),
        ];
        Ok(Orders {
            ground: self.ground,
            host,
            link_local,
            listener: bait.ports,
            name_servers: host::name_servers(),
            neighbour: addresses
                .map(|at| ((at, tcp).into(), (at, udp).into()))
                .collect(),
            rooms: rooms.map(|(place, size)| (place.to_owned(), size)).into(),
            memory: MEMORY,
        })
    }

    /// A sandbox that would run for ever.
    pub(super) async fn outstay(&self, stop: &Stop) -> Result<Observation, DoctorError> {
        let mut spec = self.spec(&["hold"]);
        spec.network = NetworkChoice::None;
        spec.timeout = SHORT;
        let io = Io {
            stop: stop.clone(),
            ..Io::none()
        };
        let record = self.launcher.run(&spec, io).await?;
        let is_killed = record.timed_out && record.exit_code == 124;
        if !is_killed {
            ended("sandbox that outstays its time", &record)?;
        }
        Ok(Observation {
            probe: Probe::WallClock,
            what: "one second".to_owned(),
            result: if is_killed { "SIGKILL" } else { "went on" }.to_owned(),
        })
    }

    fn spec(&self, arguments: &[&str]) -> RunSpec {
        let command = [PROGRAM].iter().chain(arguments).copied();
        let mut spec = RunSpec::new(self.image.clone(), command);
        spec.network = self.network.clone();
        spec.timeout = TIMEOUT;
        spec.pull = Pull::Never;
        spec.max_output = MOST_TOLD;
        spec.limits = Limits {
            memory: MEMORY,
            fsize: FILE,
            workspace: ROOM,
            tmp: ROOM,
            output: ROOM,
            ..Limits::default()
        };
        spec
    }
}

/// Holds that a sandbox of ours did what it was to do.
fn ended(which: &'static str, record: &RunRecord) -> Result<(), DoctorError> {
    if record.error.is_none() && record.exit_code == 0 {
        return Ok(());
    }
    let said = record
        .output
        .as_ref()
        .map(|output| output.stderr.trim())
        .unwrap_or_default();
    let why = match (&record.error, said) {
        (Some(error), _) => error.clone(),
        (None, "") => format!("exit code {}", record.exit_code),
        (None, said) => format!("exit code {}: {said}", record.exit_code),
    };
    Err(DoctorError::Sandbox { which, why })
}

/// The first line of standard output, where it is what it should be.
async fn first_line(told: &mut mpsc::UnboundedReceiver<Chunk>) -> Option<Listening> {
    let mut text = Vec::new();
    while let Some(chunk) = told.recv().await {
        if let Chunk::Stdout(bytes) = chunk {
            text.extend_from_slice(&bytes);
            if let Some(line) = text
                .split(|byte| *byte == b'\n')
                .next()
                .filter(|line| line.len() < text.len())
            {
                return serde_json::from_slice(line).ok();
            }
        }
    }
    None
}

/// Says what is tried, while it is.
async fn follow(mut told: mpsc::UnboundedReceiver<Chunk>, progress: &dyn Fn(&str)) {
    let mut rest = Vec::new();
    while let Some(chunk) = told.recv().await {
        let Chunk::Stdout(bytes) = chunk else {
            continue;
        };
        rest.extend_from_slice(&bytes);
        if let Some(seen) = last_observation(&mut rest) {
            progress(&format!("trying {}", seen.probe));
        }
    }
}

/// The last whole line, and what follows it stays.
fn last_observation(text: &mut Vec<u8>) -> Option<Observation> {
    let end = text.iter().rposition(|byte| *byte == b'\n')?;
    let rest = text.split_off(end);
    let line = text.rsplit(|byte| *byte == b'\n').next()?;
    let seen = serde_json::from_slice(line).ok();
    *text = rest.into_iter().skip(1).collect();
    seen
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_is_told_by_whole_lines() {
        let line =
            |probe: &str| format!("{{\"probe\":\"{probe}\",\"what\":\"\",\"result\":\"\"}}\n");
        let mut text = format!("{}{}{{\"pro", line("mounts"), line("pids")).into_bytes();
        let seen = last_observation(&mut text).unwrap();
        assert_eq!(seen.probe, Probe::Pids);
        assert_eq!(text, b"{\"pro");
        assert_eq!(last_observation(&mut text), None);
    }

    #[test]
    fn a_sandbox_that_fails_says_why() {
        let mut record = RunRecord::begun(
            &ulid::Ulid::nil().into(),
            String::new(),
            String::new(),
            Vec::new(),
        );
        record.exit_code = 0;
        assert!(ended("sandbox", &record).is_ok());
        record.exit_code = 125;
        let error = ended("sandbox", &record).unwrap_err();
        assert_eq!(error.to_string(), "the sandbox failed: exit code 125");
        record.error = Some("no engine".to_owned());
        let error = ended("neighbour", &record).unwrap_err();
        assert_eq!(error.to_string(), "the neighbour failed: no engine");
    }
}
