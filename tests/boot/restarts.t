#!/bin/bash
# SPDX-License-Identifier: MIT
# Debian's redis, nginx and PostgreSQL, iperf3 and programs that compare all octets, at work between two machines, while the daemons of both are
# restarted again and again, and their packages replaced by those of another version: no connection is lost, no client sees an error. Then they are
# killed: what is mapped goes on. Printed, not judged: the answers that came late. IW_LONG=1: a hundred times each, packages ten times, else IW_ROUNDS,
# by default two.
. "$(dirname "$0")/machine.sh"
[ -f "$RIG_TESTS/../build/deb/stamp" ] || skip_all "needs packages; make deb"
rounds=${IW_ROUNDS:-${IW_LONG:+100}}
rounds=${rounds:-2}
machines_up 2
A=$(host_addr 1)
new=(build/deb/iwarpd_*.deb build/deb/libiwsock_*.deb) old=(/root/old/iwarpd.deb /root/old/libiwsock.deb)

for h in 1 2; do
	older_packages $h
	apt $h install "${old[@]}"
	ok $? "machine $h: installed" || apt_said $h
done
servers_with_library 1
sh_in 1 'cd /etc/postgresql/15/main && echo "listen_addresses = '"'*'"'" >>postgresql.conf && echo "host all all 10.77.0.0/24 trust" >>pg_hba.conf &&
	systemctl start postgresql@15-main && iwctl service postgresql@15-main on --restart && su postgres -c "/usr/lib/postgresql/15/bin/pgbench -i -q -s 2"' >"$RIG_DIR/pg" 2>&1
ok $? "PostgreSQL, too" || sed 's/^/# /' "$RIG_DIR/pg"

declare -A pids=()
in_background() { # HOST NAME COMMAND...
	MACHINE_TIMEOUT=7200 m "$1" iwrun "${@:3}" >"$RIG_DIR/$2.log" 2>&1 &
	pids[$2]=$!
}
said() { tr '\r' '\n' <"$RIG_DIR/$1.log" | tail -n 5; }
in_background 1 iperf-server iperf3 -s -p 5201
in_background 1 one python3 /src/tests/lib/steady.py server "$A" 7101
in_background 1 two python3 /src/tests/lib/steady.py server "$A" 7102 /run/fork
listens() { sh_in 1 "ss -ltnH 'sport = :5201 or sport = :7101 or sport = :7102' | grep -c ." | grep -qx 3; }
until_true 20 listens
ok $? "servers of our own"

# what ends by itself is begun again until it is enough
again='while [ ! -e /run/enough ]; do "$@" || { echo "failed: $? of $*"; exit 1; }; done; echo over'
in_background 2 redis bash -c "$again" x redis-benchmark -h "$A" -c 20 -n 200000 -t set,get -q
in_background 2 pipes bash -c "$again" x redis-benchmark -h "$A" -c 8 -P 16 -n 400000 -t get -q
in_background 2 pgbench bash -c "$again" x /usr/lib/postgresql/15/bin/pgbench -h "$A" -U postgres -S -n -c 4 -j 2 -T 20 postgres
in_background 2 wrk bash -c "$again" x wrk -t 1 -c 16 -d 20 --timeout 60s "http://$A/index.nginx-debian.html"
in_background 2 iperf3 bash -c "$again" x iperf3 -c "$A" -p 5201 -t 10
in_background 2 steady python3 /src/tests/lib/steady.py client "$A" 7101 8 /run/over
in_background 2 shared python3 /src/tests/lib/steady.py client "$A" 7102 4 /run/enough

rows() { m "$1" iwctl -j streams | json "sum(1 for r in d if r['transport'] == 'iwarp' and $2)"; }
at_work() { [ "$(rows 2 "r['program'].startswith('$1')")" -ge "$2" ]; }
for p in "redis-bench 8" "pgbench 4" "iperf3 1" "python3 12"; do	# nginx ends each of wrk's after a thousand requests
	# shellcheck disable=SC2086
	until_true 60 at_work $p
	ok $? "${p% *} is accelerated" || m 2 iwctl streams --columns program,local,transport,path,reason | sed 's/^/# /'
done
m 1 touch /run/fork	# four are two processes' from now on, and go by the daemon there
pumped() { [ "$(rows 1 "':7102' in r['local'] and r['path'] == 'carrier'")" = 4 ]; }
until_true 30 pumped
ok $? "four connections are shared by two processes" || m 1 iwctl streams --columns program,local,transport,path,reason | sed 's/^/# /'

up() { [ "$(m "$1" systemctl is-active iwarpd)" = active ] && [ "$(main_pid "$1")" != "$2" ]; }
lived() { # NAME...
	local c
	for c; do
		! rig_ended "${pids[$c]}" || { diag "$c ended: $(said "$c")"; return 1; }
	done
}
# each_time WHAT TIMES FUNCTION NAME...: on one machine and the other, by turns; the function is given which
each_time() {
	local what=$1 times=$2 how=$3 bad='' h pid i
	shift 3
	for i in $(seq "$times"); do
		h=$((1 + i % 2))
		pid=$(main_pid $h)
		$how $h || bad+=" $i: status $?;"
		until_true 30 up $h "$pid" || bad+=" $i: no daemon;"
		until_true 30 at_work python3 8 || bad+=" $i: they are not there any more;"
		lived "$@" || { bad+=" $i: a client ended;"; break; }
	done
	is "$bad" "" "$what, $times times: everybody goes on" || for h in 1 2; do m $h journalctl -q -o cat -n 20 -u iwarpd | sed 's/^/# /'; done
}
ends_well() { # NAME
	wait "${pids[$1]}"
	is "$? $(grep -v 'failed transactions: 0 ' "$RIG_DIR/$1.log" | grep -ciE 'fail|error|abort|closed|reset')" "0 0" "$1: no error" || diag "$(said "$1")"
}
late() { diag "$1, answers that took longer than 20 ms, in ms: $(sed -n 's/^late [0-9.]* //p' "$RIG_DIR/$1.log" | sort -n | tail -n 20 | tr '\n' ' ')"; }

restart() { m "$1" systemctl restart iwarpd; }
killed() { m "$1" systemctl kill -s KILL iwarpd; }
# to the other version
replace() {
	local debs=("${new[@]/#//src/}")
	case $(m "$1" dpkg-query -W -f '${Version}' iwarpd) in *older) ;; *) debs=("${old[@]}") ;; esac
	apt "$1" install --allow-downgrades "${debs[@]}" || { apt_said "$1"; return 1; }
}

many="redis pipes pgbench wrk iperf3 shared"
# shellcheck disable=SC2086
each_time restarted "$rounds" restart $many steady
# shellcheck disable=SC2086
each_time "packages of another version" $((rounds < 10 ? rounds : 10)) replace $many steady
m 2 touch /run/enough
for c in $many; do ends_well "$c"; done
late shared
each_time killed "$rounds" killed steady
m 2 touch /run/over
ends_well steady
late steady
for h in 1 2; do
	is "$(complaints $h | grep -v 'status=9/KILL\|result .signal')" "" "machine $h: nothing else to complain of"
	clean $h "machine $h"
done
machines_down
done_testing
