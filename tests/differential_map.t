#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Random conversations between an end of a stream, which is handed over between daemon and map again and again, and a peer of the ring stream on
top of the independent encoder and decoder of vectors.py. A third of them end with something wrong and must be answered by the exact Terminate, or
ABORT. IW_SEED repeats, IW_RUNS sets the number, IW_LIMIT the seconds."""
import os
import struct
import sys

top = os.environ.get("IW_TOP", os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
build = os.environ.get("IW_BUILD", top + "/build/plain")
sys.path[:0] = [top + "/tests", top + "/tests/lib"]
sys.dont_write_bytecode = True
import vectors as v  # noqa: E402
from conversation import ONES, check, soak  # noqa: E402
from ringtalk import ABORT, CANCEL, CREDIT, DATA, IMM, INLINE, M48, RDDONE, SRCAVAIL, URGENT, Dut, Talk  # noqa: E402

DEAD, CLOSING = 8, 3


class Faulty(Talk):
    """A conversation that may end with something wrong, and the exact answer."""

    def talk(self):
        super().talk()
        if self.rng.random() < 0.4:
            self.fault()
        else:
            self.fins()

    def frames(self):
        """That a queue pair in a map refuses, with layer, type and code."""
        rng, it, m = self.rng, self.it, self.msn_out
        d, end = rng.randbytes(rng.randint(1, 32)), self.it.to + self.it.ring
        other = rng.choice((it.stag ^ 1, self.us.stag, 0x300, 0x400, 0x100, 0xdeadbeef))
        if other != it.stag:
            yield v.tagged(v.WRITE, other, it.to, d), 1, 1, 0
            yield v.untagged(v.SENDINV, 0, m[0], 0, bytes(8), other), 0, 1, 9
        yield v.untagged(v.SENDINV, 0, m[0], 0, bytes(8), it.stag), 0, 1, 9
        yield v.tagged(v.WRITE, it.stag, end - len(d), d + b"x"), 1, 1, 3 if end > ONES else 1
        if it.to:
            yield v.tagged(v.WRITE, it.stag, it.to - 1, d), 1, 1, 1
        yield v.tagged(v.WRITE, it.stag, 2 ** 64 - rng.randint(1, len(d)), d + b"xx"), 1, 1, 3
        yield v.untagged(v.RREQ, 1, m[1], 0, v.rreq_hdr(1, 2, 4, it.stag, it.to)), 0, 1, 2
        yield v.untagged(v.ATREQ, 1, m[1], 0, v.at_hdr(0, 1, it.stag, it.to, 1, 0, 0, ONES)), 0, 1, 2
        yield v.tagged(v.RRESP, it.stag, it.to, d), 0, 2, 6
        yield v.tagged(v.WRITE, it.stag, it.to, d, dv=rng.choice((0, 2, 3))), 1, 1, 4
        yield v.untagged(v.SEND, 0, m[0], 0, d, rv=rng.choice((0, 2, 3))), 0, 2, 5
        yield v.untagged(rng.choice((12, 13, 14, 15)), 0, m[0], 0, d), 0, 2, 6
        yield v.untagged(v.SEND, rng.choice((4, 2 ** 32 - 1)), m[0], 0, d), 1, 2, 1
        yield v.untagged(v.SEND, 0, m[0] - 1, 0, d), 1, 2, 3
        yield v.untagged(v.SEND, 0, m[0] + it.bufs + rng.randrange(2 ** 20), 0, d), 1, 2, 2
        yield v.untagged(v.SEND, 0, m[0], rng.randint(1, 2 ** 32 - 1), d), 1, 2, 4
        yield v.untagged(v.SEND, 0, m[0], 0, bytes(it.size + 1)), 1, 2, 5
        yield v.untagged(v.IMM, 0, m[0], 0, bytes(rng.choice((0, 7, 9)))), 0, 2, 0xff
        yield v.tagged(v.WRITE, it.stag, it.to)[:rng.randrange(14)], 1, 0, 0
        if self.crc:
            yield v.untagged(v.SEND, 0, m[0], 0, d), 2, 0, 2

    def words(self):
        """That the ring stream refuses."""
        rng, n = self.rng, self.it.ring - (self.pos - self.acked)
        yield 10 + rng.randrange(6), 0, 0, b""
        yield CREDIT, 15, 0, b""
        yield CREDIT, 0, rng.randint(1, M48), b""
        yield DATA, 0, self.pos + self.it.ring + rng.randint(1, 1 << 30), b""
        yield DATA, 0, self.pos - 1, b""
        yield 2, 0, self.wpos + rng.randint(1, 1 << 30), b""     # ACK
        yield 2, 1, self.wpos, b""
        yield SRCAVAIL, 0, self.ids + 1, struct.pack(">IQQ", 1, 0, rng.choice((0, 2 ** 30 + 1, 2 ** 63)))
        yield SRCAVAIL, 0, self.ids + 1, struct.pack(">IQQ", 1, 2 ** 64 - 8, 64)
        yield SRCAVAIL, 0, self.ids + 1, bytes(rng.choice((0, 19, 21)))
        yield SRCAVAIL, 0, self.ids, struct.pack(">IQQ", 1, 0, 64)
        yield RDDONE, 0, rng.randrange(1 << 40), struct.pack(">Q", 5)
        yield CANCEL, 0, self.ids + 1, b""
        yield ABORT, 0, rng.choice((0, 4096)), b""
        yield URGENT, 0, 9, b""
        yield INLINE, 0, self.pos + 9, bytes(8) if n > 9 else bytes(10)

    def fault(self):
        rng = self.rng
        for _ in range(2):
            if not self.mapped:
                self.round([b"U"])
        what = rng.random()
        if what < 0.6 and self.mapped:
            bad, layer, etype, code = rng.choice(list(self.frames()))
            self.terminate = v.term(layer, etype, code) if layer == 2 or not etype else v.term_for(layer, etype, code, bad)
            kw = {"corrupt": rng.randrange(1, 2 ** 32).to_bytes(4, "big")} if layer == 2 else {}
            self.tx.out = b""
            self.out += self.tx.fpdu(bad, **kw)
            want = v.TERM
        else:
            self.terminate, want = b"", ABORT
            kind, flags, value, body = rng.choice([w for w in self.words() if self.caps & IMM or w[0] != CREDIT or w[1] or w[2]])
            if not self.caps & IMM and kind in (10, 11, 12, 13, 14, 15):
                body = bytes(1)
            self.word(kind, flags, value, body)
        self.tagged(v.WRITE, self.it.stag, self.it.to + self.pos % self.it.ring, b"l")
        self.frame(v.untagged(v.SEND, 0, self.msn_out[0], 0, struct.pack(">Q", DATA << 60 | (self.pos + 1) & M48)))
        commands, mapped = [], self.mapped
        while self.out:
            commands += self.deliver()
        self.round(commands + ([b"U"] if rng.random() < 0.5 else []) + [b"T\0\0\x10\0", b"D"])
        check(self.ended == want, "ended by", self.ended, "want", want, self.terminate)
        check(self.state & 15 == DEAD or not self.mapped, "state", self.state)
        check(self.state >> 8 == CLOSING or want == ABORT, "queue pair", self.state)
        read = self.checked
        self.round([b"G\0\0\x10\0", self.write(1), b"T\0\0\x10\0"] + [b"U"] * (mapped and self.mapped))
        check(self.checked == read, "octets behind the end", self.checked - read)


sys.exit(soak(Dut(build), Faulty, "random conversations of an end that is mapped and taken back", "2000", "20", lambda c: c.handed, "times handed over", 10))
