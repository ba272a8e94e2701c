"""Two stages for the same play: containers on Docker networks, or network namespaces. Each has the
roles proxy, agent, neighbour (beside the agent), other (on a network of its own), origin (behind
the proxy) and host (the machine itself), and gives `run`, `heard`, `audit` and `host_addresses`."""

import io
import json
import os
import pathlib
import shutil
import subprocess
import tarfile
import tempfile
import time

PROXY, OTHER_SIDE = "10.199.240.2", "10.199.241.2"
AGENT, NEIGHBOUR, OTHER, ORIGIN = "10.199.240.10", "10.199.240.11", "10.199.241.10", "10.199.242.53"
PORT = "18765"
HERE = pathlib.Path(__file__).resolve().parent
PROXY_VARIABLES = {
    name: f"http://{PROXY}:3128"
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY")
}


def call(*argv, check=True, **options):
    done = subprocess.run(
        [str(word) for word in argv],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        **options,
    )
    text = done.stdout.decode(errors="replace")
    if check and done.returncode:
        raise SystemExit(f"demo: {' '.join(map(str, argv))}: exit {done.returncode}\n{text}")
    return done.returncode, text


def wait_for(what, ready):
    for _ in range(150):
        if ready():
            return
        time.sleep(0.1)
    raise SystemExit(f"demo: {what} did not happen within 15 s")


def certificates(folder):
    """A CA of this demo alone, and the origin's certificate by it."""
    san = folder / "san"
    san.write_text("subjectAltName=DNS:allowed.demo.example,DNS:denied.demo.example\n")
    new = ["openssl", "req", "-newkey", "rsa:2048", "-nodes"]
    call(*new, "-x509", "-days", 1, "-subj", "/CN=demo CA", "-keyout", folder / "ca.key",
         "-out", folder / "ca.pem")  # fmt: skip
    call(*new, "-subj", "/CN=demo origin", "-keyout", folder / "origin.key",
         "-out", folder / "origin.csr")  # fmt: skip
    call("openssl", "x509", "-req", "-days", 1, "-in", folder / "origin.csr", "-extfile", san,
         "-CA", folder / "ca.pem", "-CAkey", folder / "ca.key", "-CAcreateserial",
         "-out", folder / "origin.pem")  # fmt: skip


class Stage:
    is_up = False

    def __init__(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="eclusa-demo."))
        self.folder.chmod(0o755)
        certificates(self.folder)
        shutil.copy(HERE / "peer.py", self.folder)

    def __enter__(self):
        try:
            self.down()  # what an earlier demo left behind when it was killed
            self.up()
            self.is_up = True
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        self.down()
        shutil.rmtree(self.folder)

    def wait_until_ready(self):
        for role in ("origin", "neighbour", "other", "host"):
            wait_for(f"the start of {role}", lambda: "ready" in self.heard(role))

    def host_addresses(self):
        """Every address of the host that an agent could try, link-local ones with their scope."""
        _, text = self.run("host", "ip", "-j", "address", "show", "up")
        found = [a for link in json.loads(text) for a in link.get("addr_info", [])]
        return [
            a["local"] + ("%eth0" if a["scope"] == "link" and a["family"] == "inet6" else "")
            for a in found
            if a["scope"] != "host"
        ]


