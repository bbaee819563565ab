#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""First inputs of the fuzzers, made from the golden vectors: seeds.py FUZZER DIRECTORY, or --max-len FUZZER for the longest input of use."""
import os
import struct
import sys

top = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.dont_write_bytecode = True
MAX_LEN = {"mpa_fuzz": 600, "fpdu_fuzz": 4096, "rs_fuzz": 2048, "ctlword_fuzz": 2048, "conf_fuzz": 2048, "conn_fuzz": 1500, "ctl_fuzz": 1024,
           "session_fuzz": 1024, "ask_fuzz": 1024}


def vectors():
    for line in open(os.environ.get("IW_VECTORS", top + "/tests/vectors.txt")):
        if line.strip() and not line.startswith("#"):
            name, _, octets = line.rstrip("\n").split("\t")
            yield name, bytes.fromhex(octets)


def mpa():
    for name, v in vectors():
        if name.startswith("mpa."):
            yield bytes([v[9] == 0x70]) + v
    yield b"\0" + b"RSTM" + bytes.fromhex("01010007a1a1a1a1000000000000100000010000000800400008") + bytes(48)
    yield b"\0" + b"IWCM" + struct.pack(">BBHHHQ", 1, 1, 128, 256, 0, 1)


def fpdu():
    """Whole FPDUs without PAD and CRC (the target puts them on, and Markers with 2), or the stream itself with Markers and CRCs (0x83)."""
    def ulpdus(*us):
        return b"".join(struct.pack(">H", len(u)) + u for u in us)

    def response(to, data, last=True):
        return struct.pack(">BBIQ", 0xc1 if last else 0x81, 0x42, 0x19f0c709, to) + data

    def original(msn):
        return struct.pack(">BBIIIIIQ", 0x41, 0x4b, 0, 3, msn, 0, msn, 10)

    zero = bytes.fromhex("c1420000000000000000000000000000")[:14]
    yield bytes([4]) + ulpdus(original(1), response(0x2040, b"a" * 16), response(0x2080, b"b" * 20, False), response(0x2094, b"c" * 12), original(2))
    yield bytes([0x24]) + ulpdus(response(0x2000, b"d" * 32), zero, response(0x2080, b"e" * 32), original(1), response(0x2100, b"f" * 32),
                                 response(0x2140, b"g" * 32))
    yield bytes([0x76]) + ulpdus(zero, response(0x2000, b"h" * 9, False), response(0x2009, b"i" * 23), zero)
    v = dict(vectors())
    inv = v["fpdu.sendinv"][2:24]
    yield bytes([0]) + ulpdus(v["fpdu.rreq"][2:48], inv)    # a Response whose source went
    yield bytes([0x40]) + ulpdus(inv[:2] + b"\x77\xe0\xb9\x02" + inv[6:])    # a Send of ours, likewise
    for name, v in vectors():
        if name.startswith(("fpdu.", "neg", "want", "term.", "ign.", "seg.", "stream.")) and len(v) >= 8:
            if name.startswith("stream.m") or name == "stream.neg.fpduptr":
                yield b"\3" + v
                yield b"\x83" + v
                continue
            out, p = b"", 0
            while p + 2 <= len(v):
                n = struct.unpack_from(">H", v, p)[0]
                out += v[p:p + 2 + n]
                p += 2 + n + -(2 + n) % 4 + 4
            for mode in (0, 4, 16, 20, 0x26, 0x50, 0x72):
                yield bytes([mode]) + out


def words():
    start = bytes((31, 8, 8))
    for act in (b"\x81\x10\x00", b"\x01\x00\x00\x00\x10", b"\x07\x00\x10\x00\x00\x00", b"\x04\x05\x00hello", b"\x05\x00\x00\x00\x00\x00\x40",
                b"\x81\xff\xff\x06\x00", b"\x05\0\0\0\0\1\0\x08\x01", b"\x83\x80\x00\x10", b"\x0a\0\0\0\x10\0\0\0"):
        yield start + act
        yield start + act * 4 + b"\x80\xff\xff" + act * 4
        # taken by the library; it writes, reads, is given octets; given back, with something written over, too
        took = start + b"\x89" + act * 2 + b"\x82\x20\x00" + act * 2 + b"\x80\xff\xff\x81\x00\x10"
        yield took + b"\x88\x00\x00" + act + b"\x89" + act
        yield took + b"\x87\x00\x00\x01\x02\x00\x10\x00\x00\x00\x00\x00\x01" + act


def conf():
    yield b"\0" + open(top + "/conf/iwarpd.conf", "rb").read()
    yield b"\2" + open(top + "/conf/iwsock.conf", "rb").read()
    yield b"\2iwarp connect nginx* 10.0.0.0/8:80,8000-8080\ntcp both * [2001:db8::]/32\niwarp listen /usr/* *:*\n"
    yield b"\2upgrade_after 32 calls 128K\niwarp both * *:1 upgrade_after 0 upgrade_wait 50\nupgrade_wait 10000\nburst no\n"
    for line in ("control_port=874", "ring_size=1M", "max_memory=4G", "allow=192.0.2.0/24 2001:db8::/32", "log_level=debug", "crc=off",
                 "run_dir=/run/x", "max_ird=16", "answer_timeout=20"):
        yield b"\1" + line.encode()
        yield b"\0" + line.encode().replace(b"=", b" = ") + b" # x\n"


