//! Accepts connections: survives descriptor exhaustion, and serves a wildcard listener on the
//! sandbox side only.

pub mod interfaces;

use std::{io, net::SocketAddr};

use tokio::net::TcpStream;

use crate::drain::Tasks;

/// A bound TCP listener.
#[derive(Debug)]
pub struct Listener {
    socket: tokio::net::TcpListener,
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
    pub at: tokio::time::Instant,
}

impl Listener {
    /// Binds `address`; a wildcard one serves interfaces with a default route only when
    /// `serves_uplink` is set.
    pub fn bind(address: SocketAddr, serves_uplink: bool) -> io::Result<Self> {
        let _ = (address, serves_uplink);
        todo!()
    }

    /// The bound address, with the port that the kernel chose for port 0.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// Accepts until the drain begins, handing each connection to `serve` (which spawns on
    /// `tasks` itself). Errors of accept back off and are logged, never end the loop.
    pub async fn run(self, tasks: Tasks, serve: impl Fn(Accepted)) {
        let _ = (tasks, serve, self.serves_uplink);
        todo!()
    }
}
