#!/bin/bash
# SPDX-License-Identifier: MIT
# Containers whose host has the daemon: servers of the distribution in one, their clients in another and on the host.
. "$(dirname "$0")/machine.sh"
B=build/${IW_BUILD##*/}
MACHINE_RUNDIR=/run/iwarpd
RIG_OPTS[3]="-o join_namespaces=yes"
machines_up 2 1

joined() { host_ctl 3 -j streams | json "sorted({r['program'] for r in d if r['transport'] == 'local'})"; }

for h in 1 2; do
	m $h make -s -C /src B="$B" install >"$RIG_DIR/install.$h" 2>&1
	ok $? "container $h: make install" || sed 's/^/# /' "$RIG_DIR/install.$h"
done
servers_with_library 1

MACHINE_TIMEOUT=300 m 2 env LD_PRELOAD=libiwsock.so redis-benchmark -h 10.77.0.1 -c 4 -n 300000 -t set,get --csv >"$RIG_DIR/benchmark" 2>&1 &
client=$!
both() { [ "$(joined)" = "['redis-benchmark', 'redis-server']" ]; }
until_true 20 both
ok $? "redis-benchmark of another container is joined with it" || host_ctl 3 streams | sed 's/^/# /'
wait $client
is "$? $(grep -cE '^"(SET|GET)"' "$RIG_DIR/benchmark")" "0 2" "redis-benchmark" || sed 's/^/# /' "$RIG_DIR/benchmark"

sum=$(sh_in 1 'for i in {1..64}; do cat /var/www/html/blob; done | sha256sum')
before=$(ends 3 joined)
is "$(MACHINE_TIMEOUT=300 sh_in 2 'LD_PRELOAD=libiwsock.so curl -sS --max-time 250 "http://10.77.0.1/blob?[1-64]" | sha256sum')" "$sum" \
	"nginx to curl of another container, 64 times on one connection: every octet"
at_least $(($(ends 3 joined) - before)) 2 "ends were joined"
before=$(ends 3 joined)
is "$(host_exec_iw 3 curl -sS --max-time 250 "http://10.77.0.1/blob?[1-64]" | sha256sum)" "$sum" "nginx to curl of the host: every octet"
at_least $(($(ends 3 joined) - before)) 2 "ends were joined"
machines_down
done_testing
