# SPDX-License-Identifier: MIT
"""Attacks on a real iwarpd by a hostile daemon of another host: stream.py OURS THEIRS PORT DAEMON-PID LOG SERVER-LOG [PORT2]
THEIRS:PORT is an app.py server with the library; its lines in SERVER-LOG say what the application saw. PORT2 is one of another user.
IW_MAPPED, iwctl of the daemon there: only what concerns streams, each mapped into the server (docs/mapped.md) before it is attacked. IW_RESTLESS: that
daemon takes maps back all the while."""
import hashlib
import json
import os
import random
import re
import select
import socket
import struct
import subprocess
import sys
import time

import peer
from peer import (ABORT, CANCEL, CREDIT, CWACK, CWPING, DATA, INLINE, LONG, RDDONE, SRCAVAIL, URGENT, Ended, FakeDaemon, Wire, connect, cw, ok, v)

OURS, THEIRS, PORT, PID, LOG, SERVER = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), sys.argv[5], sys.argv[6]
PORT2 = int(sys.argv[7]) if len(sys.argv) > 7 else 0
SAN = os.environ.get("IW_SAN", "") != ""
MAPPED = os.environ.get("IW_MAPPED")
RESTLESS = os.environ.get("IW_RESTLESS")
SEED = random.randrange(2 ** 32)
rng = random.Random(SEED)
print("# seed", SEED)


def rss():
    return int(re.search(r"VmRSS:\s+(\d+)", open(f"/proc/{PID}/status").read()).group(1))


def busy():
    """Seconds for which the daemon had something to do: on a CPU, or waiting for one that others had."""
    f = open(f"/proc/{PID}/stat").read().rsplit(")", 1)[1].split()
    return max((int(f[11]) + int(f[12])) / 100, sum(int(x) for x in open(f"/proc/{PID}/schedstat").read().split()[:2]) / 1e9)


def files():
    return len(os.listdir(f"/proc/{PID}/fd"))


def server_says(st, pattern, seconds=60):
    """The server's line about this stream that matches, waiting for it."""
    end = time.monotonic() + seconds
    while True:
        with open(SERVER) as f:
            f.seek(mark[0])
            lines = [x for x in f.read().split("\n")[:-1] if x.startswith(f"connection {st.port} ") and re.search(pattern, x)]
        if lines or time.monotonic() > end:
            return lines[-1] if lines else ""
        time.sleep(0.02)


mark = [0]


def forget():
    mark[0] = os.path.getsize(SERVER)


def until(what, seconds=60):
    end = time.monotonic() + seconds
    while not what():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def bounded(before, what, kib=16384):
    grown = rss() - before
    ok(grown < (kib * 16 if SAN else kib), f"{what}: memory stays bounded ({grown} KiB)")


def is_mapped(st):
    rows = subprocess.run([*MAPPED.split(), "--json", "streams"], stdout=subprocess.PIPE, check=True).stdout
    return any(r["path"] == "mapped" and r["peer"].endswith(f":{st.port}") for r in json.loads(rows))


def opened(port, **kw):
    st = d.stream(port, **kw)
    for n in range(40):     # a call of the server's each, in which it may take the map
        if not MAPPED or is_mapped(st):
            return st
        st.data(b".")
        time.sleep(0.01 * n)
    ok(False, "the stream is mapped into the server")
    return st


def new(kind=b"s", **kw):
    forget()
    st = opened(PORT, **kw)
    st.data(kind)
    return st


def app_sees(st, what, how="ECONNRESET"):
    line = server_says(st, r" %s$" % how)
    ok(line, f"{what}: the application sees {how.strip('()').replace('|', ' or ')}", open(SERVER).read()[-300:])


# ---- streams ----

def honest():
    st = new()
    st.data(b"0123456789" * 100)
    st.data(b"", 1)     # FIN
    line = server_says(st, " fin$")
    ok(f" s 1000 {hashlib.sha256(b'0123456789' * 100).hexdigest()[:16]}" in line, "the scripted peer can speak the stream protocol at all", line)
    st.close()


