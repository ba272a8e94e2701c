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

PROXY, OTHER_SIDE = "172.30.240.2", "172.30.241.2"
AGENT, NEIGHBOUR, OTHER, ORIGIN = "172.30.240.10", "172.30.240.11", "172.30.241.10", "172.30.242.53"
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
    def __init__(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="eclusa-demo."))
        self.folder.chmod(0o755)
        certificates(self.folder)
        shutil.copy(HERE / "peer.py", self.folder)

    def __enter__(self):
        try:
            self.down()  # what an earlier demo left behind when it was killed
            self.up()
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
    name = "Docker"
    label = "eclusa.demo=stage"
    networks = {"egress": "172.30.240.0/24", "other": "172.30.241.0/24", "uplink": "172.30.242.0/24"}

    def up(self):
        shutil.copy(HERE / "eclusa.toml", self.folder)
        for target in ("agent", "origin", "proxy"):
            call("docker", "build", "--quiet", "--label", self.label, "--target", target,
                 "--tag", f"eclusa-demo-{target}", "--file", HERE / "Dockerfile", self.folder,
                 env={**os.environ, "DOCKER_BUILDKIT": "0"})  # fmt: skip
        inside = ["--internal", "--opt", "com.docker.network.bridge.inhibit_ipv4=true"]
        for name, subnet in self.networks.items():
            call("docker", "network", "create", "--label", self.label, "--subnet", subnet,
                 *([] if name == "uplink" else inside), f"eclusa-demo-{name}")  # fmt: skip
        peer = ["python3", "-u", "/demo/peer.py"]
        self.start("origin", "uplink", ORIGIN, [], *peer, "origin", "/demo")
        self.start("host", "host", None, [], *peer, "listen", 0)
        self.start("neighbour", "egress", NEIGHBOUR, [], *peer, "listen", PORT)
        self.start("other", "other", OTHER, [], *peer, "listen", PORT)
        self.wait_until_ready()
        self.start_proxy()
        self.start_agent()

    def create(self, role, network, address, options, *command, image="agent"):
        if network != "host":
            network, options = f"eclusa-demo-{network}", [*options, "--ip", address]
        call("docker", "create", "--name", f"eclusa-demo-{role}", "--label", self.label,
             "--network", network, *options, f"eclusa-demo-{image}", *command)  # fmt: skip

    def start(self, role, network, address, options, *command):
        image = "origin" if role == "origin" else "agent"
        self.create(role, network, address, ["--init", *options], *command, image=image)
        call("docker", "start", f"eclusa-demo-{role}")

    hardening = ["--read-only", "--cap-drop", "ALL", "--security-opt", "no-new-privileges:true"]

    def start_proxy(self):
        """As compose.yaml says: the uplink first, then the sides of the agents."""
        options = [*self.hardening, "--tmpfs", "/run/eclusa:size=1m,mode=0700,uid=65532,gid=65532"]
        options += ["--volume", "/var/log/eclusa"]
        for setting in ("ipv4.ip_forward=0", "ipv6.conf.all.forwarding=0",
                        "ipv4.ip_unprivileged_port_start=0"):  # fmt: skip
            options += ["--sysctl", f"net.{setting}"]
        self.create("proxy", "uplink", "172.30.242.2", options, image="proxy")
        for name, address in (("egress", PROXY), ("other", OTHER_SIDE)):
            call("docker", "network", "connect", "--ip", address, f"eclusa-demo-{name}",
                 "eclusa-demo-proxy")  # fmt: skip
        call("docker", "start", "eclusa-demo-proxy")
        wait_for("a healthy proxy\n" + self.heard("proxy"), self.healthy)

    def healthy(self):
        return call("docker", "exec", "eclusa-demo-proxy", "/eclusa", "health", check=False)[0] == 0

    def start_agent(self):
        options = [*self.hardening, "--user", "65534:65534", "--dns", PROXY]
        options += ["--sysctl", "net.ipv6.conf.all.disable_ipv6=1"]
        for variable in PROXY_VARIABLES.items():
            options += ["--env", "=".join(variable)]
        resolv = self.folder / "resolv.conf"
        resolv.write_text(f"nameserver {PROXY}\n")
        bind = ["--mount", f"type=bind,readonly,source={resolv},target=/etc/resolv.conf"]
        argv = ["docker", "create", "--name", "eclusa-demo-agent", "--label", self.label, "--init",
                "--network", "eclusa-demo-egress", "--ip", AGENT, *options]  # fmt: skip
        image = ["eclusa-demo-agent", "sleep", "infinity"]
        code, text = call(*argv, *bind, *image, check=False)
        if code and "bind source path does not exist" in text:
            print("The engine does not see this file system: --dns alone, no own resolv.conf.")
            code, text = call(*argv, *image, check=False)
        if code:
            raise SystemExit(f"demo: {text}")
        call("docker", "start", "eclusa-demo-agent")

    def run(self, role, *argv):
        return call("docker", "exec", f"eclusa-demo-{role}", *argv, check=False)

    def heard(self, role):
        return call("docker", "logs", f"eclusa-demo-{role}", check=False)[1]

    def audit(self):
        argv = ["docker", "cp", "eclusa-demo-proxy:/var/log/eclusa/audit.jsonl", "-"]
        archive = subprocess.run(argv, check=True, stdout=subprocess.PIPE).stdout
        return tarfile.open(fileobj=io.BytesIO(archive)).extractfile("audit.jsonl").read().decode()

    def down(self):
        ours = ["--quiet", "--filter", f"label={self.label}"]
        for ids, remove in (
            (call("docker", "ps", "--all", *ours)[1], ["rm", "--force", "--volumes"]),
            (call("docker", "network", "ls", *ours)[1], ["network", "rm"]),
        ):
            if ids.split():
                call("docker", *remove, *ids.split())
        call("docker", "image", "prune", "--all", "--force", "--filter", f"label={self.label}")


class Namespaces(Stage):
    name = "network namespaces"
    prefix = "eclusa-demo-"
    # Role, its networks and addresses. The host owns the bridges, with an address on the uplink.
    roles = {
        "origin": [("uplink", ORIGIN)],
        "proxy": [("uplink", "172.30.242.2"), ("egress", PROXY), ("other", OTHER_SIDE)],
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
        self.ip("host", "address", "add", "172.30.242.1/24", "dev", "uplink")
        self.ip("host", "link", "add", "lan", "type", "bridge")
        self.ip("host", "address", "add", "192.0.2.77/24", "dev", "lan")
        self.ip("host", "link", "set", "lan", "up")
        for role in ("agent", "neighbour", "other"):
            self.sysctl(role, "net.ipv6.conf.all.disable_ipv6=1")
        for role, links in self.roles.items():
            self.attach(role, links)
        self.ip("proxy", "route", "add", "default", "via", "172.30.242.1")
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
