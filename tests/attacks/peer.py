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
IWCM = struct.pack(">4sBBHHHQ", b"IWCM", 2, 2, 128, 256, 0, 0x6c696172)


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

HELLO, PROPOSE, HOLD, PING, VOUCH, ANSWER, GOODBYE, ACK = 1, 2, 3, 4, 6, 16, 32, 48
SWITCHED, CLIENT = 1, 2
UNANSWERED, BUSY = 29, 31


def sm(kind, seq, body=b"", yes=0, reason=0, flags=0):
    if kind == ANSWER and not body:
        body = bytes(16)
    return struct.pack(">BBHIHH", kind, yes | flags << 1, 12 + len(body), seq, reason, 0) + body


def ends(a, b):
    return b"".join(mapped(ip) + struct.pack(">HH", port, 0) for ip, port in (a, b))


class Connection:
    """A connection between the two hosts, as the fake daemon proposes it."""

    def __init__(self, us, them, client=True):
        self.us, self.them = us, them
        self.flags = SWITCHED | (CLIENT if client else 0)      # what is said of our end
        self.there = 0                  # what was said of the other
        self.asked = 0
        self.sent = b""                 # plain octets, both ways
        self.got = b""
        self.held = None                # f(nonce, pos, crc): what HOLD is answered with: (pos, crc), or None: no


