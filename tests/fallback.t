#!/bin/bash
# SPDX-License-Identifier: MIT
# Plain TCP stays plain TCP: every way not to be upgraded, with all octets, without delay, and with the right reason at both ends; what passes is
# upgraded when it has passed.
. "$(dirname "$0")/lib/rig.sh"
PY=$(python3 -c 'import sys; print(sys.executable)') || skip_all "needs python3"
export PYTHONDONTWRITEBYTECODE=1
TALK=$RIG_TESTS/lib/talk.py
LINES=$IW_BUILD/tests/lib/lines
A=$(host_addr 1)
BOUND=${IW_DELAY_BOUND_MS:-1000}	# far below any time-out of TCP
port=7200

# in_time NAME LIMIT [command ...]: what just took $ms, begun with idle_begin, was in time. Time says nothing on a machine without
# idle CPU: then the command, which sets $ms, is tried again, at most five times; and then there is as much more time as plain TCP takes five times.
in_time() {
	local name=$1 limit=$2 i plain
	shift 2
	for i in 1 2 3 4 5; do
		[ "${ms:-99999}" -gt "$limit" ] 2>/dev/null && idle_less 50 || break
		diag "$name: $ms ms on a machine without idle CPU, again"
		idle_begin
		"$@"
	done
	if [ "${ms:-99999}" -gt "$limit" ] && idle_less 50; then
		plain_takes
		limit=$((limit + 5 * plain))
	fi
	at_most "${ms:-99999}" "$limit" "$name: no delay, ms"
}
conf() { printf '%s\n' "${@:2}" >"$RIG_DIR/$1.conf"; }

# ---- what the daemons show of one connection ----
# field HOST CONDITION KEY: of the one row of `iwctl streams` that fits
field() { host_ctl "$1" streams --json | json "[r.get('$3') for r in d if $2] or ['none']" | tr -d "[]'"; }
# The two ends of the connection of pid: $mine and $theirs are conditions that find them, at host 2 and at host 1.
ends_of() {
	mine="r['pid'] == $1"
	there() { local a; a=$(field 2 "$mine" local); theirs="r['peer'] == '$a'"; [ "$a" != none ]; }
	until_true 20 there
}
shows() { # NAME HOST CONDITION WANTED-REASON [THEIR-REASON]
	local want="$4${5+, $5}"
	what() { echo "$(field "$1" "$2" reason)$([ -z "${3+x}" ] || echo ", $(field "$1" "$2" their_reason)")"; }
	as_wanted() { [ "$(what "$@")" = "$want" ]; }
	until_true 20 as_wanted "$2" "$3" ${5+x}
	ok $? "$1: host $2 says $want" || diag "host $2: $(what "$2" "$3" x); $(host_ctl "$2" streams)"
}
is_iwarp() { [ "$(field 2 "$mine" transport)$(field 1 "$theirs" transport)" = iwarpiwarp ]; }

# count HOST REASON client|server: connections that have ended with it
count() { host_ctl "$1" reasons --json | json "sum(r['as_$3'] for r in d if r['reason'] == '$2')"; }
grew() { [ "$(count "$1" "$2" "$3")" -gt "$4" ]; }

# The same where the other daemon answers only when it has tried to reach us: the connection may be over by then, and the next one has the reason.
grew_late() { until_true 5 grew "$@" || { "$cx" 2 timeout 60 "$PY" "$TALK" client "$A" $port "$first" >/dev/null 2>&1 </dev/null; false; }; }

