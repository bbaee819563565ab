#!/bin/bash
# SPDX-License-Identifier: MIT
# Dual run: every program of tests/sock on plain TCP first, then under the library in each mode with the same transcript.
#
#	tests/sock.t [-m "MODE ..."] [program ...]
#
# plain		two processes of one host, no library: the reference
# wire		the same over two hosts: the reference must not depend on that
# local		accelerated, same host
# remote	accelerated, two hosts
# remote6	accelerated, two hosts, IPv6 where the program leaves the choice
# tcp		library and daemons, and a policy that says tcp
# nodaemon	library without daemons
# half-client, half-server	library in the client only, and in the server only
# relay		the server accepts behind the library's back: nobody claims, and what was held goes on as plain TCP
# killed-server, killed-client	kill_*.c: the daemon of that side is killed on the way
. "$(dirname "$0")/lib/rig.sh"

modes="plain wire local remote remote6 tcp nodaemon half-client half-server relay killed-server killed-client"
[ "${1-}" = -m ] && { modes=$2; shift 2; }
case " $modes " in *" "[^pw]*) ;; *) RIG_NO_DAEMON=1 ;; esac
rig_need
src=$RIG_TESTS/sock
bin=$IW_BUILD/tests/sock
if [ $# -gt 0 ]; then progs=("$@"); else progs=($(cd "$src" && ls ./*/*.c | sed 's|^.*/||; s|\.c$||' | sort)); fi
rig_up 2
printf 'tcp both * *\n' >"$RIG_DIR/tcp.conf"

export IW_TEST_HELPER=$IW_BUILD/tests/lib IW_TEST_BLACKHOLE=10.77.0.99
# Somebody's hardware address, so that packets to it vanish; a failed ARP would become EHOSTUNREACH after a while.
for h in 1 2; do
	ip -n "$(basename "$(host_ns $h)")" neigh replace $IW_TEST_BLACKHOLE lladdr 02:00:00:00:00:99 nud permanent dev eth0 || exit 1
done
ns1=$(host_ns 1) ns2=$(host_ns 2)
lib=$RIG_LIB

# run MODE PROGRAM OUT: sets up the environment of a mode
run() {
	local mode=$1 prog=$2 out=$3
	local env=(IW_TEST_NETNS_SERVER="$ns1" IW_TEST_NETNS_CLIENT="$ns1" IW_TEST_EXPECT=plain) two=1
	case $mode in plain | plain6 | local) two=0 ;; esac
	[ "$mode" = killed-client ] && case $prog in kill_local) two=0 ;; esac
	if [ $two = 1 ]; then
		env+=(IW_TEST_NETNS_CLIENT="$ns2" IW_TEST_ADDR4="$(host_addr 1)" IW_TEST_ADDR6="$(host_addr6 1)")
	fi
	case $mode in
	remote6 | plain6) env+=(IW_TEST_FAMILY=6) ;;
	tcp) env+=(IWSOCK_CONF="$RIG_DIR/tcp.conf") ;;
	relay) env+=(IW_TEST_RAW_ACCEPT=1 IW_TEST_EXPECT=) ;;
	killed-server) env+=(IW_TEST_KILL="$(daemon_pid 1)") ;;
	killed-client) env+=(IW_TEST_KILL="$(daemon_pid $((1 + two)))") ;;
	esac
	case $mode in
	plain | plain6 | wire) ;;
	half-client) env+=(IW_TEST_PRELOAD_CLIENT="$lib" IW_TEST_RUNDIR_CLIENT="$(host_dir 2)") ;;
	half-server) env+=(IW_TEST_PRELOAD_SERVER="$lib" IW_TEST_RUNDIR_SERVER="$(host_dir 1)") ;;
	nodaemon)
		env+=(IW_TEST_PRELOAD_SERVER="$lib" IW_TEST_PRELOAD_CLIENT="$lib" IW_TEST_RUNDIR_SERVER="$RIG_DIR/none"
			IW_TEST_RUNDIR_CLIENT="$RIG_DIR/none") ;;
	*)
		env+=(IW_TEST_PRELOAD_SERVER="$lib" IW_TEST_PRELOAD_CLIENT="$lib" IW_TEST_RUNDIR_SERVER="$(host_dir 1)"
			IW_TEST_RUNDIR_CLIENT="$(host_dir $((1 + two)))") ;;
	esac
	case $mode in local | remote* | killed*) env+=(IW_TEST_EXPECT=accelerated) ;; esac
	env "${env[@]}" timeout -k 5 180 "$bin/$prog" >"$out" 2>"$out.err" </dev/null
}

