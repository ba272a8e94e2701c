//! `eclusa up` and `eclusa down`: the proxy container that `eclusa run` uses.

use std::{
    env, fs,
    io::Write,
    net::{Shutdown, TcpListener, TcpStream},
    os::unix::{fs::PermissionsExt, net::UnixStream},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
};

use eclusa::launcher::{
    backend::{AdminCall, Backend, Proxy, docker::Docker},
    proxy::{ProxyOptions, ProxySettings},
};
use serde_json::{Value, json};

use crate::docker::{AGENT_IMAGE, Container, Output, attempt, docker, wait_until, without_proxy};

const POLICY: &str = r#"
[listen]
proxy = ["127.0.0.1:8080"]
[profiles.default]
allow = ["api.example.com"]
[limits]
drain_timeout = "1s"
"#;

fn static_binary() -> PathBuf {
    env::var_os("ECLUSA_BINARY").map(PathBuf::from).unwrap()
}

/// The command with the caller's engine and nothing else of its environment.
fn command(binary: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(binary);
    command.env_clear().args(arguments);
    command.envs(env::var_os("DOCKER_HOST").map(|host| ("DOCKER_HOST", host)));
    command
}

fn eclusa(arguments: &[&str]) -> Output {
    attempt(&mut command(&static_binary(), arguments))
}

/// What `eclusa up --json` did, with more arguments.
fn up(arguments: &[&str]) -> Value {
    let output = eclusa(&[&["up", "--json"], arguments].concat());
    assert!(output.ok, "{arguments:?}: {}", output.text);
    serde_json::from_str(&output.text).unwrap()
}

/// Why a command failed.
fn refused(arguments: &[&str]) -> String {
    let output = eclusa(arguments);
    assert!(!output.ok, "{arguments:?}: {}", output.text);
    output.text
}

fn inspect(format: &str) -> String {
    docker(&["inspect", "--format", format, "eclusa-proxy"])
}

fn exec_admin(arguments: &[&str]) -> Output {
    let exec = ["exec", "eclusa-proxy", "/eclusa", "admin"];
    attempt(Command::new("docker").args(exec).args(arguments))
}

/// A file of that name and content in a folder of its own.
fn file(name: &str, content: impl AsRef<[u8]>) -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    fs::write(&path, content).unwrap();
    let path = path.to_str().unwrap().to_owned();
    (folder, path)
}

fn register(run: &str) {
    let body = json!({"sources": ["10.231.255.3"], "allow": [], "expires_in": "1h"}).to_string();
    let path = format!("/v1/runs/{run}");
    let registered = exec_admin(&["PUT", &path, &body]);
    assert!(registered.ok, "{registered:?}");
}

#[test]
#[ignore = "needs Docker"]
fn up_twice_is_up_once_and_down_leaves_the_audit_log_alone() {
    let _alone = without_proxy();
    assert_eq!(
        eclusa(&["down"]).text,
        "there was no proxy",
        "nothing is a success too"
    );
    let first = up(&[]);
    assert_eq!(first["action"], "started");
    let second = up(&[]);
    assert_eq!(second["action"], "none");
    assert_eq!(second["id"], first["id"]);
    assert_eq!(inspect("{{.Id}}"), first["id"]);
    let place = &first["audit"];
    assert_eq!(place["volume"], "eclusa-audit");
    let folder = docker(&["volume", "inspect", "-f", "{{.Mountpoint}}", "eclusa-audit"]);
    assert_eq!(place["mountpoint"], folder);

    // As the engine applied it, and as the process sees it.
    let applied = inspect(
        "{{.Config.User}} {{.HostConfig.ReadonlyRootfs}} {{.HostConfig.CapDrop}} \
         {{.HostConfig.SecurityOpt}} {{.HostConfig.RestartPolicy.Name}} {{.HostConfig.NetworkMode}}",
    );
    assert_eq!(
        applied,
        "65532:65532 true [ALL] [no-new-privileges:true] unless-stopped egress-uplink"
    );
    let name = inspect("{{.Config.Hostname}}");
    let health: Value = serde_json::from_str(&exec_admin(&["GET", "/healthz"]).text).unwrap();
    assert_eq!(health["hostname"], name);
    let refused = refused(&["admin", "GET", "/healthz", "--admin", "/nowhere.sock"]);
    assert!(refused.contains("/nowhere.sock"), "{refused}");

    let down = eclusa(&["down"]);
    assert!(down.ok, "{down:?}");
    assert_eq!(
        down.text,
        "removed container eclusa-proxy\nremoved network egress-uplink\n\
         removed volume eclusa-proxy\nremoved volume eclusa-config\n\
         kept volume eclusa-audit, the audit log"
    );
    let left = attempt(Command::new("docker").args(["inspect", "eclusa-proxy", "egress-uplink"]));
    assert!(!left.ok, "{left:?}");
    docker(&["volume", "inspect", "eclusa-audit"]);
}

