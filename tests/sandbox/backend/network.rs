//! Slices and named networks: who can be reached from inside, and what is left of them.

use std::collections::BTreeSet;

use eclusa::launcher::{
    backend::{Backend, BackendError, Proxy},
    spec::{NetworkChoice, RunSpec},
};

use super::{Run, engine, python};
use crate::docker::{AGENT_IMAGE, Container, docker, exec, wait_until};

/// Listens on every address at port 8000, answering with one line.
const SERVE: &str = r#"
import socket
server = socket.create_server(("::", 8000), family=socket.AF_INET6, dualstack_ipv6=True)
while True:
    connection, _ = server.accept()
    connection.sendall(b"here\n")
    connection.close()
"#;

/// Prints which of the addresses that follow accept a connection to port 8000.
const REACH: &str = r#"
import concurrent.futures, socket, sys
def reach(address):
    try:
        return socket.create_connection((address, 8000), 2).recv(5) == b"here\n"
    except OSError:
        return False
with concurrent.futures.ThreadPoolExecutor(16) as pool:
    print(*(a for a, ok in zip(sys.argv[1:], pool.map(reach, sys.argv[1:])) if ok))
"#;

fn served(arguments: &[&str]) -> Container {
    let run = ["run", "--detach", "--init"];
    let serve = [AGENT_IMAGE, "python3", "-c", SERVE];
    let container = Container(docker(&[&run[..], arguments, &serve].concat()));
    wait_until("a listener", || {
        let listens = exec(&container.0, &["python3", "-c", REACH, "127.0.0.1"]);
        listens.text == "127.0.0.1"
    });
    container
}

/// Stands for the proxy: a container with a network of its own.
fn proxy(container: &Container) -> Proxy {
    Proxy {
        id: docker(&["inspect", "-f", "{{.Id}}", &container.0]),
        name: container.0.clone(),
        image: String::new(),
        hostname: docker(&["inspect", "-f", "{{.Config.Hostname}}", &container.0]),
        socket: None,
        config: None,
    }
}

fn networks_of(container: &str) -> String {
    let format = "{{range $name, $_ := .NetworkSettings.Networks}}{{$name}} {{end}}";
    docker(&["inspect", "-f", format, container])
}

fn reaching(addresses: &BTreeSet<String>) -> RunSpec {
    let mut spec = python(REACH);
    spec.command.extend(addresses.iter().cloned());
    spec
}

/// The addresses of the engine's host, from a container that shares its network.
fn addresses_of(host: &Container) -> BTreeSet<String> {
    let script = "ip -4 -o address show scope global | awk '{print $4}' | cut -d / -f 1";
    let addresses = exec(&host.0, &["sh", "-c", script]).text;
    addresses.lines().map(str::to_owned).collect()
}

#[tokio::test]
#[ignore = "needs Docker"]
async fn from_a_slice_only_the_proxy_is_reached() {
    let host = served(&["--network=host"]);
    let proxy_container = served(&[]);
    let neighbour = served(&[]);
    let before = networks_of(&proxy_container.0);
    let mut addresses = addresses_of(&host);
    assert!(!addresses.is_empty());
    let format = "{{.NetworkSettings.IPAddress}}";
    addresses.insert(docker(&["inspect", "-f", format, &neighbour.0]));
    addresses.insert(docker(&["inspect", "-f", format, &proxy_container.0]));
    // That they can be reached at all.
    let all: Vec<&str> = addresses.iter().map(String::as_str).collect();
    let reached = exec(
        &neighbour.0,
        &[&["python3", "-c", REACH][..], &all].concat(),
    );
    assert_eq!(reached.text, all.join(" "));

    addresses.extend(["10.243.0.1", "10.243.0.2", "10.243.0.3"].map(str::to_owned));
    let mut spec = reaching(&addresses);
    spec.network = NetworkChoice::Egress;
    let run = Run::on(
        "backend-slice",
        &spec,
        "10.243.0.0/29",
        Some(proxy(&proxy_container)),
    )
    .await;
    run.create().await.unwrap();
    // The sandbox may have addresses to listen at, and the proxy its own network and the slice.
    let ran = run.execute(b"").await;
    assert_eq!(ran.stdout, "10.243.0.2\n", "{ran:#?}");
    assert!(networks_of(&proxy_container.0).contains("agent-egress-backend-slice"));
    run.remove().await;
    assert_eq!(networks_of(&proxy_container.0), before);
    let state = docker(&["inspect", "-f", "{{.State.Running}}", &proxy_container.0]);
    assert_eq!(state, "true");
}

