#!/bin/bash
# SPDX-License-Identifier: MIT
# Network namespaces that have one daemon (join_namespaces): who is joined with whom, and that nobody is joined with a namesake of the other end.
RIG_NO_DAEMON=1
. "$(dirname "$0")/lib/rig.sh"
rig_need python3
rig_up 4
TALK=$RIG_TESTS/lib/talk.py
export PYTHONDONTWRITEBYTECODE=1
port=7700

# the library of host N talks to the daemon of host 1
in_ns() {
	local h=$1
	shift
	nsenter --net="$(host_ns "$h")" env IWSOCK_RUNDIR="$(host_dir 1)" LD_PRELOAD="$RIG_LIB" "$@"
}
in_ns_bg() { # HOST LOG cmd...
	local log=$RIG_DIR/$2 ns
	ns=$(host_ns "$1")
	shift 2
	rig_apart nsenter --net="$ns" env IWSOCK_RUNDIR="$(host_dir 1)" LD_PRELOAD="$RIG_LIB" "$@" >"$log" 2>&1 </dev/null &
	RIG_PIDS+=($!)
}
in_ns_told() { # HOST NAME cmd...
	local ns name=$2
	ns=$(host_ns "$1")
	shift 2
	host_told 1 "$name" nsenter --net="$ns" "$@"
}
transport() { host_ctl 1 streams --json | json "' '.join(sorted(r['transport'] for r in d if r['pid'] in ($1, $2)))"; }
why() { host_ctl 1 streams --json | json "' '.join(sorted(r.get('reason') or '-' for r in d if r['pid'] in ($1, $2)))"; }

# talk NAME SERVER-HOST ADDRESS CLIENT-HOST WANTED-TRANSPORT [REASON]: one connection; $talking goes on with it, to be ended by talked
talk() {
	local name=$1 sh=$2 a=$3 ch=$4 want=$5 reason=${6-} is
	port=$((port + 1))
	in_ns_bg "$sh" "server.$port" python3 "$TALK" server "$a" $port
	server=$!
	host_port "$sh" $port || { fail "$name: the server starts"; return; }
	in_ns_told "$ch" "talk$port" python3 "$TALK" client "$a" $port
	talking=$! talk=talk$port
	is="$want $want"
	settled() { tell "$talk" 50 && [ "$(transport $server $talking)" = "$is" ] && { [ -z "$reason" ] || [ "$(why $server $talking)" = "$reason $reason" ]; }; }
	until_true 20 settled
	ok $? "$name: ${reason:-$want}" || host_ctl 1 streams | sed 's/^/# /'
	tell "$talk" "bulk 1000000"
	is "$told" "did bulk 1000000" "$name: every octet"
}
talked() { # NAME
	tell_end "$talk" $talking
	is "$? $(tail -n 1 "$RIG_DIR/$talk.log" | cut -d ' ' -f 1)" "0 ok" "$1: to its end"
	host_end $server
}

daemon_start 1 || exit 1
talk "no" 3 "$(host_addr 3)" 2 tcp netns
talked "no"
daemon_stop 1 && daemon_start 1 -o join_namespaces=yes || exit 1
talk "from one to another" 3 "$(host_addr 3)" 2 local
talked "from one to another"
talk "into one" 3 "$(host_addr 3)" 1 local
talked "into one"
talk "out of one" 1 "$(host_addr 1)" 2 local
talked "out of one"
talk "within one" 3 "$(host_addr 3)" 3 local
talked "within one"
talk "by its loopback" 3 127.0.0.1 3 local
talked "by its loopback"

# Each with the other end that it has, where addresses and ports are the same
cat >"$RIG_DIR/namesakes.py" <<'EOF'
import os, socket, sys
name, port, theirs = sys.argv[1].encode(), int(sys.argv[2]), int(sys.argv[3])
l = socket.create_server(("127.0.0.1", port))
if os.fork() == 0:
    c = l.accept()[0]
    while d := c.recv(100):
        c.sendall(name + d)
    os._exit(0)
l.close()
c = socket.create_connection(("127.0.0.1", port), source_address=("127.0.0.1", theirs))
print("ready", flush=True)
for line in sys.stdin:
    for i in range(int(line)):
        c.sendall(b"%d" % i)
        got = c.recv(100)
        if got != name + b"%d" % i:
            sys.exit("%s instead of %s%d" % (got, name.decode(), i))
    print("did", line, end="", flush=True)
c.close()
print(os.wait()[1], flush=True)
EOF
pids=()
for h in 1 2 3; do
	in_ns_told $h same$h python3 "$RIG_DIR/namesakes.py" "of $h: " 7799 7798
	pids[h]=$!
done
for h in 1 2 3; do until_true 20 grep -q ready "$RIG_DIR/same$h.log"; done
joined() {
	local h
	for h in 1 2 3; do tell same$h 20 || return 0; done
	[ "$(stream_count 1 "r['transport'] == 'local' and '7799' in str(r['local']) + str(r['peer'])")" = 6 ]
}
until_true 20 joined
ok $? "the same loopback connection in three of them, all joined" || host_ctl 1 streams | sed 's/^/# /'
for h in 1 2 3; do
	tell same$h 1000
	is "$told" "did 1000" "namespace $h: by its own"
	tell_end same$h "${pids[h]}"
	is $? 0 "namespace $h: to its end"
done

# An address is one namespace's for as long as that has a connection; and never another one's than the daemon's where that has it
talk "it has an address" 3 "$(host_addr 3)" 2 local
first=$talk first_pid=$talking first_server=$server
ip -n "$(basename "$(host_ns 4)")" addr add "$(host_addr 2)/32" dev lo
ip -n "$(basename "$(host_ns 4)")" addr add "$(host_addr 1)/32" dev lo
talk "another one has it too" 4 "$(host_addr 2)" 4 tcp netns
talked "another one has it too"
talk "or the daemon's" 4 "$(host_addr 1)" 4 tcp netns
talked "or the daemon's"
talk=$first talking=$first_pid server=$first_server
talked "it has an address"
until_true 10 no_streams 1	# the daemon has heard of its end
talk "now it is the other one's" 4 "$(host_addr 2)" 4 local
talked "now it is the other one's"
until_true 20 no_streams 1
ok $? "no stream is left" || host_ctl 1 streams | sed 's/^/# /'
done_testing
