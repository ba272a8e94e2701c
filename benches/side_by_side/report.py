"""The page: medians, ratios, the machine and the method."""

import json
import os
import pathlib
import platform
import statistics
import subprocess

from work import WORKS


def page(found, versions, arguments):
    parts = [HEAD, machine(versions, arguments)]
    for work in WORKS:
        if work in found:
            parts.append(table(work, found[work]))
    if arguments.inner:
        parts.append(inner(arguments.inner))
    parts.append(METHOD.format(rounds=arguments.rounds, seconds=arguments.seconds))
    return "\n".join(parts)


def machine(versions, arguments):
    model = next((line.partition(": ")[2] for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines()
                  if line.startswith("model name")), platform.machine())
    system = platform.freedesktop_os_release()["PRETTY_NAME"]
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    revision = subprocess.run(["git", "-C", pathlib.Path(__file__).parent, "describe", "--always", "--dirty"],
                              stdout=subprocess.PIPE, text=True, check=False).stdout.strip()
    lines = [
        "| measured on | |", "| --- | --- |",
        f"| processor | {os.cpu_count()} cores, {model} |",
        f"| memory | {memory:.0f} GiB |",
        f"| system | {system}, Linux {platform.release()} |",
        f"| eclusa | revision {revision} |",
    ]
    lines += [f"| {name} | {version} |" for name, version in versions.items() if name != "eclusa"]
    lines.append(f"| rounds | {arguments.rounds}, of {arguments.seconds:g} s a measurement |")
    return "\n".join(lines) + "\n"


def median(measured, key):
    values = [one[key] for one in measured if key in one]
    return statistics.median(values) if values else None


def table(work, rows):
    cost = "CPU s a GiB" if work.bytes else "CPU µs each"
    columns = {"open" if work.held else "": lambda name, _: name,
               work.unit: lambda _, measured: spread(measured, "rate")}
    if "eclusa" in rows:
        columns["eclusa ÷ it"] = lambda _, measured: ratio(rows["eclusa"], measured)
    elif work.held:
        fewest = rows[f"{work.held[0]:,}"]
        columns["it ÷ fewest"] = lambda _, measured: ratio(measured, fewest)
        columns["KiB a tunnel"] = lambda _, measured: figure(median(measured, "held_kib"))
    if work.kind == "idle":
        columns["MiB at rest"] = lambda _, measured: figure(median(measured, "rest_mib"))
    else:
        columns[cost] = lambda _, measured: cost_of(work, measured)
    if not work.bytes and work.kind not in ("idle", "dns"):
        for key in ("p50", "p99"):
            columns[f"{key}, µs"] = lambda _, measured, key=key: figure(median(measured, f"{key}_us"))
    columns["errors"] = lambda _, measured: f"{sum(one['errors'] for one in measured):.0f}"
    lines = [f"## {work.title}\n", f"{work.clients:,} {'tunnels' if work.kind == 'idle' else 'clients'}.\n",
             "| " + " | ".join(columns) + " |", "| " + " | ".join("---" for _ in columns) + " |"]
    # What takes turns is not found in the order of the table.
    for name in sorted(rows, key=[*ORDER, *(f"{held:,}" for held in work.held)].index):
        lines.append("| " + " | ".join(column(name, rows[name]) for column in columns.values()) + " |")
    return "\n".join(lines) + "\n"


ORDER = ("direct", "eclusa", "eclusa, opaque", "squid", "tinyproxy", "haproxy", "dnsmasq", "unbound")


def figure(value):
    if value is None:
        return "-"
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def spread(measured, key):
    values = [one[key] for one in measured]
    middle = figure(statistics.median(values))
    return middle if len(values) == 1 else f"{middle} ({figure(min(values))} to {figure(max(values))})"


def ratio(own, other):
    """The median of each round's own ratio: what slows a whole round down is in both."""
    if own is other:
        return "1"
    return f"{statistics.median(a['rate'] / b['rate'] for a, b in zip(own, other)):.2f}"


def cost_of(work, measured):
    micros = median(measured, "cpu_us")
    return figure(micros if micros is None or not work.bytes else micros * 1024 / 1e6)


def inner(folder):
    """The medians of criterion's last run."""
    lines = ["## Inner parts\n", "By criterion, on one core.\n", "| what | median | 95 % within |",
             "| --- | --- | --- |"]
    for estimates in sorted(folder.glob("**/new/estimates.json")):
        name = json.loads((estimates.parent / "benchmark.json").read_text())["full_id"]
        middle = json.loads(estimates.read_text())["median"]
        low, high = (nanoseconds(middle["confidence_interval"][bound])
                     for bound in ("lower_bound", "upper_bound"))
        lines.append(f"| `{name}` | {nanoseconds(middle['point_estimate'])} | {low} to {high} |")
    return "\n".join(lines) + "\n"


def nanoseconds(value):
    for unit, size in (("s", 1e9), ("ms", 1e6), ("µs", 1e3)):
        if value >= size:
            return f"{value / size:.3g} {unit}"
    return f"{value:.3g} ns"


HEAD = """# Benchmarks

Written by `make bench`, which installs the peers from Debian, builds everything and measures it side by
side on one machine. No figure here was entered by hand. Compare within a table: another machine, or
another hour of a shared one, has other figures.
"""

METHOD = """## Method

- **Where.** All in one network namespace, over its loopback: the load, the far side and what is
  measured share the cores. The load and the far side have one thread each. `direct` is the same work
  without anything between, the limit of this machine.
- **How often.** {rounds} rounds. In each, every work is done by every peer before the next work begins, for
  {seconds:g} seconds after a warm-up of a fifth of that; the order of the peers turns by one each
  round. A cell is the median of the rounds, with the lowest and the highest; a ratio is the median of
  each round's own. A peer is started anew for each measurement.
- **Eclusa** is the release binary with a policy of names and addresses, the address check, and its
  audit log on: two records for each tunnel or request, each written before the bytes flow. Names are
  looked up at a name server. Rates and connections of a client are limited, high enough not to be hit.
  Plain work goes to a host whose rule is opaque, as it is no TLS.
- **TLS** is real: rustls at both ends, every handshake a whole one. `eclusa` reads and judges the
  ClientHello before a byte flows, `eclusa, opaque` does not.
- **squid, tinyproxy** refuse other hosts or clients, log each connection to a file, look names up in the
  hosts file, and are otherwise as Debian configures them; squid caches nothing. **haproxy** is no forward
  proxy here but a TCP relay by splice(2) to one far side, with a log: it is not asked for a host and
  judges nothing, which makes it a bound. smokescreen, which does most of what Eclusa does, is not
  packaged by Debian and so is not here.
- **DNS** is asked by dnsperf, with two names and both of their types, and one name that Eclusa refuses
  and the others do not have. Eclusa records every query, the same ones folded; the others log none.
- **CPU** is user and system time from `/proc/PID/stat` of the peer and the processes it started, over
  the time measured, by what was done in it; the kernel accounts it in hundredths of a second.
- **Memory** is `VmRSS` after each of the tunnels was used once, less that before the first; of few
  tunnels it shows what the first ones make for all that follow.
- `make bench BENCH_ROUNDS=1 BENCH_SECONDS=2` is a short try, which leaves this page alone.
"""
