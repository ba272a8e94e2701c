//! Our DNS server: UDP and TCP, and no upstream at all.

pub mod handler;

mod tcp;
mod udp;

use std::{
    io,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use self::udp::UdpEnd;
use crate::{
    config,
    destination::guard::InterfaceAddress,
    drain::Tasks,
    egress::{Authorizer, Endpoint},
    listener::{Listener, interfaces},
};

/// The longest query that is read: a name, an OPT record and plenty of padding (RFC 8467).
const LONGEST_QUERY: usize = 4096;

/// How often a port that is free for TCP may be taken for UDP before a bind to port 0 fails.
const BIND_ATTEMPTS: u32 = 16;

/// A DNS server bound to one address, UDP and TCP on the same port.
#[derive(Debug)]
pub struct DnsServer {
    local: SocketAddr,
    udp: UdpEnd,
    tcp: Listener,
    settings: config::Dns,
}

/// What both transports answer from.
struct Answerer {
    authorizer: Arc<Authorizer>,
    settings: config::Dns,
}

impl DnsServer {
    /// Binds UDP and TCP; for port 0 both get the port that the kernel chose. A wildcard address
    /// serves interfaces with a default route only when `serves_uplink` is set.
    pub fn bind(
        address: SocketAddr,
        settings: &config::Dns,
        serves_uplink: bool,
    ) -> io::Result<Self> {
        let mut attempt = 1;
        loop {
            let tcp = Listener::bind(address, serves_uplink)?;
            let local = tcp.local_addr()?;
            match UdpEnd::bind(local, serves_uplink) {
                Ok(udp) => {
                    return Ok(Self {
                        local,
                        udp,
                        tcp,
                        settings: settings.clone(),
                    });
                }
                Err(error)
                    if error.kind() == io::ErrorKind::AddrInUse
                        && address.port() == 0
                        && attempt < BIND_ATTEMPTS =>
                {
                    attempt += 1;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// The bound address.
    pub fn local_addr(&self) -> SocketAddr {
        self.local
    }

    /// Serves until the drain begins.
    pub async fn run(self, authorizer: Arc<Authorizer>, tasks: Tasks) {
        let answerer = Arc::new(Answerer {
            authorizer,
            settings: self.settings,
        });
        let of_datagrams = Arc::clone(&answerer);
        let answer = move |message: &[u8], from, ours| of_datagrams.answer(message, from, ours);
        tasks.spawn(udp::serve(self.udp, answer, tasks.clone()));
        tcp::serve(self.tcp, answerer, tasks).await;
    }
}

impl Answerer {
    /// Answers one message. A panic costs this answer and no more: the task that called goes on
    /// to answer others.
    fn answer(&self, message: &[u8], from: Endpoint, ours: Option<Ipv4Addr>) -> Option<Vec<u8>> {
        let answer = || {
            handler::respond(
                message,
                &self.settings,
                ours,
                |name| self.authorizer.judge_query(from, name),
                |query| self.authorizer.record_query(&query),
            )
        };
        catch_unwind(AssertUnwindSafe(answer)).unwrap_or_else(|_| {
            tracing::error!(client = %from.peer, "answering a query panicked");
            None
        })
    }
}

/// Our IPv4 address as a client sees it that speaks to `local`: for IPv6 the first one of the same
/// interface.
fn own_address(local: IpAddr) -> Option<Ipv4Addr> {
    match local {
        IpAddr::V4(address) => Some(address),
        IpAddr::V6(_) => beside(local, &interfaces::read().ok()?),
    }
}

fn beside(local: IpAddr, interfaces: &[InterfaceAddress]) -> Option<Ipv4Addr> {
    let index = interfaces
        .iter()
        .find(|one| one.network.addr() == local)?
        .index;
    interfaces
        .iter()
        .filter(|one| one.index == index)
        .find_map(|one| match one.network.addr() {
            IpAddr::V4(address) => Some(address),
            IpAddr::V6(_) => None,
        })
}

#[cfg(test)]
mod tests;