#[test]
#[ignore = "needs Docker"]
fn a_changed_configuration_is_taken_up_without_a_new_container() {
    let _alone = without_proxy();
    let (_folder, path) = file("policy.toml", POLICY);
    let first = up(&["-c", &path]);
    assert_eq!(first["action"], "started");
    assert_eq!(up(&["-c", &path])["action"], "none");

    fs::write(&path, POLICY.replace("api.", "www.")).unwrap();
    let second = up(&["-c", &path]);
    assert_eq!(second["action"], "reloaded");
    assert_eq!(second["id"], first["id"]);
    assert_eq!(
        second["changes"],
        json!([
            "profiles.default: allows www.example.com",
            "profiles.default: no longer allows api.example.com"
        ])
    );
    // Without a configuration the proxy keeps the one it has, also when it is made anew.
    assert_eq!(up(&[])["config"], second["config"]);
    docker(&["stop", "eclusa-proxy"]);
    let third = up(&[]);
    assert_eq!(third["action"], "started");
    assert_eq!(third["config"], second["config"]);

    // A key that needs a restart is worth a new container, but not the network of a run.
    fs::write(&path, POLICY.replace("\"1s\"", "\"2s\"")).unwrap();
    register("01RUN");
    let in_use = refused(&["up", "-c", &path]);
    assert!(
        in_use.contains("limits.drain_timeout") && in_use.contains("01RUN"),
        "{in_use}"
    );
    docker(&["restart", "eclusa-proxy"]);
    let kept = up(&[]);
    assert_eq!(kept["config"], second["config"], "a restart finds the old");
    let fourth = up(&["-c", &path]);
    assert_eq!(fourth["action"], "replaced");
    assert_ne!(fourth["id"], third["id"]);
    assert_ne!(fourth["config"], third["config"]);
}

#[test]
#[ignore = "needs Docker"]
fn a_bad_configuration_changes_nothing() {
    let _alone = without_proxy();
    let (_folder, path) = file("policy.toml", POLICY);
    let first = up(&["-c", &path]);
    fs::write(&path, POLICY.replace("allow", "alow")).unwrap();
    let bad = command(&static_binary(), &["up", "-c", &path])
        .output()
        .unwrap();
    assert_eq!(bad.status.code(), Some(64));
    assert!(String::from_utf8_lossy(&bad.stderr).contains("alow"));
    fs::write(
        &path,
        format!("{POLICY}[resolver]\nca = \"/nowhere.pem\"\n"),
    )
    .unwrap();
    let bad = command(&static_binary(), &["up", "-c", &path])
        .output()
        .unwrap();
    assert_eq!(bad.status.code(), Some(64));
    assert!(
        String::from_utf8_lossy(&bad.stderr)
            .contains("/nowhere.pem, which resolver.ca names: No such file")
    );
    let after = up(&[]);
    assert_eq!(after["id"], first["id"]);
    assert_eq!(after["config"], first["config"]);
}

