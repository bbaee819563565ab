# SPDX-License-Identifier: MIT
"""One conversation of an end of a stream (tests/differential_stream), which is handed over between daemon and map again and again, with a peer of
docs/ringstream.md that rests on the independent encoder and decoder of vectors.py: each frame of either side, credit, position and octet."""
import random
import struct

import conversation
import vectors as v
from conversation import check

DATA, INLINE, ACK, CREDIT, SRCAVAIL, RDDONE, CANCEL, URGENT, ABORT, PING = range(10)
FIN, DONE = 1, 4
IMM, OFFERS, INV = 1, 2, 4      # capabilities
M48 = 2 ** 48 - 1
RD_STAG = 0x300     # of the end, tests/unit/end_util.h


class Dut(conversation.Dut):
    """The end under test."""

    def __init__(self, build):
        super().__init__(build, "differential_stream")

    def records(self, b):
        p = 0
        while p < len(b):
            kind, n = b[p:p + 1], struct.unpack_from("<I", b, p + 1)[0]
            p += 5
            if kind in b"gT":
                yield kind, b[p:p + n]
                p += n
            else:
                yield kind, n


class Says:
    """What an end says of itself in the private data."""

    def __init__(self, rng):
        self.stag, self.ring = rng.randrange(0x1000, 2 ** 32), 65536 << rng.randrange(3)
        self.to = rng.choice((0, rng.randrange(2 ** 40), 2 ** 64 - self.ring))
        self.bufs, self.inline = rng.choice((8, 9, 20, 256)), rng.choice((0, 56, 512, rng.randrange(1000)))
        self.size = max(64, 8 + self.inline)
        self.caps = rng.choice((IMM | OFFERS | INV, rng.randrange(8)))

    def pack(self):
        return struct.pack("<IQIHHH", self.stag, self.to, self.ring, self.bufs, self.size, self.caps)


