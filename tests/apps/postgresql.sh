# SPDX-License-Identifier: MIT
# PostgreSQL, a process per connection: own cluster, pgbench for 20 s, and the books balance.
PGBIN=$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | tail -n 1)
[ -n "$PGBIN" ] && id postgres >/dev/null 2>&1 || { skip "postgresql" "needs postgresql and its user"; return 0; }
need setpriv || return 0
pg=$RIG_DIR/pg
install -d -o postgres -m 700 "$pg" "$pg/sock"
as_pg=(setpriv --reuid postgres --regid postgres --clear-groups env -C / HOME="$pg" LC_ALL=C)
"${as_pg[@]}" "$PGBIN/initdb" -D "$pg/data" -A trust -E UTF8 --no-sync >"$RIG_DIR/initdb.log" 2>&1 ||
	{ fail "postgresql: initdb"; tail -n 5 "$RIG_DIR/initdb.log" | sed 's/^/# /'; return; }
echo "host all all all trust" >>"$pg/data/pg_hba.conf"
host_bg_iw $S postgres.log "${as_pg[@]}" "$PGBIN/postgres" -D "$pg/data" -p 5432 -c listen_addresses="$A" \
	-c unix_socket_directories="$pg/sock" -c fsync=off
pid=$!
pg_ready() { host_exec $S "$PGBIN/pg_isready" -q -h "$pg/sock" -p 5432; }
until_true 20 pg_ready || { fail "postgresql starts"; tail -n 5 "$RIG_DIR/postgres.log" | sed 's/^/# /'; return; }
counts_begin $S $C
client=(setpriv --reuid postgres --regid postgres --clear-groups env -C / HOME="$pg" LC_ALL=C PGHOST="$A" PGUSER=postgres)
host_exec_iw $C "${client[@]}" "$PGBIN/pgbench" -i -s 2 -q postgres >"$RIG_DIR/pgbench.init" 2>&1
ok $? "postgresql: pgbench -i" || tail -n 3 "$RIG_DIR/pgbench.init" | sed 's/^/# /'
host_exec_iw $C "${client[@]}" timeout 600 "$PGBIN/pgbench" -c 4 -T "${IW_PGBENCH_S:-20}" postgres >"$RIG_DIR/pgbench.out" 2>&1
ok $? "postgresql: pgbench" || tail -n 3 "$RIG_DIR/pgbench.out" | sed 's/^/# /'
grep -E '^tps|failed' "$RIG_DIR/pgbench.out" | sed 's/^/# /'
grep -q 'number of failed transactions: 0 ' "$RIG_DIR/pgbench.out"
ok $? "postgresql: no failed transaction"
got=$(host_exec_iw $C "${client[@]}" "$PGBIN/psql" -Atc "select (select sum(abalance) from pgbench_accounts) = (select sum(delta) from pgbench_history)" postgres 2>&1)
is "$got" t "postgresql: the books balance"
host_exec_iw $C "${client[@]}" "$PGBIN/pgbench" -C -c 2 -t 25 postgres >"$RIG_DIR/pgbench.out" 2>&1
ok $? "postgresql: pgbench with a connection per transaction" || tail -n 3 "$RIG_DIR/pgbench.out" | sed 's/^/# /'
counts_end postgresql 50
host_end $pid
