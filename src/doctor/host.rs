//! The host's side of the probes: its addresses, and a listener that nobody in a sandbox must reach.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::net::{TcpListener, UdpSocket};

use crate::{drain::Tasks, listener::interfaces, resolver};

/// A listener on every address of this host, by TCP and by UDP, that answers everybody and counts.
pub(super) struct Bait {
    /// Its ports, by TCP and by UDP.
    pub(super) ports: (u16, u16),
    arrivals: Arc<AtomicU64>,
    tasks: Tasks,
}

/// How long its tasks may take to end.
const END: Duration = Duration::from_millis(100);

impl Bait {
    pub(super) async fn lay() -> io::Result<Self> {
        // An IPv6 wildcard serves IPv4 too (ipv6(7)).
        let all = SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0));
        let ipv4 = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
        let (stream, datagram) = match TcpListener::bind(all).await {
            Ok(stream) => (stream, UdpSocket::bind(all).await?),
            Err(_) => (TcpListener::bind(ipv4).await?, UdpSocket::bind(ipv4).await?),
        };
        let bait = Self {
            ports: (stream.local_addr()?.port(), datagram.local_addr()?.port()),
            arrivals: Arc::default(),
            tasks: Tasks::new(),
        };
        bait.serve(stream, datagram);
        Ok(bait)
    }

    fn serve(&self, stream: TcpListener, datagram: UdpSocket) {
        let stopping = self.tasks.stopping().clone();
        let arrivals = Arc::clone(&self.arrivals);
        self.tasks.spawn(async move {
            let count = || arrivals.fetch_add(1, Ordering::Relaxed);
            let mut question = [0; 64];
            loop {
                tokio::select! {
                    () = stopping.cancelled() => return,
                    taken = stream.accept() => if taken.is_ok() { count(); },
                    received = datagram.recv_from(&mut question) => if let Ok((length, from)) = received {
                        count();
                        let answer = question.get(..length).unwrap_or_default();
                        // Who asked and did not wait is counted all the same.
                        datagram.send_to(answer, from).await.ok();
                    },
                }
            }
        });
    }

    /// Ends it, and says how often it was reached.
    pub(super) async fn lift(self) -> u64 {
        self.tasks.drain(END).await;
        self.arrivals.load(Ordering::Relaxed)
    }
}

/// The addresses of this host by which others could reach it, and its link-local ones of IPv6.
pub(super) fn addresses() -> io::Result<(Vec<IpAddr>, Vec<IpAddr>)> {
    let interfaces = interfaces::read()?;
    let all = interfaces.iter().map(|interface| interface.network.addr());
    let mut all: Vec<IpAddr> = all.filter(|address| !address.is_loopback()).collect();
    all.sort_unstable();
    all.dedup();
    Ok(all
        .into_iter()
        .partition(|address| !is_link_local(*address)))
}

fn is_link_local(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(_) => false,
        IpAddr::V6(address) => address.is_unicast_link_local(),
    }
}

/// The name servers of this host that are not on its loopback.
pub(super) fn name_servers() -> Vec<SocketAddr> {
    let mut servers = resolver::name_servers().unwrap_or_default();
    servers.retain(|server| !server.ip().is_loopback());
    servers
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt as _;

    use super::*;

    #[tokio::test]
    async fn bait_answers_and_counts() {
        let bait = Bait::lay().await.unwrap();
        let (by_tcp, by_udp) = bait.ports;
        #[expect(clippy::disallowed_methods, reason = "a test dials its own listener")]
        let mut stream = tokio::net::TcpStream::connect(("127.0.0.1", by_tcp))
            .await
            .unwrap();
        assert_eq!(stream.read(&mut [0]).await.unwrap(), 0);
        let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        socket.send_to(b"x", ("127.0.0.1", by_udp)).await.unwrap();
        let mut answer = [0; 8];
        let (length, _) = socket.recv_from(&mut answer).await.unwrap();
        assert_eq!(&answer[..length], b"x");
        assert_eq!(bait.lift().await, 2);
    }
}
