//! What is around the proxy: addresses, names, configurations, and an upstream that lies.

use std::{
    future::{Future, pending},
    net::{IpAddr, Ipv4Addr, SocketAddr},
    path::PathBuf,
    pin::Pin,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use socket2::{Domain, Socket, Type};
use tempfile::TempDir;
use tokio::{
    net::{TcpListener, TcpStream},
    time::{Instant, sleep},
};

use super::chance::Chance;
use crate::{
    config::{Audit, AuditSink, Config},
    destination::Name,
    listener::Accepted,
    resolver::{Answer, Lookup, LookupError},
};

/// What a destination is, as its name says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A tunnel that need not be TLS.
    Tunnel,
    /// Plain HTTP.
    Plain,
}

impl Kind {
    pub(super) fn of(host: &str) -> Self {
        if host.ends_with(Self::Tunnel.zone()) {
            Self::Tunnel
        } else {
            Self::Plain
        }
    }

    pub(super) fn zone(self) -> &'static str {
        match self {
            Self::Tunnel => ".tunnel.example",
            Self::Plain => ".plain.example",
        }
    }
}

/// What a configuration allows.
#[derive(Clone, Debug)]
pub(super) struct Terms {
    tunnels: bool,
    plain: bool,
    /// Whether only the first address may be dialled.
    narrow: bool,
    /// Bytes up.
    pub(super) budget: Option<u64>,
}

impl Terms {
    pub(super) const WIDE: Self = Self {
        tunnels: true,
        plain: true,
        narrow: false,
        budget: None,
    };

    pub(super) fn any(chance: &mut Chance) -> Self {
        Self {
            tunnels: !chance.one_in(4),
            plain: !chance.one_in(4),
            narrow: chance.one_in(4),
            budget: *chance.pick(&[None, Some(1024), Some(65_536)]),
        }
    }

    pub(super) fn allow(&self, kind: Kind) -> bool {
        match kind {
            Kind::Tunnel => self.tunnels,
            Kind::Plain => self.plain,
        }
    }
}

/// The last octets of the addresses: two origins, one where nobody listens, one that never
/// answers, and one that no policy opens.
const ORIGINS: [u8; 2] = [1, 2];
const DEAD: u8 = 3;
const HOLE: u8 = 4;
const TRAP: u8 = 66;

/// Made once and used by every seed.
pub(super) struct World {
    base: [u8; 3],
    pub(super) port: u16,
    pub(super) origins: Vec<TcpListener>,
    pub(super) trap: TcpListener,
    clients: std::net::TcpListener,
    /// A queue for one connection that nobody accepts, and what fills it.
    _hole: Vec<Socket>,
    folder: TempDir,
}

impl World {
    /// To be made within a runtime.
    pub(super) async fn new() -> Self {
        // Of this process alone, so that several may run.
        let [.., b, c] = std::process::id().to_be_bytes();
        let base = [127, 50 + b % 199, c];
        let [first, second] = ORIGINS.map(|last| (address(base, last), 0));
        let first = TcpListener::bind(first).await.unwrap();
        let port = first.local_addr().unwrap().port();
        let second = TcpListener::bind((second.0, port)).await.unwrap();
        Self {
            base,
            port,
            origins: vec![first, second],
            trap: TcpListener::bind((address(base, TRAP), port))
                .await
                .unwrap(),
            clients: std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap(),
            _hole: hole((address(base, HOLE), port).into()),
            folder: TempDir::new().unwrap(),
        }
    }

    /// A client's connection from `peer`: its end, and the proxy's.
    #[expect(clippy::disallowed_methods, reason = "a test is the client")]
    pub(super) fn client(&self, peer: IpAddr) -> (TcpStream, Accepted) {
        let address = self.clients.local_addr().unwrap();
        let client = within_runtime(std::net::TcpStream::connect(address).unwrap());
        let stream = within_runtime(self.clients.accept().unwrap().0);
        let accepted = Accepted {
            stream,
            peer: (peer, 40_000).into(),
            local: (Ipv4Addr::new(10, 8, 0, 1), 3128).into(),
            at: Instant::now(),
        };
        (client, accepted)
    }

