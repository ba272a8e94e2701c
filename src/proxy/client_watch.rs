//! Watches a client that waits for its response.

use std::{io, time::Duration};

use socket2::{SockRef, TcpKeepalive};
use tokio::{io::Interest, net::tcp::ReadHalf};

/// How a half-closed client is probed.
const PROBE_AFTER: Duration = Duration::from_secs(15);
const PROBES: u32 = 3;

/// Waits until the client is gone.
///
/// A client may end its direction and still wait for the response (RFC 9112 section 9.6 speaks of
/// the close, RFC 9293 section 3.6 of the half-close). Whether it does, or has closed for good,
/// only a probe can tell: its kernel answers with a reset once the socket is gone.
pub(super) async fn gone(client: &mut ReadHalf<'_>) {
    let mut byte = [0];
    match client.peek(&mut byte).await {
        Ok(0) => {
            if let Err(error) = probe(client) {
                tracing::debug!(%error, "cannot probe a half-closed client");
            }
        }
        // The next request waits behind this one.
        Ok(_) => {}
        Err(_) => return,
    }
    // Only an error is awaited from here on, and the kernel tells it unasked.
    if let Err(error) = client.ready(Interest::ERROR).await {
        tracing::debug!(%error, "cannot watch a client");
        std::future::pending::<()>().await;
    }
}

fn probe(client: &ReadHalf<'_>) -> io::Result<()> {
    let keepalive = TcpKeepalive::new()
        .with_time(PROBE_AFTER)
        .with_interval(PROBE_AFTER)
        .with_retries(PROBES);
    SockRef::from(client.as_ref()).set_tcp_keepalive(&keepalive)
}
