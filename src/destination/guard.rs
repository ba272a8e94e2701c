//! `AddressGuard::vet` turns an answer into `VettedAddrs`: one forbidden address refuses it all.

use std::{
    iter,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    sync::Arc,
};

use foldhash::HashSet;
use ipnet::{IpNet, Ipv6Net};

use super::{
    AddressClass, Destination,
    address::{canonical_range, classify, embedded_ipv4, nat64_ipv4},
};

/// The configured part of what no sandbox may reach; the rest is passed to `vet`.
#[derive(Clone, Debug, Default)]
pub struct AddressGuard {
    /// Ranges added to the built-in table (`addresses.blocked`).
    pub blocked: Vec<IpNet>,
    /// More addresses of this host (`addresses.own`).
    pub own: Vec<IpAddr>,
    /// NAT64 prefixes of this site (`addresses.nat64`, RFC 6052), whose IPv4 part is judged.
    pub nat64: Vec<Ipv6Net>,
}

/// One address of one interface of this host, as read when vetting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InterfaceAddress {
    /// The interface's index (RFC 3493 section 4).
    pub index: u32,
    /// The address and its subnet.
    pub network: IpNet,
    /// Whether the interface faces sandboxes: it holds no default route.
    pub sandbox_side: bool,
}

/// What is ours at this moment, so that no sandbox reaches us or its neighbours through us.
#[derive(Clone, Debug, Default)]
pub struct Surroundings {
    /// Every address of our interfaces.
    pub interfaces: Arc<[InterfaceAddress]>,
    /// Every `[[clients]]` range.
    pub clients: Arc<[IpNet]>,
    /// Every source registered for a run.
    pub sources: Arc<HashSet<IpAddr>>,
    /// The sockets that we listen on; an unspecified address stands for every address of ours.
    pub listeners: Arc<[SocketAddr]>,
}

/// Addresses that were all judged fit to dial, with the destination's port: never empty.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct VettedAddrs(Box<[SocketAddr]>);

/// Why an answer was refused: one address in it and the rule that forbids it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{address} is {why}")]
pub struct BlockedAddress {
    /// The first forbidden address of the answer.
    pub address: IpAddr,
    /// What the address is, as a fragment for people: `private use (RFC 1918)`.
    pub why: &'static str,
    /// Whether dialling it would reach one of our own listening sockets.
    pub is_loop: bool,
}

impl AddressGuard {
    /// Judges the whole `answer` for `destination`. `exceptions` are the blocked ranges that the
    /// matched rule opens for this host; they never open a cloud control address nor a socket
    /// that we listen on.
    ///
    /// # Errors
    /// The first forbidden address; an empty answer is refused as if it were the unspecified
    /// address.
    pub fn vet(
        &self,
        surroundings: &Surroundings,
        destination: &Destination,
        answer: &[IpAddr],
        exceptions: &[IpNet],
    ) -> Result<VettedAddrs, BlockedAddress> {
        let mut vetted = Vec::with_capacity(answer.len());
        // Security: vet the whole answer; a connection may try any address in it.
        for address in answer {
            // Security: unwrapped before anything is compared, so that a v4-mapped spelling
            // escapes no range, and dialled unwrapped, so that what was judged is what is tried.
            let socket = SocketAddr::new(address.to_canonical(), destination.port);
            // The resolver takes few enough addresses that a list is quicker than a set.
            if !vetted.contains(&socket) {
                self.judge(surroundings, socket, exceptions)?;
                vetted.push(socket);
            }
        }
        if vetted.is_empty() {
            return Err(BlockedAddress {
                address: Ipv4Addr::UNSPECIFIED.into(),
                why: "all that an empty answer comes to",
                is_loop: false,
            });
        }
        Ok(VettedAddrs(vetted.into()))
    }

