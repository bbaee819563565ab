#!/bin/bash
# SPDX-License-Identifier: MIT
# The benches measure something in each of their kinds, beside plain TCP, and say so when they cannot.
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

# ---- programs with the library ----
if [ "$(id -u)" != 0 ]; then
	skip "bench/price, bench/pause, bench/worth" "need root for network namespaces"
	done_testing
fi
here=$(dirname "$0") build=$(cd "$IW_BUILD" && pwd)
cd "$here/.." || exit 1
build=$(realpath --relative-to=. "$build")
out=$(bench/price "$build" 2 0.05 2>&1)
is "$? $(grep -c ' \.\. ' <<<"$out")" "0 $(command -v wrk nginx >/dev/null && echo 16 || echo 14)" "bench/price: ratios with quartiles" || diag "$out"
is "$(grep -cE '^  (with|without|the daemon).* [0-9]+$' <<<"$out")" 4 "bench/price: memory" || diag "$out"
is "$(grep -c 'failed\|NOT OK\|incomplete' <<<"$out")" 0 "bench/price: all of it" || diag "$out"
out=$(bench/worth "$build" 2 0.01 2>&1)
is "$? $(grep -c ' \.\. ' <<<"$out")" "0 30" "bench/worth: ratios with quartiles" || diag "$out"
out=$(bench/pause "$build" 3 2 2>&1)
is "$? $(grep -c ' \.\. ' <<<"$out")" "0 42" "bench/pause: ratios with quartiles" || diag "$out"
is "$(grep -c ' 3 of 3 connections\| 2 of 2 upgraded' <<<"$out")" 4 "bench/pause: of connections that were upgraded" || diag "$out"
is "$(grep -c 'failed\|NOT OK' <<<"$out")" 0 "bench/pause: all of it" || diag "$out"
done_testing
