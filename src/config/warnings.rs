//! What is legal but should be known at every start.

#[cfg(test)]
mod tests;

use std::{collections::BTreeSet, net::IpAddr};

use ipnet::IpNet;

use super::{Config, DnsAnswerSource, Upstream};
use crate::{
    destination::{AddressClass, address::classify},
    policy::{EchMode, Mode, Profile},
};

/// Every warning, in the order of the sections.
pub(super) fn of(config: &Config) -> Vec<String> {
    let mut warnings = Vec::new();
    listen(config, &mut warnings);
    dns(config, &mut warnings);
    resolver(config, &mut warnings);
    for name in config.policies.profile_names() {
        if let Some(profile) = config.policies.configured(name) {
            self::profile(name, profile, &mut warnings);
        }
    }
    for client in config.policies.clients() {
        if client.source.prefix_len() == 0 {
            warnings.push(format!(
                "clients: {} takes everybody who reaches a listener for a client under {:?}",
                client.source, client.profile
            ));
        }
    }
    warnings
}

fn listen(config: &Config, warnings: &mut Vec<String>) {
    let listen = &config.listen;
    if listen.dangerously_listen_on_uplink {
        warnings.push(
            "listen.dangerously_listen_on_uplink: wildcard listeners also serve interfaces that \
             hold a default route, so strangers there can reach them"
                .to_owned(),
        );
    }
    let lists = [&listen.proxy, &listen.dns, &listen.https, &listen.http];
    let sockets = lists.into_iter().flatten().chain(&listen.metrics);
    if sockets.into_iter().any(|socket| socket.port() == 0) {
        warnings.push("listen: port 0 is a different port at every start".to_owned());
    }
}

fn dns(config: &Config, warnings: &mut Vec<String>) {
    let DnsAnswerSource::Fixed(address) = config.dns.answer else {
        return;
    };
    if address.is_loopback() {
        warnings.push(format!(
            "dns.answer: {address} is the loopback of whoever asks; only clients in our own \
             network namespace reach us there"
        ));
    } else if is_public(address.into()) {
        warnings.push(format!(
            "dns.answer: {address} is a public address; if it is not ours, clients that ignore \
             HTTP_PROXY are sent there"
        ));
    }
}

fn resolver(config: &Config, warnings: &mut Vec<String>) {
    let mut encrypted = false;
    for (index, server) in config.resolver.servers.iter().enumerate() {
        match server {
            Upstream::Udp(address) if is_public(address.ip()) => warnings.push(format!(
                "resolver.servers[{index}]: names go to {} in clear text",
                address.ip()
            )),
            Upstream::System | Upstream::Udp(_) => {}
            Upstream::Tls { .. } | Upstream::Https { .. } => encrypted = true,
        }
    }
    if config.resolver.ca.is_some() && !encrypted {
        warnings
            .push("resolver.ca: no server is tls:// or https://, so it has no effect".to_owned());
    }
}

fn profile(name: &str, profile: &Profile, warnings: &mut Vec<String>) {
    match profile.mode {
        Mode::Enforce => {}
        Mode::Report => warnings.push(format!(
            "profiles.{name}.mode: report lets out what the lists do not allow, and our DNS \
             answers such names; data can leave by a name"
        )),
    }
    match profile.ech {
        EchMode::Refuse => {}
        EchMode::Allow => warnings.push(format!(
            "profiles.{name}.ech: with Encrypted Client Hello, the host that a tunnel really \
             asks for cannot be checked"
        )),
    }
    let mut said = BTreeSet::new();
    for rule in &profile.allow {
        let place = rule.place.split(".hosts[").next().unwrap_or(&rule.place);
        let loopback = rule.addresses.iter().find(|range| holds_loopback(range));
        let texts = [
            rule.opaque.then(|| {
                format!(
                    "{place}.opaque: what flows in these tunnels need not be TLS, so its \
                         host is not checked"
                )
            }),
            loopback.map(|range| {
                format!("{place}.addresses: {range} opens services on the loopback of this host")
            }),
        ];
        for text in texts.into_iter().flatten() {
            if said.insert(text.clone()) {
                warnings.push(text);
            }
        }
    }
}

fn holds_loopback(range: &IpNet) -> bool {
    range.addr().is_loopback()
        || range.contains(&IpAddr::from([127, 0, 0, 1]))
        || range.contains(&IpAddr::from(std::net::Ipv6Addr::LOCALHOST))
}

fn is_public(address: IpAddr) -> bool {
    match classify(address, &[]) {
        AddressClass::Public => true,
        AddressClass::Special(_) | AddressClass::Metadata(_) => false,
    }
}
