# SPDX-License-Identifier: MIT
"""Daemons are killed under streams in full use: kills_mapped.py BUILD LIB DIR SEED KILLS HOST... as kills.py.

Pairs of programs talk all the time, in rows of small pieces too, over maps that come and go. In the first half of it both daemons have somebody who
keeps their descriptors, then that of the first host alone. Programs go on or see a reset, and nothing is left behind. Prints results."""
import contextlib
import os
import subprocess
import sys
import time
import types

from kills import BUILD, CONFS, DIR, SEED, ROUNDS, Host, Pair, Wrong, nap, rnd, until

PAIRS = 6
RESTLESS = ("-o", "map=restless")
TOTALS = (3000, 20000, 1 << 20, 4 << 20)
SUPERVISOR = os.path.join(os.path.dirname(__file__), "supervisor.py")


class Kept(Host):
    """Starts again by itself, with what it gave to be kept."""
    def start(self):
        self.ready = "%s/ready.%d" % (DIR, self.n)
        with open(self.ready, "w"):
            pass
        env = {k: v for k, v in os.environ.items() if k not in ("LD_PRELOAD", "IWSOCK_RUNDIR")}
        with open("%s/iwarpd.%d.log" % (DIR, self.n), "ab") as log:
            self.manager = subprocess.Popen(
                self.enter(sys.executable, SUPERVISOR, self.ready, BUILD + "/iwarpd", "--run-dir", self.dir, "-o", "negative_cache=1",
                           "-o", "answer_timeout=200", *RESTLESS), env=env, stderr=log, stdin=subprocess.DEVNULL)
        self.starts = 0
        self.started()

    def started(self):
        def lines():
            with open(self.ready) as f:
                return f.read().splitlines()

        until("a daemon", 20, lambda: len(lines()) > self.starts)
        self.starts = len(lines())
        self.daemon = types.SimpleNamespace(pid=int(lines()[-1].split()[0]))

    def kill(self):
        os.kill(self.daemon.pid, 9)

    def again(self):
        self.started()

    def stop(self):
        self.manager.terminate()
        return self.manager.wait(60)

    def kept(self):
        """Without the one table of all pairs, which is kept from the first pair on."""
        fds, n = "/proc/%d/fd/" % self.manager.pid, 0
        for fd in os.listdir(fds):
            with contextlib.suppress(FileNotFoundError):    # closed meanwhile
                n += "memfd:iwsock-pairs" not in os.readlink(fds + fd)
        return n


class Bare(Host):
    def enter(self, *cmd):
        return super().enter(*cmd, *(RESTLESS if cmd[0].endswith("/iwarpd") else ()))

    def again(self):
        self.daemon.wait()
        self.start()

    def stop(self):
        self.daemon.terminate()
        return self.daemon.wait(60)

    def kept(self):
        return 0


def talk(hosts, kills, seen):
    pairs, made, down = [], 0, []
    try:
        for k in range(kills + 1):
            last = k == kills
            while not last and len(pairs) < PAIRS:
                two = rnd.choice(([hosts[0], hosts[1]], [hosts[1], hosts[0]]) * 3 + ([hosts[0]] * 2,))
                pairs.append(Pair(made, two, TOTALS, CONFS[:2], rnd.choice((0, 0, 64, 400))))
                pairs[-1].until = time.monotonic() + 300
                made += 1
            if last:
                until("the end of all programs", 30, lambda: all(p.over() for p in pairs))
            nap(rnd.choice((1000, 30000, 60000, 300000)) * rnd.random())
            if not seen["mapped"] or k % 16 == 0:
                seen["mapped"] += sum(r.get("path") == "mapped" for h in hosts for r in h.ctl("streams"))
            if not last:
                down = list(rnd.choice(([hosts[0]], [hosts[1]], [hosts[0]], [hosts[1]], hosts)))
                for h in down:
                    h.kill()
            for p in list(pairs):
                if p.over():
                    p.check()
                    seen["ended"] += all(p.end(e)["ended"] == 1 for e in (0, 1))
                    seen["reset"] += any(p.end(e)["ended"] == 2 for e in (0, 1))
                    pairs.remove(p)
                    p.close()
                elif time.monotonic() > p.until:
                    raise Wrong("it does not end: %s" % p)
            while down:
                down.pop().again()
        return ""
    except Wrong as w:
        return "%s, before kill %d\n%s" % (w, k, "\n".join(str(p) for p in pairs))
    finally:
        for p in pairs:
            p.close()
        for h in down:
            h.again()


def left(hosts, kept):
    last = []

    def nothing():
        last[:] = [h.left() for h in hosts]
        last.extend("host %d: %d descriptors kept" % (h.n, h.kept() - k) for h, k in zip(hosts, kept) if h.kept() > k)
        return not any(last)
    try:
        until("nothing", 10, nothing)
    except Wrong:
        return " ".join(last)
    return ""


def part(what, hosts, kills):
    kept, seen = [h.kept() for h in hosts], dict(mapped=0, ended=0, reset=0)
    try:
        wrong = talk(hosts, kills, seen)
        residue = left(hosts, kept)
    finally:
        status = [h.stop() for h in hosts]
    print("# %s: %d mapped when looked at, %d pairs ended, %d were reset" % (what, seen["mapped"], seen["ended"], seen["reset"]))
    for line, name in ((wrong, "goes on, or is reset"), (residue, "nothing is left behind")):
        if line:
            print("# " + line.replace("\n", "\n#   "))
        print("%s %s, %d kills of daemons: %s" % ("not ok" if line else "ok", what, kills, name))
    print("%s %s: maps, ends and resets were seen" % ("ok" if all(seen.values()) else "not ok", what))
    print("%s %s: the daemons end well" % ("not ok" if any(status) else "ok", what), flush=True)


for kinds, what in (((Kept, Kept), "both keep"), ((Kept, Bare), "one keeps")):
    part(what, [kind(spec, i + 1) for i, (kind, spec) in enumerate(zip(kinds, sys.argv[6:]))], ROUNDS // 2)
