# SPDX-License-Identifier: MIT
"""Attacks over the control socket by another process of the host: local.py RUNDIR STREAM-ID. It knows the identifier of somebody else's
stream and tries every message on it, proposes everybody's connections, and passes descriptors that are not what they should be."""
import os
import socket
import struct
import sys

import ctl
from ctl import (ABANDON, ACK, BACK, CLOSED, GETSOCKOPT, HELLO, MAP, MAPPED, OPEN, OPT, PLAIN, SETSOCKOPT, SO_NETNS_COOKIE, STREAM, SWITCH, SWITCHED, SYNC, TCP,
                 UNMAP, ident, name_of, u64)
from peer import ok

RUNDIR, VICTIM = sys.argv[1], int(sys.argv[2], 16)
LONG = os.environ.get("IW_LONG") == "1"


def Client(hello=True):
    return ctl.Client(RUNDIR, hello)


def option(kind, end):
    c = Client()
    val = struct.pack("=i", 1).ljust(256, b"\0")
    c.put(kind, struct.pack("=QIiiIiI", VICTIM, end, socket.SOL_SOCKET, socket.SO_KEEPALIVE, 4, 0, 0) + val)
    r = c.get()
    return r and r[0] == OPT and struct.unpack("=i", r[1][24:28])[0]


for end in (0, 1, 7):
    for kind in (GETSOCKOPT, SETSOCKOPT):
        e = option(kind, end)
        ok(e is None or e == 107, f"L6: {'GETSOCKOPT' if kind == GETSOCKOPT else 'SETSOCKOPT'} of somebody else's stream, end {end}: ENOTCONN", e)
for kind, name in ((SWITCHED, "SWITCHED"), (ABANDON, "ABANDON"), (CLOSED, "CLOSED"), (BACK, "BACK"), (MAP, "MAP"), (UNMAP, "UNMAP")):
    c = Client()
    c.put(kind, ident(VICTIM))
    c.put(SYNC, b"")
    got = [c.get()]
    while got[-1] and got[-1][0] in (TCP, MAPPED):
        got.append(c.get())
    ok(all(r and (r[0] == ACK or struct.unpack("=i", r[1][:4])[0] == 1) and not r[2] for r in got), f"L6: {name} of somebody else's stream", got)


def connections():
    """What is connected in this namespace, both ends where both are here: (local, peer) as in messages."""
    out = []
    for line in list(open("/proc/net/tcp", encoding="ascii"))[1:]:
        f = line.split()
        if f[3] == "01":
            ends = [x.split(":") for x in f[1:3]]
            out.append([b"\0" * 10 + b"\xff\xff" + bytes.fromhex(ip)[::-1] + struct.pack("=IHH", 0, int(port, 16), socket.AF_INET) for ip, port in ends])
    return out


# everybody's connections, as either end: whoever does not have the socket gets nowhere, and the others notice nothing
mine = socket.socket()
mine.bind(("127.0.0.1", 0))
mine.listen()
here = socket.create_connection(mine.getsockname())
there = mine.accept()[0]
ns = u64(here, SO_NETNS_COOKIE)
c = Client()
names = []
for local, peer in connections()[:200]:
    for client in (0, 1):
        for a, b in ((local, peer), (peer, local)):
            names.append(len(names) + 1)
            c.propose(names[-1], 1, ns, a, b, client)
c.sync()
told = [n for n in names if c.go(n)]
bad = []
for n in names:
    c.put(SWITCH, ident(n, 0, 5), [here.fileno()])
    r = c.get()
    if not r or r[0] != STREAM or struct.unpack("=i", r[1][:4])[0] != 1 or r[2]:
        bad.append((n, r))
ok(names and not bad, f"L7: {len(names)} proposals of others' connections, {len(told)} of them told GO: none is switched", bad)
c.put(PLAIN, struct.pack("=Q", 1) + bytes(48) + struct.pack("=IIii", 9, 0, 5, 0))
for n in names:
    c.put(CLOSED, ident(n))
ok(c.sync(), "L7: and all of them are closed")


# ---- a connection of its own, and GO for it: what is passed is something else ----

def Own(c):
    return ctl.Own(c, mine)


def half_closed(own):
    own.server.shutdown(socket.SHUT_WR)
    return own.server.fileno()


def their_fin(own):
    own.client.shutdown(socket.SHUT_WR)
    while struct.unpack_from("=B", own.server.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1))[0] == 1:
        pass
    return own.server.fileno()


def reset(own):
    own.client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("=ii", 1, 0))
    own.client.close()
    return own.server.fileno()


keeping = []


def kept(x):
    keeping.append(x)
    return x.fileno()


wrong = (
    ("the other end of it", lambda own: own.client.fileno()),
    ("another connection", lambda own: here.fileno()),
    ("a listener", lambda own: mine.fileno()),
    ("an unconnected TCP socket", lambda own: kept(socket.socket())),
    ("a UDP socket", lambda own: kept(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))),
    ("a unix socket", lambda own: kept(socket.socketpair()[0])),
    ("a file", lambda own: kept(open("/dev/null", "rb"))),
    ("it, after shutdown", half_closed),
    ("it, after the other end's FIN", their_fin),
    ("it, after a reset", reset),
)
c = Client()
for name, fd in wrong:
    own = Own(c)
    went = c.go(own.n)
    got = own.switch(own.n, fd(own))
    again = own.switch(own.n, own.server.fileno())
    ok(went and not got and not again, f"L7: SWITCH with {name}: refused, and for good", (went, got, again))
    own.close()

