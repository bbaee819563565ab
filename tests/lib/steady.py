# SPDX-License-Identifier: MIT
"""
Connections that are never quiet, for tests of what is done to a daemon meanwhile:

    steady.py server ADDRESS PORT [FILE]	sends all octets back; once FILE is there by a child for each, while the parent has it, too
    steady.py client ADDRESS PORT N FILE	N connections, each with questions of many sizes and the answers, which are compared, until FILE is there. Then
                                        "ok ANSWERS", or what failed; and of each answer that took more than 20 ms a line "late SECONDS MS", when it came by CLOCK_MONOTONIC

Where an error or an end comes is printed, and the status is 1.
"""
import os
import socket
import sys
import threading
import time

TEXT = bytes(range(33, 127)) * 1500
SIZES = (1, 64, 64, 64, 700, 64, 4096, 64, 64, 20000, 64, 131072)


def echo(c, fork):
    pid = None
    while d := c.recv(65536):
        c.sendall(d)
        if fork and pid is None and os.path.exists(fork):
            pid = os.fork()
            if pid:
                os.waitpid(pid, 0)
                break
    c.close()
    if pid == 0:
        os._exit(0)


def server(host, port, fork=""):
    l = socket.create_server((host, int(port)), backlog=128)
    while True:
        threading.Thread(target=echo, args=(l.accept()[0], fork), daemon=True).start()


def talk(c, who, stop, out):
    n = 0
    try:
        while not os.path.exists(stop):
            size = SIZES[n % len(SIZES)]
            d = TEXT[n % 90:n % 90 + size]
            begun = time.monotonic()
            c.sendall(d)
            got = b""
            while len(got) < size:
                r = c.recv(size - len(got))
                if not r:
                    raise OSError("end of stream")
                got += r
            if got != d:
                raise OSError("not what was sent")
            now = time.monotonic()
            if now - begun > 0.02:
                out.append("late %.3f %d" % (now, (now - begun) * 1000))
            n += 1
        c.shutdown(socket.SHUT_WR)
        if c.recv(1):
            raise OSError("more than was sent")
    except OSError as e:
        out.append("failed %d, after %d answers: %r" % (who, n, e))
    return n


def client(host, port, n, stop):
    conns = [socket.create_connection((host, int(port))) for _ in range(int(n))]
    out, counts = [], []
    threads = [threading.Thread(target=lambda i=i: counts.append(talk(conns[i], i, stop, out))) for i in range(len(conns))]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    bad = any(o.startswith("failed") for o in out)
    print("\n".join(out + ([] if bad else ["ok %d" % sum(counts)])), flush=True)
    return bad


sys.exit(globals()[sys.argv[1]](*sys.argv[2:]))
