#!/bin/bash
# SPDX-License-Identifier: MIT
# A daemon that gets its control port from another process, which keeps it, as systemd does: stopped, killed and started again and again.
. "$(dirname "$0")/lib/rig.sh"
PY=$(python3 -c 'import sys; print(sys.executable)') || skip_all "needs python3"
export PYTHONDONTWRITEBYTECODE=1
RIG_NO_DAEMON=1 rig_up 2

cat >"$RIG_DIR/keep.py" <<'END'
import socket, time
s = socket.create_server(("::", 874), family=socket.AF_INET6, dualstack_ipv6=True)
print(s.fileno(), flush=True)
time.sleep(1000)
END
# PID-OF-THE-KEEPER FD program ...: becomes the program, with a copy of that socket as systemd passes it
cat >"$RIG_DIR/pass.py" <<'END'
import ctypes, os, sys
p = os.pidfd_open(int(sys.argv[1]))
fd = ctypes.CDLL(None).syscall(438, p, int(sys.argv[2]), 0)  # pidfd_getfd
os.close(p)
os.dup2(fd, 3)
if fd != 3:
    os.close(fd)
os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS="1", LISTEN_FDNAMES="control")
os.execvp(sys.argv[3], sys.argv[3:])
END
host_bg 1 keep.log "$PY" "$RIG_DIR/keep.py"
keeper=$!
until_true 10 test -s "$RIG_DIR/keep.log"
daemon_start 2
start() { RIG_DAEMON_WITH="$PY $RIG_DIR/pass.py $keeper $(cat "$RIG_DIR/keep.log")" daemon_start 1; }
inode() { host_exec "$@" ss -Htlne "sport = :874" | sed 's/.*ino:\([0-9]*\).*/\1/'; }
known() { # the other host's daemon comes in through that port
	[ "$(host_ctl 2 peers --json | json "[r['state'] for r in d if r['address'] == '$(host_addr 1)']")" = "['iwarp']" ]
}
meets() { # NAME
	host_ctl 1 check "$(host_addr 2):874" >/dev/null
	until_true 20 known
	ok $? "$1: the other host's daemon reaches it" || host_ctl 2 peers | sed 's/^/# /'
}

socket=$(inode 1)
for i in 1 2 3 4 5; do
	start
	ok $? "start $i"
	meets "start $i"
	daemon_stop 1
	ok $? "it stops"
	is "$(inode 1)" "$socket" "the same socket goes on listening"
done
start
daemon_kill9 1
is "$(inode 1)" "$socket" "killed: the same socket goes on listening"
start
ok $? "a start after that"
meets "a start after that"
done_testing
