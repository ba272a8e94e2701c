//! What every object of a run bears, so that a later start can tell whose it is, whether its
//! launcher still lives, and when it must be gone.

use std::{collections::BTreeMap, fmt, str::FromStr};

use jiff::Timestamp;

use crate::record::RunId;

/// The labels of one run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Labels {
    /// The run; of a slot, which no run has yet, its own id.
    pub run: RunId,
    /// The slot: the one that the run has, or that this is a part of.
    pub slot: Option<RunId>,
    /// Who started it.
    pub owner: Owner,
    /// The launcher's process.
    pub process: Process,
    /// When it began.
    pub started: Timestamp,
    /// When everything of it must be gone.
    pub deadline: Timestamp,
    /// The image as it was asked for.
    pub image: String,
}

/// An installation of the launcher: one user of one machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// The machine's id.
    pub machine: String,
    /// The user.
    pub uid: u32,
}

/// A process, told apart from a later one with the same number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Process {
    /// Its number.
    pub pid: u32,
    /// When it started, in clock ticks since boot (proc_pid_stat(5), field 22).
    pub start: u64,
    /// The inode of its pid namespace, in which the number holds.
    pub namespace: u64,
}

impl Labels {
    /// The label by which objects of runs are found.
    pub const RUN: &'static str = "eclusa.run";

    /// The label of parts of slots, and of runs that have one.
    pub const SLOT: &'static str = "eclusa.slot";

    /// The label that names the owner.
    pub const OWNER: &'static str = "eclusa.owner";

    const PROCESS: &'static str = "eclusa.process";
    const STARTED: &'static str = "eclusa.started";
    const DEADLINE: &'static str = "eclusa.deadline";
    const IMAGE: &'static str = "eclusa.image";

    /// As an engine stores them.
    pub fn to_map(&self) -> BTreeMap<String, String> {
        let Process {
            pid,
            start,
            namespace,
        } = self.process;
        let slot = self
            .slot
            .as_ref()
            .map(|slot| (Self::SLOT, slot.to_string()));
        [
            (Self::RUN, self.run.to_string()),
            (Self::OWNER, self.owner.to_string()),
            (Self::PROCESS, format!("{pid}.{start}.{namespace}")),
            (Self::STARTED, self.started.to_string()),
            (Self::DEADLINE, self.deadline.to_string()),
            (Self::IMAGE, self.image.clone()),
        ]
        .into_iter()
        .chain(slot)
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
    }

    /// Whether this is a part of a slot, and not of a run.
    pub fn is_slot(&self) -> bool {
        self.slot.as_ref() == Some(&self.run)
    }

    /// Reads them back; none where one is missing or malformed, as on what somebody else made.
    pub fn from_map(map: &BTreeMap<String, String>) -> Option<Self> {
        let (machine, uid) = map.get(Self::OWNER)?.rsplit_once(':')?;
        Some(Self {
            run: RunId::parse(map.get(Self::RUN)?).ok()?,
            slot: match map.get(Self::SLOT) {
                Some(slot) => Some(RunId::parse(slot).ok()?),
                None => None,
            },
            owner: Owner {
                machine: machine.to_owned(),
                uid: uid.parse().ok()?,
            },
            process: map.get(Self::PROCESS)?.parse().ok()?,
            started: map.get(Self::STARTED)?.parse().ok()?,
            deadline: map.get(Self::DEADLINE)?.parse().ok()?,
            image: map.get(Self::IMAGE)?.clone(),
        })
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.machine, self.uid)
    }
}

impl FromStr for Process {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let mut parts = text.splitn(3, '.');
        let mut next = || parts.next().ok_or(());
        Ok(Self {
            pid: next()?.parse().map_err(drop)?,
            start: next()?.parse().map_err(drop)?,
            namespace: next()?.parse().map_err(drop)?,
        })
    }
}

#[cfg(test)]
impl Labels {
    /// Those of run `01JD`.
    pub(in crate::launcher) fn sample() -> Self {
        Self {
            run: RunId::parse("01JD").unwrap(),
            slot: None,
            owner: Owner {
                machine: "machine".to_owned(),
                uid: 1000,
            },
            process: Process {
                pid: 7,
                start: 8,
                namespace: 9,
            },
            started: "2026-01-01T00:00:00Z".parse().unwrap(),
            deadline: "2026-01-01T00:05:30Z".parse().unwrap(),
            image: "agent-python".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_come_back_as_they_were() {
        let labels = Labels {
            owner: Owner {
                machine: "a:b".to_owned(),
                uid: 1000,
            },
            ..Labels::sample()
        };
        let map = labels.to_map();
        assert_eq!(Labels::from_map(&map), Some(labels));
        for name in map.keys() {
            let mut missing = map.clone();
            missing.remove(name);
            assert_eq!(Labels::from_map(&missing), None, "{name}");
            let mut odd = map.clone();
            odd.insert(name.clone(), "?".to_owned());
            assert!(
                name == "eclusa.image" || Labels::from_map(&odd).is_none(),
                "{name}"
            );
        }
    }

    #[test]
    fn a_slot_is_told_from_the_run_that_has_it() {
        let slot = RunId::parse("01JS").unwrap();
        for (run, of, is_slot) in [
            ("01JS", Some(&slot), true),
            ("01JD", Some(&slot), false),
            ("01JS", None, false),
        ] {
            let labels = Labels {
                run: RunId::parse(run).unwrap(),
                slot: of.cloned(),
                ..Labels::sample()
            };
            assert_eq!(labels.is_slot(), is_slot, "{run} {of:?}");
            assert_eq!(Labels::from_map(&labels.to_map()), Some(labels));
        }
    }
}
