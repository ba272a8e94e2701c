//! Making the proxy container: created under its name, given its configuration, then started.

use std::collections::HashMap;

use bollard::{
    body_full,
    models::NetworkCreateRequest,
    query_parameters::{
        CreateContainerOptions, DownloadFromContainerOptions, UploadToContainerOptions,
    },
};
use futures_util::StreamExt;

use super::{
    super::{
        Docker,
        error::{CallError, call},
    },
    body,
    container::is_conflict,
};
use crate::launcher::{
    backend::BackendError,
    proxy::{CONFIG_FILE, CONFIG_FOLDER, NAME, ProxyPlan, ProxySettings, UPLINK, UPLINK_ROLE},
};

/// The longest archive of a configuration that is read back, in bytes; `-c` takes 64 MiB.
const MOST_CONFIG: usize = 65 * 1024 * 1024;

impl Docker {
    /// Makes the proxy and gives its id; none where another is making it.
    pub(super) async fn make_proxy(&self) -> Result<Option<String>, BackendError> {
        let built_in = ProxySettings::built_in()
            .map_err(|error| BackendError::Unsupported(error.to_string()))?;
        let settings = self.proxy.settings.as_ref().unwrap_or(&built_in);
        let (image, name) = self.own_image_and_name().await?;
        let unique = ulid::Ulid::generate();
        let plan = ProxyPlan::new(self.engine.kind, (&image, &name), settings, unique);
        match self.make_as_planned(&plan, settings).await {
            Err(BackendError::Refused { why, .. }) if ProxyPlan::lacks_ipv6(&why) => {
                let plan = plan.without_ipv6();
                self.make_as_planned(&plan, settings).await
            }
            outcome => outcome,
        }
    }

    async fn make_as_planned(
        &self,
        plan: &ProxyPlan,
        settings: &ProxySettings,
    ) -> Result<Option<String>, BackendError> {
        let options = CreateContainerOptions {
            name: Some(plan.name.to_owned()),
            ..CreateContainerOptions::default()
        };
        let created = call(
            self.client
                .create_container(Some(options), body::container(plan)),
        )
        .await;
        let id = match created {
            Ok(created) => created.id,
            Err(error) if is_conflict(&error) => return Ok(None),
            Err(error) => return Err(error.during(format!("create container {NAME}"))),
        };
        match self.equip_and_start(&id, settings).await {
            Ok(()) => Ok(Some(id)),
            // It took so long that another took this one to be dead.
            Err(_) if self.is_gone(&id).await => Ok(None),
            Err(error) => {
                // What is left of it would only have others wait for it.
                if let Err(error) = self.remove_by_force(&id).await {
                    tracing::warn!(%error, "a proxy that did not start cannot be removed");
                }
                Err(error)
            }
        }
    }

    async fn is_gone(&self, id: &str) -> bool {
        let found = call(self.client.inspect_container(id, None)).await;
        found.is_err_and(|error| error.is_missing())
    }

    async fn equip_and_start(
        &self,
        id: &str,
        settings: &ProxySettings,
    ) -> Result<(), BackendError> {
        self.make_uplink().await?;
        // Without a configuration of the user's it keeps the one that it was given before.
        if self.proxy.settings.is_some() || self.read_settings(id).await?.is_none() {
            self.write_settings(id, settings).await?;
        }
        call(self.client.start_container(id, None))
            .await
            .map_err(|error| error.during(format!("start container {NAME}")))
    }

    /// Who makes the container makes its network: two at once could make two of one name.
    async fn make_uplink(&self) -> Result<(), BackendError> {
        let refused = |why: &str| {
            Err(BackendError::Network {
                name: UPLINK.to_owned(),
                why: why.to_owned(),
            })
        };
        match call(self.client.inspect_network(UPLINK, None)).await {
            Ok(found) if found.internal == Some(true) => {
                return refused("it is internal, so that the proxy would reach nothing by it");
            }
            Ok(found) if found.driver.as_deref() != Some("bridge") => {
                return refused("it is no bridge; remove it, and `eclusa up` makes one");
            }
            Ok(_) => return Ok(()),
            Err(error) if error.is_missing() => {}
            Err(error) => return Err(error.during(format!("inspect network {UPLINK}"))),
        }
        let request = NetworkCreateRequest {
            name: UPLINK.to_owned(),
            driver: Some("bridge".to_owned()),
            labels: Some(HashMap::from([(
                UPLINK_ROLE.0.to_owned(),
                UPLINK_ROLE.1.to_owned(),
            )])),
            ..NetworkCreateRequest::default()
        };
        match call(self.client.create_network(request)).await {
            Ok(_) => Ok(()),
            Err(error) if is_conflict(&error) => Ok(()),
            Err(error) => Err(error.during(format!("create network {UPLINK}"))),
        }
    }

    /// Puts the files of a configuration where the proxy reads them; root's, by their archive.
    pub(super) async fn write_settings(
        &self,
        id: &str,
        settings: &ProxySettings,
    ) -> Result<(), BackendError> {
        let refused = |error: CallError| error.during("give the proxy its configuration");
        let archive = settings.archive().map_err(|error| BackendError::Refused {
            doing: "give the proxy its configuration".to_owned(),
            why: error.to_string(),
        })?;
        self.unpack_in_config(id, archive).await.map_err(refused)
    }

    pub(super) async fn unpack_in_config(
        &self,
        id: &str,
        archive: Vec<u8>,
    ) -> Result<(), CallError> {
        let options = UploadToContainerOptions {
            path: CONFIG_FOLDER.to_owned(),
            ..UploadToContainerOptions::default()
        };
        call(
            self.client
                .upload_to_container(id, Some(options), body_full(archive.into())),
        )
        .await
    }

    /// The configuration file in a container, as the archive that puts it back; none where there is
    /// none yet.
    pub(super) async fn read_settings(&self, id: &str) -> Result<Option<Vec<u8>>, BackendError> {
        let options = DownloadFromContainerOptions {
            path: format!("{CONFIG_FOLDER}/{CONFIG_FILE}"),
        };
        let mut pieces = self.client.download_from_container(id, Some(options));
        let read = async {
            let mut archive = Vec::new();
            while let Some(piece) = pieces.next().await {
                archive.extend_from_slice(&piece?);
                if archive.len() > MOST_CONFIG {
                    break;
                }
            }
            Ok(archive)
        };
        match call(read).await {
            Ok(archive) if archive.len() <= MOST_CONFIG => Ok(Some(archive)),
            Ok(_) => Err(BackendError::Proxy(
                "has a configuration that is too long to be one".to_owned(),
            )),
            Err(error) if error.is_missing() => Ok(None),
            Err(error) => Err(error.during("read the proxy's configuration")),
        }
    }
}
