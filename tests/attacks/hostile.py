# SPDX-License-Identifier: MIT
"""What a local user does to others: hostile.py RUNDIR NAME args..., for tests/attacks_local.t.

daemon			a control socket of its own in RUNDIR: what does the first program say to it?
flood NEAR FAR PORT	proposes connections between the two addresses, other ones all the time, until its input ends
repair			as root: SWITCH with a connection under TCP_REPAIR
"""
import os
import select
import socket
import sys

from ctl import CLOSED, SO_NETNS_COOKIE, Client, Own, ident, name_of, u64

RUNDIR = sys.argv[1]


def daemon():
    s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    s.bind(RUNDIR + "/ctl.sock")
    os.chmod(RUNDIR + "/ctl.sock", 0o666)
    s.listen(5)
    print("told", s.accept()[0].recv(100) or "nothing", flush=True)


def flood(near, far, port):
    with socket.socket() as s:
        ns = u64(s, SO_NETNS_COOKIE)
    c, n = Client(RUNDIR), 0
    while not select.select([sys.stdin], [], [], 0)[0]:
        for _ in range(1000):
            n += 1
            c.propose(n, n, ns, name_of((near, 1 + n * 7 % 65535)), name_of((far, int(port))), n & 1)
            if n > 20000:
                c.put(CLOSED, ident(n - 20000))
        if not c.sync():
            print("closed", flush=True)
            return
        print("flood", n, flush=True)


def repair():
    with socket.create_server(("127.0.0.1", 0)) as l:
        c = Client(RUNDIR)
        for on in (0, 1):
            own = Own(c, l)
            own.server.setsockopt(socket.IPPROTO_TCP, 19, on)
            print("switched" if own.switch(own.n, own.server.fileno()) else "refused", flush=True)
            own.server.setsockopt(socket.IPPROTO_TCP, 19, 0)


globals()[sys.argv[2]](*sys.argv[3:])
