#!/bin/bash
# SPDX-License-Identifier: MIT
# Dual run: every program of tests/sock on plain TCP first, then under the library in each mode with the same transcript, at
# whatever call the switch comes.
#
#	tests/sock.t [-m "MODE ..."] [-k "SERVER CLIENT"] [program ...]
#
# All of it runs in lanes side by side, each with hosts and daemons of its own: these programs wait more than they compute.
#
# plain		two processes of one host, no library: the reference
# wire		the same over two hosts: the reference must not depend on that
# local, remote, remote6	upgraded as early as both ends agree: on one host, without rings, and each wait looks first (spin always); on two; on two, IPv6 where the program
#		leaves the choice
# rings		on one host, by rings, while they are worth it or always, and each wait looks first, or where it paid, or never
# namespaces	the same between two namespaces that have one daemon, which believes them; a third of the programs
# mapped		as remote, with so many octets to and fro before that both ends are mapped, and each wait looks first
# restless	as mapped, and the daemons take the map back every few milliseconds, and give it again; a third of the programs
# device		as mapped, but by an RDMA device that is made up (lib/verbs), provider = auto; a third of the programs
# loses		as device, and either host's fails at some completion by chance: what goes by it goes on by TCP; a third of the programs
# local-k, remote-k	each end switches at a call of its own, whether the other one does or not: at the k-th, k by chance, or by -k
# relay		the other end never comes: relayed, and given back
# stay		the limits that are the default, which few of these programs reach
# tcp		library and daemons, and a policy that says tcp
# nodaemon	library without daemons
# half-client, half-server	library in the client only, and in the server only
# killed-server, killed-client	kill_*.c: the daemon of that side is killed on the way, with the connection upgraded, and for kill_mapped*.c mapped
# killed-relay	the same, relayed at both ends
#
# Where the daemons are sanitized each of the modes that a plain build runs with every program has half of them, by chance.
# IW_SEED=n repeats what chance did. IW_LONG=1: each mode with every program, local-k and remote-k with each k, at either end and at both, up to the last at which
# something is switched.
. "$(dirname "$0")/lib/rig.sh"

modes="plain wire local rings remote remote6 mapped stay tcp nodaemon half-client half-server namespaces restless device loses local-k remote-k relay killed-server killed-client killed-relay"
# what no daemon has a part in is the same program and library in every build
sanitized= DEVICES=
[ "${IW_BUILD##*/}" = plain ] || { sanitized=1; modes=$(sed -E 's/\b(wire|tcp|nodaemon) //g' <<<"$modes"); }
at='' wants='' asked_for=''
while getopts m:k:r: o; do
	case $o in
	m) modes=$OPTARG asked_for=1 ;;
	k) at=$OPTARG ;;
	r) wants=$OPTARG ;;	# where the transcripts on plain TCP are, or will be: a lane
	*) exit 2 ;;
	esac
