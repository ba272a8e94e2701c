"""The far sides of the demo. `origin DIR`: DNS on 53, HTTP on 80 and TLS on 443. `listen PORT`: a
port that should stay unreached. Each prints one line for all that arrives."""

import http.server
import socket
import socketserver
import ssl
import sys
import threading

ZONE = ("allowed.demo.example", "denied.demo.example")


def say(*words):
    """One line in one write: threads that print would mix theirs."""
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


class Dns(socketserver.BaseRequestHandler):
    """A for the two names of the zone, an empty answer for their other types, else NXDOMAIN."""

    def handle(self):
        query, reply = self.request
        labels, at = [], 12
        while query[at]:
            labels.append(query[at + 1 : at + 1 + query[at]].decode("latin-1"))
            at += 1 + query[at]
        name = ".".join(labels).lower()
        say("dns", name)
        question = query[12 : at + 5]
        known, wants_a = name in ZONE, question[-4:-2] == b"\0\1"
        answer = b""
        if known and wants_a:
            own = socket.inet_aton(ADDRESS)
            answer = b"\xc0\x0c\0\1\0\1\0\0\0\x3c\0\4" + own
        counts = b"\0\1" + (b"\0\1" if answer else b"\0\0") + b"\0\0\0\0"
        flags = b"\x85\x80" if known else b"\x85\x83"
        reply.sendto(query[:2] + flags + counts + question + answer, self.client_address)


class Http(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = b"hello from the origin\n"
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, _format, *_args):
        say("http", self.headers.get("Host"), self.path)


ADDRESS = "10.199.242.53"


def origin(folder):
    tls = http.server.ThreadingHTTPServer(("", 443), Http)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(f"{folder}/origin.pem", f"{folder}/origin.key")
    tls.socket = context.wrap_socket(tls.socket, server_side=True)
    servers = [tls, http.server.ThreadingHTTPServer(("", 80), Http)]
    servers.append(socketserver.ThreadingUDPServer(("", 53), Dns))
    for server in servers:
        threading.Thread(target=server.serve_forever).start()
    say("ready")


def listen(port):
    server = socket.create_server(("::", int(port)), family=socket.AF_INET6, dualstack_ipv6=True)
    say("ready", server.getsockname()[1])
    while True:
        connection, peer = server.accept()
        say("reached by", peer[0])
        connection.close()


{"origin": origin, "listen": listen}[sys.argv[1]](*sys.argv[2:])