def r8_scribble():
    st, good = new(), rng.randbytes(3000)
    garbage = b"\xee" * 1400
    announced = b""
    for i in range(0, 3000, 300):
        for k in range(20):     # all over what is not announced, before and after
            st.w.write(st.stag, st.to + 4096 + rng.randrange(st.len - 4096 - 1400), garbage)
        at = st.pos % st.len
        st.w.write(st.stag, st.to + at, good[i:i + 300])
        st.w.write(st.stag, st.to + at + 300, garbage)
        st.pos += 300
        st.w.imm(cw(DATA, 0, 0, st.pos))
        announced += good[i:i + 300]
    st.w.imm(cw(DATA, 1, 0, st.pos))
    for k in range(50):
        try:
            st.w.write(st.stag, st.to + 4096 + 1400 * k, garbage)
        except Ended:
            break
    line = server_says(st, " (fin|ECONNRESET)$")
    ok(f" s 3000 {hashlib.sha256(announced).hexdigest()[:16]} fin" in line, "R8: what the peer scribbles beyond the announced position never reaches the application", line)
    st.close()


def ends(what, attack, want, how="ECONNRESET"):
    """One attack on a fresh stream: how it ends on the wire, and that the application sees a reset."""
    app, st = how, new()
    try:
        attack(st)
        how = st.outcome()
    except Ended as e:
        how = str(e)
    ok(re.fullmatch(want, how), f"{what}: {how}", how)
    st.close()
    app_sees(st, what, app)


def r_rights():
    # a mapped end knows no STag but its own; without our waiting for it the server may have taken the map or not
    write, read = ("1/1/00", "0/1/00") if MAPPED else ("1/1/0[02]", "0/1/0[03]")
    ends("R12: an RDMA Read of the ring", lambda s: s.w.read(1, 0, 64, s.stag, s.to), "0/1/02")
    ends("R4: a Write past the ring", lambda s: s.w.write(s.stag, s.to + s.len - 8, b"x" * 16), "1/1/01")
    ends("R4: a Write before the ring", lambda s: s.w.write(s.stag, s.to - 1, b"x"), "1/1/01")
    ends("R5: a Write whose TO and length pass 2^64", lambda s: s.w.write(s.stag, 2 ** 64 - 4, b"x" * 16), "1/1/03")
    ends("N2: a Write to a neighbour of the ring's STag", lambda s: s.w.write(s.stag ^ 1, s.to, b"x"), "1/1/00")
    ends("R23: the ring's own STag invalidated", lambda s: s.w.send(cw(DATA, 0, 0, s.pos), v.SENDINV, s.stag), "0/1/09" if MAPPED else "0/1/09|ABORT 71|1/1/00|EOF")
    ends("R6: a Read Response that nobody asked for", lambda s: s.w.put(v.tagged(v.RRESP, s.stag, s.to, b"x" * 8)), "0/2/06")
    ends("R32: an Atomic on the ring", lambda s: s.w.send(v.at_hdr(0, 1, s.stag, s.to, 1, v.ONES, 0, 0), v.ATREQ, qn=1), "0/1/02")
    ends("R27: a ULPDU of 65535 octets of anything", lambda s: s.w.raw(b"\xff\xff" + rng.randbytes(65535 + 3 + 4)), "2/0/02")
    ends("R30: a Terminate that is cut", lambda s: s.w.put(v.untagged(v.TERM, 2, 1, 0, b"\x00")), "EOF|Connection.*")
    two = opened(PORT)
    ends("R1: the ring of another stream of the same server", lambda s: s.w.write(two.stag, two.to, b"x" * 8), write)
    two.data(b"s" + b"alive" * 10)
    forget()
    two.data(b"", 1)
    ok(" s 50 " in server_says(two, " fin$"), "R1: which notices nothing")
    two.close()
    if not PORT2:
        return
    theirs = opened(PORT2)
    theirs.data(b"e" + b"own")
    stags = theirs.stag, theirs.to
    ends("R1: a Write to the ring of another user", lambda s: s.w.write(*stags, b"x" * 8), write)
    ends("R1: a Read of the ring of another user", lambda s: s.w.read(1, 0, 8, *stags), read)
    ends("R1: an Atomic there", lambda s: s.w.send(v.at_hdr(0, 1, *stags, 1, v.ONES, 0, 0), v.ATREQ, qn=1), read)
    ends("R1: its invalidation", lambda s: s.w.send(cw(DATA, 0, 0, s.pos), v.SENDINV, stags[0]), "0/1/09")
    theirs.data(b"untouched")
    got = b""
    while len(got) < 12:
        word, rest = theirs.next_word(INLINE, DATA)
        got += rest
    ok(got == b"ownuntouched", "R1: whose stream goes on", got)
    theirs.close()