done
shift $((OPTIND - 1))
case " $modes " in *" "[^pw]*) ;; *) RIG_NO_DAEMON=1 ;; esac
rig_need
: "${IW_SEED:=$RANDOM}"
export IW_SEED
# said STATUS FILE: the tests of a lane are tests of ours; whether they are all of its is for its plan to say, which comes last
said() {
	local line before=$TAP_N plan=none
	while IFS= read -r line; do
		case $line in
		"ok "*) TAP_N=$((TAP_N + 1)) line="ok $TAP_N ${line#ok * }" ;;
		"not ok "*) TAP_N=$((TAP_N + 1)) TAP_BAD=$((TAP_BAD + 1)) line="not ok $TAP_N ${line#not ok * }" ;;
		1..*) plan=${line#1..} && continue ;;
		esac
		printf '%s\n' "$line"
	done <"$2"
	[ "$plan" = $((TAP_N - before)) ] || fail "a lane ended (status $1) after $((TAP_N - before)) tests, its plan: $plan"
}
# every one takes about as long as the others
lanes=("plain local rings mapped tcp nodaemon half-client namespaces relay remote-k device loses" "wire remote remote6 stay half-server restless local-k killed-server killed-client killed-relay")
if [ $# = 0 ] && [ -z "$asked_for$at" ]; then
	wants=$(mktemp -d "${TMPDIR:-/tmp}/w.XXXXXX") || exit 1
	pids=()
	trap 'for p in "${pids[@]}"; do ! rig_ours "$p" || kill "$p"; wait "$p"; done; rm -rf "$wants"' EXIT
	trap 'exit 1' INT TERM HUP PIPE
	for i in "${!lanes[@]}"; do
		mine=
		for mode in ${lanes[i]}; do case " $modes " in *" $mode "*) mine+=" $mode" ;; esac; done
		"$0" -r "$wants" -m "${mine# }" >"$wants/lane.$i" 2>&1 &
		pids+=($!)
	done
	for i in "${!lanes[@]}"; do
		wait "${pids[i]}"
		said "$?" "$wants/lane.$i"
		diag "lane $i: $SECONDS s"
	done
	rm -rf "$wants"
	trap - EXIT
	done_testing
