#!/bin/bash
# SPDX-License-Identifier: MIT
# The benchmark of the RNIC measures something in each of its kinds, beside plain TCP, and says so when it cannot.
. "$(dirname "$0")/lib/tap.sh"
: "${IW_BUILD:=$(dirname "$0")/../build/plain}"
rdma=$IW_BUILD/bench/rdma/rdma

numbers() { # two of them, and neither is zero
	awk 'NF != 2 || $1 <= 0 || $2 <= 0 { bad = 1 } END { exit bad || NR != 1 }' <<<"$1"
}
one() { # NAME OPTION... PROVIDER WHAT OCTETS
	local name=$1 out s
	shift
	for s in 0.02 0.2 2 20; do	# on a busy machine nothing may be complete so soon
		out=$(timeout 300 "$rdma" --seconds $s "$@" 127.0.0.1 2>&1) && numbers "$out" && break
	done
	ok $? "$name" || diag "$out"
}
for what in write read send-latency write-latency; do
	for size in 1 70000; do
		one "$what of $size, plain TCP" tcp $what $size
		one "$what of $size, EMSS, CRC on" soft $what $size
		one "$what of $size, large FPDUs, CRC off, one message outstanding" --large --crc off --depth 1 soft $what $size
	done
done
"$rdma" soft write 0 127.0.0.1 >/dev/null 2>&1
is $? 2 "no octets: usage"
"$rdma" nothing write 1 127.0.0.1 >/dev/null 2>&1
is $? 2 "an unknown provider: usage"
out=$(timeout 60 "$rdma" soft write 64 192.0.2.1 2>&1)
is $? 1 "an address that is not ours: an error" || diag "$out"
done_testing
