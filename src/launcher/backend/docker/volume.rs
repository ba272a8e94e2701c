//! Volumes in memory, the holder that keeps them, and what goes in and out of them.

use std::collections::BTreeMap;

use bollard::{
    models::{Volume as EngineVolume, VolumeCreateRequest},
    query_parameters::{DownloadFromContainerOptions, UploadToContainerOptions},
};
use futures_util::{StreamExt, TryStreamExt};

use super::{
    Docker,
    container::Container,
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
        labels: &BTreeMap<String, String>,
        volume: &Volume,
    ) -> Result<(), BackendError> {
        let name = &volume.name;
        let request = request(labels, volume, self.engine.kind);
        let made = call(self.client.create_volume(request.clone()))
            .await
            .map_err(|error| error.during(format!("create volume {name}")))?;
        hold(&request, &made)
    }

    /// Makes and starts the container that keeps the volumes mounted.
    pub(super) async fn start_holder(&self, holder: &Container) -> Result<(), BackendError> {
        self.create_container(holder).await?;
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

/// What is asked of the engine for a volume.
pub(super) fn request(
    labels: &BTreeMap<String, String>,
    volume: &Volume,
    kind: EngineKind,
) -> VolumeCreateRequest {
    let Volume {
        name,
        size,
        inodes,
        mode,
        owner: User { uid, gid },
    } = volume;
    let room = match kind {
        EngineKind::Docker => format!("size={size}"),
        // Podman takes a size for a quota of its disk.
        EngineKind::Podman => format!("nr_blocks={}", size.div_ceil(page())),
    };
    let options = [
        ("type", "tmpfs".to_owned()),
        ("device", "tmpfs".to_owned()),
        (
            "o",
            format!(
                "{room},nr_inodes={inodes},mode={mode:o},uid={uid},gid={gid},noexec,nosuid,nodev"
            ),
        ),
    ];
    let options = options.map(|(name, value)| (name.to_owned(), value));
    VolumeCreateRequest {
        name: Some(name.clone()),
        driver: Some("local".to_owned()),
        driver_opts: Some(options.into()),
        labels: Some(labels.clone().into_iter().collect()),
        cluster_volume_spec: None,
    }
}

/// Holds a volume as the engine describes it against what was asked for.
pub(super) fn hold(asked: &VolumeCreateRequest, got: &EngineVolume) -> Result<(), BackendError> {
    let options = asked.driver_opts.clone().unwrap_or_default();
    let labels = asked.labels.clone().unwrap_or_default();
    // Podman repeats the owner besides.
    let mut made = got.options.clone();
    made.retain(|name, _| name != "UID" && name != "GID");
    // Security: a volume of that name that exists already is returned as it is.
    if got.driver == "local" && made == options && got.labels == labels {
        return Ok(());
    }
    Err(BackendError::NotApplied {
        what: format!("volume {}", got.name),
        planned: format!("local {options:?}"),
        got: format!("{} {:?}", got.driver, got.options),
    })
}

/// The size of this machine's pages, which is that of a local engine.
fn page() -> u64 {
    u64::try_from(rustix::param::page_size()).unwrap_or(4096)
}

/// The holder, and where it has the volume mounted.
fn mounted<'a>(plan: &'a Plan, volume: &Volume) -> Result<(&'a Holder, &'a str), BackendError> {
    let found = plan.keeper().and_then(|holder| {
        let target = holder.volumes.get(&volume.name)?;
        Some((holder, target.as_str()))
    });
    found.ok_or_else(|| BackendError::Unsupported(format!("volume {} has no holder", volume.name)))
}
