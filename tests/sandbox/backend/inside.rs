//! What a sandbox sees of its limits, and that neither its image nor the engine adds to them.

use std::{collections::BTreeMap, fs, path::Path, process::Command};

use eclusa::launcher::plan::{Mount, MountSource};

use super::{Run, python, shell};
use crate::docker::{AGENT_IMAGE, attempt, docker};

/// Prints what can be seen, one `name value` a line.
const LOOK: &str = r#"
import os, re, resource, socket
status = open("/proc/self/status").read()
for name in "Uid Gid Groups CapInh CapPrm CapEff CapBnd CapAmb NoNewPrivs Seccomp".split():
    print(name, *re.search(rf"^{name}:(.*)", status, re.M).group(1).split())
for name in "CORE FSIZE MEMLOCK NOFILE".split():
    print(name, *resource.getrlimit(getattr(resource, "RLIMIT_" + name)))
print("fds", *sorted(os.listdir("/proc/self/fd"), key=int)[:-1])
print("host", socket.gethostname())
print("directory", os.getcwd())
print("first", open("/proc/1/comm").read().strip())
print("interfaces", *sorted(os.listdir("/sys/class/net")))
for path in "/proc/kcore /proc/keys /proc/timer_list /proc/interrupts".split():
    if os.path.exists(path):
        print("masked", os.stat(path).st_rdev == os.stat("/dev/null").st_rdev, path)
print("firmware", *os.listdir("/sys/firmware"))
lines = open("/etc/resolv.conf").read().splitlines()
print("resolver", *(line for line in lines if line and not line.startswith('#')))
for path in "/workspace /tmp /dev/shm".split():
    at = os.statvfs(path)
    print(path, at.f_blocks * at.f_frsize, at.f_files)
for path in "/ /etc /usr /var /root /dev /proc/sys/kernel/hostname".split():
    print("writable", path, os.access(path, os.W_OK) and not os.statvfs(path).f_flag & os.ST_RDONLY)
"#;

fn by_name(text: &str) -> BTreeMap<&str, &str> {
    text.lines()
        .map(|line| line.split_once(' ').unwrap_or((line, "")))
        .collect()
}

#[tokio::test]
#[ignore = "needs Docker"]
async fn a_sandbox_sees_the_limits_of_its_plan() {
    let ran = Run::new("backend-inside", &python(LOOK))
        .await
        .run(b"")
        .await;
    let seen = by_name(&ran.stdout);
    for (name, expected) in [
        ("Uid", "65534 65534 65534 65534"),
        ("Gid", "65534 65534 65534 65534"),
        ("Groups", "65534"),
        ("CapInh", "0000000000000000"),
        ("CapPrm", "0000000000000000"),
        ("CapEff", "0000000000000000"),
        ("CapBnd", "0000000000000000"),
        ("CapAmb", "0000000000000000"),
        ("NoNewPrivs", "1"),
        ("Seccomp", "2"),
        ("CORE", "0 0"),
        ("FSIZE", "50000000 50000000"),
        ("NOFILE", "256 256"),
        ("fds", "0 1 2"),
        ("host", "sandbox"),
        ("directory", "/workspace"),
        ("first", "docker-init"),
        ("interfaces", "lo"),
        ("firmware", ""),
        ("/workspace", "268435456 65536"),
        ("/tmp", "67108864 16384"),
        ("resolver", "nameserver 127.0.0.1"),
    ] {
        assert_eq!(seen.get(name), Some(&expected), "{name}: {ran:#?}");
    }
    assert!(seen["/dev/shm"].starts_with("67108864 "), "{ran:#?}");
    for line in ran.stdout.lines() {
        let is_open = line.starts_with("writable") && line.ends_with("True");
        assert!(!is_open && !line.starts_with("masked False"), "{ran:#?}");
    }
}

#[tokio::test]
#[ignore = "needs Docker"]
async fn the_environment_is_the_plans_and_nothing_else() {
    let run = Run::new("backend-env", &shell("env")).await;
    let ran = run.run(b"").await;
    // What `sh` itself adds.
    let seen: BTreeMap<String, String> = ran
        .stdout
        .lines()
        .map(|line| line.split_once('=').unwrap())
        .filter(|(name, _)| !["PWD", "SHLVL", "_", "OLDPWD"].contains(name))
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
    assert_eq!(seen, run.plan.sandbox.env);
}

/// An image that tries everything that an image can say, removed in the end.
struct Hostile(String);