fi
src=$RIG_TESTS/sock
bin=$IW_BUILD/tests/sock
half=
[ -z "$sanitized" ] || [ $# -gt 0 ] || [ -n "${IW_LONG-}" ] || half=1
if [ $# -gt 0 ]; then progs=("$@"); else progs=($(cd "$src" && ls ./*/*.c | sed 's|^.*/||; s|\.c$||' | sort)); fi
rig_up 2
: "${wants:=$RIG_DIR}"
opts=$RIG_DAEMON_OPTS
export IW_TEST_HELPER=$IW_BUILD/tests/lib IW_TEST_BLACKHOLE=10.77.0.99
# Somebody's hardware address, so that packets to it vanish; a failed ARP would become EHOSTUNREACH after a while.
for h in 1 2; do
	ip -n "$(basename "$(host_ns $h)")" neigh replace $IW_TEST_BLACKHOLE lladdr 02:00:00:00:00:99 nud permanent dev eth0 || exit 1
done
# A subshell for each of these would be a third of the time that all of it takes.
ns1=$(host_ns 1) ns2=$(host_ns 2)
addr4=$(host_addr 1) addr6=$(host_addr6 1)
dir=('' "$(host_dir 1)" "$(host_dir 2)")
lib=$RIG_LIB

# number STRING: to NUMBER, of 28 bits, the same for the same string
number() {
	local i c
	NUMBER=2166136261
	for ((i = 0; i < ${#1}; i++)); do
		printf -v c %d "'${1:i:1}"
		NUMBER=$((((NUMBER ^ c) * 16777619) & 0xffffffff))
	done
	NUMBER=$((((NUMBER ^ NUMBER >> 15) * 2246822519 & 0xffffffff) >> 4))
}

# conf NAME LINE...: to CONF its path. The wait is for our own daemon, which says GO at once; nothing waits that long unless a thread is in the way.
conf() {
	CONF=$RIG_DIR/$1.conf
	shift
	[ -e "$CONF" ] || printf '%s\n' "$@" >"$CONF"
}
at_call() { if [ "$1" = 0 ]; then conf at0 "upgrade_after 0" "upgrade_wait 100"; else conf "at$1" "upgrade_after $1 calls" "upgrade_wait 100"; fi; }
# Not to be mapped before they begin: one end does not wait for the other, or something was done to the socket before.
cold="accept4_flags accept_backlog connect_epoll connect_epollet connect_nonblock connect_select eintr_restart epoll_connect_with_other epoll_plain_before"
cold+=" many_short oob_before_accept opts_inherit opts_lowat send_lost sigio_before timeo_before_connect"
# and: a ring made afterwards, whose calls nobody sees
cold+=" epoll_uring"
# and: one thread sleeps by then, when another one begins to write past the library
cold+=" unseen_threads"
# Not with maps that come and go: what they compare changes with them. There is more room, or less, also at the end of a time-out.
calm="eintr_mixed f_odd_args"
# Each of its rounds forks and moves a hundred thousand octets: it is about rings, and takes minutes where maps change hands late.
calm+=" fork_dup"
conf early "upgrade_after 0"; early=$CONF
conf awake "upgrade_after 0" "spin always" "rings no"; awake=$CONF
conf never "upgrade_after 1G calls 1G"; never=$CONF
conf tcp "upgrade_after 0" "tcp both * *"; policy=$CONF

# chance MODE PROGRAM ROLE: to NUMBER, most of them within the first calls, which is what most of the programs have
chance() {
	number "$IW_SEED $*"
	case $((NUMBER & 7)) in
	0) NUMBER=$(((NUMBER >> 3) % 40)) ;;
	1 | 2) NUMBER=$(((NUMBER >> 3) % 10)) ;;
	*) NUMBER=$(((NUMBER >> 3) % 3)) ;;
	esac
}

# run MODE PROGRAM OUT: sets up the environment of a mode
run() {
	local mode=$1 prog=$2 out=$3 server=$early client=$early two=1 daemon env k rings role at_wc
	case $mode in plain* | local* | rings) two=0 ;; esac
	[ "$mode" = killed-client ] && case $prog in kill_local | kill_rest | kill_handed) two=0 ;; esac
	daemon=$((1 + two))
	[ "$mode" != namespaces ] || daemon=1
	env=(IW_TEST_NETNS_SERVER="$ns1" IW_TEST_NETNS_CLIENT="$ns1")
	if [ $two = 1 ]; then
		env+=(IW_TEST_NETNS_CLIENT="$ns2" IW_TEST_ADDR4="$addr4" IW_TEST_ADDR6="$addr6")
	fi
	case $mode in
	local) server=$awake client=$awake ;;
	rings | namespaces)
		number "$IW_SEED $prog"
		k=(always adaptive no) rings=(yes always)
		k=${k[NUMBER % 3]} rings=${rings[NUMBER / 3 % 2]}
		conf "rings-$rings-$k" "upgrade_after 0" "rings $rings" "spin $k"
		server=$CONF client=$CONF RAN="rings $rings, spin $k"
		;;
	mapped) server=$awake client=$awake env+=(IW_TEST_WARM=12) ;;
	restless) env+=(IW_TEST_WARM=12) ;;
	device) server=$awake client=$awake env+=(IW_TEST_WARM=30) ;;	# the devices connect meanwhile
	loses)
		server=$awake client=$awake env+=(IW_TEST_WARM=30)
		number "$IW_SEED $prog"
		k=$((NUMBER % 2 + 1)) at_wc=$((3 + (NUMBER >> 1) % 77))
		RAN="host $k at completion $at_wc"
		echo "status $at_wc 10" >"$DEVICES/$k/told"
		echo none >"$DEVICES/$((3 - k))/told"
		;;
	remote6 | plain6) env+=(IW_TEST_FAMILY=6) ;;
	tcp) server=$policy client=$policy ;;
	stay)
		conf default
		server=$CONF client=$CONF
		;;
	relay)
		at_call 0
		server=$never client=$CONF RAN="the client's end"
		number "$IW_SEED $prog"
		[ $((NUMBER & 1)) = 0 ] || { server=$client client=$never RAN="the server's end"; }
		;;
	killed-*)
		at_call 0
		server=$CONF client=$CONF
		case $mode in
		*-relay) env+=(IW_TEST_KILL="${RIG_DAEMON[2]-}" IW_TEST_KILL_RELAY=1) ;;
		*-server) env+=(IW_TEST_KILL="${RIG_DAEMON[1]-}" IW_TEST_KILL_SIDE=SERVER) ;;
		*-client) env+=(IW_TEST_KILL="${RIG_DAEMON[1 + two]-}" IW_TEST_KILL_SIDE=CLIENT) ;;
		esac
		;;
	*-k)
		k=($at)
		[ -n "$at" ] || for role in server client; do chance "$mode" "$prog" $role && k+=("$NUMBER"); done
		at_call "${k[0]}"
		server=$CONF
		at_call "${k[1]}"
		client=$CONF
		RAN="at calls ${k[*]}"
		;;
	esac
	case $prog in kill_rest | kill_handed | fork_again)	# so that it has a ring
		conf at-awake "upgrade_after 0" "upgrade_wait 100" "spin always"
		server=$CONF client=$CONF
		;;
	esac
	env+=(IW_TEST_CONF_SERVER="$server" IW_TEST_CONF_CLIENT="$client")
	case $mode in
	plain* | wire) ;;
	half-client) env+=(IW_TEST_PRELOAD_CLIENT="$lib" IW_TEST_RUNDIR_CLIENT="${dir[2]}") ;;
	half-server) env+=(IW_TEST_PRELOAD_SERVER="$lib" IW_TEST_RUNDIR_SERVER="${dir[1]}") ;;
	nodaemon)
		env+=(IW_TEST_PRELOAD_SERVER="$lib" IW_TEST_PRELOAD_CLIENT="$lib" IW_TEST_RUNDIR_SERVER="$RIG_DIR/none"
			IW_TEST_RUNDIR_CLIENT="$RIG_DIR/none") ;;
	*)
		env+=(IW_TEST_PRELOAD_SERVER="$lib" IW_TEST_PRELOAD_CLIENT="$lib" IW_TEST_RUNDIR_SERVER="${dir[1]}"
			IW_TEST_RUNDIR_CLIENT="${dir[daemon]}") ;;
	esac
	(export "${env[@]}"; exec timeout -k 5 180 "$bin/$prog") >"$out" 2>"$out.err" </dev/null
}

