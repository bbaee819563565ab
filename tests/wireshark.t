#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A long mixed run, seen from outside: random conversations of our queue pair with the independent peer, every operation, with and
without Markers and CRC, most of them behind something else that was said on the connection before, go into a capture, tshark must find
the same frames as were sent, field by field, and must call every CRC good. What tshark is known to get wrong is in docs/interop.md.
IW_SEED repeats, IW_RUNS sets the number."""
import os
import random
import shutil
import struct
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ET

top = os.environ.get("IW_TOP", os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
build = os.environ.get("IW_BUILD", top + "/build/plain")
sys.path[:0] = [top + "/tests", top + "/tests/lib"]
sys.dont_write_bytecode = True
import vectors as v  # noqa: E402
from conversation import Conversation, Dut, check, fpdu_end  # noqa: E402

OURS, PEERS = 0, 1
NAMES = ("Write", "Read Request", "Read Response", "Send", "Send with Invalidate", "Send with SE", "Send with SE and Invalidate",
         "Terminate", "Immediate Data", "Immediate Data with SE", "Atomic Request", "Atomic Response")


def before(rng):
    """What programs said before the upgrade, the client first: the server's port, and (by the client, octets) in order."""
    def text(most):
        return rng.randbytes(rng.randrange(1, most)).hex().encode()

    def http():
        for _ in range(rng.randrange(1, 4)):
            body = text(2000)
            yield True, b"GET /%s HTTP/1.1\r\nHost: there\r\n\r\n" % text(20)
            yield False, b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)

    def redis():
        for _ in range(rng.randrange(1, 9)):
            key = text(20)
            yield True, b"*2\r\n$3\r\nGET\r\n$%d\r\n%s\r\n" % (len(key), key)
            yield False, b"$-1\r\n"

    def smtp():
        yield False, b"220 there\r\n"
        yield True, b"HELO here\r\n"
        yield False, b"250 hello\r\n"

    def tls():
        for client in (True, False) * rng.randrange(1, 4):
            octets = rng.randbytes(rng.randrange(40, 500))
            yield client, b"\x17\3\3" + len(octets).to_bytes(2, "big") + octets

    def octets():
        for _ in range(rng.randrange(1, 6)):
            yield rng.random() < 0.5, rng.randbytes(rng.randrange(1, 3000))

    what, port = rng.choice(((tuple, 20000), (http, 80), (http, 20000), (redis, 6379), (smtp, 25), (tls, 443), (octets, 20000)))
    return port, list(what())


