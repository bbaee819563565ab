#!/bin/bash
# SPDX-License-Identifier: MIT
# A daemon whose service manager keeps its descriptors dies under a hundred mapped streams, or is restarted under load: all of them go on, the next
# daemon has them within two seconds, and is their agent as the one before was.
RIG_NO_DAEMON=1
. "$(dirname "$0")/lib/rig.sh"
PY=$(python3 -c 'import os, sys; os.pidfd_open; print(sys.executable)') || skip_all "needs python3 with pidfd_open"
export PYTHONDONTWRITEBYTECODE=1
A=$(host_addr 1)
N=100

rig_up 2
daemon_start 1
: >"$RIG_DIR/ready"
# shellcheck disable=SC2086
host_bg 2 iwarpd.2.log "$PY" "$RIG_TESTS/lib/supervisor.py" "$RIG_DIR/ready" "$IW_BUILD/iwarpd" --run-dir "$(host_dir 2)" $RIG_DAEMON_OPTS
supervisor=$!
starts=0
# started: the next daemon is ready; its pid is in $pid, how many descriptors it was given in $kept, the time that it took in $ms
is_ready() { [ "$(wc -l <"$RIG_DIR/ready")" -gt $starts ]; }
started() {
	until_true 20 is_ready || { diag "no iwarpd"; return 1; }
	starts=$((starts + 1))
	read -r pid kept ms < <(tail -n 1 "$RIG_DIR/ready")
}
mapped() { [ "$(stream_count 2 "r['path'] == 'mapped'")" = $N ]; }
listed() { [ "$(stream_count 2 "r['transport'] == 'iwarp'")" = $N ]; }

started
ok $? "a daemon under a supervisor"
host_bg_iw 1 server.log "$PY" "$RIG_TESTS/lib/crowd.py" server "$A" 7501
host_port 1 7501
host_told 2 crowd "$PY" "$RIG_TESTS/lib/crowd.py" client "$A" 7501 $N
client=$!
become_mapped() {
	tell crowd "ask 20" && mapped
}
until_true 20 become_mapped
ok $? "$N connections are mapped" || diag "$(host_ctl 2 streams | head -n 5)"

kill -9 "$pid"
tell crowd "ask 5"
ok $? "the daemon is killed: all go on"
started
ok $? "there is another one"
listed
ok $? "which has all of them" || diag "$(host_ctl 2 streams | head -n 5)"
at_most "$ms" 2000 "within two seconds"
is "$kept" $((6 * N)) "of each six descriptors were kept"
tell crowd "ask 5"
ok $? "they go on"
: >"$RIG_DIR/ready.deaf"	# of these ten the store has two maps, one before the other
tell crowd "fork 10"
ok $? "with a child, which uses ten of them"
until_true 20 become_mapped
ok $? "and are mapped again" || diag "$(host_ctl 2 streams | head -n 5)"

rm "$RIG_DIR/ready.deaf"

# a new one is too slow to answer anybody: it hears all the same what was given back to it meanwhile
kill -9 "$pid"
started
kill -STOP "$pid"
tell crowd "fork 10" &
told=$!
queued() { [ "$(host_exec 2 ss -Hxl src "$(host_dir 2)/ctl.sock" | awk '{ print $3 }')" -ge 10 ]; }
until_true 20 queued
ok $? "the next one does not answer, and is told ten times" || diag "$(host_exec 2 ss -xl src "$(host_dir 2)/ctl.sock")"
kill -CONT "$pid"
wait $told
ok $? "with a child, which uses ten of them, they go on"
until_true 30 become_mapped
ok $? "and are mapped again" || diag "$(host_ctl 2 streams | head -n 5)"

tell crowd "pour"
kill "$pid"
started
ok $? "it is restarted under load"
until_true 10 mapped
ok $? "the next one has all of them" || diag "$(host_ctl 2 streams | head -n 5)"
tell crowd "calm"
tell_end crowd "$client"
is "$?" 0 "and they come to a proper end" || diag "$(cat "$RIG_DIR/crowd.log")"
until_true 10 no_streams 2
ok $? "nothing is left of them"
host_end "$supervisor"
done_testing
