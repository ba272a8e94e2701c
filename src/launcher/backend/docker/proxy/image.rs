//! Our own image, imported from the binary that runs. Nothing is pulled.

use std::{fs::File, io::Read, path::Path, time::Duration};

use bollard::{body_full, query_parameters::CreateImageOptions};
use futures_util::TryStreamExt;
use rustix::fs::{FlockOperation, flock};

use super::{
    super::{
        Docker,
        error::{CallError, call},
    },
    Patience,
};
use crate::launcher::{
    backend::{BackendError, EngineKind},
    proxy::{ImageName, OwnImage},
};

/// How long is waited for another that imports the same image; then it is imported twice.
const IMPORT_LIMIT: Duration = Duration::from_secs(30);

/// The binary, whole.
struct Binary {
    file: File,
    content: Vec<u8>,
    name: ImageName,
}

impl Docker {
    /// The id of our own image, imported where the engine lacks it.
    ///
    /// # Errors
    /// The binary is none that an image can be made of, or the engine refuses.
    pub async fn own_image(&self) -> Result<String, BackendError> {
        self.own_image_and_name().await.map(|(id, _)| id)
    }

    pub(super) async fn own_image_and_name(&self) -> Result<(String, ImageName), BackendError> {
        let binary = self.read_binary().await?;
        if let Some(id) = self.find_own_image(&binary.name).await? {
            return Ok((id, binary.name));
        }
        // The binary is what is imported, so it is also what two that import it meet at.
        let mut patience = Patience::new(IMPORT_LIMIT);
        while flock(&binary.file, FlockOperation::NonBlockingLockExclusive)
            == Err(rustix::io::Errno::WOULDBLOCK)
            && patience.pause().await.is_ok()
        {}
        if let Some(id) = self.find_own_image(&binary.name).await? {
            return Ok((id, binary.name));
        }
        self.import(&binary).await?;
        let reference = binary.name.reference();
        match self.find_own_image(&binary.name).await? {
            Some(id) => Ok((id, binary.name)),
            None => Err(BackendError::NotApplied {
                what: format!("image {reference}"),
                planned: "an image made of this binary".to_owned(),
                got: "none that says so".to_owned(),
            }),
        }
    }

    async fn read_binary(&self) -> Result<Binary, BackendError> {
        let Some(path) = self.proxy.binary.clone() else {
            return Err(BackendError::Unsupported(
                "our image is made of the eclusa binary, and nobody said where that is".to_owned(),
            ));
        };
        let shown = path.display().to_string();
        // Some 15 MB to read and hash.
        let read = tokio::task::spawn_blocking(move || Binary::read(&path)).await;
        read.map_err(std::io::Error::from)
            .flatten()
            .map_err(|error| {
                BackendError::Unsupported(format!("failed to read the binary {shown}: {error}"))
            })
    }

    async fn find_own_image(&self, name: &ImageName) -> Result<Option<String>, BackendError> {
        let reference = name.reference();
        match call(self.client.inspect_image(&reference)).await {
            Ok(image) => {
                let labels = image.config.and_then(|config| config.labels);
                let is_ours = labels.is_some_and(|labels| name.is_borne_by(&labels));
                Ok(image.id.filter(|_| is_ours))
            }
            Err(error) if error.is_missing() => Ok(None),
            Err(error) => Err(error.during(format!("inspect image {reference}"))),
        }
    }

    async fn import(&self, binary: &Binary) -> Result<(), BackendError> {
        let reference = binary.name.reference();
        let refused = |why: String| BackendError::Refused {
            doing: format!("make the image {reference} of this binary"),
            why,
        };
        let image = OwnImage::of(&binary.content).map_err(|error| refused(error.to_string()))?;
        let engine = call(self.client.version()).await;
        let engine = engine.map_err(|error| error.during("ask for the engine's version"))?;
        let machine = image.architecture().name();
        if let Some(other) = engine.arch.filter(|arch| arch != machine) {
            return Err(refused(format!(
                "it is for {machine}, and the engine is on {other}"
            )));
        }
        let archive = image
            .archive()
            .map_err(|error| refused(error.to_string()))?;
        let (repo, tag, changes) = match self.engine.kind {
            EngineKind::Docker => {
                let tag = binary.name.tag().to_owned();
                let repository = ImageName::REPOSITORY.to_owned();
                (repository, Some(tag), binary.name.instructions())
            }
            // Podman reads a tag only here, and several instructions as one; the holder, for which
            // alone it has our image, states the rest itself.
            EngineKind::Podman => (reference.clone(), None, vec![binary.name.label()]),
        };
        let options = CreateImageOptions {
            from_src: Some("-".to_owned()),
            repo: Some(repo),
            tag,
            message: Some("eclusa up".to_owned()),
            changes,
            ..CreateImageOptions::default()
        };
        let body = body_full(archive.into());
        let progress = self.client.create_image(Some(options), Some(body), None);
        call(progress.try_for_each(|_| async { Ok(()) }))
            .await
            .map_err(|error: CallError| error.during(format!("import the image {reference}")))
    }
}

impl Binary {
    fn read(path: &Path) -> std::io::Result<Self> {
        let mut file = File::open(path)?;
        let mut content = Vec::new();
        file.read_to_end(&mut content)?;
        let name = ImageName::of(&content);
        Ok(Self {
            file,
            content,
            name,
        })
    }
}
