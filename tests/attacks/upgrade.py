# SPDX-License-Identifier: MIT
"""Attacks on what two daemons say of a connection before it is upgraded, by a hostile daemon of another host: positions, nonces and octets
that are not so, Request and Reply at the wrong place, questions by the thousand. upgrade.py OURS THEIRS PORT DAEMON-PID LOG SERVER-LOG
THEIRS:PORT is an app.py server with the library. Whatever is said, its application gets the octets of the connection, each once."""
import hashlib
import os
import random
import re
import struct
import sys
import time

import peer
from peer import BUSY, CLIENT, HOLD, LONG, PROPOSE, SWITCHED, UNANSWERED, Ended, FakeDaemon, ends, ok, private, v

OURS, THEIRS, PORT, PID, LOG, SERVER = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), sys.argv[5], sys.argv[6]
SAN = os.environ.get("IW_SAN", "") != ""
SEED = random.randrange(2 ** 32)
rng = random.Random(SEED)
print("# seed", SEED)
TUPLE_UNKNOWN = 6


def rss():
    return int(re.search(r"VmRSS:\s+(\d+)", open(f"/proc/{PID}/status").read()).group(1))


def bounded(before, what, kib=8192):
    grown = rss() - before
    ok(grown < (kib * 16 if SAN else kib), f"{what}: memory stays bounded ({grown} KiB)")


def files():
    return len(os.listdir(f"/proc/{PID}/fd"))


def server_said():
    return open(SERVER).read().split("\n")[:-1]


def server_says(c, seconds=60):
    """The server's last word about this connection."""
    end = time.monotonic() + seconds
    while True:
        lines = [x for x in server_said()[c.mark:] if x.startswith(f"connection {c.us[1]} ")]
        if lines or time.monotonic() > end:
            return lines[-1] if lines else ""
        time.sleep(0.02)


def relayed():
    mark = len(server_said())       # a port may be used again
    w, c = d.relayed(PORT)
    c.mark = mark
    return w, c


def whole(w, c, what, how="fin"):
    """The application has got what was sent, each octet once, and sees the end that it should."""
    if how == "fin":
        w.fin()
    line = server_says(c)
    octets = c.sent.lstrip(b".")[1:]
    ok(f" {len(octets)} {hashlib.sha256(octets).hexdigest()[:16]} {how}" in line, f"{what}: the application has every octet, and {how}", line)
    w.close()


def sink():
    w, c = relayed()
    d.plain(w, c, b"s" + rng.randbytes(200))
    return w, c


def refused(w, c, **kw):
    return not d.hold(c, rng.getrandbits(63) | 1, **kw)[0]


def request(c, nonce):
    return v.mpa(v.REQ, v.C | v.S, 2, v.enh(1, 0, 16, 1, 0, 16) + private(c.us, c.them, nonce=nonce))


def reply(c, nonce):
    return v.mpa(v.REP, v.C | v.S, 2, v.enh(1, 0, 16, 1, 0, 16) + private(c.them, c.us, nonce=nonce))


# ---- the daemon is asked: HOLD ----

def holds():
    w, c = sink()
    ok(refused(w, c, pos=len(c.sent) + 5000), "N8: HOLD where nothing ever comes: no, after a while")
    ok(refused(w, c, pos=2 ** 64 - 1), "N8: HOLD at 2^64 - 1: no")
    ok(refused(w, c, pos=0), "N8: HOLD before what was read: no")
    d.plain(w, c, rng.randbytes(100))
    whole(w, c, "N8: positions that are not so")
    w, c = sink()
    ok(refused(w, c, crc=1 + v.crc32c(c.sent[-64:]) & 0xffffffff or 1), "N8: HOLD with the CRC of other octets: no")
    ok(refused(w, c), "N8: and never again for that connection")
    ok("not seen the same octets" in open(LOG).read(), "N8: which the log says")
    whole(w, c, "N8: octets that are not so")
    ok(d.hold(peer.Connection((OURS, 4321), (THEIRS, PORT)), 77)[:2] == (0, UNANSWERED), "R28: HOLD of a connection that nobody has: no")
    for what, kind, tail in (("HOLD", HOLD, bytes(24)), ("PROPOSE", PROPOSE, b"")):
        a = d.answer(d.ask(kind, ends(("10.77.0.3", 4321), (THEIRS, PORT)) + tail, flags=SWITCHED * (kind == PROPOSE)))
        ok(a[:2] == (0, TUPLE_UNKNOWN), f"N1: {what} of a third host's connection: no", a)


