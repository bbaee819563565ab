#!/bin/bash
# SPDX-License-Identifier: MIT
# What one user of a host does to another's connections, and to the daemon of both, by its control socket, its memory and his own sockets
# (docs/security.md, L). Each attack is tests/attacks/hostile.py NAME, or app.py.
. "$(dirname "$0")/lib/rig.sh"
command -v setpriv >/dev/null || skip_all "needs setpriv"
PY=$(python3 -c 'import sys; print(sys.executable)') || skip_all "needs python3"
export PYTHONDONTWRITEBYTECODE=1

rig_up 1
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
