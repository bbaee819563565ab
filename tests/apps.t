#!/bin/bash
# SPDX-License-Identifier: MIT
# Unmodified programs between two hosts and on one, data compared, their connections upgraded: tests/apps.t [-m "two one"] [name ...]
# Where the daemons are sanitized half of them, by chance, unless they are named; IW_SEED=n repeats it, IW_LONG=1: all.
. "$(dirname "$0")/lib/rig.sh"
PY=$(python3 -c 'import sys; print(sys.executable)') || skip_all "needs python3"
NET=$RIG_TESTS/apps/net.py
LONG=${IW_LONG:+1}

need() {
	local p
	for p; do
		command -v "$p" >/dev/null || { skip "$p" "not installed"; return 1; }
	done
}
# talk_until_up N[,M] CLIENT...: its connections talk, as long as there is a file D/more, until N are upgraded at the client's host and M at
# the server's (N); what it said is in $got
talk_until_up() {
	local n=$1 client
	shift
	: >"$D/more"
	host_bg_iw $C client.log "$@"
	client=$!
	until_true 60 all_up "$n" $client
	rm "$D/more"
	wait $client
	got=$(cat "$RIG_DIR/client.log")
}
all_up() { rig_ended "$2" || upgraded "$1"; } # or it has failed
# upgraded N[,M]: since counts_begin
upgraded() {
	[ $(($(accel_count $S server) - RIG_COUNTS[2])) -ge "${1#*,}" ] && [ $(($(accel_count $C client) - RIG_COUNTS[3])) -ge "${1%,*}" ]
}
# longer N[,M] RUN...: RUN 1, and where its connections were not upgraded in that time, as on a busy machine, RUN 5, RUN 25: times as long
longer() {
	local n=$1 times
	shift
	for times in 1 5 25; do
		counts_begin $S $C
		"$@" $times
		upgraded "$n" && return
	done
}
# of a connection that did not live long enough, or ended while it was under way
SHORT="unanswered matched busy half-closed timeout other-end"

modes="two one"
[ "${1-}" != -m ] || { modes=$2; shift 2; }
rig_up 2
half=
if [ $# = 0 ] && [ "${IW_BUILD##*/}" != plain ] && [ ! "$LONG" ]; then
	half=1
	: "${IW_SEED:=$RANDOM}"
	diag "IW_SEED=$IW_SEED"
fi
[ $# -gt 0 ] || set -- redis iperf3 nginx memcached pipes asyncio smtp postgresql ssh rsync java node haproxy self
# A part is run with S and C, the hosts of server and client; A and A6, the server's addresses; D, a directory of its own; T, its name.
for app; do
	for mode in $modes; do
		[ ! "$half" ] || [ $(($(cksum <<<"$IW_SEED $app $mode" | cut -d ' ' -f 1) % 2)) = 0 ] || continue
		case $mode in
		two) S=1 C=2 A=$(host_addr 1) A6=$(host_addr6 1) T="$app, two hosts" ;;
		one) S=1 C=1 A=127.0.0.1 A6=::1 T="$app, one host" ;;
		*) echo "Bail out! no mode $mode"; exit 1 ;;
		esac
		D=$RIG_DIR/$app.$mode
		mkdir -m 755 "$D"
		began=$(now_ms)
		. "$RIG_TESTS/apps/$app.sh"
		for h in 1 2; do
			until_true 10 no_streams $h
			ok $? "$T: no stream and no STag of one is left at host $h" ||
				host_ctl $h streams | head -n 12 | sed 's/^/# /'
		done
		diag "$T: $(($(now_ms) - began)) ms"
		rm -rf "$D"
	done
done
done_testing
