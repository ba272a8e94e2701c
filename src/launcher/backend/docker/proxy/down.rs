//! `eclusa down`: the end of a proxy, which no run may use then.

use std::time::Duration;

use bollard::query_parameters::RemoveVolumeOptions;
use serde::Deserialize;
use tokio::time::timeout;

use super::{
    super::{
        Docker,
        error::{CallError, call},
    },
    Whose,
    container::{Found, is_conflict},
};
use crate::launcher::{
    backend::{AdminCall, BackendError, ObjectKind},
    plan::Labels,
    proxy::{Down, NAME, ProxyVolume, ROLE, UPLINK, UPLINK_ROLE},
};

/// What a stop may take beyond what the container was given for it.
const STOP_MARGIN: Duration = Duration::from_secs(30);

/// A line of `GET /v1/runs`.
#[derive(Debug, Deserialize)]
struct RunLine {
    run: String,
    ended: bool,
}

impl Docker {
    /// Stops the proxy and removes what `up` made, but for the audit log. That there is nothing is
    /// as good.
    pub async fn down(&self) -> Result<Down, BackendError> {
        let mut down = Down::default();
        if let Some(found) = self.find_container(Whose::Ours).await? {
            self.retire(&found, "would stop").await?;
            down.removed.push(format!("container {NAME}"));
        }
        // Without the proxy that they are attached to they are of no use.
        for object in self.labelled().await? {
            let labels = Labels::from_map(&object.labels);
            let Some(labels) = labels.filter(Labels::is_slot) else {
                continue;
            };
            if self.remove_object(&object).await? && object.kind == ObjectKind::Network {
                down.removed.push(format!("slot {}", labels.run));
            }
        }
        if self.remove_uplink().await? {
            down.removed.push(format!("network {UPLINK}"));
        }
        for volume in [ProxyVolume::SOCKET, ProxyVolume::CONFIG, ProxyVolume::AUDIT] {
            if !self.has_volume(volume.name).await? {
                continue;
            }
            if volume.kept {
                down.kept = Some(volume.name.to_owned());
                continue;
            }
            match call(
                self.client
                    .remove_volume(volume.name, None::<RemoveVolumeOptions>),
            )
            .await
            {
                Err(error) if !error.is_missing() => {
                    return Err(error.during(format!("remove volume {}", volume.name)));
                }
                Ok(()) | Err(_) => down.removed.push(format!("volume {}", volume.name)),
            }
        }
        Ok(down)
    }

    /// Ends a proxy that no run uses.
    // Security: a run's network is the proxy; to take it away is the operator's decision.
    pub(super) async fn retire(&self, found: &Found, what: &str) -> Result<(), BackendError> {
        let runs = self.runs_of(found).await?;
        if !runs.is_empty() {
            return Err(BackendError::Proxy(format!(
                "{what}, but serves {count}: {names}; end them first",
                count = match runs.len() {
                    1 => "a run".to_owned(),
                    many => format!("{many} runs"),
                },
                names = runs.join(", ")
            )));
        }
        self.stop(found).await?;
        self.remove_by_force(&found.id).await
    }

    /// The runs that are registered and not over; none of a proxy that answers nobody.
    pub(super) async fn runs_of(&self, found: &Found) -> Result<Vec<String>, BackendError> {
        let listing = AdminCall {
            method: "GET",
            path: "/v1/runs",
            body: "",
        };
        let unreadable = |why: &dyn std::fmt::Display| {
            BackendError::Proxy(format!("does not list its runs: {why}"))
        };
        let Some(proxy) = self.answering(found).await? else {
            return Ok(Vec::new());
        };
        let body = match self.call_admin(&proxy, listing).await? {
            (200, body) => body,
            (status, _) => return Err(unreadable(&status)),
        };
        let lines: Vec<RunLine> =
            serde_json::from_slice(&body).map_err(|error| unreadable(&error))?;
        let running = lines.into_iter().filter(|line| !line.ended);
        Ok(running.map(|line| line.run).collect())
    }

    /// Has it drain, and waits for its end.
    async fn stop(&self, found: &Found) -> Result<(), BackendError> {
        let limit = found.stop_timeout + STOP_MARGIN;
        let client = self.client.clone().with_timeout(limit);
        let stop = client.stop_container(&found.id, None);
        match timeout(limit, stop)
            .await
            .map(|ended| ended.map_err(CallError::from))
        {
            // Stopped now or before; gone; being removed.
            Ok(
                Ok(())
                | Err(CallError::Answer {
                    status: 304 | 404 | 409,
                    ..
                }),
            ) => Ok(()),
            Ok(Err(error)) => Err(error.during(format!("stop container {}", found.name))),
            Err(_elapsed) => Err(BackendError::Proxy(format!(
                "did not stop within {} s",
                limit.as_secs()
            ))),
        }
    }

    /// Removes the bridge where it was made here; whether it was there. Who else uses it keeps it.
    async fn remove_uplink(&self) -> Result<bool, BackendError> {
        match call(self.client.inspect_network(UPLINK, None)).await {
            Ok(network) => {
                let labels = network.labels.unwrap_or_default();
                if labels
                    .get(UPLINK_ROLE.0)
                    .is_none_or(|role| role != UPLINK_ROLE.1)
                {
                    return Ok(false);
                }
            }
            Err(error) if error.is_missing() => return Ok(false),
            Err(error) => return Err(error.during(format!("inspect network {UPLINK}"))),
        }
        match call(self.client.remove_network(UPLINK)).await {
            Ok(()) => Ok(true),
            // 403: it has endpoints.
            Err(CallError::Answer { status: 403, .. }) => Ok(false),
            Err(error) if error.is_missing() || is_conflict(&error) => Ok(false),
            Err(error) => Err(error.during(format!("remove network {UPLINK}"))),
        }
    }

    /// Whether there is a volume of ours by this name.
    async fn has_volume(&self, name: &str) -> Result<bool, BackendError> {
        match call(self.client.inspect_volume(name)).await {
            Ok(volume) => Ok(volume.labels.get(ROLE.0).is_some_and(|role| role == ROLE.1)),
            Err(error) if error.is_missing() => Ok(false),
            Err(error) => Err(error.during(format!("inspect volume {name}"))),
        }
    }
}
