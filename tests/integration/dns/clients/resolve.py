"""What Python's getaddrinfo, which is the C library's, says of each name."""

import socket
import sys

for name in sys.argv[1:]:
    try:
        found = socket.getaddrinfo(name, 443, type=socket.SOCK_STREAM)
        print(name, *(entry[4][0] for entry in found))
    except socket.gaierror as error:
        print(name, "EAI_NONAME" if error.errno == socket.EAI_NONAME else error)