def requests():
    def other(w, c, nonce):
        return request(c, nonce ^ 1 << 40)

    def cut(w, c, nonce):
        return request(c, nonce)[:40] + b"and then it is none"

    def letter(w, c, nonce):
        return b"Mostly harmless"

    for what, octets in (("a Request with another nonce", other), ("a Request that is none from the middle on", cut), ("an M that is none", letter)):
        w, c = sink()
        nonce, _ = d.held(w, c)
        x = octets(w, c, nonce)
        for i in range(0, len(x), 7):
            d.plain(w, c, x[i:i + 7])
        d.plain(w, c, b" " * 300)
        whole(w, c, f"R28: {what} where we hold")
    w, c = sink()
    d.plain(w, c, request(c, 1) + reply(c, 1) + b"more")
    whole(w, c, "R28: Request and Reply that nobody announced")
    w, c = sink()
    d.held(w, c)
    whole(w, c, "R28: FIN where we hold")
    w, c = sink()
    for _ in range(20):
        d.held(w, c)
        d.plain(w, c, b"went on")
    whole(w, c, "R28: twenty times held and gone on")
    w, c = relayed()
    d.plain(w, c, b"g")
    got = w.take(100000)
    c.got = got
    d.held(w, c)
    ok(w.take(1 << 20) == b"\xa5" * (1 << 20), "R17: HELD, and we say nothing more: the application's octets come all the same")
    w.close()


# ---- the daemon asks: HELD, and what we do then ----

def asked(answer):
    """An echo whose daemon begins, and is answered so: (pos, crc) of it. The nonce, or 0: it never began."""
    w, c = relayed()
    box = []

    def held(nonce, pos, crc):
        if box:
            return None
        box.append((nonce, pos))
        return answer(c)

    c.held = held
    d.plain(w, c, b"." * 80 + b"e")     # so many, relayed, that their CRC is known
    end = time.monotonic() + 60
    while not box and time.monotonic() < end:
        d.plain(w, c, b"x")
        if not answered(w, c, box):
            break
    nonce, pos = (box + [(0, len(c.got))])[0]
    c.got += w.take(max(0, pos - len(c.got)))
    c.got, w.buf = c.got[:pos], c.got[pos:] + w.buf     # the Request may have been taken for an echo
    return w, c, nonce


def requested():
    """An echo whose daemon has sent its Request, and what that says. On a busy machine an answer can be late, and it begins anew."""
    w, c = relayed()
    nonces = []

    def held(nonce, pos, crc):
        nonces.append(nonce)
        return right(c)

    c.held = held
    d.plain(w, c, b"e")
    end, x = time.monotonic() + 120, b""
    while x != b"M" and time.monotonic() < end:
        d.plain(w, c, b"x")
        x = w.take(1)
        c.got += x
    c.got, w.buf = c.got[:-1], x + w.buf
    head, pd = w.frame()
    ok(head[:16] == v.REQ and struct.unpack(">Q", pd[-8:])[0] in nonces, "R28: a Request comes where the other end holds", (head, pd, nonces))
    c.held = lambda nonce, pos, crc: None       # what it begins after this attempt is not wanted
    return w, c, nonces[-1]


def answered(w, c, box):
    """The echo came; or it is held."""
    while not box:
        try:
            w.s.settimeout(0.01)
            c.got += w.take(1)
            return True
        except Ended as e:
            if "timed out" not in str(e):
                raise
        finally:
            w.s.settimeout(60)
    return False


def right(c):
    return len(c.sent), v.crc32c(c.sent[-64:])


