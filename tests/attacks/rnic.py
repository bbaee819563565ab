# SPDX-License-Identifier: MIT
"""Network attacks on the RNIC alone: a scripted peer against tests/iwdut (the receiver state of the vectors) and against
iwctl rping, whose STags are random. rnic.py BUILD-DIR"""
import os
import random
import re
import socket
import struct
import subprocess
import sys
import threading
import time

import peer
from peer import Ended, LONG, connect, ok, v

BUILD = sys.argv[1]
S1, SHARED, DOMAIN2 = 0x5a17c301, 0x6612f806, 0x2b9c6e04
SEED = random.randrange(2 ** 32)
rng = random.Random(SEED)
print("# seed", SEED)
SAN = "address" in BUILD
vec = {}
for line in open(peer.TOP + "/tests/vectors.txt"):
    if line.strip() and not line.startswith("#"):
        name, _, octets = line.rstrip("\n").split("\t")
        vec[name] = bytes.fromhex(octets)


class Dut:
    def __init__(self, *args):
        self.p = subprocess.Popen([BUILD + "/tests/iwdut", "--port", "0", *args], stdout=subprocess.PIPE, text=True)
        self.port = int(re.fullmatch(r"listening on (\d+)\n", self.p.stdout.readline()).group(1))
        self.lines, self.done, self.cond = [], 0, threading.Condition()
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.p.stdout:
            with self.cond:
                self.lines.append(line.rstrip("\n"))
                if line.startswith("memory 6612f806"):
                    self.done += 1
                    self.cond.notify_all()

    def connect(self, request="mpa.req.r1.c", first=True):
        w = connect(("127.0.0.1", self.port))
        if request:
            w.raw(vec[request] if isinstance(request, str) else request)
            w.head = w.frame()
            if first:
                w.raw(vec["fpdu.write.zero"])
        return w

    def over(self, n, seconds=60):
        """Waits for the end of n connections. The lines since the last call."""
        with self.cond:
            good = self.cond.wait_for(lambda: self.done >= n, seconds)
            out, self.lines = self.lines, []
            self.done -= n
        return out if good else out + ["NOT OVER"]

    def rss(self):
        return rss(self.p.pid)

    def files(self):
        return len(os.listdir(f"/proc/{self.p.pid}/fd"))

    def cpu(self):
        f = open(f"/proc/{self.p.pid}/stat").read().rsplit(")", 1)[1].split()
        return (int(f[11]) + int(f[12])) / 100

    def end(self):
        alive = self.p.poll() is None
        self.p.terminate()
        self.p.wait()
        return alive


def rss(pid):
    return int(re.search(r"VmRSS:\s+(\d+)", open(f"/proc/{pid}/status").read()).group(1))


def clean(lines):
    bad = [x for x in lines if "CANARY DEAD" in x or x == "NOT OVER" or (x.startswith("memory") and "unchanged" not in x)]
    return not bad, bad[:5]


def n2_guessing(d):
    n, bad, known = 100000 if LONG else 1000, [], {int(x, 16) for x in re.findall(r"[0-9a-f]{8}", "5a17c301 77e0b902 1d40aa03 2b9c6e04 4e33d505 6612f806")}
    for i in range(n):
        stag = rng.randrange(2 ** 32)
        if stag in known:
            continue
        w = d.connect()
        w.write(stag, rng.choice((0, 0x1000, rng.randrange(2 ** 63))), b"guess")
        t = w.terminate()
        w.close()
        good, why = clean(d.over(1))
        if t != "1/1/00" or not good:
            bad.append(f"{stag:08x}: {t} {why}")
    ok(not bad, f"N2: {n} guessed STags on fresh connections end in 1/1/00, canary intact", "\n".join(bad[:5]))