def r33_words():
    abort = "ABORT 71"
    bad = (
        ("an unknown word", lambda s: s.w.imm(cw(15))),
        ("unknown flags", lambda s: s.w.imm(cw(CREDIT, 15))),
        ("a position beyond the ring", lambda s: s.w.imm(cw(DATA, 0, 0, s.pos + s.len + 1))),
        ("a position that goes back", lambda s: s.w.imm(cw(DATA, 0, 0, 0))),
        ("an ACK of what was not sent", lambda s: s.w.imm(cw(CWACK, 0, 0, 1000))),
        ("an ACK of a FIN that was not sent", lambda s: s.w.imm(cw(CWACK, 1, 0, 0))),
        ("more credits than were used", lambda s: s.w.imm(cw(CREDIT, 0, 255))),
        ("SRCAVAIL of no octets", lambda s: s.w.send(cw(SRCAVAIL, 0, 0, 1) + struct.pack(">IQQ", 1, 0, 0))),
        ("SRCAVAIL of 2^63 octets", lambda s: s.w.send(cw(SRCAVAIL, 0, 0, 1) + struct.pack(">IQQ", 1, 0, 2 ** 63))),
        ("SRCAVAIL past 2^64", lambda s: s.w.send(cw(SRCAVAIL, 0, 0, 1) + struct.pack(">IQQ", 1, 2 ** 64 - 8, 64))),
        ("SRCAVAIL cut", lambda s: s.w.send(cw(SRCAVAIL, 0, 0, 1) + b"\0" * 19)),
        ("RDDONE of an unknown id", lambda s: s.w.send(cw(RDDONE, 0, 0, 7) + struct.pack(">Q", 5), v.SENDINV, s.stag)),
        ("CANCEL of an id never seen", lambda s: s.w.imm(cw(CANCEL, 0, 0, 3))),
        ("errno 0 in ABORT", lambda s: s.w.imm(cw(ABORT, 0, 0, 0))),
        ("URGENT with a value", lambda s: s.w.imm(cw(URGENT, 0, 0, 9))),
        ("INLINE with fewer octets than its position says", lambda s: s.w.send(cw(INLINE, 0, 0, s.pos + 100) + b"x" * 50)),
        ("data after FIN", lambda s: (s.data(b"", 1), s.data(b"more"))),
        ("a Send of no octets", lambda s: s.w.send(b"")),
        ("a word cut", lambda s: s.w.send(b"\0\0\0")),
    )
    for what, attack in bad:
        # a mapped end has given out nothing that could be invalidated
        ends(f"R33: {what}", attack, abort if not what.startswith("RDDONE") else "0/1/09" if MAPPED else "0/1/09|" + abort, how="(fin|ECONNRESET)" if what == "data after FIN" else "ECONNRESET")
    for n in (0, 4, 9, 16):
        st = new()
        st.w.put(v.untagged(v.IMM, 0, st.w.msn[0], 0, bytes(n)))
        how = st.outcome()
        ok(re.fullmatch(r"ABORT 71|[01]/2/\w\w", how), f"R33: Immediate Data of {n} octets: {how}", how)
        st.close()


def r16_sends():
    """Without credit the stream ends; with it, a million cost no memory."""
    st = new()
    try:
        for _ in range(st.bufs * 3):
            st.w.imm(cw(URGENT))
        how = st.outcome()
    except Ended as e:
        how = str(e)
    st.close()
    ok(re.fullmatch(r"ABORT 71|1/2/02|Connection.*|EOF|.*reset.*", how), f"R16: messages without credit end the stream ({how})", how)
    st, before, n, owed = new(), rss(), 10 ** 6 if LONG else 20000, 0
    left = st.bufs - st.words
    for i in range(n):
        st.w.imm(cw(CWPING, 0, min(owed, 255), i & 0xffff))
        owed -= min(owed, 255)
        left -= 1
        while left < 4:
            word, _ = st.next_word(DATA, INLINE, CWACK, CREDIT, CWPING)
            left += word >> 48 & 255
            owed += 1
    bounded(before, f"R16: {n} messages with credit")
    st.close()
    app_sees(st, "R16: the peer vanishes")


