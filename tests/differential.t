#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Random conversations between our queue pair and an RDMAP peer on top of the independent encoder and decoder of vectors.py: what ours
sends is decoded and compared field by field, what the peer sends has to arrive, cut anywhere. Every fourth conversation ends with
something wrong and must be answered by the exact Terminate. IW_SEED repeats, IW_RUNS sets the number."""
import os
import struct
import sys

top = os.environ.get("IW_TOP", os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
build = os.environ.get("IW_BUILD", top + "/build/plain")
sys.path[:0] = [top + "/tests", top + "/tests/lib"]
sys.dont_write_bytecode = True
import vectors as v  # noqa: E402
from conversation import CAS, CLOSING, EV_TERM_SENT, FADD, FLUSH, ONES, READ, Conversation, Dut, check, soak  # noqa: E402


class Faulty(Conversation):
    """A conversation that may end with something wrong, and the exact answer."""

    def talk(self):
        super().talk()
        if self.rng.random() < 0.25:
            self.fault()

    def faults(self):
        rng = self.rng
        d = rng.randbytes(rng.randint(1, 32))
        m0, m1 = self.our_msn[0], self.our_msn[1]
        r1 = rng.randrange(1, 2 ** 31)
        stag = 0xdeadbeef ^ rng.randrange(256)
        w, x, t = self.tgt, self.rsrc, self.words
        sink = (rng.randrange(2 ** 32), rng.randrange(2 ** 64))
        end = w.to + w.size

        def send(data=b"x", op=v.SEND, qn=0, msn=m0, mo=0, **k):
            return v.untagged(op, qn, msn % 2 ** 32, mo, data, **k)

        def rreq(n, st, to, msn=m1):
            return v.untagged(v.RREQ, 1, msn % 2 ** 32, 0, v.rreq_hdr(*sink, n, st, to % 2 ** 64))

        def atomic(to, st=t.stag, aop=0):
            return v.untagged(v.ATREQ, 1, m1, 0, v.at_hdr(aop, 1, st, to, 1, 0, 0, ONES))

        yield v.tagged(v.WRITE, stag, w.to, d), 1, 1, 0
        yield v.tagged(v.WRITE, x.stag, x.to, d), 1, 1, 0
        yield v.tagged(v.WRITE, self.foreign.stag, self.foreign.to, d), 1, 1, 2
        yield v.tagged(v.WRITE, w.stag, end - len(d) + 1, d), 1, 1, 3 if end == ONES else 1
        if w.to:
            yield v.tagged(v.WRITE, w.stag, w.to - 1, d), 1, 1, 1
        yield v.tagged(v.WRITE, w.stag, 2 ** 64 - rng.randint(1, len(d)), d + b"xx"), 1, 1, 3
        yield rreq(4, stag, 0), 0, 1, 0
        for to, n in ((x.to, x.size + 1), (x.to + x.size, 1)):
            yield rreq(n, x.stag, to), 0, 1, 4 if to + n > ONES else 1
        yield rreq(4, w.stag, w.to), 0, 1, 2
        yield rreq(4, self.foreign.stag, self.foreign.to), 0, 1, 3
        yield rreq(2 ** 32 - 1, x.stag, 2 ** 64 - rng.randint(1, 2 ** 32 - 2)), 0, 1, 4
        for dv in (0, 2, 3):
            yield v.tagged(v.WRITE, w.stag, w.to, d, dv=dv), 1, 1, 4
            yield send(dv=dv), 1, 2, 6
        for rv in (0, 2, 3):
            yield send(rv=rv), 0, 2, 5
        yield send(op=rng.choice((12, 13, 14, 15))), 0, 2, 6
        yield v.tagged(rng.choice((v.SEND, v.RREQ, v.TERM, v.IMM, v.ATREQ, 12)), w.stag, w.to, d), 0, 2, 6
        yield send(op=rng.choice((v.WRITE, v.RRESP))), 0, 2, 6
        yield send(qn=rng.choice((4, 5, 2 ** 32 - 1))), 1, 2, 1
        yield send(qn=rng.choice((1, 2, 3))), 0, 2, 6
        yield send(msn=m0 - r1), 1, 2, 3
        yield send(msn=m0 + self.recv_left + 1 + rng.randrange(2 ** 20)), 1, 2, 2
        if self.recv_left:
            yield send(msn=m0 + rng.randint(1, self.recv_left)), 1, 2, 3
        yield send(mo=rng.randint(1, 2 ** 32 - 1)), 1, 2, 4
        yield send(data=bytes(self.rsize + 1)), 1, 2, 5
        yield rreq(0, 0, 0, msn=m1 + self.ird), 1, 2, 2
        yield rreq(0, 0, 0, msn=m1 - r1), 1, 2, 3
        for op in (v.SENDINV, v.SENDSEINV):
            yield send(op=op, inv=rng.choice((stag, self.shared.stag, self.foreign.stag))), 0, 1, 9
        yield send(op=rng.choice((v.IMM, v.IMMSE)), data=bytes(rng.choice((0, 1, 7, 9, 16)))), 0, 2, 0xff
        yield v.untagged(v.RREQ, 1, m1, 0, v.rreq_hdr(*sink, 0, 0, 0)[:rng.randrange(28)]), 0, 2, 0xff
        yield atomic(t.to + rng.randint(1, 7)), 0, 2, 7
        yield atomic(t.to, aop=rng.choice((1, 3, 15))), 0, 2, 6
        yield atomic(t.to + t.size), 0, 1, 4 if t.to + t.size + 8 > ONES else 1
        yield atomic(t.to, st=stag), 0, 1, 0
        yield atomic(w.to, st=w.stag), 0, 1, 2
        yield atomic(self.foreign.to, st=self.foreign.stag), 0, 1, 3
        yield v.tagged(v.RRESP, self.sink.stag, self.sink.to, d), 0, 2, 6
        yield v.untagged(v.ATRESP, 3, self.our_msn[3], 0, bytes(12)), 1, 2, 2
        yield send()[:rng.randrange(18)], 1, 0, 0
        yield v.tagged(v.WRITE, w.stag, w.to)[:rng.randrange(14)], 1, 0, 0
        if self.crc:
            for _ in range(4):
                yield send(), 2, 0, 2

    def bad_responses(self):
        """A Read or Atomic of ours is out, and this is not its Response."""
        rng = self.rng
        self.round([self.post(rng.choice((READ, FADD, CAS))), b"T\0\0\0\0", b"A\xff\xff\xff\xff"])
        a = self.to_answer[0]
        d = rng.randbytes(rng.randint(1, 40))
        if a["op"] != READ:
            rid = (a["rid"] + rng.randrange(1, 2 ** 32)) % 2 ** 32
            yield v.untagged(v.ATRESP, 3, self.our_msn[3], 0, struct.pack(">IQ", rid, 0)), 0, 2, 0xff
            yield v.untagged(v.ATRESP, 3, self.our_msn[3], 0, struct.pack(">IQ", a["rid"], 0)[:rng.randrange(12)]), 0, 2, 0xff
            yield v.untagged(v.ATRESP, 3, self.our_msn[3], 0, bytes(13)), 1, 2, 5
            yield v.untagged(v.ATRESP, 3, self.our_msn[3] + 1, 0, bytes(12)), 1, 2, 2
            yield v.tagged(v.RRESP, self.sink.stag, self.sink.to, d), 0, 2, 6
            return
        n = a["n"]
        yield v.tagged(v.RRESP, a["stag"] ^ rng.randrange(1, 2 ** 32), a["to"], d), 1, 1, 0
        yield v.tagged(v.RRESP, a["stag"], a["to"], bytes(n + 1)), 1, 1, 1
        yield v.tagged(v.RRESP, a["stag"], a["to"], bytes(n + 1), last=False), 1, 1, 1
        if n:
            yield v.tagged(v.RRESP, a["stag"], (a["to"] + rng.randrange(1, 2 ** 64)) % 2 ** 64, d), 1, 1, 1
            yield v.tagged(v.RRESP, a["stag"], a["to"], bytes(rng.randrange(n))), 1, 1, 1
            yield v.tagged(v.WRITE, a["stag"], a["to"], d), 1, 1, 0       # what the Request showed is not for Writes
        yield v.untagged(v.ATRESP, 3, self.our_msn[3], 0, bytes(12)), 1, 2, 2

    def fault(self):
        rng = self.rng
        first = len(self.posted)
        bad, layer, etype, code = rng.choice(list(self.faults() if rng.random() < 0.8 else self.bad_responses()))
        kw = {"corrupt": rng.randrange(1, 2 ** 32).to_bytes(4, "big")} if (layer, code) == (2, 2) else {}
        self.terminate = v.term_for(layer, etype, code, bad) if bad else v.term(layer, etype, code)
        self.events, self.flushed = [], []
        posts = [self.post() for _ in range(rng.randrange(4))]
        after = self.frame([bad], **kw) + self.frame([v.untagged(v.SEND, 0, self.our_msn[0], 0, b"late"),
                                                      v.tagged(v.WRITE, self.tgt.stag, self.tgt.to, b"late")]) + rng.randbytes(rng.randrange(40))
        self.round(posts + self.cuts(after) + [b"T\0\0\0\0", b"A\xff\xff\xff\xff", b"T\0\0\0\0", b"D" + struct.pack("<I", self.arena)])
        check(self.over, "no Terminate for", bad, layer, etype, code)
        check(self.last[0] == CLOSING and self.last[1:4] == (layer, etype, code), "state", self.last[:4])
        check(self.events == [EV_TERM_SENT], "events", self.events)
        check([c[0] for c in self.flushed] == list(range(first, len(self.posted))) +
              list(range(self.recv_next, self.nrecv)) and all(c[2] == FLUSH for c in self.flushed), "flushed", self.flushed)
        at = self.rbuf.off + self.recv_next * self.rsize
        self.same_memory(self.last[6], (at, at + self.rsize))     # an undelivered buffer may hold anything


sys.exit(soak(Dut(build), Faulty, "random conversations with the independent decoder and encoder", "1500", "60",
              lambda c: len(c.stream) + c.tx.pos, "octets"))