#[test]
#[ignore = "needs Docker"]
fn a_proxy_that_cannot_run_is_an_error_with_its_own_words() {
    let _alone = without_proxy();
    // More connections than any container may have files.
    let text = POLICY.replace("[limits]", "[limits]\nconnections = 1000000");
    let (_folder, path) = file("policy.toml", text);
    let why = refused(&["up", "-c", &path]);
    assert!(
        why.contains("eclusa-proxy does not get healthy") && why.contains("limits.connections"),
        "{why}"
    );
    let left = attempt(Command::new("docker").args(["container", "inspect", "eclusa-proxy"]));
    assert!(!left.ok, "it is not started for ever: {left:?}");
    fs::write(&path, POLICY).unwrap();
    assert_eq!(up(&["-c", &path])["action"], "started");
}

#[test]
#[ignore = "needs Docker"]
fn a_proxy_that_cannot_record_is_an_error_at_once() {
    let _alone = without_proxy();
    let options = [
        "--opt=type=tmpfs",
        "--opt=device=tmpfs",
        "--opt=o=size=256k,mode=1777",
    ];
    docker(&[&["volume", "create"], &options[..], &["eclusa-audit"]].concat());
    up(&[]);
    let volume = "--volume=eclusa-audit:/audit";
    let fill = ["dd", "if=/dev/zero", "of=/audit/full", "bs=4k"];
    let full = ["run", "--rm", volume, AGENT_IMAGE];
    let full = attempt(Command::new("docker").args(full).args(fill));
    assert!(full.text.contains("No space left"), "{full:?}");
    // The log's last page has room for some records still.
    let is_unrecorded = (1..64).any(|at| {
        let source = format!("10.231.255.{at}");
        let body = json!({"sources": [source], "expires_in": "1h"}).to_string();
        !exec_admin(&["PUT", &format!("/v1/runs/01RUN{at}"), &body]).ok
    });
    assert!(is_unrecorded, "every run was recorded on a full disk");
    let why = refused(&["up"]);
    assert!(why.contains("cannot write its audit log"), "{why}");
}

#[test]
#[ignore = "needs Docker"]
fn a_network_that_went_while_it_was_stopped_does_not_keep_it_down() {
    let _alone = without_proxy();
    let first = up(&[]);
    attempt(Command::new("docker").args(["network", "rm", "eclusa-test-slice"]));
    docker(&["network", "create", "--internal", "eclusa-test-slice"]);
    docker(&["network", "connect", "eclusa-test-slice", "eclusa-proxy"]);
    docker(&["stop", "eclusa-proxy"]);
    docker(&["network", "rm", "eclusa-test-slice"]);
    let start = attempt(Command::new("docker").args(["start", "eclusa-proxy"]));
    assert!(!start.ok, "or there is nothing to heal: {start:?}");
    let second = up(&[]);
    assert_eq!(second["action"], "started");
    assert_ne!(second["id"], first["id"]);
}

#[test]
#[ignore = "needs Docker"]
fn a_container_of_another_kind_keeps_its_name() {
    let _alone = without_proxy();
    let image = up(&[])["image"].as_str().unwrap().to_owned();
    eclusa(&["down"]);
    let name = "--name=eclusa-proxy";
    let _other = Container(docker(&["create", name, &image, "hold"]));
    for verb in ["up", "down"] {
        let why = refused(&[verb]);
        assert!(why.contains("not from `eclusa up`"), "{verb}: {why}");
    }
    docker(&["container", "inspect", "eclusa-proxy"]);
}

