#!/bin/bash
# SPDX-License-Identifier: MIT
# The attacks of docs/security.md that a scripted peer can play: at the RNIC alone, at a real iwarpd from another host while a third
# one goes on working, and from other users of the same host. IW_LONG=1: with the numbers of the specification.
. "$(dirname "$0")/lib/rig.sh"
PY=$(python3 -c 'import sys; print(sys.executable)') || skip_all "needs python3"
export PYTHONDONTWRITEBYTECODE=1 IW_TOP=${IW_TOP:-$RIG_TESTS/..}
ATTACKS=$RIG_TESTS/attacks
case $IW_BUILD in *address*) export IW_SAN=1 ;; esac

# pauses NAME LIMIT LOG CONTROL-LOG: how long a pulse stood still at most, beside one on plain TCP that shares only the machine with it
pauses() {
	local n worst control
	read -r _ n worst <<<"$(tail -n 1 "$RIG_DIR/$3")"
	read -r _ _ control <<<"$(tail -n 1 "$RIG_DIR/$4")"
	at_least "${n:-0}" 100 "$1: answers"
	at_most "${worst:-99999}" $(($2 + 5 * ${control:-0})) "$1: longest pause, ms (plain TCP: ${control:-?})"
}
beats() { awk '/^beat/ { n = $2 } END { print n + 0 }' "$RIG_DIR/$1"; }
# beating LOG BEATS: it went on since
beating() { [ "$(beats "$1")" -ge $(($2 + 100)) ]; }

play "$PY" "$ATTACKS/rows.py"
play "$PY" "$ATTACKS/rnic.py" "$IW_BUILD"
[ "$(id -u)" = 0 ] || { skip "attacks on a daemon" "needs root for network namespaces"; done_testing; }

rig_up 3
RIG_OPTS[1]='-o close_timeout=2000 -o startup_timeout=2000'
daemon_stop 1 && daemon_start 1
daemon_stop 2
# as HOST UID cmd...: with the library, as another user
as() {
	local h=$1 uid=$2
	shift 2
	nsenter --net="$(host_ns "$h")" setpriv --reuid "$uid" --regid "$uid" --clear-groups \
		env IWSOCK_RUNDIR="$(host_dir "$h")" LD_PRELOAD="$RIG_LIB" "$@"
}
NOBODY=65534
OTHER=2
OTHERS=
if command -v setpriv >/dev/null && cp "$IW_BUILD/iwctl" "$RIG_DIR/" && cp -r "$ATTACKS" "$RIG_DIR/attacks" &&
	cp "$RIG_TESTS/vectors.py" "$RIG_DIR/attacks/" && chmod -R a+rX "$RIG_DIR"; then
	ATTACKS=$RIG_DIR/attacks
	as 1 $NOBODY "$PY" -c '' 2>/dev/null || PY=/usr/bin/python3	# root may have one of its own
	! as 1 $NOBODY "$PY" -c '' 2>/dev/null || OTHERS=1
fi

A=$(host_addr 1)
host_bg_iw 1 server.log "$PY" "$ATTACKS/app.py" server "$A" 7300 $((8 << 20))
server=$!
host_port 1 7300
if [ -n "$OTHERS" ]; then
	host_bg_iw 1 server2.log setpriv --reuid $NOBODY --regid $NOBODY --clear-groups "$PY" "$ATTACKS/app.py" server "$A" 7301
	host_port 1 7301
fi
mkfifo "$RIG_DIR/stop" "$RIG_DIR/stopc"
host_bg 1 serverc.log "$PY" "$ATTACKS/app.py" server "$A" 7390
host_port 1 7390
control() { # HOST's pulse on plain TCP; file 5 ends it
	nsenter --net="$(host_ns 3)" "$PY" "$ATTACKS/app.py" pulse "$A" 7390 <"$RIG_DIR/stopc" >"$RIG_DIR/control.log" 2>&1 &
	control=$!
	RIG_PIDS+=($control)
	exec 5>"$RIG_DIR/stopc"
}
control
# a good client of another host, all the time
nsenter --net="$(host_ns 3)" env IWSOCK_RUNDIR="$(host_dir 3)" LD_PRELOAD="$RIG_LIB" \
	"$PY" "$ATTACKS/app.py" pulse "$A" 7300 <"$RIG_DIR/stop" >"$RIG_DIR/pulse.log" 2>&1 &
