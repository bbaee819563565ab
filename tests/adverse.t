#!/bin/bash
# SPDX-License-Identifier: MIT
# What goes wrong around two daemons while programs talk: a firewall drops the control port, or rejects it; an address goes and comes; the wire is down; a
# daemon stands still, or is frozen by its control group; it may have little memory, or few files. Connections go on as plain TCP would, new ones work, the daemons say what is wrong, and all is well afterwards.
. "$(dirname "$0")/lib/rig.sh"
rig_need python3 ss
: "${RIG_STILL:=15}"	# seconds that a daemon stands still
RIG_DAEMON_OPTS="-o answer_timeout=1000 -o negative_cache=1"
rig_up 2
TALK=$RIG_TESTS/lib/talk.py
ctl=$IW_BUILD/iwctl

host_bg_iw 2 server.log python3 "$TALK" server 10.77.0.2 7001
host_bg_iw 1 near.log python3 "$TALK" server 10.77.0.1 7001
host_bg_iw 2 crowd.server.log python3 "$RIG_TESTS/lib/crowd.py" server 10.77.0.2 7002
host_port 2 7001 && host_port 1 7001 && host_port 2 7002
rows() { host_ctl 1 -j streams | json "sorted({r['path'] if r['transport'] == 'iwarp' else r['transport'] for r in d if r['pid'] == $1})"; }

# two that talk all the time: one with the other host, one within this one
host_told 1 far python3 "$TALK" client 10.77.0.2 7001
far=$!
host_told 1 near python3 "$TALK" client 10.77.0.1 7001
near=$!
mapped() { tell far 20 && [ "$(rows "$far")" = "['mapped']" ]; }
joined() { tell near 20 && [ "$(rows "$near")" = "['local']" ]; }
until_true 20 mapped && until_true 20 joined
ok $? "a connection to the other host is mapped, one of this host is joined" || diag "$(host_ctl 1 streams)"

both() { tell far 200 "bulk 100000" && tell near 200 "bulk 100000"; }
n=0
new() { # NAME: a connection that begins now, with all its octets right, and ends
	local p name
	n=$((n + 1)) name=n$n
	host_told 1 $name python3 "$TALK" client 10.77.0.2 7001
	p=$!
	tell $name 50 "bulk 50000"
	tell_end $name $p
	is "$? $(tail -n 1 "$RIG_DIR/$name.log" | cut -d' ' -f1)" "0 ok" "$1: a new connection works" || sed 's/^/# /' "$RIG_DIR/$name.log"
}
well() { # NAME: afterwards
	local p name
	both
	ok $? "$1, afterwards: those that were there go on"
	n=$((n + 1)) name=n$n
	host_told 1 $name python3 "$TALK" client 10.77.0.2 7001
	p=$!
	again() { tell "$name" 20 && [ "$(rows "$p")" = "['mapped']" ]; }
	until_true 30 again
	ok $? "$1, afterwards: a new one is accelerated" || diag "$(host_ctl 1 streams; host_ctl 1 peers; host_ctl 1 why $p)"
	tell_end $name $p
	is $? 0 "$1, afterwards: and ends well"
}
log_has() { grep -q "$2" "$RIG_DIR/iwarpd.$1.log"; }
peer_reason() { host_ctl 1 -j peers | json "[r['reason'] for r in d if r['address'] == '10.77.0.2']"; }

# ---- a firewall ----
# sessions that stand are cut off, too
rules() { # add|del WHAT
	host_exec 1 ip rule "$1" pref 1 ipproto tcp dport 874 "$2" && host_exec 1 ip rule "$1" pref 1 ipproto tcp sport 874 "$2"
}
for what in blackhole prohibit; do
	rules add $what
	ok $? "$what: the control port is out of reach"
	both
	ok $? "$what: those that are there go on"
	new $what
	out=$(host_ctl 1 check 10.77.0.2:7001)
	is $? 1 "$what: iwctl check says no" || diag "$out"
	out=$(host_exec 1 "$ctl" --run-dir "$(host_dir 1)" doctor 10.77.0.2:7001)
	is "$? $(grep -c '^bad *\(way\|firewall\)' <<<"$out" | sed 's/[1-9]/some/')" "1 some" "$what: doctor says what" || diag "$out"
	# whoever had a session with the other daemon learns in time that it is gone
	rules del $what
	ok $? "$what: let through again"
	well $what
done

# ---- the address of this host goes, and comes ----
host_exec 1 ip addr del 10.77.0.1/24 dev eth0
# the talk waits as TCP does
echo 20 >&"${RIG_TOLD[far]}"
lines=$(wc -l <"$RIG_DIR/far.log")
host_ctl 1 status >/dev/null
ok $? "no address: the daemon answers"
host_exec 1 ip addr add 10.77.0.1/24 dev eth0
until_true 60 rig_said far $((lines + 1))
ok $? "no address: what was said meanwhile arrives" || diag "$(tail -n 2 "$RIG_DIR/far.log")"
well "no address"

# ---- the wire is down ----
host_exec 2 ip link set eth0 down
echo 20 >&"${RIG_TOLD[far]}"
lines=$(wc -l <"$RIG_DIR/far.log")
tell near 200
ok $? "no wire: within the host all goes on"
host_exec 2 ip link set eth0 up
host_exec 2 ip addr add fd77::2/64 dev eth0 nodad
until_true 60 rig_said far $((lines + 1))
ok $? "no wire: what was said meanwhile arrives" || diag "$(tail -n 2 "$RIG_DIR/far.log")"
well "no wire"