class Seen(Conversation):
    """A conversation that keeps what went over the wire, in order: self.wire holds (direction, octets)."""

    def __init__(self, dut, seed):
        super().__init__(dut, seed)
        self.rxm = self.txm     # of a connection with Markers one way, tshark does not show the other way
        self.tx = v.Tx(markers=self.rxm, crc=self.crc)
        self.port, self.before = before(random.Random(seed))
        self.wire, self.theirs = [], b""
        flags = [v.C if self.crc else 0] * 2
        flags[OURS] |= v.M if self.rxm else 0
        flags[PEERS] |= v.M if self.txm else 0
        keys = (v.REQ, v.REP) if self.initiator else (v.REP, v.REQ)
        pd = [bytes(self.rng.randrange(33)) for _ in range(2)]
        self.startup = [v.mpa(keys[d], flags[d], 1, pd[d]) for d in (OURS, PEERS)]
        first = OURS if self.initiator else PEERS
        self.wire += [(first, self.startup[first]), (1 - first, self.startup[1 - first])]

    def segments(self, op, data, hdr):
        """tshark takes the header of a Request or an Atomic Response to be in one piece, as everybody sends it."""
        return [hdr(op, 0, data, True)] if op in (v.RREQ, v.ATREQ, v.ATRESP) else super().segments(op, data, hdr)

    def round(self, commands):
        before = len(self.chunks)
        super().round(commands)
        sent = iter(self.chunks[before:])
        pos = self.chunks[before - 1][0] if before else 0
        for c in commands:
            if c[:1] == b"R":
                self.wire.append((PEERS, c[5:]))
                self.theirs += c[5:]
            elif c[:1] == b"T":
                end = next(sent)[0]
                self.wire.append((OURS, self.stream[pos:end]))
                pos = end

    def tcp_segments(self):
        """What was said before; then the octets of each direction, in the order they were sent, an FPDU in each segment: tshark loses its place where a segment ends
        within the first octets of an FPDU, and with Markers wherever it ends."""
        streams, at, sent, ends = (self.stream, self.theirs), [0, 0], [0, 0], [[], []]
        for d in (OURS, PEERS):
            for u in v.rx(streams[d], markers=self.txm, crc=self.crc):
                ends[d].append(fpdu_end(ends[d][-1] if ends[d] else 0, len(u), self.txm))
        yield from ((OURS if client == self.initiator else PEERS, octets) for client, octets in self.before)
        yield from self.wire[:2]
        for d, octets in self.wire[2:]:
            at[d] += len(octets)
            while ends[d] and ends[d][0] <= at[d]:
                yield d, streams[d][sent[d]:ends[d][0]]
                sent[d] = ends[d].pop(0)

    def peer_atomic(self):
        """Without reserved bits, which make tshark forget which operation it is."""
        us = super().peer_atomic()
        return [us[0][:18] + bytes(3) + bytes((us[0][21] & 15,)) + us[0][22:]]

    def end_badly(self):
        """Something that is answered by a Terminate."""
        bad, layer, etype, code = self.rng.choice((
            (v.tagged(v.WRITE, self.foreign.stag ^ 1 << 31, 0, b"xx"), 1, 1, 0),
            (v.untagged(v.RREQ, 1, self.our_msn[1], 0, v.rreq_hdr(1, 2, 3, self.foreign.stag ^ 1 << 31, 4)), 0, 1, 0),
            (v.untagged(v.SEND, 0, self.our_msn[0], 1, b"x"), 1, 2, 4)))
        self.terminate = v.term_for(layer, etype, code, bad)
        self.round(self.cuts(self.frame([bad])) + [b"T\0\0\0\0"])
        check(self.over, "no Terminate")


# ---- the capture ----
def inet_sum(b):
    s = sum(struct.unpack(f">{len(b) // 2}H", b)) if len(b) % 2 == 0 else inet_sum(b + b"\0") ^ 0xffff
    while s > 0xffff:
        s = (s & 0xffff) + (s >> 16)
    return s ^ 0xffff


