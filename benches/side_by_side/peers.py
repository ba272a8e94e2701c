"""What is measured side by side: how each is configured, started and stopped.

Every one writes a line for each connection to a file, as an operator would have it, refuses what is
not meant for it where it can, and is otherwise as its package configures it.
"""

import dataclasses
import itertools
import pathlib
import socket
import subprocess
import tempfile
import time

CHECKED, OPAQUE = "checked.bench", "opaque.bench"
# In a network namespace of our own, where nothing else listens.
PORTS = itertools.count(2000)
# Of every peer: more than any work that it does opens, within the open files of an ordinary machine.
CONNECTIONS = 5000
# Eclusa alone is measured with more.
OWN_CONNECTIONS = 8500
START_SECONDS = 20


@dataclasses.dataclass
class Origin:
    """Where the far side listens."""
    plain: str
    tls: str
    names: str
    ca: pathlib.Path

    def target(self, name, tls):
        return f"{name}:{(self.tls if tls else self.plain).rpartition(':')[2]}"


@dataclasses.dataclass
class Running:
    """A peer that has started: its process, and where it listens."""
    process: subprocess.Popen
    address: str

    def stop(self):
        self.process.terminate()
        try:
            self.process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


class Peer:
    """One program. A subclass says how it is called and configured."""
    name = ""
    version_command = ()
    # A proxy is asked by CONNECT; a relay is not asked, and knows one far side.
    asked = True

    def version(self):
        said = subprocess.run(self.version_command, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, check=False).stdout
        return said.splitlines()[0].strip()

    def start(self, origin, tls):
        """Starts it in a folder of its own, and waits until it accepts."""
        folder = pathlib.Path(tempfile.mkdtemp(dir="."))
        folder.chmod(0o777)
        address = f"127.0.0.1:{next(PORTS)}"
        command = self.configure(folder.resolve(), address, origin, tls)
        with open(folder / "output", "wb") as output:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
        running = Running(process, address)
        try:
            self.wait(running)
        except RuntimeError as error:
            running.stop()
            raise SystemExit(f"bench: {self.name} {error}\n{(folder / 'output').read_text()}")
        return running

    def configure(self, folder, address, origin, tls):
        """Writes what it needs into the folder; the command that starts it, in the foreground."""
        raise NotImplementedError

    def wait(self, running):
        def accepts():
            host, _, port = running.address.rpartition(":")
            try:
                socket.create_connection((host, int(port)), timeout=1).close()
            except OSError:
                return False
            return True
        until(accepts, running.process)


def until(ready, process):
    deadline = time.monotonic() + START_SECONDS
    while not ready():
        if process.poll() is not None:
            raise RuntimeError(f"ended with {process.returncode}")
        if time.monotonic() > deadline:
            raise RuntimeError("does not answer")
        time.sleep(0.02)


class Eclusa(Peer):
    name = "eclusa"

    def __init__(self, binary):
        self.binary = binary
        self.version_command = (binary, "--version")

    def configure(self, folder, address, origin, tls):
        self.dns = f"127.0.0.1:{next(PORTS)}"
        plain, secure = (place.rpartition(":")[2] for place in (origin.plain, origin.tls))
        config = folder / "eclusa.toml"
        config.write_text(f'''
[listen]
proxy = ["{address}"]
dns = ["{self.dns}"]
https = []
http = []
admin = "{folder}/admin.sock"

[resolver]
servers = ["udp://{origin.names}"]

[[profiles.default.rules]]
hosts = ["{CHECKED}"]
ports = [{secure}]
addresses = ["127.0.0.1/32"]

[[profiles.default.rules]]
hosts = ["{OPAQUE}"]
ports = [{plain}, {secure}]
addresses = ["127.0.0.1/32"]
opaque = true

[[clients]]
source = "127.0.0.1/32"
profile = "default"

[audit]
file = "{folder}/audit.jsonl"

[limits]
connections = {OWN_CONNECTIONS}
connections_per_client = {OWN_CONNECTIONS}
requests_per_second = 1000000
dns_queries_per_second = 1000000
''')
        return [self.binary, "serve", "-c", str(config)]


