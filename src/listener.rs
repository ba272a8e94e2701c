//! Accepts connections: survives descriptor exhaustion, and serves a wildcard listener on the
//! sandbox side only.

pub mod interfaces;

use std::{
    io,
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use rustix::io::Errno;
use socket2::{Domain, Protocol, SockRef, Socket, Type};
use tokio::{
    net::{TcpListener, TcpStream},
    time::Instant,
};

use self::interfaces::Arrival;
use crate::{
    drain::Tasks,
    workers::{self, Worker},
};

/// Connections that the kernel completes for each listener while its accept loop is busy; it cuts
/// this to `net.core.somaxconn`.
const BACKLOG: i32 = 4096;

/// How long accepting rests when descriptors or memory are used up.
const BACKOFF: Duration = Duration::from_millis(50);

/// Failures that are closer together than this are one burst, and are logged once.
const BURST: Duration = Duration::from_secs(10);

/// A bound TCP listener.
#[derive(Debug)]
pub struct Listener {
    socket: TcpListener,
    bound: IpAddr,
    serves_uplink: bool,
}

/// An accepted connection.
#[derive(Debug)]
pub struct Accepted {
    /// The connection, `TCP_NODELAY` set.
    pub stream: TcpStream,
    /// The client, v4-mapped unwrapped.
    pub peer: SocketAddr,
    /// The local address that it came in on, v4-mapped unwrapped.
    pub local: SocketAddr,
    /// When it was accepted.
    pub at: Instant,
}

impl Accepted {
    /// The same, its news told to the runtime of `worker` instead of the one that accepted it.
    pub fn moved_to(self, worker: &Worker) -> io::Result<Self> {
        let _inside = worker.runtime().enter();
        let stream = workers::adopted(self.stream)?;
        Ok(Self { stream, ..self })
    }
}

impl Listener {
    /// Binds `address`; a wildcard one serves interfaces with a default route only when
    /// `serves_uplink` is set. `0.0.0.0` and `[::]` can both be bound to one port. To be called
    /// within a runtime.
    pub fn bind(address: SocketAddr, serves_uplink: bool) -> io::Result<Self> {
        Self::open(address, serves_uplink, false)
    }

    /// Binds `address` for each of `workers`, among which the kernel spreads what comes in
    /// (`SO_REUSEPORT` of socket(7)), and gives it with the port that the kernel chose for port 0.
    /// Where the kernel cannot, as gVisor's, the first alone accepts.
    ///
    /// An address that another process has is an error. Later on, another one of the same user that
    /// also asks to share it takes part of what comes in.
    pub fn bind_each(
        address: SocketAddr,
        serves_uplink: bool,
        workers: &[Arc<Worker>],
    ) -> io::Result<(SocketAddr, Vec<Self>)> {
        let Some((first, others)) = workers.split_first() else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        let at = |worker: &Worker, address, shares| {
            let _inside = worker.runtime().enter();
            Self::open(address, serves_uplink, shares)
        };
        let first = at(first, address, false)?;
        let address = first.local_addr()?;
        let further: io::Result<Vec<Self>> = SockRef::from(&first.socket)
            .set_reuse_port(true)
            .and_then(|()| {
                others
                    .iter()
                    .map(|worker| at(worker, address, true))
                    .collect()
            });
        let further = further.unwrap_or_else(|error| {
            tracing::warn!(%address, %error, "one thread accepts for all");
            Vec::new()
        });
        Ok((address, std::iter::once(first).chain(further).collect()))
    }

    fn open(address: SocketAddr, serves_uplink: bool, shares: bool) -> io::Result<Self> {
        let kind = Type::STREAM.nonblocking();
        let socket = Socket::new(Domain::for_address(address), kind, Some(Protocol::TCP))?;
        socket.set_reuse_address(true)?;
        if shares {
            socket.set_reuse_port(true)?;
        }
        if address.is_ipv6() {
            socket.set_only_v6(true)?;
        }
        socket.bind(&address.into())?;
        // What is accepted inherits it.
        socket.set_tcp_nodelay(true)?;
        socket.listen(BACKLOG)?;
        Ok(Self {
            socket: TcpListener::from_std(socket.into())?,
            bound: address.ip(),
            serves_uplink,
        })
    }

    /// The bound address, with the port that the kernel chose for port 0.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// Accepts until the drain begins, handing each connection to `serve` (which spawns on
    /// `tasks` itself). Errors of accept back off and are logged, never end the loop. At the end
    /// the socket is closed, so that new connections are refused.
    pub async fn run(self, tasks: Tasks, serve: impl Fn(Accepted)) {
        let mut failed_at = None;
        while let Some(accepted) = tasks
            .stopping()
            .run_until_cancelled(self.socket.accept())
            .await
        {
            match accepted {
                Ok((stream, peer)) => {
                    if let Some(accepted) = self.receive(stream, peer) {
                        serve(accepted);
                    }
                }
                Err(error) if concerns_one_connection(&error) => {
                    tracing::debug!(%error, "connection lost before it was accepted");
                }
                Err(error) => {
                    log_once_per_burst(&error, &mut failed_at);
                    let rest = tokio::time::sleep(BACKOFF);
                    // Cancelled or not, the loop's own condition decides.
                    tasks.stopping().run_until_cancelled(rest).await;
                }
            }
        }
    }

    /// Makes a connection ready to be served, unless it is not for this listener to serve.
    fn receive(&self, stream: TcpStream, peer: SocketAddr) -> Option<Accepted> {
        let at = Instant::now();
        // A client that is gone already leaves a socket of which this can fail.
        let local = canonical(stream.local_addr().ok()?);
        let arrival = Arrival {
            local: local.ip(),
            interface: None,
        };
        // Security: strangers on the uplink are sent away before a byte of theirs is read.
        if !interfaces::serves(self.bound, arrival, self.serves_uplink) {
            tracing::debug!(%peer, %local, "connection from the uplink reset");
            if let Err(error) = stream.set_zero_linger() {
                tracing::debug!(%error, "connection closed instead of reset");
            }
            return None;
        }
        Some(Accepted {
            stream,
            peer: canonical(peer),
            local,
            at,
        })
    }
}

fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

/// Errors that accept(2) passes on from the connection that it would have returned, or that a
/// signal or a firewall caused: the next call may well succeed.
fn concerns_one_connection(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error().map(Errno::from_raw_os_error),
        Some(
            Errno::CONNABORTED
                | Errno::CONNRESET
                | Errno::INTR
                | Errno::PERM
                | Errno::PROTO
                | Errno::NOPROTOOPT
                | Errno::OPNOTSUPP
                | Errno::NETDOWN
                | Errno::NETUNREACH
                | Errno::HOSTDOWN
                | Errno::HOSTUNREACH
                | Errno::NONET
        )
    )
}

fn log_once_per_burst(error: &io::Error, failed_at: &mut Option<Instant>) {
    let now = Instant::now();
    if failed_at.is_none_or(|at| now - at > BURST) {
        tracing::warn!(%error, "cannot accept connections for now");
    }
    *failed_at = Some(now);
}

#[cfg(test)]
mod tests;