def n8_bit_flips(d):
    """A Request with one bit changed: the outcome is that of an equal Request, or a clean close."""
    bad, req = [], v.mpa(v.REQ, v.C | v.S, 2, v.enh(1, 0, 1, 1, 0, 1) + b"private")
    for bit in range(len(req) * 8):
        w = connect(("127.0.0.1", d.port))
        x = bytearray(req)
        x[bit // 8] ^= 0x80 >> bit % 8
        try:
            w.raw(bytes(x))
            w.fin()
            w.s.settimeout(60)
            head, pd = w.frame()
            crc = (x[16] | 0x40) & 0x40
            if head[:16] != v.REP or head[16] & 0x40 != crc or len(pd) not in (0, 4):
                bad.append(f"bit {bit}: {head.hex()} {pd.hex()}")
        except Ended:
            pass
        w.close()
        good, why = clean(d.over(1))
        if not good:
            bad.append(f"bit {bit}: {why}")
    ok(not bad, f"N8: each of {len(req) * 8} bits of an MPA Request flipped: a Reply in order or a close", "\n".join(bad[:5]))


def r4_third_segment(d):
    w = d.connect()
    for i, (to, data) in enumerate(((0x1fe0, b"A" * 16), (0x1ff0, b"B" * 8), (0x1ff8, b"C" * 9))):
        w.put(v.tagged(v.WRITE, S1, to, data, last=i == 2))
    t = w.terminate()
    w.close()
    lines = d.over(1)
    want = bytearray(x & 255 for x in range(4096))
    want[8:16] = (10).to_bytes(8, sys.byteorder)
    want[0xfe0:0xff8] = b"A" * 16 + b"B" * 8
    got = [x for x in lines if x.startswith("memory 5a17c301")]
    ok(t == "1/1/01" and got == [f"memory 5a17c301 changed crc {v.crc32c(bytes(want)):08x}"],
       "R4: a bounds error in the third segment: the first two are placed, nothing of the third", f"{t} {got}")


def r24_headers(d):
    n, bad = 65536 if LONG else 1500, []
    for i in range(n):
        head = struct.pack(">H", i if LONG else rng.randrange(65536))
        w = d.connect()
        try:
            w.put(head + rng.randbytes(rng.randrange(12, 64)))
            w.fin()
        except OSError:
            pass
        except Ended:
            pass
        w.terminate()
        w.close()
        lines = d.over(1)
        dead = [x for x in lines if "CANARY DEAD" in x or x == "NOT OVER"]
        if dead:
            bad.append(f"{head.hex()}: {dead}")
    ok(not bad, f"R24: {n} random headers: no canary dies", "\n".join(bad[:5]))


def r27_lengths(d, marked):
    w = d.connect()
    u = v.tagged(v.WRITE, S1, 0x1000, bytes(65535 - 14))
    w.put(u)
    t = w.terminate()
    w.close()
    good, why = clean(d.over(1))
    ok(t == "1/1/01" and good, "R27: ULPDU_Length 65535 beyond the buffer: 1/1/01", f"{t} {why}")
    w = d.connect()
    w.raw(b"\xff\xff" + bytes(5000))
    w.fin()
    t = w.terminate()
    w.close()
    lines = d.over(1)
    ok("EOF" in t or "reset" in t.lower(), "R27: ULPDU_Length 65535 and the end of the stream", t)
    ok("event lost" in lines and clean(lines)[0], "R27: the local owner hears that it was lost", lines)
    for n in (0, 1, 2, 13):
        w = d.connect()
        w.put(b"\xc1\x40"[:n] + bytes(max(0, n - 2)))
        t = w.terminate()
        w.close()
        good, why = clean(d.over(1))
        ok(good and t != "timed out", f"R27: ULPDU of {n} octets", f"{t} {why}")
    w = marked.connect(first=False)
    tx = v.Tx(markers=True)
    tx.fpdu(v.tagged(v.WRITE, 0, 0))
    w.raw(tx.out + b"\xff\xff" + bytes(70000))    # no Marker can point back so far
    t = w.terminate()
    w.close()
    good, why = clean(marked.over(1))
    ok(good and t in ("2/0/02", "2/0/03"), f"R27: the same with Markers: {t}", why)


def r29_depths(d):
    for n in (0x3ffe, 0x3fff):
        before = d.rss()
        w = d.connect(v.mpa(v.REQ, v.C | v.S, 2, v.enh(1, 0, n, 1, 0, n)))
        ird, ord_ = (x & 0x3fff for x in struct.unpack(">HH", w.head[1][:4]))
        want = 0x3fff if n == 0x3fff else 2
        ok((ird, ord_) == (want, want), f"R29: IRD and ORD of 0x{n:x} are clamped to what the RNIC has", (ird, ord_))
        w.close()
        d.over(1)
        ok(d.rss() - before < 4096, "R29: and allocate nothing", d.rss() - before)


def r3_hidden():
    d = Dut("--hide-stag-errors")
    for name, want in (("neg.write.pd", "1/1/00"), ("neg.write.stream", "1/1/00"), ("neg.rreq.pd", "0/1/00"), ("neg.rreq.stream", "0/1/00"),
                       ("neg.inv.pd", "0/1/09"), ("neg.at.pd", "0/1/00")):
        w = d.connect()
        w.raw(vec[name])
        t = w.terminate()
        w.close()
        good, why = clean(d.over(1))
        ok(t == want and good, f"R3: hide_stag_errors: {name} is answered {want}", f"{t} {why}")
    ok(d.end(), "R3: iwdut lives")


def r21_slow(d):
    """One octet per TCP segment: work per octet is bounded."""
    fp = v.fpdu(v.tagged(v.WRITE, S1, 0x1000, b"x" * 30))
    n, before = 20000, d.cpu()
    w = d.connect()
    blob = fp * (n // len(fp))
    for i in range(len(blob)):
        w.raw(blob[i:i + 1])
    w.fin()
    w.terminate()
    w.close()
    d.over(1)
    per = (d.cpu() - before) / len(blob)
    ok(per < (500e-6 if SAN else 100e-6), f"R21: octets in TCP segments of one: {per * 1e6:.1f} us of CPU each")
    before = d.cpu()
    one = v.fpdu(v.tagged(v.WRITE, S1, 0x1000, b"x"))
    w = d.connect()
    for _ in range(20):
        w.raw(one * 1000)
    w.fin()
    w.terminate()
    w.close()
    d.over(1)
    per = (d.cpu() - before) / 20000
    ok(per < (500e-6 if SAN else 50e-6), f"R21: Writes of one octet: {per * 1e6:.1f} us of CPU each")


def r26_zero_writes(d):
    n = 10 ** 7 if LONG else 10 ** 6
    w = d.connect()
    junk = v.fpdu(v.tagged(v.WRITE, 0xdeadbeef, 2 ** 64 - 1)) * 10000
    before, cpu = d.rss(), d.cpu()
    for _ in range(n // 10000):
        w.raw(junk)
    w.raw(vec["fpdu.send.5"])
    w.fin()
    w.terminate()
    w.close()
    lines = d.over(1, 300)
    grown, per = d.rss() - before, (d.cpu() - cpu) / n
    ok(clean(lines)[0] and not any("completion write" in x for x in lines), f"R26: {n} zero-length Writes with junk STags are let through without completions",
       lines[-5:])
    ok("completion recv 1 ok len 5 data 68656c6c6f" in lines, "R26: and what comes behind them is delivered", lines[:5])
    ok(grown < 4096, f"R26: memory stays flat ({grown} KiB), {per * 1e9:.0f} ns of CPU each")


def r31_never_reads(d):
    """The peer provokes a Terminate and then neither reads nor closes."""
    s = socket.socket()
    s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
    s.settimeout(60)
    s.connect(("127.0.0.1", d.port))
    w = peer.Wire(s)
    w.raw(vec["mpa.req.r1.c"])
    w.frame()
    base = d.files()
    w.raw(vec["fpdu.write.zero"] + vec["neg.qn4"])
    t = time.monotonic()
    lines = d.over(1)
    while d.files() >= base and time.monotonic() - t < 40:
        time.sleep(0.05)
    took = time.monotonic() - t
    w.close()
    ok(d.files() == base - 1 and took < 30, f"R31: a peer that neither reads the Terminate nor closes is let go after the timeout ({took:.1f} s)", lines[-3:])


def r34_storm(d):
    negs = [n for n in vec if n.startswith(("neg.", "neg2."))]
    n, bad = 100000 if LONG else 1000, []
    before = None
    for i in range(n):
        w = d.connect()
        w.raw(vec[rng.choice(negs)])
        w.terminate()
        w.close()
        lines = d.over(1)
        if any("CANARY DEAD" in x or x == "NOT OVER" for x in lines):
            bad.append(lines)
        if i == 100:
            before = d.rss()
    grown = d.rss() - before
    ok(not bad, f"R34: {n} connections with a random error each", bad[:1])
    ok(grown < (65536 if SAN else 2048), f"R34: memory stays flat ({grown} KiB)")


# ---- an RNIC that reads: iwctl rping -s ----

class Rping:
    def __init__(self, *args):
        self.p = subprocess.Popen([BUILD + "/iwctl", "rping", "-s", "-a", "127.0.0.1", "-p", "0", "-P", *args], stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE, text=True)
        self.port = int(self.p.stdout.readline().rsplit(" ", 1)[1])
        threading.Thread(target=self.p.stdout.read, daemon=True).start()
        threading.Thread(target=self.p.stderr.read, daemon=True).start()

    def reading(self, size=256):
        """A client that has advertised its text; returns it with the Read Request of the server: sink STag and TO."""
        w = connect(("127.0.0.1", self.port))
        w.raw(v.mpa(v.REQ, v.C, 1))
        w.frame()
        w.send(struct.pack(">QII", 0x1000, 0x77, size))
        while True:
            u = w.get()
            if u[1] & 0xF == v.RREQ:
                w.sink, w.to, w.size = struct.unpack(">IQI", u[18:34])
                return w

    def end(self):
        alive = self.p.poll() is None
        self.p.terminate()
        self.p.wait()
        return alive


def text(n):
    s = b"rdma-ping-0: "
    return s + bytes(65 + i % 58 for i in range(n - len(s) - 1)) + b"\0"


def r6_wrong_responses(r):
    cases = (
        ("another STag", lambda w: v.tagged(v.RRESP, w.sink ^ 0x100, w.to, b"x" * 256)),
        ("another TO", lambda w: v.tagged(v.RRESP, w.sink, w.to + 8, b"x" * 256)),
        ("too long", lambda w: v.tagged(v.RRESP, w.sink, w.to, b"x" * 257)),
        ("too short", lambda w: v.tagged(v.RRESP, w.sink, w.to, b"x" * 255)),
        ("out of order", lambda w: v.tagged(v.RRESP, w.sink, w.to + 128, b"x" * 128, last=False)),
        ("far beyond", lambda w: v.tagged(v.RRESP, w.sink, w.to + 2 ** 40, b"x" * 256)),
    )
    for what, make in cases:
        w = r.reading()
        w.put(make(w))
        t = w.terminate()
        w.close()
        ok(re.fullmatch(r"[01]/[012]/\w\w", t), f"R6: a Read Response with {what} ends in a Terminate ({t})", t)
    w = r.reading()
    w.put(v.tagged(v.RRESP, w.sink, w.to, text(256)))
    ok(w.get()[1] & 0xF == v.SEND, "R6: the right one is taken: the server goes on")
    w.put(v.tagged(v.RRESP, w.sink, w.to, text(256)))
    t = w.terminate()
    ok(re.fullmatch(r"[01]/[012]/\w\w", t), f"R6: the same once more, which nobody asked for ({t})", t)
    w.close()


def r7_write_to_the_sink(r):
    w = r.reading()
    w.write(w.sink, w.to, b"x" * 16)
    t = w.terminate()
    w.close()
    ok(t == "1/1/00", "R7: an RDMA Write to the sink that our Read Request showed: 1/1/00", t)
    w = r.reading()
    w.read(0x1, 0, 16, w.sink, w.to)
    t = w.terminate()
    w.close()
    ok(t == "0/1/02", "R7: an RDMA Read of the sink: 0/1/02", t)
    w = r.reading()
    w.send(struct.pack(">QII", 0x1000, 0x77, 64), v.SENDINV, w.sink)
    t = w.terminate()
    w.close()
    ok(t == "0/1/09", "R7: the sink invalidated while it is read into: 0/1/09", t)


def n6_replay(r):
    """Everything one client said, Responses included, said again on a new connection."""
    w = r.reading()
    w.put(v.tagged(v.RRESP, w.sink, w.to, text(256)))
    w.get()
    said, first = w.sent, w.sink
    w.close()
    w = connect(("127.0.0.1", r.port))
    try:
        w.raw(said)
    except Ended:
        pass
    t = w.terminate()
    w.close()
    # all at once is a protocol error of its own: octets behind the Request
    ok("EOF" in t or "reset" in t.lower(), "N6: a half connection replayed in one piece is closed", t)
    w = r.reading()
    ok(w.sink != first, "N6: the sink has another STag in each connection")
    w.put(v.tagged(v.RRESP, first, w.to, text(256)))
    t = w.terminate()
    w.close()
    ok(re.fullmatch(r"[01]/1/00", t) or re.fullmatch(r"1/1/\w\w", t) or re.fullmatch(r"0/2/\w\w", t), f"N6: the replayed Response meets another STag ({t})", t)


def n8_replies():
    """The client side: a Reply with one bit changed."""
    rep = v.mpa(v.REP, v.C | v.S, 2, v.enh(0, 0, 1, 0, 0, 1))
    bad, l = [], socket.create_server(("127.0.0.1", 0))
    l.settimeout(60)
    bits = range(len(rep) * 8) if LONG else rng.sample(range(len(rep) * 8), 48)
    for bit in bits:
        x = bytearray(rep)
        x[bit // 8] ^= 0x80 >> bit % 8
        p = subprocess.Popen([BUILD + "/iwctl", "rping", "-c", "-a", "127.0.0.1", "-p", str(l.getsockname()[1]), "-C", "1", "-t", "2"],
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        s, _ = l.accept()
        w = peer.Wire(s)
        try:
            w.frame()
            w.raw(bytes(x))
            w.fin()
            w.terminate()
        except (Ended, OSError):
            pass
        w.close()
        out, err = p.communicate(timeout=120)
        if p.returncode not in (0, 1) or b"anitizer" in err:
            bad.append(f"bit {bit}: status {p.returncode} {err.decode()}")
    l.close()
    ok(not bad, f"N8: {len(bits)} bits of an MPA Reply flipped, one at a time: the client ends cleanly", "\n".join(bad[:5]))


dut, marked = Dut(), Dut("--markers")
n2_guessing(dut)
n8_bit_flips(dut)
r3_hidden()
r4_third_segment(dut)
r21_slow(dut)
r24_headers(dut)
r26_zero_writes(dut)
r27_lengths(dut, marked)
r29_depths(dut)
r31_never_reads(dut)
r34_storm(dut)
ok(dut.end() and marked.end(), "the RNIC lives")
rping = Rping()
r6_wrong_responses(rping)
r7_write_to_the_sink(rping)
n6_replay(rping)
ok(rping.end(), "the reading RNIC lives")
n8_replies()
