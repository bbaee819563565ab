#!/bin/bash
# SPDX-License-Identifier: MIT
# What is on the wire, as tshark sees it: MPA startup with our private data, every RDMAP operation the stream uses, good CRCs; and of a
# connection that lasts, the program's own octets first, and iWARP from some octet on.
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

# What the other end has not read goes by RDMA Reads, once its ring is full: so nothing is read before there was one. Ends of mapped streams offer nothing to Reads.
late() {
	local server client
	host_bg_iw 1 talk.log "$PY" "$RIG_TESTS/lib/talk.py" server "$(host_addr 1)" 7026
	server=$!
	host_port 1 7026
	host_told 2 talker "$PY" "$RIG_TESTS/lib/talk.py" client "$(host_addr 1)" 7026
	client=$!
	tell talker "late 4000000"
	if [ "$mode" != mapped ]; then
		until_true 30 has_read
		ok $? "$title: what is not read is offered, and read by the daemon"
	fi
	tell talker read
	tell_end talker $client
	is "$? $(sed -n '$s/ .*//p' "$RIG_DIR/talker.log")" "0 ok" "$title: large messages that wait for their reader"
	host_end $server
}
# mails: a connection with ten, and with more until it is upgraded
mails() {
	local was client
	was="$(ends 1 upgraded) $(ends 2 upgraded)"
	: >"$RIG_DIR/more"
	host_bg_iw 2 mails.log timeout 60 "$PY" "$NET" smtp-client "$(host_addr 1)" 7025 1 10 "$RIG_DIR/more"
	client=$!
	# shellcheck disable=SC2086
	until_true 30 both_up $was
	rm "$RIG_DIR/more"
	wait $client && [ "$(sed -n 's/ mails$//p' "$RIG_DIR/mails.log")" -ge 10 ]
}
both_up() { [ "$(ends 1 upgraded)" -gt "$1" ] && [ "$(ends 2 upgraded)" -gt "$2" ]; }
has_read() { [ "$(host_ctl 2 streams --json | json "sum(r['tx_reads'] for r in d)")" -gt 0 ]; }

traffic() {
	local server
	until_true 10 host_ctl 1 check "$(host_addr 2):7025" && until_true 10 host_ctl 2 check "$(host_addr 1):7025"
	rig_capture 1 "$pcap"
	ok $? "$title: capturing" || { sed 's/^/# /' "$RIG_DIR/dumpcap.log"; return; }
	host_bg_iw 1 server.log "$PY" "$NET" smtp-server :: 7025
	server=$!
	host_port 1 7025
	counts_begin 1 2
	mails && mails && mails
	ok $? "$title: small messages" || tail -n 3 "$RIG_DIR/mails.log" | sed 's/^/# /'
	sock_remote bulk_sizes >"$RIG_DIR/bulk.out" 2>&1
	ok $? "$title: large messages" || tail -n 3 "$RIG_DIR/bulk.out" | sed 's/^/# /'
	late
	counts_end "$title" 5
	host_end $server
	until_true 30 no_streams 1
	ok $? "$title: the streams end"
	rig_capture_stop
}