# ---- a daemon stands still: ours, then theirs ----
for h in 1 2; do
	kill -STOP "$(daemon_pid $h)"
	until=$(($(now_ms) + RIG_STILL * 1000))
	both
	ok $? "the daemon of host $h stands still: those that are there go on"
	out=$(host_ctl $h status 2>&1)
	is "$? $(grep -c 'its process is stopped' <<<"$out")" "3 1" "the daemon of host $h stands still: iwctl says so" || diag "$out"
	new "the daemon of host $h stands still"
	while [ "$(now_ms)" -lt "$until" ]; do both || break; done
	[ "$(now_ms)" -ge "$until" ]
	ok $? "the daemon of host $h stands still: for long"
	kill -CONT "$(daemon_pid $h)"
	well "the daemon of host $h goes on"
done

# ---- a control group of ours: frozen, and with little memory ----
GROUPS_MADE=()
group() { # CONTROLLER: the daemon of host 1 is in it, and that in $group
	local dir=/sys/fs/cgroup
	[ "$(stat -f -c %T $dir)" = cgroup2fs ] || dir+=/$1
	group=$dir/$RIG_ID
	[ -w "$dir/cgroup.procs" ] && { [ -d "$group" ] || mkdir "$group"; } 2>/dev/null || return 1
	GROUPS_MADE+=("$group")
	echo "$(daemon_pid 1)" >"$group/cgroup.procs"
}
rig_cleaned() {
	local g
	for g in "${GROUPS_MADE[@]}"; do
		freeze 0 "$g"
		until_true 5 group_gone "$g"
	done
}
group_gone() { [ ! -d "$1" ] || rmdir "$1"; }
freeze() { # 0|1 GROUP
	if [ -e "$2/freezer.state" ]; then
		[ "$1" = 1 ] && echo FROZEN >"$2/freezer.state" || echo THAWED >"$2/freezer.state"
	elif [ -e "$2/cgroup.freeze" ]; then
		echo "$1" >"$2/cgroup.freeze"
	fi
}
is_frozen() { grep -qx 'FROZEN\|frozen 1' "$group/freezer.state" "$group/cgroup.events" -h 2>/dev/null; }
if group freezer && freeze 1 "$group" && until_true 10 is_frozen; then
	until=$(($(now_ms) + RIG_STILL * 1000))
	both
	ok $? "frozen: those that are there go on"
	out=$(host_ctl 1 status 2>&1)
	is "$? $(grep -c 'does not answer: nothing within 1 s' <<<"$out")" "3 1" "frozen: iwctl says so, after a second" || diag "$out"
	new frozen
	while [ "$(now_ms)" -lt "$until" ]; do both || break; done
	[ "$(now_ms)" -ge "$until" ]
	ok $? "frozen: for long"
	freeze 0 "$group"
	well "thawed"
else
	skip "frozen" "no control group can be made, or frozen"
fi
limit() { echo "$1" >"$group/$([ -e "$group/memory.max" ] && echo memory.max || echo memory.limit_in_bytes)"; }
if group memory && limit 16M 2>/dev/null; then
	host_told 1 crowd python3 "$RIG_TESTS/lib/crowd.py" client 10.77.0.2 7002 200
	crowd=$!
	tell crowd "ask 20"
	both
	ok $? "little memory: those that are there go on"
	new "little memory"
	tell crowd "ask 20" && tell_end crowd "$crowd"
	right=$?
	if rig_ended "$(daemon_pid 1)"; then
		# by the kernel, as a kill: what the daemon carried is reset, never short or wrong
		wait "$crowd"
		is "$(grep -c 'Error(104' "$RIG_DIR/crowd.log")" 1 "little memory: the daemon was killed, its streams are reset" || sed 's/^/# /' "$RIG_DIR/crowd.log"
		daemon_kill9 1
		killed=1
	else
		is $right 0 "little memory: 200 more, too"
		killed=
	fi
	limit -1 2>/dev/null || limit max
	[ -z "$killed" ] || daemon_start 1
	well "enough memory"
else
	skip "little memory" "no control group can be made, or has a limit"
fi

# ---- few files ----
tell_end far "$far"
is $? 0 "the connection to the other host has seen no error"
tell_end near "$near"
is $? 0 "nor that within the host"
daemon_stop 1
RIG_DAEMON_WITH="prlimit --nofile=128:128" daemon_start 1
host_told 1 crowd2 python3 "$RIG_TESTS/lib/crowd.py" client 10.77.0.2 7002 200
crowd=$!
tell crowd2 "ask 20"
some() { tell crowd2 "ask 20" && [ "$(stream_count 1 "r['transport'] == 'iwarp'")" -gt 0 ] && [ "$(stream_count 1 "r['reason'] in ('quota', 'resources')")" -gt 0 ]; }
until_true 20 some
ok $? "few files: some are accelerated, and others say why not" || diag "$(host_ctl 1 reasons)"
host_exec 1 "$ctl" --run-dir "$(host_dir 1)" doctor >"$RIG_DIR/doctor"
is "$(grep -cE '^(warn|bad ) *limits' "$RIG_DIR/doctor")" 1 "few files: doctor says so" || sed 's/^/# /' "$RIG_DIR/doctor"
log_has 1 'quota\|files\|descriptors'
ok $? "few files: the log does"
tell_end crowd2 "$crowd"
is $? 0 "few files: all octets are right"
until_true 20 no_streams 1
ok $? "few files: nothing is left"
done_testing
