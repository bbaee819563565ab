# SPDX-License-Identifier: MIT
"""One conversation of our queue pair (tests/differential_peer) with an RDMAP peer that rests on the independent encoder and decoder of
vectors.py: what is sent either way, what has to come of it, and what memory must hold at the end."""
import os
import random
import struct
import subprocess
import time

import vectors as v

# struct iw_wr.op, flags; rights; what a completion says (proto/qp.h)
SEND, WRITE, READ, IMM, FADD, CAS, RECV = range(7)
SE, INV, FENCE, INLINE, QUIET = 1, 2, 4, 8, 16
LOCAL_WRITE, REMOTE_READ, REMOTE_WRITE, REMOTE_ATOMIC, LOCAL_READ, READ_SINK = (1 << i for i in range(6))
OURS, OTHER_DOMAIN, SHARED = range(3)
OK, FLUSH = 0, 1
EV_TERM_SENT = 2
RTS, CLOSING = 1, 3
ONES = 2 ** 64 - 1
MULPDU_MAX = 64768
PATTERN = random.Random(1).randbytes(1 << 20)


class Wrong(Exception):
    pass


def check(good, *why):
    if not good:
        raise Wrong(" ".join(x.hex() if isinstance(x, (bytes, bytearray)) and len(x) < 200 else str(x) for x in why))


