//! The private network of a run: the proxy, and nobody else.

use std::collections::BTreeMap;

use rustix::process::Signal;
use serde_json::{Value, json};

use super::{
    super::{Running, left, process::Probes},
    stage::{ADDRESS, Stage, audited, registered},
};
use crate::{
    containment::HostListener,
    docker::{docker, exec, wait_until},
};

/// Another run that listens at its port 9000, and its address.
fn neighbour(stage: &Stage) -> (Running, String, String) {
    let script = "import socket\nserver = socket.create_server(('', 9000))\n\
                  while True: server.accept()[0].close()";
    let options = ["--profile=default", "--timeout=100s"];
    let command = ["python3", "-I", "-c", script];
    let running = Running::start(&mut stage.launcher.command(&options, &command));
    let run = running.sandbox();
    let container = format!("eclusa-run-{run}");
    let format = "{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}";
    let address = docker(&["inspect", "--format", format, &container]);
    let reach = "import socket; socket.create_connection(('127.0.0.1', 9000))";
    wait_until("the neighbour", || {
        exec(&container, &["python3", "-c", reach]).ok
    });
    (running, run, address)
}

#[test]
#[ignore = "needs Docker"]
fn a_run_reaches_the_proxy_and_learns_of_nobody_else() {
    let stage = Stage::new();
    let (neighbour, neighbours_run, address) = neighbour(&stage);
    let host = HostListener::start();
    let mut targets: Vec<(String, u16)> = Vec::new();
    for host_address in host.addresses() {
        // The engine's API, and that of a node, over the network.
        for port in [host.port(), 2375, 2376, 2377, 4243, 10250] {
            targets.push((host_address.clone(), port));
        }
    }
    let beside = registered()[0]["listener"].as_str().unwrap().to_owned();
    let uplink = docker(&[
        "inspect",
        r#"--format={{(index .NetworkSettings.Networks "egress-uplink").IPAddress}}"#,
        "eclusa-proxy",
    ]);
    for (host, port) in [
        (address.as_str(), 9000),
        (&beside, 3128),
        (&uplink, 3128),
        (&uplink, 443),
        (ADDRESS, 443),
        (ADDRESS, 53),
        ("10.199.242.1", host.port()),
        ("169.254.169.254", 80),
        ("192.168.65.7", 2375),
        ("127.0.0.11", 53),
    ] {
        targets.push((host.to_owned(), port));
    }
    let targets = json!(targets).to_string();
    let script = "python3 -I /input/probes.py; echo --; python3 -I /input/reach.py \"$0\"";
    let input = stage.input();
    let options = [
        "--profile=default",
        "--pids=200",
        "--timeout=60s",
        "--max-output=1MB",
        &input,
    ];
    let command = ["sh", "-c", script, &targets];
    let ran = stage.launcher.run(&options, &command).succeeded();
    let (probes, reached) = ran.stdout().split_once("--\n").unwrap();
    Probes::read(probes).tried(&["P05", "P07", "O03"]);
    let found: Value = serde_json::from_str(reached).unwrap();
    only_the_proxy(&found);
    let heard = stage.heard();
    assert!(!heard.contains("evil"), "{heard}");
    neighbour.signal(Signal::TERM);
    neighbour.finish(b"");
    assert_eq!(left(&neighbours_run), []);
    assert_eq!(registered(), Vec::<Value>::new());
}