# A daemon that is gone is a failure of the program that ran last, and must not be one of all that follow.
daemons_up() {
	local h r=0
	[ -z "${RIG_NO_DAEMON-}" ] || return 0
	for h in 1 2; do
		rig_ended "${RIG_DAEMON[h]-}" || continue
		wait "${RIG_DAEMON[h]-}" 2>/dev/null
		diag "iwarpd of host $h is gone (status $?)"
		tail -n 5 "$RIG_DIR/iwarpd.$h.log" | sed 's/^/# /'
		unset "RIG_DAEMON[$h]"
		daemon_start $h
		r=1
	done
	return $r
}

# restart_daemons [option...]
restart_daemons() {
	local h
	[ -z "${RIG_NO_DAEMON-}" ] || return 0
	for h in 1 2; do
		[ -n "${RIG_DAEMON[h]-}" ] || continue
		if rig_ended "${RIG_DAEMON[h]-}"; then
			wait "${RIG_DAEMON[h]-}" 2>/dev/null
			unset "RIG_DAEMON[$h]"
		else
			daemon_stop $h
		fi
	done
	RIG_DAEMON_OPTS="$opts $*"
	for h in 1 2; do
		RIG_DAEMON_WITH=${DEVICES:+LD_LIBRARY_PATH=$IW_BUILD/tests/lib/verbs MADE_UP_DEVICE=$DEVICES/$h}
		daemon_start $h
	done
}

# same MODE PROGRAM WANT GOT. An edge-triggered set that has another file in it says once more that this is ready; none is missing.
# So it is on any carrier that the sets had before it was upgraded.
same() {
	case $1:$2 in
	restless:f_ready_mix | device:f_ready_mix | loses:f_ready_mix) ! diff "$3" "$4" | grep -q '^<' ;;
	*) cmp -s "$3" "$4" ;;
	esac
}