#[test]
#[ignore = "needs Docker"]
fn another_binary_replaces_the_proxy_only_when_no_run_uses_it() {
    let _alone = without_proxy();
    let first = up(&[]);
    // The same program to the kernel, another one to a digest.
    let mut content = fs::read(static_binary()).unwrap();
    content.push(0);
    let (_folder, other) = file("eclusa", content);
    fs::set_permissions(&other, fs::Permissions::from_mode(0o755)).unwrap();
    let other_up = || attempt(&mut command(Path::new(&other), &["up", "--json"]));
    register("01RUN");
    let why = other_up();
    assert!(
        !why.ok && why.text.contains("serves a run: 01RUN"),
        "{why:?}"
    );
    let why = refused(&["down"]);
    assert!(why.contains("serves a run: 01RUN"), "{why}");
    assert!(exec_admin(&["DELETE", "/v1/runs/01RUN"]).ok);

    let replaced: Value = serde_json::from_str(&other_up().text).unwrap();
    assert_eq!(replaced["action"], "replaced");
    assert_ne!(replaced["image"], first["image"]);
    let gone = attempt(Command::new("docker").args([
        "image",
        "inspect",
        first["image"].as_str().unwrap(),
    ]));
    assert!(!gone.ok, "the image of the binary before: {gone:?}");
    let back = up(&[]);
    assert_eq!(back["action"], "replaced");
}

#[test]
#[ignore = "needs Docker"]
fn a_binary_that_needs_a_loader_is_refused() {
    let _alone = without_proxy();
    // Of this crate too, and linked dynamically unless all of it is built statically.
    let why = attempt(&mut command(
        Path::new(env!("CARGO_BIN_EXE_eclusa")),
        &["up"],
    ));
    assert!(
        !why.ok
            && why
                .text
                .contains("eclusa up needs a statically linked binary"),
        "{why:?}"
    );
    let left = attempt(Command::new("docker").args(["container", "inspect", "eclusa-proxy"]));
    assert!(!left.ok, "{left:?}");
}

#[test]
#[ignore = "needs Docker"]
fn many_at_once_start_one_proxy() {
    let _alone = without_proxy();
    let image = up(&[])["image"].as_str().unwrap().to_owned();
    eclusa(&["down"]);
    docker(&["image", "rm", &image]);
    let dangling = || docker(&["images", "--quiet", "--filter=dangling=true"]);
    let before = dangling();
    let commands: Vec<_> = (0..20)
        .map(|_| {
            command(&static_binary(), &["up", "--json"])
                .stdin(Stdio::null())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap()
        })
        .collect();
    let outputs = commands
        .into_iter()
        .map(|command| command.wait_with_output().unwrap());
    let reports: Vec<Value> = outputs
        .map(|output| {
            assert!(output.status.success(), "{output:?}");
            serde_json::from_slice(&output.stdout).unwrap()
        })
        .collect();
    let started = reports
        .iter()
        .filter(|report| report["action"] == "started");
    assert_eq!(started.count(), 1, "{reports:#?}");
    assert!(
        reports
            .iter()
            .all(|report| report["id"] == reports[0]["id"])
    );
    let uplinks = docker(&["network", "ls", "--quiet", "--filter=name=^egress-uplink$"]);
    assert_eq!(uplinks.lines().count(), 1, "{uplinks}");
    assert_eq!(dangling(), before, "it was imported once");
}

/// An engine on the network: the one of the tests, behind a port of loopback.
fn over_tcp() -> String {
    let host = env::var_os("DOCKER_HOST").map(|host| host.into_string().unwrap());
    let host = host.unwrap_or_else(|| "unix:///var/run/docker.sock".to_owned());
    let socket = host.strip_prefix("unix://").unwrap().to_owned();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for client in listener.incoming() {
            let (client, engine) = (client.unwrap(), UnixStream::connect(&socket).unwrap());
            let (back, forth) = (engine.try_clone().unwrap(), client.try_clone().unwrap());
            thread::spawn(move || pass_on(client, engine));
            thread::spawn(move || pass_back(back, forth));
        }
    });
    format!("tcp://{address}")
}

fn pass_on(mut from: TcpStream, mut to: UnixStream) {
    // Either side may go at any time.
    drop(std::io::copy(&mut from, &mut to));
    drop(to.shutdown(Shutdown::Write));
}

fn pass_back(mut from: UnixStream, mut to: TcpStream) {
    drop(std::io::copy(&mut from, &mut to));
    drop(to.flush());
    drop(to.shutdown(Shutdown::Write));
}

