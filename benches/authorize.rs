//! What a decision costs as the proxy makes it: client, limits, policy, the kept answer, every
//! address vetted against this host, and the record of the exchange, opened and closed.

#![expect(clippy::unwrap_used, reason = "a bench may panic")]

use std::{future::Future, pin::Pin, sync::Arc, time::Duration};

use criterion::{Criterion, criterion_group, criterion_main};
use eclusa::{
    audit::AuditLog,
    config::Config,
    destination::{Destination, Name, Scheme},
    drain::Tasks,
    egress::{Authorizer, Connection, Endpoint},
    record::{Asked, Via},
    resolver::{Answer, Lookup, LookupError, Resolver},
};

/// An upstream that is asked once: its answer is kept for an hour.
#[derive(Debug)]
struct Upstream;

impl Lookup for Upstream {
    fn lookup<'a>(
        &'a self,
        _: &'a Name,
    ) -> Pin<Box<dyn Future<Output = Result<Answer, LookupError>> + Send + 'a>> {
        let addresses = vec!["10.20.0.1".parse().unwrap()];
        let ttl = Duration::from_hours(1);
        Box::pin(async move { Ok(Answer { addresses, ttl }) })
    }
}

fn authorizer(file: &str) -> Arc<Authorizer> {
    let config = format!(
        r#"
[[clients]]
source = "127.0.0.0/8"
profile = "default"
[profiles.default]
allow = ["*.other.example.com"]
[[profiles.default.rules]]
hosts = ["api.example.com"]
addresses = ["10.20.0.0/16"]
[limits]
requests_per_second = 1000000
[audit]
file = "{file}"
"#
    );
    let config = Config::parse(&config).unwrap();
    let audit = AuditLog::open(&config.audit, config.limits.denials_recorded_per_minute).unwrap();
    let resolver = Resolver::new(Arc::new(Upstream), config.resolver.timeout);
    Arc::new(Authorizer::new(&config, 100, resolver, audit, Tasks::new()))
}

fn asked(host: &str) -> Asked {
    let destination = Destination::parse_authority(Scheme::Https, host);
    Asked {
        via: Via::Connect,
        method: Some("CONNECT".into()),
        destination: destination.ok(),
        target: None,
        path: None,
    }
}

fn connection(authorizer: &Arc<Authorizer>) -> Arc<Connection> {
    let local = "127.0.0.1".parse().unwrap();
    let from = Endpoint { peer: local, local };
    Arc::new(authorizer.admit(from, &asked("")).unwrap())
}

fn authorize(c: &mut Criterion) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("audit.jsonl");
    let authorizer = authorizer(file.to_str().unwrap());
    let connection = connection(&authorizer);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap();
    let _within = runtime.enter();
    for (name, host, passes) in [
        ("allowed_exchange", "api.example.com:443", true),
        ("denied_and_folded", "evil.example.net:443", false),
    ] {
        let asked = asked(host);
        c.bench_function(name, |b| {
            b.iter(|| {
                let authorized = authorizer.authorize(&connection, asked.clone());
                let permit = runtime.block_on(authorized);
                assert_eq!(permit.is_ok(), passes);
            });
        });
    }
}

criterion_group!(benches, authorize);
criterion_main!(benches);
