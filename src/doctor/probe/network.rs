//! What the sandbox's program reaches.

use std::{
    fs,
    io::{self, Read, Write},
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6, TcpStream, UdpSocket},
};

use super::{Notes, Orders, PATIENCE, arp, code, proxy, together::Attempts};
use crate::{doctor::Probe, listener::interfaces};

/// The APIs of Docker, Swarm and old Docker, and of kubelet.
const ENGINE_PORTS: [u16; 5] = [2375, 2376, 2377, 4243, 10250];

/// Where clouds tell their machines secrets: most of them by IPv4 and IPv6, Alibaba, Azure.
const METADATA: &[&str] = &[
    "169.254.169.254:80",
    "[fd00:ec2::254]:80",
    "100.100.100.200:80",
    "168.63.129.16:80",
];

/// Addresses for documentation (RFC 5737, RFC 3849): that a packet for one finds somebody to take
/// it is enough.
const WORLD: &[&str] = &["192.0.2.1:443", "203.0.113.1:443", "[2001:db8::1]:443"];

/// What the proxy must refuse whoever asks.
const REFUSED: &[&str] = &[
    "169.254.169.254:80",
    "metadata.google.internal:80",
    "example.com:443",
    "localhost:443",
];

/// The proxy's port on a private network.
const PROXY_PORT: u16 = 3128;

/// The most bytes read of an answer.
const ANSWER: usize = 4096;

pub(super) fn try_all(
    orders: &Orders,
    attempts: &mut Attempts,
    notes: &mut Notes<'_>,
) -> io::Result<()> {
    let (by_tcp, by_udp) = orders.listener;
    for address in &orders.host {
        let at = |port| SocketAddr::new(*address, port);
        add_tcp(attempts, Probe::HostTcp, at(by_tcp));
        add_udp(attempts, Probe::HostUdp, at(by_udp));
        for port in ENGINE_PORTS {
            add_tcp(attempts, Probe::EnginePorts, at(port));
        }
    }
    for to in METADATA.iter().filter_map(|text| text.parse().ok()) {
        add_tcp(attempts, Probe::Metadata, to);
    }
    for to in WORLD.iter().filter_map(|text| text.parse().ok()) {
        add_tcp(attempts, Probe::DirectTcp, to);
        add_udp(attempts, Probe::DirectUdp, to);
    }
    for (by_tcp, by_udp) in &orders.neighbour {
        add_tcp(attempts, Probe::Neighbour, *by_tcp);
        add_udp(attempts, Probe::Neighbour, *by_udp);
    }
    gateway(orders, attempts, notes)?;
    ipv6(orders, attempts, notes)?;
    if let Some(proxy) = proxy(orders) {
        by_proxy(orders, proxy, attempts);
    }
    Ok(())
}

/// Who stands where packets for everywhere go; on a private network, where a gateway would be.
fn gateway(orders: &Orders, attempts: &mut Attempts, notes: &mut Notes<'_>) -> io::Result<()> {
    let mut gateways = interfaces::ipv4_gateways()?;
    // The launcher's /29: the gateway that nobody has, the proxy, the sandbox.
    let reserved = proxy(orders).and_then(|proxy| u32::from(proxy).checked_sub(1));
    gateways.extend(reserved.map(Ipv4Addr::from));
    gateways.sort_unstable();
    gateways.dedup();
    if gateways.is_empty() {
        return notes.tell(Probe::Gateway, "the routing table", "none");
    }
    let (by_tcp, by_udp) = orders.listener;
    for gateway in gateways {
        for port in [by_tcp].into_iter().chain(ENGINE_PORTS) {
            add_tcp(attempts, Probe::Gateway, (gateway, port).into());
        }
        add_udp(attempts, Probe::Gateway, (gateway, by_udp).into());
    }
    Ok(())
}

