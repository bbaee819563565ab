# SPDX-License-Identifier: MIT
# redis: benchmark, 10,000 keys written and read back, BGSAVE (a fork) while traffic runs.
need redis-server redis-benchmark redis-cli || return 0
host_bg_iw $S redis.log redis-server --port 6379 --bind "$A" --protected-mode no --dir "$D" --save '' --appendonly no
pid=$!
host_port $S 6379 || { fail "$T: redis-server starts"; return; }
counts_begin $S $C
host_exec_iw $C redis-benchmark -h "$A" -c 10 -n 10000 -q -t ping,set,get,incr,lpush,lrange_100,mset >"$D/bench" 2>&1
ok $? "$T: redis-benchmark" || tail -n 5 "$D/bench" | sed 's/^/# /'
is "$(grep -c 'requests per second' "$D/bench")" 9 "$T: every benchmark ran" ||
	tr '\r' '\n' <"$D/bench" | tail -n 12 | sed 's/^/# /'
got=$(host_exec_iw $C "$PY" "$NET" redis-keys "$A" 6379 10000 2>&1)
is "$got" "10000 keys written and read back" "$T: keys"
host_bg_iw $C redis.bg redis-benchmark -h "$A" -c 10 -n 60000 -q -t set,get -d 512
bench=$!
got=$(host_exec_iw $C redis-cli -h "$A" bgsave)
is "$got" "Background saving started" "$T: BGSAVE"
redis_saved() { host_exec_iw $C redis-cli -h "$A" info persistence | tr -d '\r' | grep -q '^rdb_bgsave_in_progress:0'; }
until_true 30 redis_saved
ok $? "$T: BGSAVE ends"
got=$(host_exec_iw $C redis-cli -h "$A" info persistence | tr -d '\r' | sed -n 's/^rdb_last_bgsave_status://p')
is "$got" ok "$T: BGSAVE went well"
[ -s "$D/dump.rdb" ]
ok $? "$T: the dump is there"
wait $bench
ok $? "$T: the traffic during BGSAVE" || tail -n 3 "$RIG_DIR/redis.bg" | sed 's/^/# /'
got=$(host_exec_iw $C "$PY" "$NET" redis-keys "$A" 6379 1000 2>&1)
is "$got" "1000 keys written and read back" "$T: keys after BGSAVE"
# shellcheck disable=SC2086
counts_end "$T" 90 $SHORT inherited
host_end $pid