class Dut:
    """The queue pair under test: rounds of commands to tests/differential_peer."""

    def __init__(self, build, program="differential_peer"):
        self.p = subprocess.Popen([build + "/tests/" + program], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def round(self, commands):
        self.p.stdin.write(struct.pack("<I", len(commands)) + commands)
        self.p.stdin.flush()
        n = self.p.stdout.read(4)
        check(len(n) == 4, "the process under test died")
        n = struct.unpack("<I", n)[0]
        out = self.p.stdout.read(n)
        check(len(out) == n, "the process under test died")
        return self.records(out)

    def records(self, out):
        return records(out)

    def end(self):
        self.p.stdin.close()
        return self.p.wait()


def records(b):
    p = 0
    while p < len(b):
        kind = b[p:p + 1]
        p += 1
        if kind == b"T":
            n = struct.unpack_from("<I", b, p)[0]
            yield kind, b[p + 4:p + 4 + n]
            p += 4 + n
        elif kind == b"C":
            f = struct.unpack_from("<QBBBBBII8sQI", b, p)
            p += 41
            yield kind, f[:-1] + (b[p:p + f[-1]],)
            p += f[-1]
        elif kind == b"V":
            yield kind, b[p]
            p += 1
        elif kind in b"rp":
            yield kind, struct.unpack_from("<i", b, p)[0]
            p += 4
        elif kind == b"D":
            f = struct.unpack_from("<BBBBIBI", b, p)
            p += 13
            yield kind, f[:-1] + (b[p:p + f[-1]],)
            p += f[-1]
        else:
            raise Wrong("report " + kind.hex())


def fpdu_end(pos, ulpdu, markers):
    n = 2 + ulpdu + -(2 + ulpdu) % 4 + 4
    if not markers:
        return pos + n
    while n:
        if pos % 512 == 0:
            pos += 4
        k = min(n, 512 - pos % 512)
        pos += k
        n -= k
    return pos


class Area:
    def __init__(self, off, size, access, rng, kind=OURS):
        self.off, self.size, self.access, self.kind = off, size, access, kind
        self.stag = rng.randrange(1, 2 ** 32)
        self.to = rng.choice((0, rng.randrange(2 ** 64 - size - 1), 2 ** 64 - size - 1, rng.randrange(2 ** 32)))
        if access & REMOTE_ATOMIC:      # alignment is that of the address
            self.to -= self.to % 8

    def reg(self):
        return b"G" + struct.pack("<IQIIBB", self.stag, self.to, self.size, self.off, self.access, self.kind)


class Conversation:
    def __init__(self, dut, seed):
        self.dut, self.rng = dut, random.Random(seed)
        rng = self.rng
        self.big = rng.random() < 0.03
        k = 65536 if self.big else 8192
        self.arena = 12 * k
        base = rng.randrange(len(PATTERN) - self.arena)
        self.mem = bytearray(PATTERN[base:base + self.arena])      # what the arena must hold at the end
        self.src = Area(0, 2 * k, LOCAL_READ, rng)
        self.rsrc = Area(2 * k + 64, k, REMOTE_READ, rng)
        self.tgt = Area(4 * k + 64 + rng.randrange(64), 2 * k, REMOTE_WRITE, rng)
        self.sink = Area(7 * k + 64, k, READ_SINK, rng)
        self.words = Area(9 * k + 64, 128, REMOTE_ATOMIC | REMOTE_READ, rng)
        self.foreign = Area(9 * k, 64, 63, rng, OTHER_DOMAIN)
        self.shared = Area(9 * k, 64, 63, rng, SHARED)
        self.spare = [Area(9 * k + 300 + 16 * i, 16, REMOTE_WRITE, rng) for i in range(4)]
        self.nrecv, self.rsize = 12, k // 4
        self.rbuf = Area(9 * k + 512, self.nrecv * self.rsize, LOCAL_WRITE, rng)
        self.areas = [self.src, self.rsrc, self.tgt, self.sink, self.words, self.foreign, self.shared, self.rbuf] + self.spare
        while len({a.stag for a in self.areas}) != len(self.areas):
            self.spare[0].stag = rng.randrange(1, 2 ** 32)
        self.initiator = rng.random() < 0.5
        self.crc, self.txm, self.rxm = rng.random() < 0.8, rng.random() < 0.3, rng.random() < 0.3
        self.rtr = rng.randrange(4) if self.initiator else 0
        self.ird, self.ord = rng.randint(1, 8), rng.randint(1, 8)
        self.mulpdu = self.new_mulpdu()
        msn = [1 if rng.random() < 0.7 else 2 ** 32 - 1 - rng.randrange(4) for _ in range(2)] + [1, 1]
        self.their_msn, self.our_msn = list(msn), list(msn)        # ours is what the peer sends
        self.tx = v.Tx(markers=self.rxm, crc=self.crc)
        self.first_sent = False
        # from the queue pair to the peer
        self.stream, self.nulpdu, self.pos, self.chunks = b"", 0, 0, []
        self.posted, self.next, self.off, self.completed = [], 0, 0, 0
        self.rtr_due = self.rtr
        self.to_answer = []             # its Reads and Atomics, as the wire showed them
        self.rid = None
        self.terminate, self.over = None, False
        # from the peer to the queue pair
        self.recv_left, self.recv_next, self.recv_due = self.nrecv - 1, 0, []
        self.asked, self.resp_off = [], 0       # our Reads and Atomics
        self.events, self.flushed = [], []

    def new_mulpdu(self):
        return self.rng.choice((128, 129, 131, 200, 530, 1442, 1442, 8942, MULPDU_MAX))

    def length(self, most):
        r = self.rng
        return r.choice((0, r.randrange(20), r.randrange(20), r.randrange(600), r.randrange(most))) % (most + 1)

    # ---- the queue pair is told to send ----
    def gather(self, n):
        rng, sges = self.rng, []
        for i in range(rng.randint(1, 4)):
            k = n if i == 3 else rng.randint(0, n)
            sges.append((self.src.stag, rng.randrange(self.src.size - k + 1), k))
            n -= k
        if n:
            sges[-1] = (self.src.stag, rng.randrange(self.src.size - n - sges[-1][2] + 1), sges[-1][2] + n)
        return sges

    def post(self, op=None):
        rng = self.rng
        w = {"op": rng.choice((SEND, SEND, SEND, WRITE, WRITE, READ, READ, IMM, FADD, CAS)) if op is None else op, "flags": 0, "sge": [], "inv": 0, "rstag": 0,
             "rto": 0, "imm": bytes(8), "at": (0, 0, 0, 0), "inl": b"", "id": len(self.posted)}
        if rng.random() < 0.3:
            w["flags"] |= QUIET
        if rng.random() < 0.1:
            w["flags"] |= FENCE
        if w["op"] in (SEND, IMM) and rng.random() < 0.4:
            w["flags"] |= SE
        if w["op"] == SEND:
            w["sge"] = self.gather(self.length(self.src.size // 4))
            if rng.random() < 0.3:
                w["flags"] |= INV
                w["inv"] = rng.randrange(2 ** 32)
            if rng.random() < 0.4:
                w["flags"] |= INLINE
                w["inl"] = rng.randbytes(rng.randrange(65))
                if rng.random() < 0.5:
                    w["sge"] = []
        elif w["op"] == WRITE:
            w["sge"] = self.gather(self.length(self.src.size // 2))
            w["rstag"], w["rto"] = rng.randrange(2 ** 32), rng.randrange(2 ** 64 - self.src.size)
        elif w["op"] == READ:
            n = self.length(self.sink.size // 8)
            # slots of its own, so that Responses do not overlap
            slot = self.sink.size // 8 * (sum(x["op"] == READ for x in self.posted) % 8)
            w["sge"] = [(self.sink.stag, self.sink.to + slot, n)] if n or rng.random() < 0.5 else []
            w["rstag"], w["rto"] = rng.randrange(2 ** 32), rng.randrange(2 ** 64)
        elif w["op"] == IMM:
            w["imm"] = rng.randbytes(8)
        else:
            w["rstag"], w["rto"] = rng.randrange(2 ** 32), rng.randrange(2 ** 64)
            w["at"] = tuple(rng.choice((0, ONES, rng.randrange(2 ** 64))) for _ in range(4))
        sges = w["sge"] if w["op"] == READ else [(s, self.src.to + o, n) for s, o, n in w["sge"]]
        w["data"] = w["inl"] + b"".join(bytes(self.mem[self.src.off + o:self.src.off + o + n]) for _, o, n in w["sge"]) \
            if w["op"] in (SEND, WRITE) else b""
        self.posted.append(w)
        return b"P" + struct.pack("<QBBBBIIQ8s4Q", w["id"], w["op"], w["flags"], len(sges), len(w["inl"]), w["inv"], w["rstag"],
                                  w["rto"], w["imm"], *w["at"]) + b"".join(struct.pack("<IQI", *g) for g in sges) + w["inl"]

    # ---- what it sends ----
    def expect_untagged(self, u, op, qn, mo, last, inv=0):
        msn = self.their_msn[qn]
        check(u[:18] == v.untagged(op, qn, msn, mo, inv=inv, last=last), "header", u[:18], "op", op, "qn", qn, "msn", msn, "mo", mo)
        if last:
            self.their_msn[qn] = (msn + 1) % 2 ** 32
        return u[18:]

    def cut(self, u, hdr, want, off):
        """One segment of a message of the send queue or of a Response: as large as possible, or, where FPDUs may have any size, as many as
        that takes, of about the same length."""
        left, most = len(want) - off, self.seg_mulpdu - hdr
        n = min(left, most)
        if self.seg_mulpdu == MULPDU_MAX and left > most:
            parts, n = -(-left // most), len(u) - hdr
            check(0 < n <= most and left - n <= (parts - 1) * most and abs(n - left / parts) < 8, "uneven segment of", n, "at", off, "of", len(want))
        check(len(u) == hdr + n, "segment of", len(u), "at", off, "of", len(want), "MULPDU", self.seg_mulpdu)
        check(u[hdr:] == want[off:off + n], "payload differs at", off, "of", len(want))
        last = off + n == len(want)
        check(bool(u[0] & 0x40) == last, "L bit")
        return last, 0 if last else off + n

    def got_rtr(self, u):
        want = {1: v.tagged(v.WRITE, 0, 0), 2: v.untagged(v.RREQ, 1, self.their_msn[1], 0, v.rreq_hdr(0, 0, 0, 0, 0)),
                3: v.untagged(v.SEND, 0, self.their_msn[0], 0)}[self.rtr_due]
        check(u == want, "RTR", u)
        if self.rtr_due > 1:
            qn = 3 - self.rtr_due
            self.their_msn[qn] = (self.their_msn[qn] + 1) % 2 ** 32
        if self.rtr_due == 2:
            self.to_answer.append({"op": READ, "stag": 0, "to": 0, "n": 0, "wr": None})
        self.rtr_due = 0

    def got_request(self, u, w):
        if w["op"] == READ:
            h = self.expect_untagged(u, v.RREQ, 1, 0, True)
            stag, to, n = w["sge"][0] if w["sge"] else (0, 0, 0)
            check(h == v.rreq_hdr(stag, to, n, w["rstag"], w["rto"]), "Read Request", h)
            self.to_answer.append({"op": READ, "stag": stag, "to": to, "n": n, "wr": w})
        else:
            h = self.expect_untagged(u, v.ATREQ, 1, 0, True)
            rid = struct.unpack(">I", h[4:8])[0]
            a = w["at"] if w["op"] == CAS else (w["at"][0], w["at"][1], 0, ONES)
            check(h == v.at_hdr(0 if w["op"] == FADD else 2, rid, w["rstag"], w["rto"], *a), "Atomic Request", h)
            check(self.rid is None or rid == self.rid + 1, "request identifier", rid)
            self.rid = rid
            self.to_answer.append({"op": w["op"], "rid": rid, "wr": w})
        check(len(self.to_answer) <= self.ord, "more Reads and Atomics in flight than ORD", self.ord)

    def got_send_queue(self, u):
        check(self.next < len(self.posted), "a message nobody posted", u[:18])
        w = self.posted[self.next]
        last = True
        if w["op"] in (READ, FADD, CAS):
            check(not w["flags"] & FENCE or not self.to_answer, "the fence does not hold")
            self.got_request(u, w)
        elif w["op"] == IMM:
            h = self.expect_untagged(u, v.IMMSE if w["flags"] & SE else v.IMM, 0, 0, True)
            check(h == w["imm"], "Immediate Data", h)
        elif w["op"] == WRITE:
            check(u[:14] == v.tagged(v.WRITE, w["rstag"], w["rto"] + self.off, last=bool(u[0] & 0x40)), "Write header", u[:14])
            last, self.off = self.cut(u, 14, w["data"], self.off)
        else:
            op = {0: v.SEND, INV: v.SENDINV, SE: v.SENDSE, SE | INV: v.SENDSEINV}[w["flags"] & (SE | INV)]
            self.expect_untagged(u, op, 0, self.off, bool(u[0] & 0x40), inv=w["inv"])
            last, self.off = self.cut(u, 18, w["data"], self.off)
        if last:
            self.next += 1

    def got_response(self, u):
        check(self.asked, "a Response nobody asked for", u[:18])
        a = self.asked[0]
        if a["op"] == READ:
            check(u[:14] == v.tagged(v.RRESP, a["stag"], (a["to"] + self.resp_off) % 2 ** 64, last=bool(u[0] & 0x40)), "Response", u[:14])
            last, self.resp_off = self.cut(u, 14, a["data"], self.resp_off)
            if not last:
                return
        else:
            h = self.expect_untagged(u, v.ATRESP, 3, 0, True)
            check(h == struct.pack(">IQ", a["rid"], a["orig"]), "Atomic Response", h, a)
        self.asked.pop(0)

    def got(self, u):
        check(not self.over, "something follows the Terminate", u)
        check(self.initiator or self.first_sent, "a Responder spoke first", u)
        check(len(u) >= 14, "short", u)
        op = u[1] & 15
        if op == v.TERM:
            check(self.terminate is not None and u == self.terminate, "Terminate", u, "want", self.terminate or b"none")
            self.over = True
        elif self.terminate is not None:
            raise Wrong("a message after the error: " + u[:18].hex())
        elif self.rtr_due:
            self.got_rtr(u)
        elif op in (v.RRESP, v.ATRESP):
            check(not self.off, "a Response between the segments of a message")
            self.got_response(u)
        else:
            check(not self.resp_off, "a message between the segments of a Response")
            self.got_send_queue(u)

    def decode(self):
        if len(self.stream) == self.pos:
            return
        us = v.rx(self.stream, markers=self.txm, crc=self.crc)
        chunk = 0
        for u in us[self.nulpdu:]:
            self.pos = fpdu_end(self.pos, len(u), self.txm)
            while self.chunks[chunk][0] < self.pos:
                chunk += 1
            self.seg_mulpdu = self.chunks[chunk][1]
            self.got(u)
        check(self.pos == len(self.stream), "position", self.pos, "of", len(self.stream))
        self.nulpdu = len(us)
        if not self.crc:        # the field is there and 0
            check(self.stream[-4:] in (b"", bytes(4)), "CRC field")

    # ---- the peer sends ----
    def segments(self, op, data, hdr):
        """Cut anywhere, the last one may be empty."""
        rng, out, off = self.rng, [], 0
        size = rng.choice((rng.randint(1, 200), rng.randint(100, 3000), 60000))
        while True:
            n = min(len(data) - off, size)
            last = off + n == len(data) and (not n or off == 0 or rng.random() < 0.95)
            out.append(hdr(op, off, data[off:off + n], last))
            off += n
            if last:
                return out

    def untagged_message(self, op, qn, data, inv=0):
        msn = self.our_msn[qn]
        self.our_msn[qn] = (msn + 1) % 2 ** 32
        rsv = {"rsv_d": self.rng.randrange(16), "rsv_r": self.rng.randrange(4)} if self.rng.random() < 0.1 else {}
        return self.segments(op, data, lambda o, off, d, last: v.untagged(o, qn, msn, off, d, inv=inv, last=last, **rsv))

    def tagged_message(self, op, stag, to, data):
        return self.segments(op, data, lambda o, off, d, last: v.tagged(o, stag, to + off if d or not data else to, d, last=last))

    def peer_write(self):
        data = self.rng.randbytes(self.length(self.tgt.size // 2))
        if not data:
            return [v.tagged(v.WRITE, self.rng.randrange(2 ** 32), self.rng.randrange(2 ** 64))]
        off = self.rng.randrange(self.tgt.size - len(data) + 1)
        self.mem[self.tgt.off + off:self.tgt.off + off + len(data)] = data
        return self.tagged_message(v.WRITE, self.tgt.stag, self.tgt.to + off, data)

    def peer_send(self):
        rng = self.rng
        op = rng.choice((v.SEND, v.SEND, v.SENDSE, v.SENDINV, v.SENDSEINV, v.IMM, v.IMMSE))
        if op in (v.SENDINV, v.SENDSEINV) and not self.spare:
            op = v.SEND
        imm = op in (v.IMM, v.IMMSE)
        data = rng.randbytes(8) if imm else rng.randbytes(self.length(self.rsize))
        inv = self.spare.pop().stag if op in (v.SENDINV, v.SENDSEINV) else None
        se = op in (v.SENDSE, v.SENDSEINV, v.IMMSE)
        i = self.recv_next
        self.recv_next += 1
        self.recv_left -= 1
        self.recv_due.append((i, RECV, OK, int(se), int(imm), int(inv is not None), len(data), inv or 0, data if imm else bytes(8), 0,
                              b"" if imm else data))
        if not imm:
            off = self.rbuf.off + i * self.rsize
            self.mem[off:off + len(data)] = data
        junk = rng.randrange(2 ** 32) if inv is None and rng.random() < 0.1 else 0
        return self.untagged_message(op, 0, data, inv=inv if inv is not None else junk)

    def peer_read(self):
        rng = self.rng
        n = self.length(self.rsrc.size)
        off = rng.randrange(self.rsrc.size - n + 1)
        a = {"op": READ, "stag": rng.randrange(2 ** 32), "to": rng.randrange(2 ** 64),
             "data": bytes(self.mem[self.rsrc.off + off:self.rsrc.off + off + n])}
        self.asked.append(a)
        src = (self.rsrc.stag, self.rsrc.to + off) if n else (rng.randrange(2 ** 32), rng.randrange(2 ** 64))
        return self.untagged_message(v.RREQ, 1, v.rreq_hdr(a["stag"], a["to"], n, *src))

    def peer_atomic(self):
        rng = self.rng
        cas, off = rng.random() < 0.5, 8 * rng.randrange(16)
        at = self.words.off + off
        orig = struct.unpack_from("=Q", self.mem, at)[0]
        d, m, c, cm = (rng.choice((0, ONES, rng.randrange(2 ** 64))) for _ in range(4))
        if cas and rng.random() < 0.7:
            c = orig
        struct.pack_into("=Q", self.mem, at, v.cmpswap(orig, c, cm, d, m) if cas else v.fetchadd(orig, d, m))
        self.asked.append({"op": CAS if cas else FADD, "rid": rng.randrange(2 ** 32), "orig": orig})
        return self.untagged_message(v.ATREQ, 1, v.at_hdr(2 if cas else 0, self.asked[-1]["rid"], self.words.stag, self.words.to + off,
                                                          d, m, c, cm, rsvd=rng.choice((0, 0xfffffff))))

    def peer_answer(self):
        a = self.to_answer.pop(0)
        w = a["wr"]
        if a["op"] == READ:
            data = self.rng.randbytes(a["n"])
            if w is not None and data:
                off = a["to"] - self.sink.to + self.sink.off
                self.mem[off:off + len(data)] = data
            us = self.tagged_message(v.RRESP, a["stag"], a["to"], data)
        else:
            w["orig"] = self.rng.randrange(2 ** 64)
            us = self.untagged_message(v.ATRESP, 3, struct.pack(">IQ", a["rid"], w["orig"]))
        if w is not None:
            w["answered"] = True
        return us

    def peer_message(self):
        rng = self.rng
        kinds = [self.peer_write]
        if self.recv_left:
            kinds += [self.peer_send] * 2
        if len(self.asked) < self.ird:
            kinds += [self.peer_read, self.peer_atomic]
        if self.to_answer:
            kinds += [self.peer_answer] * 3
        return rng.choice(kinds)()

    def frame(self, us, **kw):
        out = b""
        for u in us:
            self.tx.out = b""
            out += self.tx.fpdu(u, **kw)
            self.first_sent = True
        return out

    def cuts(self, octets):
        rng, out = self.rng, []
        how = rng.randrange(4)
        while octets:
            n = len(octets) if how == 0 else rng.randint(1, 9) if how == 1 and len(octets) < 300 else rng.randint(1, len(octets))
            n = min(n, len(octets))
            out.append(b"R" + struct.pack("<I", n) + octets[:n])
            octets = octets[n:]
        return out

    # ---- rounds ----
    def merge(self, *lists):
        lists = [list(x) for x in lists if x]
        while lists:
            x = self.rng.choice(lists)
            yield x.pop(0)
            lists = [y for y in lists if y]

    def round(self, commands):
        """commands in order; what they bring is booked."""
        sent = [c for c in commands if c[:1] in b"TM"]
        for kind, x in self.dut.round(b"".join(commands)):
            while sent and sent[0][:1] == b"M":
                self.mulpdu = struct.unpack("<H", sent.pop(0)[1:])[0]
            if kind == b"T":
                sent.pop(0)
                self.stream += x
                self.chunks.append((len(self.stream), self.mulpdu))
            elif kind == b"C":
                self.completion(x)
            elif kind == b"V":
                self.events.append(x)
            elif kind == b"D":
                self.last = x
            else:
                check(x == 0, "post", x)
        for c in sent:
            self.mulpdu = struct.unpack("<H", c[1:])[0]
        self.decode()

    def completion(self, c):
        if c[1] == RECV and c[2] == OK:
            check(self.recv_due, "a receive nobody sent", c)
            want = self.recv_due.pop(0)
            check(c == want, "receive", c[:-1], "want", want[:-1])
        elif c[2] == OK:
            while self.posted[self.completed]["flags"] & QUIET:
                self.completed += 1
            w = self.posted[self.completed]
            self.completed += 1
            check(c[0] == w["id"] and c[1] == w["op"], "completion", c, "want", w["id"])
            check(w["op"] not in (READ, FADD, CAS) or w.get("answered"), "completed before its Response", c)
            check(w["op"] not in (FADD, CAS) or c[9] == w["orig"], "original value", c, w)
        else:
            self.flushed.append(c)

    def everything(self):
        """Until nobody has anything to say any more."""
        if not self.first_sent:
            self.round(self.cuts(self.frame([v.tagged(v.WRITE, 0, 0)])))
        for _ in range(400):
            before = len(self.stream)
            us = []
            while self.to_answer:
                us += self.peer_answer()
            self.round(self.cuts(self.frame(us)) + [b"T\0\0\0\0", b"A\xff\xff\xff\xff"] * 3)
            if len(self.stream) == before and not us:
                return
        raise Wrong("no end")

    def settled(self):
        while self.completed < len(self.posted) and self.posted[self.completed]["flags"] & QUIET:
            self.completed += 1
        check(self.next == len(self.posted) == self.completed, "sent", self.next, "completed", self.completed, "of", len(self.posted))
        check(not self.asked and not self.recv_due, "unanswered or undelivered", len(self.asked), len(self.recv_due))
        self.round([b"D" + struct.pack("<I", self.arena)])
        check(self.last[0] == RTS and self.last[4] == 0, "state", self.last[:6])
        check(self.last[5] == len(self.areas) - 4 + len(self.spare), "registrations left", self.last[5])
        self.same_memory(self.last[6])
        check(self.events == [1], "events", self.events)

    def same_memory(self, got, but=None):
        if got == bytes(self.mem):
            return
        for i, (a, b) in enumerate(zip(got, self.mem)):
            if a != b and (but is None or not but[0] <= i < but[1]):
                raise Wrong(f"memory differs at {i:#x} of {self.arena:#x}")

    def talk(self):
        rng = self.rng
        start = b"S" + struct.pack("<5B3H", self.initiator, self.crc, self.txm, self.rxm, self.rtr, self.mulpdu, self.ird, self.ord) + \
            struct.pack("<8I", *self.their_msn, *self.our_msn)
        recvs = [b"B" + struct.pack("<QIQI", i, self.rbuf.stag, self.rbuf.to + i * self.rsize, self.rsize) for i in range(self.nrecv)]
        self.round([b"N" + struct.pack("<I", self.arena) + bytes(self.mem)] + [a.reg() for a in self.areas] + recvs + [start])
        for _ in range(rng.randint(1, 3)):
            us = []
            posts = [self.post() for _ in range(rng.randrange(6))]
            for _ in range(rng.randrange(5)):
                us += self.peer_message()
            self.round(list(self.merge(
                posts, self.cuts(self.frame(us)),
                [b"M" + struct.pack("<H", self.new_mulpdu()) for _ in range(rng.randrange(3))],
                [b"T" + struct.pack("<I", rng.choice((0, 1, rng.randrange(3000)))) for _ in range(rng.randrange(8))],
                [b"A" + struct.pack("<I", rng.choice((2 ** 32 - 1, rng.randrange(4000)))) for _ in range(rng.randrange(6))])))
        self.everything()
        self.settled()


def soak(dut, kind, title, runs, secs, count, what, few=0):
    """Random conversations, runs of them or as many as end in secs: IW_RUNS, IW_LIMIT and IW_SEED instead. count(c), of which the sum is told as what,
    has to be more than one each, if there are more than few. Says TAP's one line; returns the exit status."""
    seed = int(os.environ.get("IW_SEED", str(time.time_ns() // 1000 % 10 ** 9)), 0)
    limit = float(os.environ.get("IW_LIMIT", "0" if "IW_RUNS" in os.environ else secs))
    runs = int(os.environ.get("IW_RUNS", runs), 0)
    began, done, counted = time.monotonic(), 0, 0
    print(f"# IW_SEED={seed} IW_RUNS={runs}", flush=True)
    for i in range(runs):
        c = kind(dut, seed + i)
        try:
            c.talk()
        except (Wrong, ValueError, IndexError, struct.error) as e:
            print(f"not ok 1 - conversation: IW_SEED={seed + i} IW_RUNS=1\n# {type(e).__name__}: {e}\n1..1")
            if "IW_DEBUG" in os.environ:
                raise
            return 1
        done += 1
        counted += count(c)
        if limit and time.monotonic() - began > limit:
            break
        if runs >= 10000 and done % 10000 == 0:
            print(f"# {done}, {done / (time.monotonic() - began):.0f} a second", flush=True)
    took = time.monotonic() - began
    good = dut.end() == 0 and (counted > done or runs < few)
    print(f"# {done} conversations, {counted} {what}, {done / took:.0f} conversations a second")
    print(f"{'ok' if good else 'not ok'} 1 - {title}\n1..1")
    return not good
