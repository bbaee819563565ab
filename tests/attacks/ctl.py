# SPDX-License-Identifier: MIT
"""The control socket of a host's daemon, as a program without the library speaks it (proto/ctlmsg.h)."""
import array
import mmap
import os
import socket
import struct

MAGIC, VERSION = 0x49574331, 6
(HELLO, PROPOSE, PLAIN, CLOSED, SWITCH, SWITCHED, ABANDON, BACK, MAP, UNMAP, OPEN, GETSOCKOPT, SETSOCKOPT, SYNC) = range(1, 15)
HELLO_ACK, ACK, STREAM, OPT, TCP, MAPPED = range(64, 70)
SO_COOKIE, SO_NETNS_COOKIE = 57, 71


def ident(n, reason=0, fd=0, told=0):
    """CLOSED, SWITCH, SWITCHED, ABANDON, BACK, MAP, UNMAP"""
    return struct.pack("=QIiII", n, reason, fd, told, 0)


def u64(sock, name):
    return struct.unpack("=Q", sock.getsockopt(socket.SOL_SOCKET, name, 8))[0]


def name_of(addr):
    return b"\0" * 10 + b"\xff\xff" + socket.inet_aton(addr[0]) + struct.pack("=IHH", 0, addr[1], socket.AF_INET)


class Client:
    def __init__(self, rundir, hello=True):
        self.s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.s.settimeout(10)
        self.s.connect(rundir + "/ctl.sock")
        self.seq = 0
        if hello:
            self.put(HELLO, b"intruder".ljust(64, b"\0"))
            m, anc, _, _ = self.s.recvmsg(4096, 4096)
            fds = array.array("i", anc[0][2][:8])
            self.proc = mmap.mmap(fds[0], 64 + (4 << 18))
            for f in fds:
                os.close(f)

    def put(self, kind, body, fds=()):
        self.seq += 1
        m = struct.pack("=IHHII", MAGIC, VERSION, kind, 16 + len(body), self.seq) + body
        self.s.sendmsg([m], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else [])

    def get(self, keep=None):
        """(type, body, number of descriptors), or None when it was closed. The descriptors are in kept, or closed."""
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
        if keep is None:
            for f in fds:
                os.close(f)
        else:
            keep += fds
        return struct.unpack("=H", m[6:8])[0], m[16:], len(fds)

    def sync(self):
        self.put(SYNC, b"")
        return (self.get() or (0,))[0] == ACK

    def go(self, n):
        return struct.unpack_from("=I", self.proc, 64 + 4 * n)[0] == n

    def propose(self, n, cookie, netns, local, far, client):
        """Under the name n, which is its slot, too."""
        self.put(PROPOSE, struct.pack("=QQQ", n, cookie, netns) + local + far + struct.pack("=QIIIIiI", 1 << 20, 99, 9, n % (1 << 18), client, 5, 0))


class Own:
    """Both ends of a connection, proposed; the accepting one goes first."""
    last = 1 << 10

    def __init__(self, c, mine):
        Own.last += 2
        self.c, self.n, self.m = c, Own.last, Own.last + 1
        self.client = socket.create_connection(mine.getsockname())
        self.server = mine.accept()[0]
        self.propose(self.m, self.client, 1)
        self.propose(self.n, self.server, 0)
        c.sync()

    def propose(self, n, s, client):
        self.c.propose(n, u64(s, SO_COOKIE), u64(s, SO_NETNS_COOKIE), name_of(s.getsockname()), name_of(s.getpeername()), client)

    def switch(self, n, fd, told=0):
        """The stream, its carrier and segment; or None when it was refused."""
        keep = []
        self.c.put(SWITCH, ident(n, 0, 5, told), [fd])
        r = self.c.get(keep)
        if not r or r[0] != STREAM or struct.unpack("=i", r[1][:4])[0]:
            for f in keep:
                os.close(f)
            return None
        r2 = self.c.get()
        assert r2[0] == ACK, r2
        return struct.unpack("=Q", r[1][8:16])[0], keep

    def close(self):
        for n in (self.n, self.m):
            self.c.put(CLOSED, ident(n))
        self.client.close()
        self.server.close()
        return self.c.sync()
