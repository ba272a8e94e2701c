//! The resolvers of real clients, each with nothing but an `/etc/resolv.conf` that names us.

use std::{fs, path::Path};

use tokio::time::Instant;

use super::*;
use crate::support::namespace::{self, assert_fresh, cover, ip};

const NAMES: [&str; 4] = [
    "allowed.example",
    "EU.Wild.Example",
    "evil.example",
    "eclusa",
];

#[test]
fn glibc_musl_node_and_go_resolve() {
    namespace::run("dns::clients::resolvers_in_a_namespace");
}

#[test]
#[ignore = "runs in namespaces of its own, which the test above makes"]
fn resolvers_in_a_namespace() {
    assert_fresh();
    ip("link add sandbox type veth peer name far-sandbox");
    ip("link set sandbox up");
    ip("link set far-sandbox up");
    ip("address add 172.30.0.2/24 dev sandbox");
    let dns = DnsProxy::on(
        "0.0.0.0:53".parse().unwrap(),
        "[[clients]]\nsource = \"172.30.0.0/24\"\nprofile = \"default\"\n",
    );
    let folder = tempfile::tempdir().unwrap();
    // A search list, as container engines write it, and no second server to fall back to.
    let resolv = "nameserver 172.30.0.2\nsearch corp.example\noptions timeout:5 attempts:1\n";
    cover("/etc/resolv.conf", folder.path(), resolv);
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/integration/dns/clients");
    for mut client in [
        python(&sources),
        musl(&sources, folder.path()),
        node(&sources),
        go(&sources, folder.path()),
    ] {
        let begun = Instant::now();
        let told = output_of(client.command.args(NAMES));
        assert_eq!(told, client.expected, "{:?}", client.command);
        // No resolver had to wait for an answer that did not come.
        assert!(begun.elapsed() < Duration::from_secs(5), "{begun:?}");
    }
    let dig = output_of(Command::new("dig").args(["+search", "+short", "eclusa"]));
    assert_eq!(dig, "172.30.0.2\n");
    dns.assert_nothing_went_upstream();
}

/// A program that prints a line for each name.
struct Resolver {
    command: Command,
    expected: &'static str,
}

const C_LIBRARY: &str = "\
allowed.example 172.30.0.2
EU.Wild.Example 172.30.0.2
evil.example EAI_NONAME
eclusa 172.30.0.2
";

fn python(sources: &Path) -> Resolver {
    let mut command = Command::new("python3");
    command.arg(sources.join("resolve.py"));
    Resolver {
        command,
        expected: C_LIBRARY,
    }
}

fn musl(sources: &Path, folder: &Path) -> Resolver {
    let program = folder.join("resolve-musl");
    let mut compile = Command::new("musl-gcc");
    compile.arg(sources.join("resolve.c")).arg("-o");
    output_of(compile.arg(&program).arg("-static"));
    Resolver {
        command: Command::new(program),
        expected: C_LIBRARY,
    }
}

fn node(sources: &Path) -> Resolver {
    let mut command = Command::new("node");
    command.arg(sources.join("resolve.js"));
    Resolver {
        command,
        expected: "\
allowed.example 172.30.0.2 172.30.0.2 ENODATA ENODATA
EU.Wild.Example 172.30.0.2 172.30.0.2 ENODATA ENODATA
evil.example ENOTFOUND ENOTFOUND ENOTFOUND ENOTFOUND
eclusa 172.30.0.2 172.30.0.2 ENODATA ENODATA
",
    }
}

fn go(sources: &Path, folder: &Path) -> Resolver {
    let program = folder.join("resolve-go");
    let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("go");
    fs::create_dir_all(&cache).unwrap();
    let mut compile = Command::new("go");
    compile.env("CGO_ENABLED", "0").env("GOCACHE", &cache);
    compile.env("GOTOOLCHAIN", "local").env("GOFLAGS", "");
    compile.args(["build", "-o"]).arg(&program);
    output_of(compile.arg(sources.join("resolve.go")));
    Resolver {
        command: Command::new(program),
        expected: "\
allowed.example 172.30.0.2, not found
EU.Wild.Example 172.30.0.2, not found
evil.example not found, not found
eclusa 172.30.0.2, not found
",
    }
}