#[tokio::test]
#[ignore = "needs Docker"]
async fn a_sandbox_on_a_slice_has_no_ipv6_and_no_way_on() {
    let proxy_container = served(&[]);
    let script = r#"
import os
print(open("/proc/net/if_inet6").read(), *sorted(os.listdir("/sys/class/net")))
for line in open("/proc/net/route").read().splitlines()[1:]:
    interface, destination, gateway = line.split()[:3]
    if int(gateway, 16):
        print(".".join(str(byte) for byte in reversed(bytes.fromhex(gateway))))
"#;
    let mut spec = python(script);
    spec.network = NetworkChoice::Egress;
    let run = Run::on(
        "backend-route",
        &spec,
        "10.243.1.0/29",
        Some(proxy(&proxy_container)),
    )
    .await;
    let ran = run.run(b"").await;
    // Docker 20.10 sets a default route; nobody has the address that it leads to.
    let routes = ran.stdout.strip_prefix(" eth0 lo\n");
    assert!(matches!(routes, Some("" | "10.243.1.1\n")), "{ran:#?}");
}

#[tokio::test]
#[ignore = "needs Docker"]
async fn a_range_in_use_is_told_and_another_taken() {
    let proxy_container = served(&[]);
    let mut spec = python("print('ran')");
    spec.network = NetworkChoice::Egress;
    let first = Run::on("backend-first", &spec, "10.243.2.0/29", None).await;
    let error = first.create().await.unwrap_err().to_string();
    assert_eq!(error, "the proxy of the run is not known");
    first.remove().await;

    let proxy = Some(proxy(&proxy_container));
    let first = Run::on("backend-first", &spec, "10.243.2.0/29", proxy.clone()).await;
    first.create().await.unwrap();
    let taken = first.engine.subnets().await.unwrap();
    assert!(
        taken.contains(&"10.243.2.0/29".parse().unwrap()),
        "{taken:?}"
    );
    for range in ["10.243.2.0/29", "10.243.2.0/28"] {
        let second = Run::on("backend-second", &spec, range, proxy.clone()).await;
        let error = second.create().await.unwrap_err();
        let BackendError::SubnetTaken(got) = error else {
            panic!("{error}");
        };
        assert_eq!(got, range.parse().unwrap());
        second.remove().await;
    }
    let second = Run::on("backend-second", &spec, "10.243.2.8/29", proxy).await;
    assert_eq!(second.run(b"").await.stdout, "ran\n");
    first.remove().await;
}

#[tokio::test]
#[ignore = "needs Docker"]
async fn a_proxy_that_is_gone_is_told_and_nothing_is_left() {
    let gone = Container(docker(&["create", AGENT_IMAGE, "true"]));
    let proxy = proxy(&gone);
    drop(gone);
    let mut spec = python("");
    spec.network = NetworkChoice::Egress;
    let run = Run::on("backend-noproxy", &spec, "10.243.3.0/29", Some(proxy)).await;
    let error = run.create().await.unwrap_err().to_string();
    assert!(
        error.starts_with("failed to attach the proxy to "),
        "{error}"
    );
    run.remove().await;
}

/// A network that removes itself.
struct Network(&'static str);

impl Network {
    fn new(name: &'static str, options: &[&str]) -> Self {
        docker(&[&["network", "create"][..], options, &[name]].concat());
        Self(name)
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        crate::docker::attempt(
            std::process::Command::new("docker").args(["network", "rm", self.0]),
        );
    }
}

#[tokio::test]
#[ignore = "needs Docker"]
async fn of_named_networks_only_one_without_the_host_is_joined() {
    let inhibit = "--opt=com.docker.network.bridge.inhibit_ipv4=true";
    let _apart = Network::new("backend-apart", &["--internal", inhibit]);
    let _internal = Network::new("backend-internal", &["--internal"]);
    let _open = Network::new("backend-open", &[]);
    let id = docker(&["network", "inspect", "-f", "{{.Id}}", "backend-apart"]);
    for (name, dangerously_allow, expected) in [
        ("backend-apart", false, ""),
        ("backend-internal", false, "the host has an address on it"),
        ("backend-internal", true, ""),
        ("backend-open", false, "it is not internal"),
        ("backend-open", true, ""),
        ("bridge", false, "it is not internal"),
        (&id, false, "write backend-apart"),
        ("backend-missing", false, "there is no such network"),
        ("default", true, "there is no such network"),
        ("../containers", true, "not the name of a network"),
    ] {
        let mut spec = python("import os; print(len(os.listdir('/sys/class/net')))");
        spec.network = NetworkChoice::Named {
            name: name.to_owned(),
            dangerously_allow,
        };
        let run = Run::new("backend-named", &spec).await;
        if expected.is_empty() {
            assert_eq!(run.run(b"").await.stdout, "2\n", "{name}");
        } else {
            let error = run.create().await.unwrap_err();
            assert!(
                matches!(error, BackendError::Network { .. }),
                "{name}: {error}"
            );
            assert!(error.to_string().contains(expected), "{name}: {error}");
            run.remove().await;
        }
    }
    assert!(engine().await.objects().await.is_ok());
}
