//! What cannot be recorded is refused: a full disk under the log, and its end.

use std::{fs, path::Path, process::Command};

use hickory_net::proto::op::ResponseCode;

use crate::support::{
    client::{exchange, problem, status},
    dns_query, eventually,
    proxy::{TestProxy, command},
};

/// A small file system of its own, unmounted with the value.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    fn mount() -> Self {
        let folder = tempfile::tempdir().unwrap();
        run(
            "mount",
            &["-t", "tmpfs", "-o", "size=128k", "tmpfs"],
            folder.path(),
        );
        Self(folder)
    }

    fn fill(&self) {
        // It ends with an error once nothing more fits.
        drop(fs::write(
            self.0.path().join("ballast"),
            vec![0; 1024 * 1024],
        ));
    }

    fn free(&self) {
        fs::remove_file(self.0.path().join("ballast")).unwrap();
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        run("umount", &["-l"], self.0.path());
    }
}

fn run(program: &str, args: &[&str], path: &Path) {
    let status = Command::new(program).args(args).arg(path).status().unwrap();
    assert!(status.success(), "{program} {}", path.display());
}

#[test]
fn a_full_disk_refuses_traffic_until_there_is_room() {
    let disk = SmallDisk::mount();
    let log = disk.0.path().join("audit.jsonl");
    let proxy = TestProxy::with_config(|folder| {
        format!(
            "[listen]\nproxy = [\"127.0.0.1:0\"]\ndns = [\"127.0.0.1:0\"]\nadmin = \"{0}/admin.sock\"\n\
             [dns]\nanswer = \"127.0.0.1\"\n[audit]\nfile = \"{1}\"\n\
             [profiles.default]\nallow = [\"127.0.0.1:1\"]\n\
             [[clients]]\nsource = \"127.0.0.0/8\"\nprofile = \"default\"\n",
            folder.display(),
            log.display()
        )
    });
    let ask = |path: &str| {
        let head = format!("GET http://127.0.0.1:1/{path} HTTP/1.1\r\nHost: 127.0.0.1:1\r\n\r\n");
        exchange(proxy.listener("proxy"), head.as_bytes())
    };
    let healthy = || proxy.admin("GET", "/healthz", None).status.success();
    assert_eq!(
        status(&ask("before")),
        Some(502),
        "nobody listens on port 1"
    );
    assert!(healthy());

    disk.fill();
    let refused = eventually("the disk to be full", || {
        let answer = ask("full");
        (status(&answer) == Some(503)).then_some(answer)
    });
    assert_eq!(problem(&refused)["reason"], "audit_unavailable");
    assert!(!healthy());
    let answer = dns_query(proxy.listener("dns"), "x.example.");
    assert_eq!(answer.metadata.response_code, ResponseCode::ServFail);

    disk.free();
    eventually("traffic to be let through again", || {
        (status(&ask("after")) == Some(502)).then_some(())
    });
    assert!(healthy());
    let text = fs::read_to_string(&log).unwrap();
    let lines: Vec<serde_json::Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).expect("a whole line"))
        .collect();
    for decision in lines
        .iter()
        .filter(|line| line["decision"] == "allow" && line["event"] == "decision")
    {
        let closed = lines
            .iter()
            .filter(|line| line["event"] == "close" && line["id"] == decision["id"]);
        assert_eq!(closed.count(), 1, "{decision}");
    }
    let mut verify = command();
    verify.args(["logs", "--verify"]).arg(&log);
    let proof = verify.output().unwrap();
    assert!(proof.status.success(), "{proof:?}");
}
