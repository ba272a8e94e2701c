//! Docker and what behaves like it, over the Engine API.

mod connect;
mod error;
mod proxy;

use std::{fmt, path::Path};

use bytes::Bytes;
use ipnet::IpNet;

use self::error::call;
use super::{
    AdminCall, Backend, BackendError, ByteStream, Ended, Engine, Image, Object, Proxy, Streams,
    Usage,
};
use crate::launcher::{
    plan::{Plan, Volume},
    spec::Pull,
};

/// An engine that has answered.
pub struct Docker {
    client: bollard::Docker,
    engine: Engine,
}

impl Docker {
    /// Connects to the engine at `host`, such as `unix:///run/docker.sock` or
    /// `tcp://192.0.2.1:2375`; without it to the first of Docker's socket, Podman's below
    /// `runtime_dir` (`$XDG_RUNTIME_DIR`) and Podman's for the whole machine that exists.
    pub async fn connect(
        host: Option<&str>,
        runtime_dir: Option<&Path>,
    ) -> Result<Self, BackendError> {
        let endpoint = match host {
            Some(host) => connect::Endpoint::parse(host)?,
            None => connect::Endpoint::first_of(&connect::sockets(runtime_dir))?,
        };
        let (client, engine) = endpoint.open().await?;
        Ok(Self { client, engine })
    }
}

impl fmt::Debug for Docker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.engine.fmt(f)
    }
}

impl Backend for Docker {
    fn engine(&self) -> &Engine {
        &self.engine
    }

    async fn image(&self, reference: &str, _pull: Pull) -> Result<Image, BackendError> {
        let image = call(self.client.inspect_image(reference)).await;
        let image = image.map_err(|error| {
            if error.is_missing() {
                BackendError::NoImage(reference.to_owned())
            } else {
                error.during(format!("inspect image {reference}"))
            }
        })?;
        Ok(Image {
            id: image.id.unwrap_or_default(),
            ..Image::default()
        })
    }

    async fn subnets(&self) -> Result<Vec<IpNet>, BackendError> {
        Err(missing())
    }

    async fn running_proxy(&self) -> Result<Option<Proxy>, BackendError> {
        self.find_proxy().await
    }

    async fn proxy(&self) -> Result<Proxy, BackendError> {
        self.find_or_start_proxy().await
    }

    async fn admin(
        &self,
        proxy: &Proxy,
        call: AdminCall<'_>,
    ) -> Result<(u16, Bytes), BackendError> {
        self.call_admin(proxy, call).await
    }

    async fn create(&self, _plan: &Plan, _proxy: Option<&Proxy>) -> Result<(), BackendError> {
        self.own_image().await.map(drop)
    }

    async fn fill(
        &self,
        _plan: &Plan,
        _volume: &Volume,
        _archive: ByteStream,
    ) -> Result<(), BackendError> {
        Err(missing())
    }

    async fn start(&self, _plan: &Plan) -> Result<Streams, BackendError> {
        Err(missing())
    }

    async fn wait(&self, _plan: &Plan) -> Result<Ended, BackendError> {
        Err(missing())
    }

    async fn usage(&self, _plan: &Plan) -> Result<Usage, BackendError> {
        Err(missing())
    }

    async fn kill(&self, _plan: &Plan) -> Result<(), BackendError> {
        Err(missing())
    }

    fn collect(&self, _plan: &Plan, _volume: &Volume) -> ByteStream {
        Box::pin(futures_util::stream::once(async { Err(missing()) }))
    }

    async fn remove(&self, _plan: &Plan, _proxy: Option<&Proxy>) -> Result<(), BackendError> {
        Err(missing())
    }

    async fn objects(&self) -> Result<Vec<Object>, BackendError> {
        Err(missing())
    }

    async fn reap(&self, _object: &Object) -> Result<bool, BackendError> {
        Err(missing())
    }
}

fn missing() -> BackendError {
    BackendError::Unsupported("not here yet".to_owned())
}
