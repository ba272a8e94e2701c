//! Where the engine is, what it is, and which version of its API is spoken.

use std::{
    fmt,
    path::{Path, PathBuf},
};

use bollard::{API_DEFAULT_VERSION, BollardRequest, models::SystemVersion};

use super::error::call;
use crate::launcher::backend::{BackendError, Engine, EngineKind};

/// Docker 20.10's.
const OLDEST: ApiVersion = ApiVersion(1, 41);

/// The newest whose answers this code has been held against, Docker 28.5's.
const NEWEST: ApiVersion = ApiVersion(1, 51);

/// Seconds until the head of an answer; the shorter limit of a whole call is `error::call`'s, and
/// the call that waits for a command has its head at once.
const HEAD_LIMIT: u64 = 300;

/// A version of the API.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct ApiVersion(u16, u16);

/// Where an engine listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Endpoint {
    /// A socket on this machine.
    Unix(PathBuf),
    /// `host:port`, without encryption.
    Tcp(String),
}

/// The sockets at which an engine is sought, in this order.
pub(super) fn sockets(runtime_dir: Option<&Path>) -> Vec<PathBuf> {
    let docker = PathBuf::from("/var/run/docker.sock");
    let rootless = runtime_dir.map(|directory| directory.join("podman/podman.sock"));
    let podman = PathBuf::from("/run/podman/podman.sock");
    [Some(docker), rootless, Some(podman)]
        .into_iter()
        .flatten()
        .collect()
}

impl Endpoint {
    /// Reads a URL as `DOCKER_HOST` has it.
    pub(super) fn parse(host: &str) -> Result<Self, BackendError> {
        let refused = |why: &str| Err(BackendError::Unsupported(format!("{host}: {why}")));
        match host.split_once("://") {
            Some(("unix", path)) if path.starts_with('/') => Ok(Self::Unix(PathBuf::from(path))),
            Some(("unix", _)) => {
                refused("the path of a socket is absolute: unix:///run/docker.sock")
            }
            Some(("tcp" | "http", address)) => {
                let address = address.trim_end_matches('/');
                let named = address.rsplit_once(':').is_some_and(|(name, port)| {
                    !name.is_empty() && port.parse::<u16>().is_ok_and(|port| port != 0)
                });
                if !named || address.contains(['/', '@', '?', '#']) {
                    return refused("an engine on the network is written tcp://HOST:PORT");
                }
                Ok(Self::Tcp(address.to_owned()))
            }
            Some(("ssh", _)) => refused(
                "ssh is not spoken; forward the socket with \
                 `ssh -NL /tmp/engine.sock:/var/run/docker.sock HOST` and name \
                 unix:///tmp/engine.sock (then use --input-copy: paths are the other machine's)",
            ),
            Some(("https", _)) => {
                refused("TLS to an engine is not spoken; forward its socket over ssh and name that")
            }
            _ => refused("an engine is named by unix:///PATH or tcp://HOST:PORT"),
        }
    }

    /// The first socket that exists; whether it answers is not asked, since an engine that is only
    /// down now must not be replaced by another.
    pub(super) fn first_of(sockets: &[PathBuf]) -> Result<Self, BackendError> {
        match sockets.iter().find(|socket| socket.exists()) {
            Some(socket) => Ok(Self::Unix(socket.clone())),
            None => Err(BackendError::Unreachable {
                endpoint: sockets
                    .iter()
                    .map(|socket| socket.display().to_string())
                    .collect::<Vec<_>>()
                    .join(" or "),
                why: "there is no such socket".to_owned(),
            }),
        }
    }

    /// Asks what answers there, and settles the version of the API.
    pub(super) async fn open(self) -> Result<(bollard::Docker, Engine), BackendError> {
        let unreachable = |why: String| BackendError::Unreachable {
            endpoint: self.to_string(),
            why,
        };
        let client = match &self {
            Self::Unix(path) => bollard::Docker::connect_with_unix(
                &path.to_string_lossy(),
                HEAD_LIMIT,
                API_DEFAULT_VERSION,
            ),
            Self::Tcp(address) => {
                bollard::Docker::connect_with_http(address, HEAD_LIMIT, API_DEFAULT_VERSION)
            }
        }
        .map_err(|error| unreachable(error.to_string()))?;
        let version = call(client.version())
            .await
            .map_err(|error| unreachable(error.to_string()))?;
        let api = negotiate(&version)?;
        let engine = self.engine(version);
        Ok((
            client.with_request_modifier(move |r| versioned(r, api)),
            engine,
        ))
    }

    fn engine(self, version: SystemVersion) -> Engine {
        let components = version.components.unwrap_or_default();
        let is_podman = components.iter().any(|part| part.name.contains("Podman"));
        let mut parts = components.iter();
        // Podman's is in words, `runc version 1.1.5`, with more on further lines.
        let runtime = parts.find(|part| ["runc", "OCI Runtime (runc)"].contains(&&*part.name));
        let runtime = runtime.and_then(|part| {
            let version = part.version.lines().next()?;
            Some(version.trim_start_matches("runc version ").to_owned())
        });
        let socket = match self {
            Self::Unix(path) => Some(path),
            Self::Tcp(_) => None,
        };
        Engine {
            kind: if is_podman {
                EngineKind::Podman
            } else {
                EngineKind::Docker
            },
            version: version.version.unwrap_or_default(),
            runtime_version: runtime,
            is_local: socket.is_some(),
            socket,
        }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix://{}", path.display()),
            Self::Tcp(address) => write!(f, "tcp://{address}"),
        }
    }
}

impl ApiVersion {
    fn parse(text: &str) -> Option<Self> {
        let (major, minor) = text.split_once('.')?;
        Some(Self(major.parse().ok()?, minor.parse().ok()?))
    }
}

impl fmt::Display for ApiVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.0, self.1)
    }
}

/// The newest version that both sides speak.
fn negotiate(version: &SystemVersion) -> Result<ApiVersion, BackendError> {
    let name = version.version.as_deref().unwrap_or("of unknown version");
    let unsupported = |why: String| BackendError::Unsupported(format!("engine {name}: {why}"));
    let newest = version.api_version.as_deref().and_then(ApiVersion::parse);
    let Some(newest) = newest else {
        return Err(unsupported(
            "it does not say which API it speaks".to_owned(),
        ));
    };
    if newest < OLDEST {
        return Err(unsupported(format!(
            "it speaks API {newest}; {OLDEST} or later is needed, as from Docker 20.10"
        )));
    }
    let oldest = version.min_api_version.as_deref();
    if let Some(oldest) = oldest.and_then(ApiVersion::parse).filter(|v| *v > NEWEST) {
        return Err(unsupported(format!(
            "it speaks API {oldest} and later, eclusa up to {NEWEST}; use a newer eclusa"
        )));
    }
    Ok(newest.min(NEWEST))
}

/// The request with the version in its path. Without it an engine answers in the newest version
/// that it knows, whose defaults and answers may be any.
fn versioned(request: BollardRequest, api: ApiVersion) -> BollardRequest {
    let (mut head, body) = request.into_parts();
    let mut uri = head.uri.clone().into_parts();
    let path = uri.path_and_query.as_ref().map_or("", |path| path.as_str());
    uri.path_and_query = format!("/v{api}{path}").parse().ok();
    if let Ok(uri) = uri.try_into() {
        head.uri = uri;
    }
    BollardRequest::from_parts(head, body)
}

#[cfg(test)]
mod tests;
