//! The files of a sandbox: what it can write and how much, what it is shown of the host, and what
//! of an image.

pub(crate) mod input;
pub(crate) mod output;

use std::process::Command;

use eclusa::record::{Evidence, Limit};
use serde_json::json;

use super::{Launcher, Running, finish_record, process::Probes};
use crate::docker::{AGENT_IMAGE, Container, attempt, docker};

#[test]
#[ignore = "needs Docker"]
fn what_can_be_written_is_full_at_its_size_and_at_its_number_of_files() {
    writable_is_full(&Launcher::new());
}

/// What a sandbox of any engine can write.
pub(crate) fn writable_is_full(launcher: &Launcher) {
    let script = r"
for folder in /workspace /tmp /dev/shm; do python3 -I /input/probes.py fill $folder; echo --; done
for n in $(seq 1000); do touch /dev/mqueue/$n || break; done; ls /dev/mqueue | wc -l";
    let sizes = ["--workspace-size=8m", "--tmp-size=4m", &launcher.probes()];
    let ran = launcher.shell(&sizes, script).succeeded();
    let mut parts = ran.stdout().split("--\n");
    for (folder, bytes, largest, files) in [
        ("/workspace", 8 << 20, 8 << 20, 2048),
        ("/tmp", 4 << 20, 4 << 20, 1024),
        ("/dev/shm", 64 << 20, 50_000_000, 16384),
    ] {
        let probes = Probes::read(parts.next().unwrap());
        probes.tried(&["N09"]);
        // A file need not end with a page.
        let written = probes.fact("bytes").as_u64().unwrap();
        assert!(
            (bytes - 4096..=bytes).contains(&written),
            "{folder}: {written}"
        );
        assert_eq!(*probes.fact("largest file"), json!(largest), "{folder}");
        // The folder itself is one of them.
        assert_eq!(*probes.fact("files"), json!(files - 1), "{folder}");
    }
    let queues = parts.next().unwrap();
    let queues: u32 = queues.trim().parse().unwrap();
    assert!(queues < 256, "{queues} message queues");
}

#[test]
#[ignore = "needs Docker"]
fn a_file_that_grows_too_large_is_named() {
    large_file_is_named(&Launcher::new());
}

/// The largest file in a sandbox of any engine.
pub(crate) fn large_file_is_named(launcher: &Launcher) {
    let script = "head -c 2M /dev/zero > file; code=$?; stat -c %s file; exit $code";
    let killed = launcher.shell(&["--fsize=1MB"], script);
    assert_eq!(killed.stdout(), "1000000\n");
    assert_eq!(killed.code, Some(128 + 25), "{killed:?}");
    assert_eq!(killed.limits(), [Limit::FileSize]);

    let told = launcher.python(&["--fsize=1MB"], "open('file', 'wb').write(bytes(2 << 20))");
    let reached = told.record.limits.iter();
    let reached = reached.map(|reached| (reached.limit, reached.evidence));
    let expected = [(Limit::FileSize, Evidence::Program)];
    assert_eq!(reached.collect::<Vec<_>>(), expected, "{told:?}");
}

/// An image of this test's own; removed on every path out of it.
struct Image(&'static str);

impl Image {
    /// The agents' image with other settings.
    fn new(tag: &'static str, settings: &[&str]) -> Self {
        let base = Container(docker(&["create", AGENT_IMAGE, "true"]));
        let mut commit = vec!["commit"];
        for setting in settings {
            commit.extend(["--change", setting]);
        }
        commit.extend([base.0.as_str(), tag]);
        docker(&commit);
        Self(tag)
    }
}

impl Drop for Image {
    fn drop(&mut self) {
        attempt(Command::new("docker").args(["rmi", "--force", self.0]));
    }
}

#[test]
#[ignore = "needs Docker"]
fn an_image_brings_files_and_no_settings() {
    let launcher = Launcher::new();
    let image = Image::new(
        "suite-settings",
        &[
            "ENV API_TOKEN=hunter2 LD_PRELOAD=/nonexistent.so HTTP_PROXY=http://proxy.example.com",
            "ENV GOPATH=/go HOME=/root SHELL=/bin/false",
            r#"ENTRYPOINT ["/bin/false"]"#,
            r#"CMD ["/bin/false"]"#,
            "USER 0",
            "WORKDIR /root",
            "VOLUME /data",
            "VOLUME /workspace",
            "EXPOSE 80",
            "HEALTHCHECK --interval=1s CMD /bin/false",
        ],
    );
    let script = r#"
id -u; pwd; env | sort; cp /bin/true /data/true; /data/true
grep " /data " /proc/self/mountinfo | cut -d' ' -f 6-; read -r line"#;
    let options = ["--stdin", "--tmp-size=1m"];
    let mut run = launcher.command_in(image.0, &options, &["sh", "-c", script]);
    let running = Running::start(&mut run);
    let name = format!("eclusa-run-{}", running.sandbox());
    let format = "{{range .Mounts}}{{.Type}} {{.Destination}} {{end}}{{json .State.Health}}";
    let made = docker(&["inspect", "-f", format, &name]);
    let ran = finish_record(running, b"\n");
    assert_eq!(made, "bind /etc/resolv.conf null", "an anonymous volume");
    let (settings, mount) = ran.stdout().trim().rsplit_once('\n').unwrap();
    let expected = "65534\n/workspace\nGOPATH=/go\nHOME=/workspace\nHOSTNAME=sandbox\nLANG=C.UTF-8\n\
                    PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\n\
                    PWD=/workspace\nTMPDIR=/tmp";
    assert_eq!(settings, expected);
    for wanted in ["noexec", "nosuid", "nodev", "size=1024k", "nr_inodes=1024"] {
        assert!(mount.contains(wanted), "{wanted} in {mount}");
    }
    let said = &ran.output().stderr;
    assert!(said.contains("/data/true: Permission denied"), "{said}");
    let warned = ran.record.warnings.iter();
    let credential = |warning: &&String| warning.contains("API_TOKEN");
    assert_eq!(warned.filter(credential).count(), 1, "{ran:?}");
}
