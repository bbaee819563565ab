# SPDX-License-Identifier: MIT
"""Small unmodified network programs for tests/apps.t: net.py COMMAND HOST PORT [argument ...]. They say what was wrong and exit 1."""
import asyncio
import hashlib
import http.server
import os
import socket
import subprocess
import sys
import threading
import time


def value(i):
    """The value of key number i: 1 to 3000 octets that only this key has."""
    block = hashlib.sha256(b"value %d" % i).digest().hex().encode()
    return (block * 50)[: 1 + i * 37 % 3000]


def connect(host, port):
    s = socket.create_connection((host, port), timeout=180)
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return s


def redis_keys(host, port, count="10000"):
    """Write keys and read them back, 100 at a time in a pipeline."""
    s = connect(host, port)
    f = s.makefile("rb")
    n = int(count)
    for start in range(0, n, 100):
        out = b""
        for i in range(start, start + 100):
            k, v = b"key:%d" % i, value(i)
            out += b"*3\r\n$3\r\nSET\r\n$%d\r\n%s\r\n$%d\r\n%s\r\n" % (len(k), k, len(v), v)
        s.sendall(out)
        for _ in range(100):
            assert f.readline() == b"+OK\r\n"
    for start in range(0, n, 100):
        s.sendall(b"".join(b"GET key:%d\r\n" % i for i in range(start, start + 100)))
        for i in range(start, start + 100):
            want = value(i)
            head = f.readline()
            assert head == b"$%d\r\n" % len(want), (i, head)
            got = f.read(len(want) + 2)
            assert got == want + b"\r\n", i
    print(n, "keys written and read back")


def memcached_keys(host, port, count="4000", threads="8"):
    """Several connections, each writes its keys and reads those of its neighbour."""
    errors = []
    barrier = threading.Barrier(int(threads))

    def work(me):
        try:
            s = connect(host, port)
            f = s.makefile("rb")
            per = int(count) // int(threads)
            for i in range(me * per, (me + 1) * per):
                v = value(i)
                s.sendall(b"set k%d 0 0 %d\r\n%s\r\n" % (i, len(v), v))
                assert f.readline() == b"STORED\r\n", i
            barrier.wait(300)
            other = (me + 1) % int(threads)
            for i in range(other * per, (other + 1) * per):
                s.sendall(b"get k%d\r\n" % i)
                want = value(i)
                assert f.readline() == b"VALUE k%d 0 %d\r\n" % (i, len(want)), i
                assert f.read(len(want)) == want, i
                assert f.readline() == b"\r\n" and f.readline() == b"END\r\n"
        except Exception as e:  # pylint: disable=broad-except
            errors.append(repr(e))
            barrier.abort()

    ts = [threading.Thread(target=work, args=(i,)) for i in range(int(threads))]
    for t in ts:
        t.start()
    for t in ts:
        t.join()
    if errors:
        sys.exit("; ".join(errors))
    print(count, "keys over", threads, "connections")


def http_load(host, port, path, size, count, per="100", stop=None):
    """
    count requests, per of them on a connection; with stop: until that file exists. A server may end a connection between two requests:
    then the next one goes out once more, on another.
    """
    done = conns = again = 0
    s, used = None, 0
    while done < int(count) or (stop and not os.path.exists(stop)):
        if not s:
            s, used = connect(host, port), 0
            conns += 1
        last = used + 1 == int(per)
        try:
            s.sendall(b"GET %s HTTP/1.1\r\nHost: x\r\n%s\r\n" % (path.encode(), b"Connection: close\r\n" * last))
            data = s.recv(65536)
        except (BrokenPipeError, ConnectionResetError):
            data = b""
        if not data:
            assert used, (done, "no answer to the first request of a connection")
            s.close()
            s, again = None, again + 1
            continue
        while b"\r\n\r\n" not in data or len(data.partition(b"\r\n\r\n")[2]) < int(size):
            b = s.recv(65536)
            assert b, (done, used, len(data), "the answer is cut")
            data += b
        head, _, body = data.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200"), (done, head[:40], len(data))
        assert len(body) == int(size), (done, used, len(body))
        done, used = done + 1, used + 1
        if last:
            assert s.recv(1) == b"", (done, "more than the answer")
        if last or b"\r\nConnection: close" in head:
            s.close()
            s = None
    if s:
        s.close()
    print(done, "requests", conns, "connections", again, "again")


def http_server(host, port):
    """Answers GET /N with N octets, any number of times on a connection; a thread per connection."""

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self):  # pylint: disable=invalid-name
            body = value(0)[:1] * int(self.path[1:])
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args):  # pylint: disable=arguments-differ
            pass

    http.server.ThreadingHTTPServer((host, int(port)), Handler).serve_forever()


async def echo_one(host, port, me, rounds, local, more):
    """At least so many rounds, and for as long as there is a file of that name."""
    r, w = await asyncio.open_connection(host, port, local_addr=local)
    i = 0
    while i < rounds or (more and os.path.exists(more)):
        msg = (b"connection %d round %d " % (me, i)) * (1 + (me * 7 + i * 13) % 60)
        w.write(msg)
        await w.drain()
        got = await r.readexactly(len(msg))
        assert got == msg
        i += 1
    w.write_eof()
    assert await r.read() == b""
    w.close()
    await w.wait_closed()


async def echo_all(host, port, conns, rounds, local=None, more=None):
    await asyncio.wait_for(asyncio.gather(*(echo_one(host, port, i, int(rounds), local, more) for i in range(int(conns)))), 600)
    print(conns, "connections,", rounds, "rounds each")


