# SPDX-License-Identifier: MIT
"""Programs and daemons are killed while connections are upgraded: kills.py BUILD LIB DIR SEED ROUNDS HOST... with HOST = NETNS,ADDRESS,RUNDIR.

Each round some pairs of programs (tests/lib/talker.c) talk, on one host and between two, and somebody is killed at a moment that chance
chooses. What the programs saw must be what TCP would have given them, and what is left in the daemons and hosts nothing. Prints results."""
import json
import mmap
import os
import random
import signal
import socket
import struct
import subprocess
import sys
import time

BUILD, LIB, DIR, SEED, ROUNDS = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5])
PAIRS = 4
CONTROL = 874			# port of the daemons
END = struct.Struct("=QQQQIIiII12s")	# struct end of talker.c
RESETS = (104, 32)		# ECONNRESET, EPIPE
rnd = random.Random(SEED)


class Wrong(Exception):
    pass


def until(what, seconds, cond):
    end = time.monotonic() + 6 * seconds	# as until_true (tap.sh): machines are busy
    while not cond():
        if time.monotonic() > end:
            raise Wrong("waited in vain for " + what)
        time.sleep(0.005)


class Host:
    def __init__(self, spec, n):
        self.ns, self.addr, self.dir = spec.split(",")
        self.n, self.daemon, self.switched, self.base = n, None, 0, None
        self.start()

    def enter(self, *cmd):
        return ["nsenter", "--net=" + self.ns, *cmd]

    def start(self):
        """The daemon, until READY=1."""
        path = os.path.join(self.dir, "notify")
        s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        s.bind(path)
        s.settimeout(60)
        env = {k: v for k, v in os.environ.items() if k not in ("LD_PRELOAD", "IWSOCK_RUNDIR")}
        with open("%s/iwarpd.%d.log" % (DIR, self.n), "ab") as log:
            self.daemon = subprocess.Popen(
                self.enter(BUILD + "/iwarpd", "--run-dir", self.dir, "-o", "negative_cache=1", "-o", "answer_timeout=200"),
                env=dict(env, NOTIFY_SOCKET=path), stderr=log, stdin=subprocess.DEVNULL)
        while b"READY=1" not in s.recv(300):
            pass
        s.close()
        os.unlink(path)
        self.base, self.counted = None, 0

    def kill(self):
        self.daemon.kill()
        self.daemon.wait()

    def ctl(self, what):
        env = {k: v for k, v in os.environ.items() if k != "LD_PRELOAD"}
        return json.loads(subprocess.run([BUILD + "/iwctl", "--run-dir", self.dir, what, "--json"], stdout=subprocess.PIPE, env=env, check=True).stdout)

    def knows(self, other):
        return any(p["address"] == other.addr and p["state"] == "iwarp" for p in self.ctl("peers"))

    def count(self):
        n = self.ctl("status")["ends_switched"]
        self.switched += n - self.counted
        self.counted = n

    def has(self):
        """What the daemon has open, by kind, but TCP: sessions come and go."""
        fds, tcp = "/proc/%d/fd" % self.daemon.pid, set()
        for name in ("tcp", "tcp6"):
            with open("/proc/%d/net/%s" % (self.daemon.pid, name)) as f:
                tcp |= {line.split()[9] for line in f}
        kinds = {}
        for fd in os.listdir(fds):
            try:
                to = os.readlink(fds + "/" + fd)
            except OSError:
                continue
            if to.startswith("socket:") and to[8:-1] in tcp:
                continue
            to = to.split(":")[0] if to.startswith("socket:") else to
            kinds[to] = kinds.get(to, 0) + 1
        with open("/proc/%d/maps" % self.daemon.pid) as f:
            kinds["maps"] = sum("memfd:" in line and "iwsock-pairs" not in line for line in f)	# one table of all pairs, from the first on
        return kinds

    def sockets(self):
        """TCP connections of the host but those of daemons."""
        n = 0
        with open("/proc/%d/net/tcp" % self.daemon.pid) as f:
            for line in list(f)[1:]:
                local, peer, state = line.split()[1:4]
                ports = {int(a.split(":")[1], 16) for a in (local, peer)}
                n += state not in ("06", "0A") and CONTROL not in ports
        return n

    def left(self):
        """What is left here though nobody talks."""
        rows = [r for r in self.ctl("streams")]
        programs = self.ctl("status")["programs"]
        now = self.has()
        more = {k: v for k, v in now.items() if self.base and v > self.base.get(k, 0)}
        if rows or programs or self.sockets() or more:
            return "host %d: %d rows of streams, %d programs, %d connections, more open than before: %s" % (
                self.n, len(rows), programs, self.sockets(), more)
        self.base = self.base or now
        return ""