class Squid(Peer):
    name = "squid"
    version_command = ("squid", "-v")

    def configure(self, folder, address, origin, tls):
        config = folder / "squid.conf"
        config.write_text(f'''
http_port {address}
acl bench dstdomain {OPAQUE} {CHECKED}
http_access allow bench
http_access deny all
cache deny all
hosts_file /etc/hosts
access_log daemon:{folder}/access.log
cache_log {folder}/cache.log
pid_filename {folder}/squid.pid
coredump_dir {folder}
shutdown_lifetime 0 seconds
''')
        return ["squid", "-N", "-f", str(config)]


class Tinyproxy(Peer):
    name = "tinyproxy"
    version_command = ("tinyproxy", "-v")

    def configure(self, folder, address, origin, tls):
        host, _, port = address.rpartition(":")
        config = folder / "tinyproxy.conf"
        config.write_text(f'''
User nobody
Listen {host}
Port {port}
MaxClients {CONNECTIONS}
Timeout 600
LogFile "{folder}/tinyproxy.log"
LogLevel Connect
Allow 127.0.0.1
''')
        return ["tinyproxy", "-d", "-c", str(config)]


class Haproxy(Peer):
    """A plain TCP relay by splice(2): neither asked nor judging, the bound for any proxy."""
    name = "haproxy"
    version_command = ("haproxy", "-v")
    asked = False

    def configure(self, folder, address, origin, tls):
        config = folder / "haproxy.cfg"
        config.write_text(f'''
global
  maxconn {CONNECTIONS}
  log stdout format raw local0
defaults
  mode tcp
  log global
  option tcplog
  option splice-auto
  timeout connect 10s
  timeout client 10m
  timeout server 10m
listen relay
  bind {address}
  server origin {origin.tls if tls else origin.plain}
''')
        return ["haproxy", "-db", "-f", str(config)]


class NameServer(Peer):
    """One that answers the two names from its configuration, and no other."""

    def wait(self, running):
        # The query `checked.bench A`, in its shortest form.
        query = b"\0\1\1\0\0\1\0\0\0\0\0\0\7checked\5bench\0\0\1\0\1"
        host, _, port = running.address.rpartition(":")

        def answers():
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
                asking.settimeout(0.2)
                try:
                    asking.connect((host, int(port)))
                    asking.send(query)
                    return len(asking.recv(512)) > len(query)
                except OSError:
                    return False
        until(answers, running.process)


class EclusaNames(NameServer):
    """Eclusa again, asked for names."""
    name = Eclusa.name

    def __init__(self, proxy):
        self.proxy = proxy

    def version(self):
        return self.proxy.version()

    def configure(self, folder, address, origin, tls):
        command = self.proxy.configure(folder, address, origin, tls)
        self.dns = self.proxy.dns
        return command

    def wait(self, running):
        running.address = self.dns
        super().wait(running)


class Dnsmasq(NameServer):
    name = "dnsmasq"
    version_command = ("dnsmasq", "--version")

    def configure(self, folder, address, origin, tls):
        host, _, port = address.rpartition(":")
        return ["dnsmasq", "--keep-in-foreground", "--conf-file=/dev/null", "--no-resolv", "--no-hosts",
                "--bind-interfaces", f"--listen-address={host}", f"--port={port}", "--user=nobody",
                f"--pid-file={folder}/pid", "--local=/bench/", "--local-ttl=30",
                f"--host-record={CHECKED},127.0.0.1", f"--host-record={OPAQUE},127.0.0.1"]


class Unbound(NameServer):
    name = "unbound"
    version_command = ("unbound", "-V")

    def configure(self, folder, address, origin, tls):
        host, _, port = address.rpartition(":")
        config = folder / "unbound.conf"
        config.write_text(f'''
server:
  interface: {host}@{port}
  port: {port}
  do-daemonize: no
  username: ""
  chroot: ""
  directory: "{folder}"
  pidfile: ""
  use-syslog: no
  do-not-query-localhost: no
  local-zone: "bench." static
  local-data: "{CHECKED}. 30 A 127.0.0.1"
  local-data: "{OPAQUE}. 30 A 127.0.0.1"
remote-control:
  control-enable: no
''')
        return ["unbound", "-d", "-c", str(config)]
