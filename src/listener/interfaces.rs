//! This host's interfaces, their addresses, and which of them face the uplink, as of now.

mod changes;
mod routes;

use std::{
    collections::BTreeSet,
    io,
    net::IpAddr,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use ipnet::IpNet;
use tokio::time::Instant;

use self::changes::Changes;
pub use self::routes::{ipv4_gateways, ipv4_ranges};
use crate::destination::guard::InterfaceAddress;

/// How long a reading may stand without a word from the kernel: a bound for kernels that take a
/// subscription and then tell nothing.
const MAX_AGE: Duration = Duration::from_secs(1);

/// How often a reading that a change overtook is repeated.
const ATTEMPTS: usize = 4;

static READING: Mutex<Reading> = Mutex::new(Reading::NONE);

/// Every address of every interface. An interface that holds a default route (IPv4 or IPv6) faces
/// the uplink; loopback and every other one is the sandbox side.
///
/// The answer is as fresh as a reading made by this call, yet costs one system call while nothing
/// changes: the kernel queues word of a change at this process's socket before the call that made
/// the change returns.
///
/// # Errors
/// What the kernel says; the caller refuses, since it cannot know what is ours.
pub fn read() -> io::Result<Arc<[InterfaceAddress]>> {
    READING
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .current(Instant::now())
}

/// Where a connection or a datagram came in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// The local address that it was sent to, v4-mapped unwrapped.
    pub local: IpAddr,
    /// The index of the interface that it came in on, where the socket tells (datagrams).
    pub interface: Option<u32>,
}

/// Whether a listener bound to `bound` serves what came in at `arrival`. A listener bound to an
/// address serves it; a wildcard one serves the sandbox side and loopback, and the rest only where
/// `serves_uplink` is set. When the interfaces cannot be read, a wildcard listener serves nobody.
pub fn serves(bound: IpAddr, arrival: Arrival, serves_uplink: bool) -> bool {
    if serves_uplink || !bound.is_unspecified() {
        return true;
    }
    match read() {
        Ok(interfaces) => is_sandbox_side(&interfaces, arrival),
        Err(error) => {
            tracing::error!(%error, "cannot read this host's interfaces");
            false
        }
    }
}

/// Security: Linux answers for every local address on every interface (the weak host model of
/// RFC 1122 section 3.3.4.2), so where the interface is known it is judged besides the address.
fn is_sandbox_side(interfaces: &[InterfaceAddress], arrival: Arrival) -> bool {
    let all_sandbox_side = |is_meant: &dyn Fn(&InterfaceAddress) -> bool| {
        let mut meant = interfaces
            .iter()
            .filter(|address| is_meant(address))
            .peekable();
        meant.peek().is_some() && meant.all(|address| address.sandbox_side)
    };
    let local = arrival.local.to_canonical();
    let address_serves =
        local.is_loopback() || all_sandbox_side(&|address| address.network.addr() == local);
    let interface_serves = arrival
        .interface
        .is_none_or(|index| all_sandbox_side(&|address| address.index == index));
    address_serves && interface_serves
}

/// The last reading and the socket that says when it is out of date.
#[derive(Debug)]
struct Reading {
    changes: Option<Changes>,
    kept: Option<(Instant, Arc<[InterfaceAddress]>)>,
}

impl Reading {
    const NONE: Self = Self {
        changes: None,
        kept: None,
    };

    fn current(&mut self, now: Instant) -> io::Result<Arc<[InterfaceAddress]>> {
        if self.changes.is_none() {
            self.changes = Changes::subscribe()
                .inspect_err(|error| tracing::debug!(%error, "no word of interface changes"))
                .ok();
        }
        if self.changed() {
            self.kept = None;
        }
        if let Some((at, kept)) = &self.kept
            && now.saturating_duration_since(*at) < MAX_AGE
        {
            return Ok(Arc::clone(kept));
        }
        let mut fresh = read_now()?;
        for _ in 1..ATTEMPTS {
            if !self.changed() {
                self.kept = Some((now, Arc::clone(&fresh)));
                break;
            }
            // A reading that a change overtook may miss an address that was there all along.
            fresh = read_now()?;
        }
        Ok(fresh)
    }

    /// Whether something may have changed since this was asked last.
    fn changed(&self) -> bool {
        self.changes.as_ref().is_none_or(Changes::take)
    }
}

fn read_now() -> io::Result<Arc<[InterfaceAddress]>> {
    let uplinks = routes::uplinks()?;
    if_addrs::get_if_addrs()?
        .iter()
        .map(|interface| interface_address(interface, &uplinks))
        .collect()
}

