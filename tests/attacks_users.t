#!/bin/bash
# SPDX-License-Identifier: MIT
# Two users of one daemon (security.md L2, SEC-P06). One exhausts each quota in turn, as client and as server, and keeps trying: every octet
# of his is right, over plain TCP with the reason where the quota ends. The other one's connections are accelerated before, meanwhile
# and afterwards, and no slower than the machine. When the programs are gone, so is all that was counted for them.
. "$(dirname "$0")/lib/rig.sh"
command -v setpriv >/dev/null || skip_all "needs setpriv"
PY=$(python3 -c 'import sys; print(sys.executable)') || skip_all "needs python3"
export PYTHONDONTWRITEBYTECODE=1

rig_up 2
A=$(host_addr 1) HERE=$(host_addr 2)
GREEDY=65534 GOOD=2
# as UID cmd...: with the library, on host 2
as() {
	local uid=$1
	shift
	nsenter --net="$(host_ns 2)" setpriv --reuid "$uid" --regid "$uid" --clear-groups \
		env IWSOCK_RUNDIR="$(host_dir 2)" LD_PRELOAD="$RIG_LIB" "$@"
}
APP=$RIG_DIR/app.py
install -m 644 "$RIG_TESTS/attacks/app.py" "$APP" && install -m 755 "$IW_BUILD/iwctl" "$RIG_DIR/" || exit 1
as $GREEDY "$PY" -c '' 2>/dev/null || PY=/usr/bin/python3	# root may have one of its own
as $GREEDY "$PY" -c '' 2>/dev/null || skip_all "no python3 that others can run"

# bg NAME cmd...: in the background until done NAME; its input is a pipe, its output in NAME.log
bg() {
	local name=$1
	shift
	rm -f "$RIG_DIR/$name" "$RIG_DIR/$name.log"
	mkfifo "$RIG_DIR/$name"
	"$@" <"$RIG_DIR/$name" >"$RIG_DIR/$name.log" 2>&1 &
	BG[$name]=$!
	RIG_PIDS+=($!)
	eval "exec {FD_$name}>\"$RIG_DIR/$name\""
}
declare -A BG
done_with() {
	local name
	for name; do
		eval "exec {FD_$name}>&-"
		wait "${BG[$name]}" 2>/dev/null
	done
}
said() { until_true 60 grep -q "$2" "$RIG_DIR/$1.log" || diag "$1: $(tail -n 3 "$RIG_DIR/$1.log")"; }
beats() { awk '/^beat/ { n = $2 } END { print n + 0 }' "$RIG_DIR/$1.log"; }
beating() { [ "$(beats "$1")" -ge $(($2 + 200)) ]; }
# of that user: accelerated, and plain TCP by reason of the quota
accelerated() { stream_count 2 "r['uid'] == $1 and r['transport'] == 'iwarp'"; }
of_quota() { stream_count 2 "r['uid'] == $1 and r['transport'] == 'tcp' and r['reason'] == 'quota'"; }
# Connections are upgraded while they are used: until so many are.
are() { [ "$(accelerated "$1") $(of_quota "$1")" = "$2" ]; }
# what is counted beside the daemon's own sessions, whose parts are all of one size
counted() { host_ctl 2 status --json | json "[d['used_streams']] + [d['used_' + k] - d['used_stags'] * n for k, n in (('memory', 32768), ('reads', 64), ('cq_entries', 1024))]"; }
nothing_counted() { [ "$(counted)" = "[0, 0, 0, 0]" ]; }
# slow NAME: of a hundred answers, 99 within (us)
slow() { sed -n 's/^99 of 100 within \([0-9]*\) .*/\1/p' "$RIG_DIR/$1.log"; }

host_bg_iw 1 server.log "$PY" "$APP" server "$A" 7300
host_bg 1 serverc.log "$PY" "$APP" server "$A" 7390
host_port 1 7300
host_port 1 7390

