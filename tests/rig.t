#!/bin/bash
# SPDX-License-Identifier: MIT
# Of the tests themselves: programs and daemons that a test started and that have ended leave their numbers to others, who are let alone.
here=$(dirname "$0")
. "$here/lib/tap.sh"
[ "$(id -u)" = 0 ] || skip_all "not root"
# a space of numbers of our own, in which nobody else takes the next one
[ "${1-}" = inside ] || exec unshare --pid --fork --kill-child --mount-proc "$0" inside
RIG_NO_DAEMON=1
. "$here/lib/rig.sh"
rig_up 1
mkfifo "$RIG_DIR/say" "$RIG_DIR/born"
exec 8<>"$RIG_DIR/say"

# heir PID: somebody else's program takes this number; 1 when it did not get it
heir() {
	(
		echo $(($1 - 1)) >/proc/sys/kernel/ns_last_pid
		cat >"$RIG_DIR/heard" 2>/dev/null <"$RIG_DIR/say" &
		echo $! >"$RIG_DIR/born"
		wait 2>/dev/null
	) &
	parent=$!
	read -r heir <"$RIG_DIR/born"	# nothing else is started before that
	[ "$heir" = "$1" ]
}
# lives NAME PID
lives() {
	echo "$1" >&8
	until_true 5 grep -qx "$1" "$RIG_DIR/heard"
	ok $? "$1: who got the number lives"
	kill -9 "$heir" 2>/dev/null
	wait $parent 2>/dev/null
	rm -f "$RIG_DIR/heard"
	exec 8>&-
	exec 8<>"$RIG_DIR/say"
}
# ended: what host_bg started and what has ended since, in $p
ended() {
	host_bg 1 short.log true
	p=$!
	wait $p
}

ended
heir $p
ok $? "another one has the number of a program that ended"
host_end "${RIG_PIDS[@]}"
lives "at the end of a test" $p

for how in daemon_stop daemon_kill9; do
	ended
	heir $p
	RIG_DAEMON[1]=$p
	$how 1
	lives "$how" $p
done

ended
heir $p
RIG_TOLD[short]=/dev/null
exec {RIG_TOLD[short]}>/dev/null
tell_end short $p
lives tell_end $p

ended
heir $p
(rig_logs() { :; }; rig_clean() { :; }; RIG_HOSTS=0; rig_trap)
lives "when a test breaks off" $p

ended
RIG_PIDS=($p)
echo $((p - 1)) >/proc/sys/kernel/ns_last_pid
sleep 1000 &
is $! $p "a daemon has the number of a program that ended"
RIG_DAEMON[1]=$p
(RIG_DAEMON=([1]=$p) TAP_N=0; daemon_stop() { rig_ours "$p"; exit; }; rig_down; exit 1) >/dev/null
is $? 0 "a program that is ended at the end of a test is not a daemon that has its number"
unset "RIG_DAEMON[1]"
kill -9 $p
wait $p 2>/dev/null
RIG_PIDS=()

host_bg 1 long.log sleep 1000
p=$!
rig_ours $p
ok $? "what runs is ours"
host_end $p
rig_ours $p
is $? 1 "and ends when it is told to"
RIG_PIDS=()
done_testing