pulse=$!
RIG_PIDS+=($pulse)
exec 8>"$RIG_DIR/stop"
until_true 20 grep -q up "$RIG_DIR/pulse.log"
accelerated() { [ "$(accel_count 3 client)" = "$1" ]; }
until_true 60 accelerated 1
is "$(accel_count 3 client)" 1 "the good client is accelerated"
for mapped in '' "$IW_BUILD/iwctl --run-dir $(host_dir 1)"; do
	[ -z "$mapped" ] || echo "# each stream mapped into the server"
	IW_MAPPED=$mapped IW_SERVER=$server play nsenter --net="$(host_ns 2)" "$PY" "$ATTACKS/stream.py" "$(host_addr 2)" "$A" 7300 "$(daemon_pid 1)" \
		"$RIG_DIR/iwarpd.1.log" "$RIG_DIR/server.log" $([ -z "$OTHERS" ] || echo 7301)
done
play nsenter --net="$(host_ns 2)" "$PY" "$ATTACKS/upgrade.py" "$(host_addr 2)" "$A" 7300 "$(daemon_pid 1)" "$RIG_DIR/iwarpd.1.log" "$RIG_DIR/server.log"
rig_ours "$(daemon_pid 1)"
ok $? "the daemon lives"
! grep -q "was still registered" "$RIG_DIR"/iwarpd.*.log
ok $? "no STag outlives its memory"
c0=$(accel_count 3 client)
got=$(host_exec_iw 3 timeout 300 "$PY" "$ATTACKS/app.py" hold "$A" 7300 5 5 </dev/null)
is "$got" "held 5 failed 0
all still there" "new connections of the good host are served"
is $(($(accel_count 3 client) - c0)) 5 "and accelerated"
exec 8>&- 5>&-
wait $pulse $control
pauses "the good client's stream went on" 5000 pulse.log control.log

# ---- on the way ----

# N7: a path MTU that leaves next to nothing of a segment
RIG_OPTS[3]='-o large_fpdu=off'
daemon_stop 3 && daemon_start 3
for h in 1 3; do
	ip -n "$(basename "$(host_ns $h)")" route change 10.77.0.0/24 dev eth0 mtu lock 256
done
is "$(host_exec_iw 3 timeout 300 "$PY" "$ATTACKS/app.py" bulk "$A" 7300 200000 1 2>&1)" "bulk 200000" "N7: a path MTU of 256 octets: all octets there and back"
is "$(accel_count 3 client)" 1 "N7: over iWARP"
for h in 1 3; do
	ip -n "$(basename "$(host_ns $h)")" route change 10.77.0.0/24 dev eth0
done

# N1: the control port is not for everybody
RIG_OPTS[1]='-o allow=10.77.0.3/32'
daemon_stop 1 && daemon_start 1
cat >"$RIG_DIR/n1.py" <<-'END'
	import sys
	sys.path.insert(0, sys.argv[1])
	import peer
	try:
	    w = peer.connect((sys.argv[3], 874), sys.argv[2])
	    w.initiate(peer.IWCM)
	    print("let in")
	except (peer.Ended, OSError) as e:
	    print("octets" if isinstance(e, peer.Ended) and w.buf else "closed")
END
is "$(host_exec 2 "$PY" "$RIG_DIR/n1.py" "$ATTACKS" "$(host_addr 2)" "$A")" closed "N1: a host outside 'allow' is closed before a Reply"
grep -q "10.77.0.2: the host is not in 'allow'" "$RIG_DIR/iwarpd.1.log"
ok $? "N1: and the log says so"
host_end $server

