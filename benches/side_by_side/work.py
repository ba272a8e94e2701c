"""The kinds of work, and one measurement of one peer at one of them."""

import dataclasses
import pathlib
import re
import subprocess

from peers import CHECKED, OPAQUE


@dataclasses.dataclass(frozen=True)
class Work:
    """One table of the report."""
    title: str
    unit: str
    kind: str
    clients: int
    tls: bool = False
    # Whether bytes are counted, not operations.
    bytes: bool = False
    # How many tunnels are open and silent meanwhile: Eclusa alone, once with each.
    held: tuple = ()


WORKS = [
    Work("Tunnels opened: CONNECT, one byte echoed, closed", "tunnels/s", "connect", 32),
    Work("Requests: GET of 13 bytes on connections that stay", "requests/s", "http", 32),
    Work("Round trips: 64 bytes echoed on tunnels that stay", "round trips/s", "pingpong", 32),
    Work("Download through tunnels", "MiB/s", "bulk", 8, bytes=True),
    Work("Upload through tunnels", "MiB/s", "upload", 8, bytes=True),
    Work("TLS opened: CONNECT, a whole handshake, one byte echoed, closed", "tunnels/s", "connect",
         32, tls=True),
    Work("TLS round trips, after the handshake", "round trips/s", "pingpong", 32, tls=True),
    Work("TLS download, after the handshake", "MiB/s", "bulk", 8, tls=True, bytes=True),
    Work("Open tunnels that are silent", "KiB a tunnel", "idle", 4000),
    Work("Tunnels opened beside others that are open and silent", "tunnels/s", "connect", 32,
         held=(10, 100, 1000, 8000)),
    Work("DNS: two names, A and AAAA, and one that is refused", "answers/s", "dns", 32),
]

QUERIES = [(CHECKED, "A"), (OPAQUE, "A"), (CHECKED, "AAAA"), (OPAQUE, "AAAA"), ("refused.bench", "A")]


def keys(line):
    """`key=value` pairs, the values numbers."""
    return {key: float(value) for key, value in re.findall(r"(\w+)=([\d.]+)", line)}


class Load:
    """The generator, and how long it works at a time."""

    def __init__(self, generator, seconds):
        self.generator, self.seconds = generator, seconds

    def said(self, *arguments):
        ended = subprocess.run([self.generator, *arguments], stdout=subprocess.PIPE, text=True, check=False)
        if ended.returncode != 0:
            raise SystemExit(f"bench: the load failed: {' '.join(map(str, arguments))}")
        return keys(ended.stdout)

    def drive(self, work, origin, peer=None, running=None, name=OPAQUE, held=0):
        """What it found of a peer, or of the far side itself where there is none."""
        direct = origin.tls if work.tls else origin.plain
        # Tunnels that are only held need no longer than it takes to settle.
        seconds = 2 if work.kind == "idle" else self.seconds
        arguments = [work.kind, f"--clients={work.clients}", f"--seconds={seconds}",
                     f"--held={held}", f"--address={running.address if running else direct}"]
        if running:
            arguments.append(f"--pid={running.process.pid}")
        if peer and peer.asked:
            arguments.append(f"--target={origin.target(name, work.tls)}")
        if work.tls:
            arguments += [f"--ca={origin.ca}", f"--server-name={name}"]
        return figures(work, self.said("load", *arguments))

    def ask(self, work, running):
        """What dnsperf found of a name server."""
        queries = pathlib.Path("queries")
        queries.write_text("".join(f"{name} {kind}\n" for name, kind in QUERIES))
        host, _, port = running.address.rpartition(":")
        before = self.said("cost", str(running.process.pid))["cpu_s"]
        ended = subprocess.run(["dnsperf", "-s", host, "-p", port, "-d", queries, "-T", "1",
                                "-c", str(work.clients), "-l", str(max(1, round(self.seconds)))],
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        used = self.said("cost", str(running.process.pid))["cpu_s"] - before
        found = dict(re.findall(r"([A-Z][\w ]+\w)(?: \(s\))?: +([\d.]+)", ended.stdout))
        if ended.returncode != 0 or "Queries per second" not in found:
            raise SystemExit(f"bench: dnsperf failed:\n{ended.stdout}")
        return {"rate": float(found["Queries per second"]),
                "cpu_us": used * 1e6 / float(found["Queries completed"]),
                "errors": float(found["Queries lost"])}


def figures(work, said):
    """The rate, the processor time and the errors of one measurement."""
    if work.kind == "idle":
        return {"rate": (said["held_bytes"] - said["rest_bytes"]) / said["tunnels"] / 1024,
                "rest_mib": said["rest_bytes"] / 2**20, "errors": said["errors"]}
    done = said["bytes"] / 2**20 if work.bytes else said["done"]
    if not done:
        raise SystemExit(f"bench: nothing was done in {work.title}")
    found = {"rate": done / said["seconds"], "errors": said["errors"]}
    if "cpu_s" in said:
        found["cpu_us"] = said["cpu_s"] * 1e6 / done
    if not work.bytes:
        found |= {key: said[key] for key in ("p50_us", "p99_us")}
    if "held" in said:
        found["held_kib"] = said["held_bytes"] / said["held"] / 1024
    return found
