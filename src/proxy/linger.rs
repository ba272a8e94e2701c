//! Closes a connection in a way that lets the last answer arrive.

use std::time::Duration;

use tokio::{io::AsyncWriteExt, time::timeout};

use crate::egress::Peer;

/// How long a close waits for the client to take the answer and close too.
const LINGER: Duration = Duration::from_secs(2);

/// How much is read and dropped meanwhile, in bytes: many clients write a whole upload before
/// they read a refusal.
const MOST_DROPPED: usize = 16 * 1024 * 1024;

/// Sends `last` and closes. What the client still sends is dropped unparsed: closing with bytes
/// unread would reset the connection and destroy the answer on its way (RFC 9112 section 9.6).
///
/// Security: nothing behind a refused message is ever parsed (RFC 9931).
pub(super) async fn send_and_close(mut client: Peer, last: &[u8]) {
    let closing = async {
        client.stream.write_all(last).await?;
        client.stream.shutdown().await?;
        let mut dropped = client.received.unread().len();
        client.received.consume(dropped);
        while dropped < MOST_DROPPED {
            let count = client.fill().await?;
            if count == 0 {
                break;
            }
            client.received.consume(count);
            dropped += count;
        }
        Ok::<(), std::io::Error>(())
    };
    match timeout(LINGER, closing).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::trace!(%error, "client gone before its answer"),
        Err(_) => tracing::trace!("client did not close in time"),
    }
}
