//! The image: one static binary that needs no root, no shell and no writable root.

use std::process::Command;

use crate::docker::{
    Container, IMAGE, attempt, checkout, docker, wait_until_healthy, without_proxy,
};

const HARDENED: &[&str] = &[
    "--read-only",
    "--cap-drop=ALL",
    "--security-opt=no-new-privileges:true",
    "--sysctl=net.ipv4.ip_unprivileged_port_start=0",
    "--tmpfs=/run/eclusa:size=1m,mode=0700,uid=65532,gid=65532",
    "--volume=/var/log/eclusa",
    "--env=ECLUSA_CONFIG=/etc/eclusa/sidecar.toml",
];

#[test]
#[ignore = "needs Docker"]
fn the_image_holds_one_binary_and_runs_it_as_nobody() {
    let user = docker(&["inspect", "-f", "{{.Config.User}}", IMAGE]);
    assert_eq!(user, "65532:65532");
    let command = docker(&[
        "inspect",
        "-f",
        "{{json .Config.Entrypoint}} {{json .Config.Cmd}}",
        IMAGE,
    ]);
    assert_eq!(command, r#"["/eclusa"] ["serve"]"#);
    let health = docker(&["inspect", "-f", "{{json .Config.Healthcheck.Test}}", IMAGE]);
    assert_eq!(health, r#"["CMD","/eclusa","health"]"#);
    let size: u64 = docker(&["inspect", "-f", "{{.Size}}", IMAGE])
        .parse()
        .unwrap();
    assert!(size < 20_000_000, "{size} bytes");

    let container = Container(docker(&["create", IMAGE]));
    let listing = attempt(Command::new("sh").args([
        "-c",
        "docker export \"$0\" | tar --numeric-owner -tv",
        &container.0,
    ]));
    let files: Vec<&str> = listing
        .text
        .lines()
        .filter(|line| line.starts_with('-'))
        .collect();
    let ours: Vec<&&str> = files.iter().filter(|line| !line.contains(" 0 ")).collect();
    assert_eq!(ours.len(), 1, "{files:#?}");
    assert!(
        ours[0].starts_with("-rwxr-xr-x 0/0 ") && ours[0].ends_with(" eclusa"),
        "{ours:?}"
    );
    for folder in [" var/log/eclusa/", " run/eclusa/"] {
        let line = listing
            .text
            .lines()
            .find(|line| line.ends_with(folder))
            .unwrap();
        assert!(line.contains(" 65532/65532 "), "{line}");
    }
}

#[test]
#[ignore = "needs Docker"]
fn a_read_only_root_without_capabilities_serves_and_stops_when_asked() {
    let _alone = without_proxy();
    let folder = checkout();
    let config = format!("--volume={}/config:/etc/eclusa:ro", folder.path().display());
    let arguments = [&["run", "--detach", &config], HARDENED, &[IMAGE]].concat();
    let container = Container(docker(&arguments));
    wait_until_healthy(&container.0);
    docker(&["stop", "--time=20", &container.0]);
    let code = docker(&["inspect", "-f", "{{.State.ExitCode}}", &container.0]);
    assert_eq!(code, "0", "{}", docker(&["logs", &container.0]));
}

#[test]
#[ignore = "needs Docker"]
fn serve_without_a_configuration_exits_64() {
    let output = attempt(Command::new("docker").args(["run", "--rm", IMAGE]));
    assert!(
        !output.ok && output.text.contains("/etc/eclusa/eclusa.toml"),
        "{output:?}"
    );
    let container = Container(docker(&["create", IMAGE]));
    attempt(Command::new("docker").args(["start", "--attach", &container.0]));
    let code = docker(&["inspect", "-f", "{{.State.ExitCode}}", &container.0]);
    assert_eq!(code, "64");
}

#[test]
#[ignore = "needs Docker"]
fn check_needs_no_network() {
    let folder = checkout();
    let config = format!("--volume={}/config:/etc/eclusa:ro", folder.path().display());
    let run = [
        "run",
        "--rm",
        "--network=none",
        &config,
        IMAGE,
        "check",
        "-c",
        "/etc/eclusa/sidecar.toml",
    ];
    docker(&run);
    let denied = attempt(
        Command::new("docker")
            .args(run)
            .arg("https://evil.example.net/"),
    );
    assert!(
        !denied.ok && denied.text.contains("not_allowlisted"),
        "{denied:?}"
    );
}
