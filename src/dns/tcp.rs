//! Queries on connections (RFC 7766): one after another, each answered before the next is read.

use std::{
    collections::HashMap,
    io,
    net::IpAddr,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, BufReader},
    net::TcpStream,
    time::timeout,
};

use super::{Answerer, LONGEST_QUERY, own_address};
use crate::{drain::Tasks, egress::Endpoint, listener::Listener};

/// How long a connection may wait for its next query (RFC 7766 section 6.2.3).
const IDLE: Duration = Duration::from_secs(10);

/// Open connections of one listener.
const CONNECTIONS: usize = 1000;

/// Open connections of one client: it has UDP, and one connection carries any number of queries.
const CONNECTIONS_PER_CLIENT: usize = 64;

/// Answers connections until the drain begins.
pub(super) async fn serve(listener: Listener, answerer: Arc<Answerer>, tasks: Tasks) {
    let places = Arc::new(Places::default());
    let accepting = tasks.clone();
    listener
        .run(accepting, move |accepted| {
            let from = Endpoint {
                peer: accepted.peer.ip(),
                local: accepted.local.ip(),
            };
            // Strangers take no place; over a limit the connection is dropped, which closes it.
            let Some(connection) = answerer.authorizer.admit_queries(from) else {
                return;
            };
            if let Some(place) = Places::take(&places, from.peer) {
                let answerer = Arc::clone(&answerer);
                let stopping = tasks.stopping().clone();
                tasks.spawn(async move {
                    stopping
                        .run_until_cancelled(converse(accepted.stream, from, &answerer))
                        .await;
                    drop((place, connection));
                });
            }
        })
        .await;
}

/// Answers one connection's queries until it is idle, closed, or asks what has no answer.
async fn converse(stream: TcpStream, from: Endpoint, answerer: &Answerer) {
    let ours = own_address(from.local);
    let deadline = answerer.authorizer.limits().header_timeout;
    let mut stream = BufReader::new(stream);
    while let Ok(Some(message)) = read_message(&mut stream, deadline).await {
        let Some(answer) = answerer.answer(&message, from, ours) else {
            return;
        };
        let sent = timeout(deadline, send(&mut stream, &answer)).await;
        if !matches!(sent, Ok(Ok(()))) {
            return;
        }
    }
}

/// Reads one message after its length (RFC 1035 section 4.2.2), `deadline` after its first octet
/// at the latest. None at the end, also when it is longer than any query.
async fn read_message(
    stream: &mut BufReader<TcpStream>,
    deadline: Duration,
) -> io::Result<Option<Vec<u8>>> {
    let first = timeout(IDLE, stream.read_u8()).await??;
    let rest = async {
        let length = u16::from_be_bytes([first, stream.read_u8().await?]);
        let length = usize::from(length);
        if length > LONGEST_QUERY {
            return Ok(None);
        }
        let mut message = vec![0; length];
        stream.read_exact(&mut message).await?;
        Ok(Some(message))
    };
    timeout(deadline, rest).await?
}

async fn send(stream: &mut BufReader<TcpStream>, answer: &[u8]) -> io::Result<()> {
    let length = u16::try_from(answer.len()).map_err(io::Error::other)?;
    let mut message = length.to_be_bytes().to_vec();
    message.extend_from_slice(answer);
    stream.write_all(&message).await
}

/// Counts open connections, so that idle ones of one client leave room for others.
#[derive(Debug, Default)]
struct Places {
    open: Mutex<Open>,
}

#[derive(Debug, Default)]
struct Open {
    all: usize,
    of_client: HashMap<IpAddr, usize>,
}

/// One connection's place, given back when dropped.
#[derive(Debug)]
struct Place {
    places: Arc<Places>,
    client: IpAddr,
}

impl Places {
    fn take(places: &Arc<Self>, client: IpAddr) -> Option<Place> {
        let mut open = places.open.lock().unwrap_or_else(PoisonError::into_inner);
        let of_client = open.of_client.get(&client).copied().unwrap_or(0);
        if open.all >= CONNECTIONS || of_client >= CONNECTIONS_PER_CLIENT {
            return None;
        }
        open.all += 1;
        open.of_client.insert(client, of_client + 1);
        drop(open);
        Some(Place {
            places: Arc::clone(places),
            client,
        })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut open = self
            .places
            .open
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        open.all = open.all.saturating_sub(1);
        if let Some(of_client) = open.of_client.get_mut(&self.client) {
            *of_client = of_client.saturating_sub(1);
            if *of_client == 0 {
                open.of_client.remove(&self.client);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_client_cannot_take_every_place() {
        let places = Arc::new(Places::default());
        let client = |last| IpAddr::from([192, 0, 2, last]);
        let take = |last| Places::take(&places, client(last));
        let mut taken: Vec<Place> = (0..CONNECTIONS_PER_CLIENT)
            .filter_map(|_| take(1))
            .collect();
        assert_eq!(taken.len(), CONNECTIONS_PER_CLIENT);
        assert!(take(1).is_none() && take(2).is_some());
        taken.pop();
        assert!(take(1).is_some());
        let more = (3..=255).flat_map(|last| [last; 8]);
        taken.extend(more.filter_map(take));
        assert_eq!(taken.len(), CONNECTIONS);
        assert!(take(2).is_none());
        taken.clear();
        assert!(places.open.lock().unwrap().of_client.is_empty());
        assert!(take(2).is_some());
    }
}
