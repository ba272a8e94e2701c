//! The DNS server, asked by raw messages, by dig, and by the resolvers of real clients.

mod clients;
mod load;
mod namespace;
mod queries;
mod transports;

use std::{
    io::Read,
    net::{Ipv4Addr, SocketAddr, UdpSocket},
    process::Command,
    time::Duration,
};

use hickory_net::proto::op::Message;

use crate::support::{PATIENCE, output_of, proxy::TestProxy, unique_loopback};

/// A proxy with a DNS server on every address and an upstream that must never hear of it.
struct DnsProxy {
    proxy: TestProxy,
    upstream: UdpSocket,
    port: u16,
}

impl DnsProxy {
    /// `more` is the rest of the configuration: clients, limits.
    fn start(more: &str) -> Self {
        Self::on("0.0.0.0:0".parse().unwrap(), more)
    }

    fn on(address: SocketAddr, more: &str) -> Self {
        let upstream = UdpSocket::bind((unique_loopback(), 0)).unwrap();
        let server = upstream.local_addr().unwrap();
        let proxy = TestProxy::with_config(|dir| {
            let dir = dir.display();
            format!(
                r#"
[listen]
proxy = []
dns = ["{address}"]
https = []
http = []
admin = "{dir}/admin.sock"

[dns]
answer = "listener"
ttl = "30s"
names = ["eclusa"]

[resolver]
servers = ["udp://{server}"]

[audit]
file = "{dir}/audit.jsonl"

[profiles.default]
allow = ["allowed.example", "*.wild.example"]
deny = ["denied.example", "secret.wild.example"]

{more}
"#
            )
        });
        let port = proxy.listener("dns").port();
        Self {
            proxy,
            upstream,
            port,
        }
    }

    /// The server at one address of this host.
    fn at(&self, address: Ipv4Addr) -> SocketAddr {
        (address, self.port).into()
    }

    /// Fails when anything at all was asked upstream.
    fn assert_nothing_went_upstream(&self) {
        self.upstream.set_nonblocking(true).unwrap();
        let heard = self.upstream.recv_from(&mut [0; 512]);
        let kind = heard.map_err(|error| error.kind());
        assert_eq!(kind, Err(std::io::ErrorKind::WouldBlock));
    }

    /// The `dns` records about a client, as `name type decision reason answer`.
    fn records_of(&self, client: Ipv4Addr) -> Vec<String> {
        let client = client.to_string();
        self.proxy
            .events("dns")
            .iter()
            .filter(|event| event["client"] == *client)
            .map(|event| {
                ["name", "type", "decision", "reason", "answer"]
                    .map(|field| event[field].as_str().unwrap_or_default())
                    .join(" ")
            })
            .collect()
    }
}

/// Everyone on loopback is a client.
const LOOPBACK_CLIENTS: &str = r#"
[[clients]]
source = "127.0.0.0/8"
profile = "default"
"#;

/// A client with an address of its own.
struct Client {
    socket: UdpSocket,
}

impl Client {
    fn at(address: Ipv4Addr) -> Self {
        Self::from_port(address, 0)
    }

    fn from_port(address: Ipv4Addr, port: u16) -> Self {
        let socket = UdpSocket::bind((address, port)).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        Self { socket }
    }

    fn send(&self, server: SocketAddr, message: &[u8]) {
        assert_eq!(self.socket.send_to(message, server).unwrap(), message.len());
    }

    /// The next answer, and where it came from.
    fn receive(&self) -> (Vec<u8>, SocketAddr) {
        let mut buffer = [0; 2048];
        let (length, from) = self.socket.recv_from(&mut buffer).expect("an answer");
        (buffer[..length].to_vec(), from)
    }

    fn ask(&self, server: SocketAddr, message: &[u8]) -> Vec<u8> {
        self.send(server, message);
        let (answer, from) = self.receive();
        assert_eq!(from, server, "an answer comes from where it was asked for");
        answer
    }

    /// The next answer, if one comes within the time.
    fn hear(&self, patience: Duration) -> Option<Vec<u8>> {
        self.socket.set_read_timeout(Some(patience)).unwrap();
        let mut buffer = [0; 2048];
        let heard = self.socket.recv_from(&mut buffer);
        self.socket.set_read_timeout(Some(PATIENCE)).unwrap();
        Some(buffer[..heard.ok()?.0].to_vec())
    }
}

/// A plain query: recursion desired, class IN, no EDNS.
fn query(id: u16, name: &str, record_type: u16) -> Vec<u8> {
    let [id_0, id_1] = id.to_be_bytes();
    let mut message = vec![id_0, id_1, 0x01, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    for label in name.split('.').filter(|label| !label.is_empty()) {
        message.push(u8::try_from(label.len()).unwrap());
        message.extend(label.bytes());
    }
    message.push(0);
    message.extend(record_type.to_be_bytes());
    message.extend([0, 1]);
    message
}

/// A message as TCP carries it.
fn framed(message: &[u8]) -> Vec<u8> {
    let length = u16::try_from(message.len()).unwrap();
    [&length.to_be_bytes(), message].concat()
}

fn read_framed(stream: &mut impl Read) -> Vec<u8> {
    let mut length = [0; 2];
    stream.read_exact(&mut length).unwrap();
    let mut message = vec![0; usize::from(u16::from_be_bytes(length))];
    stream.read_exact(&mut message).unwrap();
    message
}

/// What an answer says in short: `NoError 127.0.0.5`, `NXDomain`.
fn summary(answer: &[u8]) -> String {
    let message = Message::from_vec(answer).expect("a whole message");
    let mut words = vec![format!("{:?}", message.response_code)];
    words.extend(message.answers.iter().map(|record| record.data.to_string()));
    words.join(" ")
}
