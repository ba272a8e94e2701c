//! A run at the proxy: registered before its start, repeated while it lives, removed when it is
//! dead.

use std::time::Duration;

use serde::Deserialize;

use super::backend::{AdminCall, Backend, BackendError, Proxy};
use crate::{
    admin::{RunRequest, SlotLine},
    record::{NetworkSummary, RunId},
};

/// Why a run is not registered.
#[derive(Debug, thiserror::Error)]
pub enum RegistrationError {
    /// Somebody has the address: another range is to be taken.
    #[error("the proxy refuses the run's address: {0}")]
    Taken(String),
    /// The proxy refuses the run, for example for a profile that it does not know.
    #[error("the proxy refuses the run: {0}")]
    Refused(String),
    /// The proxy cannot be asked.
    #[error(transparent)]
    Backend(#[from] BackendError),
}

/// RFC 9457, as far as it is needed here.
#[derive(Deserialize)]
struct Problem {
    detail: String,
}

/// One run at one proxy.
#[derive(Clone, Copy)]
pub(super) struct Registered<'a, B> {
    pub(super) backend: &'a B,
    pub(super) proxy: &'a Proxy,
    pub(super) run: &'a RunId,
}

impl<B: Backend> Registered<'_, B> {
    /// Registers the run, or renews it.
    pub(super) async fn put(&self, request: &RunRequest) -> Result<(), RegistrationError> {
        let (status, answer) = self.call("PUT", &written(request)?).await?;
        match status {
            200..=299 => Ok(()),
            _ => Err(refusal(status, &answer)),
        }
    }

    /// Registers the run at an idle slot, and gives that; none where there is none, or the proxy takes
    /// it no other way either.
    pub(super) async fn claim(&self, request: &RunRequest) -> Option<SlotLine> {
        let (status, answer) = match self.call("PUT", &written(request).ok()?).await {
            Ok(answer) => answer,
            Err(error) => {
                tracing::debug!(run = %self.run, %error, "no slot could be claimed");
                return None;
            }
        };
        if status != 200 {
            tracing::debug!(run = %self.run, status, "no slot was given");
            return None;
        }
        serde_json::from_slice(&answer).ok()
    }

    /// Renews the run for as long as it is polled, every third of its time; this also brings it
    /// back to a proxy that was started anew.
    pub(super) async fn keep(&self, request: &RunRequest) {
        let every = request.expires_in / 3;
        loop {
            tokio::time::sleep(every).await;
            if let Err(error) = self.put(request).await {
                tracing::warn!(run = %self.run, %error, "run could not be renewed");
            }
        }
    }

    /// Cuts what the run has open and removes it; gives what it reached. None where the proxy does
    /// not know the run, as after a restart.
    pub(super) async fn delete(
        &self,
        limit: Duration,
    ) -> Result<Option<NetworkSummary>, BackendError> {
        let late = |_| BackendError::Proxy(format!("did not close the run within {limit:?}"));
        let answer = tokio::time::timeout(limit, self.call("DELETE", ""));
        let (status, body) = answer.await.map_err(late)??;
        match status {
            200..=299 => serde_json::from_slice(&body)
                .map(Some)
                .map_err(|error| BackendError::Proxy(format!("gave no summary: {error}"))),
            404 => Ok(None),
            _ => Err(BackendError::Proxy(format!(
                "answered {status} when the run was removed"
            ))),
        }
    }

    async fn call(&self, method: &str, body: &str) -> Result<(u16, bytes::Bytes), BackendError> {
        let path = format!("/v1/runs/{}", self.run);
        let call = AdminCall {
            method,
            path: &path,
            body,
        };
        self.backend.admin(self.proxy, call).await
    }
}

/// What a status other than success means.
pub(super) fn refusal(status: u16, answer: &[u8]) -> RegistrationError {
    let detail = serde_json::from_slice(answer).map_or_else(
        |_| format!("status {status}"),
        |problem: Problem| problem.detail,
    );
    match status {
        409 => RegistrationError::Taken(detail),
        _ => RegistrationError::Refused(detail),
    }
}

fn written(request: &RunRequest) -> Result<String, RegistrationError> {
    serde_json::to_string(request).map_err(|error| RegistrationError::Refused(error.to_string()))
}
