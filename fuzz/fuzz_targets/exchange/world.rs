//! What is around the proxy: names, addresses, policy, a client and its origins.

use std::{
    future::Future,
    net::{IpAddr, Ipv4Addr, TcpListener},
    path::PathBuf,
    pin::Pin,
    time::Duration,
};

use eclusa::{
    config::{Audit, AuditSink, Config},
    destination::Name,
    listener::Accepted,
    resolver::{Answer, Lookup, LookupError},
};
use tempfile::TempDir;
use tokio::{
    net::TcpStream,
    time::{Instant, sleep},
};

use super::origin::{Origin, Speaks};

/// Short, so that an input meets them.
const LIMITS: &str = r#"
[limits]
header_timeout = "1s"
connect_timeout = "1s"
idle_timeout = "2s"
lifetime = "20s"
max_header_bytes = "1 KiB"
max_upload_bytes = "2 KiB"
"#;

/// As `max_upload_bytes` says.
pub const MAX_UPLOAD: u64 = 2048;

/// How long the slow look-up takes.
pub const SLOW: Duration = Duration::from_millis(300);

const CLIENT: &str = r#"
[[clients]]
source = "10.9.0.0/16"
profile = "default"
"#;

const POLICY: &str = r#"
[profiles.default]
deny = ["denied.example", "secret.wild.example"]

[[profiles.default.rules]]
hosts = ["allowed.example", "*.wild.example", "mixed.example"]
addresses = ["127.0.0.0/8"]

[[profiles.default.rules]]
hosts = ["opaque.example"]
addresses = ["127.0.0.0/8"]
opaque = true
"#;

/// The origins: the last octet of the address, the port, and what is spoken there.
const ORIGINS: [(u8, u16, Speaks); 5] = [
    (1, 80, Speaks::Http),
    (1, 443, Speaks::Tls),
    (2, 80, Speaks::Http),
    (2, 443, Speaks::Tls),
    (3, 443, Speaks::Anything),
];

/// Made once and used by every input.
pub struct World {
    pub config: Config,
    /// Allows nothing.
    pub strict: Config,
    pub origins: Vec<Origin>,
    pub names: Names,
    folder: TempDir,
    clients: TcpListener,
}

impl World {
    /// To be made within a runtime.
    pub fn new() -> Self {
        // Of this process alone, so that several may run.
        let [.., b, c] = std::process::id().to_be_bytes();
        let base = [127, 50 + b % 200, c];
        let names = Names { base };
        Self {
            config: Config::parse(&[POLICY, CLIENT, LIMITS].concat()).unwrap(),
            strict: Config::parse(&["[profiles.default]", CLIENT, LIMITS].concat()).unwrap(),
            origins: ORIGINS
                .iter()
                .map(|(last, port, speaks)| Origin::at((names.address(*last), *port), *speaks))
                .collect(),
            names,
            folder: TempDir::new().unwrap(),
            clients: TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap(),
        }
    }

    /// A client's connection: its end, and the proxy's.
    pub fn client(&self) -> (TcpStream, Accepted) {
        let address = self.clients.local_addr().unwrap();
        let client = std::net::TcpStream::connect(address).unwrap();
        let (stream, _) = self.clients.accept().unwrap();
        let client = within_runtime(client);
        client.set_zero_linger().unwrap();
        let accepted = Accepted {
            stream: within_runtime(stream),
            peer: "10.9.0.2:40000".parse().unwrap(),
            local: "10.9.0.1:3128".parse().unwrap(),
            at: Instant::now(),
        };
        (client, accepted)
    }

    /// Where the log of the input under way lies.
    pub fn log(&self) -> PathBuf {
        self.folder.path().join("audit.jsonl")
    }

    /// The settings of that log.
    pub fn audit(&self) -> Audit {
        Audit {
            sink: AuditSink::File(self.log()),
            max_size: 1 << 30,
            keep: 1,
        }
    }
}

fn within_runtime(stream: std::net::TcpStream) -> TcpStream {
    stream.set_nonblocking(true).unwrap();
    TcpStream::from_std(stream).unwrap()
}

/// The upstream resolver, which knows every name and is asked for allowed ones only.
#[derive(Clone, Copy, Debug)]
pub struct Names {
    base: [u8; 3],
}

impl Names {
    fn address(self, last: u8) -> Ipv4Addr {
        let [a, b, c] = self.base;
        Ipv4Addr::new(a, b, c, last)
    }

    fn answer(self, name: &str) -> Result<Vec<IpAddr>, LookupError> {
        let addresses: &[Ipv4Addr] = match name {
            "allowed.example" => &[self.address(1)],
            "opaque.example" => &[self.address(3)],
            "mixed.example" => &[self.address(1), Ipv4Addr::new(10, 0, 0, 5)],
            "none.wild.example" => return Err(LookupError::NoAddress),
            "secret.wild.example" => panic!("{name} was looked up"),
            // Nobody listens at the first one.
            "two.wild.example" => &[self.address(9), self.address(2)],
            _ if name.ends_with(".wild.example") => &[self.address(2)],
            _ => panic!("{name} was looked up"),
        };
        Ok(addresses.iter().copied().map(IpAddr::V4).collect())
    }
}

impl Lookup for Names {
    fn lookup<'a>(
        &'a self,
        name: &'a Name,
    ) -> Pin<Box<dyn Future<Output = Result<Answer, LookupError>> + Send + 'a>> {
        Box::pin(async move {
            if name.as_str() == "slow.wild.example" {
                sleep(SLOW).await;
            }
            let addresses = self.answer(name.as_str())?;
            let ttl = Duration::from_secs(1);
            Ok(Answer { addresses, ttl })
        })
    }
}