for q in max_streams=4 max_memory=14M max_stags=48 max_reads=256 max_cq_entries=4096; do
	key=${q%=*}
	# a map takes of max_memory what the next stream would
	daemon_stop 2 && daemon_start 2 -o $q -o map=no
	host_bg 2 greedy.log setpriv --reuid $GREEDY --regid $GREEDY --clear-groups env IWSOCK_RUNDIR="$(host_dir 2)" LD_PRELOAD="$RIG_LIB" \
		"$PY" "$APP" server "$HERE" 7400
	greedy=$!
	host_bg 2 good.log setpriv --reuid $GOOD --regid $GOOD --clear-groups env IWSOCK_RUNDIR="$(host_dir 2)" LD_PRELOAD="$RIG_LIB" \
		"$PY" "$APP" server "$HERE" 7401
	good=$!
	host_port 2 7400
	host_port 2 7401
	bg control nsenter --net="$(host_ns 2)" "$PY" "$APP" pulse "$A" 7390 0.001
	bg pulse as $GOOD "$PY" "$APP" pulse "$A" 7300 0.001
	said pulse ^up
	until_true 60 are $GOOD "1 0"
	is "$(accelerated $GOOD)" 1 "$key: the good user's pulse is accelerated"
	until_true 60 beating pulse 0

	# as client: four, and two more, and then all the time
	bg hold as $GREEDY "$PY" "$APP" hold "$A" 7300 6
	said hold ^held
	is "$(grep ^held "$RIG_DIR/hold.log")" "held 6 failed 0" "$key: all six connections work"
	until_true 60 are $GREEDY "4 2"
	is "$(accelerated $GREEDY) $(of_quota $GREEDY)" "4 2" "$key: four are accelerated, two plain TCP by reason of the quota" ||
		diag "$(plain_reasons 2)"
	is "$(as $GREEDY "$PY" "$APP" bulk "$A" 7300 3000000 2>&1)" "bulk 3000000" "$key: beyond it every octet is right, there and back"
	pid=$(host_ctl 2 streams --json | json "[r['pid'] for r in d if r['uid'] == $GREEDY][0]")
	setpriv --reuid $GREEDY --regid $GREEDY --clear-groups "$RIG_DIR/iwctl" --run-dir "$(host_dir 2)" why "$pid" >"$RIG_DIR/why.log" 2>&1
	grep -qi quota "$RIG_DIR/why.log"
	ok $? "$key: iwctl why tells him so" || diag "$(cat "$RIG_DIR/why.log")"
	n=$(beats pulse)
	is "$(as $GREEDY "$PY" "$APP" churn "$A" 7300 200 2>&1)" "churn 200" "$key: 200 more that want to be and are not"
	is "$(host_exec_iw 1 "$PY" "$APP" hold "$HERE" 7400 2 </dev/null)" "held 2 failed 0
all still there" "$key: his server answers, over plain TCP"
	is "$(host_exec_iw 1 "$PY" "$APP" bulk "$HERE" 7400 1000000 2>&1)" "bulk 1000000" "$key: with every octet"
	until_true 60 beating pulse "$n"
	ok $? "$key: the good user's pulse goes on all the while"
	c=$(accel_count 2 client)
	s=$(accel_count 2 server)
	is "$(as $GOOD "$PY" "$APP" hold "$A" 7300 2 2 </dev/null) $(($(accel_count 2 client) - c))" "held 2 failed 0
all still there 2" "$key: his new connections are accelerated"
	is "$(host_exec_iw 1 "$PY" "$APP" hold "$HERE" 7401 2 2 </dev/null) $(($(accel_count 2 server) - s))" "held 2 failed 0
all still there 2" "$key: those to his server too"
	done_with hold
	said hold "^all still there"

	# as server: the same quota, from the other side
	bg hold host_exec_iw 1 "$PY" "$APP" hold "$HERE" 7400 6
	said hold ^held
	until_true 60 are $GREEDY "4 2"
	is "$(grep ^held "$RIG_DIR/hold.log")" "held 6 failed 0" "$key: all six clients of his server are served"
	is "$(accelerated $GREEDY) $(of_quota $GREEDY)" "4 2" "$key: four of them accelerated, two plain TCP by reason of the quota" ||
		diag "$(plain_reasons 2)"
	is "$(host_exec_iw 1 "$PY" "$APP" bulk "$HERE" 7400 3000000 2>&1)" "bulk 3000000" "$key: every octet of one more"
	done_with hold
	said hold "^all still there"

	done_with pulse control
	like=$(tail -n 1 "$RIG_DIR/pulse.log")
	at_least "$(awk '/^pulse/ { print $2 }' "$RIG_DIR/pulse.log")" 400 "$key: the good user's answers ($like)"
	# a machine that is busy delays both; the RNIC's share of it is a matter of bench/
	at_most "$(slow pulse)" $((20 * $(slow control) + 50000)) "$key: 99 of 100 of them, us (plain TCP: $(slow control))"
	host_end $greedy $good
	until_true 20 nothing_counted
	is "$(counted)" "[0, 0, 0, 0]" "$key: nothing is counted for anybody any more"
done
is "$(grep -c "was still registered" "$RIG_DIR/iwarpd.2.log")" 0 "no STag outlived its memory"
done_testing
