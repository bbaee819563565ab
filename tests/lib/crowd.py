# SPDX-License-Identifier: MIT
"""
Many connections of one program, for tests of what becomes of them:

    crowd.py server ADDRESS PORT		sends all octets back, in one process
    crowd.py client ADDRESS PORT N [ENDS]	N connections; the lines of its input: "ask M", M questions and answers on each; "pour", from here on a thread
                                        asks without end, until "calm"; "flood", the same with a large one on one after the other; "options", TCP answers; "set", some are set, and "same", they are as they were;
                                        "fork I", a child asks on the first I and ends, then this process does; "leave I", a child
                                        comes while the answers on the first I are read in part, and goes with the next order; each is answered by "did" and the line. At the end both directions of each end, and "ok". With ENDS "close", only ours do, by close()
"""
import os
import select
import socket
import sys
import threading

TEXT = bytes(range(33, 127)) * 700
staying = []    # children, until the next order


def server(host, port):
    l = socket.create_server((host, int(port)), backlog=512)
    ep = select.epoll()
    ep.register(l, select.EPOLLIN)
    conns = {}
    while True:
        for fd, _ in ep.poll():
            if fd == l.fileno():
                c = l.accept()[0]
                conns[c.fileno()] = c
                ep.register(c, select.EPOLLIN)
                continue
            c = conns[fd]
            try:
                d = c.recv(65536)
                if d:
                    c.sendall(d)
                    continue
                print("ended EOF", flush=True)
            except OSError as e:
                print("ended", e, flush=True)
            ep.unregister(fd)
            del conns[fd]
            c.close()


def ask(c, i, n=None):
    n = n or 1 + i * 37 % 300
    d = TEXT[i % 90:i % 90 + n]
    c.sendall(d)
    got = b""
    while len(got) < n:
        r = c.recv(n - len(got))
        if not r:
            raise OSError("end of stream")
        got += r
    assert got == d, (got[:20], d[:20])


def in_child(conns):
    pid = os.fork()
    if not pid:
        for i, c in enumerate(conns):
            ask(c, i)
        os._exit(0)
    _, status = os.waitpid(pid, 0)
    assert status == 0, status
    for i, c in enumerate(conns):
        ask(c, i, 20000)


def left_unread(conns):
    text = TEXT[:3000]
    for c in conns:
        c.sendall(text)
    for c in conns:
        assert c.recv(1) == text[:1]
        have = 0
        while have < len(text) - 1:     # what is looked at without waiting lies in the ring then
            try:
                have = len(c.recv(4096, socket.MSG_PEEK | socket.MSG_DONTWAIT))
            except BlockingIOError:
                os.sched_yield()
    r, w = os.pipe()
    pid = os.fork()
    if not pid:
        os.close(w)
        os.read(r, 1)
        os._exit(0)
    os.close(r)
    staying.append((pid, w))
    for c in conns:
        got = b""
        while len(got) < len(text) - 1:
            got += c.recv(len(text) - 1 - len(got))
        assert got == text[1:]


def client(host, port, n, ends="both"):
    conns = [socket.create_connection((host, int(port)), timeout=60) for _ in range(int(n))]
    stop, t, bad = threading.Event(), None, []
    for c in conns:
        c.settimeout(None)

    def pour():
        k = 0
        while not stop.is_set():
            k += 1
            for i, c in enumerate(conns):
                try:
                    ask(c, i + k)
                except Exception as e:
                    bad.append("%d: %r" % (i, e))
                    return

    def flood():
        k = 0
        while not stop.is_set():
            k += 1
            c = conns[k % len(conns)]
            d = TEXT[k % 90:] * 40
            got = bytearray()
            w = threading.Thread(target=c.sendall, args=(d,))
            w.start()
            try:
                while len(got) < len(d):
                    r = c.recv(1 << 20)
                    if not r:
                        raise OSError("end of stream")
                    got += r
                assert got == d
            except Exception as e:
                bad.append("%d: %r" % (k % len(conns), e))
                return
            w.join()

    for line in sys.stdin:
        what, _, arg = line.strip().partition(" ")
        while staying:
            pid, w = staying.pop()
            os.close(w)
            os.waitpid(pid, 0)
        try:
            if what == "ask":
                for k in range(int(arg)):
                    for i, c in enumerate(conns):
                        ask(c, i + k)
            elif what == "pour":
                stop.clear()
                t = threading.Thread(target=pour)
                t.start()
            elif what == "flood":
                stop.clear()
                t = threading.Thread(target=flood)
                t.start()
            elif what == "calm":
                stop.set()
                t.join()
                assert not bad, bad
            elif what == "options":
                for c in conns:
                    assert c.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 8)[0] == 1    # ESTABLISHED
                    assert c.getsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG) > 500
                    c.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 77)
                    assert c.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 77
            elif what == "set":
                for c in conns:
                    c.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    c.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"reno")
            elif what == "same":
                for c in conns:
                    assert c.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) == 1
                    assert c.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).rstrip(b"\0") == b"reno"
            elif what == "fork":
                in_child(conns[:int(arg)])
            elif what == "leave":
                left_unread(conns[:int(arg)])
        except Exception as e:
            sys.exit(print("failed", line.strip(), repr(e), flush=True) or 1)
        print("did", line.strip(), flush=True)
    for i, c in enumerate(conns):
        if ends == "both":
            c.shutdown(socket.SHUT_WR)
            assert c.recv(1) == b"", i
        c.close()
    print("ok", flush=True)


globals()[sys.argv[1]](*sys.argv[2:])
