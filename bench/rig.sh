# SPDX-License-Identifier: MIT
# What the benches between hosts have in common (bash, root): tests/lib/rig.sh with the limits and time-outs that are the default, and
# measurements of plain TCP and iwsock in turn.
#
#	. bench/rig.sh BUILD-DIR
#	bench_up HOSTS; bench_cpu	the second: counts the processor time of everything, in $cgroup/cpu.stat
#	round I LABEL UNIT f g		f and g once, in turn first: each prints a number, of plain TCP and of iwsock, and ns of processor
#					time per message or nothing
#	pairs N LABEL UNIT f g		N rounds
#	results OPTION ...		bench/report of all of them; fails when something could not be measured

cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
IW_BUILD=$PWD/$1
export IW_BUILD
RIG_DAEMON_OPTS=
. tests/lib/rig.sh
[ "$(id -u)" = 0 ] || { echo "${0##*/} makes network namespaces: run it as root" >&2; exit 1; }
ok() { [ "$1" = 0 ] || { shift; echo "NOT OK: $*" >&2; }; }
pair=$IW_BUILD/bench/pair
cgroup= failed=
machine="$(nproc) CPUs, Linux $(uname -r), load $(cut -d ' ' -f 1 /proc/loadavg)"

bench_up() { # HOSTS: with room for connections that come one after the other
	local h
	rig_up "$1"
	unset IWSOCK_CONF
	for h in $(seq "$1"); do bench_room "$h"; done
	echo "$machine"
}
bench_room() {
	host_exec "$1" sh -c 'echo 1024 65000 >/proc/sys/net/ipv4/ip_local_port_range; echo 1 >/proc/sys/net/ipv4/tcp_tw_reuse'
}

# This script and what it starts from now on, and the daemons.
bench_cpu() {
	local at p
	at=$(awk '$3 == "cgroup2" { print $2; exit }' /proc/mounts)
	cgroup=$at/iwbench.$$
	if [ -z "$at" ] || ! mkdir "$cgroup" 2>/dev/null; then
		cgroup=
		echo "no cgroup (version 2) can be made: processor time is not counted"
		return
	fi
	cgroup_before=$at$(sed -n 's/^0:://p' /proc/self/cgroup)
	for p in $$ "${RIG_DAEMON[@]}"; do echo "$p" >"$cgroup/cgroup.procs"; done
	export BENCH_CPU=$cgroup/cpu.stat
}
cpu_us() { [ -z "$cgroup" ] || awk '/^usage_usec/ { print $2 }' "$cgroup/cpu.stat"; }
rig_cleaned() {
	[ -n "$cgroup" ] || return 0
	echo $$ >"$cgroup_before/cgroup.procs"
	until_true 5 rmdir "$cgroup"
	cgroup=
}

measured() { # LABEL UNIT KIND f: the number is in $value, its line added to $lines
	read -r value ns < <($4) && [ -n "$value" ] || { value='failed'; echo "failed: $1, $3" >&2; return 1; }
	printf -v lines '%s%s\t%s\t%s\t%s\t%s\n' "$lines" "$1" "$2" "$3" "$value" "$ns"
}

# A round of which half could not be measured counts for nothing.
round() {
	local value ns a b lines='' bad=
	if (($1 % 2)); then
		measured "$2" "$3" plain "$4" || bad=1; a=$value
		measured "$2" "$3" iwsock "$5" || bad=1; b=$value
	else
		measured "$2" "$3" iwsock "$5" || bad=1; b=$value
		measured "$2" "$3" plain "$4" || bad=1; a=$value
	fi
	if [ -n "$bad" ]; then failed=1; else printf '%s' "$lines" >>"$RIG_DIR/results"; fi
	said="$a -> $b $3"
}

pairs() {
	local n=$1 i
	shift
	for ((i = 0; i < n; i++)); do round $i "$@"; done
}

results() {
	bench/report "$@" "$RIG_DIR/results" && [ -z "$failed" ]
}
