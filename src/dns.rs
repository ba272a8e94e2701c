//! Our DNS server: UDP and TCP, and no upstream at all.

pub mod handler;

use std::{io, net::SocketAddr, sync::Arc};

use crate::{config, drain::Tasks, egress::Authorizer};

/// A DNS server bound to one address, UDP and TCP on the same port.
#[derive(Debug)]
pub struct DnsServer {
    local: SocketAddr,
}

impl DnsServer {
    /// Binds UDP and TCP; for port 0 both get the port that the kernel chose.
    pub fn bind(
        address: SocketAddr,
        settings: &config::Dns,
        serves_uplink: bool,
    ) -> io::Result<Self> {
        let _ = (address, settings, serves_uplink);
        todo!()
    }

    /// The bound address.
    pub fn local_addr(&self) -> SocketAddr {
        self.local
    }

    /// Serves until the drain begins.
    pub async fn run(self, authorizer: Arc<Authorizer>, tasks: Tasks) {
        let _ = (authorizer, tasks);
        todo!()
    }
}
