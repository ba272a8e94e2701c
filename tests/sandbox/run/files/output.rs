//! What is taken out of a sandbox.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::{Path, PathBuf},
};

use super::super::{Launcher, Ran, process::Probes, set_mode, sha256};

/// What lies below a folder, as paths.
fn tree(folder: &Path) -> BTreeSet<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
    entries
        .flat_map(|entry| {
            let is_folder = entry.file_type().unwrap().is_dir();
            let below = is_folder.then(|| tree(&entry.path()));
            below.into_iter().flatten().chain([entry.path()])
        })
        .collect()
}

/// The files that a run says were collected, held against what lies in the folder.
fn collected(ran: &Ran, folder: &Path) -> BTreeMap<String, u64> {
    let mut found = tree(folder);
    for file in &ran.record.outputs {
        let path = folder.join(&file.path);
        let metadata = fs::symlink_metadata(&path).unwrap();
        assert!(metadata.is_file(), "{}", path.display());
        assert_eq!(
            metadata.permissions().mode() & 0o7133,
            0,
            "{}",
            path.display()
        );
        assert_eq!(
            (metadata.len(), sha256(&path)),
            (file.bytes, file.sha256.clone())
        );
        found.remove(&path);
    }
    // Only folders, and only such as hold a file.
    for path in found {
        let below = path.strip_prefix(folder).unwrap().to_str().unwrap();
        let mut outputs = ran.record.outputs.iter();
        assert!(
            outputs.any(|file| Path::new(&file.path).starts_with(below)),
            "{}",
            path.display()
        );
    }
    let outputs = ran.record.outputs.iter();
    outputs
        .map(|file| (file.path.clone(), file.bytes))
        .collect()
}

#[test]
#[ignore = "needs Docker"]
fn regular_files_are_collected_and_nothing_else() {
    files_are_collected(&Launcher::new());
}

/// What is collected from a sandbox of any engine.
pub(crate) fn files_are_collected(launcher: &Launcher) {
    let folder = launcher.path("results");
    let script = r#"
cd /output; printf report > report.csv; mkdir -p a/b empty/folder; printf deep > a/b/c; : > nothing
printf x > ' --rf $(id) ; ..'; cp /bin/true set-id; chmod 6777 set-id; printf secret > closed; chmod 0 closed
ln -s /etc/passwd link; ln -s / root; ln -s a inner; ln a/b/c hard; mkfifo fifo
printf x > "$(printf 'new\nline')"; printf x > "$(printf 'esc\033[2J')"; printf x > "$(printf '\377')"
python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind("socket")'
(sleep 0.2; while :; do echo late >> report.csv; done) & ./set-id; exit 3"#;
    let option = format!("--output={}", folder.display());
    let ran = launcher.shell(&[&option], script);
    // What a failed command made is of interest too.
    assert_eq!(ran.code, Some(3), "{ran:?}");
    let said = &ran.output().stderr;
    assert!(said.contains("./set-id: Permission denied"), "{said}");
    let mut files = collected(&ran, &folder);
    let size = files.remove("set-id");
    assert!(size > Some(1000), "{size:?}");
    // Of a file with several names one is a file, and the rest are links.
    let linked = files.remove("a/b/c").or_else(|| files.remove("hard"));
    assert_eq!(linked, Some(4));
    let expected = [
        (" --rf $(id) ; ..", 1),
        ("closed", 6),
        ("nothing", 0),
        ("report.csv", 6),
    ];
    let expected = expected.map(|(path, bytes)| (path.to_owned(), bytes));
    assert_eq!(files, expected.into());
    let skipped = ran.record.outputs_skipped.iter();
    let mut skipped: BTreeMap<&str, &str> = skipped
        .map(|skipped| (skipped.path.as_str(), skipped.why.as_str()))
        .collect();
    let linked = skipped.remove("a/b/c").or_else(|| skipped.remove("hard"));
    assert_eq!(linked, Some("hard link"));
    // An engine's archive leaves sockets out.
    let socket = skipped.remove("socket");
    assert!([None, Some("socket")].contains(&socket), "{socket:?}");
    let expected = [
        ("fifo", "FIFO"),
        ("inner", "symbolic link"),
        ("link", "symbolic link"),
        ("root", "symbolic link"),
        (r"\xff", "its path is not UTF-8"),
        (r"esc\u{1b}[2J", "its path holds a control character"),
        (r"new\nline", "its path holds a control character"),
    ];
    assert_eq!(skipped, expected.into());
}

