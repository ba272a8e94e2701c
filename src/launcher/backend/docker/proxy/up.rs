//! `eclusa up`: the proxy as it should be.

use bollard::query_parameters::RemoveImageOptions;
use serde::Deserialize;

use super::{
    super::{Docker, error::call},
    Settled, Whose,
    admin::Live,
    container::Found,
};
use crate::launcher::{
    backend::{AdminCall, BackendError},
    proxy::{Action, AuditPlace, ImageName, ProxySettings, ProxyVolume, Up},
};

/// The answer of `POST /v1/reload`, whether it succeeded or not.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ReloadAnswer {
    changes: Vec<String>,
    detail: String,
    needs_restart: Vec<String>,
}

/// What became of a configuration under a running proxy.
enum Applied {
    Reloaded(Vec<String>),
    NeedsRestart(Vec<String>),
}

impl Docker {
    /// Brings the proxy up as asked: of this binary, under the configuration given if there is one,
    /// and healthy. Asked twice it does nothing the second time.
    pub async fn up(&self) -> Result<Up, BackendError> {
        self.refuse_networks()?;
        let (image, _) = self.own_image_and_name().await?;
        let Settled { mut live, is_new } = self.settle(Whose::Ours).await?;
        let mut action = if is_new {
            Action::Started
        } else {
            Action::None
        };
        let mut changes = Vec::new();
        if !is_new && live.found.image != image {
            let before = live.found.image.clone();
            live = self.replace(&live.found, "is of another binary").await?;
            self.remove_own_image(&before).await;
            action = Action::Replaced;
        }
        if let Some(settings) = &self.proxy.settings
            && !settings.are_in_force(&live.health.config)
        {
            match self.apply(&live, settings).await? {
                Applied::Reloaded(lines) => {
                    changes = lines;
                    if action == Action::None {
                        action = Action::Reloaded;
                    }
                    live = self.settle(Whose::Ours).await?.live;
                }
                Applied::NeedsRestart(keys) => {
                    let why = format!("must restart for {}", keys.join(", "));
                    live = self.replace(&live.found, &why).await?;
                    action = Action::Replaced;
                }
            }
            if !settings.are_in_force(&live.health.config) {
                return Err(BackendError::Proxy(
                    "got another configuration from another `eclusa up` at the same time"
                        .to_owned(),
                ));
            }
        }
        Ok(told(live, action, changes))
    }

    async fn replace(&self, found: &Found, why: &str) -> Result<Live, BackendError> {
        self.retire(found, why).await?;
        Ok(self.settle(Whose::Ours).await?.live)
    }

    /// Puts a configuration in force, or keeps the one before.
    async fn apply(&self, live: &Live, settings: &ProxySettings) -> Result<Applied, BackendError> {
        let id = &live.found.id;
        let before = self.read_settings(id).await?;
        self.write_settings(id, settings).await?;
        let reload = AdminCall {
            method: "POST",
            path: "/v1/reload",
            body: "",
        };
        let answer = self.call_admin(&live.proxy, reload).await;
        let refusal = match answer {
            Ok((200, body)) => return Ok(Applied::Reloaded(read_answer(&body).changes)),
            Ok((_, body)) => read_answer(&body),
            Err(error) => ReloadAnswer {
                detail: error.to_string(),
                ..ReloadAnswer::default()
            },
        };
        let runs = self.runs_of(&live.found).await?;
        if !refusal.needs_restart.is_empty() && runs.is_empty() {
            return Ok(Applied::NeedsRestart(refusal.needs_restart));
        }
        // A restart must find what is in force, not what was refused.
        if let Some(before) = before {
            self.unpack_in_config(id, before)
                .await
                .map_err(|error| error.during("give the proxy its configuration back"))?;
        }
        let use_of_it = match runs.len() {
            0 => String::new(),
            _ => format!(", and it serves {}", runs.join(", ")),
        };
        Err(BackendError::Proxy(format!(
            "keeps the configuration it has: {}{use_of_it}",
            refusal.detail
        )))
    }

    /// Removes the image of a former binary of ours, unless something still uses it.
    async fn remove_own_image(&self, id: &str) {
        let is_ours = match call(self.client.inspect_image(id)).await {
            Ok(image) => image
                .config
                .and_then(|config| config.labels)
                .is_some_and(|labels| ImageName::is_one(&labels)),
            Err(_) => false,
        };
        if !is_ours {
            return;
        }
        if let Err(error) = call(
            self.client
                .remove_image(id, None::<RemoveImageOptions>, None),
        )
        .await
        {
            tracing::debug!(image = id, %error, "the image of the binary before is kept");
        }
    }
}

fn read_answer(body: &[u8]) -> ReloadAnswer {
    serde_json::from_slice(body).unwrap_or_else(|_| ReloadAnswer {
        detail: String::from_utf8_lossy(body).into_owned(),
        ..ReloadAnswer::default()
    })
}

fn told(live: Live, action: Action, changes: Vec<String>) -> Up {
    Up {
        action,
        container: live.found.name,
        id: live.found.id,
        image: live.found.image,
        address: live.found.address,
        config: live.health.config,
        audit: AuditPlace {
            volume: ProxyVolume::AUDIT.name.to_owned(),
            mountpoint: live.found.audit,
            file: "audit.jsonl",
        },
        changes,
    }
}
