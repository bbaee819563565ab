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
# stored N: so many descriptors have come to the store
is_stored() { [ "$(cat "$RIG_DIR/ready.kept")" = "$1" ]; }
stored() {
	until_true 20 is_stored "$1"
	ok $? "$1 descriptors are kept" || diag "$(cat "$RIG_DIR/ready.kept")"
}
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
stored $((6 * N))

tell crowd "set" "same"
is "$told" "did same" "their programs set options"
kill -9 "$pid"
tell crowd "ask 5"
ok $? "the daemon is killed: all go on"
started
ok $? "there is another one"
listed
ok $? "which has all of them" || diag "$(host_ctl 2 streams | head -n 5)"
at_most "$ms" 2000 "within two seconds"
tell crowd "same"
is "$told" "did same" "with the options that were set"
is "$kept" $((6 * N)) "of each six descriptors were kept"
counted() { echo "$(host_ctl 2 -j status | json "d['tx_bytes']") $(host_ctl 2 -j streams | json "sum(r['tx_bytes'] for r in d)")"; }
read -r total0 shown0 <<<"$(counted)"
at_most "$total0" $((shown0 / 2)) "its totals are those of its own time"
tell crowd "ask 5"
ok $? "they go on"
read -r total1 shown1 <<<"$(counted)"
is "$((total1 - total0)) $((total1 > total0))" "$((shown1 - shown0)) 1" "from there on they count what streams carry"
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

# ---- pairs of one host: they need no daemon, and the next one knows them ----
echo "rings always" >>"$IWSOCK_CONF"
B=$(host_addr 2)
P=20
host_bg_iw 2 pairs.log "$PY" "$RIG_TESTS/lib/crowd.py" server "$B" 7502
host_port 2 7502
host_told 2 near "$PY" "$RIG_TESTS/lib/crowd.py" client "$B" 7502 $P
near=$!
pairs() { host_ctl 2 -j streams | json "sorted((r['id'], r['side'], r['pid'], r['uid'], r['fd'], r['program'], r['local'], r['peer']) for r in d if r['transport'] == 'local')"; }
paired() { tell near "ask 20" && [ "$(stream_count 2 "r['path'] == 'rings'")" = $((2 * P)) ]; }
until_true 20 paired
ok $? "$P pairs with rings" || diag "$(host_ctl 2 streams | head -n 5)"
stored $((4 * P + 1))
before=$(pairs)
kill -9 "$pid"
tell near "ask 5"
ok $? "the daemon is killed: all go on"
started
ok $? "there is another one"
is "$(pairs)" "$before" "which shows the same pairs"
at_most "$ms" 2000 "within two seconds"
is "$kept" $((4 * P + 1)) "of each four descriptors were kept, and a table"
is "$(host_ctl 2 -j stags | json "sum(r['length'] == 65536 for r in d)")" $((2 * P)) "and has their rings as STags"
tell near "options"
ok $? "TCP answers for their options"
tell near "pour"
kill "$pid"
started
is "$(pairs)" "$before" "restarted under load: the same"
tell near "calm"
ok $? "all go on"
tell near "fork 10"
ok $? "a child uses ten of them, by what the daemon knows"
tell_end near "$near"
is "$?" 0 "and they come to a proper end" || diag "$(cat "$RIG_DIR/near.log")"
until_true 10 no_streams 2
ok $? "nothing is left of them" || diag "$(host_ctl 2 streams)"
kill -9 "$pid"
started
is "$kept" 1 "nor in the store"

three() { tell near "ask 20" && [ "$(stream_count 2 "r['path'] == 'rings'")" = 6 ]; }
three_pairs() {
	host_told 2 near "$PY" "$RIG_TESTS/lib/crowd.py" client "$B" 7502 3
	near=$!
	until_true 20 three
	ok $? "three pairs"
	stored 13
}

# ---- what has to be the daemon's, where there is none: it waits for the next one ----
three_pairs
: >"$RIG_DIR/ready.late"
kill -9 "$pid"
tell near "leave 3" &
told=$!
asks() { grep -qs poll "/proc/$near/wchan"; }
until_true 5 asks
ok $? "octets are unread as a child comes, and no daemon is there: it is waited for"
rm "$RIG_DIR/ready.late"
started
wait $told
ok $? "the next one has them"
tell_end near "$near"
is "$?" 0 "and they come to a proper end" || diag "$(cat "$RIG_DIR/near.log")"

