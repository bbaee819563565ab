#!/bin/bash
# SPDX-License-Identifier: MIT
# A daemon is stopped, or killed, and started again, and the programs go on: streams that it had behind them end as TCP's do whose host goes down,
# connections that were plain notice nothing and are upgraded with the next daemon, and so are new ones, of all processes of a server.
. "$(dirname "$0")/lib/rig.sh"
PY=$(python3 -c 'import sys; print(sys.executable)') || skip_all "needs python3"
export PYTHONDONTWRITEBYTECODE=1
TALK=$RIG_TESTS/lib/talk.py
A=$(host_addr 1)

RIG_DAEMON_OPTS+=" -o map=no"	# what is mapped goes on: tests/adopt.t
rig_up 2
echo "upgrade_after 400 calls" >"$RIG_DIR/young.conf"
# client NAME PORT [cmd...]: one that talks; its pid is in $client
client() {
	local name=$1 p=$2
	shift 2
	host_told 2 "$name" "$@" "$PY" "$TALK" client "$A" "$p"
	client=$!
	until_true 20 rig_said "$name" 1
}
row() { stream_count 2 "r['pid'] == $1 and r['transport'] == '$2'"; }
iwarp() { tell "$1" 20 && [ "$(row "$2" iwarp)" = 1 ]; }
# upgraded NAME PID TEST-NAME
upgraded() {
	until_true 20 iwarp "$1" "$2"
	ok $? "$3" || diag "$(host_ctl 2 streams; host_ctl 1 streams)"
}
said() { is "$(tail -n 1 "$RIG_DIR/$1.log" | cut -d ' ' -f "1${3+-$3}")" "$2" "${@:4}"; }

host_bg_iw 1 server.log "$PY" "$TALK" server "$A" 7401
server=$!
host_port 1 7401
host_bg 1 plain.log "$PY" "$TALK" server "$A" 7402
host_port 1 7402

for h in 2 1; do
	for how in stopped killed; do
		name="iwarpd of host $h is $how"
		client young 7401 env IWSOCK_CONF="$RIG_DIR/young.conf"
		young=$client
		client plain 7402
		plain=$client
		client up 7401
		up=$client
		upgraded up $up "$name: before that a connection is upgraded"
		unanswered() { tell plain 5 && [ "$(stream_count 2 "r['pid'] == $plain and r['reason'] == 'unanswered'")" = 1 ]; }
		until_true 20 unanswered
		ok $? "$name: and one is not, for good"
		if [ $how = stopped ]; then daemon_stop $h; else daemon_kill9 $h; fi
		tell up 1
		said up "ended ECONNRESET" 2 "$name: the stream is reset"
		tell_end up "$up"
		until_true 20 grep -q "^ended ECONNRESET" "$RIG_DIR/server.log"
		ok $? "$name: at the other end, too" || diag "$(cat "$RIG_DIR/server.log")"
		: >"$RIG_DIR/server.log"
		tell young 3 && tell plain 20
		ok $? "$name: plain connections go on"
		client late 7401
		tell late 20
		late=$client
		ok $? "$name: new ones are made"
		daemon_start $h
		# calls, and then the daemons find each other
		upgraded late "$late" "$name: with the next daemon that one is upgraded"
		upgraded young "$young" "$name: and one that was young then"
		client new 7401
		upgraded new $client "$name: and a new one"
		for c in "young $young" "plain $plain" "late $late" "new $client"; do
			# shellcheck disable=SC2086
			tell_end $c || diag "${c% *} ended with $?"
			said "${c% *}" ok 1 "$name: all octets of ${c% *} come back"
		done
	done
done
kill -0 $server
ok $? "the server has been the same all the time"
is "$(grep -c 'memfd:iwsock-p' /proc/$server/maps)" 2 "it has the two pages of the last daemon, and none of those before"
is "$(grep -c reset "$RIG_DIR/plain.log")" 0 "and so has the one without the library"

# ---- a server of two processes on one listener, that sleep in accept() while the daemon goes and comes ----
cat >"$RIG_DIR/two.py" <<'END'
import os, socket, sys
l = socket.create_server((sys.argv[1], 7403))
n = 0 if os.fork() else 1
open("%s/pid.%d" % (sys.argv[2], n), "w").write(str(os.getpid()))
for line in open("%s/go.%d" % (sys.argv[2], n)):	# a connection for each
    s = l.accept()[0]
    while d := s.recv(4096):
        s.sendall(b"%d" % n * len(d))
    s.close()
END
mkfifo "$RIG_DIR/go.0" "$RIG_DIR/go.1"
host_bg_iw 1 two.log "$PY" "$RIG_DIR/two.py" "$A" "$RIG_DIR"
first=$!
exec 5>"$RIG_DIR/go.0" 6>"$RIG_DIR/go.1"
host_port 1 7403
there() { [ -s "$RIG_DIR/pid.0" ] && [ -s "$RIG_DIR/pid.1" ]; }
until_true 10 there
second=$(cat "$RIG_DIR/pid.1")
accepting() { grep -q accept "/proc/$1/wchan"; }
both_accept() {
	echo >&5
	echo >&6
	until_true 10 accepting "$first" && until_true 10 accepting "$second"
}
# asked: who of them answers two connections, one after the other, each of which goes on until it is accelerated
ask() {
	host_told 2 ask "$PY" -c "
import socket, sys
s = socket.create_connection(('$A', 7403))
for line in sys.stdin:
    for i in range(100):
        s.sendall(b'x')
        d = s.recv(1)
    print(d.decode(), flush=True)"
	local pid=$!
	until_true 20 iwarp ask "$pid" || diag "$(host_ctl 2 streams; host_ctl 1 streams)"
	who+=$(tail -n 1 "$RIG_DIR/ask.log")$'\n'
	tell_end ask "$pid"
}
asked() {
	local who=
	ask
	ask
	asked=$(sort <<<"$who" | tr -d '\n')
}
both_accept
ok $? "two processes sleep in accept()"
counts_begin 1 2
asked
is "$asked" 01 "each of them accepts"
counts_end "before" 2
both_accept
daemon_kill9 1
daemon_start 1
host_ctl 1 check "$(host_addr 2):7403" >/dev/null
known() { [ "$(host_ctl 2 peers --json | json "[r['state'] for r in d if r['address'] == '$A']")" = "['iwarp']" ]; }
until_true 20 known
ok $? "the hosts know each other again" || diag "$(host_ctl 2 peers)"
counts_begin 1 2
asked
is "$asked" 01 "a daemon later each of them accepts"
counts_end "a daemon later" 2

# as by a debugger
both_accept
daemon=$(daemon_pid 1)
for i in $(seq 400); do		# some of them for a moment only, some for longer
	kill -STOP "$daemon"
	[ $((i % 3)) != 0 ] || sleep 0.003
	kill -CONT "$daemon"
done
asked
is "$asked" 01 "a daemon is stopped and continued, many times: they accept"
host_ctl 1 check "$(host_addr 2):7403" >/dev/null
! rig_ended "$daemon"
ok $? "it goes on"
exec 5>&- 6>&-
kill "$first" "$second"
until_true 10 rig_gone "$second"
wait "$first" 2>/dev/null
done_testing
