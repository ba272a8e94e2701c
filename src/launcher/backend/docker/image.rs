//! Images: looked up, and pulled where that is allowed.

use bollard::{models::ImageInspect, query_parameters::CreateImageOptions};
use futures_util::TryStreamExt;

use super::{
    Docker,
    error::{call, items},
};
use crate::launcher::{
    backend::{BackendError, Image},
    spec::Pull,
};

impl Docker {
    /// The image by its reference.
    pub(super) async fn find_image(
        &self,
        reference: &str,
        pull: Pull,
    ) -> Result<Image, BackendError> {
        let missing = || BackendError::NoImage(reference.to_owned());
        if !is_plain(reference) {
            return Err(missing());
        }
        if let Some(image) = self.inspect_image(reference).await? {
            return Ok(image);
        }
        match pull {
            Pull::Never => return Err(missing()),
            Pull::Missing => self.pull(reference).await?,
        }
        self.inspect_image(reference).await?.ok_or_else(missing)
    }

    async fn inspect_image(&self, reference: &str) -> Result<Option<Image>, BackendError> {
        match call(self.client.inspect_image(reference)).await {
            Ok(image) => read(reference, image).map(Some),
            Err(error) if error.is_missing() => Ok(None),
            Err(error) => Err(error.during(format!("inspect image {reference}"))),
        }
    }

    async fn pull(&self, reference: &str) -> Result<(), BackendError> {
        let Some(name) = pullable(reference) else {
            return Err(BackendError::NoImage(reference.to_owned()));
        };
        tracing::info!(image = %name, "pulling an image");
        let options = CreateImageOptions {
            from_image: Some(name),
            ..CreateImageOptions::default()
        };
        let progress = items(self.client.create_image(Some(options), None, None));
        progress
            .try_for_each(|_step| std::future::ready(Ok(())))
            .await
            .map_err(|error| error.during(format!("pull image {reference}")))
    }
}

/// Whether it can stand in a path of the API and mean nothing else there.
fn is_plain(reference: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "._-/:@".contains(c);
    reference.starts_with(|c: char| c.is_ascii_alphanumeric())
        && reference.chars().all(allowed)
        && reference
            .split('/')
            .all(|part| !part.is_empty() && part != "." && part != "..")
}

/// The reference with a tag, without which an engine pulls every tag there is; none for an id,
/// which no registry knows.
fn pullable(reference: &str) -> Option<String> {
    let is_hex = |text: &str| text.len() == 64 && text.bytes().all(|b| b.is_ascii_hexdigit());
    if reference.starts_with("sha256:") || is_hex(reference) {
        return None;
    }
    let name = reference.rsplit('/').next().unwrap_or(reference);
    let is_exact = name.contains(':') || name.contains('@');
    Some(if is_exact {
        reference.to_owned()
    } else {
        format!("{reference}:latest")
    })
}

fn read(reference: &str, image: ImageInspect) -> Result<Image, BackendError> {
    let config = image.config.unwrap_or_default();
    let env = config.env.unwrap_or_default();
    let id = image.id.filter(|id| !id.is_empty());
    Ok(Image {
        id: id.ok_or_else(|| BackendError::NoImage(reference.to_owned()))?,
        env: env
            .iter()
            .map(|pair| {
                let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
                (name.to_owned(), value.to_owned())
            })
            .collect(),
        volumes: config.volumes.unwrap_or_default(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reference_is_only_a_reference() {
        for (reference, plain) in [
            ("debian", true),
            ("registry.example.com:5000/a/b:1.2", true),
            ("a@sha256:00", true),
            ("../containers/x", false),
            ("a/../../b", false),
            ("a/./b", false),
            ("a?b", false),
            ("a#b", false),
            ("a%2e", false),
            ("a b", false),
            ("/a", false),
            ("a//b", false),
            ("-a", false),
            ("", false),
        ] {
            assert_eq!(is_plain(reference), plain, "{reference}");
        }
    }

    #[test]
    fn a_pull_names_one_tag() {
        let id = "0".repeat(64);
        for (reference, expected) in [
            ("debian", Some("debian:latest")),
            ("debian:12", Some("debian:12")),
            (
                "registry.example.com:5000/a",
                Some("registry.example.com:5000/a:latest"),
            ),
            ("a@sha256:00", Some("a@sha256:00")),
            (id.as_str(), None),
            ("sha256:00", None),
        ] {
            assert_eq!(pullable(reference).as_deref(), expected, "{reference}");
        }
    }
}
