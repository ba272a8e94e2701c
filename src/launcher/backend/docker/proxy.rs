//! The proxy container and our own image.

use bytes::Bytes;

use super::Docker;
use crate::launcher::backend::{AdminCall, BackendError, Proxy};

impl Docker {
    /// The proxy, where one runs.
    pub(super) async fn find_proxy(&self) -> Result<Option<Proxy>, BackendError> {
        Err(BackendError::Unsupported("no proxy yet".to_owned()))
    }

    /// Finds the proxy, or starts it.
    pub(super) async fn find_or_start_proxy(&self) -> Result<Proxy, BackendError> {
        Err(BackendError::Unsupported("no proxy yet".to_owned()))
    }

    /// One call of the proxy's admin socket.
    pub(super) async fn call_admin(
        &self,
        _proxy: &Proxy,
        _call: AdminCall<'_>,
    ) -> Result<(u16, Bytes), BackendError> {
        Err(BackendError::Unsupported("no proxy yet".to_owned()))
    }

    /// The id of our own image, imported from the running binary where the engine lacks it.
    pub(super) async fn own_image(&self) -> Result<String, BackendError> {
        Err(BackendError::Unsupported("no image yet".to_owned()))
    }
}