class Pair:
    def __init__(self, n, hosts, totals=(1, 500, 3000, 20000, 1 << 20), confs=None, row=0):
        self.hosts = hosts			# of end 0, the client, and of end 1
        self.row = row
        self.seed = rnd.randrange(1 << 30)
        self.path = "%s/pair%d" % (DIR, n)
        with open(self.path, "wb") as f:
            for _ in range(2):
                f.write(END.pack(rnd.choice(totals), *[0] * 8, b""))
        with open(self.path, "r+b") as f:
            self.map = mmap.mmap(f.fileno(), 0)
        self.confs = [rnd.choice(confs or CONFS) for _ in range(2)]
        self.nap = rnd.choice((0, 300, 1000, 3000))
        self.dead = [False, False]
        self.proc = [self.run(e) for e in (0, 1)]

    def run(self, e):
        h = self.hosts[e]
        env = dict(os.environ, LD_PRELOAD=LIB, IWSOCK_RUNDIR=h.dir, IWSOCK_CONF=self.confs[e])
        return subprocess.Popen(h.enter("env", "LD_PRELOAD=" + LIB, BUILD + "/tests/lib/talker", self.path, str(e), self.hosts[1].addr, str(self.seed),
                                        str(self.nap), str(self.row)),
                                env={k: v for k, v in env.items() if k != "LD_PRELOAD"}, stdin=subprocess.DEVNULL)

    def end(self, e):
        names = ("total", "sent", "trying", "got", "port", "calls", "err", "ended", "eof", "wrong")
        return dict(zip(names, END.unpack_from(self.map, e * END.size)))

    def kill(self, e):
        self.proc[e].kill()
        self.dead[e] = True

    def over(self):
        return all(p.poll() is not None for p in self.proc)

    def check(self):
        for e in (0, 1):
            me, other = self.end(e), self.end(1 - e)
            if not self.dead[e]:
                if self.proc[e].returncode or not me["ended"]:
                    raise Wrong("end %d: it ended by status %s" % (e, self.proc[e].returncode))
                if me["ended"] == 3:
                    raise Wrong("end %d: octets that were never sent at %d: %s" % (e, me["got"], me["wrong"].hex()))
                if me["ended"] == 2 and not (me["err"] in RESETS or (self.dead[1 - e] and me["err"] == 111)):
                    raise Wrong("end %d: %s" % (e, os.strerror(me["err"])))
            if me["got"] > other["trying"]:
                raise Wrong("end %d: %d octets of %d" % (e, me["got"], other["trying"]))
            # the end of a stream is behind everything that was sent: a kill is one, a cut is none
            if me["eof"] and me["got"] < (other["sent"] if self.dead[1 - e] else other["total"]):
                raise Wrong("end %d: a clean end after %d of %d octets" % (e, me["got"], other["sent"]))

    def __str__(self):
        return "hosts %s, limits %s, %s" % (
            "-".join(str(h.n) for h in self.hosts), "/".join(os.path.basename(c) for c in self.confs),
            "; ".join("end %d%s %s" % (e, " (killed)" if self.dead[e] else "", {k: v for k, v in self.end(e).items() if k not in ("port", "wrong")}) for e in (0, 1)))

    def close(self):
        for p in self.proc:
            if p.poll() is None:
                p.kill()
            p.wait()
        self.map.close()
        os.unlink(self.path)