async fn engine(host: Option<&str>, options: ProxyOptions) -> Docker {
    let own = env::var_os("DOCKER_HOST").map(|host| host.into_string().unwrap());
    let docker = Docker::connect(host.or(own.as_deref()), None)
        .await
        .unwrap();
    docker.with_proxy(ProxyOptions {
        binary: Some(static_binary()),
        ..options
    })
}

#[test]
#[ignore = "needs Docker"]
fn the_first_run_starts_the_proxy_and_the_next_one_uses_it() {
    let _alone = without_proxy();
    let state = tempfile::tempdir().unwrap();
    let (_folder, path) = file("policy.toml", POLICY);
    let run = |options: &[&str]| {
        let lookup = [AGENT_IMAGE, "getent", "ahostsv4", "www.example.com"];
        let arguments = [
            &["run", "--json", "--allow", "www.example.com"],
            options,
            &lookup,
        ];
        let mut command = command(&static_binary(), &arguments.concat());
        command.env("XDG_STATE_HOME", state.path());
        let output = command.output().unwrap();
        let record: Value = serde_json::from_slice(&output.stdout).unwrap();
        (output.status.code(), record)
    };
    let (code, record) = run(&[]);
    assert_eq!(code, Some(0), "{record}");
    assert_eq!(record["network"]["dns"][0]["name"], "www.example.com");
    let first = inspect("{{.Id}}");
    let (code, record) = run(&[]);
    assert_eq!(code, Some(0), "{record}");
    assert_eq!(inspect("{{.Id}}"), first);
    let (code, record) = run(&["-c", &path]);
    assert_eq!(code, Some(125), "{record}");
    let why = record["error"].as_str().unwrap();
    assert!(why.contains("another configuration; `eclusa up`"), "{why}");
    up(&["-c", &path]);
    assert_eq!(run(&["-c", &path]).0, Some(0));
    // Nothing of the runs is left in the proxy.
    assert_eq!(exec_admin(&["GET", "/v1/runs"]).text, "[]");
    let networks = inspect("{{range $name, $_ := .NetworkSettings.Networks}}{{$name}} {{end}}");
    assert_eq!(networks, "egress-uplink");
}

#[tokio::test]
#[ignore = "needs Docker"]
async fn the_admin_socket_is_reached_by_its_path_and_through_the_engine() {
    let _alone = without_proxy();
    let local = engine(None, ProxyOptions::default()).await;
    let proxy = local.proxy().await.unwrap();
    // Another engine's files are not here, though it is reached by a socket.
    let is_here = env::var_os("DOCKER_HOST").is_none();
    assert_eq!(proxy.socket.is_some(), is_here, "{proxy:?}");
    let host = over_tcp();
    let remote = engine(Some(&host), ProxyOptions::default()).await;
    let by_exec = remote.proxy().await.unwrap();
    assert_eq!(
        by_exec,
        Proxy {
            socket: None,
            ..proxy.clone()
        }
    );
    let many: Vec<String> = (0..2000).map(|n| format!("host-{n}.example.com")).collect();
    let body = json!({"sources": ["10.231.255.3"], "allow": many, "expires_in": "1h"}).to_string();
    for (engine, proxy) in [(&local, &proxy), (&remote, &by_exec)] {
        for (method, path, body, expected) in [
            ("GET", "/healthz", "", 200),
            ("PUT", "/v1/runs/01RUN", &*body, 200),
            ("GET", "/v1/runs/01RUN", "", 200),
            ("PUT", "/v1/runs/01RUN", "-1", 400),
            ("DELETE", "/v1/runs/01RUN", "", 200),
            ("DELETE", "/v1/runs/01RUN", "", 404),
        ] {
            let call = AdminCall { method, path, body };
            let (status, answer) = engine.admin(proxy, call).await.unwrap();
            assert_eq!(status, expected, "{method} {path}: {answer:?}");
            serde_json::from_slice::<Value>(&answer).unwrap();
        }
    }
    let call = AdminCall {
        method: "PUT",
        path: "/v1/runs/01RUN",
        body: &"x".repeat(200_000),
    };
    let too_long = remote.admin(&by_exec, call).await.unwrap_err().to_string();
    assert!(too_long.contains("--admin"), "{too_long}");
}

