#!/bin/bash
# SPDX-License-Identifier: MIT
# Streams under each setting of the RNIC that changes what is on the wire, the same at both hosts and different: every octet has to arrive, and the
# MPA startup frames have to say what was asked for.
. "$(dirname "$0")/lib/rig.sh"
rig_need tshark dumpcap
progs=(send_variants bulk_both shutdown_wr) # the first is captured

# flags KEY: of the MPA frames of that kind on the application's ports: Markers, CRC
flags() {
	rig_shark "$pcap" -Y "iwarp_mpa.$1 && !(tcp.port == 874)" -T fields -e iwarp_mpa.marker_flag -e iwarp_mpa.crc_flag | sort -u | tr '\t\n' ' ,'
}

# same NAME PROGRAM: it says what it says over plain TCP
same() {
	sock_remote "$2" >"$RIG_DIR/got" 2>"$RIG_DIR/got.err"
	is "$?" 0 "$1: $2" || diag "$(head -n 5 "$RIG_DIR/got.err")"
	cmp -s "$RIG_DIR/$2.want" "$RIG_DIR/got"
	ok $? "$1: $2 says the same as over plain TCP" || diag "$(diff "$RIG_DIR/$2.want" "$RIG_DIR/got" | head -n 10)"
}

# setting NAME REQUEST REPLY OPTIONS-OF-SERVER [OPTIONS-OF-CLIENT]: REQUEST and REPLY are M and C, as the client and the server send them
setting() {
	local h p i missing=
	pcap=$RIG_DIR/settings.pcap
	rm -f "$pcap"
	for h in 1 2; do [ -z "$(daemon_pid $h)" ] || daemon_stop $h; done
	RIG_OPTS=()
	# shellcheck disable=SC2086
	daemon_start 1 $4 && daemon_start 2 ${5-$4} || { fail "$1: the daemons start"; return; }
	# what tshark says of half a capture means nothing
	for i in 1 2 3; do
		rig_capture 1 "$pcap" || fail "$1: capturing"
		same "$1" "${progs[0]}"
		rig_capture_stop
		missing=$(rig_captured 2>&1) && break
		diag "$1: capture $i is not complete: $missing"
	done
	is "$missing" "" "$1: the capture is complete"
	for p in "${progs[@]:1}"; do same "$1" "$p"; done
	is "$(flags req)" "$2," "$1: MPA Requests"
	is "$(flags rep)" "$3," "$1: MPA Replies"
	is "$(plain_reasons 2)" "" "$1: nothing was plain TCP"
}

rig_up 2
for p in "${progs[@]}"; do
	env IW_TEST_EXPECT=plain IW_TEST_HELPER="$IW_BUILD/tests/lib" IW_TEST_NETNS_SERVER="$(host_ns 1)" IW_TEST_NETNS_CLIENT="$(host_ns 1)" "$IW_BUILD/tests/sock/$p" \
		>"$RIG_DIR/$p.want" 2>"$RIG_DIR/$p.err" </dev/null
	is "$?" 0 "$p over plain TCP" || diag "$(head -n 5 "$RIG_DIR/$p.err")"
done
setting "Markers both ways" "1 1" "1 1" "-o markers=on"
setting "Markers to the server only" "0 1" "1 1" "-o markers=on" "-o markers=off"
setting "Markers to the client only, FPDUs of a segment" "1 1" "0 1" "-o large_fpdu=off" "-o markers=on"
setting "CRC off at both" "0 0" "0 0" "-o crc=off"
setting "CRC off at the server only" "0 1" "0 1" "-o crc=off" "-o crc=on"
setting "CRC off at the client only" "0 0" "0 1" "-o crc=on" "-o crc=off"
setting "CRC off, Markers, FPDUs of a segment" "1 0" "1 0" "-o crc=off -o markers=on -o large_fpdu=off"
setting "one Read at a time, a small ring, nothing inline" "0 1" "0 1" "-o max_ird=1 -o max_ord=1 -o ring_size=64K -o read_threshold=4K -o inline_max=0"
setting "a small ring here, a large one there" "0 1" "0 1" "-o ring_size=64K -o max_ird=1" "-o ring_size=8M -o max_ord=32 -o read_threshold=64K"
setting "never a Read" "0 1" "0 1" "-o read_threshold=0"
done_testing
