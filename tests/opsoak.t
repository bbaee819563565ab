#!/bin/bash
# SPDX-License-Identifier: MIT
# A soak of random operations over many processes, replayable by its seed (tests/opsoak/): on plain TCP first, then under the library in each mode.
#
#	tests/opsoak.t [-m "MODE ..."] [-s SECONDS] [-w WORKERS] [-r SECONDS] [-- option of opsoak ...]
#
# Every octet is compared, every end of a stream has to be one that TCP permits, and nobody may wait for ever; afterwards no process has more than before,
# and the daemons have nothing.
#
# plain		one host, no library: what the program holds for TCP's behaviour is what TCP does
# rings		one host, pairs with rings
# carrier	one host, pairs, rings forbidden
# mapped	two hosts, mapped queue pairs
# restless	the same, and the daemons take maps back every few milliseconds, and give them again
# relayed	two hosts, mapping forbidden
#
# -s: of each mode (IW_SOAK_SECONDS, 15). -r: daemons are restarted every so many seconds, by SIGTERM and SIGKILL in turn; 0, the default: never.
# IW_SEED=n repeats what chance did, as far as time does. IW_SOAK_KEEP=1: a run that fails stays as it is.
. "$(dirname "$0")/lib/rig.sh"

modes="plain rings carrier mapped restless relayed"
seconds=${IW_SOAK_SECONDS:-15} workers=6 every=0
while getopts m:s:w:r: o; do
	case $o in
	m) modes=$OPTARG ;;
	s) seconds=$OPTARG ;;
	w) workers=$OPTARG ;;
	r) every=$OPTARG ;;
	*) exit 2 ;;
	esac
done
shift $((OPTIND - 1))
: "${IW_SEED:=$RANDOM}"
[ "$modes" != plain ] || RIG_NO_DAEMON=1
rig_need
soak=$IW_BUILD/tests/opsoak/opsoak
[ -x "$soak" ] || { echo "Bail out! $soak is not built"; exit 1; }
rig_up 2
opts=$RIG_DAEMON_OPTS
[ -z "${IW_SOAK_KEEP-}" ] || export OPSOAK_KEEP=1

# has HOST: what its daemon has, without what it has always: descriptors, and maps of streams
has() {
	local p
	p=$(daemon_pid "$1")
	echo "$(find "/proc/$p/fd" -type l ! -lname '*iwsock-peers*' ! -lname '*iwsock-pairs*' ! -lname '*iwsock-process*' | wc -l)" \
		"$(grep -c 'iwsock-stream\|iwsock-map\|iwsock-ring' "/proc/$p/maps")"
}
files() { (cd "$(host_dir "$1")" && echo *); }
# what it had when the hosts had just got to know each other; not more, at least
as_before() {
	local h fds maps fds0 maps0
	for h in 1 2; do
		read -r fds maps <<<"$(has $h)"
		read -r fds0 maps0 <<<"${before[h]}"
		[ "$fds" -le "$fds0" ] && [ "$maps" -le "$maps0" ] && [ "$(files $h)" = "${had[h]}" ] || return 1
	done
}
nothing_left() { no_streams 1 && no_streams 2; }

# begin option...: it is running, told by $to
begin() {
	mkfifo "$RIG_DIR/soak.in"
	IW_SOAKS=$((${IW_SOAKS-0} + 1))
	log=$RIG_DIR/soak.$IW_SOAKS
	# not by host_bg: in the end it is asked for its status
	env -u LD_PRELOAD -u IWSOCK_RUNDIR "$soak" -w "$workers" -S "$IW_SEED" "$@" >"$log" 2>&1 <"$RIG_DIR/soak.in" &
	pid=$!
	RIG_PIDS+=($pid)
	exec {to}>"$RIG_DIR/soak.in"
	RIG_TOLD[soak]=$to	# for nobody else
	rm "$RIG_DIR/soak.in"
}
answered() { [ "$(grep -c '^\(down\|up\): ' "$log")" -ge "$1" ] || rig_ended "$pid"; }
say() {
	local n
	n=$(grep -c '^\(down\|up\): ' "$log")
	(echo "$1" >&"$to") 2>/dev/null
	until_true 20 answered $((n + 1))
}

