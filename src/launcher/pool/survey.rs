//! What there is of an owner's slots, by what the engine has and by what the proxy knows.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use crate::{
    admin::SlotLine,
    launcher::{
        backend::Object,
        plan::{Labels, Owner},
        pool::name,
        sweep::is_orphan,
    },
    record::RunId,
};

/// The slots that can be claimed, and those that nobody can use again.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Survey {
    pub(super) idle: Vec<Kept>,
    pub(super) spent: Vec<Spent>,
}

/// An idle slot and its parts.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Kept {
    pub(super) slot: RunId,
    pub(super) objects: Vec<Object>,
}

/// The parts of a slot that is to go, in the order of their removal, and the run that still stands
/// for it at the proxy.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Spent {
    pub(super) objects: Vec<Object>,
    pub(super) run: Option<String>,
}

/// Sorts what there is. What is being made by somebody who lives, or used by a run, is neither.
pub(super) fn survey(
    objects: Vec<Object>,
    lines: &[SlotLine],
    owner: &Owner,
    now: Timestamp,
) -> Survey {
    let mut slots: BTreeMap<RunId, Vec<(Object, Labels)>> = BTreeMap::new();
    let mut used = BTreeSet::new();
    for object in objects {
        let Some(labels) = Labels::from_map(&object.labels) else {
            continue;
        };
        if labels.is_slot() {
            let slot = labels.run.clone();
            slots.entry(slot).or_default().push((object, labels));
        } else if !is_orphan(&labels, owner, now) {
            // Also where the proxy was started anew and does not know of the run yet.
            used.extend(labels.slot);
        }
    }
    let pool = name(owner);
    let gone = lines.iter().filter(|line| {
        let has =
            |slots: &dyn Fn(&RunId) -> bool| RunId::parse(&line.slot).is_ok_and(|id| slots(&id));
        let is_there = has(&|slot| slots.contains_key(slot) || used.contains(slot));
        *line.of.pool == *pool && line.ended && !is_there
    });
    // A removal that was cut short behind the last object.
    let gone = gone.map(|line| Spent {
        objects: Vec::new(),
        run: line.run.clone(),
    });
    let mut survey = Survey {
        idle: Vec::new(),
        spent: gone.collect(),
    };
    for (slot, parts) in slots {
        let is_ours = parts.iter().all(|(_, labels)| labels.owner == *owner);
        if !is_ours || used.contains(&slot) {
            continue;
        }
        let is_left = parts
            .iter()
            .any(|(_, labels)| is_orphan(labels, owner, now));
        let mut objects: Vec<Object> = parts.into_iter().map(|(object, _)| object).collect();
        objects.sort_by_key(|object| object.kind);
        let line = lines.iter().find(|line| line.slot == slot.as_str());
        match line.map(|line| (&line.run, line.ended)) {
            Some((None, _)) => survey.idle.push(Kept { slot, objects }),
            Some((Some(run), true)) => survey.spent.push(Spent {
                objects,
                run: Some(run.clone()),
            }),
            None if is_left => survey.spent.push(Spent { objects, run: None }),
            Some((Some(_), false)) | None => {}
        }
    }
    survey
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        admin::SlotRequest,
        launcher::{backend::ObjectKind, plan::Process},
    };

    const NOW: &str = "2026-01-01T00:01:00Z";

    fn owner() -> Owner {
        Owner {
            machine: "here".to_owned(),
            uid: 1000,
        }
    }

    /// A maker that lives, and one that does not.
    fn processes() -> (Process, Process) {
        let alive = Process::this().unwrap();
        let dead = Process {
            start: alive.start - 1,
            ..alive
        };
        (alive, dead)
    }

    fn labels(run: &str, slot: &str, process: Process) -> Labels {
        Labels {
            run: RunId::parse(run).unwrap(),
            slot: Some(RunId::parse(slot).unwrap()),
            owner: owner(),
            process,
            deadline: "2026-01-01T00:01:01Z".parse().unwrap(),
            ..Labels::sample()
        }
    }

    fn object(kind: ObjectKind, labels: &Labels) -> Object {
        Object {
            kind,
            id: format!("{kind:?} {}", labels.run),
            name: String::new(),
            labels: labels.to_map(),
        }
    }

    fn network(slot: &str, process: Process) -> Object {
        object(ObjectKind::Network, &labels(slot, slot, process))
    }

    fn line(slot: &str, run: Option<&str>, ended: bool) -> SlotLine {
        SlotLine {
            slot: slot.to_owned(),
            run: run.map(str::to_owned),
            ended,
            of: SlotRequest {
                pool: "here:1000".into(),
                sources: Vec::new(),
                listener: None,
            },
        }
    }

    /// The idle slots, and the parts of the spent ones with the runs that are to be removed.
    fn sorted(objects: Vec<Object>, lines: &[SlotLine]) -> (Vec<String>, Vec<String>) {
        let now = NOW.parse().unwrap();
        let Survey { idle, spent } = survey(objects, lines, &owner(), now);
        let idle = idle.iter().map(|kept| kept.slot.to_string());
        let spent = spent.into_iter().map(|spent| {
            let ids: Vec<&str> = spent.objects.iter().map(|object| &*object.id).collect();
            format!("{} {}", ids.join(", "), spent.run.unwrap_or_default())
        });
        (idle.collect(), spent.collect())
    }

    #[test]
    fn what_nobody_can_use_again_goes_and_what_is_idle_or_used_stays() {
        let (alive, dead) = processes();
        let objects = vec![
            network("idle", dead),
            network("in-use", dead),
            network("expired", dead),
            network("spent", dead),
            network("being-made", alive),
            network("half-made", dead),
            object(
                ObjectKind::Container,
                &labels("half-made", "half-made", dead),
            ),
        ];
        let lines = [
            line("idle", None, false),
            line("in-use", Some("r1"), false),
            line("expired", Some("r2"), true),
        ];
        let (idle, spent) = sorted(objects, &lines);
        assert_eq!(idle, ["idle"]);
        let expected = [
            "Network expired r2",
            "Container half-made, Network half-made ",
            "Network spent ",
        ];
        assert_eq!(spent, expected);
    }

    #[test]
    fn a_proxy_that_knows_nothing_leaves_a_slot_to_a_run_that_lives_and_to_no_other() {
        let (alive, dead) = processes();
        let objects = vec![
            network("s1", dead),
            object(ObjectKind::Container, &labels("r1", "s1", alive)),
            network("s2", dead),
            object(ObjectKind::Container, &labels("r2", "s2", dead)),
            network("s3", dead),
        ];
        let (idle, spent) = sorted(objects, &[]);
        assert!(idle.is_empty());
        assert_eq!(spent, ["Network s2 ", "Network s3 "]);
    }

    #[test]
    fn a_run_that_lives_keeps_its_slot_though_the_proxy_took_it_for_dead() {
        let (alive, dead) = processes();
        let objects = vec![
            network("s1", dead),
            object(ObjectKind::Container, &labels("r1", "s1", alive)),
        ];
        let (idle, spent) = sorted(objects, &[line("s1", Some("r1"), true)]);
        assert!(idle.is_empty() && spent.is_empty(), "{idle:?} {spent:?}");
    }

    #[test]
    fn a_removal_that_was_cut_short_is_finished() {
        let (alive, _) = processes();
        let objects = vec![object(ObjectKind::Container, &labels("r3", "s3", alive))];
        let mut foreign = line("s4", Some("r4"), true);
        foreign.of.pool = "there:1000".into();
        let lines = [
            line("s1", Some("r1"), true),
            line("s2", Some("r2"), false),
            line("s3", Some("r3"), true),
            foreign,
        ];
        let (idle, spent) = sorted(objects, &lines);
        assert!(idle.is_empty());
        assert_eq!(spent, [" r1"]);
    }

    #[test]
    fn the_slots_of_others_are_theirs() {
        let (_, dead) = processes();
        let mut foreign = labels("s1", "s1", dead);
        foreign.owner.uid += 1;
        let objects = vec![object(ObjectKind::Network, &foreign)];
        let found = sorted(objects, &[line("s1", None, false)]);
        assert_eq!(found, (Vec::new(), Vec::new()));
    }
}