fn ipv6(orders: &Orders, attempts: &mut Attempts, notes: &mut Notes<'_>) -> io::Result<()> {
    let table = match fs::read_to_string("/proc/net/if_inet6") {
        Ok(text) => text,
        // The kernel was built or booted without IPv6.
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(error),
    };
    if table.is_empty() {
        notes.tell(Probe::Ipv6Addresses, "every interface", "none")?;
    }
    for line in table.lines() {
        let mut words = line.split_whitespace();
        let address = words.next().unwrap_or_default();
        let interface = words.last().unwrap_or_default();
        notes.tell(Probe::Ipv6Addresses, interface, address)?;
    }
    // All nodes of the link (RFC 4291 section 2.7.1).
    let nodes = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
    let (by_tcp, by_udp) = orders.listener;
    for scope in interface_indices()? {
        let at = |address, port| SocketAddr::V6(SocketAddrV6::new(address, port, 0, scope));
        for address in &orders.link_local {
            if let IpAddr::V6(address) = address {
                add_tcp(attempts, Probe::Ipv6LinkLocal, at(*address, by_tcp));
            }
        }
        add_udp(attempts, Probe::Ipv6LinkLocal, at(nodes, by_udp));
    }
    Ok(())
}

/// The indices of the interfaces, which scope link-local addresses.
fn interface_indices() -> io::Result<Vec<u32>> {
    let mut indices = Vec::new();
    for entry in fs::read_dir("/sys/class/net")? {
        let index = fs::read_to_string(entry?.path().join("ifindex"))?;
        indices.extend(index.trim().parse::<u32>());
    }
    Ok(indices)
}

fn by_proxy(orders: &Orders, proxy: Ipv4Addr, attempts: &mut Attempts) {
    let own = orders.host.iter();
    let own = own.map(|address| SocketAddr::new(*address, orders.listener.0).to_string());
    for target in REFUSED.iter().map(|&target| target.to_owned()).chain(own) {
        attempts.add(Probe::ByProxy, target.clone(), move || {
            let status = connect_by((proxy, PROXY_PORT).into(), &target);
            status.unwrap_or_else(|error| code(&error))
        });
    }
}

/// The status that the proxy answers a CONNECT with (RFC 9110 section 9.3.6).
fn connect_by(proxy: SocketAddr, target: &str) -> io::Result<String> {
    let mut stream = dial(proxy)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    write!(
        stream,
        "CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n"
    )?;
    let mut head = [0; ANSWER];
    let length = stream.read(&mut head)?;
    let head = String::from_utf8_lossy(head.get(..length).unwrap_or_default());
    Ok(head.split(' ').nth(1).unwrap_or("no answer").to_owned())
}

fn add_tcp(attempts: &mut Attempts, probe: Probe, to: SocketAddr) {
    attempts.add(probe, format!("{to} by TCP"), move || tcp(to));
}

fn add_udp(attempts: &mut Attempts, probe: Probe, to: SocketAddr) {
    attempts.add(probe, format!("{to} by UDP"), move || udp(to));
}

/// `connected`, or why not.
pub(super) fn tcp(to: SocketAddr) -> String {
    dial(to).map_or_else(|error| code(&error), |_| "connected".to_owned())
}

#[expect(
    clippy::disallowed_methods,
    reason = "a probe dials from inside a sandbox; that it fails is what is to be shown"
)]
fn dial(to: SocketAddr) -> io::Result<TcpStream> {
    TcpStream::connect_timeout(&to, PATIENCE)
}

/// `answered`, or why not: `ETIMEDOUT` is silence, and `nobody` that there was none to take it.
fn udp(to: SocketAddr) -> String {
    let answer = ask(to, b"eclusa doctor");
    answer.map_or_else(|error| silence(to, &error), |_| "answered".to_owned())
}

/// Why there is no answer to a datagram.
pub(super) fn silence(to: SocketAddr, error: &io::Error) -> String {
    let is_silence = error.kind() == io::ErrorKind::TimedOut;
    if is_silence && arp::found_nobody(to.ip()).unwrap_or(false) {
        return "nobody".to_owned();
    }
    code(error)
}

/// The answer to a datagram.
#[expect(
    clippy::disallowed_methods,
    reason = "a probe asks from inside a sandbox; a connected socket learns that nobody is there"
)]
pub(super) fn ask(to: SocketAddr, question: &[u8]) -> io::Result<Vec<u8>> {
    let socket = UdpSocket::bind(match to {
        SocketAddr::V4(_) => SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)),
        SocketAddr::V6(_) => SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)),
    })?;
    socket.connect(to)?;
    socket.send(question)?;
    socket.set_read_timeout(Some(PATIENCE))?;
    let mut answer = vec![0; ANSWER];
    match socket.recv(&mut answer) {
        Ok(length) => {
            answer.truncate(length);
            Ok(answer)
        }
        // How a timeout of a read comes (socket(7)).
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
            Err(io::ErrorKind::TimedOut.into())
        }
        Err(error) => Err(error),
    }
}