fn interface_address(
    interface: &if_addrs::Interface,
    uplinks: &BTreeSet<String>,
) -> io::Result<InterfaceAddress> {
    let prefix = match &interface.addr {
        if_addrs::IfAddr::V4(address) => address.prefixlen,
        if_addrs::IfAddr::V6(address) => address.prefixlen,
    };
    let network = IpNet::new(interface.ip(), prefix)
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
    // An IPv4 address may bear a label, `eth0:1`, where the interface's name is expected.
    let name = interface.name.split(':').next().unwrap_or_default();
    Ok(InterfaceAddress {
        // RFC 3493 section 4.1: no interface has index 0. An address whose label hides its
        // interface is ours all the same, and its interface is not trusted.
        index: interface.index.unwrap_or(0),
        network,
        sandbox_side: interface.index.is_some() && !uplinks.contains(name),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(index: u32, network: &str, sandbox_side: bool) -> InterfaceAddress {
        InterfaceAddress {
            index,
            network: network.parse().unwrap(),
            sandbox_side,
        }
    }

    #[test]
    fn a_wildcard_listener_serves_the_sandbox_side_and_loopback_only() {
        let interfaces = [
            address(1, "127.0.0.1/8", true),
            address(1, "::1/128", true),
            address(2, "192.0.2.2/24", false),
            address(2, "fe80::2/64", false),
            address(3, "172.30.0.2/24", true),
            address(4, "fe80::2/64", true),
        ];
        for (local, interface, expected) in [
            ("172.30.0.2", None, true),
            ("::ffff:172.30.0.2", None, true),
            ("127.0.0.1", None, true),
            ("127.0.0.53", None, true),
            ("::1", None, true),
            ("192.0.2.2", None, false),
            ("198.51.100.9", None, false),
            // The same address on both sides counts as the worse of the two.
            ("fe80::2", None, false),
            ("172.30.0.2", Some(3), true),
            ("172.30.0.2", Some(1), true),
            ("127.0.0.1", Some(1), true),
            ("172.30.0.2", Some(2), false),
            ("127.0.0.1", Some(2), false),
            ("192.0.2.2", Some(3), false),
            ("172.30.0.2", Some(9), false),
        ] {
            let arrival = Arrival {
                local: local.parse().unwrap(),
                interface,
            };
            assert_eq!(
                is_sandbox_side(&interfaces, arrival),
                expected,
                "{local} {interface:?}"
            );
        }
    }

    #[test]
    fn a_listener_bound_to_an_address_serves_it_whatever_its_side() {
        let arrival = Arrival {
            local: "192.0.2.2".parse().unwrap(),
            interface: None,
        };
        assert!(serves("192.0.2.2".parse().unwrap(), arrival, false));
        assert!(serves("0.0.0.0".parse().unwrap(), arrival, true));
        // 192.0.2.0/24 is for documentation (RFC 5737); what is no address of ours is not served.
        let foreign = Arrival {
            local: "192.0.2.255".parse().unwrap(),
            ..arrival
        };
        assert!(!serves("0.0.0.0".parse().unwrap(), foreign, false));
    }

    #[test]
    fn loopback_is_read_with_its_index_and_subnet() {
        let interfaces = read().unwrap();
        let loopback = interfaces
            .iter()
            .find(|address| address.network == "127.0.0.1/8".parse().unwrap())
            .unwrap();
        assert!(loopback.index > 0 && loopback.sandbox_side, "{loopback:?}");
    }

    #[test]
    fn a_reading_is_kept_until_its_age_and_never_without_word_of_changes() {
        let now = Instant::now();
        let stale: Arc<[InterfaceAddress]> = Arc::from([address(7, "198.51.100.7/24", true)]);
        let mut reading = Reading {
            changes: Some(Changes::subscribe().unwrap()),
            kept: Some((now, Arc::clone(&stale))),
        };
        assert_eq!(reading.current(now).unwrap(), stale);
        assert_ne!(reading.current(now + MAX_AGE).unwrap(), stale);
        let reading = Reading::NONE;
        assert!(reading.changed() && reading.changed());
    }

    #[test]
    #[ignore = "needs a network namespace of its own: run it under unshare --net"]
    fn a_change_is_seen_by_the_next_reading() {
        let ip = |arguments: &str| {
            let mut command = std::process::Command::new("ip");
            let status = command.args(arguments.split(' ')).status().unwrap();
            assert!(status.success(), "{arguments}");
        };
        let find = |address: &str| {
            let address: IpAddr = address.parse().unwrap();
            let interfaces = read().unwrap();
            interfaces
                .iter()
                .find(|entry| entry.network.addr() == address)
                .map(|entry| entry.sandbox_side)
        };
        ip("link set lo up");
        ip("link add eth9 type veth peer name eth8");
        for _ in 0..20 {
            assert_eq!(find("198.51.100.7"), None);
            ip("addr add 198.51.100.7/24 dev eth9 label eth9:x");
            assert_eq!(find("198.51.100.7"), Some(true));
            ip("link set eth9 up");
            ip("route add default via 198.51.100.1");
            assert_eq!(find("198.51.100.7"), Some(false));
            ip("route del default");
            assert_eq!(find("198.51.100.7"), Some(true));
            ip("addr add 2001:db8::7/64 dev eth9 nodad");
            ip("route add default via 2001:db8::1");
            assert_eq!(find("198.51.100.7"), Some(false));
            assert_eq!(find("2001:db8::7"), Some(false));
            ip("link set eth9 down");
            assert_eq!(find("198.51.100.7"), Some(true));
            ip("addr flush dev eth9");
        }
    }
}
