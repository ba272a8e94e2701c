//! One call of the admin socket, from the other side.

use std::{path::Path, time::Duration};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::{Method, Request, StatusCode, client::conn::http1, header};
use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// Nothing listens there, or it may not be reached.
    #[error("failed to reach the proxy's admin socket {path}: {source}")]
    Connect {
        /// The socket.
        path: String,
        /// What the kernel says.
        source: std::io::Error,
    },
    /// The method or path is not one.
    #[error("the request is not valid: {0}")]
    Request(#[from] hyper::http::Error),
    /// The connection broke.
    #[error("the admin socket did not answer: {0}")]
    Http(#[from] hyper::Error),
    /// There is no answer in time.
    #[error("the admin socket did not answer within {} s", .0.as_secs())]
    Silent(Duration),
}

/// Calls `method path` with a JSON body, empty for none.
pub async fn call(
    socket: &Path,
    method: Method,
    path: &str,
    body: String,
) -> Result<(StatusCode, Bytes), CallError> {
    let stream = UnixStream::connect(socket)
        .await
        .map_err(|source| CallError::Connect {
            path: socket.display().to_string(),
            source,
        })?;
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header(header::HOST, "eclusa")
        .header(header::CONTENT_TYPE, "application/json")
        .body(Full::new(Bytes::from(body)))?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    let exchange = async {
        let response = sender.send_request(request).await?;
        let status = response.status();
        let body = response.into_body().collect().await?.to_bytes();
        Ok((status, body))
    };
    // The connection drives the exchange: both are polled here, so nothing is spawned.
    tokio::pin!(exchange, connection);
    let mut connected = true;
    loop {
        tokio::select! {
            answer = &mut exchange => return answer,
            ended = &mut connection, if connected => {
                connected = false;
                ended?;
            }
        }
    }
}
