//! `eclusa check` from outside: which file it reads, what goes where, and that nothing is sent.

use std::{
    fs, io,
    net::UdpSocket,
    path::Path,
    process::{Command, Output},
};

fn eclusa(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_eclusa"));
    command
        .args(args)
        .env_remove("ECLUSA_CONFIG")
        .env_remove("ECLUSA_LOG");
    command
}

/// Exit code, standard output, standard error.
fn ran(command: &mut Command) -> (Option<i32>, String, String) {
    let Output {
        status,
        stdout,
        stderr,
    } = command.output().unwrap();
    (
        status.code(),
        String::from_utf8(stdout).unwrap(),
        String::from_utf8(stderr).unwrap(),
    )
}

#[test]
fn check_reads_the_file_that_the_environment_names() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("policy.toml");
    fs::write(&path, "[profiles.default]\nallow = [\"api.example.com\"]\n").unwrap();
    let mut command = eclusa(&["check", "api.example.com"]);
    let (code, out, err) = ran(command.env("ECLUSA_CONFIG", &path));
    assert_eq!((code, &*err), (Some(0), ""), "{out}");
    assert!(out.contains("profiles.default.allow[0]"), "{out}");
    let mut command = eclusa(&["check", "evil.example.net"]);
    let (code, out, _) = ran(command.env("ECLUSA_CONFIG", &path));
    assert_eq!(code, Some(1), "{out}");
}

#[test]
fn a_file_in_the_working_directory_is_never_read_by_itself() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("config")).unwrap();
    for name in ["eclusa.toml", "config/eclusa.toml", ".eclusa.toml"] {
        fs::write(folder.path().join(name), "[planted]\n").unwrap();
    }
    let missing = folder.path().join("missing.toml");
    for verb in ["check", "serve"] {
        let mut named = eclusa(&[verb, "-c", missing.to_str().unwrap()]);
        let mut by_environment = eclusa(&[verb]);
        by_environment.env("ECLUSA_CONFIG", &missing);
        for command in [&mut named, &mut by_environment] {
            let (code, out, err) = ran(command.current_dir(folder.path()));
            assert_eq!(code, Some(64), "{verb}: {out}{err}");
            assert!(err.contains("missing.toml"), "{verb}: {err}");
            assert!(!err.contains("planted"), "{verb}: {err}");
        }
    }
    let (code, out, err) = ran(eclusa(&["check"]).current_dir(folder.path()));
    assert!(!err.contains("planted"), "{err}");
    if !Path::new("/etc/eclusa/eclusa.toml").exists() {
        assert_eq!(code, Some(64), "{out}{err}");
        assert!(
            err.contains("name a file with -c FILE or in ECLUSA_CONFIG"),
            "{err}"
        );
    }
}

#[test]
fn without_a_sound_configuration_nothing_is_served() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("eclusa.toml");
    for (what, text, said) in [
        ("nothing", &b""[..], "the configuration is empty"),
        ("not text", b"[listen]\n# \xff\n", "UTF-8"),
        (
            "a key that is misspelled",
            b"[listen]\nproxi = []\n",
            "listen.proxi",
        ),
        (
            "a value of another type",
            b"[profiles.default]\nallow = \"allowed.example\"\n",
            "profiles.default.allow",
        ),
        (
            "a catch-all",
            b"[listen]\nproxy = [\"127.0.0.1:0\"]\n[profiles.default]\nallow = [\"*\"]\n",
            "profiles.default.allow[0]",
        ),
        (
            "an address that is left out",
            b"[listen]\nproxy = [\":3128\"]\n",
            "listen.proxy[0]",
        ),
    ] {
        fs::write(&path, text).unwrap();
        let (code, out, err) = ran(eclusa(&["serve", "-c"]).arg(&path));
        assert_eq!((code, &*out), (Some(64), ""), "{what}: {err}");
        assert!(err.contains(said), "{what}: {err}");
    }
    let (code, _, err) = ran(eclusa(&["serve", "-c"]).arg(folder.path()));
    assert_eq!(code, Some(64), "{err}");
    assert!(err.contains("it is a directory"), "{err}");
}

#[test]
fn every_problem_goes_to_standard_error_with_its_line() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("policy.toml");
    fs::write(
        &path,
        "[profiles.default]\nalow = []\n\n[limits]\nconnections = 0\n",
    )
    .unwrap();
    let path = path.to_str().unwrap();
    for verb in ["check", "serve"] {
        let (code, out, err) = ran(&mut eclusa(&[verb, "-c", path]));
        assert_eq!((code, &*out), (Some(64), ""), "{verb}");
        assert_eq!(
            err,
            format!(
                "eclusa: 2 problems in {path}\n\
                 line 2: profiles.default.alow: unknown key; did you mean `allow`?\n\
                 line 5: limits.connections: 0 is out of range: write 1 to 1000000\n"
            ),
            "{verb}"
        );
    }
}

#[test]
fn check_sends_nothing() {
    let resolver = UdpSocket::bind("127.0.0.1:0").unwrap();
    resolver.set_nonblocking(true).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("policy.toml");
    fs::write(
        &path,
        format!(
            "[resolver]\nservers = [\"udp://{}\"]\n[profiles.default]\nallow = [\"api.example.com\"]\n",
            resolver.local_addr().unwrap()
        ),
    )
    .unwrap();
    let path = path.to_str().unwrap();
    let (code, out, err) = ran(&mut eclusa(&["check", "-c", path, "api.example.com"]));
    assert_eq!(code, Some(0), "{out}{err}");
    let (code, ..) = ran(&mut eclusa(&["check", "-c", path]));
    assert_eq!(code, Some(0));
    // The process has ended, so what it sent over loopback would be here.
    let received = resolver.recv_from(&mut [0; 512]);
    assert_eq!(received.unwrap_err().kind(), io::ErrorKind::WouldBlock);
}

#[test]
fn output_that_is_no_terminal_has_no_colour() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("policy.toml");
    fs::write(&path, "[profiles.default]\n").unwrap();
    let path = path.to_str().unwrap();
    for args in [
        vec!["check", "-c", path, "a.example"],
        vec!["check", "--help"],
        vec!["launch"],
    ] {
        let (_, out, err) = ran(eclusa(&args).env("CLICOLOR_FORCE", "1"));
        assert!(
            !out.contains('\u{1b}') && !err.contains('\u{1b}'),
            "{out}{err}"
        );
    }
}