class Docker(Stage):
    """`eclusa up` starts the proxy, and the agent is one `eclusa run` a row."""

    name = "Docker"
    label = "eclusa.demo=stage"
    neighbour_is_reached = False  # each run has a network of its own

    def up(self):
        self.neighbour_run = None
        self.had_audit_log = call("docker", "volume", "inspect", "eclusa-audit", check=False)[0] == 0
        for kind, name in (("container", "eclusa-proxy"), ("network", "egress-uplink")):
            if call("docker", kind, "inspect", name, check=False)[0] == 0:
                raise SystemExit(f"demo: there is a {kind} {name} already; remove it with `eclusa down`")
        shutil.copy(HERE / "eclusa.toml", self.folder)
        for target in ("agent", "origin"):
            call("docker", "build", "--quiet", "--label", self.label, "--target", target,
                 "--tag", f"eclusa-demo-{target}", "--file", HERE / "Dockerfile", self.folder,
                 env={**os.environ, "DOCKER_BUILDKIT": "0"})  # fmt: skip
        network = ["docker", "network", "create", "--label", self.label, "--subnet"]
        call(*network, "10.199.242.0/24", "egress-uplink")
        call(*network, "10.199.241.0/24", "--internal", "eclusa-demo-other")
        peer = ["python3", "-u", "/demo/peer.py"]
        self.start("origin", "origin", ["egress-uplink", "--ip", ORIGIN], *peer, "origin", "/demo")
        self.start("host", "agent", ["host"], *peer, "listen", 0)
        self.start("other", "agent", ["eclusa-demo-other", "--ip", OTHER], *peer, "listen", PORT)
        self.eclusa("up")
        self.start_neighbour(peer)
        self.wait_until_ready()

    def start(self, role, image, network, *command):
        call("docker", "run", "--detach", "--init", "--name", f"eclusa-demo-{role}", "--label",
             self.label, "--network", *network, f"eclusa-demo-{image}", *command)  # fmt: skip

    def eclusa(self, *argv, check=True):
        environment = {
            **os.environ,
            "ECLUSA_CONFIG": str(self.folder / "eclusa.toml"),
            "XDG_STATE_HOME": str(self.folder / "state"),
        }
        return call(os.environ["ECLUSA_BINARY"], *argv, check=check, env=environment)

    def run_arguments(self, *argv):
        return ("run", "--profile", "default", "--env", "CURL_CA_BUNDLE=/demo/ca.pem",
                "eclusa-demo-agent", "--", *argv)  # fmt: skip

    def start_neighbour(self, peer):
        """Another run beside the agent's, for as long as the demo plays."""
        log = open(self.folder / "neighbour.log", "wb")
        argv = [os.environ["ECLUSA_BINARY"], *self.run_arguments(*peer, "listen", PORT)]
        argv[2:2] = ["--timeout", "10m"]
        self.neighbour_run = subprocess.Popen(
            [str(word) for word in argv], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            env={**os.environ, "ECLUSA_CONFIG": str(self.folder / "eclusa.toml"),
                 "XDG_STATE_HOME": str(self.folder / "state")})  # fmt: skip
        wait_for("the neighbour's start", lambda: "ready" in self.heard("neighbour"))
        runs = call("docker", "exec", "eclusa-proxy", "/eclusa", "admin", "GET", "/v1/runs")[1]
        self.neighbour = json.loads(runs)[0]["sources"][0]

    def run(self, role, *argv):
        if role == "agent":
            return self.eclusa(*self.run_arguments(*argv), check=False)
        return call("docker", "exec", f"eclusa-demo-{role}", *argv, check=False)

    def heard(self, role):
        if role == "neighbour":
            return (self.folder / "neighbour.log").read_text()
        return call("docker", "logs", f"eclusa-demo-{role}", check=False)[1]

    def audit(self):
        argv = ["docker", "cp", "eclusa-proxy:/var/log/eclusa/audit.jsonl", "-"]
        archive = subprocess.run(argv, check=True, stdout=subprocess.PIPE).stdout
        return tarfile.open(fileobj=io.BytesIO(archive)).extractfile("audit.jsonl").read().decode()

    def down(self):
        if self.is_up:
            if self.neighbour_run:
                self.neighbour_run.terminate()
                self.neighbour_run.wait()
            self.eclusa("down")
            if not self.had_audit_log:
                call("docker", "volume", "rm", "eclusa-audit", check=False)
        ours = ["--quiet", "--filter", f"label={self.label}"]
        for ids, remove in (
            (call("docker", "ps", "--all", *ours)[1], ["rm", "--force", "--volumes"]),
            (call("docker", "network", "ls", *ours)[1], ["network", "rm"]),
        ):
            if ids.split():
                call("docker", *remove, *ids.split())
        call("docker", "image", "prune", "--all", "--force", "--filter", f"label={self.label}")