class Pcap:
    def __init__(self, path):
        self.f, self.t = open(path, "wb"), 0
        self.f.write(struct.pack("<IHHiIII", 0xa1b2c3d4, 2, 4, 0, 0, 262144, 101))  # LINKTYPE_RAW

    def packet(self, src, dst, flags, seq, ack, data=b""):
        a = [bytes((10, 0, 0, 1 + (x < 32768))) for x in (src, dst)]
        tcp = struct.pack(">HHIIBBHHH", src, dst, seq % 2 ** 32, ack % 2 ** 32, 5 << 4, flags, 65535, 0, 0) + data
        check_sum = inet_sum(a[0] + a[1] + struct.pack(">HH", 6, len(tcp)) + tcp)
        tcp = tcp[:16] + struct.pack(">H", check_sum) + tcp[18:]
        ip = struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(tcp), 0, 0x4000, 64, 6, 0) + a[0] + a[1]
        ip = ip[:10] + struct.pack(">H", inet_sum(ip)) + ip[12:]
        self.f.write(struct.pack("<IIII", self.t // 10 ** 6, self.t % 10 ** 6, len(ip + tcp), len(ip + tcp)) + ip + tcp)
        self.t += 100

    def connection(self, port, c):
        """c's octets; the initiator is the client."""
        ports = (port, c.port) if c.initiator else (c.port, port)
        client = OURS if c.initiator else PEERS
        seq = [c.rng.randrange(2 ** 32), c.rng.randrange(2 ** 32)]
        self.packet(port, c.port, 0x02, seq[client] - 1, 0)
        self.packet(c.port, port, 0x12, seq[1 - client] - 1, seq[client])
        self.packet(port, c.port, 0x10, seq[client], seq[1 - client])
        for d, octets in c.tcp_segments():
            for at in range(0, len(octets), 60000):
                part = octets[at:at + 60000]
                self.packet(ports[d], ports[1 - d], 0x18, seq[d], seq[1 - d], part)
                seq[d] += len(part)
        for d in (client, 1 - client):
            self.packet(ports[d], ports[1 - d], 0x11, seq[d], seq[1 - d])
            seq[d] += 1


# ---- what must be in it ----
def number(b):
    return int.from_bytes(b, "big")


def fields(u):
    """The header fields of an ULPDU as tshark names them."""
    op = u[1] & 15
    f = {"iwarp_mpa.ulpdulength": len(u), "iwarp_ddp.tagged_flag": u[0] >> 7, "iwarp_ddp.last_flag": u[0] >> 6 & 1, "iwarp_ddp.dv": u[0] & 3,
         "iwarp_rdma.version": u[1] >> 6, "iwarp_rdma.opcode": op}
    names = [("iwarp_ddp.stag", 2, 4), ("iwarp_ddp.tagged_offset", 6, 8)] if u[0] & 0x80 else \
        [("iwarp_ddp.qn", 6, 4), ("iwarp_ddp.msn", 10, 4), ("iwarp_ddp.mo", 14, 4)]
    if op in (v.SENDINV, v.SENDSEINV):
        names += [("iwarp_rdma.inval_stag", 2, 4)]
    elif op == v.RREQ:
        names += [(f"iwarp_rdma.{n}", 18 + at, k) for n, at, k in
                  (("sinkstag", 0, 4), ("sinkto", 4, 8), ("rdmardsz", 12, 4), ("srcstag", 16, 4), ("srcto", 20, 8))]
    elif op == v.ATREQ:
        cas = u[21] & 15 == 2
        names += [(f"iwarp_rdma.atomic.{n}", 18 + at, k) for n, at, k in
                  (("request_identifier", 4, 4), ("remote_stag", 8, 4), ("remote_tagged_offset", 12, 8),
                   ("swap_data" if cas else "add_data", 20, 8), ("swap_mask" if cas else "add_mask", 28, 8))]
        names += [("iwarp_rdma.atomic.compare_data", 18 + 36, 8), ("iwarp_rdma.atomic.compare_mask", 18 + 44, 8)] if cas else []
        f["iwarp_rdma.atomic.opcode"] = u[21] & 15
    elif op == v.ATRESP:
        names += [("iwarp_rdma.atomic.original_request_identifier", 18, 4), ("iwarp_rdma.atomic.original_remote_data_value", 22, 8)]
    elif op == v.TERM:
        f["iwarp_rdma.term_layer"] = u[18] >> 4
        f.update({f"iwarp_rdma.{n}": u[20] >> bit & 1 for n, bit in (("term_hdrct_m", 7), ("hdrct_d", 6), ("hdrct_r", 5))})
    f.update({n: number(u[at:at + k]) for n, at, k in names})
    return f


# ---- what tshark says ----
def frames(path):
    """For each TCP source and destination port: the MPA startup frames and FPDUs in order, as {field: value}."""
    config = os.path.dirname(path) + "/config"
    subprocess.run([top + "/tests/lib/wireshark-profile", config], check=True)
    cmd = ["tshark", "-C", "iwarp", "-r", path, "-T", "pdml", "-J", "tcp iwarp_mpa iwarp_ddp_rdmap"]
    with tempfile.TemporaryFile() as err:
        p = subprocess.Popen(cmd, stdout=subprocess.PIPE, stderr=err, env=dict(os.environ, WIRESHARK_CONFIG_DIR=config))
        out = {}
        for _, e in ET.iterparse(p.stdout):
            if e.tag != "packet":
                continue
            ports = None
            for proto in e:
                if proto.get("name") == "tcp":
                    at = {x.get("name"): int(x.get("show")) for x in proto if x.get("name") in ("tcp.srcport", "tcp.dstport")}
                    ports = out.setdefault((at["tcp.srcport"], at["tcp.dstport"]), [])
                elif proto.get("name") == "iwarp_mpa":
                    ports.append({})
                if proto.get("name") in ("iwarp_mpa", "iwarp_ddp_rdmap"):
                    for x in proto.iter("field"):
                        ports[-1].setdefault(x.get("name"), (x.get("show"), x.get("showname") or ""))
                elif proto.get("name") == "_ws.malformed":
                    ports.append({"malformed": ("", "")})
            e.clear()
        assert p.wait() == 0, err
    return out


def differences(u, got, crc):
    for name, want in fields(u).items():
        show = got.get(name, ("absent", ""))[0]
        try:
            same = int(show, 0) == want
        except ValueError:
            same = False
        if not same:
            yield f"{name} is {show}, not {want:#x}"
    if crc and "Good CRC32" not in got.get("iwarp_mpa.crc_check", ("", ""))[1]:
        yield "CRC: " + str(got.get("iwarp_mpa.crc_check"))


def shown(us, markers):
    """How many of these tshark can show: after an FPDU that ends where a Marker is due, it takes that Marker for a part of it."""
    pos = 0
    for i, u in enumerate(us):
        pos = fpdu_end(pos, len(u), markers)
        if markers and pos % v.MARKER_IV == 0:
            return i
    return len(us)


def compare(c, d, got):
    """What went in direction d of conversation c against what tshark made of it: the ULPDUs compared, and what differs."""
    stream, markers = (c.stream, c.txm) if d == OURS else (c.theirs, c.rxm)
    key = "iwarp_mpa.key.req" if (d == OURS) == c.initiator else "iwarp_mpa.key.rep"
    if not got or key not in got[0]:
        return [], ["no startup frame"]
    us = v.rx(stream, markers=markers, crc=c.crc)
    n = shown(us, markers)
    bad = [] if n < len(us) or n == len(got) - 1 else [f"{len(got) - 1} FPDUs, not {n}"]
    us = us[:n]
    for i, (u, g) in enumerate(zip(us, got[1:])):
        bad += [f"FPDU {i}, {NAMES[u[1] & 15]}: {x}" for x in differences(u, g, c.crc)]
    return us, bad


def main():
    seed = int(os.environ.get("IW_SEED", str(time.time_ns() // 1000 % 10 ** 9)), 0)
    runs = int(os.environ.get("IW_RUNS", "300"), 0)
    print(f"# IW_SEED={seed} IW_RUNS={runs}", flush=True)
    if not shutil.which("tshark"):
        print("1..0 # SKIP no tshark")
        return 0
    dut, talks = Dut(build), []
    with tempfile.TemporaryDirectory() as d:
        pcap = Pcap(d + "/pcap")
        for i in range(runs):
            c = Seen(dut, seed + i)
            c.talk()
            if c.rng.random() < 0.2:
                c.end_badly()
            pcap.connection(32768 + i, c)
            talks.append(c)
        dut.end()
        pcap.f.close()
        got = frames(d + "/pcap")
    count, by_op, wrong = 0, [0] * len(NAMES), 0
    for i, c in enumerate(talks):
        for way in (OURS, PEERS):
            us, bad = compare(c, way, got.get(((32768 + i, c.port) if (way == OURS) == c.initiator else (c.port, 32768 + i)), []))
            for u in us:
                by_op[u[1] & 15] += 1
            count += len(us)
            if bad:
                wrong += 1
                print(f"# IW_SEED={seed + i} IW_RUNS=1, port {c.port}, {len(c.before)} before it, from {'us' if way == OURS else 'the peer'}, Markers {c.txm if way == OURS else c.rxm}, "
                      f"CRC {c.crc}: {len(bad)} differences\n#   " + "\n#   ".join(bad[:5]))
    print("# " + ", ".join(f"{n} {name}" for n, name in zip(by_op, NAMES)))
    print(f"{'ok' if not wrong else 'not ok'} 1 - tshark agrees with all of {count} FPDUs of {len(talks)} conversations")
    few = runs >= 100 and [name for n, name in zip(by_op, NAMES) if n < 10]
    print(f"{'ok' if not few else 'not ok'} 2 - every operation is among them\n1..2")
    return wrong or bool(few)


sys.exit(main() != 0)
