# SPDX-License-Identifier: MIT
"""Attacks over the control socket by another process of the host: local.py RUNDIR STREAM-ID. It knows the identifier of somebody else's
stream and tries every message on it, and passes descriptors that are not what they should be."""
import array
import os
import socket
import struct
import sys

from peer import ok

RUNDIR, VICTIM = sys.argv[1], int(sys.argv[2], 16)
MAGIC = 0x49574331
(HELLO, PREPARE, OFFER, COMMIT, ABANDON, LISTEN, UNLISTEN, CLAIM, PLAIN, CLOSED, OPEN, GETSOCKOPT, SETSOCKOPT) = range(1, 14)
HELLO_ACK, ACK, STREAM, OPT = range(64, 68)
ADDR = bytes(24)


class Client:
    def __init__(self, hello=True):
        self.s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.s.settimeout(10)
        self.s.connect(RUNDIR + "/ctl.sock")
        self.seq = 0
        if hello:
            self.put(HELLO, b"intruder".ljust(64, b"\0"))
            self.get()

    def put(self, kind, body, fds=()):
        self.seq += 1
        m = struct.pack("=IHHII", MAGIC, 3, kind, 16 + len(body), self.seq) + body
        self.s.sendmsg([m], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else [])

    def get(self):
        """(type, body, number of descriptors), or None when it was closed."""
        try:
            m, anc, _, _ = self.s.recvmsg(4096, 4096)
        except ConnectionError:
            return None
        if not m:
            return None
        fds = array.array("i")
        for level, kind, data in anc:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                fds.frombytes(data[:len(data) - len(data) % 4])
        for f in fds:
            os.close(f)
        return struct.unpack("=H", m[6:8])[0], m[16:], len(fds)


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
for kind, name in ((COMMIT, "COMMIT"), (ABANDON, "ABANDON"), (CLOSED, "CLOSED"), (UNLISTEN, "UNLISTEN")):
    c = Client()
    c.put(kind, struct.pack("=QIi", VICTIM, 0, 0))
    c.put(PREPARE, ADDR)
    c.get()         # it was dealt with
    ok(True, f"L6: {name} of somebody else's stream")


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
conn = struct.pack("=QQ", 1, 0) + ADDR + ADDR + struct.pack("=IIii", 0, 1, 5, 0)
for name, fd in what:
    for kind, kname, body in ((OFFER, "OFFER", conn), (CLAIM, "CLAIM", conn), (LISTEN, "LISTEN", struct.pack("=QiI", 1, 5, 0)),
                              (OPEN, "OPEN", struct.pack("=QiI", 1, 5, 0))):
        c = Client()
        c.put(kind, body, [c.s.fileno() if fd < 0 else fd])
        r = c.get()
        if r is None:
            good = True     # that client only
        elif r[0] == ACK:
            good = struct.unpack("=i", r[1][:4])[0] != 0
        else:
            good = r[0] == STREAM and struct.unpack("=i", r[1][:4])[0] != 0 and r[2] == 0
        ok(good, f"L6, L7: {kname} with {name} is refused", r)

# messages with more descriptors than any has, and cut or oversized ones
for n in (2, 16, 253):
    c = Client()
    try:
        c.put(OFFER, conn, [0] * n)
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
    c.put(OFFER, conn, [keep[0].fileno()])
except OSError:
    pass
ok(c.get() is None, "L9: an OFFER before HELLO: that client is closed")
