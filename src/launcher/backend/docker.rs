//! Docker and what behaves like it, over the Engine API.

mod connect;
mod container;
mod create;
mod error;
mod image;
mod life;
mod network;
mod podman;
mod proxy;
mod remove;
#[cfg(test)]
mod sample;
mod slot;
mod verify;
mod volume;

use std::{fmt, path::Path};

use bytes::Bytes;
use ipnet::IpNet;

use super::{
    AdminCall, Backend, BackendError, ByteStream, Ended, Engine, Image, Object, Proxy, Streams,
    Usage,
};
use crate::launcher::{
    plan::{Labels, Plan, Slot, Volume},
    proxy::ProxyOptions,
    spec::Pull,
};

/// An engine that has answered.
pub struct Docker {
    client: bollard::Docker,
    engine: Engine,
    proxy: ProxyOptions,
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
        Ok(Self {
            client,
            engine,
            proxy: ProxyOptions::default(),
        })
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

    async fn image(&self, reference: &str, pull: Pull) -> Result<Image, BackendError> {
        self.find_image(reference, pull).await
    }

    async fn subnets(&self) -> Result<Vec<IpNet>, BackendError> {
        self.taken_ranges().await
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

    async fn create(&self, plan: &Plan, proxy: Option<&Proxy>) -> Result<(), BackendError> {
        Box::pin(self.create_all(plan, proxy)).await
    }

    async fn make_slot(
        &self,
        slot: &Slot,
        labels: &Labels,
        proxy: &Proxy,
    ) -> Result<(), BackendError> {
        Box::pin(self.make_all_of(slot, labels, proxy)).await
    }

    async fn fill(
        &self,
        plan: &Plan,
        volume: &Volume,
        archive: ByteStream,
    ) -> Result<(), BackendError> {
        self.unpack(plan, volume, archive).await
    }

    async fn start(&self, plan: &Plan) -> Result<Streams, BackendError> {
        self.attach_and_start(plan).await
    }

    async fn wait(&self, plan: &Plan) -> Result<Ended, BackendError> {
        self.wait_for_end(plan).await
    }

    async fn usage(&self, plan: &Plan) -> Result<Usage, BackendError> {
        self.usage_now(plan).await
    }

    async fn kill(&self, plan: &Plan) -> Result<(), BackendError> {
        self.kill_all(plan).await
    }

    fn collect(&self, plan: &Plan, volume: &Volume) -> ByteStream {
        self.pack(plan, volume)
    }

    async fn remove(&self, plan: &Plan, proxy: Option<&Proxy>) -> Result<(), BackendError> {
        self.remove_all(plan, proxy).await
    }

    async fn objects(&self) -> Result<Vec<Object>, BackendError> {
        self.labelled().await
    }

    async fn reap(&self, object: &Object) -> Result<bool, BackendError> {
        self.remove_object(object).await
    }
}
