//! The chain of real logs: proven after whatever the proxy met, and broken by whatever was done to
//! its files.

use std::{
    fs::{self, File},
    io::Write,
    path::{Path, PathBuf},
    process::Output,
    thread,
};

use serde_json::Value;
use tempfile::TempDir;

use crate::support::{
    client::{exchange, status},
    eventually,
    proxy::{TestProxy, command},
};

/// A line as an earlier version wrote it.
const OLD: &str = "{\"schema\":1,\"ts\":\"2026-01-01T03:04:05.678Z\",\"event\":\"stop\",\
                   \"id\":\"01JD5SWQ000000000000000001\",\"run\":null,\"profile\":null,\"client\":null}\n";

/// A proxy whose log is rotated every 4 KiB, on top of what `log` holds already.
fn proxy(log: &str) -> TestProxy {
    TestProxy::with_config(|folder| {
        fs::write(folder.join("audit.jsonl"), log).unwrap();
        let folder = folder.display();
        format!(
            "[listen]\nproxy = [\"127.0.0.1:0\"]\nadmin = \"{folder}/admin.sock\"\n\
             [audit]\nfile = \"{folder}/audit.jsonl\"\nmax_size = \"4 KiB\"\nkeep = 90\n\
             [profiles.default]\nallow = [\"allowed.example\"]\n\
             [[clients]]\nsource = \"127.0.0.0/8\"\nprofile = \"default\"\n"
        )
    })
}

/// Many clients at once, each refused for names of its own.
fn traffic(proxy: &TestProxy, prefix: &str) {
    let at = proxy.listener("proxy");
    thread::scope(|scope| {
        for client in 0..4 {
            scope.spawn(move || {
                for number in 0..10 {
                    let host = format!("{prefix}{client}-{number}.evil.example");
                    let head = format!("GET http://{host}/ HTTP/1.1\r\nHost: {host}\r\n\r\n");
                    assert_eq!(status(&exchange(at, head.as_bytes())), Some(403));
                }
            });
        }
    });
}

/// The files of the log, oldest first.
fn files(folder: &Path) -> Vec<PathBuf> {
    let log = folder.join("audit.jsonl");
    let rotated = (1..=90).map(|number| log.with_added_extension(number.to_string()));
    let mut files: Vec<PathBuf> = rotated.filter(|file| file.exists()).collect();
    files.reverse();
    files.push(log);
    files
}

fn verify(files: &[PathBuf], head: Option<&str>) -> Output {
    let mut logs = command();
    logs.args(["logs", "--verify", "--json"]);
    logs.args(head.map(|head| format!("--head={head}")));
    logs.args(files).output().unwrap()
}

/// The proof of a log that is whole.
fn proven(files: &[PathBuf], head: Option<&str>) -> Value {
    let output = verify(files, head);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let proof: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(proof["verdict"], "ok");
    proof
}

/// The break of a log that is not.
fn broken(files: &[PathBuf]) -> Value {
    let output = verify(files, None);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let proof: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(proof["verdict"], "broken");
    proof["broken"].clone()
}

fn head(proxy: &TestProxy) -> String {
    let output = proxy.admin("GET", "/v1/audit", None);
    let told: Value = serde_json::from_slice(&output.stdout).unwrap();
    told["head"].as_str().unwrap().to_owned()
}

#[test]
fn a_log_is_proven_after_rotations_a_crash_and_a_move() {
    let mut proxy = proxy("");
    traffic(&proxy, "a");
    let first = head(&proxy);
    let log = files(proxy.folder());
    assert!(log.len() > 3, "{log:?}");
    let proof = proven(&log, Some(&first));
    assert_eq!(
        (&proof["head"], &proof["torn"]),
        (&first.clone().into(), &0.into())
    );
    assert_eq!(proof["after"], "0".repeat(64));

    // Killed in the middle of a line, and started again.
    let folder = proxy.crash();
    let mut current = File::options()
        .append(true)
        .open(folder.path().join("audit.jsonl"));
    current
        .as_mut()
        .unwrap()
        .write_all(b"{\"schema\":1,\"ts\":\"20")
        .unwrap();
    proxy = TestProxy::in_folder(folder);
    traffic(&proxy, "b");
    let proof = proven(&files(proxy.folder()), Some(&first));
    assert_eq!(proof["torn"], 1, "{proof}");
    assert_eq!(proof["head"], head(&proxy));

    // Moved away while it runs.
    let log = proxy.folder().join("audit.jsonl");
    let moved = proxy.folder().join("moved");
    let rotated = files(proxy.folder()).len() - 1;
    fs::rename(&log, &moved).unwrap();
    eventually("the log to be opened anew", || log.exists().then_some(()));
    traffic(&proxy, "c");
    let all = files(proxy.folder());
    let (older, newer) = all.split_at(rotated);
    let with_moved = [older, &[moved], newer].concat();
    assert_eq!(proven(&with_moved, Some(&first))["head"], head(&proxy));
    assert_eq!(broken(&all)["cause"], "lost");

    // Asked for by the configuration, as a person would.
    let mut logs = command();
    logs.args(["logs", "--verify", "-c"]).arg(proxy.config());
    let output = logs.output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("\nbroken: "), "{text}");
}

