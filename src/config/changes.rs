//! What a reload would change, in words, and which of it needs a restart.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use super::{
    Audit, AuditSink, Config, Dns, DnsAnswerSource, Limits, Listen, Resolver, Upstream,
    scalar::{show_duration, show_size},
};
use crate::policy::{EchMode, Mode, Profile, Rule};

/// Entries of one list that are named one by one; more are counted.
const NAMED: usize = 20;

/// When a changed setting takes effect.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Effect {
    /// With the reload.
    Reload,
    /// Sockets, sinks and upstream connections are made once.
    Restart,
}

/// One setting as it would be written.
struct Setting {
    key: &'static str,
    effect: Effect,
    text: String,
}

impl Config {
    /// The keys that differ in `new` and that only a restart puts into effect.
    pub fn restart_needed(&self, new: &Self) -> Vec<&'static str> {
        let pairs = settings(self).into_iter().zip(settings(new));
        pairs
            .filter(|(old, new)| old.effect == Effect::Restart && old.text != new.text)
            .map(|(old, _)| old.key)
            .collect()
    }

    /// Every difference, one line each, for the log and the record of a reload.
    pub fn changes(&self, new: &Self) -> Vec<String> {
        let mut lines = Vec::new();
        for (old, new) in settings(self).into_iter().zip(settings(new)) {
            if old.text != new.text {
                lines.push(format!("{}: {}, was {}", old.key, new.text, old.text));
            }
        }
        self.changed_profiles(new, &mut lines);
        self.changed_clients(new, &mut lines);
        lines
    }

    fn changed_profiles(&self, new: &Self, lines: &mut Vec<String>) {
        let names: BTreeSet<_> = self
            .policies
            .profile_names()
            .chain(new.policies.profile_names())
            .collect();
        let nothing = Profile::default();
        for name in names {
            let old = self.policies.configured(name);
            let new = new.policies.configured(name);
            match (old, new) {
                (None, Some(_)) => lines.push(format!("profiles.{name}: added")),
                (Some(_), None) => {
                    lines.push(format!("profiles.{name}: removed"));
                    continue;
                }
                (Some(_), Some(_)) | (None, None) => {}
            }
            changed_profile(
                name,
                old.unwrap_or(&nothing),
                new.unwrap_or(&nothing),
                lines,
            );
        }
    }

    fn changed_clients(&self, new: &Self, lines: &mut Vec<String>) {
        let by_source = |config: &Self| -> BTreeMap<_, _> {
            let clients = config.policies.clients().iter();
            clients
                .map(|client| (client.source, client.profile.clone()))
                .collect()
        };
        let (old, new) = (by_source(self), by_source(new));
        for (source, profile) in &new {
            match old.get(source) {
                None => lines.push(format!("clients: {source} added, under {profile:?}")),
                Some(was) if was != profile => {
                    lines.push(format!(
                        "clients: {source} is under {profile:?}, was {was:?}"
                    ));
                }
                Some(_) => {}
            }
        }
        for (source, profile) in &old {
            if !new.contains_key(source) {
                lines.push(format!("clients: {source} removed, was under {profile:?}"));
            }
        }
    }
}

fn changed_profile(name: &str, old: &Profile, new: &Profile, lines: &mut Vec<String>) {
    if old.mode != new.mode {
        let text = match new.mode {
            Mode::Enforce => "enforce, was report",
            Mode::Report => "report, was enforce",
        };
        lines.push(format!("profiles.{name}.mode: {text}"));
    }
    if old.ech != new.ech {
        let text = match new.ech {
            EchMode::Refuse => "refuse, was allow",
            EchMode::Allow => "allow, was refuse",
        };
        lines.push(format!("profiles.{name}.ech: {text}"));
    }
    let lists = [
        ("allows", &old.allow, &new.allow),
        ("denies", &old.deny, &new.deny),
    ];
    for (verb, old, new) in lists {
        let (old, new) = (written(old), written(new));
        let gone: Vec<_> = old.difference(&new).collect();
        let come: Vec<_> = new.difference(&old).collect();
        name_each(&format!("profiles.{name}: {verb}"), &come, lines);
        name_each(&format!("profiles.{name}: no longer {verb}"), &gone, lines);
    }
}

fn name_each(prefix: &str, entries: &[&String], lines: &mut Vec<String>) {
    for entry in entries.iter().take(NAMED) {
        lines.push(format!("{prefix} {entry}"));
    }
    if let Some(more) = entries.len().checked_sub(NAMED).filter(|more| *more > 0) {
        lines.push(format!("{prefix} {more} more"));
    }
}

/// Rules as text, so that their order and place do not count.
fn written(rules: &[Rule]) -> BTreeSet<String> {
    let written = rules.iter().map(|rule| {
        let mut text = rule.pattern.to_string();
        if !rule.addresses.is_empty() {
            text = format!("{text} at {}", list(&rule.addresses));
        }
        if rule.opaque {
            text.push_str(", opaque");
        }
        text
    });
    written.collect()
}

/// Every setting, in the order of the sections. The patterns name every field, so that a new one
/// cannot be forgotten.
fn settings(config: &Config) -> Vec<Setting> {
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
        reload(
            "limits.denials_recorded_per_minute",
            denials_recorded_per_minute.to_string(),
        ),
        reload("limits.header_timeout", show_duration(*header_timeout)),
        reload("limits.connect_timeout", show_duration(*connect_timeout)),
        reload("limits.idle_timeout", show_duration(*idle_timeout)),
        reload("limits.lifetime", show_duration(*lifetime)),
        reload("limits.drain_timeout", show_duration(*drain_timeout)),
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

fn list(entries: &[impl fmt::Display]) -> String {
    let entries: Vec<_> = entries.iter().map(ToString::to_string).collect();
    format!("[{}]", entries.join(", "))
}

fn path(path: Option<&std::path::Path>) -> String {
    path.map_or_else(|| "none".to_owned(), |path| path.display().to_string())
}

impl fmt::Display for Upstream {
    /// As it would be written in `resolver.servers`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::System => f.write_str("system"),
            Self::Udp(address) => write!(f, "udp://{address}"),
            Self::Tls { address, name } => write!(f, "tls://{address}#{name}"),
            Self::Https {
                address,
                name,
                path,
            } => write!(f, "https://{address}{path}#{name}"),
        }
    }
}
