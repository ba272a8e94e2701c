//! Following a log while it is written and rotated.

use std::{
    collections::BTreeSet,
    fs,
    io::{BufRead as _, BufReader, Read as _},
    process::{Child, Command, Stdio},
    sync::mpsc,
    thread,
};

use serde_json::Value;

use super::rotated::{ask, rotating};
use crate::support::{PATIENCE, eventually, proxy::command};

/// `eclusa logs --follow`, and the lines that it prints.
struct Following {
    child: Child,
    lines: mpsc::Receiver<String>,
}

impl Following {
    fn start(args: &[&str]) -> Self {
        let mut child = command()
            .args(["logs", "--follow"])
            .args(args)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let (send, lines) = mpsc::channel();
        thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                // The test has ended where nobody listens.
                if send.send(line).is_err() {
                    return;
                }
            }
        });
        Self { child, lines }
    }

    fn next(&self) -> String {
        self.lines.recv_timeout(PATIENCE).expect("a line")
    }

    /// Sends a signal, and gives the exit code, what was printed until then, and standard error.
    fn stop(mut self, signal: &str) -> (Option<i32>, Vec<String>, String) {
        let pid = self.child.id().to_string();
        let sent = Command::new("kill").args([signal, &pid]).status().unwrap();
        assert!(sent.success());
        let rest = self.lines.iter().collect();
        let mut err = String::new();
        let stderr = self.child.stderr.as_mut().unwrap();
        stderr.read_to_string(&mut err).unwrap();
        (self.child.wait().unwrap().code(), rest, err)
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        // Already ended is as good.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

fn id(line: &str) -> String {
    let line: Value = serde_json::from_str(line).unwrap();
    line["id"].as_str().unwrap().to_owned()
}

#[test]
fn no_line_is_lost_or_told_twice_over_rotations() {
    let proxy = rotating(1000);
    let config = proxy.config();
    let following =
        Following::start(&["-c", config.to_str().unwrap(), "--json", "--event", "close"]);
    for _ in 0..40 {
        ask(&proxy);
    }
    let told: Vec<String> = (0..40).map(|_| id(&following.next())).collect();
    let distinct: BTreeSet<&String> = told.iter().collect();
    assert_eq!(distinct.len(), 40);
    assert!(told.is_sorted(), "{told:?}");
    assert!(proxy.folder().join("audit.jsonl.3").exists());
    for signal in ["-TERM", "-INT"] {
        let following = Following::start(&["-c", config.to_str().unwrap(), "-n", "1"]);
        following.next();
        assert_eq!(
            following.stop(signal),
            (Some(0), Vec::new(), String::new()),
            "{signal}"
        );
    }
    let quiet = (Some(0), Vec::new(), String::new());
    assert_eq!(following.stop("-TERM"), quiet);
}

#[test]
fn only_the_last_lines_come_first_and_a_cut_file_is_read_anew() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.jsonl");
    let line = |id: &str| {
        format!(
            "{{\"schema\":1,\"ts\":\"2026-01-02T03:04:05.678Z\",\"event\":\"stop\",\"id\":\"{id}\"}}\n"
        )
    };
    fs::write(&path, ["a", "b", "c"].map(line).concat()).unwrap();
    let following = Following::start(&[path.to_str().unwrap(), "--json", "-n", "2"]);
    assert_eq!([id(&following.next()), id(&following.next())], ["b", "c"]);
    fs::write(&path, line("d")).unwrap();
    assert_eq!(id(&following.next()), "d");
    let mut file = fs::File::options().append(true).open(&path).unwrap();
    std::io::Write::write_all(&mut file, b"foreign\n").unwrap();
    std::io::Write::write_all(&mut file, line("e").as_bytes()).unwrap();
    assert_eq!(id(&following.next()), "e");
    let (code, rest, err) = following.stop("-TERM");
    assert_eq!((code, rest), (Some(0), Vec::new()));
    assert!(err.contains("was cut; reading it anew\n"), "{err}");
    assert!(
        err.contains("line 2: is not a record; passed over\n"),
        "{err}"
    );
    let none = Following::start(&[path.to_str().unwrap(), "--json", "-n", "0"]);
    // Whatever it reads before or after this write, it tells only what is new.
    let told = eventually("a new line", || {
        let mut file = fs::File::options().append(true).open(&path).unwrap();
        std::io::Write::write_all(&mut file, line("f").as_bytes()).unwrap();
        none.lines.try_recv().ok()
    });
    assert_eq!(id(&told), "f");
}