# reference PROGRAM [6]: on plain TCP, once for all lanes: what it printed is wants/PROGRAM.want, its status is beside
reference() {
	local to=$wants/$1.want${2-}
	[ ! -e "$to" ] || return 0
	run "plain${2-}" "$1" "$to.$$"
	echo $? >"$to.status"
	mv "$to.$$.err" "$to.err"
	mv "$to.$$" "$to"
}

# one MODE PROGRAM: a test
one() {
	local mode=$1 prog=$2 want=$wants/$2.want got=$RIG_DIR/$2.$1 s
	case $prog in raw_read) [[ $mode = @(plain|stay) ]] || return 0 ;; esac	# what it is about are the limits that are the default
	reference "$prog"
	if [ "$mode" = remote6 ]; then
		reference "$prog" 6
		want+=6
	fi
	RAN=
	if [ "$mode" = plain ]; then
		got=$want
		s=$(<"$want.status")
	else
		run "$mode" "$prog" "$got"
		s=$?
	fi
	if [ $s = 77 ]; then
		skip "$prog $mode" "does not apply"
		return
	fi
	if [ $s != 0 ]; then
		fail "$prog $mode" $RAN
		diag "status $s"
		head -n 5 "$got.err" | sed 's/^/# /'
		[ "$mode" = plain ] || diff -u "$want" "$got" | tail -n +3 | head -n 30 | sed 's/^/# /'
	elif [ "$mode" != plain ] && ! same "$mode" "$prog" "$want" "$got"; then
		fail "$prog $mode" $RAN
		diff -u "$want" "$got" | tail -n +3 | head -n 40 | sed 's/^/# /'
	elif [ "$mode" != plain ] && ! daemons_up; then
		fail "$prog $mode" $RAN
	else
		pass "$prog $mode" $RAN
	fi
}

# told MODE: what became of the ends of connections since the daemons started
told() {
	local h
	for h in 1 2; do
		diag "$1, host $h: $(host_ctl $h status --json | json "', '.join('%d %s' % (d['ends_' + k], k) for k in ('switched', 'joined', 'upgraded', 'back'))")"
	done
}

# A silent fall back would make everything pass. Half of the programs (but restless and relay have the same in each build) have half as many.
expect() {
	local host=$1 what=$2 least=$3
	[ -z "$half" ] || [ "${4-}" = all ] || least=$((least / 2))
	[ ${#progs[@]} -lt 50 ] || [ -n "$at" ] || at_least "$(ends "$host" "$what")" "$least" "host $host: ends of connections $what"
}

# some N WHAT: of all programs one in N, by chance
some() {
	[ -z "${IW_LONG-}" ] && [ ${#progs[@]} -ge 50 ] || return 0
	number "$IW_SEED $2"
	[ $((NUMBER % $1)) = 0 ]
}

# group "MODE ...": those of them that are asked for, program by program
group() {
	local prog mode
	for prog in "${progs[@]}"; do
		case $prog in kill_*) continue ;; esac
		for mode in $1; do
			case "$mode: $cold " in "mapped:"*" $prog "* | "restless:"*" $prog "* | "device:"*" $prog "* | "loses:"*" $prog "*) continue ;; esac
			case "$mode: $calm " in "restless:"*" $prog "*) continue ;; esac
			case " $modes " in *" $mode "*) ;; *) continue ;; esac
			case $mode in
			restless | device | loses) some 3 "$prog" || continue ;;
			namespaces) [ "$prog" = many_conns ] || some 3 "$prog" || continue ;;	# this one counts
			plain | relay) ;;
			*) [ -z "$half" ] || [ "$prog" = many_conns ] || some 2 "$mode $prog" || continue ;;
			esac
			one "$mode" "$prog"
		done
	done
}
asked() { local m; for m in $1; do case " $modes " in *" $m "*) return 0 ;; esac; done; return 1; }