# frames that are wrong while maps come and go
RIG_OPTS[1]='-o map=restless'
daemon_stop 1 && daemon_start 1
host_bg_iw 1 server.log "$PY" "$ATTACKS/app.py" server "$A" 7300 0
server=$!
host_port 1 7300
IW_RESTLESS=1 IW_MAPPED="$IW_BUILD/iwctl --run-dir $(host_dir 1)" play nsenter --net="$(host_ns 2)" "$PY" "$ATTACKS/stream.py" "$(host_addr 2)" "$A" 7300 \
	"$(daemon_pid 1)" "$RIG_DIR/iwarpd.1.log" "$RIG_DIR/server.log"
host_end $server
RIG_OPTS[1]='-o allow=10.77.0.3/32'
daemon_stop 1 && daemon_start 1
host_bg_iw 1 server.log "$PY" "$ATTACKS/app.py" server "$A" 7300 $((8 << 20))
host_port 1 7300

# ---- on the same host ----

[ -n "$OTHERS" ] || { skip "attacks by other users" "no setpriv, or no python3 that others can run"; done_testing; }

uid_count() { stream_count 3 "r['uid'] == $1 and r['transport'] == 'iwarp'"; }
uid_quota() { stream_count 3 "r['uid'] == $1 and r['transport'] == 'tcp' and r['reason'] == 'quota'"; }
users() { [ "$(uid_count $NOBODY) $(uid_quota $NOBODY) $(uid_count $OTHER) $(uid_quota $OTHER)" = "$1" ]; }
# holder UID FIFO N: keeps N connections open, tells when they are there
holder() {
	mkfifo "$RIG_DIR/$2" 2>/dev/null
	rm -f "$RIG_DIR/$2.log"	# what the last one said
	as 3 "$1" "$PY" "$ATTACKS/app.py" hold "$A" 7300 "$3" <"$RIG_DIR/$2" >"$RIG_DIR/$2.log" 2>&1 &
	RIG_PIDS+=($!)
}
held() { until_true 60 grep -qs "^held" "$RIG_DIR/$1.log"; is "$(grep ^held "$RIG_DIR/$1.log")" "held $2 failed 0" "$3"; }

# L2: each quota: who exhausts it goes on with plain TCP, and the other user notices nothing
# (a map takes of max_memory what the next stream would)
for q in max_streams=2 "max_memory=7M -o map=no" max_stags=24 max_reads=128 max_cq_entries=2048; do
	key=${q%%=*}
	RIG_OPTS[3]="-o $q"
	daemon_stop 3 && daemon_start 3
	holder $NOBODY a 3
	exec 7>"$RIG_DIR/a"
	held a 3 "L2: $key exhausted: all connections of that user work"
	holder $OTHER b 2
	exec 6>"$RIG_DIR/b"
	held b 2 "L2: $key: those of the other user work"
	[ "$TAP_BAD" -lt 20 ] || done_testing
	until_true 60 users "2 1 2 0"
	is "$(uid_count $NOBODY) $(uid_quota $NOBODY)" "2 1" "L2: $key: what exceeds it is plain TCP, with the reason" || diag "$(plain_reasons 3)"
	is "$(uid_count $OTHER) $(uid_quota $OTHER)" "2 0" "L2: $key: the other user is accelerated"
	grep -q "user $NOBODY: quota of .*($key)" "$RIG_DIR/iwarpd.3.log"
	ok $? "L2: $key: the log says who, and which setting"
	host_ctl 3 status | grep -q "^over quota .*$key"
	ok $? "L2: $key: iwctl status says it"
	[ $key != max_streams ] || {
		see() { setpriv --reuid "$1" --regid "$1" --clear-groups "$RIG_DIR/iwctl" --run-dir "$(host_dir 3)" "${@:2}"; }
		is "$(see $OTHER streams --json | json "sorted({r['uid'] for r in d})")" "[$OTHER]" "L5: a user sees his own streams only"
		is "$(see $OTHER stags --json | json "sorted({r['uid'] for r in d})")" "[$OTHER]" "L5: and his own STags"
	}
	exec 7>&- 6>&-
	until_true 10 grep -q "all still there" "$RIG_DIR/b.log"
	ok $? "L2: $key: and all of it until the end"
