# SPDX-License-Identifier: MIT
"""A scripted iWARP peer: MPA startup in either role, FPDUs by hand, the sessions between daemons, and ring streams. It is as honest
or as hostile as its caller wants."""
import os
import select
import socket
import struct
import sys
import threading
import time

TOP = os.environ.get("IW_TOP", os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
sys.path.insert(0, TOP + "/tests")
import vectors as v  # noqa: E402

LONG = os.environ.get("IW_LONG") == "1"
RTR = v.fpdu(v.tagged(v.WRITE, 0, 0))
IWCM = struct.pack(">4sBBHHHQ", b"IWCM", 1, 1, 128, 256, 0, 0x6c696172)
count = 0


def ok(good, what, why=""):
    """One test; tests/attacks.t numbers them."""
    print(f"{'ok' if good else 'not ok'} - {what}", flush=True)
    if not good and why:
        print("".join(f"# {x}\n" for x in str(why).splitlines()), end="", flush=True)
    return good


def mapped(ip):
    return b"\0" * 10 + b"\xff\xff" + socket.inet_aton(ip)


class Ended(Exception):
    """The other side closed or reset the connection."""


class Wire:
    """A TCP connection with FPDUs on it."""

    def __init__(self, sock):
        self.s = sock
        self.s.settimeout(60)
        self.s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.buf = b""
        self.msn = [1] * 4
        self.sent = b""         # what a replay would say

    def take(self, n):
        while len(self.buf) < n:
            try:
                x = self.s.recv(1 << 18)
            except (ConnectionError, socket.timeout) as e:
                raise Ended(repr(e)) from None
            if not x:
                raise Ended("EOF")
            self.buf += x
        out, self.buf = self.buf[:n], self.buf[n:]
        return out

    def raw(self, data):
        self.sent += data if len(self.sent) < 1 << 16 else b""
        try:
            self.s.sendall(data)
        except OSError as e:
            raise Ended(repr(e)) from None

    def fin(self):
        try:
            self.s.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    # ---- MPA ----

    def frame(self):
        head = self.take(20)
        pd = self.take(struct.unpack(">H", head[18:])[0])
        return head, pd

    def initiate(self, private=b"", flags=v.C | v.S, ird=16, ord_=16, rtr=True):
        """As Initiator, revision 2, peer-to-peer with an RTR Write. Returns the private data of the Reply."""
        self.raw(v.mpa(v.REQ, flags, 2, v.enh(1, 0, ird, 1, 0, ord_) + private))
        head, pd = self.frame()
        if head[:16] != v.REP or head[16] & v.R:
            raise Ended("rejected " + (head + pd).hex())
        self.ird, self.ord = (x & 0x3FFF for x in struct.unpack(">HH", pd[:4]))
        if rtr:
            self.raw(RTR)
        return pd[4:]

    def respond(self, private=b""):
        head, pd = self.frame()
        if head[:16] != v.REQ:
            raise Ended("no Request " + head.hex())
        ird, ord_ = (x & 0x3FFF for x in struct.unpack(">HH", pd[:4]))
        self.raw(v.mpa(v.REP, v.C | v.S, 2, v.enh(1, 0, min(ord_, 16), 1, 0, min(ird, 16)) + private))
        return pd[4:]

    # ---- messages ----

    def put(self, ulpdu):
        self.raw(v.fpdu(ulpdu))

    def get(self):
        n = struct.unpack(">H", self.take(2))[0]
        u = self.take(n)
        self.take(-(2 + n) % 4)
        self.take(4)
        return u

    def send(self, payload, op=v.SEND, inv=0, qn=0):
        self.put(v.untagged(op, qn, self.msn[qn], 0, payload, inv))
        self.msn[qn] += 1

    def imm(self, payload):
        self.send(payload, v.IMM)

    def write(self, stag, to, data):
        for i in range(0, max(len(data), 1), 1400):
            last = i + 1400 >= len(data)
            self.put(v.tagged(v.WRITE, stag, to + i, data[i:i + 1400], last=last))

    def read(self, sink, sink_to, size, stag, to):
        self.send(v.rreq_hdr(sink, sink_to, size, stag, to), v.RREQ, qn=1)

    def terminate(self):
        """Reads to the end. 'layer/type/code' of the Terminate, or how it ended."""
        try:
            while True:
                u = self.get().ljust(22, b"\0")     # after a broken startup anything may come
                if u[1] & 0xF == v.TERM:
                    w = struct.unpack(">I", u[18:22])[0]
                    return f"{w >> 28}/{w >> 24 & 15}/{w >> 16 & 255:02x}"
        except Ended as e:
            return str(e)

    def ended(self, seconds):
        """True when the other side closes within that time."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            if not select.select([self.s], [], [], left)[0]:
                return False
            try:
                if not self.s.recv(1 << 18):
                    return True
            except OSError:
                return True
        return False

    def close(self):
        self.s.close()


def connect(addr, source=None):
    s = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    s.settimeout(60)
    if source:
        s.bind((source, 0))
    s.connect(addr)
    return Wire(s)


# ---- sessions between daemons ----

HELLO, LOOKUP, CLAIM, PING, ANSWER, LISTENER, CONFIRM, ACK = 1, 2, 3, 4, 16, 32, 33, 48


def sm(kind, seq, body=b"", yes=0, reason=0):
    return struct.pack(">BBHIHH", kind, yes, 12 + len(body), seq, reason, 0) + body


class FakeDaemon:
    """The daemon of this host, as far as the other one can tell. It promises every connection that is claimed from it."""

    def __init__(self, ours, theirs, port=874):
        self.ours, self.theirs, self.port = ours, theirs, port
        self.confirmed = set()
        self.cond = threading.Condition()
        self.up = 0
        self.l = socket.create_server((ours, port))
        threading.Thread(target=self.listen, daemon=True).start()
        self.asked = self.dial()

    def dial(self):
        w = connect((self.theirs, self.port), self.ours)
        w.initiate(IWCM)
        w.send(sm(HELLO, 1, struct.pack(">Q", 0x6c696172)))
        threading.Thread(target=self.serve, args=(w, "told"), daemon=True).start()
        return w

    def listen(self):
        while True:
            s, who = self.l.accept()
            if who[0] != self.theirs:
                s.close()
                continue
            threading.Thread(target=self.accept, args=(Wire(s),), daemon=True).start()

    def accept(self, w):
        try:
            w.respond(IWCM)
            self.serve(w, "asks")
        except Ended:
            pass

    def serve(self, w, side):
        w.s.settimeout(None)
        try:
            while True:
                u = w.get()
                if u[0] & 0x80:
                    continue        # RTR
                if u[1] & 0xF == v.TERM:
                    return
                self.message(w, u[18:])
        except Ended:
            pass

    def message(self, w, m):
        kind, yes, _, seq = struct.unpack(">BBHI", m[:8])
        if kind in (HELLO, CLAIM, PING):
            w.send(sm(ANSWER, seq, yes=1))
        elif kind == LOOKUP:
            w.send(sm(ANSWER, seq, reason=4))
        elif kind in (LISTENER, CONFIRM):
            w.send(sm(ACK, seq))
        with self.cond:
            if kind == HELLO:
                self.up |= 1
            if kind == ANSWER:
                self.up |= 2
            if kind == CONFIRM and yes:
                self.confirmed.add(m[12:52])
            self.cond.notify_all()

    def wait(self, what, seconds=60):
        with self.cond:
            return self.cond.wait_for(what, seconds)

    def ready(self):
        return self.wait(lambda: self.up == 3)

    def stream(self, port, **kw):
        """A connection to a server of the other host, claimed by its daemon, with the stream up."""
        s = socket.socket()
        s.settimeout(60)
        s.bind((self.ours, 0))
        me = s.getsockname()[1]
        conn = mapped(self.theirs) + struct.pack(">HH", port, 0) + mapped(self.ours) + struct.pack(">HH", me, 0)
        self.confirmed.discard(conn)
        s.connect((self.theirs, port))
        w = Wire(s)
        if not self.wait(lambda: conn in self.confirmed):
            raise Ended("the connection was not claimed")
        return Stream(w, (self.ours, me), (self.theirs, port), **kw)


# ---- ring streams ----

(DATA, INLINE, CWACK, CREDIT, SRCAVAIL, RDDONE, CANCEL, URGENT, ABORT, CWPING) = range(10)
RING = 1 << 16
OUR_RING = 0x0badcafe


def cw(kind, flags=0, credits=0, value=0):
    return struct.pack(">Q", kind << 60 | flags << 56 | credits << 48 | value & (1 << 48) - 1)


class Stream:
    def __init__(self, w, us, them, caps=31, bufs=64, srcavail=8):
        self.w = w
        pd = struct.pack(">4sBBHIQIHHHH16s16sHH", b"RSTM", 1, 1, caps, OUR_RING, 0, RING, bufs, 1024, srcavail, them[1],
                         mapped(them[0]), mapped(us[0]), us[1], 0)
        self.port = us[1]
        r = w.initiate(pd)
        f = struct.unpack(">4sBBHIQIHHHH", r[:32])
        self.caps, self.stag, self.to, self.len, self.bufs = f[3:8]
        self.pos = 0            # announced
        self.got = 0            # credits that were returned

    def data(self, octets, flags=0):
        """Honestly: into the ring, then announced."""
        at = self.pos % self.len
        self.w.write(self.stag, self.to + at, octets[:self.len - at])
        if at + len(octets) > self.len:
            self.w.write(self.stag, self.to, octets[self.len - at:])
        self.pos += len(octets)
        self.w.imm(cw(DATA, flags, 0, self.pos))

    def next_word(self, *kinds):
        """The next control word of these kinds, with what stands behind it; answers nothing."""
        while True:
            u = self.w.get()
            op = u[1] & 0xF
            if op == v.TERM:
                raise Ended("Terminate " + u[18:22].hex())
            if u[0] & 0x80 or op in (v.RREQ, v.RRESP):
                continue
            word = struct.unpack(">Q", u[18:26])[0]
            if word >> 60 in kinds:
                return word, u[26:]

    def outcome(self):
        """How the stream ends: 'ABORT n', 'l/t/c', or how TCP ended."""
        try:
            while True:
                u = self.w.get()
                op = u[1] & 0xF
                if op == v.TERM:
                    w = struct.unpack(">I", u[18:22])[0]
                    return f"{w >> 28}/{w >> 24 & 15}/{w >> 16 & 255:02x}"
                if not u[0] & 0x80 and op != v.RREQ and struct.unpack(">Q", u[18:26])[0] >> 60 == ABORT:
                    return f"ABORT {struct.unpack('>Q', u[18:26])[0] & 0xfff}"
        except Ended as e:
            return str(e)

    def close(self):
        self.w.close()
