#!/bin/bash
# SPDX-License-Identifier: MIT
# A stream under each setting of the RNIC that changes what is on the wire, the same at both hosts and different: every octet has to arrive, and the
# MPA startup frames have to say what was asked for.
. "$(dirname "$0")/lib/rig.sh"
rig_need tshark dumpcap
PY=$(python3 -c 'import sys; print(sys.executable)') || skip_all "needs python3"
export PYTHONDONTWRITEBYTECODE=1
TALK=$RIG_TESTS/lib/talk.py

# flags KEY: of the MPA frames of that kind on the application's port: Markers, CRC
flags() { rig_shark "$pcap" -Y "iwarp_mpa.$1 && tcp.port == 7500" -T fields -e iwarp_mpa.marker_flag -e iwarp_mpa.crc_flag | sort -u | tr '\t\n' ' ,'; }

# conversation NAME: a connection that is upgraded in its middle; then pieces of all sizes, and bulk both ways at once
conversation() {
	local client server
	host_bg_iw 1 server.log "$PY" "$TALK" server "$(host_addr 1)" 7500
	server=$!
	host_port 1 7500
	host_told 2 talk "$PY" "$TALK" client "$(host_addr 1)" 7500
	client=$!
	until_true 20 rig_said talk 1
	up() { tell talk 20 && [ "$(stream_count 2 "r['transport'] == 'iwarp'") $(stream_count 1 "r['transport'] == 'iwarp'")" = "1 1" ]; }
	until_true 20 up
	ok $? "$1: it is upgraded" || diag "$(host_ctl 2 streams)"
	tell talk sizes "bulk 2000000"
	is "$told" "did bulk 2000000" "$1: every octet arrives"
	tell_end talk $client
	is "$? $(tail -n 1 "$RIG_DIR/talk.log" | cut -d ' ' -f 1)" "0 ok" "$1: to the end of the connection"
	host_end $server
}

# setting NAME CLIENT SERVER OPTIONS-OF-SERVER [OPTIONS-OF-CLIENT]: what either end asks for, M and C. Either may be the one that begins.
setting() {
	local h i begins=$2 other=$3 missing=
	pcap=$RIG_DIR/settings.pcap
	rm -f "$pcap"
	for h in 1 2; do [ -z "$(daemon_pid $h)" ] || daemon_stop $h; done
	RIG_OPTS=()
	# shellcheck disable=SC2086
	daemon_start 1 $4 && daemon_start 2 ${5-$4} || { fail "$1: the daemons start"; return; }
	# what tshark says of half a capture means nothing
	for i in 1 2 3; do
		rig_capture 1 "$pcap" || fail "$1: capturing"
		conversation "$1"
		rig_capture_stop
		missing=$(rig_captured 2>&1) && break
		diag "$1: capture $i is not complete: $missing"
	done
	is "$missing" "" "$1: the capture is complete"
	rig_shark "$pcap" -Y "iwarp_mpa.req && tcp.srcport == 7500" | grep -q . && begins=$3 other=$2
	# CRC is on if one of them wants it
	is "$(flags req)" "$begins," "$1: MPA Request"
	is "$(flags rep)" "${other% *} $((${2#* } | ${3#* }))," "$1: MPA Reply"
}

rig_up 2
setting "Markers both ways" "1 1" "1 1" "-o markers=on"
setting "Markers to the server only" "0 1" "1 1" "-o markers=on" "-o markers=off"
setting "Markers to the client only, FPDUs of a segment" "1 1" "0 1" "-o large_fpdu=off" "-o markers=on"
setting "CRC off at both" "0 0" "0 0" "-o crc=off"
setting "CRC off at the server only" "0 1" "0 0" "-o crc=off" "-o crc=on"
setting "CRC off at the client only" "0 0" "0 1" "-o crc=on" "-o crc=off"
setting "CRC off, Markers, FPDUs of a segment" "1 0" "1 0" "-o crc=off -o markers=on -o large_fpdu=off"
setting "one Read at a time, a small ring, nothing inline" "0 1" "0 1" "-o max_ird=1 -o max_ord=1 -o ring_size=64K -o read_threshold=4K -o inline_max=0"
setting "a small ring here, a large one there" "0 1" "0 1" "-o ring_size=64K -o max_ird=1" "-o ring_size=8M -o max_ord=32 -o read_threshold=64K"
setting "a device wanted at both, and none there" "0 1" "0 1" "-o provider=auto"
setting "never a Read" "0 1" "0 1" "-o read_threshold=0"
done_testing