# attempt NAME SERVER-EXEC CLIENT-EXEC FIRST CLIENT-REASON SERVER-REASON: one connection from its first octet to its last; how long it took in $ms
attempt() {
	local name=$1 sx=$2 cx=$3 first=$4 cr=$5 sr=$6 got c0 s0 pid
	port=$((port + 1))
	ms=
	[ "$cr" = - ] || c0=$(count 2 "$cr" client)
	[ "$sr" = - ] || s0=$(count 1 "$sr" server)
	"$sx" 1 server.log "$PY" "$TALK" server "$A" $port "$first"
	pid=$!
	host_port 1 $port || { fail "$name: the server starts"; sed 's/^/# /' "$RIG_DIR/server.log"; return; }
	got=$("$cx" 2 timeout 60 "$PY" "$TALK" client "$A" $port "$first" 2>&1 </dev/null | tail -n 1)
	is "${got% *}" ok "$name: all octets come back"
	ms=${got##* }
	[ "$cr" = - ] || { until_true 20 ${LATE-grew} 2 "$cr" client "$c0"; ok $? "$name: the client's reason is $cr" || diag "client host has: $(plain_reasons 2)"; }
	[ "$sr" = - ] || { until_true 20 grew 1 "$sr" server "$s0"; ok $? "$name: the server's reason is $sr" || diag "server host has: $(plain_reasons 1)"; }
	host_end $pid
}
# try, as attempt. FRESH is what brings back the state in which it began.
try() {
	idle_begin
	attempt "$@"
	in_time "$1" "$BOUND" again "$@"
}
FRESH=
again() {
	$FRESH
	attempt "$@"
}
restart() {
	daemon_stop 2
	daemon_start 2
}

rig_up 2
conf tcp 'tcp both * *'
host_bg_policy() {
	local h=$1 log=$2
	shift 2
	host_bg_iw "$h" "$log" env IWSOCK_CONF="$RIG_DIR/tcp.conf" "$@"
}
host_exec_policy() {
	local h=$1
	shift
	host_exec_iw "$h" env IWSOCK_CONF="$RIG_DIR/tcp.conf" "$@"
}

# ---- one end has no library, or may not ----
for first in 0 1; do
	f=$([ $first = 0 ] && echo "client first" || echo "server first")
	try "plain client, $f" host_bg_iw host_exec $first - unanswered
	try "plain server, $f" host_bg host_exec_iw $first unanswered -
	try "policy of the client, $f" host_bg_iw host_exec_policy $first policy -
	try "policy of the server, $f" host_bg_policy host_exec_iw $first - policy
done
is "$(accel_count 2 client) $(ends 1 switched) $(ends 2 switched)" "0 0 0" "nothing was switched"
host_bg_iw 1 server.log "$PY" "$TALK" server "$A" 7199
server=$!
host_port 1 7199
n=$(accel_count 1 server)
host_told 2 talk "$PY" "$TALK" client "$A" 7199
client=$!
ends_of $client
talks() { tell talk 20 && is_iwarp; }
until_true 20 talks
ok $? "both with library and daemon: it runs over iWARP" || diag "$(host_ctl 2 streams)"
tell_end talk $client
is "$(tail -n 1 "$RIG_DIR/talk.log" | cut -d ' ' -f 1) $(($(accel_count 1 server) - n))" "ok 1" "and all octets come back"

# ---- a rule of either end: both say so ----
host_told 2 talk env IWSOCK_CONF="$RIG_DIR/tcp.conf" "$PY" "$TALK" client "$A" 7199
client=$!
ends_of $client
shows "policy of the client" 2 "$mine" policy
shows "policy of the client" 1 "$theirs" other-end policy
tell_end talk $client
host_bg_policy 1 policy.log "$PY" "$TALK" server "$A" 7194
host_port 1 7194
host_told 2 talk "$PY" "$TALK" client "$A" 7194
client=$!
ends_of $client
shows "policy of the server" 2 "$mine" other-end policy
shows "policy of the server" 1 "$theirs" policy
tell_end talk $client

# ---- an open connection shows its reason, and what to do ----
host_bg 1 plain.log "$PY" "$TALK" server "$A" 7198
plain=$!
host_port 1 7198
host_told 2 talk "$PY" "$TALK" client "$A" 7198
client=$!
ends_of $client
shows "an open plain connection" 2 "$mine" unanswered
is "$(field 2 "$mine" transport)" tcp "its transport is TCP"
host_ctl 2 why "$client" >"$RIG_DIR/why" 2>&1
grep -q 'Load the library into the program there' "$RIG_DIR/why"
ok $? "iwctl why explains it and says what to do" || sed 's/^/# /' "$RIG_DIR/why"
tell_end talk $client
is "$(tail -n 1 "$RIG_DIR/talk.log" | cut -d ' ' -f 1)" ok "its octets came back"
row_gone() { [ "$(stream_count 2 "r['pid'] == $client")" = 0 ]; }
until_true 30 row_gone
ok $? "it goes from iwctl streams when it ends"
host_end $plain

# ---- young: nobody is told, and iwctl why knows the words ----
conf young "upgrade_after 192 calls 4M"
host_told 2 lines env IWSOCK_CONF="$RIG_DIR/young.conf" "$LINES" 7199 "$A"
client=$!
rounds() { # N: questions and answers
	local i o=()
	for ((i = 0; i < $1; i++)); do o+=("send 0 abc" "recv 0 3"); done
	tell lines "${o[@]}"
}
until_true 20 rig_said lines 1
rounds 3
row_gone
ok $? "young: the daemon was not told"
host_ctl 2 why "$client/3" >"$RIG_DIR/why"
grep -q 'young.*not yet carried what makes the switch worth it' "$RIG_DIR/why"
ok $? "iwctl why PID/FD says so" || diag "$(cat "$RIG_DIR/why")"
grep -Eq 'It has 6 of [1-9][0-9]* calls and 18 of [1-9][0-9]* octets; at either it is proposed' "$RIG_DIR/why"
ok $? "how much it has, and what it needs" || diag "$(cat "$RIG_DIR/why")"
host_ctl 2 why "$client" >"$RIG_DIR/why"
grep -q '^Descriptor 3 is young: .*It has 6 of ' "$RIG_DIR/why"
ok $? "and iwctl why PID, of each that is young" || diag "$(cat "$RIG_DIR/why")"
rounds 100
ends_of $client
worth() { rounds 5 && is_iwarp; }
until_true 20 worth
ok $? "and it is upgraded when it has carried as much" || diag "$(host_ctl 2 streams)"
tell_end lines $client

# ---- hindered for some time: the reason is shown, the octets go on, and it is upgraded when that is over ----
# hindered NAME REASON BEGIN... -- END...: orders that begin it and that end it
hindered() {
	local name=$1 reason=$2 begin=() client
	shift 2
	while [ "$1" != -- ]; do begin+=("$1"); shift; done
	shift
	conf calls "upgrade_after 8 calls"
	host_told 2 lines env IWSOCK_CONF="$RIG_DIR/calls.conf" "$LINES" 7199 "$A"
	client=$!
	until_true 20 rig_said lines 1
	(printf '%s\n' "${begin[@]}" >&"${RIG_TOLD[lines]}")
	until_true 20 rig_said lines $((1 + ${#begin[@]} - ${SILENT:-0}))
	mine="r['pid'] == $client"
	# dots have no answer
	goes_on() { if [ -n "${SILENT-}" ]; then tell lines "send 0 ." "send 0 ." "send 0 ." "send 0 ."; else rounds 10; fi; }
	says() { goes_on && [ "$(field 2 "$mine" reason)" = "$reason" ]; }
	until_true 20 says
	ok $? "$name: the reason is $reason, and octets go on" || diag "$(field 2 "$mine" reason) $(tail -n 2 "$RIG_DIR/lines.log")"
	[ "$(field 2 "$mine" transport)" = tcp ]
	ok $? "$name: it is plain TCP"
	ends_of $client
	tell lines "$@"
	[ "$reason" != busy ] || until_true 20 grep -q '^thread' "$RIG_DIR/lines.log"
	on() { rounds 20 && is_iwarp; }
	until_true 30 on
	ok $? "$name: when that is over it is upgraded" || diag "$(host_ctl 2 streams) $(host_ctl 1 streams) $(tail -n 3 "$RIG_DIR/lines.log")"
	tell_end lines $client
}
SILENT=1 hindered "a thread in a blocked recv" busy "thread 0 4" -- "send 0 abcd"
hindered "a child has it, too" inherited "fork 0 0" -- "end"
hindered "a number that the library does not know" alias "rawdup 0 1" -- "close 1"
SILENT=1 hindered "an operation of an io_uring" io_uring-user "ringrecv 0" -- "send 0 abcd"

# ---- hindered for good ----
# never NAME REASON THEIR-REASON ORDER...: at host 2 and at host 1; the orders, and calls until it is known
never() {
	local name=$1 reason=$2 other=$3 client
	shift 3
	host_told 2 lines ${LIMIT:+env IWSOCK_CONF="$RIG_DIR/$LIMIT.conf"} "$LINES" 7199 "$A"
	client=$!
	until_true 20 rig_said lines 1
	tell lines "$@"
	mine="r['pid'] == $client"
	known() { rounds 5 && [ "$(field 2 "$mine" reason)" = "$reason" ]; }
	until_true 20 known
	ok $? "$name: the reason is $reason" || diag "$(host_ctl 2 streams)"
	ends_of $client
	known() { rounds 5 && [ "$(field 1 "$theirs" reason) $(field 1 "$theirs" their_reason)" = "$other" ]; }
	until_true 20 known
	ok $? "$name: the other end says $other" || diag "$(host_ctl 1 -j streams)"
	[ "$(field 2 "$mine" transport) $(field 1 "$theirs" transport) $(field 1 "$theirs" state)" = "tcp tcp plain" ]
	ok $? "$name: it is plain TCP at both ends" || diag "$(host_ctl 2 streams; host_ctl 1 streams)"
	tell_end lines $client
}
never "urgent data" urgent "other-end urgent" "oob 0"
never "passed to another process" inherited "other-end inherited" "pass 0"
never "an option that only TCP has" option "other-end option" "set 0 36" # TCP_INQ
conf hundred "upgrade_after 100 calls"	# not before they are moved
LIMIT=hundred never "octets past the library in a program of several threads" unseen "other-end unseen" "rawsend 0 abc" "recv 0 3" "storm 0 1"
LIMIT=hundred never "the same by libc itself" unseen "other-end unseen" "print 0 abc" "recv 0 3" "storm 0 1"
host_told 2 lines "$LINES" 7199 "$A"
client=$!
until_true 20 rig_said lines 1
tell lines "rawsend 0 abc" "recv 0 3" "print 0 abc" "recv 0 3"
ends_of $client
until_true 20 on
ok $? "octets past the library in a program of one thread: it is upgraded" || diag "$(host_ctl 2 streams)"
tell_end lines $client
# its peer hears the end and stays
cat >"$RIG_DIR/stays.py" <<-'END'
	import socket, sys
	l = socket.create_server((sys.argv[1], 7197))
	c = l.accept()[0]
	while d := c.recv(100): c.sendall(d)
	l.accept()
END
host_bg_iw 1 stays.log "$PY" "$RIG_DIR/stays.py" "$A"
host_port 1 7197
conf second "upgrade_after 2 calls"
host_told 2 lines env IWSOCK_CONF="$RIG_DIR/second.conf" "$LINES" 7197 "$A"
client=$!
until_true 20 rig_said lines 1
rounds 1
tell lines "shut 0 1"
echo "recv 0 1" >&"${RIG_TOLD[lines]}"
ends_of $client
shows "half-closed before it was proposed" 2 "$mine" half-closed
shows "half-closed before it was proposed" 1 "$theirs" other-end half-closed
host_end $client

# ---- somebody wants plain TCP, and nobody asks the other end; and the life of a connection is told ----
conf later "upgrade_after 100 calls"
host_bg_iw 1 later.log env IWSOCK_CONF="$RIG_DIR/later.conf" "$PY" "$TALK" server "$A" 7196
later=$!
host_port 1 7196
host_told 2 lines "$LINES" 7196 "$A"
client=$!
until_true 20 rig_said lines 1
rounds 5
ends_of $client
shows "downgrade: before that" 2 "$mine" unanswered
out=$(host_ctl 2 downgrade "$(field 2 "$mine" id)")
is "$? $(grep -c '^downgrade asked for: ' <<<"$out")" "0 1" "downgrade: of one that waits for the other end" || diag "$out"
shows "downgrade" 2 "$mine" downgraded
rounds 50
theirs="r['peer'] == '$(field 2 "$mine" local)'"
shows "downgrade: it is proposed there, and" 1 "$theirs" other-end downgraded
rounds 20
is "$(field 2 "$mine" transport) $(field 1 "$theirs" transport) $(field 1 "$theirs" state)" "tcp tcp plain" "downgrade: nothing becomes of that"
host_ctl 2 upgrade "$(field 2 "$mine" id)" >/dev/null
is $? 0 "upgrade of it"
is_up() { rounds 10 && is_iwarp; }
until_true 30 is_up
ok $? "and it runs over iWARP" || diag "$(host_ctl 2 streams; host_ctl 1 streams)"
at=("$(field 2 "$mine" upgraded_at_tx)" "$(field 2 "$mine" upgraded_at_rx)")	# an answer may have been on its way
for h in 1 2; do
	host_ctl $h why $([ $h = 1 ] && echo $later || echo $client) >"$RIG_DIR/why"
	grep -Eq "^  Plain TCP until it was proposed .* ago, after [0-9]+ calls and .* octets; switched .* ago; upgraded .* ago, at octet ${at[2 - h]} sent and ${at[h - 1]} received\." "$RIG_DIR/why"
	ok $? "host $h tells its life, to the octet" || diag "${at[*]}: $(cat "$RIG_DIR/why")"
done
tell_end lines $client
# A relayed one goes back.
daemon_stop 2 && daemon_start 2 -o go=at-once
conf never "upgrade_after 1G calls 1G"
host_bg_iw 1 young.log env IWSOCK_CONF="$RIG_DIR/never.conf" "$PY" "$TALK" server "$A" 7195
host_port 1 7195
host_told 2 lines "$LINES" 7195 "$A"
client=$!
until_true 20 rig_said lines 1
mine="r['pid'] == $client and r['state'] == 'relay'"
relayed() { rounds 1 && [ "$(stream_count 2 "$mine")" = 1 ]; }
until_true 20 relayed
ok $? "one is relayed" || diag "$(host_ctl 2 streams)"
host_ctl 2 downgrade "$(field 2 "$mine" id)" >/dev/null
mine="r['pid'] == $client"
is_back() { rounds 5 && [ "$(field 2 "$mine" state) $(field 2 "$mine" reason)" = "plain downgraded" ]; }
until_true 20 is_back
ok $? "downgrade of a relayed one: it is the program's own again" || diag "$(host_ctl 2 streams)"
rounds 100
is "$(field 2 "$mine" state)" plain "and stays so"
tell_end lines $client
daemon_stop 2 && daemon_start 2 -o go=matched

# ---- a limit is reached ----
daemon_stop 2 && daemon_start 2 -o max_streams=0
host_told 2 lines "$LINES" 7199 "$A"
client=$!
until_true 20 rig_said lines 1
mine="r['pid'] == $client"
no_room() { rounds 10 && [ "$(field 2 "$mine" reason)" = quota ]; }
until_true 20 no_room
ok $? "no room for a stream: the reason is quota" || diag "$(host_ctl 2 streams)"
ends_of $client
# between two tries of a switch that was refused there are up to 4096 calls
known() { rounds 200 && [ "$(field 1 "$theirs" reason) $(field 1 "$theirs" their_reason)" = "other-end quota" ]; }
until_true 20 known
ok $? "no room for a stream: the other end says other-end, quota" || diag "$(host_ctl 1 -j streams)"
host_ctl 2 why "$client" | grep -q 'Raise it in iwarpd.conf'
ok $? "no room for a stream: what to do"
tell_end lines $client

# ---- another network namespace than the daemon's ----
daemon_stop 2 && daemon_start 2 -o max_streams=16384
host_told 1 lines env IWSOCK_RUNDIR="$(host_dir 2)" "$LINES" 7199 "$A"
client=$!
until_true 20 rig_said lines 1
mine="r['pid'] == $client"
strange() { rounds 5 && [ "$(field 2 "$mine" reason)" = netns ]; }
until_true 20 strange
ok $? "a program of another network namespace: the reason is netns" || diag "$(host_ctl 2 streams)"
tell_end lines $client

# ---- the other host's daemon lets us in, or not ----
daemon_stop 1 && daemon_start 1 -o allow=127.0.0.0/8
FRESH=restart
restart		# it may have found nobody in between, and says so until it has asked again
try "its daemon refuses this host" host_bg_iw host_exec_iw 0 peer-refused -
daemon_stop 1 && daemon_start 1 -o allow=0.0.0.0/0
daemon_stop 2 && daemon_start 2 -o allow=127.0.0.0/8
LATE=grew_late try "its daemon cannot reach us" host_bg_iw host_exec_iw 0 peer-untrusted -
host_end $server
daemon_stop 1
daemon_stop 2
RIG_OPTS=()
daemon_start 2

# No daemon at the server's host: its control port refuses.
try "no daemon at the peer" host_bg_iw host_exec_iw 0 peer-no-iwarp -
FRESH=
try "no daemon at the peer, the next connection" host_bg_iw host_exec_iw 1 peer-no-iwarp -
# No daemon at the client's host.
daemon_stop 2
daemon_start 1
try "no daemon at the client's host" host_bg_iw host_exec_iw 0 - peer-no-iwarp
try "no daemon at the client's host, server first" host_bg_iw host_exec_iw 1 - peer-no-iwarp
is "$(accel_count 1 server)" 0 "no daemon at the client's host: nothing was accelerated"
host_ctl 2 status >"$RIG_DIR/out" 2>&1
is $? 3 "iwctl says that there is no daemon"
# No daemon anywhere.
daemon_stop 1
try "no daemon at all" host_bg_iw host_exec_iw 0 - -
try "no daemon at all, server first" host_bg_iw host_exec_iw 1 - -

# The daemon of the client's host stands still, while a program is connected to it and for one that comes then: neither waits for it longer than
# answer_timeout and a moment.
RIG_DAEMON_OPTS=
daemon_start 1
daemon_start 2
cat >"$RIG_DIR/still.py" <<-'END'
	import socket, sys, time
	def talk():
	    t = time.monotonic()
	    c = socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=60)
	    for i in range(3):
	        c.sendall(b"x")
	        assert c.recv(1) == b"x"
	    print("%.0f" % ((time.monotonic() - t) * 1000), flush=True)
	    return c
	known = [] if len(sys.argv) < 4 else [talk(), open(sys.argv[3]).read()]
	talk(), talk()
END
port=$((port + 1))
host_bg_iw 1 server.log "$PY" "$TALK" server "$A" $port
host_port 1 $port
still() {
	local client
	rm -f "$RIG_DIR/orders"
	mkfifo "$RIG_DIR/orders"
	host_bg_iw 2 still.log "$PY" "$RIG_DIR/still.py" "$A" $port "$RIG_DIR/orders"
	client=$!
	until_true 30 [ -s "$RIG_DIR/still.log" ]
	kill -STOP "$(daemon_pid 2)"
	fifo_go "$RIG_DIR/orders"
	wait $client || { ms=; return; }
	ms=$(tail -n +2 "$RIG_DIR/still.log" | sort -n | tail -n 1)
	kill -CONT "$(daemon_pid 2)"
}
still_new() {
	kill -STOP "$(daemon_pid 2)"
	ms=$(host_exec_iw 2 timeout 60 "$PY" "$RIG_DIR/still.py" "$A" $port | sort -n | tail -n 1)
	kill -CONT "$(daemon_pid 2)"
}
idle_begin
still
in_time "the daemon stands still" 500 still
idle_begin
still_new
in_time "the daemon stands still, a new program" 500 still_new
daemon_stop 1
daemon_stop 2

# Packets to the control port vanish: there is no answer.
daemon_start 1
daemon_start 2
vanish() {
	local ns
	ns=$(basename "$(host_ns 1)")
	ip -n "$ns" rule add pref 100 lookup local && ip -n "$ns" rule add pref 10 iif eth0 ipproto tcp dport 874 blackhole &&
		ip -n "$ns" rule del pref 0 lookup local
}
if vanish 2>/dev/null; then
	host_told 2 talk "$PY" "$TALK" client "$A" $port
	client=$!
	ends_of $client
	shows "packets to the control port vanish" 2 "$mine" peer-unreachable
	tell_end talk $client
	is "$(tail -n 1 "$RIG_DIR/talk.log" | cut -d ' ' -f 1)" ok "packets to the control port vanish: all octets come back"
	try "packets to the control port vanish, the next connection" host_bg_iw host_exec_iw 1 peer-unreachable -
else
	skip "packets to the control port vanish" "no policy routing"
fi
done_testing
