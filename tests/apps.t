#!/bin/bash
# SPDX-License-Identifier: MIT
# Unmodified programs through iWARP between two hosts, data compared, every connection accelerated: tests/apps.t [name ...]
. "$(dirname "$0")/lib/rig.sh"
PY=$(python3 -c 'import sys; print(sys.executable)') || skip_all "needs python3"
NET=$RIG_TESTS/apps/net.py
S=1 C=2 A=$(host_addr 1) A6=$(host_addr6 1)	# server and client host, the server's addresses

need() {
	local p
	for p; do
		command -v "$p" >/dev/null || { skip "$p" "not installed"; return 1; }
	done
}

rig_up 2
[ $# -gt 0 ] || set -- redis iperf3 nginx memcached pipes asyncio smtp postgresql
for app; do
	. "$RIG_TESTS/apps/$app.sh"
	for h in 1 2; do
		until_true 10 no_streams $h
		ok $? "$app: no stream and no STag of one is left at host $h" ||
			host_ctl $h streams | head -n 12 | sed 's/^/# /'
	done
done

# Same host, where it is cheap: the two programs are joined directly.
if command -v redis-server >/dev/null && [ "$*" != "${*/redis/}" ]; then
	host_bg_iw 1 redis2.log redis-server --port 6380 --bind 127.0.0.1 --save '' --dir "$RIG_DIR"
	pid=$!
	host_port 1 6380
	counts_begin 1 1
	host_exec_iw 1 redis-benchmark -p 6380 -n 20000 -q -t set,get >"$RIG_DIR/redis.bench" 2>&1
	ok $? "same host: redis-benchmark"
	counts_end "same host: redis" 100
	host_end $pid
fi
done_testing
