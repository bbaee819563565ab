#!/bin/bash
# SPDX-License-Identifier: MIT
# What one user of a host does to another's connections, and to the daemon of both, by its control socket, its memory and his own sockets
# (docs/security.md, L). Each attack is tests/attacks/hostile.py NAME, or app.py.
. "$(dirname "$0")/lib/rig.sh"
command -v setpriv >/dev/null || skip_all "needs setpriv"
PY=$(python3 -c 'import sys; print(sys.executable)') || skip_all "needs python3"
export PYTHONDONTWRITEBYTECODE=1

rig_up 2
ME=2001 VICTIM=2002 THIRD=2003
cp -r "$RIG_TESTS/attacks" "$RIG_DIR/attacks" && cp "$RIG_TESTS/vectors.py" "$RIG_DIR/attacks/" && chmod -R a+rX "$RIG_DIR" || exit 1
APP=$RIG_DIR/attacks/app.py
# uid UID: runs what follows as that user
uid() { echo setpriv --reuid "$1" --regid "$1" --clear-groups; }
host_exec 1 $(uid $ME) env "$PY" -c '' 2>/dev/null || PY=/usr/bin/python3	# root may have one of its own
host_exec 1 $(uid $ME) env "$PY" -c '' 2>/dev/null || skip_all "no python3 that others can run"
# hostile NAME args...: as the attacker, without the library
hostile() { host_exec 1 $(uid $ME) timeout 120 "$PY" "$RIG_DIR/attacks/hostile.py" "$(host_dir 1)" "$@"; }

# ---- what a program is told ----

for side in "" 2; do
	host_bg_iw 1 believes.log $(uid $VICTIM) timeout 60 "$PY" "$APP" $([ -n "$side" ] && echo forge2 || echo believes) 127.0.0.1 7001 1
	first=$!
	host_port 1 7001
	host_exec_iw 1 $(uid $ME) timeout 60 "$PY" "$APP" $([ -n "$side" ] && echo believes2 || echo forge) 127.0.0.1 7001 1 >"$RIG_DIR/other.log" 2>&1
	wait $first
	is "$(cat "$RIG_DIR/believes.log" "$RIG_DIR/other.log")" "asked often got b'truth'" \
		"L4: who scribbles over the memory of a local connection forges neither its names nor its state ($([ -n "$side" ] && echo "to its client" || echo "to its server"))"
done
is "$(accel_count 1 client) $(accel_count 1 server)" "2 2" "L4: both were accelerated"

# ---- what the daemon is told ----

A=$(host_addr 2)
host_bg_iw 2 server2.log "$PY" "$APP" server "$A" 7300
host_bg_iw 1 server1.log $(uid $THIRD) "$PY" "$APP" server 127.0.0.1 7301
host_port 2 7300
host_port 1 7301
# victim NAME N ADDRESS PORT: as many connections, accelerated and in use until done_with NAME
victim() {
	mkfifo "$RIG_DIR/$1"
	host_exec_iw 1 $(uid $VICTIM) "$PY" "$APP" hold "$3" "$4" "$2" "$2" <"$RIG_DIR/$1" >"$RIG_DIR/$1.log" 2>&1 &
	RIG_PIDS+=($!)
	eval "exec {FD_$1}>\"$RIG_DIR/$1\""
	until_true 60 grep -q ^held "$RIG_DIR/$1.log"
	is "$(cat "$RIG_DIR/$1.log")" "held $2 failed 0" "$5"
}
done_with() {
	eval "exec {FD_$1}>&-"
	until_true 60 grep -q "^all still there" "$RIG_DIR/$1.log"
	ok $? "$2" || diag "$(cat "$RIG_DIR/$1.log")"
}
victim far 2 "$A" 7300 "a user's connections to another host are accelerated"
victim near 2 127.0.0.1 7301 "and those within this one"
for s in $(host_ctl 1 streams --json | json "' '.join(next(r['id'] for r in d if r['uid'] == $VICTIM and r['transport'] == t) for t in ('iwarp', 'local'))"); do
	play nsenter --net="$(host_ns 1)" env IW_TEST_NEAR="$(host_addr 1)" IW_TEST_FAR="$A" $(uid $ME) timeout 300 "$PY" "$RIG_DIR/attacks/local.py" "$(host_dir 1)" "$s"
done
is "$(host_exec 1 "$PY" "$RIG_DIR/attacks/hostile.py" "$(host_dir 1)" repair 2>&1 | tr '\n' ' ')" "switched refused " \
	"L7: SWITCH with a connection under TCP_REPAIR: refused"
mkfifo "$RIG_DIR/stop"
host_exec 1 $(uid $ME) timeout 300 "$PY" "$RIG_DIR/attacks/hostile.py" "$(host_dir 1)" flood "$(host_addr 1)" "$A" 7300 <"$RIG_DIR/stop" >"$RIG_DIR/flood.log" 2>&1 &
flood=$!
exec 8>"$RIG_DIR/stop"
until_true 60 grep -q flood "$RIG_DIR/flood.log"
ok $? "L2: another user proposes connections all the time"
victim more 3 "$A" 7300 "L2: new connections of the first are accelerated"
victim here 3 127.0.0.1 7301 "L2: also within the host"
# who was started later holds the pipes of those before
done_with here "which last"
done_with more "all of them"
exec 8>&-
wait $flood
is "$(grep -c closed "$RIG_DIR/flood.log")" 0 "L2: the other one had his say"
done_with near "L6, L7, L9, L2: nothing of this disturbed the connections that were there"
done_with far "on both hosts"

# ---- whom a program believes ----

# a directory that everybody may write, and a socket of somebody's in it
mkdir -m 1777 "$RIG_DIR/open"
host_bg 1 false.log $(uid $ME) timeout 60 "$PY" "$RIG_DIR/attacks/hostile.py" "$RIG_DIR/open" daemon
false=$!
until_true 20 test -S "$RIG_DIR/open/ctl.sock"
host_bg 1 plain.log "$PY" "$APP" server 127.0.0.1 7002
host_port 1 7002
is "$(host_exec_iw 1 $(uid $VICTIM) env IWSOCK_RUNDIR="$RIG_DIR/open" timeout 60 "$PY" "$APP" churn 127.0.0.1 7002 1 2>&1)" "churn 1" \
	"L6: a program whose daemon is somebody else's goes on without"
wait $false
is "$(cat "$RIG_DIR/false.log")" "told nothing" "L6: and tells him nothing"

done_testing