# A daemon that is gone is a failure of the program that ran last, and must not be one of all that follow.
daemons_up() {
	local h r=0
	[ -z "${RIG_NO_DAEMON-}" ] || return 0
	for h in 1 2; do
		rig_gone "$(daemon_pid $h)" || continue
		wait "$(daemon_pid $h)" 2>/dev/null
		diag "iwarpd of host $h is gone (status $?)"
		tail -n 5 "$RIG_DIR/iwarpd.$h.log" | sed 's/^/# /'
		unset "RIG_DAEMON[$h]"
		daemon_start $h
		r=1
	done
	return $r
}

restart_daemons() {
	local h
	for h in 1 2; do
		[ -n "$(daemon_pid $h)" ] || continue
		if rig_gone "$(daemon_pid $h)"; then
			wait "$(daemon_pid $h)" 2>/dev/null
			unset "RIG_DAEMON[$h]"
		else
			daemon_stop $h
		fi
	done
	for h in 1 2; do daemon_start $h; done
}

one() {
	local mode=$1 prog=$2 want=$RIG_DIR/$2.want got=$RIG_DIR/$2.$1 s
	if [ "$mode" = remote6 ]; then
		want=$RIG_DIR/$prog.want6
		run plain6 "$prog" "$want"
	fi
	run "$mode" "$prog" "$got"
	s=$?
	if [ $s = 77 ]; then
		skip "$prog $mode" "does not apply"
		return
	fi
	if [ $s != 0 ]; then
		fail "$prog $mode"
		diag "status $s"
		head -n 5 "$got.err" | sed 's/^/# /'
		[ "$mode" = plain ] || diff -u "$want" "$got" | tail -n +3 | head -n 30 | sed 's/^/# /'
	elif [ "$mode" != plain ] && ! cmp -s "$want" "$got"; then
		fail "$prog $mode"
		diff -u "$want" "$got" | tail -n +3 | head -n 40 | sed 's/^/# /'
	elif [ "$mode" != plain ] && ! daemons_up; then
		fail "$prog $mode"
	else
		pass "$prog $mode"
	fi
	[ "$mode" = plain ] && cp "$got" "$want"
}

for prog in "${progs[@]}"; do
	case $prog in
	kill_*) continue ;;
	esac
	[ -e "$RIG_DIR/$prog.want" ] || case " $modes " in *" plain "*) ;; *) run plain "$prog" "$RIG_DIR/$prog.want" ;; esac
	for mode in $modes; do
		case $mode in
		killed* | relay) ;;
		*) one "$mode" "$prog" ;;
		esac
	done
done
case " $modes " in *" relay "*)
	RIG_OPTS=()
	RIG_DAEMON_OPTS="$RIG_DAEMON_OPTS -o claim_timeout=50"
	restart_daemons
	for prog in "${progs[@]}"; do
		case $prog in kill_*) continue ;; esac
		[ -e "$RIG_DIR/$prog.want" ] || run plain "$prog" "$RIG_DIR/$prog.want"
		one relay "$prog"
	done
	[ ${#progs[@]} -lt 50 ] || at_least "$(host_ctl 2 reasons --json | json "sum(r['as_client'] for r in d if r['reason'] in ('unclaimed', 'not-mpa', 'listener-gone'))")" 1 \
		"relay: connections were handed back"
	diag "relay: $(plain_reasons 2)"
	;;
esac
for prog in "${progs[@]}"; do
	case $prog in
	kill_local) ms=killed-client ;;
	kill_*) ms="killed-server killed-client" ;;
	*) continue ;;
	esac
	for mode in $ms; do
		case " $modes " in *" $mode "*) ;; *) continue ;; esac
		# what it prints it also asserts; both sides' daemons must give the same
		want=$RIG_DIR/$prog.want
		run "$mode" "$prog" "$RIG_DIR/$prog.out"
		s=$?
		[ -e "$want" ] || cp "$RIG_DIR/$prog.out" "$want"
		if [ $s = 0 ] && cmp -s "$want" "$RIG_DIR/$prog.out"; then
			pass "$prog $mode"
		else
			fail "$prog $mode"
			diag "status $s"
			head -n 5 "$RIG_DIR/$prog.out.err" | sed 's/^/# /'
			diff -u "$want" "$RIG_DIR/$prog.out" | tail -n +3 | sed 's/^/# /'
		fi
		restart_daemons
	done
done
done_testing