/// A proxy that has stopped, and the files of its log, which is whole.
fn stopped() -> (TestProxy, Vec<PathBuf>) {
    let mut proxy = proxy("");
    traffic(&proxy, "a");
    proxy.signal("TERM");
    proxy.wait();
    let log = files(proxy.folder());
    proven(&log, None);
    (proxy, log)
}

#[test]
fn whatever_is_done_to_a_real_log_shows_and_names_its_place() {
    let (_proxy, log) = stopped();
    let text = fs::read_to_string(&log[1]).unwrap();
    let rotated: Vec<&str> = text.split_inclusive('\n').collect();
    assert!(rotated.len() > 4, "{text}");
    let swapped = {
        let mut lines = rotated.clone();
        lines.swap(1, 2);
        lines
    };
    let inserted = [&rotated[..2], &rotated[1..]].concat();
    let allowed = rotated[1].replace("\"deny\"", "\"allow\"");
    let edited = [&rotated[..1], &[&allowed], &rotated[2..]].concat();
    for (what, changed, file, line, cause) in [
        ("an edit", edited, 1, 3, "lost"),
        (
            "a removal",
            [&rotated[..1], &rotated[2..]].concat(),
            1,
            2,
            "lost",
        ),
        ("a swap", swapped, 1, 2, "moved"),
        ("an insertion", inserted, 1, 3, "moved"),
        (
            "a cut at a record",
            rotated[..rotated.len() - 1].to_vec(),
            2,
            1,
            "lost",
        ),
        ("a whole file", Vec::new(), 2, 1, "lost"),
    ] {
        let copy = TempDir::new().unwrap();
        let mut files = log.clone();
        files[1] = copy.path().join("changed");
        fs::write(&files[1], changed.concat()).unwrap();
        let broken = broken(&files);
        let expected = (
            files[file].to_str().unwrap().into(),
            line.into(),
            cause.into(),
        );
        let found = (
            broken["file"].clone(),
            broken["line"].clone(),
            broken["cause"].clone(),
        );
        assert_eq!(found, expected, "{what}: {broken}");
    }
    let mut missing = log;
    missing.remove(1);
    assert_eq!(broken(&missing)["line"], 1);
}

#[test]
fn only_the_head_of_a_real_log_tells_that_its_end_was_cut_off() {
    let (_proxy, log) = stopped();
    let proof = proven(&log, None);
    let head = proof["head"].as_str().unwrap();
    let copy = TempDir::new().unwrap();
    let mut cut = log;
    let last = cut.last_mut().unwrap();
    let text = fs::read_to_string(&last).unwrap();
    let short = text
        .trim_end()
        .rsplit_once('\n')
        .map_or("", |(head, _)| head);
    *last = copy.path().join("cut");
    fs::write(last, format!("{short}\n")).unwrap();
    proven(&cut, None);
    assert_eq!(verify(&cut, Some(head)).status.code(), Some(1));
}

#[test]
fn a_real_log_in_one_file_or_compressed_is_proven_as_before() {
    let (_proxy, log) = stopped();
    let proof = proven(&log, None);
    let head = proof["head"].as_str().unwrap();
    let copy = TempDir::new().unwrap();
    let one = copy.path().join("one");
    let all: Vec<u8> = log
        .iter()
        .flat_map(|file| fs::read(file).unwrap())
        .collect();
    fs::write(&one, all).unwrap();
    assert_eq!(proven(&[one], Some(head))["head"], head);
    let packed = copy.path().join("packed.gz");
    let file = File::create(&packed).unwrap();
    let mut gz = flate2::write::GzEncoder::new(file, flate2::Compression::fast());
    gz.write_all(&fs::read(&log[1]).unwrap()).unwrap();
    gz.finish().unwrap();
    let mut files = log;
    files[1] = packed;
    assert_eq!(proven(&files, Some(head))["head"], head);
}

#[test]
fn a_log_of_an_earlier_version_goes_on_and_is_bound() {
    let proxy = proxy(&OLD.repeat(3));
    let head = head(&proxy);
    let log = proxy.folder().join("audit.jsonl");
    let proof = proven(std::slice::from_ref(&log), Some(&head));
    assert_eq!(
        (&proof["unchained"], &proof["after"]),
        (&3.into(), &Value::Null)
    );
    let text = fs::read_to_string(&log).unwrap();
    let changed = proxy.folder().join("changed");
    fs::write(&changed, text.replacen("stop", "STOP", 1)).unwrap();
    assert_eq!(broken(&[changed])["cause"], "unbound");
    // A log without a chain proves nothing.
    let old = proxy.folder().join("old");
    fs::write(&old, OLD).unwrap();
    let output = verify(&[old], None);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stdout).contains("not_proven"));
    let missing = verify(&[proxy.folder().join("missing")], None);
    assert_eq!(missing.status.code(), Some(64), "{missing:?}");
}
