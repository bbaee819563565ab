# SPDX-License-Identifier: MIT
# Hosts out of network namespaces, joined by veth, each with a run directory and an iwarpd of its own (bash, root).
#
#	. "$(dirname "$0")/lib/rig.sh"
#	rig_up 2			hosts 1 and 2: 10.77.0.N and fd77::N on eth0
#	host_exec_iw 1 program ...	with the library; host_exec without; host_bg, host_bg_iw in the background
#	host_ctl 1 streams --json	iwctl of that host
#	env -u IWSOCK_CONF program	with the limits that are the default; else every connection is proposed at once
#	RIG_DAEMON_WITH="prlimit --nofile=600" daemon_start 1	its iwarpd, by another program
#	done_testing			takes everything down and looks for what was left
#	rig_cleaned() { ...; }		what a script of yours has to take away besides, however it ends
#
# Ends only processes it started and deletes only namespaces it made; their names hold the pid of the test.

RIG_TESTS=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
. "$RIG_TESTS/lib/tap.sh"
: "${IW_BUILD:=$RIG_TESTS/../build/plain}"
IW_BUILD=$(cd "$IW_BUILD" && pwd) || exit 1
RIG_ID=iwt$$
RIG_DIR=
RIG_HOSTS=0
RIG_PIDS=()			# programs started by host_bg
declare -a RIG_DAEMON=()	# pid of the daemon of host N
declare -a RIG_OPTS=()		# its options
declare -A RIG_TOLD=()		# where those that host_told started read their orders
# A loaded test machine must not turn into plain TCP what these tests want accelerated: the daemons may take their time.
: "${RIG_DAEMON_OPTS=-o answer_timeout=1000}"

rig_need() {
	local p
	[ "$(id -u)" = 0 ] || skip_all "needs root for network namespaces"
	for p in ip nsenter "$@"; do
		command -v "$p" >/dev/null || skip_all "needs $p"
	done
	[ -z "${RIG_NO_DAEMON-}" ] || return 0
	for p in iwarpd iwctl libiwsock.so tests/lib/ready; do
		[ -e "$IW_BUILD/$p" ] || { echo "Bail out! $IW_BUILD/$p is not built"; exit 1; }
	done
}

# rig_up N: make N hosts and start their daemons (unless RIG_NO_DAEMON is set)
rig_up() {
	local i n=$1
	rig_need
	RIG_DIR=$(mktemp -d "${TMPDIR:-/tmp}/r.XXXXXX") || exit 1
	RIG_LIB=$RIG_DIR/libiwsock.so	# where every user can read it, wherever the checkout is; LD_PRELOAD takes no space
	install -m 755 "$IW_BUILD/libiwsock.so" "$RIG_LIB" || exit 1
	trap rig_trap EXIT
	trap 'exit 1' INT TERM HUP PIPE
	[ -z "$(LD_PRELOAD=$RIG_LIB env 2>&1 >/dev/null)" ] || { echo "Bail out! no library runs in ${RIG_DIR%/*}, perhaps noexec: set TMPDIR"; exit 1; }
	chmod 755 "$RIG_DIR"
	# programs here live too short for the limits that are the default
	echo "upgrade_after 0" >"$RIG_DIR/iwsock.conf"
	export IWSOCK_CONF=$RIG_DIR/iwsock.conf
	[ -z "${TMPDIR-}" ] || chmod a+x "$TMPDIR"	# programs of other users must get at the run directory
	for i in $(seq "$n"); do
		rig_netns "$RIG_ID"h"$i" || exit 1
		RIG_HOSTS=$i
		ip -n "$RIG_ID"h"$i" link set lo up
		mkdir -m 755 "$RIG_DIR/h$i"
	done
	rig_wires "$n"
	for i in $(seq "$n"); do
		[ -n "${RIG_NO_DAEMON-}" ] || daemon_start "$i" || exit 1
	done
}

# noted for tests/left-behind
rig_netns() {
	[ ! -d "${IW_LOGS-}" ] || echo "$1" >>"$IW_LOGS/netns"
	ip netns add "$1"
}

