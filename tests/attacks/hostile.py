# SPDX-License-Identifier: MIT
"""What a local user does to others: hostile.py RUNDIR NAME args..., for tests/attacks_local.t.

daemon		a control socket of its own in RUNDIR: what does the first program say to it?
"""
import os
import socket
import sys

RUNDIR = sys.argv[1]


def daemon():
    s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    s.bind(RUNDIR + "/ctl.sock")
    os.chmod(RUNDIR + "/ctl.sock", 0o666)
    s.listen(5)
    print("told", s.accept()[0].recv(100) or "nothing", flush=True)


globals()[sys.argv[2]](*sys.argv[3:])
