//! What a launcher that was killed left behind, and how the next one removes it: its own alone, by
//! label.

use std::collections::BTreeSet;

use jiff::Timestamp;

use super::{
    backend::{AdminCall, Backend, BackendError, Object, ObjectKind},
    plan::{Labels, Owner},
    settings::Settings,
};

/// What a sweep removed.
#[derive(Clone, Debug, Default)]
pub(super) struct Swept {
    /// The runs whose sandbox it removed.
    pub(super) runs: Vec<Labels>,
    /// What could not be removed, and why.
    pub(super) failures: Vec<String>,
}

/// Removes every object of this owner whose launcher is gone or whose deadline has passed, then the
/// registrations of their runs.
pub(super) async fn sweep<B: Backend>(
    backend: &B,
    settings: &Settings,
    now: Timestamp,
) -> Result<Swept, BackendError> {
    let mut swept = Swept::default();
    let mut registered = BTreeSet::new();
    for (object, labels) in orphans(backend.objects().await?, &settings.owner, now) {
        match (backend.reap(&object).await, object.kind) {
            (Ok(true), ObjectKind::Container) if is_sandbox(&object, &labels) => {
                if labels.slot.is_some() {
                    // It has no network of its own that would stand for it.
                    registered.insert(labels.run.to_string());
                }
                swept.runs.push(labels);
            }
            (Ok(true), ObjectKind::Network) => {
                registered.insert(labels.run.to_string());
            }
            (Ok(_), _) => {}
            (Err(error), _) => swept.failures.push(error.to_string()),
        }
    }
    if !registered.is_empty()
        && let Some(proxy) = backend.running_proxy().await?
    {
        for run in registered {
            let path = format!("/v1/runs/{run}");
            let call = AdminCall {
                method: "DELETE",
                path: &path,
                body: "",
            };
            // That it expired and was forgotten is as good.
            if let Err(error) = backend.admin(&proxy, call).await {
                swept.failures.push(error.to_string());
            }
        }
    }
    Ok(swept)
}

/// The orphans among `objects`, in the order in which they can be removed.
fn orphans(objects: Vec<Object>, owner: &Owner, now: Timestamp) -> Vec<(Object, Labels)> {
    let mut found: Vec<(Object, Labels)> = objects
        .into_iter()
        .filter_map(|object| {
            // Slots are their pool's to remove: who uses one is told by the proxy.
            let labels = Labels::from_map(&object.labels).filter(|labels| !labels.is_slot())?;
            is_orphan(&labels, owner, now).then_some((object, labels))
        })
        .collect();
    found.sort_by_key(|(object, _)| object.kind);
    found
}

pub(super) fn is_orphan(labels: &Labels, owner: &Owner, now: Timestamp) -> bool {
    labels.owner == *owner && (now > labels.deadline || labels.process.is_alive() == Some(false))
}

/// The container that ran the command; the holder is one too.
fn is_sandbox(object: &Object, labels: &Labels) -> bool {
    object.kind == ObjectKind::Container
        && object.name.trim_start_matches('/') == format!("eclusa-run-{}", labels.run)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{launcher::plan::Process, record::RunId};

    #[test]
    fn only_our_own_orphans_are_reaped_containers_first() {
        use ObjectKind::{Container, Network, Volume};

        let owner = Owner {
            machine: "here".to_owned(),
            uid: 1000,
        };
        let this = Process::this().unwrap();
        let dead = Process {
            start: this.start - 1,
            ..this
        };
        let elsewhere = Process {
            namespace: this.namespace + 1,
            ..this
        };
        let now: Timestamp = "2026-01-01T00:01:00Z".parse().unwrap();
        let (past, future) = ("2026-01-01T00:00:59Z", "2026-01-01T00:01:01Z");
        let object = |run: &str, kind, process, deadline: &str, uid| Object {
            kind,
            id: run.to_owned(),
            name: String::new(),
            labels: Labels {
                run: RunId::parse(run).unwrap(),
                slot: None,
                owner: Owner {
                    uid,
                    ..owner.clone()
                },
                process,
                started: past.parse().unwrap(),
                deadline: deadline.parse().unwrap(),
                image: String::new(),
            }
            .to_map(),
        };
        let mut foreign = object("foreign", Container, dead, past, 1000);
        foreign.labels.remove("eclusa.owner");
        let found = orphans(
            vec![
                object("dead-net", Network, dead, future, 1000),
                object("dead", Container, dead, future, 1000),
                object("alive", Container, this, future, 1000),
                object("late", Volume, this, past, 1000),
                object("elsewhere", Container, elsewhere, future, 1000),
                object("elsewhere-late", Container, elsewhere, past, 1000),
                object("another", Container, dead, past, 1001),
                foreign,
            ],
            &owner,
            now,
        );
        let ids: Vec<&str> = found.iter().map(|(object, _)| object.id.as_str()).collect();
        assert_eq!(ids, ["dead", "elsewhere-late", "dead-net", "late"]);
    }
}
