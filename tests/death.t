#!/bin/bash
# SPDX-License-Identifier: MIT
# Daemons and programs are killed: what was theirs ends as it should, new connections work, and nothing is left behind.
# What the applications see of it, call by call, is in tests/sock/death and ends/app_killed.c; here it is what comes after, and the death of a daemon
# at each stage of a connection.
. "$(dirname "$0")/lib/rig.sh"
PY=$(python3 -c 'import sys; print(sys.executable)') || skip_all "needs python3"
export PYTHONDONTWRITEBYTECODE=1
TALK=$RIG_TESTS/lib/talk.py
A=$(host_addr 1)
shm=$(ls /dev/shm)

fds() { ls "/proc/$(daemon_pid "$1")/fd" | wc -l; }
maps() { grep -c 'memfd:' "/proc/$(daemon_pid "$1")/maps"; }
# sock PROGRAM: of tests/sock, between the hosts, each end switched as soon as its program makes a call
sock() { IW_TEST_CONF_SERVER=$RIG_DIR/wait.conf IW_TEST_CONF_CLIENT=$RIG_DIR/wait.conf sock_remote "$1" >"$RIG_DIR/sock.out" 2>&1; }
sock_ok() {
	local name=$1
	shift
	sock "$@"
	ok $? "$name" || tail -n 4 "$RIG_DIR/sock.out" | sed 's/^/# /'
}

rig_up 2
printf 'upgrade_after 0\nupgrade_wait 100\n' >"$RIG_DIR/wait.conf"
# ---- programs that end in every way leave nothing in the daemons ----
sock_ok "a first connection" echo
n=$(ends 1 switched)
for h in 1 2; do until_true 10 no_streams $h; done
base1=$(fds 1) base2=$(fds 2) maps1=$(maps 1) maps2=$(maps 2)
for prog in app_killed rst_linger0 rst_unread close_inflight many_conns exec_cloexec fork_both scm_rights many_short; do
	sock_ok "$prog" $prog
done
at_least $(($(ends 1 switched) - n)) 20 "ends that were switched"
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
	until_true 5 rig_ended $client
	ok $? "bulk transfer, $victim killed: the client ends"
	until_true 5 rig_ended $server
	ok $? "bulk transfer, $victim killed: the server ends"
	wait $server $client 2>/dev/null
done 2>/dev/null
no_programs() { [ "$(host_ctl $h -j status | json "d['programs']")" = 0 ]; }
for h in 1 2; do
	until_true 10 no_streams $h
	ok $? "host $h: no stream and no STag of one is left" || host_ctl $h streams | sed 's/^/# /'
	until_true 10 no_programs
	ok $? "host $h: no program is left" || diag "$(host_ctl $h status)"
done
back() { [ "$(fds 1)" -le "$base1" ] && [ "$(fds 2)" -le "$base2" ]; }
until_true 5 back
ok $? "the daemons have no more descriptors than before ($base1, $base2)" || {
	diag "now $(fds 1), $(fds 2)"
	ls -l "/proc/$(daemon_pid 1)/fd" | sed 's/^/# /'
}
at_most "$(maps 1)" "$maps1" "host 1: no more segments mapped than before"
at_most "$(maps 2)" "$maps2" "host 2: no more segments mapped than before"


