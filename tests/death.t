#!/bin/bash
# SPDX-License-Identifier: MIT
# Daemons and programs are killed: what was theirs ends as it should, new connections work, and nothing is left behind.
# What the applications see of it is in tests/sock/kill_*.c and app_killed.c; here it is what comes after.
. "$(dirname "$0")/lib/rig.sh"
PY=$(python3 -c 'import sys; print(sys.executable)') || skip_all "needs python3"
export PYTHONDONTWRITEBYTECODE=1
NET=$RIG_TESTS/apps/net.py
A=$(host_addr 1)
shm=$(ls /dev/shm)

fds() { ls "/proc/$(daemon_pid "$1")/fd" | wc -l; }
maps() { grep -c 'memfd:' "/proc/$(daemon_pid "$1")/maps"; }
# sock PROGRAM [NAME=VALUE ...]: a program of tests/sock between the hosts, accelerated
sock() {
	local prog=$1
	shift
	env IW_TEST_HELPER="$IW_BUILD/tests/lib" IW_TEST_NETNS_SERVER="$(host_ns 1)" IW_TEST_NETNS_CLIENT="$(host_ns 2)" \
		IW_TEST_EXPECT=accelerated IW_TEST_ADDR4="$A" IW_TEST_PRELOAD_SERVER="$lib" IW_TEST_PRELOAD_CLIENT="$lib" \
		IW_TEST_RUNDIR_SERVER="$(host_dir 1)" IW_TEST_RUNDIR_CLIENT="$(host_dir 2)" "$@" \
		timeout 300 "$IW_BUILD/tests/sock/$prog" >"$RIG_DIR/sock.out" 2>&1
}
sock_ok() {
	local name=$1
	shift
	sock "$@"
	ok $? "$name" || tail -n 4 "$RIG_DIR/sock.out" | sed 's/^/# /'
}
pong() { host_exec_iw 2 timeout 60 "$PY" "$NET" pong-client "$A" "$1" 2>&1; }

rig_up 2
lib=$RIG_LIB
# ---- programs that end in every way leave nothing in the daemons ----
sock_ok "a first connection" echo
for h in 1 2; do until_true 10 no_streams $h; done
base1=$(fds 1) base2=$(fds 2) maps1=$(maps 1) maps2=$(maps 2)
for prog in app_killed rst_linger0 rst_unread close_inflight many_conns exec_cloexec fork_both scm_rights many_short; do
	sock_ok "$prog" $prog
done
# both ends killed in the middle of a bulk transfer
for victim in server client both; do
	host_bg_iw 1 server.log "$PY" -c "
import socket
l = socket.create_server(('$A', 7300)); s = l.accept()[0]
while True: s.send(b'x' * 65536)"
	server=$!
	host_port 1 7300
	host_bg_iw 2 client.log "$PY" -c "
import socket, sys
s = socket.create_connection(('$A', 7300))
while True:
    if not s.recv(65536): print('end of stream'); break"
	client=$!
	flowing() { [ "$(stream_count 2 "r['pid'] == $client and r['transport'] == 'iwarp' and r['rx_bytes'] > 10**6")" = 1 ]; }
	until_true 10 flowing
	ok $? "bulk transfer, $victim killed: it flows"
	case $victim in
	server) kill -9 $server ;;
	client) kill -9 $client ;;
	both) kill -9 $server $client ;;
	esac
	until_true 5 rig_gone $client
	ok $? "bulk transfer, $victim killed: the client ends"
	until_true 5 rig_gone $server
	ok $? "bulk transfer, $victim killed: the server ends"
	wait $server $client 2>/dev/null
done 2>/dev/null
for h in 1 2; do
	until_true 10 no_streams $h
	ok $? "host $h: no stream and no STag of one is left" || host_ctl $h streams | sed 's/^/# /'
	is "$(host_ctl $h listeners --json | json 'len(d)')" 0 "host $h: no listener is left"
	is "$(host_ctl $h status --json | json "d['programs']")" 0 "host $h: no program is left"
