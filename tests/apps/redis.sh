# SPDX-License-Identifier: MIT
# redis: benchmark, 10,000 keys written and read back, BGSAVE (a fork) while traffic runs.
need redis-server redis-benchmark redis-cli || return 0
mkdir "$RIG_DIR/redis"
host_bg_iw $S redis.log redis-server --port 6379 --bind "$A" --protected-mode no --dir "$RIG_DIR/redis" --save '' --appendonly no
pid=$!
host_port $S 6379 || { fail "redis-server starts"; return; }
counts_begin $S $C
host_exec_iw $C redis-benchmark -h "$A" -n 20000 -q -t ping,set,get,incr,lpush,lrange_100,mset >"$RIG_DIR/redis.bench" 2>&1
ok $? "redis: redis-benchmark" || tail -n 5 "$RIG_DIR/redis.bench" | sed 's/^/# /'
is "$(grep -c 'requests per second' "$RIG_DIR/redis.bench")" 9 "redis: every benchmark ran" ||
	tr '\r' '\n' <"$RIG_DIR/redis.bench" | tail -n 12 | sed 's/^/# /'
got=$(host_exec_iw $C "$PY" "$NET" redis-keys "$A" 6379 10000 2>&1)
is "$got" "10000 keys written and read back" "redis: keys"
host_bg_iw $C redis.bg redis-benchmark -h "$A" -n 300000 -q -t set,get -d 512
bench=$!
got=$(host_exec_iw $C redis-cli -h "$A" bgsave)
is "$got" "Background saving started" "redis: BGSAVE"
redis_saved() { host_exec_iw $C redis-cli -h "$A" info persistence | tr -d '\r' | grep -q '^rdb_bgsave_in_progress:0'; }
until_true 30 redis_saved
ok $? "redis: BGSAVE ends"
got=$(host_exec_iw $C redis-cli -h "$A" info persistence | tr -d '\r' | sed -n 's/^rdb_last_bgsave_status://p')
is "$got" ok "redis: BGSAVE went well"
[ -s "$RIG_DIR/redis/dump.rdb" ]
ok $? "redis: the dump is there"
wait $bench
ok $? "redis: the traffic during BGSAVE" || tail -n 3 "$RIG_DIR/redis.bg" | sed 's/^/# /'
got=$(host_exec_iw $C "$PY" "$NET" redis-keys "$A" 6379 1000 2>&1)
is "$got" "1000 keys written and read back" "redis: keys after BGSAVE"
counts_end redis 400
host_end $pid
