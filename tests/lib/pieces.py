# SPDX-License-Identifier: MIT
"""
Many connections that carry pieces one way, for tests of what becomes of them; what arrives is compared:

    pieces.py reader ADDRESS PORT		says "N octets" at the end of each, and on it how many it has read: of large pieces once for each
    pieces.py writer ADDRESS PORT N		writes on N connections without end, the next piece when the one before was read; says their ports. Lines of its input:
                                        "small PORT", its pieces are small from then on; "end PORT...", those end, when their reader has everything; each is
                                        answered by "did" and the line. At the end of its input all end, and it says "ok"
    pieces.py files ADDRESS PORT N		the same by sendfile()

"wrong ..." is a difference.
"""
import os
import select
import socket
import struct
import sys

LARGE, SMALL = 1 << 19, 64
ROUND = 1 << 20
PATTERN = bytes((i * i // 7 + i // 251) & 255 for i in range(ROUND))
TWICE = memoryview(PATTERN + PATTERN[:LARGE])


def part(pos, n):
    return TWICE[pos % ROUND:pos % ROUND + n]


def say(*what):
    print(*what, flush=True)


def reader(host, port):
    ep = select.epoll()
    l = socket.create_server((host, int(port)), backlog=128)
    ep.register(l, select.EPOLLIN)
    conns, buf = {}, memoryview(bytearray(LARGE))
    while True:
        for fd, _ in ep.poll():
            if fd == l.fileno():
                c = l.accept()[0]
                conns[c.fileno()] = [c, 0, 0]
                ep.register(c, select.EPOLLIN)
                continue
            c, pos, said = conns[fd]
            n = c.recv_into(buf)
            if n and buf[:n] != part(pos, n):
                say("wrong at", pos)
            pos += n
            if pos > said and (n < 4096 or pos % LARGE == 0):
                c.sendall(struct.pack("!L", pos - said))
                said = pos
            conns[fd] = [c, pos, said]
            if n:
                continue
            say(pos, "octets")
            ep.unregister(c)
            del conns[fd]
            c.close()


class Writer:
    def __init__(self, ep, sock, file):
        self.ep, self.sock, self.file = ep, sock, file
        self.size = LARGE
        self.pos = self.read = self.end = 0
        self.said = b""
        self.ending = False
        ep.register(sock, select.EPOLLOUT)

    def write(self):
        if self.pos == self.end:
            self.end += self.size
        if self.file is None:
            self.pos += self.sock.send(part(self.pos, self.end - self.pos))
        else:
            self.pos += os.sendfile(self.sock.fileno(), self.file, self.pos % ROUND, self.end - self.pos)
        if self.pos == self.end:
            self.ep.modify(self.sock, select.EPOLLIN)

    def answer(self):
        """False: it has ended."""
        d = self.sock.recv(4096)
        self.said += d
        n = len(self.said) // 4 * 4
        self.read += sum(struct.unpack(f"!{n // 4}L", self.said[:n]))
        self.said = self.said[n:]
        if not d:
            if self.read != self.pos:
                say("wrong:", self.pos, "were sent, read", self.read)
            self.ep.unregister(self.sock)
            self.sock.close()
        elif self.read == self.pos and not self.ending:
            self.ep.modify(self.sock, select.EPOLLOUT)
        return d

    def stop(self):
        self.ending = True
        self.ep.modify(self.sock, select.EPOLLIN)
        self.sock.shutdown(socket.SHUT_WR)


def files(host, port, n):
    file = os.memfd_create("pieces")
    os.write(file, TWICE)
    writer(host, port, n, file)


def writer(host, port, n, file=None):
    ep = select.epoll()
    ep.register(0, select.EPOLLIN)
    left, conns, ports, ends = b"", {}, {}, None
    for _ in range(int(n)):
        s = socket.create_connection((host, int(port)))
        conns[s.fileno()] = ports[s.getsockname()[1]] = Writer(ep, s, file)
    say(*ports)
    while conns:
        for fd, bits in ep.poll():
            if fd == 0:
                d = os.read(0, 4096)
                *lines, left = (left + d).split(b"\n")
                for line in lines:
                    what, *which = line.decode().split()
                    which = [ports[int(p)] for p in which]
                    if what == "small":
                        which[0].size = SMALL
                        say("did", line.decode())
                    else:
                        ends = line.decode(), which
                if not d:
                    ep.unregister(0)
                for c in conns.values() if not d else ends[1] if ends else []:
                    if not c.ending:
                        c.stop()
            elif fd in conns and bits & select.EPOLLOUT and not conns[fd].ending:
                conns[fd].write()
            elif fd in conns and not conns[fd].answer():
                del conns[fd]
        if ends and not any(c in conns.values() for c in ends[1]):
            say("did", ends[0])
            ends = None
    say("ok")


{"reader": reader, "writer": writer, "files": files}[sys.argv[1]](*sys.argv[2:])
