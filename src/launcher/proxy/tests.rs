//! What the proxy container is, and what its configuration and image become.

use std::{collections::HashMap, io, path::Path};

use super::*;
use crate::config::{AuditSink, Config, fingerprint};

fn without_ca(_: &Path) -> io::Result<Vec<u8>> {
    panic!("there is no file to read")
}

/// The entries of an archive: path, kind, mode, owner and content.
fn entries(archive: &[u8]) -> Vec<(String, char, u32, u64, Vec<u8>)> {
    let mut archive = tar::Archive::new(archive);
    let read = |entry: io::Result<tar::Entry<'_, &[u8]>>| {
        let mut entry = entry.unwrap();
        let mut content = Vec::new();
        io::copy(&mut entry, &mut content).unwrap();
        let header = entry.header();
        assert_eq!(header.uid().unwrap(), header.gid().unwrap());
        (
            entry.path().unwrap().display().to_string(),
            char::from(header.entry_type().as_byte()),
            header.mode().unwrap(),
            header.uid().unwrap(),
            content,
        )
    };
    archive.entries().unwrap().map(read).collect()
}

#[test]
fn the_container_has_nothing_that_it_does_not_need() {
    let name = ImageName::of(b"a binary");
    let settings = ProxySettings::built_in().unwrap();
    let unique = ulid::Ulid::from_parts(1_700_000_000_000, 7);
    let plan = ProxyPlan::new(EngineKind::Docker, ("sha256:aa", &name), &settings, unique);
    insta::assert_snapshot!(
        "the_proxy_container",
        serde_json::to_string_pretty(&plan).unwrap()
    );
    let podman = ProxyPlan::new(EngineKind::Podman, ("sha256:aa", &name), &settings, unique);
    assert_eq!(podman.log.0, "k8s-file");
    let old = "write sysctl key net.ipv6.conf.all.forwarding: open \
               /proc/sys/net/ipv6/conf/all/forwarding: no such file or directory";
    assert!(ProxyPlan::lacks_ipv6(old) && !ProxyPlan::lacks_ipv6("no such image"));
    assert_eq!(plan.without_ipv6().sysctls.len(), 2);
}

#[test]
fn the_built_in_configuration_lets_nobody_do_anything() {
    let settings = ProxySettings::built_in().unwrap();
    insta::assert_snapshot!(settings.text(), @r#"
    [audit]
    file = "/var/log/eclusa/audit.jsonl"

    [listen]
    admin = "/run/eclusa/admin.sock"
    dns = ["0.0.0.0:53"]
    http = ["0.0.0.0:80"]
    https = ["0.0.0.0:443"]
    proxy = ["0.0.0.0:3128"]
    "#);
    let config = Config::parse(settings.text()).unwrap();
    assert_eq!(config.policies.profile_names().count(), 0);
    assert!(config.policies.clients().is_empty());
    assert_eq!(config.warnings, Vec::<String>::new());
    assert_eq!(ProxySettings::built_in().unwrap(), settings);
}

#[test]
fn only_what_depends_on_the_place_is_replaced() {
    let text = r#"
[listen]
proxy = ["127.0.0.1:8080"]
metrics = "127.0.0.1:9464"
admin = "/srv/admin.sock"
dangerously_listen_on_uplink = true
[resolver]
servers = ["tls://192.0.2.1#dns.example.com"]
[audit]
file = "stdout"
max_size = "1 MiB"
[profiles.default]
allow = ["api.example.com"]
[[profiles.default.rules]]
hosts = ["db.example.com"]
ports = [5432]
opaque = true
[[clients]]
source = "10.199.0.0/24"
profile = "default"
[limits]
drain_timeout = "2s"
connections = 100
[launcher]
ceiling = "default"
"#;
    let settings = ProxySettings::of(text, without_ca).unwrap();
    let (before, after) = (
        Config::parse(text).unwrap(),
        Config::parse(settings.text()).unwrap(),
    );
    assert_eq!(
        after.listen,
        Config::parse(ProxySettings::built_in().unwrap().text())
            .unwrap()
            .listen
    );
    assert_eq!(after.audit.sink, AuditSink::File(AUDIT_FILE.into()));
    assert_eq!(after.audit.max_size, 1024 * 1024);
    let in_place = Config {
        listen: before.listen.clone(),
        resolver: before.resolver.clone(),
        audit: before.audit.clone(),
        ..after.clone()
    };
    assert_eq!(before.changes(&in_place), Vec::<String>::new());
    assert_eq!(after.resolver.servers, before.resolver.servers);
    assert_eq!(after.launcher, before.launcher);
    assert_eq!(settings.drain_timeout(), Duration::from_secs(2));
}

#[test]
fn the_roots_of_the_resolver_go_with_the_configuration() {
    let text =
        "[resolver]\nservers = [\"tls://192.0.2.1#dns.example.com\"]\nca = \"/srv/own.pem\"\n";
    let with = |roots: &'static [u8]| {
        ProxySettings::of(text, |path| {
            assert_eq!(path, Path::new("/srv/own.pem"));
            Ok(roots.to_vec())
        })
        .unwrap()
    };
    let settings = with(b"roots");
    let after = Config::parse(settings.text()).unwrap();
    let [roots, config] = &entries(&settings.archive().unwrap())[..] else {
        panic!("two files")
    };
    let path = after.resolver.ca.unwrap();
    assert_eq!(path.parent(), Some(Path::new(CONFIG_FOLDER)));
    assert_eq!(path.file_name().unwrap().to_str(), Some(&*roots.0));
    assert_eq!((roots.1, roots.2, roots.3), ('0', 0o644, 0));
    assert_eq!(roots.4, b"roots");
    assert_eq!(
        (&*config.0, &*config.4),
        (CONFIG_FILE, settings.text().as_bytes())
    );
    assert!(settings.are_in_force(&after.fingerprint));
    assert!(settings.are_in_force(&fingerprint(text.as_bytes())));
    assert!(!settings.are_in_force(with(b"others").fingerprint()));
}

