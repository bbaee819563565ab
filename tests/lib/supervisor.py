# SPDX-License-Identifier: MIT
"""
supervisor.py READY PROGRAM ARGUMENT...: a service manager with a store of descriptors, as systemd has one: starts the program again whenever it has ended,
with what it was given to keep. A line into READY at each READY=1: the pid, how many descriptors are kept, and ms since its start, but
those for which it, or this one, had to wait for a processor. How many are kept is in READY.kept, too, whenever that changes.
While there is a file READY.lossy the last descriptor of each pair is lost when the program starts.
While there is a file READY.late the program is not started.
While there is a file READY.deaf nothing is given up, as if the daemon had died before it could say so. Ends by SIGTERM, and the program with it.
"""
import array
import fcntl
import os
import select
import signal
import socket
import sys
import time

store = []		# name, fd
address = "\0iwt-supervisor.%d" % os.getpid()
notify = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
notify.bind(address)
notify.setblocking(False)


def lose():
    global store
    names = [n for n, _ in store]
    lost = [s for i, s in enumerate(store) if s[0].startswith("iwsock-pair-") and s[0] not in names[i + 1:]]
    for s in lost:
        os.close(s[1])
        store.remove(s)


def waited(p):
    """Seconds, for a processor."""
    try:
        with open("/proc/%s/schedstat" % p) as f:
            return int(f.read().split()[1]) / 1e9
    except OSError:	# it has ended
        return 0


def start():
    global since, told
    told = False
    if os.path.exists(sys.argv[1] + ".lossy"):
        lose()
    since = time.monotonic() - waited("self")
    pid = os.fork()
    if pid:
        return pid
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
    fds = [fcntl.fcntl(fd, fcntl.F_DUPFD, 3 + len(store)) for _, fd in store]	# out of the way of where they go
    for i, fd in enumerate(fds):
        os.dup2(fd, 3 + i)
    os.closerange(3 + len(fds), 65536)
    os.environ.update(NOTIFY_SOCKET="@" + address[1:], LISTEN_PID=str(os.getpid()), LISTEN_FDS=str(len(fds)), LISTEN_FDNAMES=":".join(n for n, _ in store))
    os.execv(sys.argv[2], sys.argv[2:])


def one():
    global store, told
    fds = array.array("i")
    try:
        data, control, _, _ = notify.recvmsg(4096, socket.CMSG_SPACE(64 * fds.itemsize))
    except BlockingIOError:
        return False
    for level, kind, c in control:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            fds.frombytes(c[:len(c) - len(c) % fds.itemsize])
    said = dict(line.split("=", 1) for line in data.decode().split("\n") if "=" in line)
    if "FDSTORE" in said:
        store += [(said["FDNAME"], fd) for fd in fds]
    elif "FDSTOREREMOVE" in said and not os.path.exists(sys.argv[1] + ".deaf"):
        for _, fd in [s for s in store if s[0] == said["FDNAME"]]:
            os.close(fd)
        store = [s for s in store if s[0] != said["FDNAME"]]
    if "FDNAME" in said:
        with open(sys.argv[1] + ".kept", "w") as f:
            print(len(store), file=f)
    if "READY" in said and not told:	# which it says again with its status
        told = True
        with open(sys.argv[1], "a") as f:
            print(pid, len(store), int((time.monotonic() - since - waited(pid) - waited("self")) * 1000), file=f, flush=True)
    return True


def ended(sig, frame):
    os.kill(pid, signal.SIGTERM)
    os.waitpid(pid, 0)
    os._exit(0)


signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
pid = start()
signal.signal(signal.SIGTERM, ended)
while True:
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
    pidfd = os.pidfd_open(pid)
    while pidfd not in select.select([notify, pidfd], [], [])[0]:
        one()
    while one():	# what it said before it ended
        pass
    os.close(pidfd)
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])	# until the number is that of the next one
    os.waitpid(pid, 0)
    while os.path.exists(sys.argv[1] + ".late"):
        time.sleep(0.01)
    pid = start()
