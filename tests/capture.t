#!/bin/bash
# SPDX-License-Identifier: MIT
# What is on the wire, as tshark sees it: MPA startup with our private data, every RDMAP operation the stream uses, good CRCs.
. "$(dirname "$0")/lib/rig.sh"
rig_need tshark dumpcap python3
PY=$(python3 -c 'import sys; print(sys.executable)')
NET=$RIG_TESTS/apps/net.py

shark() { rig_shark "$pcap" "$@"; }
opcodes() { shark -Y iwarp_ddp_rdmap -T fields -e iwarp_rdma.opcode | tr ',' '\n' | sort | uniq -c; }
has_op() { # OPCODE NAME
	local n
	n=$(awk -v o="$1" '$2 == o { print $1 }' <<<"$ops")
	at_least "${n:-0}" 1 "$title: $2"
}

connections() { shark -Y "$1" -T fields -e tcp.stream | sort -u | wc -l; }

traffic() {
	local server
	rig_capture 1 "$pcap"
	ok $? "$title: capturing" || { sed 's/^/# /' "$RIG_DIR/dumpcap.log"; return; }
	host_bg_iw 1 server.log "$PY" "$NET" smtp-server :: 7025
	server=$!
	host_port 1 7025
	counts_begin 1 2
	is "$(host_exec_iw 2 timeout 60 "$PY" "$NET" smtp-client "$(host_addr 1)" 7025 3 2>&1)" "3 mails" "$title: small messages"
	sock_remote bulk_sizes >"$RIG_DIR/bulk.out" 2>&1
	ok $? "$title: large messages" || tail -n 3 "$RIG_DIR/bulk.out" | sed 's/^/# /'
	counts_end "$title" 4
	host_end $server
	until_true 30 no_streams 1
	ok $? "$title: the streams end"
	rig_capture_stop
}

run() {
	local i missing
	title=$1 pcap=$RIG_DIR/$2.pcap
	# what tshark says of half a capture means nothing, and an overloaded machine may lose packets of it
	for i in 1 2 3; do
		traffic
		missing=$(rig_captured 2>&1) && break
		diag "$title: capture $i is not complete: $missing"
	done
	is "$missing" "" "$title: the capture is complete" || return

	is "$(connections 'iwarp_mpa.req && iwarp_mpa.privatedata contains "RSTM"')" 4 "$title: an MPA Request with our private data on each connection"
	is "$(connections 'iwarp_mpa.rep && iwarp_mpa.privatedata contains "RSTM"')" 4 "$title: and an MPA Reply"
	is "$(connections 'iwarp_mpa.req && iwarp_mpa.privatedata contains "RSTM" && tcp.srcport == 874')" 0 "$title: on the application's own ports"
	ops=$(opcodes)
	has_op 0x00 "RDMA Writes"
	has_op 0x01 "RDMA Read Requests"
	has_op 0x02 "RDMA Read Responses"
	has_op 0x03 "Sends"
	has_op 0x08 "Immediate Data"
	is "$(awk '$2 == "0x07" { print $1 }' <<<"$ops")" "" "$title: no Terminate"
	is "$(awk '$2 != "0x00" && $2 != "0x01" && $2 != "0x02" && $2 != "0x03" && $2 != "0x04" && $2 != "0x05" && $2 != "0x06" && $2 != "0x08" && $2 != "0x09"' <<<"$ops")" "" "$title: no other opcode"
	diag "$(tr '\n' ';' <<<"$ops")"
	is "$(shark -Y '_ws.malformed || iwarp_mpa.bad_length' | head -n 3)" "" "$title: no malformed frame"
	crcs=$(shark -Y iwarp_mpa.fpdu -V | grep 'CRC check' | sed 's/.*(\(.*\))/\1/' | sort | uniq -c)
	is "$(grep -vc 'Good CRC32' <<<"$crcs")" 0 "$title: every CRC is good" || diag "$crcs"
	at_least "$(awk '/Good CRC32/ { print $1 }' <<<"$crcs")" 50 "$title: CRCs checked"
	diag "$title: retransmitted or out of order: $(shark -Y 'tcp.analysis.retransmission || tcp.analysis.out_of_order' | wc -l) packets"
}

# Whether a large write is read by the peer or written to it depends on how much of it is there at once: make it certain.
RIG_DAEMON_OPTS="$RIG_DAEMON_OPTS -o read_threshold=32768"
rig_up 2
run "large FPDUs" large
for h in 1 2; do
	daemon_stop $h
	daemon_start $h -o large_fpdu=off
done
run "FPDUs of a segment" emss
at_most "$(shark -Y iwarp_mpa.fpdu -T fields -e iwarp_mpa.ulpdulength | tr ',' '\n' | sort -n | tail -n 1)" 1500 "FPDUs of a segment: none is larger"
done_testing
