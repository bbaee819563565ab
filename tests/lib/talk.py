# SPDX-License-Identifier: MIT
"""
Ordinary programs that talk on a connection as long as they are told, for tests of what becomes of it:

    talk.py server ADDRESS PORT [FIRST]    sends all octets back but dots; FIRST 1: says hello before anything
    talk.py client ADDRESS PORT [FIRST]    some questions and answers, "begun"; then what the lines of the input say: "N", so many more; "sizes", one of
                                           each size; "bulk N", N octets both ways at once; "late N", the same, of which nothing is read
                                           before "read"; each is answered by "did" and the line. At the end a quarter of a megabyte more, the end in both directions, and "ok MS", how long the connection took

What the connection ends with instead is printed: "ended", and the error or EOF.
"""
import errno
import socket
import sys
import threading
import time

PATTERN = bytes(range(48, 112)) * 4096
unread = []


def echo(c, first):
    try:
        if first:
            c.sendall(b"hello\n")
        while d := c.recv(65536):
            c.sendall(d.replace(b".", b""))
    except OSError as e:
        print("ended", errno.errorcode[e.errno], flush=True)
    c.close()


def server(host, port, first="0"):
    l = socket.create_server((host, int(port)), backlog=128)
    while True:
        threading.Thread(target=echo, args=(l.accept()[0], int(first)), daemon=True).start()


def take(c, n):
    data = b""
    while len(data) < n:
        d = c.recv(n - len(data))
        if not d:
            sys.exit(print("ended EOF", flush=True) or 1)
        data += d
    return data


def ask(c, text):
    c.sendall(text)
    assert take(c, len(text)) == text


def late(c, n):
    text = (PATTERN * (n // len(PATTERN) + 1))[:n]
    t = threading.Thread(target=c.sendall, args=(text,), daemon=True)
    t.start()
    unread.append((text, t))


def read(c):
    text, t = unread.pop()
    assert take(c, len(text)) == text
    t.join()


def bulk(c, n):
    late(c, n)
    read(c)


def do(c, words):
    if words[0] == "bulk":
        bulk(c, int(words[1]))
    elif words[0] == "late":
        late(c, int(words[1]))
    elif words[0] == "read":
        read(c)
    elif words[0] == "sizes":
        for n in (1, 2, 3, 511, 512, 513, 1447, 1448, 1449, 4095, 4096, 8191, 65535, 65536, 65537, 200000):
            bulk(c, n)
            ask(c, PATTERN[n % 100:n % 100 + min(n, 30000)])
    else:
        for i in range(int(words[0])):
            ask(c, PATTERN[i % 1000:i % 1000 + 40])


def client(host, port, first="0"):
    t = time.monotonic()
    c = socket.create_connection((host, int(port)), timeout=60)
    c.settimeout(None)
    try:
        if int(first):
            assert take(c, 6) == b"hello\n"
        for i in range(100):
            ask(c, PATTERN[i:i + 40])
        print("begun", flush=True)
        for line in sys.stdin:
            do(c, line.split())
            print("did", line.strip(), flush=True)
        for i in range(0, len(PATTERN), 16384):
            ask(c, PATTERN[i:i + 16384])
        c.shutdown(socket.SHUT_WR)
        assert c.recv(1) == b""
    except OSError as e:
        sys.exit(print("ended", errno.errorcode[e.errno], flush=True) or 1)
    c.close()
    print("ok %.0f" % ((time.monotonic() - t) * 1000), flush=True)


globals()[sys.argv[1]](*sys.argv[2:])