class FakeDaemon:
    """The daemon of this host, as far as the other one can tell. Every connection of its table is proposed, and relayed."""

    def __init__(self, ours, theirs, port=874):
        self.ours, self.theirs, self.port = ours, theirs, port
        self.table = {}                 # by our port and theirs
        self.answers = {}               # by seq: yes, reason, flags, pos, crc
        self.seq = 1
        self.lock = threading.Lock()    # of what is sent
        self.cond = threading.Condition()
        self.up = 0
        self.l = socket.create_server((ours, port))
        threading.Thread(target=self.listen, daemon=True).start()
        self.asks = self.dial()

    def dial(self):
        w = connect((self.theirs, self.port), self.ours)
        w.initiate(IWCM)
        w.send(sm(HELLO, 1, struct.pack(">Q", 0x6c696172)))
        threading.Thread(target=self.serve, args=(w,), daemon=True).start()
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
            self.serve(w)
        except Ended:
            pass

    def serve(self, w):
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

    def send(self, w, *args, **kw):
        with self.lock:
            w.send(sm(*args, **kw))

    def message(self, w, m):
        kind, bits, _, seq, reason = struct.unpack(">BBHIH", m[:10])
        with self.cond:
            if kind == ANSWER:
                self.answers[seq] = (bits & 1, reason, bits >> 1) + struct.unpack(">QI", m[12:24])
            self.up |= 1 if kind == HELLO else 2 if kind == ANSWER else 0
            self.cond.notify_all()
        if kind in (HELLO, PING, VOUCH):
            self.send(w, ANSWER, seq, yes=1)
        elif kind == GOODBYE:
            self.send(w, ACK, seq)
        elif kind in (PROPOSE, HOLD):
            self.about(w, kind, seq, bits >> 1, m[12:])

    def about(self, w, kind, seq, flags, m):
        c = self.table.get((struct.unpack(">H", m[36:38])[0], struct.unpack(">H", m[16:18])[0]))
        if not c:
            self.send(w, ANSWER, seq, reason=UNANSWERED)
        elif kind == PROPOSE:
            self.send(w, ANSWER, seq, yes=1, flags=c.flags)
            with self.cond:
                c.there = flags
                c.asked += 1
                self.cond.notify_all()
        else:
            held = c.held and c.held(*struct.unpack(">QQI", m[40:60]))
            if held:
                self.send(w, ANSWER, seq, struct.pack(">QII", *held, 0), yes=1)
            else:
                self.send(w, ANSWER, seq, reason=BUSY)

    def wait(self, what, seconds=60):
        with self.cond:
            return self.cond.wait_for(what, seconds)

    def ready(self):
        return self.wait(lambda: self.up == 3)

    # ---- questions ----

    def ask(self, kind, body=b"", flags=0):
        self.seq += 1
        self.send(self.asks, kind, self.seq, body, flags=flags)
        return self.seq

    def answer(self, seq):
        """(yes, reason, flags, pos, crc)"""
        if not self.wait(lambda: seq in self.answers):
            raise Ended("no answer")
        return self.answers.pop(seq)

    def hold(self, c, nonce, pos=None, crc=None):
        """The answer, or with nothing told of it: as an honest daemon would ask."""
        pos = len(c.sent) if pos is None else pos
        crc = v.crc32c(c.sent[-64:]) if crc is None else crc
        return self.answer(self.ask(HOLD, ends(c.us, c.them) + struct.pack(">QQII", nonce, pos, crc, 0)))

    # ---- connections ----

    def relayed(self, port):
        """A connection to a server of the other host, its end switched by its library: the wire, and what it is called."""
        s = socket.socket()
        s.settimeout(60)
        s.bind((self.ours, 0))
        c = Connection(s.getsockname(), (self.theirs, port))
        self.table[c.us[1], port] = c
        s.connect(c.them)
        w = Wire(s)
        end = time.monotonic() + 60
        while not c.there & SWITCHED:
            if time.monotonic() > end:
                raise Ended("the connection was not switched")
            self.plain(w, c, b".")      # a call more
            self.wait(lambda: c.there & SWITCHED, 0.002)
        return w, c

    @staticmethod
    def plain(w, c, octets):
        w.raw(octets)
        c.sent += octets

    def held(self, w, c, seconds=60):
        """The other end has read everything, and sends nothing more: its position, and our nonce."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            nonce = int.from_bytes(os.urandom(8), "big") | 1
            yes, _, _, pos, _ = self.hold(c, nonce)
            if yes:
                return nonce, pos
            self.plain(w, c, b".")
        raise Ended("no HELD")

    def stream(self, port, **kw):
        """The same, with the wire upgraded."""
        w, c = self.relayed(port)
        nonce, pos = self.held(w, c)
        c.got += w.take(pos - len(c.got))
        return Stream(w, c.us, c.them, nonce=nonce, **kw)


# ---- ring streams ----

(DATA, INLINE, CWACK, CREDIT, SRCAVAIL, RDDONE, CANCEL, URGENT, ABORT, CWPING) = range(10)
RING = 1 << 16
OUR_RING = 0x0badcafe


def cw(kind, flags=0, credits=0, value=0):
    return struct.pack(">Q", kind << 60 | flags << 56 | credits << 48 | value & (1 << 48) - 1)


def private(us, them, caps=31, bufs=64, srcavail=8, nonce=0):
    """What a Request from us to them says of the stream; and a Reply the other way round."""
    return struct.pack(">4sBBHIQIHHHH16s16sHH", b"RSTM", 1, 1, caps, OUR_RING, 0, RING, bufs, 1024, srcavail, them[1],
                       mapped(them[0]), mapped(us[0]), us[1], 0) + struct.pack(">Q", nonce)


class Stream:
    def __init__(self, w, us, them, **kw):
        self.w = w
        self.port = us[1]
        r = w.initiate(private(us, them, **kw))
        f = struct.unpack(">4sBBHIQIHHHH", r[:32])
        self.caps, self.stag, self.to, self.len, self.bufs, self.size = f[3:9]
        self.pos = 0            # announced
        self.got = 0            # credits that were returned
        self.words = 0          # announcements

    def data(self, octets, flags=0):
        """Honestly: into the ring, then announced."""
        at = self.pos % self.len
        self.w.write(self.stag, self.to + at, octets[:self.len - at])
        if at + len(octets) > self.len:
            self.w.write(self.stag, self.to, octets[self.len - at:])
        self.pos += len(octets)
        self.words += 1
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
