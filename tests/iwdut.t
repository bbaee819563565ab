#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Plays the vectors of section 7 and the well-formed messages at a live RNIC over TCP (tests/iwdut) and compares its answer octet
for octet: each whole, cut at every octet boundary, one octet at a time, and glued to a neighbour."""
import atexit
import errno
import os
import re
import socket
import struct
import subprocess
import sys

top = os.environ.get("IW_TOP", os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
build = os.environ.get("IW_BUILD", top + "/build/plain")
vectors = {}
for line in open(os.environ.get("IW_VECTORS", top + "/tests/vectors.txt")):
    if line.strip() and not line.startswith("#"):
        name, _, octets = line.rstrip("\n").split("\t")
        vectors[name] = bytes.fromhex(octets)

FIRST = vectors["fpdu.write.zero"]
count = failures = 0


def ok(good, what, why=""):
    global count, failures
    count += 1
    failures += not good
    print(f"{'ok' if good else 'not ok'} {count} - {what}")
    if not good and why:
        print("".join(f"# {x}\n" for x in str(why).splitlines()), end="")


class Dut:
    def __init__(self, *args):
        self.p = subprocess.Popen([build + "/tests/iwdut", "--port", "0", *args], stdout=subprocess.PIPE, text=True)
        atexit.register(self.p.kill)    # also after an exception
        self.port = int(re.fullmatch(r"listening on (\d+)\n", self.p.stdout.readline()).group(1))

    def play(self, pieces, request="mpa.req.r1.c", fin=False):
        """Startup, then the pieces, each in a TCP segment of its own. Returns (what the DUT sent after its Reply, its lines)."""
        s = socket.create_connection(("127.0.0.1", self.port))
        s.settimeout(60)
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        s.sendall(vectors[request])
        got = b""
        while len(got) < 20:
            x = s.recv(20 - len(got))
            if not x:
                break
            got += x
        if len(got) == 20:
            pd = int.from_bytes(got[18:20], "big")
            while pd:
                pd -= len(s.recv(pd))
        out = b""
        try:
            for p in pieces:
                s.sendall(p)
            if fin:
                s.shutdown(socket.SHUT_WR)
            while x := s.recv(65536):
                out += x
        except ConnectionError as e:
            out += repr(e).encode()
        s.close()
        return out, self.report()

    def report(self):
        lines = []
        for line in self.p.stdout:
            lines.append(line.rstrip("\n"))
            if lines[-1].startswith("memory 6612f806"):
                break
        return lines

    def end(self):
        self.p.terminate()
        self.p.communicate()


def cuts(v):
    yield "whole", [v]
    yield "one octet at a time", [v[i:i + 1] for i in range(len(v))]
    for i in range(1, len(v)):
        yield f"cut at {i}", [v[:i], v[i:]]


def memory_clean(lines):
    dead = [x for x in lines if "CANARY DEAD" in x]
    changed = [x for x in lines if x.startswith("memory") and "unchanged" not in x]
    return not dead and not changed, "\n".join(dead + changed)


# neg2.stagchg: its first segment is placed, and may be.
PLACES = {"neg2.stagchg"}
WANT = {"neg.crc.be": "want.crc", "neg.crc.payload": "want.crc"}
# Terminates that are wrong in themselves, or right: nothing is answered.
SILENT = {"neg.term.cut", "neg.term.msn2", "neg.term.empty", "ign.term.rsvd"}


def want_of(name):
    if name in SILENT:
        return b""
    if name.startswith("neg.short"):
        return vectors["want.short"]
    return vectors[WANT.get(name, name.replace("neg.", "want.").replace("neg2.", "want2."))]


def told(lines):
    """What the ULP hears of the end: events and completions in their order, without what is between the parentheses."""
    return [re.sub(r" \(.*\)", "", x) for x in lines if x.startswith(("completion", "event terminate", "event startup", "event closed", "event lost"))]


MALFORMED = {"neg.term.cut": "0/1/00 M1 D1 R0", "neg.term.msn2": "2/0/02 M0 D0 R0", "neg.term.empty": "0/0/00 M0 D0 R0"}


def errors_of(name, want):
    """The cause once, then each posted receive once and in order, then the end."""
    if name in MALFORMED:
        cause = f"event terminate-received {MALFORMED[name]} malformed"
    elif name in SILENT:
        cause = "event terminate-received 2/0/02 M0 D0 R0"
    else:
        t = want[20:]
        bits = f"M{t[2] >> 7} D{t[2] >> 6 & 1} R{t[2] >> 5 & 1}"
        cause = f"event terminate-sent {t[0] >> 4}/{t[0] & 15}/{t[1]:02x} {bits}"
    return [cause, "completion recv 1 flush len 0", "completion recv 2 flush len 0", "event closed Protocol error"]


def negative(dut):
    names = [n for n in vectors if n.startswith(("neg.", "neg2.")) or n == "ign.term.rsvd"]
    for name in names:
        v, want, bad = vectors[name], want_of(name), []
        variants = [(how, [FIRST] + p) for how, p in cuts(v)]
        variants.append(("glued to the first FPDU and a Send behind it", [FIRST + v + vectors["fpdu.send.5"]]))
        for how, pieces in variants:
            out, lines = dut.play(pieces)
            clean, why = memory_clean(lines)
            if out != want:
                bad.append(f"{how}: sent {out.hex()}, want {want.hex()}")
            if not clean and name not in PLACES:
                bad.append(f"{how}: {why}")
            if "CANARY DEAD" in why:
                bad.append(f"{how}: {why}")
            if told(lines) != errors_of(name, want):
                bad.append(f"{how}: told {told(lines)}, want {errors_of(name, want)}")
            if len(bad) > 3:
                break
        ok(not bad, f"{name}, {len(variants)} ways", "\n".join(bad[:4]))


GOOD = {  # vector: lines that must be there
    "fpdu.send.5": "completion recv 1 ok len 5 data 68656c6c6f",
    "fpdu.send.zero": "completion recv 1 ok len 0",
    "fpdu.sendse": "completion recv 1 ok len 3 se data 657674",
    "fpdu.sendinv": "completion recv 1 ok len 4 invalidated 5a17c301 data 696e7621",
    "fpdu.sendseinv": "completion recv 1 ok len 4 se invalidated 5a17c301 data 626f7468",
    "fpdu.imm": "completion recv 1 ok len 8 imm 0102030405060708",
    "fpdu.immse": "completion recv 1 ok len 8 se imm 0102030405060708",
    "fpdu.ign.ddprsv": "completion recv 1 ok len 5 data 68656c6c6f",
    "fpdu.ign.rdmaprsv": "completion recv 1 ok len 5 data 68656c6c6f",
    "fpdu.ign.invstag": "completion recv 1 ok len 5 data 68656c6c6f",
    "fpdu.ign.pad": "completion recv 1 ok len 5 data 68656c6c6f",
    "stream.nm.mixed": "completion recv 1 ok len 3 data 6f6e65",
}
ANSWER = {"fpdu.rreq.zero": "fpdu.rresp.zero", "fpdu.rreq.zero.junk": "fpdu.rresp.zero.junk", "fpdu.at.fetchadd": "fpdu.at.resp"}


def good(dut):
    for name, want in GOOD.items():
        bad = []
        for how, pieces in cuts(vectors[name]):
            out, lines = dut.play([FIRST] + pieces, fin=True)
            mixed = name == "stream.nm.mixed"
            rest = ["completion recv 2 ok len 8 imm 0001020304050607" if mixed else "completion recv 2 flush len 0"]
            if out or told(lines) != [want] + rest + ["event closed gracefully"]:
                bad.append(f"{how}: sent {out.hex()}\n" + "\n".join(lines))
                break
        ok(not bad, f"{name} is delivered, whole and cut", "\n".join(bad))
    for name, want in ANSWER.items():
        out, lines = dut.play([FIRST, vectors[name]], fin=True)
        ok(out == vectors[want], f"{name} is answered by {want}", out.hex() + "\n" + "\n".join(lines))


def startup(dut):
    """Refused without a Reply: the connection is closed."""
    for name in [n for n in vectors if n.startswith("mpa.neg.")]:
        s = socket.create_connection(("127.0.0.1", dut.port))
        s.settimeout(60)
        s.sendall(vectors[name])
        try:
            if name in ("mpa.neg.pdshort", "mpa.neg.pdffff"):
                s.shutdown(socket.SHUT_WR)
            out = s.recv(100)
        except ConnectionError:
            out = b""
        except OSError as e:    # a reset came before the shutdown
            assert e.errno == errno.ENOTCONN, e
            out = b""
        s.close()
        lines = dut.report()
        bad = [] if name == "mpa.neg.pdshort" else ["event startup-failed 2/0/04"]    # FIN inside the frame: TCP's end, not a bad frame
        want = ["completion recv 1 flush len 0", "completion recv 2 flush len 0"] + bad
        ok(out == b"" and told(lines)[:-1] == want, f"{name}: closed without a Reply", out.hex() + "\n" + "\n".join(lines))


def rtr(dut):
    """A=1: all RTR options that were offered and that we have (Write, Read); when none of them fits, ours (EMPA-9.2-01)."""
    for bits in range(8):
        b, c, d = bits >> 2, bits >> 1 & 1, bits & 1
        conn = struct.pack(">HH", 0x8002 | b << 14, c << 15 | d << 14)    # IRD 2, ORD 0
        s = socket.create_connection(("127.0.0.1", dut.port))
        s.settimeout(60)
        s.sendall(vectors["mpa.req.r2.p2p"][:20] + conn)
        rep = s.recv(24, socket.MSG_WAITALL)
        s.close()
        dut.report()
        write, read = (c, d) if c or d else (1, 1)
        want = struct.pack(">HH", 0x8000 | read, write << 15 | read << 14 | 2)    # an RTR Read needs IRD 1
        ok(rep[16:18] == b"\x50\x02" and rep[20:] == want, f"RTR options B={b} C={c} D={d} are answered", f"{rep.hex()}, want {want.hex()}")


def rreq_size(fpdu):
    return int.from_bytes(fpdu[2 + 18 + 12:2 + 18 + 16], "big")


def read(dut):
    out, lines = dut.play([FIRST, vectors["fpdu.rreq"]], fin=True)
    data = b""
    while out:
        n = int.from_bytes(out[:2], "big")
        data += out[2 + 14:2 + n]
        out = out[2 + n + (-(2 + n) & 3) + 4:]
    was = bytearray(i & 255 for i in range(4096))
    was[8:16] = (10).to_bytes(8, sys.byteorder)
    ok(data == bytes(was) and rreq_size(vectors["fpdu.rreq"]) == 4096, "fpdu.rreq is answered with the 4096 octets", lines)


made = subprocess.run([top + "/tests/iwdut", "--help"], capture_output=True, text=True)
ok(made.returncode == 0 and "--port" in made.stdout, "make has put it where scripted peers look: tests/iwdut", made.stderr)
for args in (["--port", str(2 ** 32)], ["--port", "65536"], ["--port", "+0"], ["--port", " 0"], ["--port", ""], ["--port", "0x1"], [], ["--port", "0", "more"],
             ["--port", "-1", "--port", "0"], ["--port", "0", "--crc", "maybe"]):
    try:
        bad = subprocess.run([build + "/tests/iwdut", *args], capture_output=True, text=True, timeout=20)
        ok(bad.returncode == 2 and not bad.stdout and "usage: " in bad.stderr, f"wrong usage: {args}", bad.stdout + bad.stderr)
    except subprocess.TimeoutExpired as e:
        ok(False, f"wrong usage: {args}", e.stdout)
plain = Dut()
negative(plain)
good(plain)
startup(plain)
rtr(plain)
read(plain)
plain.end()

nocrc = Dut("--crc", "off")
out, lines = nocrc.play([FIRST, vectors["fpdu.nocrc"]], request="mpa.req.r1", fin=True)
ok(not out and "completion recv 1 ok len 5 data 68656c6c6f" in lines, "C=0 on both sides: the CRC is not looked at", lines)
out, lines = nocrc.play([FIRST, vectors["fpdu.nocrc"]], request="mpa.req.r1.c")
ok(out == vectors["want.crc"], "C=1 from the peer: it is", lines)
nocrc.end()

marked = Dut("--markers")
out, lines = marked.play([vectors["stream.m.fig5"]], fin=True)
ok(not out and any(x.startswith("completion recv 1 ok len 24") for x in lines), "stream.m.fig5: Markers are taken out", lines)
marked.end()

print(f"1..{count}")
sys.exit(failures != 0)