# every MODE PROGRAM: with each k
every() {
	local k before sum pair
	for pair in "K K" "0 K" "K 0"; do
		for ((k = 0; k < 400; k += 1 + k / 40)); do
			before="$(ends 1 switched) $(ends 2 switched)"
			at=${pair//K/$k}
			one "$1" "$2"
			sum="$(ends 1 switched) $(ends 2 switched)"
			# nothing is switched any more, or as much as by the other end alone
			[ "$sum" != "$before" ] || break
			[ "$pair" = "K K" ] && last=$k
			[ $k -le "${last:-0}" ] || break
		done
	done
	at=
}

group "plain wire local rings remote remote6 mapped stay tcp nodaemon half-client half-server"
if asked "local remote remote6 mapped"; then
	told "local, remote"
	! asked local || expect 1 joined 100
	! asked "remote remote6 mapped" || { expect 1 upgraded 100; expect 2 upgraded 100; }
fi
if asked restless; then
	restart_daemons -o map=restless
	group restless
	told "restless, IW_SEED=$IW_SEED"
	expect 1 upgraded 25 all
	expect 2 upgraded 25 all
fi
devices() { # MODE
	local n
	asked "$1" && [ -e "$IW_BUILD/tests/lib/verbs/librdmacm.so.1" ] || return 0
	DEVICES=$RIG_DIR/$1
	mkdir -p "$DEVICES/1" "$DEVICES/2"
	echo siw1 >"$DEVICES/1/name"
	echo siw2 >"$DEVICES/2/name"
	restart_daemons -o provider=auto -o negative_cache=1
	group "$1"
	told "$1, IW_SEED=$IW_SEED"
	n=$(host_ctl 1 metrics | sed -n 's/^iwsock_device_carried_total{device="siw1"} //p')
	diag "$1: $n streams, $(cat "$DEVICES"/?/log | grep -c '^status') lost"
	[ ${#progs[@]} -lt 50 ] || at_least "${n:-0}" 25 "streams by the device"
	unused() { ! grep -hv "^qp 0 mr 0 pd 0 cq 0 " "$DEVICES"/?/held; }
	until_true 10 unused
	ok $? "nothing is left in the devices" || diag "$(cat "$DEVICES"/?/held)"
	is "$(cat "$DEVICES"/?/log | grep -v '^status')" "" "nothing was done that no program may do"
	DEVICES=
}
devices device
devices loses
if asked namespaces; then
	restart_daemons -o join_namespaces=yes
	group namespaces
	told "namespaces, IW_SEED=$IW_SEED"
	expect 1 joined 30 all
fi
if asked "local-k remote-k"; then
	diag "IW_SEED=$IW_SEED"
	restart_daemons -o go=at-once
	if [ -n "${IW_LONG-}" ]; then
		for prog in "${progs[@]}"; do
			case $prog in kill_*) continue ;; esac
			last=0
			! asked local-k || every local-k "$prog"
			last=0
			! asked remote-k || every remote-k "$prog"
		done
	else
		group "local-k remote-k"
	fi
	told "at call k"
	! asked local-k || { expect 1 switched 100; expect 1 joined 20; }	# chance gives the two ends their calls
	! asked remote-k || { expect 2 switched 50; expect 1 upgraded 10; expect 2 upgraded 10; }
fi
if asked relay; then
	restart_daemons -o go=at-once
	group relay
	told "relay, IW_SEED=$IW_SEED"
	expect 1 switched 40 all
	expect 2 switched 40 all
	[ ${#progs[@]} -lt 50 ] || at_least $(($(ends 1 back) + $(ends 2 back))) 1 "ends of connections given back"
fi
for prog in "${progs[@]}"; do
	map=no
	case $prog in
	kill_local | kill_rest | kill_handed) ms=killed-client ;;
	kill_mapped*) ms="killed-server killed-client" map=yes ;;
	kill_*) ms="killed-server killed-client killed-relay" ;;
	*) continue ;;
	esac
	for mode in $ms; do
		asked "$mode" || continue
		restart_daemons -o go=at-once -o map=$map
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
		daemons_up >/dev/null 2>&1
	done
done
done_testing