def conn():
    """Role, then the octets of the peer."""
    for name, v in vectors():
        if name.startswith(("mpa.", "conv.")):
            for mode in range(4):
                yield bytes([mode]) + v
    reqs = dict(vectors())
    for name, v in reqs.items():
        if name.startswith(("fpdu.", "neg.")) and len(v) < 300:
            yield b"\0" + reqs["mpa.req.r2.p2p"] + reqs["fpdu.write.zero"] + v
            yield b"\1" + reqs["mpa.rep.r2.p2p"] + v
            yield b"\x90" + reqs["mpa.req.r1.c"] + v + reqs["fpdu.send.5"]


def ringstream():
    """And one that was found: an owner's urgent mark ahead of all octets."""
    yield from words()
    yield bytes.fromhex("1f08088981100081100082200081100081100080ffff810010870100a10100000000000000a1a1a1c302100000a90000000100")


def programs(kinds):
    """Short runs of each kind of step, and of all of them."""
    for k in range(kinds):
        yield bytes([k]) + bytes(24)
        yield bytes([0, 0, 0, k]) + bytes(range(40))
    yield bytes(x for k in range(kinds) for x in (k, 1, 2, 3))


def libraries():
    """Programs of ctl_fuzz's steps: of each kind, and those that lead to a stream between two programs of the host."""
    yield from programs(16)
    go = b"\x0f\x03"
    client, server = b"\x07\x00" + go, b"\x07\x04" + go
    use = (b"\x0d\x01\x05\x05\x05\x0c\x03\x00\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0d\x03\x01\x01\x01\x0b\x00\x0c\x01\x01\x09\x0e\x01" +
           go * 3 + b"\x0e\x03" + go)

    def switch(end, k, how=b"\x01"):
        """SWITCH of that end, and SWITCHED (or ABANDON) of the k-th stream."""
        return b"\x08" + bytes([end * 4 | 0x40]) + go + b"\x09" + how + bytes([k]) + go

    for proposed in (client + server, server + client):
        yield proposed + switch(1, 0, b"\x00")
        yield proposed + switch(1, 0) + b"\x0d\x09\x05\x05" + b"\x0a\x00\x00" + go
        yield proposed + switch(1, 0) + b"\x06\x11" + go + switch(0, 1)
        yield proposed + switch(1, 0) + switch(0, 1) + use
        yield proposed + switch(1, 0) + use + switch(0, 1) + use
    # two programs
    hello = b"\x10" + go
    yield hello + b"\x17\x00" + server + switch(1, 0) + b"\x18\x40" + go + b"\x19\x01\x01" + use


def sessions():
    """Programs of session_fuzz's steps: of each kind, and those that lead to a stream, its end, and its upgrade."""
    yield from programs(8)
    wait = b"\x87\x03"
    between = b"\x04\x01"     # from the far end of the connection to the listener
    ask, hold = b"\x80\x00\x07" + between, b"\x80\x01\x08" + between
    propose, switch, switched, back = b"\x04\x05", b"\x04\x00", b"\x04\x01", b"\x04\x03"
    for more in (ask + b"\x00", hold + b"\x01\x00\x00\x00\x01\x05", hold + b"\x01\x00\x00\x00\x01\x00", back, b"\x04\x04", b"\x05\x00",
                 ask + b"\x01\x00\x03\x00\x00\x00"):
        yield b"\x00\x00" + b"\x05\x01" + propose + ask + b"\x01\x00\x02\x00\x00\x00" + wait + switch + switched + wait + more + wait
        yield b"\x00\x00" + b"\x05\x01" + propose + ask + b"\x01\x00\x03\x00\x00\x00" + wait + switch + more + switched + more + wait


def answers():
    """A question; then an answer to HELLO and what may follow: answers, a notice, more questions, any octets."""
    hello = b"\x00\x00\x80"
    for more in (b"\x80", b"\x90\x05", b"\x82\x01\x01", b"\x82\x00\x02\x07", b"\x82\x11\x03", b"\x82\x10\x03\x02", b"\x83\x81\x80",
                 b"\x83\x41\x80", b"\x83\xc1\x87\x00\x80", b"\x86\x00", b"\xc0\x09",
                 b"\x84\x00\x0c" + bytes(12), b"\x85\x00\x12" + bytes(18), b"\x83\x02\x03\x03\x00\x00"):
        yield hello + more
        yield hello + more * 3 + b"\x80\x83\x04\x80"
    for how in (b"\x20\x05", b"\x10", b"\x80\x00\x10\x01", b"\x80\x00\x00\x09", b"\x08\x01", b"\x40\x00"):
        yield b"\x00" + how + b"\x80\x80"
    yield b"\x00\x00\x90\x07\x80"


MAKERS = {"mpa_fuzz": mpa, "fpdu_fuzz": fpdu, "rs_fuzz": ringstream, "ctlword_fuzz": words, "conf_fuzz": conf, "conn_fuzz": conn,
          "ctl_fuzz": libraries, "session_fuzz": sessions, "ask_fuzz": answers}

if sys.argv[1] == "--max-len":
    print(MAX_LEN.get(sys.argv[2], 4096))
else:
    for i, octets in enumerate(MAKERS.get(sys.argv[1], lambda: ())()):
        with open(f"{sys.argv[2]}/{i:03}", "wb") as f:
            f.write(octets)
