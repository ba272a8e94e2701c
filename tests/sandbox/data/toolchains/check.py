"""What Python programs use of a kernel: each line told is a thing that works here."""

import asyncio
import concurrent.futures
import ctypes
import hashlib
import http.server
import mmap
import multiprocessing
import os
import select
import signal
import socket
import sqlite3
import ssl
import subprocess
import sys
import tempfile
import threading
import urllib.request

SELF = [sys.executable, "-c", "print('child')"]


def square(number):
    return number * number


def threads():
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(square, range(100))) == 328350


def subprocesses():
    assert subprocess.check_output(SELF) == b"child\n"
    assert os.waitstatus_to_exitcode(os.waitpid(os.posix_spawn(SELF[0], SELF, {}), 0)[1]) == 0


def processes():
    for method in ("fork", "spawn", "forkserver"):
        context = multiprocessing.get_context(method)
        with context.Pool(2) as pool:
            assert pool.map(square, [1, 2, 3]) == [1, 4, 9], method
    from multiprocessing import shared_memory
    block = shared_memory.SharedMemory(create=True, size=4096)
    block.close()
    block.unlink()


def event_loop():
    async def echo(reader, writer):
        writer.write(await reader.readline())
        await writer.drain()
        writer.close()

    async def main():
        server = await asyncio.start_server(echo, "127.0.0.1", 0)
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        writer.write(b"hello\n")
        assert await reader.read() == b"hello\n"
        child = await asyncio.create_subprocess_exec(*SELF, stdout=subprocess.PIPE)
        assert (await child.communicate())[0] == b"child\n"
        writer.close()
        server.close()

    asyncio.run(main())


def sockets():
    for family, address in ((socket.AF_INET, ("127.0.0.1", 0)), (socket.AF_UNIX, "socket")):
        with socket.socket(family) as server:
            server.bind(address)
            server.listen()
            with socket.socket(family) as client:
                client.connect(server.getsockname())
                accepted, _ = server.accept()
                accepted.sendall(b"hello")
                assert client.recv(5) == b"hello"
                accepted.close()
    os.unlink("socket")
    assert any(name == "lo" for _, name in socket.if_nameindex())
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagrams:
        datagrams.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        datagrams.bind(("127.0.0.1", 0))


def web():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with urllib.request.urlopen(f"http://127.0.0.1:{server.server_port}/") as answer:
        assert answer.status == 200
    server.shutdown()
    assert ssl.create_default_context().verify_mode == ssl.CERT_REQUIRED


def files():
    with tempfile.TemporaryDirectory() as folder, open(f"{folder}/file", "w+b") as file:
        file.write(b"x" * 8192)
        file.flush()
        os.fsync(file.fileno())
        with mmap.mmap(file.fileno(), 8192) as memory:
            assert hashlib.sha256(memory).hexdigest()
        os.posix_fallocate(file.fileno(), 0, 16384)
        os.truncate(file.name, 10)
        os.link(file.name, f"{folder}/link")
        os.rename(f"{folder}/link", f"{folder}/other")
        os.mkfifo(f"{folder}/fifo")
        assert sorted(os.listdir(folder)) == ["fifo", "file", "other"]
    database = sqlite3.connect("check.db")
    database.execute("pragma journal_mode = wal")
    with database:
        database.execute("create table t (n integer)")
        database.executemany("insert into t values (?)", [(n,) for n in range(1000)])
    assert database.execute("select sum(n) from t").fetchone() == (499500,)


def kernel():
    pointer = ctypes.POINTER(ctypes.c_int)
    compare = ctypes.CFUNCTYPE(ctypes.c_int, pointer, pointer)
    numbers = (ctypes.c_int * 3)(3, 1, 2)
    ctypes.CDLL(None).qsort(numbers, 3, 4, compare(lambda a, b: a[0] - b[0]))
    assert list(numbers) == [1, 2, 3]
    with select.epoll() as poll:
        read, write = os.pipe()
        poll.register(read, select.EPOLLIN)
        os.write(write, b"x")
        assert poll.poll(1) == [(read, select.EPOLLIN)]
    caught = []
    signal.signal(signal.SIGALRM, lambda *_: caught.append(True))
    signal.setitimer(signal.ITIMER_REAL, 0.01)
    signal.sigtimedwait([signal.SIGUSR1], 1)
    assert caught
    os.sched_setaffinity(0, os.sched_getaffinity(0))
    assert len(os.getrandom(16)) == 16
    try:
        os.memfd_create("x")
    except OSError:
        pass


if __name__ == "__main__":
    for check in (threads, subprocesses, processes, event_loop, sockets, web, files, kernel):
        check()
        print("python", check.__name__, flush=True)