# What the daemons have accelerated: counted since they started, and seen while it lasts
count() {
	local h
	for h in 1 2; do
		[ -n "$(daemon_pid $h)" ] || continue
		switched=$((switched + $(ends $h joined) + $(ends $h upgraded)))
	done
}
look() {
	local n
	n=$(host_ctl 1 streams --json | json "len([r for r in d if r.get('path') == '$path'])")
	[ "${n:-0}" -le "$seen" ] || seen=$n
}

restart() {
	say down
	count
	for h in 1 2; do
		if [ $((turn % 2)) = 0 ]; then daemon_stop $h; else daemon_kill9 $h; fi
	done
	turn=$((turn + 1))
	sleep 0.$((RANDOM % 10))	# they are without a daemon for a while
	for h in 1 2; do daemon_start $h || return 1; done
	say up
}

# until it is over
watch() {
	local next=$((SECONDS + every))
	while ! rig_ended $pid; do
		sleep 0.5
		[ -z "$path" ] || look
		[ $every = 0 ] || [ $SECONDS -lt $next ] || { restart; next=$((SECONDS + every)); }
	done
}

ended() {
	local status
	exec {to}>&-
	unset "RIG_TOLD[soak]"
	wait $pid
	status=$?
	streams=$(sed -n 's/^# \([0-9]*\) streams.*/\1/p' "$log" | tail -n 1)
	ok $status "$1: all octets in order, no hang, no leak, IW_SEED=$IW_SEED" || cat "$log"
	[ $status != 0 ] || diag "$1: $(grep ' streams, ' "$log" | tail -n 1 | cut -c 3-)"
}

run() {
	local mode=$1 args=() h
	shift
	path='' switched=0 seen=0 turn=0
	case $mode in
	plain | rings | carrier) args=(-a "$(host_addr 1),$(host_ns 1),$(host_dir 1)") ;;
	*) args=(-a "$(host_addr 1),$(host_ns 1),$(host_dir 1)" -a "$(host_addr 2),$(host_ns 2),$(host_dir 2)" -r) ;;
	esac
	case $mode in
	plain) ;;
	rings) path=rings ;;
	carrier) path=carrier ;;
	mapped | restless) path=mapped ;;
	relayed) path=carrier ;;
	*) echo "Bail out! no mode $mode"; exit 2 ;;
	esac
	if [ "$mode" != plain ]; then
		printf '%s\n' "upgrade_after 0" "rings $([ "$mode" = carrier ] && echo no || echo yes)" >"$RIG_DIR/$mode.conf"
		args+=(-l "$RIG_LIB" -c "$RIG_DIR/$mode.conf")
		RIG_DAEMON_OPTS=$opts
		case $mode in
		relayed) RIG_DAEMON_OPTS+=" -o map=no" ;;
		restless) RIG_DAEMON_OPTS+=" -o map=restless" ;;
		esac
		for h in 1 2; do daemon_stop $h; daemon_start $h || exit 1; done
		begin -s 1 -K "${args[@]}"	# so that they know each other
		path='' every=0 watch
		exec {to}>&-
		unset "RIG_TOLD[soak]"
		until_true 10 nothing_left
		for h in 1 2; do before[h]=$(has $h) had[h]=$(files $h); done
	fi
	begin -s "$seconds" "${args[@]}" "$@"
	watch
	[ "$mode" = plain ] || count
	ended "$mode"
	[ "$mode" != plain ] || return
	[ $every = 0 ] || streams=$((streams / 4))	# not those of the times without a daemon, and with one that knows nobody
	# about as many ends as there are connections live long enough, a twentieth more or less by seed and load
	at_least "$switched" $((streams * 3 / 4)) "$mode: ends of connections accelerated, of $streams connections"
	[ -z "$path" ] || at_least "$seen" 1 "$mode: of them at a time by $path"
	for h in 1 2; do
		until_true 10 no_streams $h
		ok $? "$mode: host $h has no stream any more" || diag "$(host_ctl $h streams)"
	done
	until_true 10 as_before
	ok $? "$mode: the daemons have what they had" || diag "descriptors and maps: $(has 1), were ${before[1]}; $(has 2), were ${before[2]}; $(files 1); $(files 2)"
}

for mode in $modes; do run "$mode" "$@"; done
done_testing