# ---- what the manager has lost ----
three_pairs
: >"$RIG_DIR/ready.lossy"
kill -9 "$pid"
started
rm "$RIG_DIR/ready.lossy"
is "$(grep -c "a pair that a daemon before this one had, is not shown" "$RIG_DIR/iwarpd.2.log")" 3 "of each of which a descriptor is lost: the daemon says it of each"
no_streams 2
ok $? "and shows none" || diag "$(host_ctl 2 streams)"
is "$(find "/proc/$pid/fd" -lname "*iwsock*" | wc -l) $(find "/proc/$pid/fd" -lname "*eventpoll*" | wc -l)" "$(find "/proc/$pid/fd" -lname "*iwsock-peers*" -o -lname "*iwsock-process*" | wc -l) 0" "nor has anything of them"
tell near "ask 5"
ok $? "they go on"
kill -9 "$pid"
started
is "$kept" 1 "nothing of them is in the store any more"
tell near "ask 5"
ok $? "they go on"
tell_end near "$near"
is "$?" 0 "and come to a proper end" || diag "$(cat "$RIG_DIR/near.log")"
host_end "$supervisor"

# ---- streams that the daemon pumps, one half of them with a large send under way: in order, none is lost ----
: >"$RIG_DIR/ready"
starts=0
# shellcheck disable=SC2086
host_bg 2 iwarpd.2.log "$PY" "$RIG_TESTS/lib/supervisor.py" "$RIG_DIR/ready" "$IW_BUILD/iwarpd" --run-dir "$(host_dir 2)" $RIG_DAEMON_OPTS -o map=no
supervisor=$!
started
ok $? "a daemon that maps nothing"
N=20
host_told 2 crowd "$PY" "$RIG_TESTS/lib/crowd.py" client "$A" 7501 $N
client=$!
pumped() { [ "$(stream_count 2 "r['path'] == 'carrier' and r['state'] == 'running'")" = $N ]; }
become_pumped() { tell crowd "ask 20" && pumped; }
until_true 20 become_pumped
ok $? "$N connections through the daemon" || diag "$(host_ctl 2 streams | head -n 5)"
for how in pour flood pour flood; do
	tell crowd $how
	kill "$pid"
	started
	ok $? "$how: it is restarted"
	pumped
	ok $? "the next one has all of them when it is ready" || diag "$(host_ctl 2 streams | head -n 5)"
	tell crowd calm
	ok $? "every octet comes"
done
tell crowd "ask 5"
ok $? "they go on"
kill -9 "$pid"
started
is "$kept" 0 "what goes on is not in the store"
! tell_end crowd "$client"
ok $? "so a daemon that is killed takes them along: a reset"
until_true 10 no_streams 2
ok $? "nothing is left of them" || diag "$(host_ctl 2 streams)"
host_end "$supervisor"

# ---- streams that it relays, as the other end has not come, or never will: not lost either, and their programs get them back ----
: >"$RIG_DIR/ready"
starts=0
# shellcheck disable=SC2086
host_bg 2 iwarpd.2.log "$PY" "$RIG_TESTS/lib/supervisor.py" "$RIG_DIR/ready" "$IW_BUILD/iwarpd" --run-dir "$(host_dir 2)" $RIG_DAEMON_OPTS -o go=at-once
supervisor=$!
started
ok $? "a daemon that waits for nobody"
printf 'upgrade_after 0\n' >"$RIG_DIR/early.conf"
host_bg 1 plain.log "$PY" "$RIG_TESTS/lib/crowd.py" server "$A" 7503
host_port 1 7503
relayed() { stream_count 2 "r['state'] == 'relay'"; }
some_relayed() { tell crowd "ask 1" && [ "$(relayed)" -ge 5 ]; }
back() { tell crowd "ask 20" && [ "$(stream_count 2 "r['state'] == 'plain'")" = $N ]; }
settled() { local was=$had; had=$(relayed); [ "$had" = "$was" ]; }
for how in pour flood; do
	host_told 2 crowd env IWSOCK_CONF="$RIG_DIR/early.conf" "$PY" "$RIG_TESTS/lib/crowd.py" client "$A" 7503 $N
	client=$!
	until_true 20 some_relayed
	ok $? "$how: connections are relayed" || diag "$(host_ctl 2 streams | head -n 5)"
	tell crowd $how
	kill -STOP "$client"
	had=
	until_true 10 settled	# what it had asked for before that is done
	kill "$pid"
	started
	is "$(relayed)" "$had" "$how: restarted, the next one has those that are" && at_least "$had" 1 "$how: which are some"
	kill -CONT "$client"
	tell crowd calm
	ok $? "$how: every octet comes"
	until_true 20 back
	ok $? "$how: all are their program's own again" || diag "$(host_ctl 2 streams | head -n 5)"
	tell_end crowd "$client"
	is "$?" 0 "$how: and come to a proper end" || diag "$(cat "$RIG_DIR/crowd.log")"
done
host_end "$supervisor"
done_testing
