# SPDX-License-Identifier: MIT
"""The control protocol of library and daemon (proto/ctlmsg.h) by hand, for programs that do not keep to it."""
import array
import mmap
import os
import socket
import struct

MAGIC, VERSION = 0x49574331, 3
(HELLO, PREPARE, OFFER, COMMIT, ABANDON, LISTEN, UNLISTEN, CLAIM, PLAIN, CLOSED, OPEN, GETSOCKOPT, SETSOCKOPT, SYNC, INTENT,
 INTENT_END) = range(1, 17)
HELLO_ACK, ACK, STREAM, OPT = range(64, 68)


def addr(ip, port):
    return b"\0" * 10 + b"\xff\xff" + socket.inet_aton(ip) + struct.pack("=IHH", 0, port, socket.AF_INET)


def bucket(ip, port):
    h = 2166136261
    for b in addr(ip, 0)[:16] + struct.pack("<H", port):
        h = ((h ^ b) * 16777619) & 0xffffffff
    return h % 256


class Client:
    def __init__(self, rundir):
        self.s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.s.settimeout(30)
        self.s.connect(rundir + "/ctl.sock")
        self.seq = 0
        self.put(HELLO, b"attacker".ljust(64, b"\0"))
        _, _, fds = self.get()
        self.page = mmap.mmap(fds[0], 4096)
        for f in fds:
            os.close(f)

    def put(self, kind, body=b"", fds=()):
        self.seq += 1
        m = struct.pack("=IHHII", MAGIC, VERSION, kind, 16 + len(body), self.seq) + body
        self.s.sendmsg([m], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else [])

    def get(self):
        """(type, body, descriptors). EOFError when it was closed."""
        m, anc, _, _ = self.s.recvmsg(4096, 4096)
        if not m:
            raise EOFError
        fds = array.array("i")
        for level, kind, data in anc:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                fds.frombytes(data[:len(data) - len(data) % 4])
        return struct.unpack("=H", m[6:8])[0], m[16:], list(fds)

    def connection(self, kind, sock, peer=bytes(24), conn_id=1):
        """OFFER or CLAIM: (id of the stream, its carrier), or (None, the reason)."""
        self.put(kind, struct.pack("=QQ", conn_id, 0) + bytes(24) + peer + struct.pack("=IIii", 0, 0, 5, 0), [sock.fileno()])
        kind, body, fds = self.get()
        assert kind == STREAM, kind
        result, reason, stream = struct.unpack("=iIQ", body[:16])
        if result:
            return None, reason
        self.get()      # the ACK
        os.close(fds[1])
        return stream, socket.socket(fileno=fds[0])

    def tell(self, kind, ident, reason=0):
        self.put(kind, struct.pack("=QIi", ident, reason, 5))

    def sync(self):
        self.put(SYNC)
        return self.get()

    def intent(self, ip, port, count):
        """Set the count of open intents; the bucket."""
        b = bucket(ip, port)
        self.page[8 + 4 * b:12 + 4 * b] = struct.pack("=I", count)
        return b

    def prepare(self, ip, port):
        self.put(PREPARE, addr(ip, port))
        return struct.unpack("=iI", self.get()[1][:8])

    def listen(self, sock):
        """0: registered, else the reason."""
        self.put(LISTEN, struct.pack("=QiI", 1, 5, 0), [sock.fileno()])
        return struct.unpack("=iI", self.get()[1][:8])[1]

    def setsockopt(self, stream, end, level, name, val):
        """The errno."""
        self.put(SETSOCKOPT, struct.pack("=QIiiIiI", stream, end, level, name, len(val), 0, 0) + val.ljust(256, b"\0"))
        return struct.unpack("=i", self.get()[1][24:28])[0]
