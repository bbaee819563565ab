# SPDX-License-Identifier: MIT
"""Ordinary programs for tests/attacks.t: servers of all kinds on one port each, and a client that notices every pause.

app.py server ADDRESS PORT [source-octets]	the first octet of a connection that is no dot says what it wants: s sink,
						e echo, g get
app.py pulse ADDRESS PORT [PAUSE]		small questions and answers until its input ends, with a word every 20, then what it saw
app.py hold ADDRESS PORT N [M]			opens N connections, says how many answered (and of M, when they are accelerated), and
						uses them now and then until its input ends
app.py bulk ADDRESS PORT OCTETS [1]		there and back again; 1: accelerated before
app.py scribble ADDRESS PORT SECONDS		uses a stream and writes all over the memory it shares with the daemon
app.py churn ADDRESS PORT N			N connections one after the other, a question and an answer each
app.py believes ADDRESS PORT			accepts one connection, and asks what it is as long as the other side scribbles
app.py forge ADDRESS PORT SECONDS		connects, writes all over the memory it shares with the server's program, then speaks
app.py believes2, forge2			the same with the parts of client and server exchanged
app.py grab SOCKET N				connects N times to the daemon's control socket and says nothing, until its input ends
app.py deaf ADDRESS PORT N			opens N connections, writes until nobody takes any more, reads nothing, until its input ends
"""
import errno
import hashlib
import os
import random
import select
import socket
import struct
import subprocess
import sys
import threading
import time


def one(s, peer, n):
    got, h, how, kind = 0, hashlib.sha256(), "fin", b"?"
    try:
        while (kind := s.recv(1)) == b".":
            pass
        if kind == b"g":
            with s.dup():       # the daemon pumps, and offers what waits for RDMA Read
                s.sendall(b"\xa5" * n)
        while x := s.recv(65536):
            got += len(x)
            h.update(x)
            if kind == b"e":
                s.sendall(x)
    except OSError as e:
        how = errno.errorcode[e.errno]
    print("connection", peer, kind.decode("ascii", "replace"), got, h.hexdigest()[:16], how, flush=True)
    s.close()


def server(addr, port, n="0"):
    s = socket.create_server((addr, int(port)), backlog=512)
    while True:
        c, a = s.accept()
        threading.Thread(target=one, args=(c, a[1], int(n)), daemon=True).start()


def ask(s, what):
    s.sendall(what)
    got = b""
    while len(got) < len(what):
        x = s.recv(len(what) - len(got))
        if not x:
            raise OSError(errno.EPIPE, "EOF")
        got += x
    assert got == what


class Client:
    """A connection to a server that echoes."""

    def __init__(self, addr, port):
        self.s = socket.create_connection((addr, int(port)), timeout=180)
        self.file = os.fstat(self.s.fileno()).st_ino
        self.here = self.s.getsockname()[0] == self.s.getpeername()[0]
        self.s.sendall(b"e")
        self.sent = 1

    def ask(self, what):
        ask(self.s, what)
        self.sent += len(what)

    def accelerated(self):
        """Another file is behind the number: joined, on one host; with another, MPA, when TCP has sent more than we have."""
        if os.fstat(self.s.fileno()).st_ino == self.file:
            return False
        return self.here or struct.unpack_from("=Q", self.s.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 192), 120)[0] > self.sent + 20


def settled(clients, n):
    """Used until so many of them are accelerated."""
    end = time.monotonic() + 120
    while sum(c.accelerated() for c in clients) < n:
        assert time.monotonic() < end, "not accelerated"
        for c in clients:
            c.ask(b"and now?")
        time.sleep(0.001)