async def echo_start(host, port):
    async def serve(r, w):
        while True:
            b = await r.read(4096)
            if not b:
                break
            w.write(b)
            await w.drain()
        w.close()

    return await asyncio.start_server(serve, host, int(port), backlog=256)


def echo_client(host, port, conns="200", rounds="50", more=None):
    asyncio.run(echo_all(host, port, conns, rounds, more=more))


def echo_server(host, port):
    async def main():
        async with await echo_start(host, port) as server:
            await server.serve_forever()

    asyncio.run(main())


def self(host, port, source, conns="10", rounds="500"):
    """Server and clients in one event loop."""

    async def main():
        async with await echo_start(host, port):
            await echo_all(host, port, conns, rounds, (source, 0))

    asyncio.run(main())


def smtp_server(host, port):
    """Speaks first; a thread per connection."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    l = socket.socket(family, socket.SOCK_STREAM)
    l.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if family == socket.AF_INET6:
        l.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    l.bind((host, int(port)))
    l.listen(50)

    def serve(s):
        with s:
            f = s.makefile("rb")
            s.sendall(b"220 ready\r\n")
            digest = None
            while True:
                line = f.readline()
                if not line or line == b"QUIT\r\n":
                    break
                if line == b"DATA\r\n":
                    s.sendall(b"354 go on\r\n")
                    digest = hashlib.sha256()
                    while True:
                        line = f.readline()
                        if line == b".\r\n":
                            break
                        digest.update(line)
                    s.sendall(b"250 " + digest.hexdigest().encode() + b"\r\n")
                else:
                    s.sendall(b"250 ok\r\n")
            s.sendall(b"221 bye\r\n")

    while True:
        s, _ = l.accept()
        threading.Thread(target=serve, args=(s,), daemon=True).start()


def smtp_client(host, port, conns, mails="1", more=None):
    """So many mails on each connection; with more: and as long as that file exists."""
    done = 0
    for n in range(int(conns)):
        s = connect(host, port)
        f = s.makefile("rb")
        m = 0
        assert f.readline() == b"220 ready\r\n"
        while m < int(mails) or (more and os.path.exists(more)):
            s.sendall(b"HELO me\r\n")
            assert f.readline() == b"250 ok\r\n"
            s.sendall(b"DATA\r\n")
            assert f.readline() == b"354 go on\r\n"
            body = b"".join(b"line %d of mail %d.%d\r\n" % (i, n, m) for i in range(500))
            s.sendall(body)
            s.sendall(b".\r\n")
            assert f.readline() == b"250 " + hashlib.sha256(body).hexdigest().encode() + b"\r\n"
            m += 1
        done += m
        s.sendall(b"QUIT\r\n")
        assert f.readline() == b"221 bye\r\n"
        assert f.read() == b""
        s.close()
    print(done, "mails")


PATTERN = b"".join(hashlib.sha256(b"%d" % i).digest() for i in range(8192))  # 256 KiB


def pong_one(s, first):
    """The server's half of one connection: read to the end, send it all back; first: say hello before anything."""
    with s:
        if first:
            s.sendall(b"hello\n")
        data = b""
        while True:
            b = s.recv(65536)
            if not b:
                break
            data += b
        s.sendall(data)


def pong_server(host, port, first="0"):
    l = socket.create_server((host, int(port)), family=socket.AF_INET6 if ":" in host else socket.AF_INET, backlog=50)
    while True:
        s, _ = l.accept()
        threading.Thread(target=pong_one, args=(s, int(first)), daemon=True).start()


def pong_client(host, port, first="0", hold=""):
    """Prints "ok MS": all octets came back, and the milliseconds from connect to the end. hold: wait on this FIFO before the end."""
    t = time.monotonic()
    s = socket.create_connection((host, int(port)), timeout=60)
    if int(first):
        got = b""
        while len(got) < 6:
            b = s.recv(6 - len(got))
            assert b, "end of stream before hello"
            got += b
        assert got == b"hello\n", got
    s.sendall(PATTERN)
    if hold:
        with open(hold, encoding="ascii") as f:
            f.read()
    s.shutdown(socket.SHUT_WR)
    data = b""
    while True:
        b = s.recv(65536)
        if not b:
            break
        data += b
    assert data == PATTERN, len(data)
    s.close()
    print("ok", int((time.monotonic() - t) * 1000))


def inherited(host, port, fifo, first="0"):
    """
    Listens, but another process that does not load the library is to accept on the inherited socket. Orders come by the FIFO, a line
    each: "close" closes our listener, "go" lets the other process accept one connection.
    """
    l = socket.create_server((host, int(port)), backlog=50)
    env = {k: v for k, v in os.environ.items() if k not in ("LD_PRELOAD", "IWSOCK_RUNDIR")}
    code = "import socket, sys; sys.path.insert(0, %r); import net; sys.stdin.readline(); l = socket.socket(fileno=%d); net.pong_one(l.accept()[0], %d)"
    child = subprocess.Popen(
        [sys.executable, "-c", code % (os.path.dirname(os.path.abspath(__file__)), l.fileno(), int(first))],
        pass_fds=[l.fileno()],
        env=env,
        stdin=subprocess.PIPE,
    )
    with open(fifo, encoding="ascii") as f:
        for line in f:
            if line == "close\n":
                l.close()
            elif line == "go\n":
                child.stdin.write(b"\n")
                child.stdin.flush()
    sys.exit(child.wait())


if __name__ == "__main__":
    globals()[sys.argv[1].replace("-", "_")](sys.argv[2], sys.argv[3], *sys.argv[4:])
