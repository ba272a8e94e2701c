//! Exit codes, and what goes to which stream.

use std::{ffi::OsString, fs, path::PathBuf, process::ExitCode};

use super::{Environment, Exit};

/// What one command did.
#[derive(Debug, PartialEq)]
pub(super) struct Ran {
    pub(super) code: ExitCode,
    pub(super) out: String,
    pub(super) err: String,
}

/// Runs `eclusa` with `args` on plain streams.
pub(super) fn eclusa(args: &[&str]) -> Ran {
    eclusa_in(&Environment::default(), args)
}

pub(super) fn eclusa_in(environment: &Environment, args: &[&str]) -> Ran {
    let args = ["eclusa"].iter().chain(args).map(OsString::from);
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let code = super::run(args, environment, drop, &mut out, &mut err);
    Ran {
        code,
        out: String::from_utf8(out).unwrap(),
        err: String::from_utf8(err).unwrap(),
    }
}

/// A folder with a configuration in it.
pub(super) fn configured(text: &str) -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("policy.toml");
    fs::write(&path, text).unwrap();
    let path = path.to_str().unwrap().to_owned();
    (folder, path)
}

#[test]
fn help_and_version_are_results() {
    for (args, expected) in [
        ("--help", "Usage: eclusa"),
        ("help", "Usage: eclusa"),
        ("check --help", "DESTINATION"),
        ("--version", env!("CARGO_PKG_VERSION")),
        ("serve --version", env!("CARGO_PKG_VERSION")),
    ] {
        let ran = eclusa(&args.split_whitespace().collect::<Vec<_>>());
        assert_eq!((ran.code, &*ran.err), (ExitCode::SUCCESS, ""), "{args:?}");
        assert!(ran.out.contains(expected), "{args:?}: {}", ran.out);
        assert!(!ran.out.contains('\u{1b}'), "{args:?}");
    }
}

#[test]
fn mistakes_in_the_arguments_are_64() {
    for (args, expected) in [
        ("", "Usage: eclusa"),
        ("launch", "unrecognized subcommand 'launch'"),
        ("check --frofile x", "unexpected argument '--frofile'"),
        ("check --explain", "<DESTINATION>"),
        ("check --log-format xml", "invalid value 'xml'"),
        (
            "check --log-level eclusa=loud",
            "cannot read the log filter \"eclusa=loud\"",
        ),
        ("check -c", "a value is required for '--config <FILE>'"),
    ] {
        let ran = eclusa(&args.split_whitespace().collect::<Vec<_>>());
        assert_eq!((ran.code, &*ran.out), (Exit::Usage.into(), ""), "{args:?}");
        assert!(ran.err.contains(expected), "{args:?}: {}", ran.err);
    }
}

#[test]
fn colour_is_for_terminals_only() {
    let terminal = Environment {
        colour_err: true,
        ..Environment::default()
    };
    assert!(eclusa_in(&terminal, &["launch"]).err.contains('\u{1b}'));
    assert!(!eclusa(&["launch"]).err.contains('\u{1b}'));
}

#[test]
fn no_configuration_is_64_and_never_no_filter() {
    let (folder, _) = configured("");
    let missing = folder.path().join("missing.toml").display().to_string();
    let directory = folder.path().display().to_string();
    let empty = folder.path().join("policy.toml").display().to_string();
    let binary = folder.path().join("binary.toml").display().to_string();
    fs::write(&binary, b"[listen]\n# \xff\n").unwrap();
    let large = folder.path().join("large.toml").display().to_string();
    let file = fs::File::create(&large).unwrap();
    file.set_len(65 * 1024 * 1024).unwrap();
    for (path, expected) in [
        (
            &missing,
            format!(
                "eclusa: failed to read the configuration {missing}: No such file or directory (os error 2)\n"
            ),
        ),
        (
            &directory,
            format!("eclusa: failed to read the configuration {directory}: it is a directory\n"),
        ),
        (
            &empty,
            format!(
                "eclusa: 1 problem in {empty}\nthe configuration is empty; it must at least say [listen] and [profiles]\n"
            ),
        ),
        (
            &binary,
            format!(
                "eclusa: failed to read the configuration {binary}: line 2 is not UTF-8 text\n"
            ),
        ),
        (
            &large,
            format!("eclusa: failed to read the configuration {large}: it is larger than 64 MiB\n"),
        ),
    ] {
        for verb in ["check", "serve"] {
            let ran = eclusa(&[verb, "-c", path]);
            let expected = Ran {
                code: Exit::Usage.into(),
                out: String::new(),
                err: expected.clone(),
            };
            assert_eq!(ran, expected, "{verb} {path}");
        }
    }
}

#[test]
fn the_flag_comes_before_the_environment() {
    let (_folder, good) = configured("[profiles.default]\n");
    let environment = Environment {
        config: Some(PathBuf::from("/nonexistent/eclusa.toml")),
        ..Environment::default()
    };
    assert_eq!(
        eclusa_in(&environment, &["check", "-c", &good]).code,
        ExitCode::SUCCESS
    );
    let ran = eclusa_in(&environment, &["check"]);
    assert_eq!(ran.code, Exit::Usage.into());
    assert!(ran.err.contains("/nonexistent/eclusa.toml"), "{}", ran.err);
    let environment = Environment {
        config: Some(PathBuf::from(&good)),
        ..Environment::default()
    };
    assert_eq!(eclusa_in(&environment, &["check"]).code, ExitCode::SUCCESS);
}