def r26_flood():
    st, before, n = new(), rss(), 10 ** 7 if LONG else 10 ** 6
    junk = v.fpdu(v.tagged(v.WRITE, 0xdeadbeef, 0)) * 10000
    for _ in range(n // 10000):
        st.w.raw(junk)
    st.data(b"still here")
    st.data(b"", 1)
    line = server_says(st, " (fin|ECONNRESET)$", 300)
    ok(line.endswith("fin") and " s 10 " in line, f"R26: {n} zero-length Writes with junk STags: the stream goes on behind them", line)
    bounded(before, "R26")
    st.close()


def grab(st):
    """The first SRCAVAIL of a server that sends: id, STag, TO, length."""
    st.w.imm(cw(CREDIT))
    while True:
        word, rest = st.next_word(SRCAVAIL, DATA, INLINE)
        if word >> 60 == SRCAVAIL:
            return (word & (1 << 48) - 1,) + struct.unpack(">IQQ", rest[:20])


def r10_exposed():
    """SRCAVAIL: read more than was offered, read it after giving it back, write to it, read it without end."""
    try:
        st = new(b"g")
        _, stag, to, n = grab(st)
    except Ended as e:
        ok(False, "R10: a server with a backlog offers it for RDMA Read", e)
        return
    ok(n >= 1 << 18, f"R10: {n} octets are offered for RDMA Read")
    st.w.read(1, 0, n, stag, to)
    got = b""
    while len(got) < n:
        u = st.w.get()
        if u[0] & 0x80 and u[1] & 0xF == v.RRESP:
            got += u[14:]
    ok(got == b"\xa5" * n, "R10: and hold what the application sent, nothing else")
    how = [None] * 4
    for i, attack in enumerate((lambda s: s.w.read(1, 0, n + 1, stag2, to2), lambda s: s.w.read(1, 0, 1, stag2, to2 - 1),
                                lambda s: s.w.write(stag2, to2, b"x"), lambda s: s.w.send(cw(DATA, 0, 0, s.pos), v.SENDINV, stag2))):
        s = new(b"g")
        _, stag2, to2, _ = grab(s)
        attack(s)
        how[i] = s.outcome()
        s.close()
    ok(how[:2] == ["0/1/01", "0/1/01"], "R11: an octet behind or before the offer: 0/1/01", how)
    ok(how[2] == "1/1/00", "R13: a Write to what is offered for reading: 1/1/00", how)
    ok(how[3] in ("ABORT 71", "EOF") or "/" in how[3], f"R23: the offer invalidated without RDDONE ends the stream ({how[3]})", how)
    st.close()
    s = new(b"g")
    ident, stag, to, n = grab(s)
    s.w.read(1, 0, n, stag, to)
    left = n
    while left:
        u = s.w.get()
        left -= len(u) - 14 if u[0] & 0x80 and u[1] & 0xF == v.RRESP else 0
    s.w.send(cw(RDDONE, 0, 0, ident) + struct.pack(">Q", n), v.SENDINV, stag)
    s.w.read(1, 0, 1, stag, to)
    t = s.outcome()
    ok(t == "0/1/00", "R11: after RDDONE the STag is gone: 0/1/00", t)
    s.close()


def at_rest(seconds=60):
    """Until the sockets are full and the daemon has been at rest for most of a second: the part of the time it was busy."""
    end = time.monotonic() + seconds
    while True:
        b, t = busy(), time.monotonic()
        time.sleep(1)
        used = (busy() - b) / (time.monotonic() - t)
        if used < 0.9 or time.monotonic() > end:
            return used


def r20_amplifier():
    """Small Requests for much, and nobody takes the answers."""
    before, files0 = rss(), files()
    streams = []
    for _ in range(8):
        s = new(b"g")
        _, stag, to, n = grab(s)
        for _ in range(s.w.ird):
            s.w.read(1, 0, n, stag, to)
        streams.append(s)
    asked = sum(s.w.ird for s in streams) * n
    used = at_rest()
    bounded(before, f"R20: {asked >> 20} MiB of Responses asked for, no octet taken", 65536)
    ok(used < 0.9, f"R20: the daemon comes to rest and does not spin ({used * 100:.0f} % of the time busy, the other stream included)")
    for s in streams:
        s.close()
    ok(until(lambda: files() < files0 + 3), "R20: and everything goes with them", (files0, files()))


def r17_half():
    n, before, held, files0 = 1000 if LONG else 100, rss(), [], files()
    for _ in range(n):
        s = new()
        s.w.put(v.untagged(v.SEND, 0, s.w.msn[0], 0, b"x" * 100, last=False))
        held.append(s)
    bounded(before, f"R17: {n} streams with half a message and silence", 400 * n)
    for s in held:
        s.close()
    ok(until(lambda: files() < files0 + 3), "R17: they go with their connections", (files0, files()))


# ---- the bad frames of section 7 of tests/vectors.txt, at the ring in the place of STag 5a17c301 ----

# where the code says more of an STag than is known here: there is the ring, which can be written to and nothing else
CODES = {"neg.write.pd": (1, 1, 0), "neg.write.stream": (1, 1, 0), "neg.rreq.wo": (0, 1, 0), "neg.rreq.pd": (0, 1, 0), "neg.rreq.stream": (0, 1, 0),
         "neg.rreq.low": (0, 1, 2), "neg.rreq.high": (0, 1, 2), "neg.rreq.huge": (0, 1, 2), "neg.at.right": (0, 1, 0), "neg.at.pd": (0, 1, 0),
         "neg.at.bounds": (0, 1, 2), "neg.at.unaligned": (0, 1, 2), "neg.at.unaligned1": (0, 1, 2)}
SILENT = ("neg.term.cut", "neg.term.msn2", "neg.term.empty", "ign.term.rsvd")


def vectors():
    """name: octets, and layer, type and code of the Terminate, None: there is none."""
    octets = {f[0]: bytes.fromhex(f[2]) for f in (x.split("\t") for x in open(peer.TOP + "/tests/vectors.txt") if x[0] != "#")}
    for name in octets:
        if not name.startswith(("neg.", "neg2.", "ign.term.")):
            continue
        want = "want.crc" if name.startswith("neg.crc") else "want.short" if name.startswith("neg.short") else name.replace("neg", "want", 1)
        w = octets[want][20:22] if name not in SILENT else b""
        yield name, octets[name], CODES.get(name, (w[0] >> 4, w[0] & 15, w[1])) if w else None


def placed(st, stag, to):
    if stag ^ v.STAG < 256 and to < 2 ** 63:
        to = (st.to + to - 0x1000 if to < 0x1800 else st.to + st.len + to - 0x2000) % 2 ** 64
        stag ^= v.STAG ^ st.stag
    return struct.pack(">IQ", stag, to)


def moved(st, u, longer):
    """A ULPDU of section 7 as it would be on this stream; longer: by how much its receive buffers are."""
    if len(u) < (14 if u[:1] >= b"\x80" else 18):
        return u
    if u[0] & 0x80:
        return u[:2] + placed(st, *struct.unpack(">IQ", u[2:14])) + u[14:]
    inv, qn, msn, mo = struct.unpack(">IIII", u[2:18])
    d, op = u[18:], u[1] & 15
    if qn < 2:
        msn += st.w.msn[qn] - 1 + (0 if msn < 3 else (st.w.ird if qn else st.bufs) - 2)
    if op == v.RREQ and len(d) >= 28:
        d = d[:16] + placed(st, *struct.unpack(">IQ", d[16:28])) + d[28:]
    elif op == v.ATREQ:
        d = d[:8] + placed(st, *struct.unpack(">IQ", d[8:20])) + d[20:]
    elif op != v.TERM and longer:
        mo, d = mo + longer if mo else 0, d + bytes(longer) if len(d) > 8 else d
    return u[:2] + struct.pack(">IIII", inv, qn, msn, mo) + d


def play_vector(name, octets, code):
    """What was wrong with the answer."""
    st = new()
    us = v.rx(octets, crc=False)
    us = [moved(st, u, st.size - 64 if name in ("neg.toolong", "neg2.over") else 0) for u in us]
    bad = b"".join(v.fpdu(u, corrupt=rng.randrange(1, 2 ** 32).to_bytes(4, "big") if name.startswith("neg.crc") else None) for u in us)
    late = v.fpdu(v.tagged(v.WRITE, st.stag, st.to + st.pos, b"late")) + v.fpdu(v.untagged(v.IMM, 0, st.w.msn[0], 0, cw(DATA, 0, 0, st.pos + 4)))
    want = b"" if not code else v.term(*code) if code[0] == 2 or not code[1] else v.term_for(*code, us[-1])
    k, got, end = rng.choice((0, 1, len(bad) - 1, rng.randrange(len(bad)))), b"", ""
    try:
        st.w.raw(bad[:k])
        st.w.raw(bad[k:] + late)
        while not end:
            u = st.w.get()
            if got or u[1] & 15 == v.TERM:
                got += u
    except Ended as e:
        end = str(e)
    st.close()
    line = server_says(st, r" \w+$")
    if got != want or end != "EOF" or not re.search(r" . 0 \w+ ECONNRESET$", line):
        return f"{name}, cut at {k}: {got.hex()}, {end}, want {want.hex()}; the application: {line}\n"
    return ""


def maps_with(mark):
    """Where in the server the maps are that hold these octets, and what is in them."""
    found = {}
    with open(f"/proc/{os.environ['IW_SERVER']}/maps") as f, open(f"/proc/{os.environ['IW_SERVER']}/mem", "rb", buffering=0) as mem:
        for line in f:
            if "/memfd:iwsock" not in line:
                continue
            a, b = (int(x, 16) for x in line.split()[0].split("-"))
            mem.seek(a)
            octets = mem.read(b - a)
            if mark in octets:
                found[a] = octets
    return found


def odd():
    """What sections 3 and 3b of vectors.txt have that is to be taken: bits that mean nothing, pads, Reads of no octets, and pieces."""
    st, want = new(), b""

    def word(body, last=True, mo=0, **kw):
        f = v.fpdu(v.untagged(v.SEND, 0, st.w.msn[0], mo, body, last=last, **kw))
        pad = -(20 + len(body)) % 4
        f = f[:-4 - pad] + b"\1\2\3"[:pad]
        st.w.raw(f + v.crc_wire(f))
        st.w.msn[0] += last

    def inline(data):
        st.pos += len(data)
        return cw(INLINE, 0, 0, st.pos) + data

    for name in ("fpdu.write.pad1", "fpdu.write.pad2", "fpdu.write.pad3", "fpdu.write.16"):
        want += v.P[name][14:]
        st.data(v.P[name][14:])
        st.w.put(v.P["fpdu.write.zero"])
    for i, kw in enumerate(({"rsv_d": 15}, {"rsv_r": 3}, {"inv": 0xdeadbeef})):
        want += b"hello"[:2 + i]
        word(inline(b"hello"[:2 + i]), **kw)
    body = inline(b"in three pieces")
    want += b"in three pieces"
    for a, b in ((0, 5), (5, 20), (20, len(body))):
        word(body[a:b], b == len(body), a)
    for name in ("fpdu.rreq.zero", "fpdu.rreq.zero.junk"):
        u = bytearray(v.P[name])
        u[10:14] = struct.pack(">I", st.w.msn[1])
        st.w.msn[1] += 1
        st.w.put(bytes(u))
        while (u := st.w.get())[1] & 15 != v.RRESP:
            pass
        ok(u == v.P[name.replace("rreq", "rresp")], f"R24: {name} is answered", u.hex())
    whole = rng.randbytes(65535 - 14)
    want += whole
    st.w.put(v.tagged(v.WRITE, st.stag, st.to + st.pos, whole))
    st.pos += len(whole)
    st.w.imm(cw(DATA, 0, 0, st.pos))
    st.data(b"", 1)
    line = server_says(st, r" (fin|ECONNRESET)$")
    ok(f" s {len(want)} {hashlib.sha256(want).hexdigest()[:16]} fin" in line, "R24: what is to be ignored is, and all octets are there", line)
    st.close()


def r34_streams():
    n, bad = 20000 if LONG else 150, ""
    negs, before = list(vectors()), None
    rng.shuffle(negs)
    # a hole between two maps, where the next one goes
    mark = rng.randbytes(40)
    idle = [opened(PORT) for _ in range(3)]
    for st in idle:
        st.data(b"s" + mark)
    idle.pop(1).close()
    bad += play_vector(*negs[0])
    around = maps_with(mark) if MAPPED and not RESTLESS else {}
    for i in range(n):
        bad += play_vector(*negs[i % len(negs)])
        if i == n // 4:
            before = rss()
    ok(not bad, f"R24, R25, R27: on {n} streams one of {len(negs)} bad frames, cut anywhere: the Terminate, octet for octet, and a reset", bad[:2000])
    bounded(before, f"R34: {n} streams that end in a random protocol error each", 8192)
    if MAPPED and not RESTLESS:
        ok(len(around) == 2 and maps_with(mark) == around, "R24: the maps around theirs are as they were, octet for octet", [hex(a) for a in around])
    for st in idle:
        st.data(mark)
        forget()
        st.data(b"", 1)
        line = server_says(st, " fin$")
        ok(f" s 80 {hashlib.sha256(mark * 2).hexdigest()[:16]}" in line, "R24: streams that were there all the while go on", line)
        st.close()


def r31_deaf():
    """Nobody takes what the application sends, nor the Terminate behind it."""
    st, p = new(b"e"), select.poll()
    p.register(st.w.s, 0)
    st.w.s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    for _ in range(90):
        st.data(b"deaf" * 2000)
    back = select.poll()    # as much as goes into our buffer has come back
    back.register(st.w.s, select.POLLIN)
    st.w.s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, 4000)
    back.poll(60000)
    st.w.put(v.untagged(v.SEND, 4, 1, 0, b"abcd"))
    t = time.monotonic()
    app_sees(st, "R31: a peer that reads nothing, and a bad frame of its")
    reset = p.poll(60000)
    t = time.monotonic() - t
    ok(reset and t > 1.5, f"R31: the connection is reset when its Terminate could not go for 2 s ({t:.1f} s)")
    st.close()