def conf(name, text):
    path = os.path.join(DIR, name)
    with open(path, "w") as f:
        f.write(text + "\n")
    return path


CONFS = [conf("at%d" % k, "upgrade_after %s" % ("%d calls" % k if k else "0")) for k in (0, 0, 1, 2, 4, 8, 16)]


def nap(us):
    end = time.monotonic() + us / 1e6
    while time.monotonic() < end:
        pass


def one_round(hosts):
    pairs = [Pair(i, rnd.choice(([hosts[0]] * 2, [hosts[0], hosts[1]], [hosts[1], hosts[0]]))) for i in range(PAIRS)]
    what, victims = "nobody", []
    try:
        # the moment: a call of the first pair's client, and a bit later
        at, later = rnd.choice((0, 1, 2, 4, 8, 16, 24, 32, 60)), rnd.choice((0, 100, 1000, 3000, 10000)) * rnd.random()
        until("the first calls", 10, lambda: pairs[0].end(0)["calls"] >= at or pairs[0].over())
        nap(later)
        kind = rnd.choice(("daemon", "daemon", "both daemons", "program", "program", "program", "both programs"))
        if "daemon" in kind:
            victims = hosts if kind[0] == "b" else [rnd.choice(hosts)]
            for h in victims:
                h.daemon.kill()
            what = kind + " of " + "-".join(str(h.n) for h in victims)
        else:
            what = kind
            for p in pairs:
                for e in (0, 1) if kind[0] == "b" else [rnd.randrange(2)]:
                    p.kill(e)
                if rnd.random() < 0.5:
                    break
        what += ", at call %d and %d us" % (at, later)
        for h in victims:
            h.daemon.wait()
        # one that waits for a connection that will not come any more
        for p in pairs:
            until("the end of both programs: %s" % p, 10, lambda: p.over() or any(p.dead[e] and not p.end(1 - e)["calls"] for e in (0, 1)))
            if p.over():
                p.check()
        for h in hosts:
            if h not in victims and h.daemon.poll() is not None:
                raise Wrong("the daemon of host %d ended by status %d" % (h.n, h.daemon.returncode))
        return ""
    except Wrong as w:
        return "%s killed: %s\n%s" % (what, w, "\n".join(str(p) for p in pairs))
    finally:
        for p in pairs:
            p.close()
        for h in hosts:
            if h.daemon.poll() is not None:
                h.start()


def left(hosts):
    last = []

    def nothing():
        last[:] = [h.left() for h in hosts]
        return not any(last)
    try:
        until("nothing", 10, nothing)
    except Wrong:
        return " ".join(last)
    return ""


def main():
    hosts = [Host(spec, i + 1) for i, spec in enumerate(sys.argv[6:])]
    bad, residue = [], []
    for i in range(ROUNDS):
        alive = [h.daemon for h in hosts]
        wrong = one_round(hosts)
        if wrong:
            bad.append("round %d: %s" % (i, wrong))
        for h in hosts:
            if h.daemon in alive:
                h.count()
        if i % 10 == 9 or i == ROUNDS - 1 or wrong:
            residue += ["round %d: %s" % (i, r) for r in [left(hosts)] if r]
        if len(bad) + len(residue) > 4:
            break
    switched = sum(h.switched for h in hosts)
    print("# %d ends of %d connections were switched, counting those whose daemon lived" % (switched, ROUNDS * PAIRS))
    for name, what in (("what TCP would have given", bad), ("nothing is left behind", residue)):
        for line in what:
            print("# " + line.replace("\n", "\n#   "))
        print("%s %d rounds of kills: %s" % ("not ok" if what else "ok", ROUNDS, name))
    print("%s most of it was about connections on their way" % ("ok" if switched > ROUNDS else "not ok"))
    for h in hosts:
        h.daemon.send_signal(signal.SIGTERM)
    status = [h.daemon.wait(60) for h in hosts]
    print("%s the daemons end well" % ("not ok" if any(status) else "ok"))


if __name__ == "__main__":
    main()