class Talk:
    def __init__(self, dut, seed):
        self.dut, self.rng = dut, random.Random(seed)
        rng = self.rng
        self.it, self.us = Says(rng), Says(rng)
        self.caps = self.it.caps & self.us.caps
        self.inline = min(self.it.inline, self.us.size - 8)
        self.crc, self.txm, self.rxm = rng.random() < 0.5, rng.random() < 0.2, rng.random() < 0.2
        self.large = rng.random() < 0.5
        self.mulpdu = 64768 if self.large else rng.choice((128, 131, 530, 1442, 1442, 8942))
        self.ird, self.ord = rng.randint(1, 8), rng.randint(1, 8)
        self.begin = struct.pack("<5B3H", rng.random() < 0.5, self.large, self.crc, self.txm, self.rxm, self.mulpdu, self.ird, self.ord)
        rd = 4096 << rng.randrange(6)
        self.begin += struct.pack("<5I", 4096 << rng.randrange(8), rd, rng.randint(512, rd), self.it.inline, rng.choice((0, 1000, 20000)))
        self.data = rng.randbytes(1 << 16) * 20
        self.mapped, self.handed = False, 0
        self.tx = v.Tx(markers=self.rxm, crc=self.crc)
        # from it to us
        self.stream, self.at, self.seen = b"", 0, 0     # octets, and how many octets and FPDUs of them were looked at
        self.msn_in, self.part = [1] * 4, None
        self.wrote = 0                                  # stream octets it took of data
        self.ring, self.wpos, self.prod, self.cons, self.told = bytearray(self.us.ring), 0, 0, 0, 0
        self.exts, self.read = [], 0
        self.fin, self.fin_told = False, False
        self.gave, self.owed, self.owed_more = self.us.bufs, 0, False
        self.reads = []                                 # its Reads: offer, sink, length
        # from us to it
        self.msn_out = [1] * 4
        self.said, self.checked = b"", 0                # stream octets, and how many of them it has read
        self.pos, self.acked = 0, 0                     # of its ring
        self.credits = self.it.bufs
        self.offers, self.ids, self.shut, self.fin_acked = [], 0, False, False
        self.asked = []                                 # our Reads: extent
        self.out = b""
        self.terminate, self.ended = None, None

    # ---- what it sends ----
    def decode(self):
        """All whole FPDUs there are."""
        us, at = [], self.at
        if self.txm:
            try:
                us = v.rx(self.stream, markers=True, crc=self.crc)[self.seen:]
            except (ValueError, struct.error) as e:     # part of one is there
                check("short FPDU" in str(e) or "2 bytes" in str(e), e)
                return
        else:
            while len(self.stream) >= at + 2:
                n = struct.unpack_from(">H", self.stream, at)[0]
                n += 2 + -(2 + n) % 4 + 4
                if len(self.stream) < at + n:
                    break
                f, at = self.stream[at:at + n], at + n
                check(f[-4:] == (v.crc_wire(f[:-4]) if self.crc else bytes(4)), "CRC", f[-4:])
                us.append(f[2:2 + struct.unpack_from(">H", f)[0]])
        self.at = at
        self.seen += len(us)
        for u in us:
            self.got(u)

    def got(self, u):
        check(self.ended is None, "something follows the end", u)
        check(len(u) <= self.mulpdu, "longer than MULPDU", len(u))
        op, last = u[1] & 15, bool(u[0] & 0x40)
        if u[0] & 0x80:
            stag, to = struct.unpack(">IQ", u[2:14])
            check(u[:2] == v.ctl(op, True, last=last) and op in (v.WRITE, v.RRESP), "tagged header", u[:14])
            (self.got_write if op == v.WRITE else self.got_response)(stag, to, u[14:], last)
            return
        inv, qn, msn, mo = struct.unpack(">IIII", u[2:18])
        if op == v.TERM:
            check(u == self.terminate, "Terminate", u, "want", self.terminate)
            self.ended = op
            return
        check(qn == (1 if op == v.RREQ else 0) and msn == self.msn_in[qn] and u[:2] == v.ctl(op, False, last=last), "header", u[:18], self.msn_in)
        if op == v.RREQ:
            self.msn_in[1] += 1
            self.got_request(u[18:])
            return
        was, body = self.part or ((op, inv), b"")
        check(was == (op, inv) and mo == len(body), "segment", u[:18])
        self.part = None if last else (was, body + u[18:])
        if last:
            self.msn_in[0] += 1
            self.got_word(op, inv, body + u[18:])

    def got_write(self, stag, to, data, last):
        check(stag == self.us.stag and to == self.us.to + self.wpos % self.us.ring and data, "Write", hex(stag), hex(to), len(data),
              "want", hex(self.us.stag), hex(self.us.to), self.wpos)
        at = self.wpos % self.us.ring
        check(at + len(data) <= self.us.ring, "a Write past the ring")
        self.wpos += len(data)
        check(self.wpos - self.told <= self.us.ring, "a Write to what is not free")
        self.ring[at:at + len(data)] = data

    def got_request(self, h):
        sink, sto, n, stag, to = struct.unpack(">IQIIQ", h)
        o = next((o for o in self.offers if o["asked"] < len(o["data"])), None)
        check(o and stag == o["stag"] and to == o["to"] + o["asked"] and 0 < n <= len(o["data"]) - o["asked"] and sink == RD_STAG, "Read Request", h)
        self.reads.append((o, o["asked"], sink, sto, n))
        o["asked"] += n
        check(len(self.reads) <= min(4, self.ord), "Reads in flight", len(self.reads))

    def got_response(self, stag, to, data, last):
        check(self.asked, "a Response nobody asked for")
        e = self.asked[0]
        check(stag == 77 and to == len(e["data"]) and len(e["data"]) + len(data) <= e["reading"], "Response", stag, to)
        e["data"] += data
        if last:
            check(len(e["data"]) == e["reading"], "a Response too short")
            self.asked.pop(0)

    def got_word(self, op, inv, body):
        word = struct.unpack(">Q", body[:8])[0]
        kind, flags, back, value, body = word >> 60, word >> 56 & 15, word >> 48 & 255, word & M48, body[8:]
        sends = kind in (INLINE, SRCAVAIL, RDDONE) or not self.caps & IMM
        ops = (v.SENDINV, v.SENDSEINV) if kind == RDDONE and self.caps & INV else (v.SEND, v.SENDSE) if sends else (v.IMM, v.IMMSE)
        check(op in ops and (op in (v.SENDINV, v.SENDSEINV) or not inv), "carrier", kind, op)
        # credits
        check(self.gave > 2 or kind in (ACK, ABORT) or kind == CREDIT and back, "the last credits", self.gave, kind)
        check(self.gave > 1 or back, "the last credit for nothing", kind)
        self.gave -= 1
        self.owed += 1
        self.owed_more |= kind != CREDIT
        self.credits += back
        check(self.gave >= 0 and self.credits <= self.it.bufs, "credits", self.gave, self.credits)
        (self.got_data, self.got_data, self.got_ack, self.got_credit, self.got_offer, self.got_rddone)[kind](flags, value, body, inv) \
            if kind <= RDDONE else self.got_other(kind, flags, value)

    def data_flags(self, flags):
        check(not self.fin and not flags & 2, "data after FIN, or urgent")
        self.fin = bool(flags & FIN)

    def got_data(self, flags, value, body, inv):
        if body:
            check(self.wpos == self.prod and len(body) <= self.inline, "INLINE of", len(body))
            for i, x in enumerate(body):
                self.ring[(self.wpos + i) % self.us.ring] = x
            self.wpos += len(body)
        check(value == self.wpos & M48 and self.wpos - self.told <= self.us.ring, "announced", value, "written", self.wpos)
        if self.wpos > self.prod:
            self.exts.append({"end": self.wpos})
        self.prod = self.wpos
        self.data_flags(flags)

    def got_ack(self, flags, value, body, inv):
        check(self.acked <= value <= self.pos and not body, "ACK of", value, "sent", self.pos)
        self.acked = value
        if flags & 1:
            check(self.shut and value == self.pos and not self.offers, "ACK of a FIN")
            self.fin_acked = True

    def got_credit(self, flags, value, body, inv):
        check(not value and not flags and not body, "CREDIT", value)

    def got_offer(self, flags, value, body, inv):
        check(self.caps & OFFERS and not self.mapped and self.ird, "an offer")
        stag, to, n = struct.unpack(">IQQ", body)
        self.exts.append({"id": value, "stag": stag, "to": to, "len": n, "data": b"", "reading": 0, "freed": False, "used": 0})
        self.data_flags(flags)

    def got_rddone(self, flags, value, body, inv):
        o = self.offers.pop(0)
        check(not flags and value == o["id"] and struct.unpack(">Q", body)[0] == len(o["data"]) and
              inv == (o["stag"] if self.caps & INV else 0), "RDDONE", value, body)

    def got_other(self, kind, flags, value):
        check(kind == ABORT and self.terminate == b"" or kind == PING and flags & 1, "word", kind, flags, value)
        if kind == ABORT:
            check(value == 71, "ABORT", value)
            self.ended = kind

    # ---- what we send ----
    def frame(self, u):
        self.tx.out = b""
        self.out += self.tx.fpdu(u)

    def tagged(self, op, stag, to, data):
        size = self.rng.choice((65000, 1400, self.rng.randint(1, 9000)))
        for i in range(0, len(data), size):
            self.frame(v.tagged(op, stag, to + i, data[i:i + size], last=i + size >= len(data)))

    def may(self, kind):
        return self.credits > 2 or kind in (ACK, CREDIT) and self.credits > (not self.owed)

    def word(self, kind, flags=0, value=0, body=b"", inv=0):
        back = min(self.owed, 255)
        self.owed -= back
        self.gave += back
        self.credits -= 1
        self.owed_more = False
        imm = kind not in (INLINE, SRCAVAIL, RDDONE) and self.caps & IMM
        op = v.IMM if imm else v.SENDINV if inv else v.SEND
        data = struct.pack(">Q", kind << 60 | flags << 56 | back << 48 | value & M48) + body
        size = self.rng.choice((len(data), len(data), 9))
        for i in range(0, len(data), size):
            self.frame(v.untagged(op, 0, self.msn_out[0], i, data[i:i + size], inv, last=i + size >= len(data)))
        self.msn_out[0] += 1

    def say(self, most):
        """Some octets of ours: in the ring, in a Send, or offered."""
        rng = self.rng
        n = rng.randrange(1, rng.choice((10, 600, most)) + 1)
        free = self.it.ring - (self.pos - self.acked)
        if self.shut or not self.may(DATA):
            return
        data = rng.randbytes(n)
        if self.caps & OFFERS and rng.random() < 0.2 and len(self.offers) < 8:
            self.ids += rng.randint(1, 3)
            o = {"id": self.ids, "stag": rng.randrange(1, 2 ** 32), "to": rng.choice((0, 2 ** 64 - n, rng.randrange(2 ** 50))), "data": data, "asked": 0}
            self.offers.append(o)
            self.word(SRCAVAIL, 0, o["id"], struct.pack(">IQQ", o["stag"], o["to"], n))
        elif n <= min(free, self.it.size - 8) and rng.random() < 0.5:
            self.pos += n
            self.word(INLINE, 0, self.pos, data)
        else:
            data = data[:free]
            off = self.pos % self.it.ring
            first = data[:self.it.ring - off]
            self.tagged(v.WRITE, self.it.stag, self.it.to + off, first)
            self.tagged(v.WRITE, self.it.stag, self.it.to, data[len(first):])
            self.pos += len(data)
            self.word(DATA, 0, self.pos)
        self.said += data

    def answer(self):
        """Its Reads, and ours of what it offers."""
        while self.reads:
            o, off, sink, to, n = self.reads.pop(0)
            self.tagged(v.RRESP, sink, to, o["data"][off:off + n])
        for e in self.exts:
            if "id" in e and e["reading"] < e["len"] and len(self.asked) < self.ird:
                check(e["reading"] == len(e["data"]) or e in self.asked, "Reads")
                if e in self.asked:
                    return
                n = min(e["len"] - e["reading"], self.rng.choice((500, 30000, 1 << 20)))
                self.frame(v.untagged(v.RREQ, 1, self.msn_out[1], 0, v.rreq_hdr(77, e["reading"], n, e["stag"], e["to"] + e["reading"])))
                self.msn_out[1] += 1
                e["reading"] += n
                self.asked.append(e)
                return
            if "id" in e and not e["freed"]:
                if len(e["data"]) == e["len"] and self.may(RDDONE):
                    self.word(RDDONE, 0, e["id"], struct.pack(">Q", e["len"]), e["stag"] if self.caps & INV else 0)
                    e["freed"] = True
                return

    def consume(self, n):
        while n and self.exts:
            e = self.exts[0]
            if "id" in e:
                got = e["data"][e["used"]:e["used"] + n]
                e["used"] += len(got)
                if e["used"] == e["len"] and e["freed"]:
                    self.exts.pop(0)
                elif not got:
                    return
            else:
                at = self.cons % self.us.ring
                got = bytes(self.ring[at:min(at + n, at + e["end"] - self.cons)])
                self.cons += len(got)
                if self.cons == e["end"]:
                    self.exts.pop(0)
            check(got == self.data[self.read:self.read + len(got)], "octets differ at", self.read)
            self.read += len(got)
            n -= len(got)

    def acknowledge(self, now=False):
        fin = self.fin and not self.exts and not self.fin_told
        if (fin or self.cons - self.told >= self.us.ring // 4 or now and self.cons > self.told) and self.may(ACK):
            self.told = self.cons
            self.word(ACK, 1 if fin else 0, self.told)
            self.fin_told = self.fin_told or fin
        elif (self.owed_more and self.owed >= self.us.bufs // 2 or self.owed >= self.us.bufs - 2) and self.may(CREDIT):
            self.word(CREDIT)

    # ---- rounds ----
    def deliver(self):
        """What we have framed, cut anywhere."""
        rng, out = self.rng, []
        small = rng.random() < 0.1 and len(self.out) < 500
        while self.out and (rng.random() < 0.95 or small):
            n = 1 if small else rng.randint(1, rng.choice((10, 3000, len(self.out))))
            out.append(b"R" + struct.pack("<I", len(self.out[:n])) + self.out[:n])
            self.out = self.out[n:]
        return out

    def round(self, commands):
        for kind, x in self.dut.round(b"".join(commands)):
            if kind == b"T":
                self.stream += x
                self.decode()
            elif kind == b"w":
                self.wrote += x
            elif kind == b"g":
                check(x == self.said[self.checked:self.checked + len(x)], "what it reads differs at", self.checked)
                self.checked += len(x)
            elif kind == b"u":
                self.handed += x != self.mapped
                self.mapped = bool(x)
            else:
                self.state = x

    def write(self, n, how=b"W"):
        n = min(n, len(self.data) - self.wrote)
        return how + struct.pack("<I", n) + self.data[self.wrote:self.wrote + n]

    def step(self):
        rng = self.rng
        if rng.random() < 0.5:
            self.say(1 << rng.randint(4, 17))
        self.answer()
        self.consume(rng.choice((0, 100, 1 << 20)))
        self.acknowledge(rng.random() < 0.1)
        commands = [self.write(rng.randint(1, 1 << rng.randint(1, 17)), rng.choice((b"W", b"B")))] if rng.random() < 0.5 else []
        commands += [b"T" + struct.pack("<I", rng.choice((1, rng.randrange(5000), 1 << 20)))]
        commands += self.deliver()
        commands += [b"G" + struct.pack("<I", rng.randrange(1 << rng.randint(1, 18)))] if rng.random() < 0.5 else []
        self.round(commands + [b"U"] * (rng.random() < 0.3))

    def settle(self):
        """Until nobody has anything to say any more."""
        still = 0
        for _ in range(3000):
            before = self.seen, self.checked, len(self.out), self.handed
            self.answer()
            self.consume(1 << 20)
            self.acknowledge()
            commands = self.deliver()
            self.round(commands + [b"G\0\0\x10\0", b"T\0\0\x10\0"] + [b"U"] * (self.rng.random() < 0.05))
            still = still + 1 if before == (self.seen, self.checked, len(self.out), self.handed) and not self.out else 0
            if still == 8:
                return
        check(False, "no end")

    def talk(self):
        self.round([b"N" + self.begin + self.it.pack() + self.us.pack()])
        for _ in range(self.rng.randint(5, 10 if self.txm else 60)):
            self.step()
        self.settle()
        self.arrived()

    def arrived(self):
        check(self.checked == len(self.said), "it has read", self.checked, "of", len(self.said))
        check(self.read == self.wrote and not self.exts and not self.offers, "we have read", self.read, "of", self.wrote)

    def fins(self):
        for who in self.rng.sample((0, 1), 2):
            if who:
                self.round([b"F"])
            else:
                self.shut = True
                check(self.may(DATA), "no credit for FIN", self.credits)
                self.word(DATA, FIN, self.pos)
            if self.rng.random() < 0.5:
                self.settle()
        self.settle()
        self.arrived()
        self.round([b"D"])
        check(self.fin and self.fin_told and self.fin_acked and self.state & DONE, "both ends", self.fin, self.fin_told, self.fin_acked, self.state)
