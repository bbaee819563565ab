#!/bin/bash
# SPDX-License-Identifier: MIT
# SIGHUP with streams: those that are there go on, new ones are by the new settings, and who may not use the control port any more does not.
. "$(dirname "$0")/lib/rig.sh"
rig_need python3
rig_up 2
TALK=$RIG_TESTS/lib/talk.py
A=$(host_addr 1) B=$(host_addr 2)
log=$RIG_DIR/iwarpd.1.log
conf=$RIG_DIR/iwarpd.conf
: >"$conf"
daemon_stop 1 && daemon_start 1 -c "$conf"

reload() { # CHANGED: with the settings on standard input
	local n
	cat >"$conf"
	n=$(grep -c "changed: $1\$" "$log")
	more() { [ "$(grep -c "changed: $1\$" "$log")" -gt "$n" ]; }
	kill -HUP "$(daemon_pid 1)"
	until_true 20 more "$1"
	ok $? "read again; changed: $1" || diag "$(tail "$log")"
}
# client NAME: its pid is in the variable of its name
client() {
	host_told 1 "$1" python3 "$TALK" client "$B" 7601
	printf -v "$1" %s $!
}
iwarp() { # NAME PATH
	tell "$1" 20 && [ "$(stream_count 1 "r['pid'] == ${!1} and r['transport'] == 'iwarp' and r['path'] == '$2'")" = 1 ]
}

host_bg_iw 2 server.log python3 "$TALK" server "$B" 7601
host_bg_iw 1 server1.log python3 "$TALK" server "$A" 7602
host_port 2 7601
host_port 1 7602
until_true 10 host_ctl 2 check "$A:7602"
ok $? "each host accelerates with the other"
client first
until_true 20 iwarp first mapped
ok $? "a stream is mapped" || diag "$(host_ctl 1 streams)"

reload "map, ring_size, allow" <<-END
	map = no
	ring_size = 64K
	allow = 127.0.0.0/8
END
tell first "bulk 100000" && iwarp first mapped
ok $? "it goes on, as it was" || diag "$(host_ctl 1 streams)"
until_true 10 grep -q "session from $B: the host is not in 'allow'; closed" "$log"
ok $? "the other host's session ends"
refused() { ! host_ctl 2 check "$A:7602" >"$RIG_DIR/check" && grep -q peer-refused "$RIG_DIR/check"; }
until_true 10 refused
ok $? "and it gets none" || diag "$(cat "$RIG_DIR/check")"

reload "allow" <<-END
	map = no
	ring_size = 64K
END
until_true 10 host_ctl 2 check "$A:7602"
ok $? "who may use the control port again does"
until_true 10 host_ctl 1 check "$B:7601"
client second
until_true 20 iwarp second carrier
ok $? "the next stream is not mapped" || diag "$(host_ctl 1 -j streams)"
tell second "bulk 1000000"
ok $? "and carries what it is given, with a smaller ring"
tell first "bulk 100000" && iwarp first mapped
ok $? "as does the first one"

: >"$conf"
reload "map, ring_size, max_streams" <<<"max_streams = 1"
client third
# shellcheck disable=SC2154 # set by client
over() { tell third 20 && [ "$(stream_count 1 "r['pid'] == $third and r.get('reason') == 'quota'")" = 1 ]; }
until_true 20 over
ok $? "a quota that is used up: the next connection stays plain" || diag "$(host_ctl 1 streams)"
tell first 5 && tell second 5
ok $? "and what there is stays"
for c in first second third; do
	tell_end $c "${!c}"
	ok $? "the $c ends in order"
done
done_testing
