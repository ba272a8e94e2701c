//! Queries in datagrams. Each is answered from the address that it was sent to (RFC 2181 section
//! 4.1), on the task that read it: judging never waits.

use std::{
    io::{self, IoSliceMut},
    net::{IpAddr, Ipv4Addr, SocketAddr},
    time::Duration,
};

use quinn_udp::{BATCH_SIZE, RecvMeta, Transmit, UdpSocketState};
use socket2::{Domain, Protocol, Socket, Type};
use tokio::{io::Interest, net::UdpSocket, task::yield_now};

use super::{LONGEST_QUERY, own_address};
use crate::{
    drain::Tasks,
    egress::Endpoint,
    listener::interfaces::{self, Arrival},
};

/// Room for the datagrams that the kernel hands over as one (UDP GRO).
const BUFFER: usize = 65536;

/// How long to wait after the kernel could not hand over a datagram.
const RECEIVE_BACKOFF: Duration = Duration::from_millis(10);

/// How many datagrams are answered before others have their turn: a flood comes as fast as it is
/// read, and would hold the thread of whoever waits behind it.
const TURN: usize = 32;

/// A bound UDP socket that tells where each datagram came in.
#[derive(Debug)]
pub(super) struct UdpEnd {
    socket: UdpSocket,
    state: UdpSocketState,
    bound: SocketAddr,
    serves_uplink: bool,
}

impl UdpEnd {
    /// Like `Listener::bind`: `0.0.0.0` and `[::]` can both be bound to one port.
    pub(super) fn bind(address: SocketAddr, serves_uplink: bool) -> io::Result<Self> {
        let kind = Type::DGRAM.nonblocking();
        let socket = Socket::new(Domain::for_address(address), kind, Some(Protocol::UDP))?;
        if address.is_ipv6() {
            socket.set_only_v6(true)?;
        }
        socket.bind(&address.into())?;
        Ok(Self {
            state: UdpSocketState::new((&socket).into())?,
            socket: UdpSocket::from_std(socket.into())?,
            bound: address,
            serves_uplink,
        })
    }

    /// Sends `answer` back to where a datagram came from; what cannot be sent now is lost, as
    /// datagrams are, and asked for again.
    fn send(&self, answer: &[u8], to: &RecvMeta) {
        let transmit = Transmit {
            destination: to.addr,
            ecn: None,
            contents: answer,
            segment_size: None,
            src_ip: to.dst_ip,
        };
        let sent = self.socket.try_io(Interest::WRITABLE, || {
            self.state.try_send((&self.socket).into(), &transmit)
        });
        if let Err(error) = sent {
            tracing::debug!(client = %to.addr, %error, "cannot send a DNS answer");
        }
    }
}

/// Answers datagrams as `answer` says until the drain begins.
pub(super) async fn serve<A>(end: UdpEnd, answer: A, tasks: Tasks)
where
    A: Fn(&[u8], Endpoint, Option<Ipv4Addr>) -> Option<Vec<u8>>,
{
    let mut memory = vec![0; BATCH_SIZE * BUFFER];
    let mut buffers: Vec<IoSliceMut<'_>> = memory.chunks_mut(BUFFER).map(IoSliceMut::new).collect();
    let mut arrived = [RecvMeta::default(); BATCH_SIZE];
    let mut turn = 0;
    loop {
        let readable = tokio::select! {
            () = tasks.stopping().cancelled() => return,
            readable = end.socket.readable() => readable,
        };
        let received = readable.and_then(|()| {
            end.socket.try_io(Interest::READABLE, || {
                let socket = (&end.socket).into();
                end.state.recv(socket, &mut buffers, &mut arrived)
            })
        });
        match received {
            Ok(count) => {
                for (meta, buffer) in arrived.iter().zip(&buffers).take(count) {
                    let datagrams = buffer.get(..meta.len).unwrap_or_default();
                    answer_all(&end, &answer, meta, datagrams);
                    turn += datagrams_in(meta);
                    if turn >= TURN {
                        turn = 0;
                        yield_now().await;
                    }
                }
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => {
                tracing::warn!(listener = %end.bound, %error, "cannot receive DNS queries");
                tokio::time::sleep(RECEIVE_BACKOFF).await;
            }
        }
    }
}

/// Answers the datagrams of one buffer, which came from one client to one address of ours.
fn answer_all<A>(end: &UdpEnd, answer: &A, meta: &RecvMeta, datagrams: &[u8])
where
    A: Fn(&[u8], Endpoint, Option<Ipv4Addr>) -> Option<Vec<u8>>,
{
    let Some(local) = meta.dst_ip.map(|address| address.to_canonical()) else {
        return;
    };
    let arrival = Arrival {
        local,
        interface: meta.interface_index,
    };
    // Security: a wildcard socket also hears the uplink, whose hosts are no clients of ours.
    if !interfaces::serves(end.bound.ip(), arrival, end.serves_uplink) {
        return;
    }
    // Nobody can be answered at port 0, nor from an address that many hosts have.
    if meta.addr.port() == 0 || local.is_multicast() || local == IpAddr::V4(Ipv4Addr::BROADCAST) {
        return;
    }
    let ours = own_address(local);
    let from = Endpoint {
        peer: meta.addr.ip().to_canonical(),
        local,
    };
    for datagram in datagrams.chunks(meta.stride.max(1)) {
        if datagram.len() > LONGEST_QUERY {
            continue;
        }
        if let Some(answer) = answer(datagram, from, ours) {
            end.send(&answer, meta);
        }
    }
}

/// How many datagrams one buffer holds; an empty one has its part in a turn as well.
fn datagrams_in(meta: &RecvMeta) -> usize {
    meta.len.div_ceil(meta.stride.max(1)).max(1)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn every_datagram_counts() {
        for (len, stride, expected) in [(0, 0, 1), (5, 5, 1), (11, 5, 3)] {
            let mut meta = RecvMeta::default();
            (meta.len, meta.stride) = (len, stride);
            assert_eq!(datagrams_in(&meta), expected, "{len} {stride}");
        }
    }

    #[tokio::test]
    async fn a_flood_is_answered_in_turns() {
        const FLOOD: usize = 4 * TURN;
        let end = UdpEnd::bind("127.0.0.1:0".parse().unwrap(), false).unwrap();
        let server = end.socket.local_addr().unwrap();
        let flooder = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        for _ in 0..FLOOD {
            flooder.send_to(b"query", server).unwrap();
        }
        let answered = AtomicUsize::new(0);
        let answer = |_: &[u8], _, _| {
            answered.fetch_add(1, Ordering::Relaxed);
            None
        };
        let tasks = Tasks::new();
        let waiting = async {
            let (mut seen, mut most) = (0, 0);
            while seen < FLOOD {
                yield_now().await;
                let now = answered.load(Ordering::Relaxed);
                most = most.max(now - seen);
                seen = now;
            }
            tasks.stopping().cancel();
            most
        };
        let served = serve(end, answer, tasks.clone());
        let both = async { tokio::join!(waiting, served) };
        let both = tokio::time::timeout(Duration::from_secs(20), both).await;
        let (most, ()) = both.unwrap();
        // Whoever waits may come before one turn and behind the next.
        assert!(most <= 2 * TURN, "{most} of {FLOOD} in one turn");
    }
}
