# SPDX-License-Identifier: MIT
# PostgreSQL, a process per connection: own cluster, pgbench, and the books balance.
PGBIN=$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | tail -n 1)
[ -n "$PGBIN" ] && id postgres >/dev/null 2>&1 || { skip "postgresql" "needs postgresql and its user"; return 0; }
need setpriv || return 0
pg=$RIG_DIR/pg.$mode	# of a path that fits a socket's name
install -d -o postgres -m 700 "$pg" "$pg/sock"
as_pg=(setpriv --reuid postgres --regid postgres --clear-groups env -C / HOME="$pg" LC_ALL=C)
"${as_pg[@]}" "$PGBIN/initdb" -D "$pg/data" -A trust -E UTF8 --no-sync >"$D/initdb.log" 2>&1 ||
	{ fail "$T: initdb"; tail -n 5 "$D/initdb.log" | sed 's/^/# /'; return; }
echo "host all all all trust" >>"$pg/data/pg_hba.conf"
host_bg_iw $S postgres.log "${as_pg[@]}" "$PGBIN/postgres" -D "$pg/data" -p 5432 -c listen_addresses="$A" \
	-c unix_socket_directories="$pg/sock" -c fsync=off
pid=$!
pg_ready() { host_exec $S "$PGBIN/pg_isready" -q -h "$pg/sock" -p 5432; }
until_true 20 pg_ready || { fail "$T: starts"; tail -n 5 "$RIG_DIR/postgres.log" | sed 's/^/# /'; return; }
client=(setpriv --reuid postgres --regid postgres --clear-groups env -C / HOME="$pg" LC_ALL=C PGHOST="$A" PGUSER=postgres)
counts_begin $S $C
host_exec_iw $C "${client[@]}" "$PGBIN/pgbench" -i -s 2 -q postgres >"$D/pgbench.init" 2>&1
ok $? "$T: pgbench -i" || tail -n 3 "$D/pgbench.init" | sed 's/^/# /'
host_exec_iw $C "${client[@]}" timeout 600 "$PGBIN/pgbench" -c 4 -T "${LONG:+2}5" postgres >"$D/pgbench.out" 2>&1
ok $? "$T: pgbench" || tail -n 3 "$D/pgbench.out" | sed 's/^/# /'
grep -E '^tps|failed' "$D/pgbench.out" | sed 's/^/# /'
grep -q 'number of failed transactions: 0 ' "$D/pgbench.out"
ok $? "$T: no failed transaction"
got=$(host_exec_iw $C "${client[@]}" "$PGBIN/psql" -Atc "select (select sum(abalance) from pgbench_accounts) = (select sum(delta) from pgbench_history)" postgres 2>&1)
is "$got" t "$T: the books balance"
# the parent accepts, forks and closes: the child's connection
# shellcheck disable=SC2086
counts_end "$T" 5 $SHORT inherited
counts_begin $S $C
host_exec_iw $C "${client[@]}" "$PGBIN/pgbench" -C -c 2 -t 25 postgres >"$D/pgbench.out" 2>&1
ok $? "$T: pgbench with a connection per transaction" || tail -n 3 "$D/pgbench.out" | sed 's/^/# /'
# shellcheck disable=SC2086
counts_end "$T, a connection per transaction" 0 $SHORT inherited
host_end $pid
rm -rf "$pg"