rig_wires() {
	local i n=$1
	[ "$n" -gt 1 ] || return 0
	if [ "$n" = 2 ]; then
		# from inside: Linux 6.1 looks for the name in the caller's namespace, which may have an eth0
		ip -n "$RIG_ID"h1 link add eth0 type veth peer name eth0 netns "$RIG_ID"h2 || exit 1
	else
		rig_netns "$RIG_ID"sw || exit 1
		ip -n "$RIG_ID"sw link add br0 type bridge
		ip -n "$RIG_ID"sw link set br0 up
		for i in $(seq "$n"); do
			ip -n "$RIG_ID"h"$i" link add eth0 type veth peer name "p$i" netns "$RIG_ID"sw || exit 1
			ip -n "$RIG_ID"sw link set "p$i" master br0 up
		done
	fi
	for i in $(seq "$n"); do
		ip -n "$RIG_ID"h"$i" addr add "10.77.0.$i/24" dev eth0
		ip -n "$RIG_ID"h"$i" addr add "fd77::$i/64" dev eth0 nodad
		ip -n "$RIG_ID"h"$i" link set eth0 up mtu 1500
	done
}

host_ns() { echo "/run/netns/${RIG_ID}h$1"; }
host_addr() { echo "10.77.0.$1"; }
host_addr6() { echo "fd77::$1"; }
host_dir() { echo "$RIG_DIR/h$1"; }