# ---- the control port ----

def control(flags=v.C | v.S):
    w = connect((THEIRS, 874), OURS)
    return w


def r15_idle():
    """Connections that say nothing, 19 octets, or complete MPA and stop."""
    n, before, files0, kept = 10000 if LONG else 600, rss(), files(), []
    for i in range(n):
        try:
            w = control()
            if i % 3 == 1:
                w.raw(v.mpa(v.REQ, v.C, 2)[:19])
            elif i % 3 == 2:
                w.initiate(peer.IWCM)
            kept.append(w)
        except (Ended, OSError):
            pass
        if len(kept) > 900:
            kept.pop(0).close()
    bounded(before, f"R15: {n} connections to the control port that stop half way")
    ok(files() < files0 + 64, f"R15: and few of them are kept ({files() - files0} files)")
    for w in kept:
        w.close()


def r34_control():
    n, before = 20000 if LONG else 400, None
    negs = [bytes.fromhex(line.split("\t")[2]) for line in open(peer.TOP + "/tests/vectors.txt") if line.startswith(("neg.", "neg2.", "mpa.neg."))]
    for i in range(n):
        try:
            w = control()
            if i % 2:
                w.initiate(peer.IWCM)
            w.raw(rng.choice(negs))
            w.fin()
            w.terminate()
            w.close()
        except (Ended, OSError):
            pass
        if i == n // 4:
            before = rss()
    bounded(before, f"R34: {n} random errors at the control port", 4096)