    /// A configuration that allows `terms`.
    pub(super) fn config(&self, terms: &Terms) -> Config {
        let range = if terms.narrow { "1/32" } else { "0/26" };
        let [a, b, c] = self.base;
        let rule = |kind: Kind, opaque: bool| {
            format!(
                "[[profiles.default.rules]]\nhosts = [\"*{}\"]\nports = [{}]\n\
                 addresses = [\"{a}.{b}.{c}.{range}\"]\nopaque = {opaque}\n",
                kind.zone(),
                self.port,
            )
        };
        let mut text = "[profiles.default]\n".to_owned();
        if terms.tunnels {
            text += &rule(Kind::Tunnel, true);
        }
        if terms.plain {
            text += &rule(Kind::Plain, false);
        }
        text += "[[clients]]\nsource = \"10.9.0.0/16\"\nprofile = \"default\"\n";
        text += "[limits]\nlifetime = \"5m\"\nidle_timeout = \"1m\"\nconnections_per_client = 8\n";
        let budget = terms.budget.map(|bytes| format!("{bytes} B"));
        let budget = budget.as_deref().unwrap_or("0");
        text += &["max_upload_bytes = \"", budget, "\"\n"].concat();
        Config::parse(&text).unwrap()
    }

    /// Whether a configuration with `terms` opens `address`.
    pub(super) fn is_open(&self, address: IpAddr, terms: &Terms) -> bool {
        let last = |last: &u8| address == self.address(*last);
        let all = [ORIGINS[0], ORIGINS[1], DEAD, HOLE];
        all.iter().take(if terms.narrow { 1 } else { 4 }).any(last)
    }

    fn address(&self, last: u8) -> IpAddr {
        address(self.base, last).into()
    }

    /// Where the log of a seed lies.
    pub(super) fn log(&self) -> PathBuf {
        self.folder.path().join("audit.jsonl")
    }

    pub(super) fn audit(&self) -> Audit {
        Audit {
            sink: AuditSink::File(self.log()),
            max_size: 1 << 40,
            keep: 1,
        }
    }

    /// An upstream for one seed.
    pub(super) fn upstream(&self, chance: Chance) -> Upstream {
        Upstream {
            base: self.base,
            chance: Mutex::new(chance),
        }
    }
}

fn address([a, b, c]: [u8; 3], last: u8) -> Ipv4Addr {
    Ipv4Addr::new(a, b, c, last)
}

fn within_runtime(stream: std::net::TcpStream) -> TcpStream {
    stream.set_nonblocking(true).unwrap();
    TcpStream::from_std(stream).unwrap()
}

/// An address whose kernel drops every further SYN.
fn hole(address: SocketAddr) -> Vec<Socket> {
    let socket = || Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    let listening = socket();
    listening.bind(&address.into()).unwrap();
    listening.listen(0).unwrap();
    let filling = (0..3).map(|_| {
        let client = socket();
        client.set_nonblocking(true).unwrap();
        // One is taken; the others are on their way for ever.
        client.connect(&address.into()).unwrap_or_default();
        client
    });
    std::iter::once(listening)
        .chain(filling.collect::<Vec<_>>())
        .collect()
}

/// Answers late, wrongly, differently each time, or not at all.
#[derive(Debug)]
pub(super) struct Upstream {
    base: [u8; 3],
    chance: Mutex<Chance>,
}

impl Upstream {
    /// After how long it answers what; none is never.
    fn choose(&self) -> Option<(Duration, Result<Answer, LookupError>)> {
        let mut chance = self.chance.lock().unwrap_or_else(PoisonError::into_inner);
        let delay = Duration::from_millis(*chance.pick(&[0, 0, 0, 0, 0, 5, 400, 6_000]));
        let mut addresses: Vec<u8> = (0..=chance.below(2))
            .map(|_| *chance.pick(&[ORIGINS[0], ORIGINS[0], ORIGINS[0], ORIGINS[1], DEAD, HOLE]))
            .collect();
        let answer = match chance.below(30) {
            0 => {
                addresses.push(TRAP);
                Ok(addresses)
            }
            1 => Ok(Vec::new()),
            2 => Err(LookupError::NoAddress),
            3 => Err(LookupError::Failed("the resolver answered: Refused".into())),
            4 => Err(LookupError::Timeout),
            5 => return None,
            _ => Ok(addresses),
        };
        let ttl = Duration::from_secs(*chance.pick(&[0, 1, 60]));
        let answer = answer.map(|last| Answer {
            addresses: last
                .iter()
                .map(|last| IpAddr::V4(address(self.base, *last)))
                .collect(),
            ttl,
        });
        Some((delay, answer))
    }
}

impl Lookup for Upstream {
    fn lookup<'a>(
        &'a self,
        _name: &'a Name,
    ) -> Pin<Box<dyn Future<Output = Result<Answer, LookupError>> + Send + 'a>> {
        let chosen = self.choose();
        Box::pin(async move {
            match chosen {
                Some((delay, answer)) => {
                    sleep(delay).await;
                    answer
                }
                None => pending().await,
            }
        })
    }
}