class Namespaces(Stage):
    """The proxy beside agents on one network, as a sidecar."""

    name = "network namespaces"
    neighbour = NEIGHBOUR
    neighbour_is_reached = True  # a shared bridge; see README
    prefix = "eclusa-demo-"
    # Role, its networks and addresses. The host owns the bridges, with an address on the uplink.
    roles = {
        "origin": [("uplink", ORIGIN)],
        "proxy": [("uplink", "10.199.242.2"), ("egress", PROXY), ("other", OTHER_SIDE)],
        "agent": [("egress", AGENT)],
        "neighbour": [("egress", NEIGHBOUR)],
        "other": [("other", OTHER)],
    }

    def up(self):
        self.running, self.files = [], []
        for role in ("host", *self.roles):
            call("ip", "netns", "add", self.prefix + role)
            self.ip(role, "link", "set", "lo", "up")
        for bridge in ("egress", "other", "uplink"):
            self.ip("host", "link", "add", bridge, "type", "bridge")
            self.ip("host", "link", "set", bridge, "up")
        self.ip("host", "address", "add", "10.199.242.1/24", "dev", "uplink")
        self.ip("host", "link", "add", "lan", "type", "bridge")
        self.ip("host", "address", "add", "192.0.2.77/24", "dev", "lan")
        self.ip("host", "link", "set", "lan", "up")
        for role in ("agent", "neighbour", "other"):
            self.sysctl(role, "net.ipv6.conf.all.disable_ipv6=1")
        for role, links in self.roles.items():
            self.attach(role, links)
        self.ip("proxy", "route", "add", "default", "via", "10.199.242.1")
        peer = ["python3", "-u", self.folder / "peer.py"]
        self.start("origin", *peer, "origin", self.folder)
        self.start("host", *peer, "listen", 0)
        self.start("neighbour", *peer, "listen", PORT)
        self.start("other", *peer, "listen", PORT)
        self.wait_until_ready()
        self.start_proxy()
        etc = pathlib.Path("/etc/netns", self.prefix + "agent")
        etc.mkdir(parents=True, exist_ok=True)  # `ip netns exec` binds it over /etc/resolv.conf
        (etc / "resolv.conf").write_text(f"nameserver {PROXY}\n")

    def ip(self, role, *argv):
        call("ip", "-n", self.prefix + role, *argv)

    def sysctl(self, role, setting):
        call("ip", "netns", "exec", self.prefix + role, "sysctl", "-q", "-w", setting)

    def attach(self, role, links):
        for number, (bridge, address) in enumerate(links):
            port = f"{role}{number}"
            self.ip("host", "link", "add", port, "type", "veth", "peer", "name", f"eth{number}",
                    "netns", self.prefix + role)  # fmt: skip
            self.ip("host", "link", "set", port, "master", bridge, "up")
            self.ip(role, "address", "add", f"{address}/24", "dev", f"eth{number}")
            self.ip(role, "link", "set", f"eth{number}", "up")

    def command(self, role, argv, user=None):
        drop = [] if user is None else [
            "setpriv", "--reuid", user, "--regid", user, "--clear-groups", "--no-new-privs",
            "--inh-caps=-all", "--bounding-set=-all"]  # fmt: skip
        return [str(word) for word in ("ip", "netns", "exec", self.prefix + role, *drop, *argv)]

    def start(self, role, *argv, user=None):
        log = open(self.folder / f"{role}.log", "wb")
        process = subprocess.Popen(self.command(role, argv, user), stdin=subprocess.DEVNULL,
                                   stdout=log, stderr=subprocess.STDOUT)  # fmt: skip
        self.running.append(process)

    def start_proxy(self):
        own = self.folder / "proxy"
        own.mkdir()
        shutil.copy(os.environ["ECLUSA_BINARY"], own / "eclusa")
        text = (HERE / "eclusa.toml").read_text()
        for standard in ("/var/log/eclusa", "/run/eclusa"):
            text = text.replace(standard, str(own))
        (own / "eclusa.toml").write_text(text)
        shutil.chown(own, 65532, 65532)
        for setting in ("ipv4.ip_forward=0", "ipv6.conf.all.forwarding=0",
                        "ipv4.ip_unprivileged_port_start=0"):  # fmt: skip
            self.sysctl("proxy", f"net.{setting}")
        self.start("proxy", own / "eclusa", "serve", "-c", own / "eclusa.toml", user=65532)
        health = self.command("proxy", [own / "eclusa", "health", "--admin", own / "admin.sock"], 65532)
        wait_for("a healthy proxy", lambda: call(*health, check=False)[0] == 0)

    def run(self, role, *argv):
        if role != "agent":
            return call(*self.command(role, argv), check=False)
        names = {**PROXY_VARIABLES, "CURL_CA_BUNDLE": self.folder / "ca.pem"}
        env = ["env", *(f"{name}={value}" for name, value in names.items())]
        return call(*self.command("agent", [*env, *argv], 65534), check=False)

    def heard(self, role):
        return (self.folder / f"{role}.log").read_text()

    def audit(self):
        return (self.folder / "proxy" / "audit.jsonl").read_text()

    def down(self):
        for process in getattr(self, "running", []):
            process.kill()
            process.wait()
        shutil.rmtree(f"/etc/netns/{self.prefix}agent", ignore_errors=True)
        listed = call("ip", "netns", "list")[1].split()
        for namespace in (word for word in listed if word.startswith(self.prefix)):
            pids = call("ip", "netns", "pids", namespace)[1].split()
            for pid in pids:
                call("kill", "-9", pid, check=False)
            call("ip", "netns", "delete", namespace)
