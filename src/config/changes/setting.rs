//! Every setting as text, so that two configurations can be compared.

use std::fmt;

use crate::config::{
    Audit, AuditSink, Config, Dns, DnsAnswerSource, Limits, Listen, Resolver,
    scalar::{show_duration, show_size},
};

/// When a changed setting takes effect.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Effect {
    /// With the reload.
    Reload,
    /// Sockets, sinks and upstream connections are made once.
    Restart,
}

/// One setting as it would be written.
pub(super) struct Setting {
    pub(super) key: &'static str,
    pub(super) effect: Effect,
    pub(super) text: String,
}

/// Every setting, in the order of the sections. The patterns name every field, so that a new one
/// cannot be forgotten.
pub(super) fn settings(config: &Config) -> Vec<Setting> {
    let mut all = listen(&config.listen);
    all.extend(dns(&config.dns));
    all.extend(resolver(&config.resolver));
    let addresses = &config.addresses;
    all.extend([
        reload("addresses.blocked", list(&addresses.blocked)),
        reload("addresses.own", list(&addresses.own)),
        reload("addresses.nat64", list(&addresses.nat64)),
    ]);
    all.extend(audit(&config.audit));
    all.extend(limits(&config.limits));
    all
}

fn listen(listen: &Listen) -> Vec<Setting> {
    let Listen {
        proxy,
        dns,
        https,
        http,
        admin,
        metrics,
        dangerously_listen_on_uplink,
    } = listen;
    vec![
        restart("listen.proxy", list(proxy)),
        restart("listen.dns", list(dns)),
        restart("listen.https", list(https)),
        restart("listen.http", list(http)),
        restart("listen.admin", path(admin.as_deref())),
        restart("listen.metrics", list(metrics.as_slice())),
        restart(
            "listen.dangerously_listen_on_uplink",
            dangerously_listen_on_uplink.to_string(),
        ),
    ]
}

fn dns(dns: &Dns) -> Vec<Setting> {
    let Dns { answer, ttl, names } = dns;
    let answer = match answer {
        DnsAnswerSource::Listener => "listener".to_owned(),
        DnsAnswerSource::Fixed(address) => address.to_string(),
    };
    vec![
        restart("dns.answer", answer),
        restart("dns.ttl", show_duration(*ttl)),
        restart("dns.names", list(names)),
    ]
}

fn resolver(resolver: &Resolver) -> Vec<Setting> {
    let Resolver {
        servers,
        ca,
        timeout,
    } = resolver;
    vec![
        restart("resolver.servers", list(servers)),
        restart("resolver.ca", path(ca.as_deref())),
        restart("resolver.timeout", show_duration(*timeout)),
    ]
}

fn audit(audit: &Audit) -> Vec<Setting> {
    let Audit {
        sink,
        max_size,
        keep,
    } = audit;
    let sink = match sink {
        AuditSink::Stdout => "stdout".to_owned(),
        AuditSink::File(file) => path(Some(file)),
    };
    vec![
        restart("audit.file", sink),
        restart("audit.max_size", show_size(*max_size)),
        restart("audit.keep", keep.to_string()),
    ]
}

fn limits(limits: &Limits) -> Vec<Setting> {
    let Limits {
        connections,
        connections_per_client,
        requests_per_second,
        dns_queries_per_second,
        wildcard_names_per_minute,
        denials_recorded_per_minute,
        header_timeout,
        connect_timeout,
        idle_timeout,
        lifetime,
        drain_timeout,
        max_header_bytes,
        max_upload_bytes,
    } = limits;
    let header_bytes = u64::try_from(*max_header_bytes).unwrap_or(u64::MAX);
    vec![
        restart("limits.connections", connections.to_string()),
        reload(
            "limits.connections_per_client",
            connections_per_client.to_string(),
        ),
        reload(
            "limits.requests_per_second",
            requests_per_second.to_string(),
        ),
        reload(
            "limits.dns_queries_per_second",
            dns_queries_per_second.to_string(),
        ),
        reload(
            "limits.wildcard_names_per_minute",
            wildcard_names_per_minute.to_string(),
        ),
        restart(
            "limits.denials_recorded_per_minute",
            denials_recorded_per_minute.to_string(),
        ),
        reload("limits.header_timeout", show_duration(*header_timeout)),
        reload("limits.connect_timeout", show_duration(*connect_timeout)),
        reload("limits.idle_timeout", show_duration(*idle_timeout)),
        reload("limits.lifetime", show_duration(*lifetime)),
        restart("limits.drain_timeout", show_duration(*drain_timeout)),
        reload("limits.max_header_bytes", show_size(header_bytes)),
        reload(
            "limits.max_upload_bytes",
            show_size(max_upload_bytes.unwrap_or(0)),
        ),
    ]
}

fn reload(key: &'static str, text: String) -> Setting {
    Setting {
        key,
        effect: Effect::Reload,
        text,
    }
}

fn restart(key: &'static str, text: String) -> Setting {
    Setting {
        key,
        effect: Effect::Restart,
        text,
    }
}

pub(super) fn list(entries: &[impl fmt::Display]) -> String {
    let entries: Vec<_> = entries.iter().map(ToString::to_string).collect();
    format!("[{}]", entries.join(", "))
}

fn path(path: Option<&std::path::Path>) -> String {
    path.map_or_else(|| "none".to_owned(), |path| path.display().to_string())
}