fn only_the_proxy(found: &Value) {
    let proxy = found["proxy"].as_str().unwrap();
    let own = found["own"].as_str().unwrap();
    // Docker's own DNS server listens in the sandbox itself; where it forwards to is seen below.
    let reached = found["reached"].as_array().unwrap().iter();
    let reached = reached.filter(|reached| **reached != "127.0.0.11:53");
    let expected = [3128, 443, 53, 80].map(|port| json!(format!("{proxy}:{port}")));
    assert_eq!(
        reached.collect::<Vec<_>>(),
        expected.iter().collect::<Vec<_>>()
    );
    let answers: BTreeMap<String, Value> =
        serde_json::from_value(found["answers"].clone()).unwrap();
    for (server, answer) in answers {
        let nxdomain = json!(3);
        let is_silent = server != proxy && answer.is_null();
        let is_refusal = [proxy, "127.0.0.11"].contains(&server.as_str()) && answer == nxdomain;
        assert!(is_silent || is_refusal, "{server}: {answer}");
    }
    assert_eq!(found["interfaces"], json!(["eth0", "lo"]));
    // Docker 20.10 gives a route by the reserved address that nobody has.
    let (subnet, last) = proxy.rsplit_once('.').unwrap();
    let nobody = format!("{subnet}.{}", last.parse::<u8>().unwrap() - 1);
    assert!(
        [json!([]), json!([nobody])].contains(&found["gateways"]),
        "{found}"
    );
    assert!(
        [json!(""), json!(false)].contains(&found["ipv6"]),
        "{found}"
    );
    let resolv = format!("nameserver {proxy}\noptions timeout:5 attempts:2\n");
    assert_eq!(found["resolv.conf"], json!(resolv));
    let hosts = found["hosts"].as_array().unwrap().iter();
    let named =
        hosts.filter(|line| line[0] != "127.0.0.1" && !line[0].as_str().unwrap().contains(':'));
    assert_eq!(named.collect::<Vec<_>>(), [&json!([own, "sandbox"])]);
}