done
back() { [ "$(fds 1)" -le "$base1" ] && [ "$(fds 2)" -le "$base2" ]; }
until_true 5 back
ok $? "the daemons have no more descriptors than before ($base1, $base2)" || {
	diag "now $(fds 1), $(fds 2)"
	ls -l "/proc/$(daemon_pid 1)/fd" | sed 's/^/# /'
}
at_most "$(maps 1)" "$maps1" "host 1: no more segments mapped than before"
at_most "$(maps 2)" "$maps2" "host 2: no more segments mapped than before"

# ---- a daemon is killed and comes back; the server's program runs all the time ----
host_bg_iw 1 server.log "$PY" "$NET" pong-server "$A" 7301
server=$!
host_port 1 7301
a0=$(accel_count 2 client)
got=$(pong 7301)
is "${got% *}" ok "before: a connection"
is $(($(accel_count 2 client) - a0)) 1 "before: it was accelerated"
accelerated_again() {
	local c n
	n=$(accel_count 2 client)
	c=$(pong 7301)
	[ "${c% *}" = ok ] || diag "a connection failed: $c"
	[ "$(accel_count 2 client)" -gt "$n" ]
}
mkfifo "$RIG_DIR/held"
host_bg_iw 2 held.log "$PY" "$NET" pong-client "$A" 7301 0 "$RIG_DIR/held"
held=$!
flows() { [ "$(stream_count 2 "r['pid'] == $held and r['state'] == 'running'")" = 1 ]; }
until_true 30 flows
ok $? "before: a connection that stays open"
for h in 1 2; do
	daemon_kill9 $h
	if [ $h = 1 ]; then
		until_true 10 grep -Eq "stream [0-9a-f]+ of [^ ]+ \(pid $held\), $(host_addr 2):[0-9]+ - $A:7301: connection ended" "$RIG_DIR/iwarpd.2.log"
		ok $? "the daemon of the other host says whose stream it was, and between which addresses" || diag "$(cat "$RIG_DIR/iwarpd.2.log")"
		fifo_go "$RIG_DIR/held"
		wait $held
	fi
	for i in 1 2 3; do
		for again in 1 2 3 4 5; do
			idle_begin
			got=$(pong 7301)
			is "${got% *}" ok "iwarpd of host $h killed: connection $i works as plain TCP"
			# without idle CPU the time says nothing
			[ "${got##* }" -gt 1500 ] 2>/dev/null && idle_less 50 && diag "${got##* } ms on a machine without idle CPU" || break
		done
		at_most "${got##* }" 1500 "iwarpd of host $h killed: connection $i, ms"
	done
	daemon_start $h
	until_true 15 accelerated_again	# with the factor, longer than negative_cache
	ok $? "iwarpd of host $h restarted: connections are accelerated again, the server's program went on" ||
		{ diag "client host: $(plain_reasons 2)"; diag "server host: $(plain_reasons 1)"; host_ctl 2 peers | sed 's/^/# /'; }
done
kill -0 $server
ok $? "the server's program survived both"
host_end $server
sock_ok "afterwards: 200 connections" many_conns
for h in 1 2; do
	until_true 10 no_streams $h
	ok $? "afterwards: host $h has no stream and no STag of one"
done

# ---- a pair on one host does not need the daemon ----
env IW_TEST_NETNS_SERVER="$(host_ns 1)" IW_TEST_NETNS_CLIENT="$(host_ns 1)" IW_TEST_EXPECT=accelerated \
	IW_TEST_PRELOAD_SERVER="$lib" IW_TEST_PRELOAD_CLIENT="$lib" IW_TEST_RUNDIR_SERVER="$(host_dir 1)" \
	IW_TEST_RUNDIR_CLIENT="$(host_dir 1)" IW_TEST_KILL="$(daemon_pid 1)" timeout 300 "$IW_BUILD/tests/sock/kill_local" \
	>"$RIG_DIR/sock.out" 2>&1
ok $? "a pair on one host goes on when its daemon is killed" || tail -n 4 "$RIG_DIR/sock.out" | sed 's/^/# /'
daemon_kill9 1 2>/dev/null	# in case it was not
is "$(ls /dev/shm | grep -vxF -e "$shm" | grep -c iw)" 0 "nothing new in /dev/shm"
done_testing