def r16_pings():
    n, before = 10 ** 6 if LONG else 10000, rss()
    w = control()
    w.initiate(peer.IWCM)
    w.send(peer.sm(peer.HELLO, 1, struct.pack(">Q", 0x6c696172)))
    window, done, seq = 16, 0, 1
    while done < n:
        for _ in range(window):
            seq += 1
            w.send(peer.sm(peer.PING, seq))
        got = 0
        while got < window:
            u = w.get()
            kind = u[18]
            got += kind == peer.ANSWER and struct.unpack(">I", u[22:26])[0] > 1
        done += window
    bounded(before, f"R16: {n} PINGs within the window", 4096)
    w.close()


d = FakeDaemon(OURS, THEIRS)
if not ok(d.ready(), "the hostile daemon is taken for one"):
    sys.exit(1)
if RESTLESS:
    odd()
    r34_streams()
    sys.exit(0)
honest()
r8_scribble()
r_rights()
r33_words()
r16_sends()
r26_flood()
r17_half()
odd()
r34_streams()
r31_deaf()
if MAPPED:
    sys.exit(0)
r10_exposed()
r20_amplifier()
r15_idle()
r34_control()
# what the flood of connections did to our own sessions does not matter: they can be dialled again
r16_pings()
size = os.path.getsize(LOG)
ok(size < 1 << 20, f"R34: the log of all this has {size} octets")
