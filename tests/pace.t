#!/bin/bash
# SPDX-License-Identifier: MIT
# Large pieces one way between two hosts, on many connections at once, by a TCP that paces them (BBR): as many are upgraded as lose that, the others stay plain,
# no-gain at both ends, and follow when some of those end, or when they carry something else; octet for octet.
. "$(dirname "$0")/lib/rig.sh"
PY=$(python3 -c 'import sys; print(sys.executable)') || skip_all "needs python3"
export PYTHONDONTWRITEBYTECODE=1
N=20 ROOM=8
rig_up 2
unset IWSOCK_CONF
for h in 1 2; do host_exec $h sh -c 'echo bbr >/proc/sys/net/ipv4/tcp_congestion_control' 2>/dev/null || skip_all "this kernel has no BBR"; done

most=0
state() { # UPGRADED WAITING: ends on host 1
	local iw plain
	read -r iw plain < <(host_ctl 1 streams --json |
		json "'%d %d' % (len([r for r in d if r['transport'] == 'iwarp']), len([r for r in d if r['reason'] == 'no-gain']))")
	[ "${iw:-99}" -le $most ] || most=$iw
	[ "$iw" = "$1" ] && [ "$plain" = "$2" ]
}
there() { [ "$(stream_count 2 "r['transport'] == 'tcp' and r['reason'] == 'other-end' and r['their_reason'] == 'no-gain'")" = "$1" ]; }
ports() { host_ctl 1 streams --json | json "' '.join([r['local'].rsplit(':')[-1] for r in d if $1][:$2])"; }
shown() { diag "$(host_ctl 1 streams; host_ctl 2 streams; tail -n 3 "$RIG_DIR/writer.log")"; }

host_bg_iw 2 reader.log "$PY" "$RIG_TESTS/lib/pieces.py" reader "$(host_addr 2)" 7601
reader=$!
host_port 2 7601
host_told 1 writer "$PY" "$RIG_TESTS/lib/pieces.py" writer "$(host_addr 2)" 7601 $N
writer=$!
until_true 60 state $ROOM $((N - ROOM))
ok $? "of $N connections $ROOM are upgraded, the others stay plain, no-gain" || shown
until_true 20 there $((N - ROOM))
ok $? "which the other end knows" || shown

tell writer "end $(ports "r['transport'] == 'iwarp'" 3)"
ok $? "three of those that are upgraded end"
until_true 60 state $ROOM $((N - ROOM - 3))
ok $? "and three others follow" || shown
is "$most" $ROOM "there were never more"

p=$(ports "r['reason'] == 'no-gain'" 1)
tell writer "small $p"
ok $? "one that waits writes small pieces from now on"
of_another_kind() { [ "$(stream_count 1 "r['local'].endswith(':$p') and r['transport'] == 'iwarp'")" = 1 ]; }
until_true 60 of_another_kind
ok $? "and is upgraded, though there is no room" || shown
until_true 20 there $((N - ROOM - 4))
ok $? "the others still wait" || shown

octets() { # WRITER PID NAME: it ends, all octets are there
	tell_end "$1" "$2"
	is "$?" 0 "$3: all have ended" || shown
	is "$(cat "$RIG_DIR"/*.log | grep -c wrong)" 0 "$3: octet for octet" || diag "$(grep -h wrong "$RIG_DIR"/*.log | head -n 5)"
}
octets writer $writer "one after the other"
is "$(grep -c octets "$RIG_DIR/reader.log")" $N "each was read to its end"

echo "upgrade_after 0" >"$RIG_DIR/at-once.conf"
host_told 1 others env IWSOCK_CONF="$RIG_DIR/at-once.conf" "$PY" "$RIG_TESTS/lib/pieces.py" writer "$(host_addr 2)" 7601 $((ROOM + 4))
others=$!
until_true 60 state $((ROOM + 4)) 0
ok $? "limits of somebody's own hold for all" || shown
octets others $others "at once"

most=0
host_told 1 files "$PY" "$RIG_TESTS/lib/pieces.py" files "$(host_addr 2)" 7601 $((ROOM / 2))
files=$!
until_true 60 state 0 $((ROOM / 2))
ok $? "pieces of a file, which TCP does not copy, stay plain, though there is room" || shown
octets files $files "from a file"
is "$most" 0 "and none was upgraded meanwhile"
kill $reader
wait $reader 2>/dev/null
done_testing