def pulse(addr, port, pause="0"):
    c = Client(addr, port)
    c.s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    n, worst, took = 0, 0.0, []
    print("up", flush=True)
    while not select.select([sys.stdin], [], [], 0)[0]:
        t = time.monotonic()
        c.ask(b"%08d" % (n % 10 ** 8) * 16)
        took.append(time.monotonic() - t)
        worst = max(worst, took[-1])
        n += 1
        if n % 20 == 0:
            print("beat", n, flush=True)
        time.sleep(float(pause))
    c.s.close()
    took.sort()
    print("99 of 100 within", int(took[len(took) * 99 // 100] * 1e6), "us, half within", int(took[len(took) // 2] * 1e6), flush=True)
    print("pulse", n, int(worst * 1000), flush=True)


def hold(addr, port, n, m="0"):
    kept, failed = [], 0
    for _ in range(int(n)):
        try:
            kept.append(Client(addr, port))
            kept[-1].ask(b"are you there?")
        except OSError as e:
            print("failed", e, flush=True)
            failed += 1
    settled(kept, int(m))
    print("held", len(kept), "failed", failed, flush=True)
    while not select.select([sys.stdin], [], [], 0.02)[0]:
        for c in kept:
            c.ask(b"still?")
    for c in kept:
        c.ask(b"and to the end?")
    print("all still there", flush=True)


def bulk(addr, port, octets, accelerated="0"):
    c = Client(addr, port)
    settled([c], int(accelerated))
    s = c.s
    n = int(octets)
    data = bytes(i * 7 & 255 for i in range(65536)) * (n // 65536 + 1)
    sent, got = 0, b""
    while len(got) < n:
        r, w, _ = select.select([s], [s] if sent < n else [], [], 60)
        assert r or w, "nothing moves"
        if w:
            sent += s.send(data[sent:min(n, sent + 32768)])
        if r:
            x = s.recv(1 << 18)
            assert x, "ended early"
            got += x
    assert got == data[:n], "octets differ"
    print("bulk", n, flush=True)


def shared():
    """What is mapped of the daemon's memory."""
    for line in open("/proc/self/maps"):
        f = line.split(None, 5)
        if len(f) == 6 and f[5].startswith("/memfd:iwsock") and "w" in f[1]:
            a, b = (int(x, 16) for x in f[0].split("-"))
            yield a, b - a


def scribbler(addr, port, seconds):
    """Says now and then how much it has written. What it does to itself may end it, or never let it end."""
    clients = [Client(addr, port) for _ in range(4)]
    settled(clients, len(clients))
    for c in clients:
        c.s.setblocking(False)
    areas, mem, end, n = list(shared()), open("/proc/self/mem", "r+b", buffering=0), time.monotonic() + float(seconds), 0
    while time.monotonic() < end:
        for a, size in areas:
            for off in (random.randrange(size), random.randrange(min(size, 4096)), random.randrange(min(size, 512))):
                mem.seek(a + off)
                try:
                    mem.write(random.choice((b"\xff" * 8, b"\0" * 8, random.randbytes(8), b"\x80" + b"\0" * 7))[:size - off])
                    n += 1
                except OSError as e:
                    assert e.errno == errno.EIO, e  # it is gone, as the map of a stream that was reset
        print(n, len(areas), flush=True)
        for c in clients:
            try:
                c.s.send(b"e" * 1000)
                c.s.recv(65536)
            except OSError:
                pass


def scribble(addr, port, seconds):
    """As many scribblers, one after the other, as it takes."""
    end, n, areas, lives = time.monotonic() + float(seconds), 0, 0, 0
    while time.monotonic() < end or not n:
        left, said = max(0.1, end - time.monotonic()), b""
        p = subprocess.Popen([sys.executable, __file__, "scribbler", addr, port, str(left)], stdout=subprocess.PIPE, bufsize=0)
        while select.select([p.stdout], [], [], left + 5 if said else 130)[0]:
            got = os.read(p.stdout.fileno(), 1 << 16)
            if not got:
                break
            said = (said + got)[-100:]
        p.kill()
        p.wait()
        p.stdout.close()
        lives += 1
        assert lives < 1000, "none of them writes"
        last = said.split(b"\n")[-2].split() if b"\n" in said else []
        if len(last) == 2:
            n, areas = n + int(last[0]), max(areas, int(last[1]))
    print("scribbled", n, "areas", areas, "lives", lives, flush=True)


def answers(s):
    yield "getsockname", s.getsockname()
    yield "getpeername", s.getpeername()
    yield "SO_DOMAIN", s.getsockopt(socket.SOL_SOCKET, 39)
    yield "SO_ERROR", s.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    yield "ready", [e for _, e in poller(s).poll(0)]


def poller(s):
    p = select.poll()
    p.register(s, select.POLLIN | select.POLLRDHUP)
    return p


def asking(s):
    want, n, end = dict(answers(s)), 0, time.monotonic() + 60
    s.sendall(b"g")     # from here on the other side may forge
    while time.monotonic() < end:
        for what, got in answers(s):
            if what == "ready" and got == [select.POLLIN]:
                print("asked often" if n > 100 else "asked", "got", s.recv(5, socket.MSG_DONTWAIT), flush=True)
                return
            if got != want[what]:
                print(what, want[what], "became", got, flush=True)
                return
        n += 1
    print("nothing came", flush=True)


def forging(s, seconds):
    s.recv(1)   # both ends are done with setting it up: what is put back at the end must be what belongs there
    areas, mem, end, turn = list(shared()), open("/proc/self/mem", "r+b", buffering=0), time.monotonic() + float(seconds), 0
    before = [(mem.seek(a), mem.read(min(size, 4096)))[1] for a, size in areas]
    while time.monotonic() < end:
        turn += 1
        for a, size in areas:
            mem.seek(a + 6)     # the flags
            mem.write(random.choice((b"\0\0", b"\1\0", b"\xff\xff")))
            for off in range(8 if turn & 1 else 128, min(size, 4096) & -8, 8):
                mem.seek(a + off)
                mem.write(random.choice((b"\2\0\0\0\1\0\0\0", b"\xff" * 8, b"\0" * 8, random.randbytes(8))))
    for (a, size), was in zip(areas, before):
        mem.seek(a)
        mem.write(was)
    s.sendall(b"truth")
    try:
        s.recv(1)
    except OSError:
        pass    # it has spoiled its own end


def accepted(addr, port):
    """The other end of joined(): answers until that one is accelerated, and so this one."""
    with socket.create_server((addr, int(port))) as l:
        s = l.accept()[0]
    while (x := s.recv(8)) != b"joined":
        s.sendall(x.lstrip(b"e"))
    s.sendall(b"joined")
    return s


def joined(addr, port):
    c = Client(addr, port)
    settled([c], 1)
    c.ask(b"joined")
    return c.s


def believes(addr, port, _):
    asking(accepted(addr, port))


def forge(addr, port, seconds):
    forging(joined(addr, port), seconds)


def believes2(addr, port, _):
    asking(joined(addr, port))


def forge2(addr, port, seconds):
    forging(accepted(addr, port), seconds)


def churn(addr, port, n):
    for i in range(int(n)):
        c = Client(addr, port)
        for _ in range(3):
            c.ask(b"round %d" % i)
        c.s.close()
    print("churn", n, flush=True)


def grab(path, n):
    kept = []
    for _ in range(int(n)):
        s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        s.connect(path)     # waits for its turn
        kept.append(s)
    print("grabbed", len(kept), flush=True)
    sys.stdin.read()


def deaf(addr, port, n):
    kept, failed = [], 0
    for _ in range(int(n)):
        try:
            kept.append(Client(addr, port))
        except OSError:
            failed += 1
    settled(kept, len(kept))
    print("deaf", len(kept), "failed", failed, flush=True)
    kept = [c.s for c in kept]
    for s in kept:
        s.setblocking(False)
    junk = b"x" * 65536
    while True:
        r, w, _ = select.select([sys.stdin], kept, [])
        if r:
            break
        for s in w:
            try:
                s.send(junk)
            except BlockingIOError:
                pass
            except OSError:
                kept.remove(s)


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
