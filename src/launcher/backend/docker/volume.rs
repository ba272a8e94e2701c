//! Volumes in memory, the holder that keeps them, and what goes in and out of them.

use std::collections::HashMap;

use bollard::{
    models::VolumeCreateRequest,
    query_parameters::{DownloadFromContainerOptions, UploadToContainerOptions},
};
use futures_util::{StreamExt, TryStreamExt};

use super::{
    Docker, container,
    error::{CallError, call, items},
};
use crate::launcher::{
    backend::{BackendError, ByteStream, EngineKind},
    plan::{Holder, Plan, Volume},
    spec::User,
};

impl Docker {
    /// Makes a volume, and holds it against the plan.
    pub(super) async fn create_volume(
        &self,
        plan: &Plan,
        volume: &Volume,
    ) -> Result<(), BackendError> {
        let Volume {
            name,
            size,
            inodes,
            mode,
            owner: User { uid, gid },
        } = volume;
        let room = match self.engine.kind {
            EngineKind::Docker => format!("size={size}"),
            // Podman takes a size for a quota of its disk.
            EngineKind::Podman => format!("nr_blocks={}", size.div_ceil(page())),
        };
        let options = HashMap::from([
            ("type".to_owned(), "tmpfs".to_owned()),
            ("device".to_owned(), "tmpfs".to_owned()),
            (
                "o".to_owned(),
                format!(
                    "{room},nr_inodes={inodes},mode={mode:o},uid={uid},gid={gid},noexec,nosuid,\
                     nodev"
                ),
            ),
        ]);
        let labels: HashMap<String, String> = plan.labels.clone().into_iter().collect();
        let request = VolumeCreateRequest {
            name: Some(name.clone()),
            driver: Some("local".to_owned()),
            driver_opts: Some(options.clone()),
            labels: Some(labels.clone()),
            cluster_volume_spec: None,
        };
        let made = call(self.client.create_volume(request))
            .await
            .map_err(|error| error.during(format!("create volume {name}")))?;
        // Podman repeats the owner besides.
        let mut made_options = made.options.clone();
        made_options.retain(|name, _| name != "UID" && name != "GID");
        // Security: a volume of that name that exists already is returned as it is.
        if made.driver == "local" && made_options == options && made.labels == labels {
            return Ok(());
        }
        Err(BackendError::NotApplied {
            what: format!("volume {name}"),
            planned: format!("local {options:?}"),
            got: format!("{} {:?}", made.driver, made.options),
        })
    }

    /// Makes and starts the container that keeps the volumes mounted.
    pub(super) async fn start_holder(
        &self,
        plan: &Plan,
        holder: &Holder,
    ) -> Result<(), BackendError> {
        let image = self.own_image().await?;
        self.create_container(&container::holder(plan, holder, &image)?)
            .await?;
        call(self.client.start_container(&holder.name, None))
            .await
            .map_err(|error| error.during(format!("start container {}", holder.name)))
    }

    /// Unpacks an archive into a volume.
    pub(super) async fn unpack(
        &self,
        plan: &Plan,
        volume: &Volume,
        archive: ByteStream,
    ) -> Result<(), BackendError> {
        let (holder, path) = mounted(plan, volume)?;
        let options = UploadToContainerOptions {
            path: path.to_owned(),
            ..UploadToContainerOptions::default()
        };
        let body = bollard::body_try_stream(archive.map_err(std::io::Error::other));
        // Not under the limit of a call: it takes as long as there is something to send.
        let sent = self
            .client
            .upload_to_container(&holder.name, Some(options), body);
        sent.await
            .map_err(|error| CallError::from(error).during(format!("copy files to {path}")))
    }

    /// Packs the content of a volume.
    pub(super) fn pack(&self, plan: &Plan, volume: &Volume) -> ByteStream {
        let (holder, path) = match mounted(plan, volume) {
            Ok(mounted) => mounted,
            Err(error) => return futures_util::stream::iter([Err(error)]).boxed(),
        };
        let doing = format!("copy files from {path}");
        let options = DownloadFromContainerOptions {
            path: match self.engine.kind {
                // The dot: the content of the directory, as what is called `.`.
                EngineKind::Docker => format!("{path}/."),
                // With the dot, Podman's names would have nothing before them.
                EngineKind::Podman => path.to_owned(),
            },
        };
        items(
            self.client
                .download_from_container(&holder.name, Some(options)),
        )
        .map_err(move |error| error.during(doing.clone()))
        .boxed()
    }
}

/// The size of this machine's pages, which is that of a local engine.
fn page() -> u64 {
    u64::try_from(rustix::param::page_size()).unwrap_or(4096)
}

/// The holder, and where it has the volume mounted.
fn mounted<'a>(plan: &'a Plan, volume: &Volume) -> Result<(&'a Holder, &'a str), BackendError> {
    let found = plan.holder.as_ref().and_then(|holder| {
        let target = holder.volumes.get(&volume.name)?;
        Some((holder, target.as_str()))
    });
    found.ok_or_else(|| BackendError::Unsupported(format!("volume {} has no holder", volume.name)))
}
