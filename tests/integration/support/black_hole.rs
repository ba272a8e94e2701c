//! An origin that answers nothing, not even a SYN.

use std::{
    net::{Ipv4Addr, SocketAddr, TcpStream},
    time::Duration,
};

use socket2::{Domain, Socket, Type};

use super::unique_loopback;

/// An address at whose port 443 every SYN is dropped.
pub struct BlackHole {
    /// Where it is.
    pub address: Ipv4Addr,
    _full: (Socket, Vec<TcpStream>),
}

impl BlackHole {
    #[expect(clippy::disallowed_methods, reason = "the test fills its own backlog")]
    /// Opens one: a full backlog drops the SYN.
    pub fn open() -> Self {
        let address = unique_loopback();
        let at = SocketAddr::from((address, 443));
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        socket.bind(&at.into()).unwrap();
        socket.listen(0).unwrap();
        let mut held = Vec::new();
        while let Ok(stream) = TcpStream::connect_timeout(&at, Duration::from_millis(300)) {
            held.push(stream);
            assert!(held.len() < 64, "the backlog does not fill");
        }
        Self {
            address,
            _full: (socket, held),
        }
    }
}