# what was granted, out of order and more than once
own = Own(c)
ok(own.switch(own.n, own.server.fileno(), 0xffffffff) is None, "L9: a SWITCH that wants 2^32 octets unread in the carrier is refused")
own.close()
own = Own(c)
stream, fds = own.switch(own.n, own.server.fileno())
ok(own.switch(own.n, own.server.fileno()) is None, "L9: a second SWITCH of the same is refused")
c.put(BACK, ident(stream))
r = c.get()
ok(r[0] == TCP and struct.unpack("=i", r[1][:4])[0] == 1, "L9: BACK before SWITCHED: no", r)
for _ in range(2):
    c.put(SWITCHED, ident(stream, 0, 5))
    r = c.get()
    ok(r and r[0] == ACK, "L9: SWITCHED, once and again", r)
c.put(ABANDON, ident(stream, 31))
ok(c.sync(), "L9: ABANDON of what is relayed")
own.server.close()
carrier = socket.socket(fileno=fds[0])
own.client.sendall(b"there")
ok(carrier.recv(5) == b"there", "L9: which is relayed as before")
second = own.switch(own.m, own.client.fileno())
ok(second is not None, "L9: its other end is joined")
for kind in (BACK, SWITCHED, ABANDON, BACK):
    c.put(kind, ident(stream, 31))
got = [c.get() for _ in range(3)]
ok([r[0] for r in got] == [TCP, ACK, TCP] and not got[0][2] and not got[2][2] and c.sync(), "L9: BACK, SWITCHED and ABANDON of a pair", got)
carrier.send(b"joined")
ok(socket.socket(fileno=second[1][0]).recv(6) == b"joined", "L9: which stays one")
own.close()

# the same socket, by more than one name
own = Own(c)
own.propose(own.n + 5000, own.server, 0)
c.sync()
streams = [own.switch(n, own.server.fileno()) for n in (own.n, own.n + 5000)]
for st in streams:
    if st:
        c.put(SWITCHED, ident(st[0], 0, 5))
        c.get()
print("# under two names:", [st and st[0] for st in streams])
c.put(CLOSED, ident(own.n + 5000))
ok(own.close(), "L7: a connection that is switched under two names is its program's own trouble")
for st in streams:
    for f in st[1] if st else ():
        os.close(f)


# ---- floods: bounded, and nobody else notices (attacks.t) ----

def flood(c, n, tuples):
    """So many proposals; how many of them were told GO."""
    for i in range(n):
        a, b = tuples(i)
        c.propose(i + 1, i, ns, a, b, i & 1)
    return c.sync()


a, b = name_of(here.getsockname()), name_of(here.getpeername())
n = 300000 if LONG else 30000
ok(flood(Client(), n, lambda i: (a, b)), f"L2: {n} proposals of one connection")
port = mine.getsockname()[1]
ok(flood(Client(), n, lambda i: (name_of(("127.0.0.1", 1 + i % 65535)), name_of(("127.0.0.1", port)))), f"L2: {n} proposals of others")
far = name_of((os.environ.get("IW_TEST_FAR", "127.0.0.1"), 7300))
c = Client()
ok(flood(c, n, lambda i: (name_of((os.environ.get("IW_TEST_NEAR", "127.0.0.1"), 1 + i % 65535)), far)), f"L2: {n} proposals of connections to another host")
c.s.close()


def fds():
    a, b = socket.socketpair()
    r, w = os.pipe()
    t = socket.socket()
    l = socket.socket()
    l.bind(("127.0.0.1", 0))
    u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    f = os.open("/dev/null", os.O_RDWR)
    named = socket.socket(socket.AF_UNIX)
    named.bind("\0iwsock.%016x.%016x" % (VICTIM, 1))
    return [("a unix socket", a.fileno()), ("a pipe", r), ("an unconnected TCP socket", t.fileno()), ("a bound TCP socket", l.fileno()),
            ("a UDP socket", u.fileno()), ("/dev/null", f), ("a socket named like the carrier", named.fileno()), ("the control socket", -1)], (a, b, r, w, t, l, u, f, named)


what, keep = fds()
switch = ident(1, 0, 5)
for name, fd in what:
    for kind, kname, body in ((SWITCH, "SWITCH", switch), (OPEN, "OPEN", struct.pack("=QiI", 1, 5, 0))):
        c = Client()
        c.put(kind, body, [c.s.fileno() if fd < 0 else fd])
        r = c.get()
        if r is None:
            good = True     # that client only
        else:
            good = r[0] == STREAM and struct.unpack("=i", r[1][:4])[0] != 0 and r[2] == 0
        ok(good, f"L6, L7: {kname} with {name} is refused", r)

# messages with more descriptors than any has, and cut or oversized ones
for n in (2, 16, 253):
    c = Client()
    try:
        c.put(SWITCH, switch, [0] * n)
    except OSError:
        continue
    ok(c.get() is None, f"L9: {n} descriptors in one message: that client is closed")
for body in (b"", b"\0" * 63, b"\0" * 65, b"\0" * 4000):
    c = Client(hello=False)
    try:
        c.put(HELLO, body)
    except OSError:
        pass    # closed already: descriptors of the ones before wait to be closed
    ok(c.get() is None, f"L9: a HELLO of {len(body)} octets: that client is closed")
c = Client(hello=False)
try:
    c.put(SWITCH, switch, [keep[0].fileno()])
except OSError:
    pass
ok(c.get() is None, "L9: a SWITCH before HELLO: that client is closed")