#[tokio::test]
#[ignore = "needs Docker"]
async fn a_run_takes_no_proxy_of_another_configuration() {
    let _alone = without_proxy();
    let settings = |text: &str| ProxyOptions {
        settings: Some(
            ProxySettings::of(text, |_| Err(std::io::ErrorKind::NotFound.into())).unwrap(),
        ),
        ..ProxyOptions::default()
    };
    let (_folder, path) = file("policy.toml", POLICY);
    up(&["-c", &path]);
    engine(None, settings(POLICY)).await.proxy().await.unwrap();
    engine(None, ProxyOptions::default())
        .await
        .proxy()
        .await
        .unwrap();
    let other = engine(None, settings(&POLICY.replace("api.", "www."))).await;
    let why = other.proxy().await.unwrap_err().to_string();
    assert!(why.contains("another configuration; `eclusa up`"), "{why}");
}

#[tokio::test]
#[ignore = "needs Docker"]
async fn a_proxy_started_by_hand_is_used_where_there_is_no_other() {
    let _alone = without_proxy();
    let image = up(&[])["image"].as_str().unwrap().to_owned();
    eclusa(&["down"]);
    let text = "[listen]\nproxy = [\"0.0.0.0:3128\"]\nadmin = \"/run/eclusa/admin.sock\"\n\
                [audit]\nfile = \"stdout\"\n";
    let (folder, _) = file("eclusa.toml", text);
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let run = |command: &[&str]| {
        let bind = format!("--volume={}:/etc/eclusa:ro", folder.path().display());
        let label = "--label=eclusa.role=proxy";
        let options = ["run", "--detach", label, "--user=0", &bind, &image];
        Container(docker(&[&options[..], command].concat()))
    };
    // An image hands its label on to every container.
    let _holder = run(&["hold"]);
    let by_hand = run(&["serve"]);
    let any = engine(None, ProxyOptions::default()).await;
    let proxy = any.proxy().await.unwrap();
    assert_eq!((&*proxy.id, proxy.socket), (&*by_hand.0, None));
    let another = run(&["serve"]);
    let why = any.proxy().await.unwrap_err().to_string();
    assert!(why.contains("one of several"), "{why}");
    let first = up(&[]);
    let proxy = any.proxy().await.unwrap();
    assert_eq!(first["id"], proxy.id, "ours is preferred");
    drop((by_hand, another));
}

#[tokio::test]
#[ignore = "needs Docker"]
async fn a_proxy_outside_of_a_container_is_refused() {
    let _alone = without_proxy();
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("admin.sock");
    let config = folder.path().join("eclusa.toml");
    let text = format!(
        "[listen]\nproxy = [\"127.0.0.1:0\"]\nadmin = {socket:?}\n[audit]\nfile = \"stdout\"\n"
    );
    fs::write(&config, text).unwrap();
    let serve = ["serve", "-c", config.to_str().unwrap()];
    let mut outside = command(&static_binary(), &serve)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    wait_until("the proxy outside", || UnixStream::connect(&socket).is_ok());
    let options = ProxyOptions {
        admin: Some(socket),
        ..ProxyOptions::default()
    };
    let engine = engine(None, options).await;
    let alone = engine.proxy().await.unwrap_err().to_string();
    up(&[]);
    let beside = engine.proxy().await.unwrap_err().to_string();
    outside.kill().unwrap();
    outside.wait().unwrap();
    assert!(alone.contains("does not run in a container"), "{alone}");
    assert!(
        beside.contains("not the container eclusa-proxy"),
        "{beside}"
    );
    // A path at which nobody answers is no reason to give up.
    engine.proxy().await.unwrap();
}
