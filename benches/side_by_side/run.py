"""Measures Eclusa beside its peers, and writes what it found: run by scripts/bench.

Every peer is started anew for every measurement, so that none lives on what another work left. In
each round every work is done by every peer before the next work, and the order of the peers turns by
one from round to round.
"""

import argparse
import collections
import os
import pathlib
import resource
import subprocess
import sys

import peers
import report
from work import WORKS, Load


def start_origin(binary, folder):
    ca = folder / "ca.pem"
    process = subprocess.Popen([binary, "origin", f"--ca={ca}", f"--name={peers.CHECKED}",
                                f"--name={peers.OPAQUE}"], stdout=subprocess.PIPE, text=True)
    places = dict(pair.split("=") for pair in process.stdout.readline().split())
    return process, peers.Origin(ca=ca, **places)


class Bench:
    """The peers, and one measurement of each at each work."""

    def __init__(self, eclusa, origin, load):
        self.origin, self.load = origin, load
        own = peers.Eclusa(eclusa)
        self.relays = [own, peers.Squid(), peers.Tinyproxy(), peers.Haproxy()]
        self.names = [peers.EclusaNames(own), peers.Dnsmasq(), peers.Unbound()]

    def rows(self, work):
        """Each row of a work's table and how it is measured."""
        if work.kind == "dns":
            return {peer.name: lambda peer=peer: self.names_of(work, peer) for peer in self.names}
        if work.held:
            return {f"{held:,}": lambda held=held: self.through(work, self.relays[0], peers.OPAQUE, held)
                    for held in work.held}
        rows = {}
        if work.kind != "idle":
            rows["direct"] = lambda: self.load.drive(work, self.origin)
        for peer in self.relays:
            if work.kind == "http" and not peer.asked:
                continue
            # Of TLS, Eclusa reads and judges the ClientHello, unless its rule says that it need not.
            own = isinstance(peer, peers.Eclusa)
            name = peers.CHECKED if own and work.tls else peers.OPAQUE
            rows[peer.name] = lambda peer=peer, name=name: self.through(work, peer, name)
            if own and work.tls:
                rows[f"{peer.name}, opaque"] = lambda peer=peer: self.through(work, peer, peers.OPAQUE)
        return rows

    def through(self, work, peer, name, held=0):
        running = peer.start(self.origin, work.tls)
        try:
            return self.load.drive(work, self.origin, peer, running, name, held)
        finally:
            running.stop()

    def names_of(self, work, peer):
        running = peer.start(self.origin, tls=False)
        try:
            return self.load.ask(work, running)
        finally:
            running.stop()


def measure(bench, rounds, wanted):
    found = collections.defaultdict(lambda: collections.defaultdict(list))
    for turn in range(rounds):
        for work in wanted:
            rows = list(bench.rows(work).items())
            for name, measured in rows[turn % len(rows):] + rows[:turn % len(rows)]:
                figures = measured()
                found[work][name].append(figures)
                errors = f", {figures['errors']:.0f} errors" if figures["errors"] else ""
                kind = f"{work.kind}{' tls' if work.tls else ''}{' beside' if work.held else ''}"
                print(f"round {turn + 1}: {kind}: {name}: "
                      f"{figures['rate']:,.1f} {work.unit}{errors}", file=sys.stderr, flush=True)
    return found


def main():
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--eclusa", type=pathlib.Path, required=True)
    asked.add_argument("--generator", type=pathlib.Path, required=True)
    asked.add_argument("--out", type=pathlib.Path, required=True)
    asked.add_argument("--rounds", type=int, required=True)
    asked.add_argument("--seconds", type=float, required=True)
    asked.add_argument("--only", nargs="*", help="kinds of work, all where none is named")
    asked.add_argument("--inner", type=pathlib.Path, help="what criterion left behind")
    arguments = asked.parse_args()
    wanted = [work for work in WORKS if not arguments.only or work.kind in arguments.only]
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    process, origin = start_origin(arguments.generator, pathlib.Path.cwd())
    try:
        bench = Bench(arguments.eclusa, origin, Load(arguments.generator, arguments.seconds))
        found = measure(bench, arguments.rounds, wanted)
        versions = {peer.name: peer.version() for peer in bench.relays + bench.names}
    finally:
        process.terminate()
        process.wait()
    page = report.page(found, versions, arguments)
    arguments.out.write_text(page)
    print(page)


if __name__ == "__main__":
    os.umask(0o022)
    main()
