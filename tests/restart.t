#!/bin/bash
# SPDX-License-Identifier: MIT
# A server of two processes on one listener; one sleeps in accept() while the daemon goes and comes back and the other registers the
# listener again. What the sleeper accepts then it has to claim, or clients take the server for one that never will.
. "$(dirname "$0")/lib/rig.sh"
PY=$(python3 -c 'import sys; print(sys.executable)') || skip_all "needs python3"
export PYTHONDONTWRITEBYTECODE=1
A=$(host_addr 1)

rig_up 2
mkfifo "$RIG_DIR/go.0" "$RIG_DIR/go.1"
# each process accepts once for every line it is given, and answers with its number
host_bg_iw 1 server.log "$PY" -c "
import os, socket
l = socket.create_server(('$A', 7400))
n = 0 if os.fork() else 1
open('$RIG_DIR/pid.%d' % n, 'w').write(str(os.getpid()))
for line in open('$RIG_DIR/go.%d' % n):
    s = l.accept()[0]
    s.sendall(b'%d' % n)
    s.close()"
server=$!
exec 5>"$RIG_DIR/go.0" 6>"$RIG_DIR/go.1"
host_port 1 7400
there() { [ -s "$RIG_DIR/pid.0" ] && [ -s "$RIG_DIR/pid.1" ]; }
until_true 10 there
other=$(cat "$RIG_DIR/pid.1")
accepting() { grep -q accept "/proc/$1/wchan"; }
who() { host_exec_iw 2 timeout 60 "$PY" -c "
import socket
s = socket.create_connection(('$A', 7400))
print(s.recv(20).decode())"; }

counts_begin 1 2
echo >&5
until_true 10 accepting $server
is "$(who)" 0 "the first process accepts"
echo >&6
until_true 10 accepting "$other"
is "$(who)" 1 "the second process accepts"
counts_end "before" 2
daemon_kill9 1
echo >&6
until_true 10 accepting "$other"
is "$(who)" 1 "no daemon: the second process accepts"
echo >&6
until_true 10 accepting "$other"
ok $? "no daemon: the second process sleeps in accept()"
daemon_start 1
echo >&5
registered() { [ "$(host_ctl 1 listeners --json | json 'len(d)')" = 1 ]; }
until_true 10 registered
ok $? "a daemon again: the first process has registered the listener"
until_true 10 accepting $server
# the other host may have found nobody meanwhile: make contact
host_ctl 1 check "$(host_addr 2):7400" >/dev/null
known() { [ "$(host_ctl 2 peers --json | json "[r['state'] for r in d if r['address'] == '$A']")" = "['iwarp']" ]; }
until_true 10 known
ok $? "the hosts know each other again" || host_ctl 2 peers | sed 's/^/# /'
counts_begin 1 2
got="$(who)$(who)"
is "$(grep -o . <<<"$got" | sort | tr -d '\n')" 01 "each of them accepts"
counts_end "afterwards" 2
kill $server "$other"
until_true 10 rig_gone "$other"
wait $server 2>/dev/null
exec 5>&- 6>&-
done_testing