done

# L2: eight processes of one user take what they can; a ninth, of another, finds room
RIG_OPTS[3]='-o max_streams=24'
daemon_stop 3 && daemon_start 3
for i in 1 2 3 4 5 6 7 8; do
	holder $NOBODY "p$i" 5
	eval "exec $((10 + i))>\"$RIG_DIR/p$i\""
done
for i in 1 2 3 4 5 6 7 8; do
	until_true 30 grep -q "^held 5 failed 0" "$RIG_DIR/p$i.log" || diag "$(cat "$RIG_DIR/p$i.log")"
done
until_true 60 users "24 16 0 0"
is "$(uid_count $NOBODY) $(uid_quota $NOBODY)" "24 16" "L2: eight processes share one quota"
got=$(as 3 $OTHER timeout 300 "$PY" "$ATTACKS/app.py" hold "$A" 7300 3 3 </dev/null)
is "$got" "held 3 failed 0
all still there" "L2: the ninth, of another user, is served"
is "$(uid_quota $OTHER)" 0 "L2: without being told of a quota"
for i in 1 2 3 4 5 6 7 8; do eval "exec $((10 + i))>&-"; done

# L2: a program that connects to the control socket again and again takes half of the daemon's open files at most
RIG_OPTS[3]=
daemon_stop 3
RIG_DAEMON_WITH="prlimit --nofile=600:600" daemon_start 3
mkfifo "$RIG_DIR/grab"
as 3 $NOBODY env -u LD_PRELOAD "$PY" "$ATTACKS/app.py" grab "$(host_dir 3)/ctl.sock" 800 <"$RIG_DIR/grab" >"$RIG_DIR/grab.log" 2>&1 &
RIG_PIDS+=($!)
exec 7>"$RIG_DIR/grab"
until_true 30 grep -q "^grabbed 800" "$RIG_DIR/grab.log"
ok $? "L2: 800 control connections of one user, and 600 files"
got=$(as 3 $OTHER timeout 300 "$PY" "$ATTACKS/app.py" hold "$A" 7300 3 3 </dev/null)
is "$got $(accel_count 3 client)" "held 3 failed 0
all still there 3" "L2: the connections of another user are accelerated" || diag "$(plain_reasons 3)"
grep -q "user $NOBODY has .* clients; what is left of the open files is kept for others" "$RIG_DIR/iwarpd.3.log"
ok $? "L2: and the log says who takes them"
exec 7>&-

# SEC-P06: a user with many streams that nobody reads, beside one with a single stream
RIG_OPTS[3]=
daemon_stop 3 && daemon_start 3
mkfifo "$RIG_DIR/deaf" "$RIG_DIR/stop2"
host_bg_iw 1 server3.log setpriv --reuid $OTHER --regid $OTHER --clear-groups "$PY" "$ATTACKS/app.py" server "$A" 7302
host_port 1 7302
as 3 $OTHER "$PY" "$ATTACKS/app.py" pulse "$A" 7302 <"$RIG_DIR/stop2" >"$RIG_DIR/pulse2.log" 2>&1 &
pulse=$!
RIG_PIDS+=($pulse)
exec 6>"$RIG_DIR/stop2"
control
as 3 $NOBODY "$PY" "$ATTACKS/app.py" deaf "$A" 7300 40 <"$RIG_DIR/deaf" >"$RIG_DIR/deaf.log" 2>&1 &
RIG_PIDS+=($!)
exec 7>"$RIG_DIR/deaf"
until_true 20 grep -q "^deaf 40" "$RIG_DIR/deaf.log"
ok $? "SEC-P06: 40 streams of one user are flooded and never read"
# L4: and a program of the same user scribbles over all it shares with the daemon
scribble=$([ "${IW_LONG-}" = 1 ] && echo 3600 || echo 2)
got=$(as 3 $NOBODY timeout $((scribble + 300)) "$PY" "$ATTACKS/app.py" scribble "$A" 7300 "$scribble" 2>&1)
like() { case $1 in $2) pass "$3" ;; *) fail "$3"; diag "$1" ;; esac; }
like "$got" "scribbled [1-9]* areas [1-9]*" "L4: shared memory scribbled over: $got"
n=$(beats pulse2.log)
until_true 20 beating pulse2.log "$n"
ok $? "SEC-P06, L4: the other user's stream goes on all the while"
exec 6>&- 5>&- 7>&-
wait $pulse $control
pauses "SEC-P06, L4: the other user's stream went on" 2000 pulse2.log control.log
rig_ours "$(daemon_pid 3)"
ok $? "L4: the daemon lives"

