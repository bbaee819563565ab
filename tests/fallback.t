#!/bin/bash
# SPDX-License-Identifier: MIT
# Plain TCP stays plain TCP: every way not to be accelerated, with all octets, without delay, and with the right reason at both ends.
. "$(dirname "$0")/lib/rig.sh"
PY=$(python3 -c 'import sys; print(sys.executable)') || skip_all "needs python3"
export PYTHONDONTWRITEBYTECODE=1
NET=$RIG_TESTS/apps/net.py
A=$(host_addr 1)
BOUND=${IW_DELAY_BOUND_MS:-1000}	# far below any time-out of TCP, and no more than the longest answer_timeout
# Which reason is shown must not depend on how soon a busy machine answers. The default is for what has no answer, see below.
RIG_DAEMON_OPTS='-o answer_timeout=1000'
port=7200

# count HOST REASON client|server
count() { host_ctl "$1" reasons --json | json "sum(r['as_$3'] for r in d if r['reason'] == '$2')"; }
# grew HOST REASON SIDE BEFORE: there is one more than before
grew() { [ "$(count "$1" "$2" "$3")" -gt "$4" ]; }

# attempt NAME SERVER-EXEC CLIENT-EXEC FIRST CLIENT-REASON SERVER-REASON: one connection; how long it took in $ms
attempt() {
	local name=$1 sx=$2 cx=$3 first=$4 cr=$5 sr=$6 got c0 s0 pid
	port=$((port + 1))
	ms=
	[ "$cr" = - ] || c0=$(count 2 "$cr" client)
	[ "$sr" = - ] || s0=$(count 1 "$sr" server)
	"$sx" 1 server.log "$PY" "$NET" pong-server "$A" $port "$first"
	pid=$!
	host_port 1 $port || { fail "$name: the server starts"; sed 's/^/# /' "$RIG_DIR/server.log"; return; }
	got=$("$cx" 2 timeout 60 "$PY" "$NET" pong-client "$A" $port "$first" 2>&1)
	is "${got% *}" ok "$name: all octets come back"
	ms=${got##* }
	[ "$cr" = - ] || { grew 2 "$cr" client "$c0"; ok $? "$name: the client's reason is $cr" || diag "client host has: $(plain_reasons 2)"; }
	[ "$sr" = - ] || { grew 1 "$sr" server "$s0"; ok $? "$name: the server's reason is $sr" || diag "server host has: $(plain_reasons 1)"; }
	host_end $pid
}
# in_time NAME LIMIT [command ...]: what just took $ms, begun with idle_begin, was in time. Time says nothing on a machine without
# idle CPU: then the command, which sets $ms, is tried again, at most five times.
in_time() {
	local name=$1 limit=$2 i
	shift 2
	for i in 1 2 3 4 5; do
		[ "${ms:-99999}" -gt "$limit" ] 2>/dev/null && idle_less 50 || break
		diag "$name: $ms ms on a machine without idle CPU, again"
		idle_begin
		"$@"
	done
	at_most "${ms:-99999}" "$limit" "$name: no delay, ms"
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
printf 'tcp both * *\n' >"$RIG_DIR/tcp.conf"
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

try "both with library and daemon" host_bg_iw host_exec_iw 0 accelerated accelerated
for first in 0 1; do
	f=$([ $first = 0 ] && echo "client first" || echo "server first")
	try "plain client, $f" host_bg_iw host_exec $first - tuple-unknown
	try "plain server, $f" host_bg host_exec_iw $first listener-not-registered -
	try "policy of the client, $f" host_bg_iw host_exec_policy $first policy tuple-unknown
	try "policy of the server, $f" host_bg_policy host_exec_iw $first listener-not-registered policy
done
got=$(host_ctl 2 reasons --json | json "sum(r['as_client'] for r in d if r['reason'] == 'accelerated')")
is "$got" 1 "only the first connection was accelerated"

# A connection that is open shows its reason in `iwctl streams` and `iwctl why`.
port=$((port + 1))
mkfifo "$RIG_DIR/hold"
host_bg 1 server.log "$PY" "$NET" pong-server "$A" $port
pid=$!
host_port 1 $port
host_bg_iw 2 client.log "$PY" "$NET" pong-client "$A" $port 0 "$RIG_DIR/hold"
client=$!
row() { [ "$(stream_count 2 "r['pid'] == $client and r['transport'] == 'tcp' and r['reason'] == 'listener-not-registered'")" = 1 ]; }
until_true 30 row
ok $? "an open plain connection: iwctl streams shows transport and reason" || host_ctl 2 streams | sed 's/^/# /'
host_ctl 2 why "$client" >"$RIG_DIR/why" 2>&1
grep -q 'LD_PRELOAD' "$RIG_DIR/why"
ok $? "iwctl why explains it and says what to do" || sed 's/^/# /' "$RIG_DIR/why"
fifo_go "$RIG_DIR/hold"
wait $client
is "$(sed 's/ .*//' "$RIG_DIR/client.log")" ok "its octets came back"
row_gone() { [ "$(stream_count 2 "r['pid'] == $client")" = 0 ]; }
until_true 30 row_gone
ok $? "it goes from iwctl streams when it ends"
host_end $pid

# Nobody who has the library accepts: the listener is registered, but a stranger inherited it.
# $ms counts from the first order: until then the server is meant to wait.
inherit_attempt() { # NAME FIRST CLIENT-REASON ORDERS...
	local name=$1 first=$2 cr=$3 got c0 pid client order t
	shift 3
	port=$((port + 1))
	ms=
	c0=$(count 2 "$cr" client)
	rm -f "$RIG_DIR/orders"
	mkfifo "$RIG_DIR/orders"
	host_bg_iw 1 server.log "$PY" "$NET" inherited "$A" $port "$RIG_DIR/orders" "$first"
	pid=$!
	exec 9>"$RIG_DIR/orders"
	host_port 1 $port || { fail "$name: the server starts"; sed 's/^/# /' "$RIG_DIR/server.log"; return; }
	host_bg_iw 2 client.log timeout 60 "$PY" "$NET" pong-client "$A" $port "$first"
	client=$!
	held() { [ "$(stream_count 2 "r['state'] in ('held', 'relay')")" -ge 1 ]; }
	until_true 30 held
	ok $? "$name: the connection is held or handed back" || host_ctl 2 streams | sed 's/^/# /'
	t=$(now_ms)
	for order; do
		echo "$order" >&9
	done
	exec 9>&-
	wait $client
	ms=$(($(now_ms) - t))
	got=$(cat "$RIG_DIR/client.log")
	is "${got% *}" ok "$name: all octets come back"
	until_true 30 grew 2 "$cr" client "$c0"
	ok $? "$name: the client's reason is $cr" || diag "client host has: $(plain_reasons 2)"
	host_end $pid
}
inherit() {
	idle_begin
	inherit_attempt "$@"
	in_time "$1" $((BOUND + 300)) inherit_attempt "$@"
}
inherit "server inherited the listener without the library" 0 unclaimed go
inherit "the claim never comes, and the server speaks first" 1 not-mpa go

# The server's program is slow: it claims when it accepts, long after its connection was handed back.
port=$((port + 1))
cat >"$RIG_DIR/slow.py" <<-'END'
	import socket, sys
	sys.path.insert(0, sys.argv[1])
	import net
	l = socket.create_server((sys.argv[2], int(sys.argv[3])))
	open(sys.argv[4]).read()
	net.pong_one(l.accept()[0], 0)
END
rm -f "$RIG_DIR/orders"
mkfifo "$RIG_DIR/orders"
host_bg_iw 1 server.log "$PY" "$RIG_DIR/slow.py" "$RIG_TESTS/apps" "$A" $port "$RIG_DIR/orders"
pid=$!
host_port 1 $port
host_bg_iw 2 client.log timeout 60 "$PY" "$NET" pong-client "$A" $port
client=$!
relayed() { [ "$(stream_count 2 "r['state'] == 'relay' and r['reason'] == 'unclaimed'")" = 1 ]; }
until_true 30 relayed
ok $? "a slow server: the client's octets are handed back as plain TCP" || host_ctl 2 streams | sed 's/^/# /'
s0=$(count 1 tuple-unknown server)
fifo_go "$RIG_DIR/orders"
wait $client
is "$(sed 's/ .*//' "$RIG_DIR/client.log")" ok "a slow server: all octets come back"
grew 1 tuple-unknown server "$s0"
ok $? "a slow server: its late claim is told that the connection is plain" || diag "server host has: $(plain_reasons 1)"
wait $pid

# The listener goes away between offer and claim; the held octets must find the stranger who inherited it.
for h in 1 2; do
	daemon_stop $h
	daemon_start $h -o claim_timeout=20000
done
inherit "the listener goes away between offer and claim" 0 listener-gone close go
daemon_stop 1
daemon_stop 2
RIG_OPTS=()
daemon_start 2

# No daemon at the server's host: its control port refuses.
FRESH=restart
try "no daemon at the peer" host_bg_iw host_exec_iw 0 peer-no-iwarp -
FRESH=
try "no daemon at the peer, the next connection" host_bg_iw host_exec_iw 1 peer-no-iwarp -
# No daemon at the client's host.
daemon_stop 2
daemon_start 1
try "no daemon at the client's host" host_bg_iw host_exec_iw 0 - -
try "no daemon at the client's host, server first" host_bg_iw host_exec_iw 1 - -
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
	    t = time.monotonic() - t
	    c.sendall(b"x")
	    assert c.recv(1) == b"x"
	    print("%.0f" % (t * 1000), flush=True)	# not before: the set-up is over, and the daemon may stand still
	    return c
	known = [] if len(sys.argv) < 4 else [talk(), open(sys.argv[3]).read()]
	talk(), talk()
END
cat >"$RIG_DIR/echo.py" <<-'END'
	import socket, sys, threading
	l = socket.create_server((sys.argv[1], int(sys.argv[2])))
	def echo(c):
	    while d := c.recv(4096): c.sendall(d)
	while True: threading.Thread(target=echo, args=(l.accept()[0],), daemon=True).start()
END
port=$((port + 1))
host_bg_iw 1 server.log "$PY" "$RIG_DIR/echo.py" "$A" $port
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

# Packets to the control port vanish: there is no answer, and the default says how long we wait for one.
RIG_DAEMON_OPTS=
daemon_start 1
daemon_start 2
vanish() {
	local ns
	ns=$(basename "$(host_ns 1)")
	ip -n "$ns" rule add pref 100 lookup local && ip -n "$ns" rule add pref 10 iif eth0 ipproto tcp dport 874 blackhole &&
		ip -n "$ns" rule del pref 0 lookup local
}
if vanish 2>/dev/null; then
	FRESH=restart
	try "packets to the control port vanish" host_bg_iw host_exec_iw 0 peer-unreachable -
	FRESH=
	try "packets to the control port vanish, the next connection" host_bg_iw host_exec_iw 1 peer-unreachable -
else
	skip "packets to the control port vanish" "no policy routing"
fi
done_testing
