#!/bin/bash
# SPDX-License-Identifier: MIT
# Connections that carry much, to a reader that always has octets unread, are switched on their way by the limits that are the default: on one host
# and between two, both ways, octet for octet; but not those that send large pieces one way, where TCP is as fast. IW_TEST_MIB: so much each way.
. "$(dirname "$0")/lib/rig.sh"
PY=$(python3 -c 'import sys; print(sys.executable)') || skip_all "needs python3"
rig_up 2
unset IWSOCK_CONF
: "${IW_TEST_MIB:=$([ -n "${IW_LONG-}" ] && echo 1024 || echo 128)}"
export IW_TEST_MIB

# talk SERVER-HOST CLIENT-HOST: one connection
talk() {
	local s=$1 c=$2
	env IW_TEST_NETNS_SERVER="$(host_ns "$s")" IW_TEST_NETNS_CLIENT="$(host_ns "$c")" IW_TEST_ADDR4="$(host_addr "$s")" \
		IW_TEST_PRELOAD_SERVER="$RIG_LIB" IW_TEST_PRELOAD_CLIENT="$RIG_LIB" \
		IW_TEST_RUNDIR_SERVER="$(host_dir "$s")" IW_TEST_RUNDIR_CLIENT="$(host_dir "$c")" \
		timeout -k 5 900 "$IW_BUILD/tests/sock/bulk_busy" >"$RIG_DIR/got" 2>&1 </dev/null
	GOT="$? $(grep -c "all octets" "$RIG_DIR/got")"
}
# bulk SERVER-HOST CLIENT-HOST. On a machine with other things to do the connection may be over before the daemons have agreed: then a longer one is.
bulk() {
	local s=$1 c=$2 was_s was_c t mib=$IW_TEST_MIB all
	was_s=$(ends "$s" switched) was_c=$(ends "$c" switched)
	for all in 1 4 16; do
		IW_TEST_MIB=$((mib * all)) talk "$s" "$c"
		[ "$GOT" = "0 2" ] && { [ "$(ends "$s" switched)" = "$was_s" ] || [ "$(ends "$c" switched)" = "$was_c" ]; } || break
	done
	is "$GOT" "0 2" "hosts $s and $c: all octets, both ways" || diag "$(head -n 5 "$RIG_DIR/got")"
	at_least $(($(ends "$s" switched) - was_s)) $((1 + (s == c))) "hosts $s and $c: ends switched at the server"
	at_least $(($(ends "$c" switched) - was_c)) $((1 + (s == c))) "hosts $s and $c: ends switched at the client"
	diag "$((mib * all)) MiB each way; $(for t in 1 2; do echo "host $t:"; host_ctl $t status --json |
		json "', '.join('%d %s' % (d['ends_' + k], k) for k in ('switched', 'joined', 'upgraded', 'back'))"; done | tr '\n' ' ')"
}
bulk 1 1
bulk 1 2

# A reader that is slower than who writes, and says nothing itself: its carrier is never empty, and it works its queue pair itself all the same.
cat >"$RIG_DIR/busy.py" <<'EOF'
import hashlib, socket, sys

if sys.argv[1] == "write":
    l = socket.create_server((sys.argv[2], 0))
    print(l.getsockname()[1], flush=True)
    c, _ = l.accept()
    while True:
        c.sendall(bytes(65536))
c = socket.create_connection((sys.argv[2], int(sys.argv[3])))
while c.recv(8192):
    hashlib.sha256(bytes(65536)).digest()
EOF
# pour LINE: one that writes on host 1 and one that reads on host 2, with that line as their iwsock.conf
pour() {
	echo "$1" >"$RIG_DIR/pour.conf"
	rm -f "$RIG_DIR/writer"
	host_bg_iw 1 writer env IWSOCK_CONF="$RIG_DIR/pour.conf" "$PY" "$RIG_DIR/busy.py" write "$(host_addr 1)"
	pids=($!)
	until_true 10 told_port
	host_bg_iw 2 reader env IWSOCK_CONF="$RIG_DIR/pour.conf" "$PY" "$RIG_DIR/busy.py" read "$(host_addr 1)" "$(cat "$RIG_DIR/writer")"
	pids+=($!)
}
told_port() { [ -s "$RIG_DIR/writer" ]; }
poured() {
	kill "${pids[@]}"
	wait "${pids[@]}" 2>/dev/null
}
pour "upgrade_after 4M"
reads_itself() { [ "$(stream_count 2 "r['path'] == 'mapped' and not r['tx_bytes']")" = 1 ]; }
until_true 20 reads_itself
ok $? "a reader that is never done with what is there works its queue pair itself" || { host_ctl 2 streams; cat "$RIG_DIR/reader"; } >&2
poured

# Large pieces one way, by a TCP that nothing paces: plain TCP is as fast.
for h in 1 2; do host_exec $h sh -c 'printf reno >/proc/sys/net/ipv4/tcp_congestion_control'; done
pour ""
stays() { [ "$(stream_count 1 "r['transport'] == 'tcp' and r['reason'] == 'no-gain'")" = 1 ]; }
until_true 30 stays
ok $? "who sends large pieces one way stays plain, no-gain" || host_ctl 1 streams >&2
knows() { [ "$(stream_count 2 "r['transport'] == 'tcp' and r['reason'] == 'other-end' and r['their_reason'] == 'no-gain'")" = 1 ]; }
until_true 30 knows
ok $? "and who reads them knows why" || host_ctl 2 streams --json >&2
poured
pour "upgrade_after_far 4M"
until_true 30 reads_itself
ok $? "with limits of somebody's own it is upgraded" || host_ctl 1 streams >&2
poured

done_testing