def answers():
    for what, answer in (
            ("no", lambda c: None),
            ("a position where nothing ever comes", lambda c: (len(c.sent) + 5000, v.crc32c(c.sent[-64:]))),
            ("2^64 - 1", lambda c: (2 ** 64 - 1, 1)),
            ("a position before what was sent", lambda c: (1, v.crc32c(c.sent[:1]))),
            ("the CRC of other octets", lambda c: (len(c.sent), 12345))):
        w, c, nonce = asked(answer)
        c.got += w.take(len(c.sent.lstrip(b".")) - 1 - len(c.got))
        ok(nonce and c.got == c.sent.lstrip(b".")[1:], f"N8: HOLD answered by {what}: the echo goes on", (nonce, c.got))
        whole(w, c, f"N8: {what}")

    def then(what, octets):
        w, c, nonce = requested()
        x = octets(c, nonce)
        for i in range(0, len(x), 11):
            d.plain(w, c, x[i:i + 11])
        return w, c

    for what, octets in (
            ("octets that are no Reply", lambda c, nonce: b"we have gone on"),
            ("a Reply with another nonce", lambda c, nonce: reply(c, nonce ^ 1)),
            ("a Reply that is none from the middle on", lambda c, nonce: reply(c, nonce)[:50] + b"!" * 200),
            ("a Request", lambda c, nonce: request(c, nonce)),
            ("HOLD while it asks", lambda c, nonce: b"held?" if d.hold(c, 99)[:2] == (0, BUSY) else b"")):
        w, c = then(what, octets)
        need = len(c.sent.lstrip(b".")) - 1
        echo = c.got + w.take(need - len(c.got))
        ok(echo == c.sent.lstrip(b".")[1:], f"R28: {what}: the echo goes on", echo)
        whole(w, c, f"R28: {what}")
    w, c, nonce = requested()
    w.raw(reply(c, nonce) + b"and more")
    line = server_says(c)
    ok(line.endswith("ECONNRESET") and "behind the MPA startup frame" in open(LOG).read(), "R28: octets behind the Reply: reset", line)
    w.close()


def silence():
    """It has sent its Request, and is never answered: that connection stands still, no other."""
    files0, held = files(), []
    for _ in range(10):
        held.append(requested()[0])
    w, c = sink()
    whole(w, c, "R17: ten Requests that are never answered, and another connection")
    for w in held:
        w.close()
    end = time.monotonic() + 60
    while files() > files0 + 3 and time.monotonic() < end:
        time.sleep(0.02)
    ok(files() <= files0 + 3, "R17: and they go with their connections", (files0, files()))


# ---- floods ----

def window(n, question, size=8):
    """So many questions, a few at a time. How often it was yes."""
    open_, yes = [], 0
    for i in range(n):
        open_.append(question(i))
        if len(open_) == size:
            yes += d.answer(open_.pop(0))[0]
    for seq in open_:
        yes += d.answer(seq)[0]
    return yes


def floods():
    n = 200000 if LONG else 5000
    w, c = sink()
    before = rss()

    def hold(i):
        pos = rng.choice((0, len(c.sent), len(c.sent) + 1, len(c.sent) + rng.randrange(1 << 20), rng.getrandbits(64)))
        return d.ask(HOLD, ends(c.us, c.them) + struct.pack(">QQII", rng.getrandbits(64), pos, rng.getrandbits(32), 0))

    yes = window(n, hold)
    bounded(before, f"R34: {n} HOLDs of one connection ({yes} yes)")
    d.plain(w, c, rng.randbytes(1000))
    whole(w, c, "R34: HOLDs by the thousand")
    w, c = sink()
    before = rss()
    window(n, lambda i: d.ask(PROPOSE, ends(c.us, c.them), flags=rng.choice((0, CLIENT, SWITCHED, SWITCHED | CLIENT))))
    d.plain(w, c, rng.randbytes(1000))
    whole(w, c, "R34: a connection that is and is not proposed there, by the thousand")
    yes = window(n, lambda i: d.ask(PROPOSE, ends((OURS, 1 + rng.randrange(65535)), (THEIRS, 1 + i % 65535)), flags=rng.randrange(4)))
    ok(yes == 0, f"R34: {n} proposals of connections that nobody has: no")
    bounded(before, "R34: proposals")


d = FakeDaemon(OURS, THEIRS)
if not ok(d.ready(), "the daemon that lies is taken for one"):
    sys.exit(1)
holds()
requests()
answers()
silence()
floods()