run() {
	local i missing mode=$2
	title=$1 pcap=$RIG_DIR/$2.pcap
	# what tshark says of half a capture means nothing, and an overloaded machine may lose packets of it
	for i in 1 2 3; do
		traffic
		missing=$(rig_captured 2>&1) && break
		diag "$title: capture $i is not complete: $missing"
	done
	is "$missing" "" "$title: the capture is complete" || return

	is "$(connections 'iwarp_mpa.req && iwarp_mpa.privatedata contains "RSTM"')" 5 "$title: an MPA Request with our private data on each connection"
	is "$(connections 'iwarp_mpa.rep && iwarp_mpa.privatedata contains "RSTM"')" 5 "$title: and an MPA Reply"
	is "$(connections 'iwarp_mpa.req && iwarp_mpa.privatedata contains "RSTM" && tcp.srcport == 874')" 0 "$title: on the application's own ports"
	ops=$(opcodes)
	has_op 0x00 "RDMA Writes"
	if [ "$mode" != mapped ]; then
		has_op 0x01 "RDMA Read Requests"
		has_op 0x02 "RDMA Read Responses"
	fi
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

# The limits that are the default: what was asked and answered before is on the wire as it is, and nothing of it afterwards.
middle() {
	local server client missing at seen
	title="in its middle" pcap=$RIG_DIR/middle.pcap
	rig_capture 1 "$pcap"
	ok $? "$title: capturing" || { sed 's/^/# /' "$RIG_DIR/dumpcap.log"; return; }
	host_bg_iw 1 talk.log env -u IWSOCK_CONF "$PY" "$RIG_TESTS/lib/talk.py" server "$(host_addr 1)" 7026
	server=$!
	host_port 1 7026
	at=$(ends 1 upgraded)
	host_told 2 talker env -u IWSOCK_CONF "$PY" "$RIG_TESTS/lib/talk.py" client "$(host_addr 1)" 7026
	client=$!
	more() { tell talker 1000 && [ "$(ends 1 upgraded)" -gt "$at" ]; }
	until_true 20 more
	ok $? "$title: a connection is upgraded after some questions and answers"
	tell talker 100
	tell_end talker $client
	is "$? $(sed -n '$s/ .*//p' "$RIG_DIR/talker.log")" "0 ok" "$title: it goes on to its end"
	host_end $server
	until_true 30 no_streams 1
	rig_capture_stop
	missing=$(rig_captured 2>&1)
	is "$missing" "" "$title: the capture is complete"
	# FRAME DIRECTION SEQUENCE-NUMBER, of the octet where it begins
	shark -Y '(iwarp_mpa.req || iwarp_mpa.rep) && tcp.port == 7026' -T fields -e frame.number -e tcp.srcport -e tcp.seq -e tcp.len -e iwarp_mpa.pdlength >"$RIG_DIR/startup"
	is "$(wc -l <"$RIG_DIR/startup") $(awk '$4 != 20 + $5' "$RIG_DIR/startup" | wc -l)" "2 0" "$title: a Request and a Reply, each a TCP segment of its own" ||
		sed 's/^/# /' "$RIG_DIR/startup"
	seen=$(python3 - "$RIG_DIR/startup" <(shark -Y 'tcp.port == 7026 && tcp.len > 0' -T fields -E occurrence=f -e tcp.srcport -e tcp.seq -e tcp.payload -e iwarp_mpa.ulpdulength) <<-'PY'
		import sys
		begins = {}
		for line in open(sys.argv[1]):
		    port, seq, n = line.split()[1:4]
		    begins[port] = int(seq), int(seq) + int(n)
		PATTERN = bytes(range(48, 112)) * 4096
		questions = b"".join(PATTERN[i:i + 40] for i in range(100))
		plain, fpdus, between = {}, 0, 0
		for line in open(sys.argv[2]):
		    port, seq, payload, ulpdu = (line.rstrip("\n").split("\t") + [""])[:4]
		    seq, payload = int(seq), bytes.fromhex(payload)
		    first, after = begins[port]
		    if seq < first:
		        plain.setdefault(port, {}).update({seq + i: c for i, c in enumerate(payload)})
		        between += seq + len(payload) > first
		    elif seq >= after:
		        fpdus += bool(ulpdu)
		said = {port: bytes(c for _, c in sorted(x.items())) for port, x in plain.items()}
		ways = [s for s in said.values() if len(s) >= 32 * 20 and questions.startswith(s[:4000])]
		print("ok" if len(said) == 2 and len(ways) == 2 and not between and fpdus else "bad",
		      "plain octets", {k: len(v) for k, v in said.items()}, "segments across the border", between, "FPDUs", fpdus)
	PY
	)
	is "${seen%% *}" ok "$title: before them what the program said, behind them FPDUs"
	diag "$title: ${seen#* }"
}

# Whether a large write is read by the peer or written to it depends on how much of it is there at once.
RIG_DAEMON_OPTS="$RIG_DAEMON_OPTS -o read_threshold=32768"
rig_up 2
# some mails are over before anybody would miss something better
echo "upgrade_wait 200" >>"$IWSOCK_CONF"
run "mapped" mapped
for h in 1 2; do
	daemon_stop $h
	daemon_start $h -o map=no
done
run "large FPDUs" large
for h in 1 2; do
	daemon_stop $h
	daemon_start $h -o map=no -o large_fpdu=off
done
run "FPDUs of a segment" emss
at_most "$(shark -Y iwarp_mpa.fpdu -T fields -e iwarp_mpa.ulpdulength | tr ',' '\n' | sort -n | tail -n 1)" 1500 "FPDUs of a segment: none is larger"
middle
done_testing
