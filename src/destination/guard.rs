//! `AddressGuard::vet` turns an answer into `VettedAddrs`: one forbidden address refuses it all.

use std::{
    collections::HashSet,
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

use ipnet::{IpNet, Ipv6Net};

use super::Destination;

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
pub struct VettedAddrs(Arc<[SocketAddr]>);

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
    /// The first forbidden address; an empty answer is refused by the resolver before this.
    pub fn vet(
        &self,
        surroundings: &Surroundings,
        destination: &Destination,
        answer: &[IpAddr],
        exceptions: &[IpNet],
    ) -> Result<VettedAddrs, BlockedAddress> {
        let _ = (surroundings, destination, answer, exceptions);
        todo!()
    }
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