#[test]
fn a_configuration_that_is_not_valid_is_none() {
    let refused = |text: &str| ProxySettings::of(text, without_ca).unwrap_err().to_string();
    assert!(refused("").contains("empty"));
    assert!(refused("[listen]\nprxy = []\n").contains("prxy"));
    let unreadable = ProxySettings::of("[resolver]\nca = \"/srv/own.pem\"\n", |_| {
        Err(io::ErrorKind::NotFound.into())
    });
    assert_eq!(
        unreadable.unwrap_err().to_string(),
        "failed to read /srv/own.pem, which resolver.ca names"
    );
}

#[test]
fn the_image_holds_the_binary_and_the_folders_it_writes() {
    let binary = elf::tests::elf(183, 1);
    let image = OwnImage::of(&binary).unwrap();
    assert_eq!(image.architecture().name(), "arm64");
    let archive = image.archive().unwrap();
    assert_eq!(archive, image.archive().unwrap());
    let laid_out: Vec<_> = entries(&archive)
        .into_iter()
        .map(|(path, kind, mode, owner, content)| {
            format!("{kind} {mode:o} {owner} {path} {}", content.len())
        })
        .collect();
    assert_eq!(
        laid_out,
        [
            "5 755 0 etc 0",
            "5 755 0 etc/eclusa 0",
            "5 755 0 run 0",
            "5 700 65532 run/eclusa 0",
            "5 755 0 var 0",
            "5 755 0 var/log 0",
            "5 750 65532 var/log/eclusa 0",
            "0 755 0 eclusa 120",
        ]
    );
}

#[test]
fn an_image_is_known_by_the_whole_digest_of_its_binary() {
    let name = ImageName::of(b"abc");
    assert_eq!(name.reference(), "eclusa:ba7816bf8f01");
    let instructions = name.instructions();
    let (label, digest) = instructions[0]
        .strip_prefix("LABEL ")
        .and_then(|pair| pair.split_once('='))
        .unwrap();
    assert_eq!(digest.len(), 64);
    assert_ne!(label, ROLE.0, "what is made of the image is no proxy");
    let borne = |digest: &str| {
        let labels = HashMap::from([(label.to_owned(), digest.to_owned())]);
        name.is_borne_by(&labels)
    };
    assert!(borne(digest));
    assert!(!borne(name.tag()) && !name.is_borne_by(&HashMap::new()));
}
