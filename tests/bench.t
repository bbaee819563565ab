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
	skip "bench/run, bench/price, bench/pause, bench/worth, bench/idle" "need root for network namespaces"
	done_testing
fi
here=$(dirname "$0") build=$(cd "$IW_BUILD" && pwd)
cd "$here/.." || exit 1
build=$(realpath --relative-to=. "$build")
tmp=$(mktemp -d "${TMPDIR:-/tmp}/b.XXXXXX") || exit 1
trap 'rm -rf "$tmp"' EXIT
# well FILE CELLS SHARE: JSON and SVG of so many cells, their goals that share of what they are
well() {
	python3 - "$@" <<-'PY' 2>&1
		import json, sys, xml.dom.minidom
		name, n, share = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
		cells = json.load(open(name + ".json"))["cells"]
		bad = [c["what"] for c in cells if c["rounds"] != 2 or not 0 < c["ratio"]["low"] <= c["ratio"]["median"] <= c["ratio"]["high"]]
		bad += [c["what"] + ": goal" for c in cells if c["what"] == "4 KiB request/answer" and c["goal"] != round(0.95 * share, 4)]
		bars = len(xml.dom.minidom.parse(name + ".svg").getElementsByTagName("rect")) - 1
		print(bad or "", "" if len(cells) == n == bars else f"{len(cells)} cells, {bars} bars", sep="", end="")
	PY
}
out=$(bench/run --rounds 2 --seconds 0.01 --only "4 KiB request" --only "64 B writes" --only EMSS --only "50 connections" --only "one host" \
	--only redis --only "1 stream" --only "1 KiB, keepalive" --only pgbench --out "$tmp/b" "$build" 2>&1)
is "$?" 0 "bench/run: ends well" || diag "$out"
is "$(grep -c 'failed\|NOT OK\|incomplete' <<<"$out")" 0 "bench/run: all of it" || diag "$out"
is "$(well "$tmp/b" $((30 - $(grep -c '^skipped' <<<"$out"))) 1)" "" "bench/run: JSON and picture" || diag "$out"
cp docs/performance.md "$tmp/doc.md"
bench/report --doc "$tmp/doc.md" "$tmp/b.json"
is "$? $(sed -n '/^<!-- bench:/,/^<!-- end of bench/p' "$tmp/doc.md" | grep -c '^| .* | .* .. .* |') $(cmp "$tmp/doc.svg" "$tmp/b.svg" 2>&1)" "0 $((30 - $(grep -c '^skipped' <<<"$out"))) " "bench/report: into the document"
out=$(bench/run --busy 2 --rounds 2 --seconds 0.01 --only "4 KiB request" --out "$tmp/busy" "$build" 2>&1)
is "$? $(well "$tmp/busy" 1 0.8)" "0 " "bench/run --busy: other goals" || diag "$out"
out=$(bench/run --limit 0 --only "4 KiB request" --out "$tmp/none" "$build" 2>&1)
is "$? $(grep -c 'the time is over' <<<"$out")" "1 1" "bench/run: a time that is over" || diag "$out"
# who reads what it says goes away
mkfifo "$tmp/said"
env --default-signal=PIPE TMPDIR="$tmp" bench/run --rounds 1000 --seconds 0.01 --only "4 KiB request" --out "$tmp/cut" "$build" >"$tmp/said" 2>"$tmp/err" &
cut=$!
head -n 2 <"$tmp/said" >/dev/null
wait $cut
is "$? $(ls -d /run/netns/iwt${cut}h* "$tmp"/r.* "$(awk '$3 == "cgroup2" { print $2; exit }' /proc/mounts)"/iwbench.$cut 2>/dev/null)" "1 " \
	"bench/run, its output cut: an end, and nothing is left" || diag "$(cat "$tmp/err")"

out=$(bench/price "$build" 2 0.05 2>&1)
is "$? $(grep -c ' \.\. ' <<<"$out")" "0 $(command -v wrk nginx >/dev/null && echo 16 || echo 14)" "bench/price: ratios with quartiles" || diag "$out"
is "$(grep -cE '^  (with|without|the daemon).* [0-9]+$' <<<"$out")" 4 "bench/price: memory" || diag "$out"
is "$(grep -c 'failed\|NOT OK\|incomplete' <<<"$out")" 0 "bench/price: all of it" || diag "$out"
out=$(bench/worth "$build" 2 0.01 2>&1)
is "$? $(grep -c ' \.\. ' <<<"$out")" "0 30" "bench/worth: ratios with quartiles" || diag "$out"
out=$(bench/pause "$build" 3 2 2>&1)
is "$? $(grep -c ' \.\. ' <<<"$out")" "0 42" "bench/pause: ratios with quartiles" || diag "$out"
is "$(grep -c ' 3 of [0-9]* connections were upgraded:$\| 2 of [0-9]* connections were upgraded, at 0;' <<<"$out")" 4 "bench/pause: of connections that were upgraded" || diag "$out"
is "$(grep -c 'failed\|NOT OK' <<<"$out")" 0 "bench/pause: all of it" || diag "$out"
out=$(bench/idle "$build" 200 6 2>&1)
is "$? $(grep -c '^200 connections, 6 s: idle$' <<<"$out")" "0 1" "bench/idle: 200 mapped connections take no processor time" || diag "$out"
at_most "$(sed -n 's/^KiB of each end: .* \([0-9]*\)\.[0-9] shared$/\1/p' <<<"$out")" 40 "bench/idle: KiB of each end in memory that daemon and program share" || diag "$out"
done_testing
