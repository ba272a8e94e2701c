//! What the tests stand on: the proxy under test, origins, an upstream DNS server, raw clients.
//!
//! `World::standard` is the fixture of the case tables: `allowed.example` exact, `*.wild.example`
//! below, `denied.example` and `secret.wild.example` denied, everything else on no list. Origins
//! live on loopback addresses that the configuration excepts for these hosts alone.

pub mod black_hole;
pub mod client;
pub mod dns_upstream;
pub mod namespace;
pub mod oracle;
pub mod origin;
pub mod proxy;
pub mod soundness;
pub mod world;

use std::{
    net::Ipv4Addr,
    process::Command,
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

/// Nothing a test waits for takes longer.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// A loopback address that no other test of this process uses, so that it can bind any port.
pub fn unique_loopback() -> Ipv4Addr {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let at = NEXT.fetch_add(1, Ordering::Relaxed);
    let process = std::process::id();
    let [_, _, c, d] = (at + 2).to_be_bytes();
    let [_, _, _, b] = (process % 199).to_be_bytes();
    Ipv4Addr::new(127, 50 + b, c, d)
}

/// Waits until `found` gives something; fails the test after `PATIENCE`.
pub fn eventually<T>(what: &str, mut found: impl FnMut() -> Option<T>) -> T {
    let begun = tokio::time::Instant::now();
    loop {
        if let Some(value) = found() {
            return value;
        }
        assert!(begun.elapsed() < PATIENCE, "waited in vain for {what}");
        std::thread::park_timeout(Duration::from_millis(10));
    }
}

/// Runs a command that must succeed and gives what it printed.
pub fn output_of(command: &mut Command) -> String {
    let output = command.output().expect("the command is installed");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success(),
        "{command:?}: {}\n{text}{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    text
}

/// Asks `server` for the A records of `name` over UDP, and gives the answer.
pub fn dns_query(server: std::net::SocketAddr, name: &str) -> hickory_net::proto::op::Message {
    dns_query_from("127.0.0.1", server, name)
}

/// The same from a source address of this host's loopback.
pub fn dns_query_from(
    source: &str,
    server: std::net::SocketAddr,
    name: &str,
) -> hickory_net::proto::op::Message {
    use hickory_net::proto::{op, rr};
    let mut query = op::Message::query();
    query.metadata.recursion_desired = true;
    query.metadata.id = 4711;
    query.add_query(op::Query::query(
        rr::Name::from_ascii(name).unwrap(),
        rr::RecordType::A,
    ));
    let socket = std::net::UdpSocket::bind((source, 0)).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket.send_to(&query.to_vec().unwrap(), server).unwrap();
    let mut buffer = [0; 4096];
    let (length, _) = socket.recv_from(&mut buffer).expect("an answer");
    op::Message::from_vec(&buffer[..length]).unwrap()
}
