//! The validated configuration. `Config::parse` reports every problem of a file at once.

mod changes;
pub mod destination;
mod document;
mod fingerprint;
mod item;
mod launcher;
mod policies;
mod problem;
mod read;
mod scalar;
mod settings;
pub(crate) mod suggest;
mod upstream;
mod warnings;

#[cfg(test)]
mod tests;

use std::{net::SocketAddr, path::PathBuf, sync::Arc, time::Duration};

pub use self::{
    fingerprint::fingerprint,
    problem::{Problem, Problems},
    scalar::{duration, range, show_duration},
};
pub(crate) use self::{launcher::RUN_TIMES, policies::is_profile_name};
use crate::{
    destination::{AddressGuard, Destination},
    policy::{Decision, PolicySet, Reason},
};

/// Everything `serve` and `check` need, with every default applied and every cross-check made.
#[derive(Clone, Debug)]
pub struct Config {
    /// The `fingerprint` of the text that it was read from.
    pub fingerprint: String,
    /// `[listen]`
    pub listen: Listen,
    /// `[dns]`
    pub dns: Dns,
    /// `[resolver]`
    pub resolver: Resolver,
    /// `[addresses]`
    pub addresses: AddressGuard,
    /// `[profiles]`, `[[clients]]` and `launcher.ceiling`
    pub policies: PolicySet,
    /// `[[tests]]`
    pub tests: Vec<Expectation>,
    /// `[audit]`
    pub audit: Audit,
    /// `[limits]`
    pub limits: Limits,
    /// `[launcher]`
    pub launcher: Launcher,
    /// What is legal but should be known at every start: `dangerously_...` keys, report mode,
    /// plain `udp://` resolvers outside, `[[clients]]` without a range, and the like.
    pub warnings: Vec<String>,
}

impl Config {
    /// Reads and validates a configuration.
    ///
    /// # Errors
    /// Every problem found, each with its key, its line and what to do.
    pub fn parse(text: &str) -> Result<Self, Problems> {
        read::config(text)
    }
}

/// `[listen]`: empty lists and `None` mean that the listener is off.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listen {
    /// The forward proxy.
    pub proxy: Vec<SocketAddr>,
    /// The DNS server, UDP and TCP each.
    pub dns: Vec<SocketAddr>,
    /// Transparent TLS; the destination port is 443 whatever the bind.
    pub https: Vec<SocketAddr>,
    /// Transparent HTTP; the destination port is 80 whatever the bind.
    pub http: Vec<SocketAddr>,
    /// The admin socket's path.
    pub admin: Option<PathBuf>,
    /// Prometheus text at `/metrics`.
    pub metrics: Option<SocketAddr>,
    /// Whether a wildcard listener also serves interfaces that hold a default route.
    pub dangerously_listen_on_uplink: bool,
}

/// `[dns]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dns {
    /// What an allowed name resolves to.
    pub answer: DnsAnswerSource,
    /// The TTL of every answer, whole seconds.
    pub ttl: Duration,
    /// Our own names, always answered.
    pub names: Vec<crate::destination::Name>,
}

impl Dns {
    /// Where `name` stands among our own names, e.g. `dns.names[0]`.
    pub fn place_of(&self, name: &crate::destination::Name) -> Option<Arc<str>> {
        let index = self.names.iter().position(|own| own == name)?;
        Some(format!("dns.names[{index}]").into())
    }
}

/// What an allowed name resolves to, for clients without a registered `listener`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DnsAnswerSource {
    /// The local address that the query came in on.
    Listener,
    /// A fixed address.
    Fixed(std::net::Ipv4Addr),
}

/// `[resolver]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resolver {
    /// The upstream servers, in order.
    pub servers: Vec<Upstream>,
    /// PEM roots that replace the built-in ones for `tls` and `https` servers.
    pub ca: Option<PathBuf>,
    /// The budget of a whole look-up.
    pub timeout: Duration,
}

/// One upstream DNS server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Upstream {
    /// The nameservers of `/etc/resolv.conf`, and nothing else of it.
    System,
    /// `udp://IP:PORT`, with TCP to the same server when an answer is truncated.
    Udp(SocketAddr),
    /// `tls://IP:PORT#NAME` (RFC 7858).
    Tls {
        /// The server.
        address: SocketAddr,
        /// The name that its certificate must bear.
        name: Arc<str>,
    },
    /// `https://IP[:PORT]/path#NAME` (RFC 8484).
    Https {
        /// The server.
        address: SocketAddr,
        /// The name that its certificate must bear.
        name: Arc<str>,
        /// The path, by convention `/dns-query`.
        path: Arc<str>,
    },
}

/// `[[tests]]`: what `check` expects of the policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expectation {
    /// Where it stands, e.g. `tests[0]`.
    pub place: Arc<str>,
    /// Its line in the file, from 1.
    pub line: usize,
    /// The destination as written.
    pub written: String,
    /// The destination.
    pub destination: Destination,
    /// The profile.
    pub profile: Arc<str>,
    /// `allow` or `deny`.
    pub expect: Decision,
    /// The reason, where one is expected.
    pub reason: Option<Reason>,
}

/// `[audit]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Audit {
    /// Where records go.
    pub sink: AuditSink,
    /// The size in bytes at which a file is rotated.
    pub max_size: u64,
    /// How many rotated files are kept.
    pub keep: u32,
}

/// Where records go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AuditSink {
    /// Standard output, never rotated.
    Stdout,
    /// A file that is appended to and rotated.
    File(PathBuf),
}

/// `[limits]`; a client is one run, or one source address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Open client connections in all.
    pub connections: usize,
    /// Open connections of one client.
    pub connections_per_client: usize,
    /// Requests a second of one client, with a burst of the same.
    pub requests_per_second: u32,
    /// DNS queries a second of one client, with a burst of the same.
    pub dns_queries_per_second: u32,
    /// Distinct names under a wildcard, a minute and client, that may cause a look-up.
    pub wildcard_names_per_minute: u32,
    /// Denials a minute and client that are recorded one by one.
    pub denials_recorded_per_minute: u32,
    /// From accept to the end of the first head, and of the ClientHello.
    pub header_timeout: Duration,
    /// All connection attempts of one exchange together.
    pub connect_timeout: Duration,
    /// A tunnel or message in which nothing flows.
    pub idle_timeout: Duration,
    /// The longest life of one exchange.
    pub lifetime: Duration,
    /// How long a stop waits for open exchanges.
    pub drain_timeout: Duration,
    /// The longest head in bytes.
    pub max_header_bytes: usize,
    /// Bytes up of one connection; none is no limit.
    pub max_upload_bytes: Option<u64>,
}

/// `[launcher]`: defaults of `eclusa run`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Launcher {
    /// The wall-clock limit of a run.
    pub timeout: Duration,
    /// The launcher's own record file; none: the default under the state folder.
    pub record: Option<PathBuf>,
    /// The range that slices are cut from, a /29 each.
    pub pool: ipnet::Ipv4Net,
    /// A profile that bounds what `--allow` may name.
    pub ceiling: Option<Arc<str>>,
}
