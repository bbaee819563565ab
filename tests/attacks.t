#!/bin/bash
# SPDX-License-Identifier: MIT
# The attacks of docs/security.md that a scripted peer can play: at the RNIC alone, at a real iwarpd from another host while a third
# one goes on working, and from other users of the same host. IW_LONG=1: with the numbers of the specification.
. "$(dirname "$0")/lib/rig.sh"
PY=$(python3 -c 'import sys; print(sys.executable)') || skip_all "needs python3"
export PYTHONDONTWRITEBYTECODE=1 IW_TOP=${IW_TOP:-$RIG_TESTS/..}
ATTACKS=$RIG_TESTS/attacks
case $IW_BUILD in *address*) export IW_SAN=1 ;; esac

# play cmd...: its lines "ok - name" and "not ok - name" become tests
play() {
	local line end=0
	while IFS= read -r line; do
		case $line in
		"ok - "*) pass "${line#ok - }" ;;
		"not ok - "*) fail "${line#not ok - }" ;;
		"exit "*) end=${line#exit } ;;
		*) echo "# ${line#\# }" ;;
		esac
	done < <("$@" 2>&1; echo "exit $?")
	[ "$end" = 0 ] || fail "$*: ended with status $end"
}

play "$PY" "$ATTACKS/rnic.py" "$IW_BUILD"
[ "$(id -u)" = 0 ] || { skip "attacks on a daemon" "needs root for network namespaces"; done_testing; }

rig_up 3
RIG_OPTS[1]='-o close_timeout=2000 -o startup_timeout=2000'
daemon_stop 1 && daemon_start 1
daemon_stop 2
A=$(host_addr 1)
host_bg_iw 1 server.log "$PY" "$ATTACKS/app.py" server "$A" 7300 $((8 << 20))
host_port 1 7300
mkfifo "$RIG_DIR/stop"
# a good client of another host, all the time
nsenter --net="$(host_ns 3)" env IWSOCK_RUNDIR="$(host_dir 3)" LD_PRELOAD="$IW_BUILD/libiwsock.so" \
	"$PY" "$ATTACKS/app.py" pulse "$A" 7300 <"$RIG_DIR/stop" >"$RIG_DIR/pulse.log" 2>&1 &
pulse=$!
RIG_PIDS+=($pulse)
exec 8>"$RIG_DIR/stop"
until_true 10 grep -q up "$RIG_DIR/pulse.log"
is "$(accel_count 3 client)" 1 "the good client is accelerated"
play nsenter --net="$(host_ns 2)" "$PY" "$ATTACKS/stream.py" "$(host_addr 2)" "$A" 7300 "$(daemon_pid 1)" "$RIG_DIR/iwarpd.1.log" "$RIG_DIR/server.log"
rig_gone "$(daemon_pid 1)"
is $? 1 "the daemon lives"
c0=$(accel_count 3 client)
got=$(host_exec_iw 3 timeout 60 "$PY" "$ATTACKS/app.py" hold "$A" 7300 5 </dev/null)
is "$got" "held 5 failed 0
all still there" "new connections of the good host are served"
is $(($(accel_count 3 client) - c0)) 5 "and accelerated"
exec 8>&-
wait $pulse
read -r _ n worst <<<"$(tail -n 1 "$RIG_DIR/pulse.log")"
at_least "${n:-0}" 100 "the good client's stream went on: answers"
at_most "${worst:-99999}" 5000 "the good client's stream went on: longest pause, ms"
done_testing
