//! The admin socket and the life of the process: health, runs, reload, drain, crash.

mod slots;

use std::{fs, net::SocketAddr};

use serde_json::{Value, json};

use crate::support::{
    client::{self, dial, exchange, problem, read_until, send, status},
    eventually,
    proxy::{TestProxy, command},
    world::World,
};

fn body(output: &std::process::Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

fn register(world: &World, run: &str, registration: &Value) -> (bool, Value) {
    let path = format!("/v1/runs/{run}");
    let output = world
        .proxy
        .admin("PUT", &path, Some(&registration.to_string()));
    (output.status.success(), body(&output))
}

/// A registration for a source that no `[[clients]]` range holds.
fn registration(allow: &[&str]) -> Value {
    json!({"sources": ["127.0.7.7"], "allow": allow, "expires_in": "1h"})
}

fn connect(world: &World, source: &str, host: &str) -> Vec<u8> {
    let mut stream = client::dial_from(source, world.proxy.listener("proxy"));
    send(
        &mut stream,
        format!("CONNECT {host}:443 HTTP/1.1\r\nHost: {host}:443\r\n\r\n").as_bytes(),
    );
    read_until(&mut stream, b"\r\n\r\n")
}

#[test]
fn health_is_told_by_the_socket_and_by_the_command() {
    let world = World::standard();
    let output = world.proxy.admin("GET", "/healthz", None);
    assert!(output.status.success());
    let report = body(&output);
    assert_eq!(report["status"], "ok");
    let proxy: SocketAddr = report["listeners"]["proxy"][0]
        .as_str()
        .unwrap()
        .parse()
        .unwrap();
    assert_eq!(proxy, world.proxy.listener("proxy"));
    let socket = world.proxy.folder().join("admin.sock");
    assert!(
        command()
            .args(["health", "--admin"])
            .arg(&socket)
            .status()
            .unwrap()
            .success()
    );
    let nobody = world.proxy.folder().join("nobody.sock");
    let output = command()
        .args(["health", "--admin"])
        .arg(&nobody)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(
        String::from_utf8_lossy(&output.stderr).contains("nobody.sock"),
        "{output:?}"
    );
}

#[test]
fn health_tells_whose_it_is_and_which_configuration_is_in_force() {
    let world = World::standard();
    let report = || body(&world.proxy.admin("GET", "/healthz", None));
    let hostname = fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    assert_eq!(report()["hostname"], hostname.trim_end());

    let before = fs::read_to_string(world.proxy.config()).unwrap();
    let first = eclusa::config::fingerprint(before.as_bytes());
    assert_eq!(report()["config"], first);
    fs::write(world.proxy.config(), "[listen").unwrap();
    world.proxy.admin("POST", "/v1/reload", None);
    assert_eq!(
        report()["config"],
        first,
        "a refused reload changes nothing"
    );
    let after = format!("{before}\n# the same in other words\n");
    fs::write(world.proxy.config(), &after).unwrap();
    world.proxy.admin("POST", "/v1/reload", None);
    assert_eq!(
        report()["config"],
        eclusa::config::fingerprint(after.as_bytes())
    );
}

#[test]
fn the_status_stands_on_a_line_of_its_own_where_that_is_asked_for() {
    let world = World::standard();
    let socket = world.proxy.folder().join("admin.sock");
    for (path, expected) in [("/v1/runs", "200\n[]\n"), ("/nothing", "404\n{")] {
        let output = command()
            .args(["admin", "--status", "GET", path, "--admin"])
            .arg(&socket)
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(
            output.status.success() && text.starts_with(expected),
            "{path}: {output:?}"
        );
    }
    let silent = command()
        .args(["admin", "--status", "GET", "/", "--admin", "/nowhere"])
        .output()
        .unwrap();
    assert_eq!(silent.status.code(), Some(1), "{silent:?}");
    assert!(silent.stdout.is_empty(), "{silent:?}");
}

#[test]
fn a_holder_ends_when_it_is_told_to() {
    for signal in ["TERM", "INT"] {
        let mut holder = command().arg("hold").spawn().unwrap();
        let status = format!("/proc/{}/status", holder.id());
        // Bits 1 and 14 of the caught signals: SIGINT and SIGTERM.
        eventually("the holder to catch signals", || {
            let status = fs::read_to_string(&status).unwrap();
            let mask = status.lines().find_map(|l| l.strip_prefix("SigCgt:\t"))?;
            let caught = u64::from_str_radix(mask, 16).unwrap();
            (caught & 0x4002 == 0x4002).then_some(())
        });
        let sent = std::process::Command::new("kill")
            .args([format!("-{signal}"), holder.id().to_string()])
            .status();
        assert!(sent.unwrap().success());
        let ended = eventually("its end", || holder.try_wait().unwrap());
        assert_eq!(ended.code(), Some(0), "{signal}");
    }
}

#[test]
fn the_head_of_the_log_is_the_link_of_its_last_line() {
    let world = World::standard();
    connect(&world, "127.0.0.1", "evil.example");
    let log = world.proxy.folder().join("audit.jsonl");
    let told = body(&world.proxy.admin("GET", "/v1/audit", None));
    let text = fs::read_to_string(&log).unwrap();
    let last = text.lines().last().unwrap();
    let expected = eclusa::config::fingerprint(last.as_bytes());
    assert_eq!(told, json!({"head": expected, "file": log}));
}

#[test]
fn the_summary_of_a_run_that_ended_bears_the_head_behind_its_end() {
    let world = World::standard();
    assert!(register(&world, "run-1", &registration(&[])).0);
    let running = body(&world.proxy.admin("GET", "/v1/runs/run-1", None));
    assert_eq!(running["audit_head"], Value::Null);
    let ended = body(&world.proxy.admin("DELETE", "/v1/runs/run-1", None));
    let told = body(&world.proxy.admin("GET", "/v1/audit", None));
    assert_eq!(ended["audit_head"], told["head"], "{ended}");
    let last = world.proxy.audit().pop().unwrap();
    assert_eq!(last["event"], "run_end");
}

#[test]
fn the_socket_answers_only_what_it_knows() {
    let world = World::standard();
    for (method, path, expected) in [
        ("GET", "/", 404),
        ("GET", "/debug", 404),
        ("POST", "/healthz", 405),
        ("POST", "/v1/audit", 405),
        ("GET", "/v1/runs/no.dots", 400),
        ("GET", "/v1/runs/unknown", 404),
        ("DELETE", "/v1/runs/unknown", 404),
        ("POST", "/v1/runs/unknown", 405),
        ("POST", "/v1/slots", 405),
        ("DELETE", "/v1/slots/unknown", 404),
        ("GET", "/v1/slots/unknown", 405),
    ] {
        let output = world.proxy.admin(method, path, None);
        assert_eq!(output.status.code(), Some(1), "{method} {path}");
        assert_eq!(body(&output)["status"], expected, "{method} {path}");
    }
}

#[test]
fn a_run_reaches_its_own_list_for_exactly_its_life() {
    let world = World::standard();
    assert_eq!(
        status(&connect(&world, "127.0.7.7", "allowed.example")),
        Some(403)
    );
    let (registered, _) = register(&world, "run-1", &registration(&["allowed.example"]));
    assert!(registered);
    // Its own list names the host; only a rule of a profile opens the blocked range it is in.
    let refused = connect(&world, "127.0.7.7", "allowed.example");
    assert_eq!(status(&refused), Some(403));
    let with_profile = json!({"sources": ["127.0.7.7"], "profile": "default",
                              "allow": ["own.example"], "expires_in": "1h"});
    assert!(register(&world, "run-1", &with_profile).0);
    assert_eq!(
        status(&connect(&world, "127.0.7.7", "allowed.example")),
        Some(200)
    );
    assert_eq!(
        status(&connect(&world, "127.0.7.7", "evil.example")),
        Some(403)
    );

    let removed = world.proxy.admin("DELETE", "/v1/runs/run-1", None);
    let summary = body(&removed);
    assert_eq!(
        summary["allowed"][0]["host"], "allowed.example",
        "{summary}"
    );
    let denied = summary["denied"].as_array().unwrap();
    assert!(
        denied.iter().any(|line| line["host"] == "evil.example"),
        "{summary}"
    );
    assert_eq!(
        status(&connect(&world, "127.0.7.7", "allowed.example")),
        Some(403)
    );
    let last = world.proxy.events("decision").pop().unwrap();
    assert_eq!(last["reason"], "unknown_client");
    assert_eq!(world.proxy.events("run_start").len(), 1);
    assert_eq!(world.proxy.events("run_change").len(), 1);
    assert_eq!(world.proxy.events("run_end").len(), 1);
}

#[test]
fn removal_cuts_the_tunnels_of_that_run_and_no_others() {
    let world = World::standard();
    let with_profile = json!({"sources": ["127.0.7.7"], "profile": "default", "expires_in": "1h"});
    assert!(register(&world, "run-2", &with_profile).0);
    let mut own = world.tunnel_from("127.0.7.7", "opaque.example");
    let mut other = world.tunnel_from("127.0.0.1", "opaque.example");
    let summary = body(&world.proxy.admin("DELETE", "/v1/runs/run-2", None));
    assert_eq!(summary["allowed"][0]["count"], 1, "{summary}");
    assert_eq!(client::read_to_close(&mut own), b"");
    let close = world.proxy.events("close").pop().unwrap();
    assert_eq!(
        (&close["run"], &close["outcome"]),
        (&json!("run-2"), &json!("run_ended"))
    );
    send(&mut other, b"still there\n");
    assert_eq!(read_until(&mut other, b"\n"), b"still there\n");
}

#[test]
fn an_expired_run_is_unknown_until_it_is_removed() {
    let world = World::standard();
    let short = json!({"sources": ["127.0.7.7"], "profile": "default", "expires_in": "1s"});
    assert!(register(&world, "run-3", &short).0);
    let mut tunnel = world.tunnel_from("127.0.7.7", "opaque.example");
    assert_eq!(client::read_to_close(&mut tunnel), b"");
    eventually("the expiry", || world.proxy.events("run_expired").pop());
    assert_eq!(
        status(&connect(&world, "127.0.7.7", "allowed.example")),
        Some(403)
    );
    let again = register(&world, "run-4", &registration(&[]));
    assert_eq!(again.1["status"], 409, "{again:?}");
    assert!(
        world
            .proxy
            .admin("DELETE", "/v1/runs/run-3", None)
            .status
            .success()
    );
    assert!(register(&world, "run-4", &registration(&[])).0);
}

#[test]
fn a_registration_that_would_confuse_identities_is_refused() {
    let world = World::standard();
    assert!(register(&world, "one", &registration(&[])).0);
    assert!(
        register(&world, "one", &registration(&[])).0,
        "the same again renews"
    );
    for (run, registration, expected) in [
        (
            "two",
            json!({"sources": ["127.0.7.7"], "expires_in": "9s"}),
            409,
        ),
        (
            "two",
            json!({"sources": ["::ffff:127.0.7.7"], "expires_in": "9s"}),
            409,
        ),
        (
            "two",
            json!({"sources": ["127.0.0.9"], "expires_in": "9s"}),
            409,
        ),
        ("two", json!({"sources": [], "expires_in": "9s"}), 400),
        (
            "two",
            json!({"sources": ["127.0.7.8"], "expires_in": "0s"}),
            400,
        ),
        (
            "two",
            json!({"sources": ["127.0.7.8"], "profile": "none", "expires_in": "9s"}),
            400,
        ),
        (
            "two",
            json!({"sources": ["127.0.7.8"], "allow": ["*.com"], "expires_in": "9s"}),
            400,
        ),
    ] {
        let (_, answer) = register(&world, run, &registration);
        assert_eq!(answer["status"], expected, "{registration}: {answer}");
    }
}

#[test]
fn the_listener_of_a_run_is_the_only_way_in() {
    let world = World::standard();
    let elsewhere = json!({"sources": ["127.0.7.7"], "listener": "127.0.0.99",
                           "profile": "default", "expires_in": "1h"});
    assert!(register(&world, "run-5", &elsewhere).0);
    assert_eq!(
        status(&connect(&world, "127.0.7.7", "allowed.example")),
        Some(403)
    );
    assert_eq!(
        world.proxy.events("decision")[0]["reason"],
        "unknown_client"
    );
}

#[test]
fn a_reload_is_all_or_nothing_and_cuts_what_it_forbids() {
    let world = World::standard();
    let mut kept = world.tunnel_from("127.0.0.1", "opaque.example");
    let mut lost = world.tunnel_from("127.0.0.1", "opaque2.example");
    let before = fs::read_to_string(world.proxy.config()).unwrap();

    fs::write(
        world.proxy.config(),
        before.replace("[profiles.default]", "[profiles.default"),
    )
    .unwrap();
    let refused = world.proxy.admin("POST", "/v1/reload", None);
    assert_eq!(refused.status.code(), Some(1));
    world.proxy.signal("HUP");
    eventually("two refused reloads", || {
        (world.proxy.events("reload").len() == 2).then_some(())
    });
    let report = body(&world.proxy.admin("GET", "/healthz", None));
    assert_eq!(report["generation"], 1);
    assert!(report["reload_problem"].is_string(), "{report}");
    assert_eq!(
        status(&connect(&world, "127.0.0.1", "allowed.example")),
        Some(200)
    );

    fs::write(
        world.proxy.config(),
        before.replace("\"opaque2.example\"", "\"other.example\""),
    )
    .unwrap();
    let applied = body(&world.proxy.admin("POST", "/v1/reload", None));
    assert_eq!(
        (&applied["generation"], &applied["cut"]),
        (&json!(2), &json!(1)),
        "{applied}"
    );
    assert_eq!(client::read_to_close(&mut lost), b"");
    send(&mut kept, b"still there\n");
    assert_eq!(read_until(&mut kept, b"\n"), b"still there\n");
    let close = world
        .proxy
        .await_event("the cut", |line| line["outcome"] == "policy_changed");
    assert_eq!(close["event"], "close");

    // The same host, on other terms.
    fs::write(
        world.proxy.config(),
        before.replace("opaque = true", "opaque = false"),
    )
    .unwrap();
    let applied = body(&world.proxy.admin("POST", "/v1/reload", None));
    assert_eq!(applied["cut"], 1, "{applied}");
    assert_eq!(client::read_to_close(&mut kept), b"");

    fs::write(
        world.proxy.config(),
        before.replace("proxy = [\"127.0.0.1:0\"]", "proxy = [\"127.0.0.2:0\"]"),
    )
    .unwrap();
    let fixed = body(&world.proxy.admin("POST", "/v1/reload", None));
    assert!(
        fixed["detail"].as_str().unwrap().contains("listen.proxy"),
        "{fixed}"
    );
}

#[test]
fn a_stop_drains_and_then_ends_what_is_left() {
    let mut world = World::with_limits("drain_timeout = \"1s\"");
    let mut tunnel = world.tunnel_from("127.0.0.1", "opaque.example");
    world.proxy.signal("TERM");
    assert_eq!(client::read_to_close(&mut tunnel), b"");
    assert_eq!(world.proxy.wait().code(), Some(0));
    let lines = world.proxy.audit();
    let close = lines.iter().find(|line| line["event"] == "close").unwrap();
    assert_eq!(close["outcome"], "shutdown");
    assert_eq!(lines.last().unwrap()["event"], "stop");
    assert!(!world.proxy.folder().join("admin.sock").exists());
}

#[test]
fn what_a_crash_left_open_is_closed_at_the_next_start() {
    let world = World::standard();
    let tunnel = world.tunnel_from("127.0.0.1", "opaque.example");
    let folder = world.proxy.crash();
    drop(tunnel);
    let proxy = TestProxy::in_folder(folder);
    let opened = &proxy.events("decision")[0];
    let closed = &proxy.events("close")[0];
    assert_eq!(
        (&closed["id"], &closed["outcome"]),
        (&opened["id"], &json!("crash"))
    );
}

#[test]
fn two_proxies_never_share_a_log_or_a_socket() {
    let world = World::standard();
    let second = command()
        .args(["serve", "-c"])
        .arg(world.proxy.config())
        .output()
        .unwrap();
    assert_eq!(second.status.code(), Some(70));
    let said = String::from_utf8_lossy(&second.stderr);
    assert!(said.contains("in use by another process"), "{said}");
    assert_eq!(
        status(&connect(&world, "127.0.0.1", "allowed.example")),
        Some(200)
    );
}

#[test]
fn nothing_to_serve_and_a_taken_port_are_said() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("eclusa.toml");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken_at = taken.local_addr().unwrap();
    for (text, code, expected) in [
        (
            "[profiles.default]\nallow = []\n".to_owned(),
            64,
            "nothing to serve".to_owned(),
        ),
        (
            format!("[listen]\nproxy = [\"{taken_at}\"]\n[audit]\nfile = \"stdout\"\n"),
            70,
            format!("cannot bind listen.proxy {taken_at}"),
        ),
        (
            "[listen]\nproxy = [\"127.0.0.1:0\"]\n[limits]\nconnections = 1000000\n".to_owned(),
            64,
            "lower limits.connections".to_owned(),
        ),
    ] {
        fs::write(&config, &text).unwrap();
        let output = command()
            .args(["serve", "-c"])
            .arg(&config)
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(code), "{text}{output:?}");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains(&expected), "{expected}: {said}");
    }
}

#[test]
fn metrics_count_and_never_name_what_a_client_chose() {
    let world = World::standard();
    connect(&world, "127.0.0.1", "allowed.example");
    let answer = exchange(
        world.proxy.listener("proxy"),
        b"CONNECT secret-data.evil.example:443 HTTP/1.1\r\nHost: secret-data.evil.example\r\n\r\n",
    );
    assert_eq!(problem(&answer)["reason"], "not_allowlisted");
    let output = world.proxy.admin("GET", "/metrics", None);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("not_allowlisted"), "{text}");
    assert!(text.contains("\neclusa_healthy 1\n"), "{text}");
    assert!(!text.contains("evil"), "{text}");
    drop(dial(world.proxy.listener("proxy")));
}
