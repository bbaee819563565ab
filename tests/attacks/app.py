# SPDX-License-Identifier: MIT
"""Ordinary programs for tests/attacks.t: servers of all kinds on one port each, and a client that notices every pause.

app.py server ADDRESS PORT [source-octets]	the first octet of a connection says what it wants: s sink, e echo, g get
app.py pulse ADDRESS PORT			small questions and answers until its input ends, then what it saw
app.py hold ADDRESS PORT N			opens N connections, says how many answered, keeps them until its input ends
"""
import errno
import hashlib
import select
import socket
import sys
import threading
import time


def one(s, n):
    got, h, how, kind = 0, hashlib.sha256(), "fin", b"?"
    try:
        kind = s.recv(1)
        if kind == b"g":
            s.sendall(b"\xa5" * n)
        while x := s.recv(65536):
            got += len(x)
            h.update(x)
            if kind == b"e":
                s.sendall(x)
    except OSError as e:
        how = errno.errorcode[e.errno]
    print("connection", kind.decode("ascii", "replace"), got, h.hexdigest()[:16], how, flush=True)
    s.close()


def server(addr, port, n="0"):
    s = socket.create_server((addr, int(port)), backlog=512)
    while True:
        c, _ = s.accept()
        threading.Thread(target=one, args=(c, int(n)), daemon=True).start()


def ask(s, what):
    s.sendall(what)
    got = b""
    while len(got) < len(what):
        x = s.recv(len(what) - len(got))
        if not x:
            raise OSError(errno.EPIPE, "EOF")
        got += x
    assert got == what


def pulse(addr, port):
    s = socket.create_connection((addr, int(port)), timeout=60)
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    s.sendall(b"e")
    n, worst = 0, 0.0
    print("up", flush=True)
    while not select.select([sys.stdin], [], [], 0)[0]:
        t = time.monotonic()
        ask(s, b"%08d" % (n % 10 ** 8) * 16)
        worst = max(worst, time.monotonic() - t)
        n += 1
    s.close()
    print("pulse", n, int(worst * 1000), flush=True)


def hold(addr, port, n):
    kept, failed = [], 0
    for _ in range(int(n)):
        try:
            s = socket.create_connection((addr, int(port)), timeout=60)
            s.sendall(b"e")
            ask(s, b"are you there?")
            kept.append(s)
        except OSError as e:
            print("failed", e, flush=True)
            failed += 1
    print("held", len(kept), "failed", failed, flush=True)
    sys.stdin.read()
    for s in kept:
        ask(s, b"still?")
    print("all still there", flush=True)


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
