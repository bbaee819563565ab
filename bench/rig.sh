# SPDX-License-Identifier: MIT
# What the benches between hosts have in common (bash, root): tests/lib/rig.sh with the limits and time-outs that are the default, and
# measurements in pairs of alternating order.
#
#	. bench/rig.sh BUILD-DIR
#	pairs N LABEL UNIT f g		N times f and g, in turn first: each prints a number, of plain TCP and of iwsock
#	results				bench/summary of all of them; fails when something could not be measured

cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
IW_BUILD=$PWD/$1
export IW_BUILD
RIG_DAEMON_OPTS=
. tests/lib/rig.sh
[ "$(id -u)" = 0 ] || { echo "${0##*/} makes network namespaces: run it as root" >&2; exit 1; }
ok() { [ "$1" = 0 ] || { shift; echo "NOT OK: $*" >&2; }; }
pair=$IW_BUILD/bench/pair

bench_up() { # HOSTS: with room for connections that come one after the other
	local h
	rig_up "$1"
	unset IWSOCK_CONF
	for h in $(seq "$1"); do
		host_exec "$h" sh -c 'echo 1024 65000 >/proc/sys/net/ipv4/ip_local_port_range; echo 1 >/proc/sys/net/ipv4/tcp_tw_reuse'
	done
	echo "$(nproc) CPUs, Linux $(uname -r), load $(cut -d ' ' -f 1 /proc/loadavg)"
}

measured() { # LABEL UNIT KIND f
	local v
	v=$($4) && [ -n "$v" ] || { echo "failed: $1, $3" >&2; return 1; }
	printf '%s\t%s\t%s\t%s\n' "$1" "$2" "$3" "$v" >>"$RIG_DIR/results"
}

pairs() {
	local n=$1 i
	shift
	for ((i = 0; i < n; i++)); do
		if ((i % 2)); then
			measured "$1" "$2" plain "$3"
			measured "$1" "$2" iwsock "$4"
		else
			measured "$1" "$2" iwsock "$4"
			measured "$1" "$2" plain "$3"
		fi
	done
}

results() {
	bench/summary "$RIG_DIR/results"
	: >"$RIG_DIR/results"
}