    fn judge(
        &self,
        surroundings: &Surroundings,
        socket: SocketAddr,
        exceptions: &[IpNet],
    ) -> Result<(), BlockedAddress> {
        let address = socket.ip();
        let blocked = |why, is_loop| BlockedAddress {
            address,
            why,
            is_loop,
        };
        let class = classify(address, &self.nat64);
        if let AddressClass::Metadata(why) = class {
            return Err(blocked(why, false));
        }
        // Security: what is ours stays ours behind a translator or a tunnel.
        let forms = || iter::once(address).chain(embedded_ipv4(address, &self.nat64));
        let reached = |form| SocketAddr::new(form, socket.port());
        if forms().any(|form| self.is_listener(surroundings, reached(form))) {
            return Err(blocked("a socket that this proxy listens on", true));
        }
        let forbidden = forms()
            .find_map(|form| self.forbidden_range(surroundings, form))
            .or(match class {
                AddressClass::Special(why) | AddressClass::Metadata(why) => Some(why),
                AddressClass::Public => None,
            });
        match forbidden {
            Some(why) if !self.is_excepted(address, exceptions) => Err(blocked(why, false)),
            Some(_) | None => Ok(()),
        }
    }

    /// An exception for an IPv4 range also covers what the site's own NAT64 makes of it; every
    /// other embedding has to be named as the IPv6 range that it is.
    fn is_excepted(&self, address: IpAddr, exceptions: &[IpNet]) -> bool {
        iter::once(address)
            .chain(nat64_ipv4(address, &self.nat64))
            .any(|form| exceptions.iter().any(|range| holds(range, form)))
    }

    /// Whether a connection to `socket` ends at one of our own listening sockets.
    fn is_listener(&self, surroundings: &Surroundings, socket: SocketAddr) -> bool {
        let reached = socket.ip();
        surroundings.listeners.iter().any(|listener| {
            let bound = listener.ip().to_canonical();
            listener.port() == socket.port()
                && (bound == reached
                    || (bound.is_unspecified() && self.is_this_host(surroundings, reached))
                    // A connection to the unspecified address goes to loopback.
                    || (reached.is_unspecified() && bound.is_loopback()))
        })
    }

    fn is_this_host(&self, surroundings: &Surroundings, address: IpAddr) -> bool {
        address.is_loopback()
            || address.is_unspecified()
            || self.is_own(address)
            || surroundings.holds_interface(address)
    }

    fn is_own(&self, address: IpAddr) -> bool {
        self.own.iter().any(|own| own.to_canonical() == address)
    }

    /// What is ours or configured as blocked, apart from the class of the address.
    fn forbidden_range(&self, ours: &Surroundings, address: IpAddr) -> Option<&'static str> {
        let in_sandbox_subnet = || {
            ours.interfaces
                .iter()
                .any(|one| one.sandbox_side && holds(&one.network, address))
        };
        let checks: [(&dyn Fn() -> bool, &'static str); 6] = [
            (&|| ours.holds_interface(address), "an address of this host"),
            (&in_sandbox_subnet, "in a subnet of the sandbox side"),
            (
                &|| ours.clients.iter().any(|range| holds(range, address)),
                "in a range of [[clients]]",
            ),
            (&|| ours.holds_source(address), "a sandbox's address"),
            (&|| self.is_own(address), "in addresses.own"),
            (
                &|| self.blocked.iter().any(|range| holds(range, address)),
                "in addresses.blocked",
            ),
        ];
        checks
            .into_iter()
            .find(|(is_forbidden, _)| is_forbidden())
            .map(|(_, why)| why)
    }
}

impl Surroundings {
    fn holds_interface(&self, address: IpAddr) -> bool {
        self.interfaces
            .iter()
            .any(|one| one.network.addr().to_canonical() == address)
    }

    fn holds_source(&self, address: IpAddr) -> bool {
        self.sources.contains(&address)
            || match address {
                // A source that came in on a dual-stack socket may be kept in its mapped form.
                IpAddr::V4(v4) => self.sources.contains(&v4.to_ipv6_mapped().into()),
                IpAddr::V6(_) => false,
            }
    }
}

fn holds(range: &IpNet, address: IpAddr) -> bool {
    canonical_range(*range).contains(&address)
}

impl VettedAddrs {
    /// The addresses, in the order in which the answer gave them.
    pub fn as_slice(&self) -> &[SocketAddr] {
        &self.0
    }

    /// Whether `peer` is one of them.
    pub fn contains(&self, peer: SocketAddr) -> bool {
        self.0.contains(&peer)
    }
}

#[cfg(test)]
mod tests;