# Inside a sub-shell or the background: the host's network, then the program, under the same pid.
host_exec() {
	local h=$1
	shift
	nsenter --net="$(host_ns "$h")" env -u LD_PRELOAD -u IWSOCK_RUNDIR "$@"
}
host_exec_iw() {
	local h=$1
	shift
	nsenter --net="$(host_ns "$h")" env IWSOCK_RUNDIR="$(host_dir "$h")" LD_PRELOAD="$RIG_LIB" "$@"
}
# host_bg HOST LOG cmd...: in the background, output to RIG_DIR/LOG; the pid is in $!
host_bg() {
	local h=$1 log=$RIG_DIR/$2
	shift 2
	: >"$log"	# by us: what the last one said there is not to be taken for what this one says
	# not host_exec: $! shall be the program, not a shell that waits for it
	rig_apart nsenter --net="$(host_ns "$h")" env -u LD_PRELOAD -u IWSOCK_RUNDIR "$@" >"$log" 2>&1 </dev/null &
	RIG_PIDS+=($!)
}
# rig_apart cmd...: becomes it, without the descriptors by which others are told what to do
rig_apart() {
	local fd
	for fd in "${RIG_TOLD[@]}"; do exec {fd}>&-; done
	exec "$@"
}
host_bg_iw() {
	local h=$1 log=$RIG_DIR/$2
	shift 2
	: >"$log"
	rig_apart nsenter --net="$(host_ns "$h")" env IWSOCK_RUNDIR="$(host_dir "$h")" LD_PRELOAD="$RIG_LIB" "$@" \
		>"$log" 2>&1 </dev/null &
	RIG_PIDS+=($!)
}
# host_told HOST NAME cmd...: as host_bg_iw, told what to do by tell NAME; its output is RIG_DIR/NAME.log
host_told() {
	local h=$1 name=$2
	shift 2
	rm -f "$RIG_DIR/$name.in"
	mkfifo "$RIG_DIR/$name.in"
	rig_apart nsenter --net="$(host_ns "$h")" env IWSOCK_RUNDIR="$(host_dir "$h")" LD_PRELOAD="$RIG_LIB" "$@" \
		>"$RIG_DIR/$name.log" 2>&1 <"$RIG_DIR/$name.in" &
	RIG_PIDS+=($!)
	exec {RIG_TOLD[$name]}>"$RIG_DIR/$name.in"
}
# tell NAME LINE...: and wait until it has said a line for each; the last one is in $told
tell() {
	local name=$1 n
	shift
	n=$(($(wc -l <"$RIG_DIR/$name.log") + $#))
	(printf '%s\n' "$@" >&"${RIG_TOLD[$name]}") 2>/dev/null || { diag "$name is gone: $(tail -n 3 "$RIG_DIR/$name.log")"; return 1; }
	until_true 20 rig_said "$name" "$n" || { diag "$name was told $*, said: $(tail -n 3 "$RIG_DIR/$name.log")"; return 1; }
	told=$(tail -n 1 "$RIG_DIR/$name.log")
}
rig_said() { [ "$(wc -l <"$RIG_DIR/$1.log")" -ge "$2" ]; }
# tell_end NAME PID: the end of its input, and of it; the exit status
tell_end() {
	local fd=${RIG_TOLD[$1]}
	exec {fd}>&-
	unset "RIG_TOLD[$1]"
	until_true 60 rig_ended "$2" || { diag "$1 does not end: $(tail -n 3 "$RIG_DIR/$1.log")"; kill -9 "$2"; }
	wait "$2"
}
# host_end PID...: end programs started by host_bg, those of them that have not ended, and wait for them
host_end() {
	local p
	for p; do
		if rig_ours "$p"; then
			kill "$p" 2>/dev/null
			until_true 5 rig_ended "$p" || kill -9 "$p" 2>/dev/null
		fi
		wait "$p" 2>/dev/null
	done
}
# rig_ours PID: of a program that this script started and that runs. Once one has ended its number is somebody else's before long:
# what was not asked for just now is not to be killed.
rig_ours() {
	local s
	{ s=$(<"/proc/$1/stat"); } 2>/dev/null || return 1
	case ${s##*) } in [ZX]*) return 1 ;; [A-Za-z]" $$ "* | [A-Za-z]" $BASHPID "*) return 0 ;; esac
	return 1
}
rig_ended() { ! rig_ours "$1"; }
# rig_gone PID: the same of anybody's program, from one moment to the next
rig_gone() { [ ! -d "/proc/$1" ] || grep -q '^State:.Z' "/proc/$1/status" 2>/dev/null; }
# host_port HOST PORT: wait until somebody listens there
host_port() {
	until_true 10 rig_listens "$1" "$2" || { diag "nobody listens on port $2 of host $1"; return 1; }
}
rig_listens() { host_exec "$1" ss -Htln "sport = :$2" | grep -q .; }

host_ctl() {
	local h=$1
	shift
	"$IW_BUILD/iwctl" --run-dir "$(host_dir "$h")" "$@"
}

# daemon_start HOST [option ...]: start iwarpd and wait for its READY=1. The options are kept for the next start.
daemon_start() {
	local h=$1 fifo=$RIG_DIR/ready.$1 word=
	shift
	[ $# = 0 ] || RIG_OPTS[h]=$*
	mkfifo "$fifo" || return 1
	# shellcheck disable=SC2086
	rig_apart nsenter --net="$(host_ns "$h")" env -u LD_PRELOAD ${RIG_DAEMON_WITH-} "$IW_BUILD/tests/lib/ready" "$fifo" 90 \
		"$IW_BUILD/iwarpd" --run-dir "$(host_dir "$h")" $RIG_DAEMON_OPTS ${RIG_OPTS[h]-} \
		>>"$RIG_DIR/iwarpd.$h.log" 2>&1 </dev/null &
	RIG_DAEMON[h]=$!
	read -r word <"$fifo"
	rm -f "$fifo"
	[ "$word" = ready ] && return 0
	echo "Bail out! iwarpd of host $h: $word"
	rig_logs
	return 1
}
daemon_pid() { echo "${RIG_DAEMON[$1]-}"; }
# daemon_stop HOST: SIGTERM; the exit status
daemon_stop() {
	local p=${RIG_DAEMON[$1]-} s
	[ -n "$p" ] || return 0
	unset "RIG_DAEMON[$1]"
	! rig_ours "$p" || kill "$p" 2>/dev/null
	until_true 10 rig_ended "$p" || { diag "iwarpd of host $1 does not end on SIGTERM"; kill -9 "$p"; }
	wait "$p"
	s=$?
	[ $s = 0 ] || diag "iwarpd of host $1 ended with status $s"
	return $s
}
daemon_kill9() {
	local p=${RIG_DAEMON[$1]-}
	unset "RIG_DAEMON[$1]"
	! rig_ours "$p" || kill -9 "$p"
	wait "$p" 2>/dev/null
	return 0
}

# sock_remote PROGRAM: of tests/sock, its server on host 1 and its client on host 2, with the library
sock_remote() {
	env IW_TEST_NETNS_SERVER="$(host_ns 1)" IW_TEST_NETNS_CLIENT="$(host_ns 2)" \
		IW_TEST_ADDR4="$(host_addr 1)" IW_TEST_ADDR6="$(host_addr6 1)" IW_TEST_HELPER="$IW_BUILD/tests/lib" \
		IW_TEST_PRELOAD_SERVER="$RIG_LIB" IW_TEST_PRELOAD_CLIENT="$RIG_LIB" \
		IW_TEST_RUNDIR_SERVER="$(host_dir 1)" IW_TEST_RUNDIR_CLIENT="$(host_dir 2)" \
		timeout -k 5 180 "$IW_BUILD/tests/sock/$1" </dev/null
}

# rig_capture HOST FILE: capture eth0; rig_capture_stop ends it; rig_captured says whether it is complete
rig_capture() {
	RIG_CAPTURE_HOST=$1 RIG_CAPTURE_FILE=$2
	rm -f "$RIG_DIR/dumpcap.log" "$2"
	host_bg "$1" dumpcap.log dumpcap -q -P -i eth0 -B 64 -w "$2"
	RIG_CAPTURE=$!
	until_true 30 rig_capturing
}
rig_capturing() { grep -q 'Capturing\|File:' "$RIG_DIR/dumpcap.log" && [ -s "$RIG_CAPTURE_FILE" ]; }
# dumpcap does not look at what is still in the kernel's buffer when it is told to end, so the last thing in it is a mark of ours.
rig_capture_stop() {
	local mark="end of capture $RANDOM$RANDOM"
	host_exec "$RIG_CAPTURE_HOST" python3 -c '
import socket, sys
s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
s.bind(("eth0", 0))
s.send(b"\xff" * 6 + bytes(6) + b"\x88\xb5" + sys.argv[1].encode().ljust(46))' "$mark"
	until_true 30 grep -qa "$mark" "$RIG_CAPTURE_FILE" || diag "dumpcap does not get to the end"
	! rig_ours "$RIG_CAPTURE" || kill -INT "$RIG_CAPTURE" 2>/dev/null
	until_true 30 rig_ended "$RIG_CAPTURE" || kill -9 "$RIG_CAPTURE"
	wait "$RIG_CAPTURE" 2>/dev/null
}
# Dropped nothing, by the kernel's own count, and has every octet of every TCP connection up to the last that was acknowledged.
# Says what is missing.
rig_captured() {
	grep -q 'received/dropped.*: [0-9]*/0 ' "$RIG_DIR/dumpcap.log" || { grep received/dropped "$RIG_DIR/dumpcap.log" || echo "no statistics of dumpcap"; return 1; }
	tshark -r "$RIG_CAPTURE_FILE" -Y tcp -T fields -E occurrence=f -e tcp.stream -e tcp.srcport -e tcp.seq -e tcp.len -e tcp.flags.syn \
		-e tcp.flags.fin -e tcp.ack 2>/dev/null | python3 -c '
import sys
have, acked = {}, {}
for line in sys.stdin:
    stream, port, seq, n, syn, fin, ack = (int(x or 0, 0) for x in line[:-1].replace("True", "1").replace("False", "0").split("\t"))
    have.setdefault(stream, {}).setdefault(port, []).append((seq, seq + n + syn + fin))
    acked[stream, port] = max(ack, acked.get((stream, port), 0))
bad = not have and ["no TCP connection"] or []
for stream, ways in have.items():
    for port, parts in ways.items():
        parts.sort()
        at = parts[0][0]
        rest = [p for p in parts if p != (at, at)]
        if len(rest) < len(parts) and rest and rest[0][0] == at + 1:
            at += 1     # begun before the capture: a keep-alive names the octet before
        for a, b in parts:
            if a > at:
                bad.append("connection %d, port %d: nothing from %d to %d" % (stream, port, at, a))
            at = max(at, b)
        last = max((acked[stream, p] for p in ways if p != port), default=0)
        if last > at:
            bad.append("connection %d, port %d: ends at %d, acknowledged to %d" % (stream, port, at, last))
print("\n".join(bad[:5]), end="")
sys.exit(bool(bad))'
}

# rig_shark FILE ARGUMENT...: what tshark makes of a capture, with a profile that lets a connection become iWARP in its middle.
rig_shark() {
	local config=$RIG_DIR/wireshark
	[ -d "$config" ] || "$RIG_TESTS/lib/wireshark-profile" "$config" || return
	WIRESHARK_CONFIG_DIR=$config tshark -C iwarp -r "$@" 2>/dev/null
}

# plain_takes: in $plain, ms that a conversation of talk.py takes between hosts 1 and 2 without the library, at this moment
RIG_PLAIN=
plain_takes() {
	if [ -z "$RIG_PLAIN" ]; then
		host_bg 1 plain_takes.log python3 "$RIG_TESTS/lib/talk.py" server "$(host_addr 1)" 7999
		RIG_PLAIN=$!
		host_port 1 7999
	fi
	plain=$(host_exec 2 timeout 120 python3 "$RIG_TESTS/lib/talk.py" client "$(host_addr 1)" 7999 </dev/null | sed -n 's/^ok //p')
	: "${plain:=0}"
}

# fifo_go FIFO: lets go of who waits for its end. If he is gone, this is not to wait for him.
fifo_go() { timeout 60 sh -c ': >"$0"' "$1"; }

# json EXPRESSION: evaluates a Python expression over d, the JSON document on standard input
json() { python3 -c 'import json, sys; d = json.load(sys.stdin); print('"$1"')'; }
# stream_count HOST [condition over r]: how many rows of `iwctl streams` fit
stream_count() { host_ctl "$1" streams --json | json "len([r for r in d if ${2-True}])"; }

rig_logs() {
	local f
	for f in "$RIG_DIR"/iwarpd.*.log; do
		[ -s "$f" ] || continue
		echo "# --- ${f##*/}"
		sed '/^Shadow bytes/,/ABORTING/d; /^  *0x[0-9a-f]*: /d' "$f" | tail -n "${RIG_LOG_LINES:-25}" | sed 's/^/# /'
	done
}

RIG_BAD_LINES='AddressSanitizer|LeakSanitizer|runtime error|ThreadSanitizer|UndefinedBehavior|assertion|Assertion'

# Ends everything; says as a test whether it went well. Called by done_testing.
rig_down() {
	local p h bad='' left=''
	[ -n "$RIG_DIR" ] || return 0
	# a daemon may have got the number of a program that had ended
	for p in "${RIG_PIDS[@]}"; do
		[[ " ${RIG_DAEMON[*]} " = *" $p "* ]] || host_end "$p"
	done
	RIG_PIDS=()
	for h in "${!RIG_DAEMON[@]}"; do
		p=${RIG_DAEMON[h]}
		if rig_ended "$p"; then
			bad+="iwarpd of host $h died by itself; "
			unset "RIG_DAEMON[$h]"
		else
			daemon_stop "$h" || bad+="iwarpd of host $h did not end well; "
		fi
	done
	if grep -Eq "$RIG_BAD_LINES" "$RIG_DIR"/iwarpd.*.log 2>/dev/null; then
		bad+="the log of a daemon has a complaint; "
		[ -n "${RIG_LOG_LINES-}" ] || RIG_LOG_LINES=60
	fi
	for h in $(seq $RIG_HOSTS); do
		left+=$(ip netns pids "$RIG_ID"h"$h" 2>/dev/null | tr '\n' ' ')
	done
	for p in $left; do
		diag "left: $p $(tr '\0' ' ' <"/proc/$p/cmdline" 2>/dev/null)"
		kill -9 "$p" 2>/dev/null
	done
	[ -z "${left// /}" ] || bad+="processes were left in the namespaces; "
	ok "$([ -z "$bad" ]; echo $?)" "the daemons end well and nothing is left" || diag "$bad"
	[ $TAP_BAD = 0 ] || rig_logs
	rig_clean
}

rig_clean() {
	local h
	for h in $(seq $RIG_HOSTS); do
		ip netns del "$RIG_ID"h"$h" 2>/dev/null
	done
	[ -e "/run/netns/${RIG_ID}sw" ] && ip netns del "$RIG_ID"sw
	if declare -F rig_cleaned >/dev/null; then rig_cleaned; fi
	RIG_HOSTS=0
	if [ -n "${RIG_KEEP-}" ]; then diag "kept $RIG_DIR"; else rm -rf "$RIG_DIR"; fi
	RIG_DIR=
}

# However the script ends.
rig_trap() {
	local s=$? p
	[ -n "$RIG_DIR" ] || exit $s
	trap '' PIPE	# who read what is said may be gone
	rig_logs
	for p in "${RIG_PIDS[@]}" "${RIG_DAEMON[@]}"; do
		! rig_ours "$p" || kill -9 "$p" 2>/dev/null
		wait "$p" 2>/dev/null
	done
	for p in $(seq $RIG_HOSTS); do
		for p in $(ip netns pids "$RIG_ID"h"$p" 2>/dev/null); do
			kill -9 "$p" 2>/dev/null
		done
	done
	rig_clean
	exit $s
}

# ---- counts of the daemons ----
# accel_count HOST SIDE: connections that were accelerated since the daemon started; SIDE is client or server
accel_count() { host_ctl "$1" reasons --json | json "sum(r['as_$2'] for r in d if r['reason_number'] == 0)"; }
# plain_count HOST: connections that stayed plain TCP, whatever the reason
plain_count() { host_ctl "$1" reasons --json | json "sum(r['as_client'] + r['as_server'] for r in d if r['reason_number'])"; }
plain_reasons() {
	host_ctl "$1" reasons --json |
		json "' '.join('%s %d/%d' % (r['reason'], r['as_client'], r['as_server']) for r in d if r['reason_number'] and r['as_client'] + r['as_server'])"
}
# plain_others HOST BEFORE REASON...: what became plain TCP since plain_reasons said BEFORE, for other reasons than these
plain_others() {
	local h=$1 before=$2
	shift 2
	host_ctl "$h" reasons --json | python3 -c '
import json, sys
was = dict(zip(*[iter(sys.argv[1].split())] * 2))
for r in json.load(sys.stdin):
    now = "%d/%d" % (r["as_client"], r["as_server"])
    if r["reason_number"] and r["reason"] not in sys.argv[2:] and now != was.get(r["reason"], "0/0"):
        print(r["reason"], was.get(r["reason"], "0/0"), "->", now)' "$before" "$@"
}
# counts_begin SERVER-HOST CLIENT-HOST; counts_end NAME MIN [REASON...]: at least MIN connections were accelerated since, at both ends,
# and with REASONs, others stayed plain TCP for these only ("none": no other did)
counts_begin() {
	RIG_COUNTS=("$1" "$2" "$(accel_count "$1" server)" "$(accel_count "$2" client)" "$(plain_reasons "$1")" "$(plain_reasons "$2")")
}
counts_end() {
	local name=$1 min=$2 s=${RIG_COUNTS[0]} c=${RIG_COUNTS[1]} bad=$TAP_BAD
	shift 2
	at_least $(($(accel_count "$s" server) - RIG_COUNTS[2])) "$min" "$name: connections accelerated at the server"
	at_least $(($(accel_count "$c" client) - RIG_COUNTS[3])) "$min" "$name: connections accelerated at the client"
	[ $# = 0 ] || is "$(plain_others "$s" "${RIG_COUNTS[4]}" "$@"; plain_others "$c" "${RIG_COUNTS[5]}" "$@")" "" "$name: the others' reasons"
	[ $bad = $TAP_BAD ] || diag "before: ${RIG_COUNTS[4]}; ${RIG_COUNTS[5]}. Server: $(plain_reasons "$s"); client: $(plain_reasons "$c")"
}
# ends HOST WHAT: ends of connections that were switched, joined, upgraded or given back since its daemon started
ends() { host_ctl "$1" status --json | json "d['ends_$2']"; }
# no_streams HOST: nothing is left in the daemon
no_streams() {
	[ "$(host_ctl "$1" streams --json | json "len([r for r in d if r['transport'] != 'tcp'])")" = 0 ] &&
		[ "$(host_ctl "$1" stags --json | json "len([s for s in d if s['stream'] != '0'])")" = 0 ]
}