#[test]
#[ignore = "needs Docker"]
fn an_output_is_no_larger_than_its_size_whatever_it_says() {
    let launcher = Launcher::new();
    let folder = launcher.path("results");
    let script = r"
cd /output; truncate -s 40M sparse; head -c 300000 /dev/urandom > 1; head -c 3M /dev/zero > 2
for n in $(seq 3000); do : > f$n || break; done 2> /dev/null; ls | wc -l";
    let option = format!("--output={}", folder.display());
    let ran = launcher.shell(&[&option, "--output-size=1m"], script);
    let said = &ran.output().stderr;
    assert!(said.contains("No space left on device"), "{said}");
    let files = collected(&ran, &folder);
    let total: u64 = files.values().sum();
    assert!((300_000..=1 << 20).contains(&total), "{total} bytes");
    assert!(files.len() <= 1024, "{} files", files.len());
    let sparse = ran.record.outputs_skipped.iter();
    let sparse = sparse.filter(|skipped| skipped.path == "sparse");
    assert_eq!(sparse.count(), 1, "{:?}", ran.record.outputs_skipped);
}

#[test]
#[ignore = "needs Docker"]
fn outputs_are_never_mixed_with_what_is_there() {
    let launcher = Launcher::new();
    fs::create_dir(launcher.path("used")).unwrap();
    fs::write(launcher.path("used/.hidden"), "").unwrap();
    fs::write(launcher.path("file"), "").unwrap();
    symlink("elsewhere", launcher.path("link")).unwrap();
    for (name, expected) in [
        ("used", "is not empty"),
        ("file", "is no folder"),
        ("link", "is a symbolic link"),
        ("missing/results", "cannot be made"),
    ] {
        let option = format!("--output={}", launcher.path(name).display());
        let error = launcher.refusal(&[&option]);
        assert!(error.contains(expected), "{name}: {error}");
    }
    assert!(!launcher.path("elsewhere").exists());
}

#[test]
#[ignore = "needs Docker"]
fn what_a_sandbox_does_with_its_volumes_it_does_nowhere_else() {
    let launcher = Launcher::new();
    let input = launcher.path("private");
    fs::create_dir_all(input.join("sub")).unwrap();
    fs::write(input.join("sub/data"), "private content").unwrap();
    fs::write(input.join("probes.py"), super::super::PROBES).unwrap();
    for (path, mode) in [
        ("sub/data", 0o600),
        ("sub", 0o700),
        ("probes.py", 0o700),
        ("", 0o700),
    ] {
        set_mode(&input.join(path), mode);
    }
    let folder = launcher.path("results");
    let options = [
        format!("--input-copy={}", input.display()),
        format!("--output={}", folder.display()),
        "--max-output=1MB".to_owned(),
    ];
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    let script = r"
cat /input/sub/data; echo; grep -c ' /input ro' /proc/self/mountinfo
touch /input/new || echo refused; stat -c %a /input/probes.py
python3 -I /input/probes.py; python3 -I /input/probes.py fill /output > /dev/null; echo done > /output/told";
    let ran = launcher.shell(&options, script).succeeded();
    let (before, probes) = ran.stdout().split_once("\n555\n").unwrap();
    assert_eq!(before, "private content\n1\nrefused");
    let probes = Probes::read(probes);
    let mounts = probes.fact("writable mounts").as_array().unwrap();
    let targets = mounts.iter().map(|mount| mount["target"].as_str().unwrap());
    let expected = ["/dev/mqueue", "/dev/shm", "/output", "/tmp", "/workspace"];
    assert_eq!(targets.collect::<BTreeSet<_>>(), expected.into());
    assert_eq!(collected(&ran, &folder), [("told".to_owned(), 5)].into());
}