impl Hostile {
    fn new(name: &str, label: &str) -> Self {
        let label = format!("LABEL {label}");
        let changes = [
            r#"ENTRYPOINT ["/bin/false"]"#,
            r#"CMD ["/bin/false"]"#,
            "ENV LD_PRELOAD=/evil.so",
            "ENV HTTP_PROXY=http://evil.example.net",
            "ENV LANG=de_DE.UTF-8",
            "EXPOSE 80",
            "USER root",
            "VOLUME /data",
            "VOLUME /workspace",
            "WORKDIR /root",
            "HEALTHCHECK CMD /bin/true",
            &label,
        ]
        .map(|change| format!("--change '{change}'"))
        .join(" ");
        let made = attempt(Command::new("sh").args([
            "-c",
            &format!(
                "id=$(docker create {AGENT_IMAGE} true) && docker commit {changes} $id {name} && \
                 docker rm $id"
            ),
        ]));
        assert!(made.ok, "{}", made.text);
        Self(name.to_owned())
    }
}

impl Drop for Hostile {
    fn drop(&mut self) {
        attempt(Command::new("docker").args(["rmi", "--force", &self.0]));
    }
}

#[tokio::test]
#[ignore = "needs Docker"]
async fn an_image_adds_nothing_to_its_sandbox() {
    let image = Hostile::new("backend-hostile", "org.example.a=b");
    let mut spec = python(
        r#"
import os
print(os.getuid(), os.getcwd(), dict(os.environ).get("LD_PRELOAD"), os.environ.get("HTTP_PROXY"))
print(os.environ["LANG"])
for path in ("/data", "/workspace"):
    at = os.statvfs(path)
    print(path, at.f_blocks * at.f_frsize, bool(at.f_flag & os.ST_NOEXEC))
    open(path + "/file", "w").close()
"#,
    );
    spec.image = image.0.clone();
    let before = docker(&["volume", "ls", "-q"]);
    let ran = Run::new("backend-hostile", &spec).await.run(b"").await;
    let expected = "65534 /workspace None None\nde_DE.UTF-8\n\
                    /data 67108864 True\n/workspace 268435456 True\n";
    assert_eq!(ran.stdout, expected, "{ran:#?}");
    assert_eq!(docker(&["volume", "ls", "-q"]), before);
}

#[tokio::test]
#[ignore = "needs Docker"]
async fn an_image_that_bears_our_labels_passes_for_nothing() {
    for label in ["eclusa.role=proxy", "eclusa.run=another"] {
        let image = Hostile::new("backend-posing", label);
        let mut spec = shell("true");
        spec.image = image.0.clone();
        let run = Run::new("backend-posing", &spec).await;
        run.create().await.unwrap();
        let (name, posed) = label.split_once('=').unwrap();
        let format = format!("{{{{index .Config.Labels {name:?}}}}}");
        let labelled = docker(&["inspect", "-f", &format, &run.plan.sandbox.name]);
        assert_ne!(labelled, posed);
        // Other tests have a proxy of their own meanwhile.
        let own = format!("name={}", run.plan.sandbox.name);
        let posing = format!("label={label}");
        let found = docker(&["ps", "-aq", "--filter", &own, "--filter", &posing]);
        assert_eq!(found, "");
        run.remove().await;
    }
}

#[tokio::test]
#[ignore = "needs Docker"]
async fn a_bound_directory_is_read_only_and_ends_at_its_mounts() {
    let folder = tempfile::Builder::new()
        .prefix("eclusa-")
        .tempdir()
        .unwrap();
    fs::write(folder.path().join("file"), "content").unwrap();
    attempt(Command::new("chmod").arg("755").arg(folder.path()));
    let script = "cat /input/file; touch /input/new || echo refused; \
                  awk '$2 == \"/input\" {print $4}' /proc/mounts | tr , '\\n' | grep -x ro";
    let mut run = Run::new("backend-bind", &shell(script)).await;
    let bind = |path: &Path| Mount {
        source: MountSource::Bind(path.to_owned()),
        target: "/input".to_owned(),
        read_only: true,
    };
    run.plan.sandbox.mounts.push(bind(folder.path()));
    let ran = run.run(b"").await;
    assert_eq!(ran.stdout, "contentrefused\nro\n", "{ran:#?}");

    // P12: never an empty directory instead of one that is not there.
    run.plan.sandbox.mounts.pop();
    run.plan
        .sandbox
        .mounts
        .push(bind(&folder.path().join("missing")));
    let error = run.create().await.unwrap_err().to_string();
    assert!(error.contains("does not exist"), "{error}");
    assert!(!folder.path().join("missing").exists());
    run.remove().await;
}

#[tokio::test]
#[ignore = "needs Docker"]
async fn a_container_or_volume_of_that_name_is_not_taken_over() {
    let run = Run::new("backend-taken", &shell("true")).await;
    run.create().await.unwrap();
    let error = run.create().await.unwrap_err().to_string();
    assert!(error.contains("already in use"), "{error}");
    run.remove().await;

    let mut spec = shell("true");
    spec.output = Some("out".into());
    let run = Run::new("backend-taken", &spec).await;
    let label = format!("--label=eclusa.run={}", run.plan.run);
    docker(&["volume", "create", &label, "eclusa-output-backend-taken"]);
    let error = run.create().await.unwrap_err().to_string();
    assert!(error.contains("eclusa-output-backend-taken"), "{error}");
    run.remove().await;
}