# ---- the daemon of either end is killed at a stage of a connection; the programs and the other daemon go on ----
# what is mapped goes on, too: kill_mapped*.c, tests/adopt.t
RIG_DAEMON_OPTS+=" -o map=no"
for h in 1 2; do daemon_stop $h && daemon_start $h; done
host_bg_iw 1 server.log "$PY" "$TALK" server "$A" 7301
server=$!
host_port 1 7301
conf() { printf '%s\n' "${@:2}" >"$RIG_DIR/$1.conf"; }
conf never 'upgrade_after 1G calls 1G'
conf late 'upgrade_after 400 calls'
host_bg_iw 1 late.log env IWSOCK_CONF="$RIG_DIR/late.conf" "$PY" "$TALK" server "$A" 7302
host_port 1 7302
# client PORT [cmd...]: one that talks has begun; pid in $client
client() {
	local port=$1
	shift
	host_told 2 talk "$@" "$PY" "$TALK" client "$A" "$port"
	client=$!
	until_true 20 rig_said talk 1
}
row() { host_ctl "$1" streams --json | json "[(r['transport'], r['state'], r['reason']) for r in d if $2]"; }
stage() { row 2 "r['pid'] == $client"; }
# It is at that stage, as the client's daemon shows it.
at_stage() {
	case $1 in
	young) [ "$(stage)" = "[]" ] ;;
	proposed) [ "$(stage)" = "[('tcp', 'plain', 'unanswered')]" ] ;;
	matched) [ "$(stage)" = "[('tcp', 'plain', 'matched')]" ] ;;
	upgraded) tell talk 20 && [ "$(stage)" = "[('iwarp', 'running', 'accelerated')]" ] ;;
	esac
}
# The server proposes it behind its last send, and sleeps in recv then; unless GO was faster, so that recv has switched it.
matched() {
	for _ in $(seq 20); do
		client 7302
		tell talk 100
		until_true 20 at_stage matched
		[ "$(row 1 "r['local'] == '$A:7302'")" = "[('tcp', 'plain', 'matched')]" ] && break
		tell_end talk $client
	done
}
again() { # TEST-NAME: a new connection is upgraded
	local name=$1
	client 7301
	until_true 20 at_stage upgraded
	ok $? "$name: a new connection is upgraded" || diag "$(stage) $(row 1 True) $(plain_reasons 2); $(host_ctl 2 peers)"
	tell_end talk $client
}
for h in 2 1; do
	for what in young proposed matched upgraded; do
		name="iwarpd of host $h is killed, a connection is $what"
		case $what in
		young) client 7301 env IWSOCK_CONF="$RIG_DIR/never.conf" ;;
		proposed) client 7302 ;;
		matched) matched ;;
		upgraded) client 7301 ;;
		esac
		until_true 20 at_stage $what
		ok $? "$name" || diag "$(stage)"
		daemon_kill9 $h
		if [ $what = upgraded ]; then
			if [ $h = 1 ]; then
				until_true 10 grep -Eq "stream [0-9a-f]+ of [^ ]+ \(pid $client\), $(host_addr 2):[0-9]+ - $A:7301: connection ended" "$RIG_DIR/iwarpd.2.log"
				ok $? "$name: the other daemon says whose stream it was, and between which addresses" || diag "$(cat "$RIG_DIR/iwarpd.2.log")"
			fi
			tell talk 1
			is "$told" "ended ECONNRESET" "$name: the program sees a reset"
		else
			tell talk 50
			is "$told" "did 50" "$name: it goes on"
		fi
		tell_end talk $client
		[ $what = upgraded ] || is "$(tail -n 1 "$RIG_DIR/talk.log" | cut -d ' ' -f 1)" ok "$name: to its end, with all octets"
		for again in 1 2 3 4 5; do
			idle_begin
			got=$(host_exec_iw 2 timeout 60 "$PY" "$TALK" client "$A" 7301 </dev/null | tail -n 1)
			# without idle CPU the time says nothing
			[ "${got##* }" -gt 1500 ] 2>/dev/null && idle_less 50 && diag "${got##* } ms on a machine without idle CPU" || break
		done
		is "${got% *}" ok "$name: the next one is plain TCP"
		limit=1500
		if [ "${got##* }" -gt $limit ] 2>/dev/null && idle_less 50; then
			plain_takes	# there is no other machine: by what TCP takes on this one now
			limit=$((limit + 5 * plain))
		fi
		at_most "${got##* }" $limit "$name: and takes no longer, ms"
		daemon_start $h
		again "$name: with the next daemon"
	done
done

# One end relayed, the other one still the program's own: it is asleep and makes no call.
daemon_stop 1 && daemon_start 1 -o go=at-once
daemon_stop 2 && daemon_start 2 -o go=at-once
for h in 2 1; do
	name="iwarpd of host $h is killed, one end is relayed"
	client 7301 env IWSOCK_CONF="$RIG_DIR/never.conf"
	mine="r['peer'] == '$(host_exec 2 ss -Htnp "dport = :7301" | grep "pid=$client," | awk '{ print $4 }')'"
	relayed() { tell talk 1 && [[ "$(row 1 "$mine")" = *"'relay'"* ]]; }
	until_true 20 relayed
	ok $? "$name" || diag "$(row 1 True)"
	daemon_kill9 $h
	tell talk 1
	if [ $h = 1 ]; then
		is "$told" "ended ECONNRESET" "$name: its connection is reset"
	else
		is "$told" "did 1" "$name: the other host's connection goes on"
	fi
	tell_end talk $client
	daemon_start $h
done
daemon_stop 1 && daemon_start 1 -o go=matched
daemon_stop 2 && daemon_start 2 -o go=matched
kill -0 $server
ok $? "the server's program survived all of it"
host_end $server
sock_ok "afterwards: 200 connections" many_conns
for h in 1 2; do
	until_true 10 no_streams $h
	ok $? "afterwards: host $h has no stream and no STag of one"
done

# ---- a pair on one host does not need the daemon ----
host_bg_iw 1 near.log "$PY" "$TALK" server 127.0.0.1 7305
host_port 1 7305
host_told 1 talk "$PY" "$TALK" client 127.0.0.1 7305
client=$!
until_true 20 rig_said talk 1
joined() { tell talk 20 && [[ "$(row 1 "r['pid'] == $client")" = *"'local', 'running'"* ]]; }
until_true 20 joined
ok $? "a pair on one host is joined" || diag "$(row 1 True)"
daemon_kill9 1
tell talk 100
is "$told" "did 100" "it goes on when its daemon is killed"
tell_end talk $client
is "$? $(tail -n 1 "$RIG_DIR/talk.log" | cut -d ' ' -f 1)" "0 ok" "to its end"
is "$(ls /dev/shm | grep -vxF -e "$shm" | grep -c iw)" 0 "nothing new in /dev/shm"
done_testing
