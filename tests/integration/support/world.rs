//! The fixture of the case tables: the proxy, an upstream that knows every name (so that a leak
//! would succeed), and origins on loopback addresses of their own.

use std::{
    net::{SocketAddr, TcpStream},
    sync::Arc,
};

use serde_json::Value;

use super::{
    client::{dial_from, read_until, send, status},
    dns_upstream::DnsUpstream,
    origin::{self, Authority, Behaviour, Origin},
    proxy::TestProxy,
    unique_loopback,
};

/// The names that the origins' certificate bears.
pub const NAMES: &[&str] = &[
    "allowed.example",
    "denied.example",
    "evil.example",
    "*.wild.example",
    "*.evil.example",
];

/// The proxy and all that it can meet.
pub struct World {
    /// Under test.
    pub proxy: TestProxy,
    /// Answers every look-up and counts them.
    pub upstream: DnsUpstream,
    /// `https://allowed.example` and every other web name, port 443.
    pub web: Origin,
    /// `http://allowed.example` and every other web name, port 80.
    pub plain: Origin,
    /// `opaque.example:443`, which sends back what it gets.
    pub echo: Origin,
    /// Signs the certificate of `web`.
    pub authority: Authority,
}

/// The policy of the fixture; the origins' range is opened for these hosts alone.
pub const POLICY: &str = r#"
[profiles.default]
allow = ["ported.example:8443", "http://plain-only.example", "https://tls-only.example"]
deny = ["denied.example", "secret.wild.example"]

[[profiles.default.rules]]
hosts = ["allowed.example", "*.wild.example"]
addresses = ["127.0.0.0/8"]

[[profiles.default.rules]]
hosts = ["opaque.example", "opaque2.example"]
addresses = ["127.0.0.0/8"]
opaque = true

[[clients]]
source = "127.0.0.0/24"
profile = "default"
"#;

impl World {
    /// The fixture with default limits.
    pub fn standard() -> Self {
        Self::with_policy(POLICY)
    }

    /// The fixture with lines under `[limits]`.
    pub fn with_limits(limits: &str) -> Self {
        Self::with_policy(&format!("{POLICY}\n[limits]\n{limits}\n"))
    }

    /// The fixture with another policy.
    pub fn with_policy(policy: &str) -> Self {
        Self::with_origins(policy, origin::http(), origin::http())
    }

    /// The fixture with origins of the test's own behind `allowed.example`, TLS and plain.
    pub fn with_origins(policy: &str, web: Arc<Behaviour>, plain: Arc<Behaviour>) -> Self {
        Self::around((web, plain), |upstream| TestProxy::start(upstream, policy))
    }

    /// The fixture around a proxy that the test starts itself, given its resolver.
    pub fn around(
        (web, plain): (Arc<Behaviour>, Arc<Behaviour>),
        start: impl FnOnce(SocketAddr) -> TestProxy,
    ) -> Self {
        let authority = Authority::new(NAMES);
        let (host, opaque) = (unique_loopback(), unique_loopback());
        let at = |address, port| SocketAddr::new(std::net::IpAddr::V4(address), port);
        let web = Origin::tls(at(host, 443), &authority, web);
        let plain = Origin::plain(at(host, 80), plain);
        let echo = Origin::plain(at(opaque, 443), origin::echo());
        let upstream = DnsUpstream::start();
        let (host, opaque) = (host.to_string(), opaque.to_string());
        for name in [
            "allowed.example",
            "a.wild.example",
            "a.b.c.wild.example",
            "wild.example",
            "secret.wild.example",
            "denied.example",
            "evil.example",
            "data.evil.example",
            "ported.example",
            "plain-only.example",
            "tls-only.example",
        ] {
            upstream.set_addresses(name, &[&host]);
        }
        for name in ["opaque.example", "opaque2.example"] {
            upstream.set_addresses(name, &[&opaque]);
        }
        let proxy = start(upstream.address);
        Self {
            proxy,
            upstream,
            web,
            plain,
            echo,
            authority,
        }
    }

    /// Opens an opaque tunnel to the echo origin and proves that it echoes.
    pub fn tunnel_from(&self, source: &str, host: &str) -> TcpStream {
        let mut stream = dial_from(source, self.proxy.listener("proxy"));
        let head = format!("CONNECT {host}:443 HTTP/1.1\r\nHost: {host}:443\r\n\r\n");
        send(&mut stream, head.as_bytes());
        let answer = read_until(&mut stream, b"\r\n\r\n");
        assert_eq!(
            status(&answer),
            Some(200),
            "{}",
            String::from_utf8_lossy(&answer)
        );
        send(&mut stream, b"hello\n");
        assert_eq!(read_until(&mut stream, b"\n"), b"hello\n");
        stream
    }

    /// The oracles of a refusal: no origin saw a byte, nothing was looked up (unless `looked_up`
    /// says so), and there is exactly one decision, a denial for `reason`.
    pub fn assert_refused(&self, what: &str, reason: &str, looked_up: usize) -> Value {
        let decision = self
            .proxy
            .await_event(what, |line| line["event"] == "decision");
        assert_eq!(decision["decision"], "deny", "{what}: {decision}");
        assert_eq!(decision["reason"], reason, "{what}: {decision}");
        assert_eq!(self.proxy.events("decision").len(), 1, "{what}");
        assert_eq!(self.upstream.questions().len(), looked_up, "{what}");
        for origin in [&self.web, &self.plain, &self.echo] {
            assert_eq!(origin.seen.connections(), 0, "{what}: {}", origin.address);
        }
        decision
    }
}