#[test]
#[ignore = "needs Docker"]
fn what_is_allowed_is_reached_on_every_road_and_all_is_told() {
    let stage = Stage::new();
    let script = r"
for url in https://allowed.demo.example/ http://allowed.demo.example/a; do
curl -sSm8 $url; curl -sSm8 --noproxy '*' $url; done
curl -sSm8 https://denied.demo.example/; curl -sSm8 http://other.example.net/; echo
curl -sSm8 --noproxy '*' https://other.example.net/
proxy=${http_proxy#http://}; other=other.example.net:443:${proxy%:3128}
curl -sSm8 --noproxy '*' --resolve $other https://other.example.net/
env | grep -i _proxy= | cut -d= -f1 | sort | tr '\n' ' '";
    let options = [
        "--profile=default",
        "--env=CURL_CA_BUNDLE=/input/ca.pem",
        &stage.input(),
    ];
    let ran = stage.launcher.shell(&options, script).succeeded();
    let stdout: Vec<&str> = ran.stdout().lines().collect();
    assert_eq!(stdout[..4], ["hello from the origin"; 4], "{ran:?}");
    let problem: Value = serde_json::from_str(stdout[4]).unwrap();
    assert_eq!(problem["reason"], "not_allowlisted");
    assert_eq!(problem["run"], ran.record.run.as_str());
    let variables = "ALL_PROXY HTTPS_PROXY HTTP_PROXY NODE_USE_ENV_PROXY NO_PROXY \
                     all_proxy http_proxy https_proxy no_proxy ";
    assert_eq!(stdout[5], variables);
    let said = &ran.output().stderr;
    assert!(
        said.contains("403") && said.contains("Could not resolve"),
        "{said}"
    );

    is_summarised(&serde_json::to_value(&ran.record.network).unwrap());
    is_audited(&ran.record.run);
    let heard = stage.heard();
    assert!(
        !heard.contains("other") && !heard.contains("dns denied"),
        "{heard}"
    );
}

/// The record has each destination and name with what was decided on it.
fn is_summarised(network: &Value) {
    let lines = |kind: &str, fields: &[&str]| -> Vec<Value> {
        let lines = network[kind].as_array().unwrap().iter();
        lines
            .map(|line| fields.iter().map(|field| line[*field].clone()).collect())
            .collect()
    };
    let mut allowed = lines("allowed", &["host", "port", "count"]);
    allowed.sort_by_key(Value::to_string);
    let expected = [
        json!(["allowed.demo.example", 443, 2]),
        json!(["allowed.demo.example", 80, 2]),
    ];
    assert_eq!(allowed, expected, "{network}");
    let bytes = lines("allowed", &["bytes_up", "bytes_down"]);
    let counted = |line: &Value| line[0].as_u64() > Some(50) && line[1].as_u64() > Some(50);
    assert!(bytes.iter().all(counted), "{network}");
    let mut denied = lines("denied", &["host", "port", "reason", "count"]);
    denied.sort_by_key(Value::to_string);
    let expected = [
        json!(["denied.demo.example", 443, "denied_by_rule", 1]),
        json!(["other.example.net", 443, "not_allowlisted", 1]),
        json!(["other.example.net", 80, "not_allowlisted", 1]),
    ];
    assert_eq!(denied, expected, "{network}");
    let dns = lines("dns", &["name", "type", "decision"]);
    for expected in [
        json!(["allowed.demo.example", "A", "allow"]),
        json!(["other.example.net", "A", "deny"]),
    ] {
        assert!(dns.contains(&expected), "{expected}: {network}");
    }
}

/// The run has its lines in the proxy's own log, between its start and its end.
fn is_audited(run: &str) {
    let audit = audited(run);
    let events: Vec<&str> = audit
        .iter()
        .map(|line| line["event"].as_str().unwrap())
        .collect();
    assert_eq!(events.first(), Some(&"run_start"), "{audit:#?}");
    assert_eq!(events.last(), Some(&"run_end"), "{audit:#?}");
    let count = |event: &str| events.iter().filter(|own| **own == event).count();
    assert_eq!((count("decision"), count("close")), (7, 4), "{audit:#?}");
    assert!(count("dns") > 0, "{audit:#?}");
    assert!(
        audit.iter().all(|line| line["profile"] == "default"),
        "{audit:#?}"
    );
}

#[test]
#[ignore = "needs Docker"]
fn what_the_proxy_refuses_of_a_run_is_said_and_nothing_starts() {
    let stage = Stage::new();
    let config = format!("--config={}", stage.launcher.path("eclusa.toml").display());
    for (options, expected) in [
        (["--profile=nosuch"].as_slice(), "nosuch"),
        (
            &["--allow=evil.example.net"],
            "evil.example.net is beyond the ceiling",
        ),
        (
            &["--profile=default", "--allow=192.0.2.1:8443"],
            "192.0.2.1:8443 is beyond the ceiling",
        ),
    ] {
        let error = stage.launcher.refusal(options);
        assert!(
            error.starts_with("the proxy refuses the run: "),
            "{options:?}: {error}"
        );
        assert!(error.contains(expected), "{options:?}: {error}");
        // With the configuration at hand it is said before anything is made.
        let mut run = stage
            .launcher
            .command(&[options, &[&config]].concat(), &["true"]);
        let early = run.output().unwrap();
        assert_eq!(early.status.code(), Some(125), "{early:?}");
        assert!(early.stdout.is_empty(), "{early:?}");
        let early = String::from_utf8(early.stderr).unwrap();
        assert!(early.contains(expected), "{options:?}: {early}");
    }
    // A name may be reached and a private address not; a wildcard opens what the ceiling does.
    for (option, url, reason) in [
        (
            "--allow=allowed.demo.example",
            "http://allowed.demo.example/",
            "address_blocked",
        ),
        (
            "--allow=*.example.net",
            "http://any.example.net/",
            "not_allowlisted",
        ),
    ] {
        let ran = stage.launcher.run(&[option], &["curl", "-sSm8", url]);
        let problem: Value = serde_json::from_str(ran.succeeded().stdout()).unwrap();
        assert_eq!(problem["reason"], reason, "{option}");
    }
    assert_eq!(registered(), Vec::<Value>::new());
}