# L10: programs killed at any moment
files() { find "/proc/$(daemon_pid 3)/fd" -mindepth 1 | wc -l; }
gone() { no_streams 3 && no_streams 1; }
until_true 20 gone
before=$(files)
for i in $(seq "$([ "${IW_LONG-}" = 1 ] && echo 1000 || echo 40)"); do
	host_bg_iw 3 bulk.log setpriv --reuid $NOBODY --regid $NOBODY --clear-groups "$PY" "$ATTACKS/app.py" bulk "$A" 7300 100000000
	p=$!
	sleep "0.$((RANDOM % 3))$((RANDOM % 10))"	# no wait for anything: the moment is random
	! rig_ours $p || kill -9 $p
	wait $p 2>/dev/null
done
until_true 20 gone
ok $? "L10: killed at random moments: no stream and no STag is left, here and there"
at_most "$(files)" $((before + 3)) "L10: nor any file"

# L7: a port below 1024 is not to be had through the daemon
cat >"$RIG_DIR/l7.py" <<-'END'
	import socket
	s = socket.socket()
	try:
	    s.bind(("", 80))
	    s.listen()
	    print("bound")
	except PermissionError:
	    print("refused")
END
is "$(as 3 $NOBODY "$PY" "$RIG_DIR/l7.py")" refused "L7: an unprivileged program cannot listen on port 80"

# L11: settings that others may write
echo 'log_level = debug' >"$RIG_DIR/loose.conf"
chmod 666 "$RIG_DIR/loose.conf"
got=$(timeout 60 "$IW_BUILD/iwarpd" -c "$RIG_DIR/loose.conf" -r "$RIG_DIR/loose" 2>&1)
is $? 2 "L11: settings that group or others may write are refused" || diag "$got"
# with provider = auto, two libraries of the system's, by names that are fixed
got=$(cd "$IW_BUILD/obj" && nm -A -u daemon/*/*.o | sed -n 's/\.o:.* dlopen\(@.*\)\{0,1\}$//p' | sort -u)
[ -z "$got" ] || { [ "$got" = daemon/rnic/verbs_dev ] && [ "$(grep -c 'dlopen(' "$(dirname "$0")/../daemon/rnic/verbs_dev.c")" = "$(grep -c 'dlopen("lib[a-z]*\.so\.1", ' "$(dirname "$0")/../daemon/rnic/verbs_dev.c")" ]; }
ok $? "L11: iwarpd itself loads no code at run time, but for the libraries of RDMA devices" || diag "$got"

# L12: a set-uid program keeps to plain TCP
suid=$RIG_DIR/suid-python
cp "$(readlink -f "$PY")" "$suid" && chown $OTHER "$suid" && chmod 4755 "$suid"
cat >"$RIG_DIR/l12.py" <<-'END'
	import os, socket, sys
	s = socket.create_connection((sys.argv[1], 7300))
	s.sendall(b"e?")
	assert s.recv(1) == b"?"
	print(os.geteuid(), s.family == socket.AF_INET and "tcp", "iwsock" in open("/proc/self/maps").read())
END
got=$(as 3 $NOBODY "$suid" -I "$RIG_DIR/l12.py" "$A" 2>/dev/null)
case $got in
"$OTHER "*) is "$got" "$OTHER tcp False" "L12: a set-uid program runs without the library, on plain TCP" ;;
*) skip "L12: a set-uid program" "it does not become another user here: $got" ;;
esac
done_testing
