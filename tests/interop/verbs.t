#!/bin/bash
# SPDX-License-Identifier: MIT
# Streams by an RDMA device, provider = auto, in the guest: two hosts out of network namespaces, the kernel's siw on each one's interface. `make check-verbs`.
# IW_INTEROP_PARTS: "without streams programs ends". IW_INTEROP_SOCK: which socket programs. IW_VERBS_MIB: octets that are compared, 64.
. "$(dirname "$0")/../lib/tap.sh"
here=$(cd "$(dirname "$0")" && pwd)
top=$(cd "$here/../.." && pwd)
: "${IW_BUILD:=$top/build/plain}" "${TMPDIR:=/tmp}"
parts=$(tr ' ' '\n' <<<"${IW_INTEROP_PARTS:-without streams programs ends}" | grep -x 'without\|streams\|programs\|ends')
[ -n "$parts" ] || skip_all "none of its parts is asked for"
programs=${IW_INTEROP_SOCK:-bulk_both bulk_sizes echo epoll_et fork_both halfclose_inflight iovecs mmsg msg_peek nonblock_fill scm_rights}
mib=${IW_VERBS_MIB:-64}
dir=$(mktemp -d "$TMPDIR/verbs.XXXXXX")
root=$dir/root
export IW_GUEST_RUN=$dir/guest IW_GUEST_OVERLAY=$root IW_GUEST_NICE=${IW_GUEST_NICE:-0}
guest() { "$here/guest" "$@"; }
# a kernel that is no more says why
trap 'guest status >/dev/null || diag "the guest has ended:" "$(guest log | tail -n 40)"; guest down; rm -rf "$dir"' EXIT
trap 'exit 1' INT TERM

libraries() { # of files that the guest has
	local f
	for f in $(ldd "$@" 2>/dev/null | awk '$2 == "=>" && $3 ~ /^\// { print $3 }' | sort -u); do
		[ -e "$root$f" ] || install -D "$f" "$root$f"
	done
}
fill() {
	local p
	guest add "$root" -m bridge socat nsenter setpriv iperf3 redis-server redis-benchmark sha256sum "$IW_BUILD/iwarpd" "$IW_BUILD/iwctl" || return 1
	mkdir -p "$root/usr/lib/sock" "$root/etc/iwsock"
	cp "$IW_BUILD/libiwsock.so" "$root/usr/lib/"
	for p in $programs; do cp "$IW_BUILD/tests/sock/$p" "$root/usr/lib/sock/" || return 1; done
	cp "$IW_BUILD/tests/lib/echoer" "$root/usr/lib/sock/"
	libraries "$IW_BUILD/libiwsock.so" "$root/usr/lib/sock/"*
	strip "$root"/usr/lib/sock/* "$root/usr/bin/iwarpd" "$root/usr/bin/iwctl"
	# programs there live too short for the limits that are the default
	printf '%s\n' "upgrade_after 0" "upgrade_wait 100" >"$root/etc/iwsock/iwsock.conf"
	install -m 755 "$here/two-hosts" "$root/usr/bin/two-hosts"
}
if ! nm -P "$IW_BUILD/iwarpd" 2>/dev/null | grep -q '^verbs_create '; then
	skip_all "built without libibverbs and librdmacm"
fi
fill >"$dir/fill.log" 2>&1 && guest up >"$dir/up" 2>&1 && guest run -t 240 'two-hosts up veth bridge' >>"$dir/up" 2>&1
if ! ok $? "a guest with two hosts is built and comes up"; then
	diag "$(tail -n 20 "$dir/fill.log" "$dir/up" 2>/dev/null)"
	diag "needs, as root: apt-get install $(guest packages) iperf3 redis-server redis-tools"
	done_testing
fi
diag "$(cat "$dir/up"; guest run 'uname -r')"

run() { guest run -t "${T-300}" "$@"; }
start() { run "two-hosts start $*"; } # NAME HOST command ...
stop() { run two-hosts stop "$@"; }
# SECONDS of a machine with nothing else to do (until_true), 'command in the guest'
await() { local s=$(($1 * 6)); shift; run -t $((s + 60)) "two-hosts wait $s '$*'"; }
logs() { run 'for h in 1 2; do echo "--- iwarpd $h"; grep -v "no system bus" /tmp/iwarpd.$h | tail -n 25; done'; }
with() { echo "env LD_PRELOAD=/usr/lib/libiwsock.so IWSOCK_RUNDIR=/tmp/h$1"; }

# copies of large blocks by a single instruction are dear where it is emulated
tuned=GLIBC_TUNABLES=glibc.cpu.x86_rep_movsb_threshold=1000000000
daemon() { # HOST [-w wrapper] option ...
	local h=$1 wrap=
	shift
	[ "${1-}" != -w ] || { wrap=$2; shift 2; }
	start iwarpd "$h" env $tuned "$wrap" iwarpd --run-dir "/tmp/h$h" -o answer_timeout=1000 -o negative_cache=1 -l debug "$@"
	await 60 "iwctl -r /tmp/h$h status"
	ok $? "host $h: iwarpd $* runs" || { logs; done_testing; }
}
daemons() { daemon 1 "$@"; daemon 2 "$@"; }
daemons_end() {
	local h
	for h in 1 2; do
		is "$(run "grep -c 'Sanitizer\|runtime error\|corrupted\|double free' /tmp/iwarpd.$h")" 0 "host $h: iwarpd did nothing wrong" || diag "$(run "cat /tmp/iwarpd.$h")"
		stop iwarpd $h
		ok $? "host $h: iwarpd ends" || diag "$(logs)"
	done
}
links() { # on both hosts
	local h
	for h in 1 2; do run "two-hosts on $h rdma link add siw$h type siw netdev eth0" || return 1; done
}
links_end() { run 'for h in 1 2; do rdma link delete siw$h; done'; }
carried() { run 'cat /tmp/iwarpd.1' | grep -c 'device siw1 carries'; } # streams, at host 1
by_device() { # BEFORE LEAST NAME
	local n=$(($(carried) - $1))
	[ $n -ge "$2" ]
	ok $? "$3 ($n >= $2)" || diag "$(logs)"
}
# what the device has of anybody's: queue pairs and memory, but for the kernel's own
held() { run 'rdma resource show qp; rdma resource show mr' | grep -c '\[iwarpd\]\|comm iwarpd'; }
files() { run 'for p in $(pidof iwarpd); do ls -l /proc/$p/fd; done' | grep -c infiniband; }
loaded() { run 'for p in $(pidof iwarpd); do cat /proc/$p/maps; done' | grep -c 'librdmacm\|libibverbs'; }

# There and back, until the test says so: over, by WHAT (iwarp: not plain, not relayed).
begin() { # NAME
	run 'rm -f /tmp/back /tmp/sent /tmp/result'
	start load 1 two-hosts load
	await 60 'iwctl -r /tmp/h1 streams | grep -q " iwarp "'
	ok $? "$1: a stream under load, over iWARP" || { diag "$(run 'iwctl -r /tmp/h1 streams')"; diag "$(logs)"; }
}
# The same by the device. A machine that has no time for the guest lets the two daemons miss it: then it is soft, as it should be, and tried again.
begin_by_device() { # NAME
	local i n
	for i in 1 2 3; do
		n=$(carried)
		begin "$1"
		[ $(($(carried) - n)) = 0 ] || break
		diag "soft: $(run 'grep "no device" /tmp/iwarpd.[12]')"
		[ $i = 3 ] || over "$1"
	done
	is $(($(carried) - n)) 1 "$1: the device carries it" || diag "$(logs)"
}
moves() { # NAME
	await 60 "[ \$(stat -c %s /tmp/back) -gt $(($(run 'stat -c %s /tmp/back') + 40000)) ]"
	ok $? "$1: it moves" || { diag "$(run 'ls -l /tmp/sent /tmp/back; iwctl -r /tmp/h1 streams')"; diag "$(logs)"; }
}
over() { # NAME
	run 'touch /tmp/stop'
	await 60 '[ -s /tmp/result ]'
	is "$(run 'cat /tmp/result')" same "$1: every octet came back, in order" || { diag "$(run 'ls -l /tmp/sent /tmp/back')"; diag "$(logs)"; }
}
echo_start() { start echo 2 "$(with 2) socat TCP-LISTEN:7600,bind=192.0.2.2,reuseaddr,fork PIPE"; }

# ---- soft, and auto without a device: as if it was not there ----
part_without() {
	links
	ok $? "siw on both hosts"
	daemons
	echo_start
	begin "provider = soft"
	over "provider = soft"
	is "$(loaded) $(files) $(held) $(carried)" "0 0 0 0" "provider = soft: no library, no file, nothing of the device's, though there is one"
	daemons_end
	links_end
	daemons -o provider=auto
	begin "provider = auto, no device"
	over "provider = auto, no device"
	is "$(held) $(carried)" "0 0" "provider = auto, no device: soft"
	daemons_end
	stop echo 2
}

# ---- what programs carry ----
compare() { # FROM TO PORT: octets of one host's file arrive at the other
	local name="$mib MiB from host $1 to host $2"
	run "rm -f /tmp/got; head -c $((mib * 1048576)) /dev/urandom >/tmp/file"
	start "sink$3" "$2" "$(with "$2") socat -u TCP-LISTEN:$3,reuseaddr CREATE:/tmp/got"
	await 30 "two-hosts on $2 netstat -ltn | grep -q :$3"
	T=900 run "two-hosts on $1 $(with "$1") socat -u FILE:/tmp/file TCP:192.0.2.$2:$3"
	is $? 0 "$name: sent"
	await 60 'cmp /tmp/file /tmp/got'
	ok $? "$name: the same" || { diag "$(run 'ls -l /tmp/file /tmp/got')"; diag "$(logs)"; }
	run 'rm -f /tmp/file /tmp/got'
}
part_streams() {
	local n
	links
	daemons -o provider=auto
	echo_start
	begin_by_device streams
	is "$(run 'iwctl -r /tmp/h1 streams' | grep -c ' running  *device ')" 1 "iwctl streams: by a device" || diag "$(run 'iwctl -r /tmp/h1 streams')"
	is "$(run 'iwctl -r /tmp/h1 streams -c path,device' | awk 'NR == 2 { print $1, $2 }')" "device siw1" "and by which" || diag "$(run 'iwctl -r /tmp/h1 streams -j')"
	is "$(run 'two-hosts on 1 iwctl -r /tmp/h1 devices -c device,kind,state,streams,used' | awk '/^siw1/ { print $1, $2, $3, $4, $5 }')" "siw1 iwarp active 1 yes" \
		"iwctl devices: that one carries one" || diag "$(run 'two-hosts on 1 iwctl -r /tmp/h1 devices -j')"
	at_least "$(run 'iwctl -r /tmp/h1 metrics' | sed -n 's/^iwsock_device_messages_total{device="siw1",operation="send"} //p')" 1 "metrics: its messages" ||
		diag "$(run 'iwctl -r /tmp/h1 metrics' | grep device)"
	over streams
	n=$(carried)
	compare 1 2 7701
	by_device "$n" 1 "by the device"
	n=$(carried)
	compare 2 1 7702
	by_device "$n" 1 "by the device"
	start redis 2 "$(with 2) redis-server --save '\"\"' --protected-mode no"
	await 30 'two-hosts on 2 netstat -ltn | grep -q :6379'
	n=$(carried)
	T=600 run "two-hosts on 1 $(with 1) redis-benchmark -h 192.0.2.2 -t set,get -n 500 -c 4 -d 1000 --csv" >"$dir/redis" 2>&1
	is "$? $(grep -c '^"[SG]ET","[0-9]' "$dir/redis")" "0 2" "redis-benchmark" || { diag "$(tail -n 5 "$dir/redis")"; diag "$(logs)"; }
	by_device "$n" 4 "redis: connections by the device"
	stop redis 2
	start iperf 2 "$(with 2) iperf3 -s -1"
	await 30 'two-hosts on 2 netstat -ltn | grep -q :5201'
	await 60 'sleep 4'	# longer than it is known that one of redis' connections was missed
	n=$(carried)
	T=600 run "two-hosts on 1 $(with 1) iperf3 -c 192.0.2.2 -t 5" >"$dir/iperf" 2>&1
	is "$? $(grep -c 'receiver$' "$dir/iperf")" "0 1" "iperf3" || { diag "$(tail -n 5 "$dir/iperf")"; diag "$(logs)"; }
	by_device "$n" 1 "iperf3: connections by the device"
	diag "$(grep 'receiver$' "$dir/iperf")"
	until_true 60 eval '[ "$(held)" = 0 ]'
	is "$(held)" 0 "nothing of them is left in the devices" || diag "$(run 'rdma resource show qp; rdma resource show mr')" "$(logs)"
	at_least "$(run 'iwctl -r /tmp/h1 metrics' | sed -n 's/^iwsock_device_carried_total{device="siw1"} //p')" 8 "metrics: what it has carried is not forgotten"
	is "$(run 'iwctl -r /tmp/h1 metrics' | sed -n 's/^iwsock_device_streams{device="siw1"} //p')" 0 "and that it carries nothing now"
	daemons_end
	daemons -o provider=auto -o device=other
	n=$(carried)
	begin "device = other"
	over "device = other"
	is "$(held) $(carried)" "0 0" "device = other: soft"
	stop echo 2
	daemons_end
	links_end
}

# ---- socket programs: each connection first lasts as long as it takes to be upgraded ----
part_programs() {
	links
	daemons -o provider=auto
	run "rm -f /tmp/suite; (IW_TEST_WARM=100 two-hosts suite remote $programs >/tmp/suite 2>&1 </dev/null &) >/dev/null 2>&1"
	until_true 400 await 60 'grep -q "^end of the suite" /tmp/suite'
	run 'cat /tmp/suite' >"$dir/suite"
	is "$(grep -c '^not ok' "$dir/suite") $(tail -n 1 "$dir/suite")" "0 end of the suite" "socket programs say the same as on plain TCP" ||
		{ diag "$(grep -v '^ok' "$dir/suite" | head -n 60)"; diag "$(logs)"; }
	by_device 0 $(($(wc -w <<<"$programs") / 2)) "connections by the device"
	diag "$(carried) by the device" "$(grep -v '^not ok' "$dir/suite")"
	until_true 60 eval '[ "$(held)" = 0 ]'
	is "$(held)" 0 "nothing of them is left in the devices"
	daemons_end
	links_end
}

# ---- ends ----
broken() { # NAME: the stream of begin() came to an end that is no good one
	await 60 '[ ! -e /proc/$(cat /tmp/load.pid.1) ] || [ -s /tmp/result ] || ! pidof socat | grep -q " "'
	run 'touch /tmp/stop'
	await 60 '[ -s /tmp/result ]'
	ok $? "$1: the stream is over for its program" || { diag "$(run 'ps; cat /tmp/load.1')"; diag "$(logs)"; }
	at_least "$(run 'grep -c "reset by peer\|aborted\|Broken pipe" /tmp/load.1')" 1 "$1: by a reset" || diag "$(run 'cat /tmp/load.1')" "$(logs)"
}
soft_again() { # NAME
	local n
	n=$(carried)
	begin "$1, a new one"
	over "$1, a new one"
	is $(($(carried) - n)) 0 "$1: the new one goes without the device"
}
part_ends() {
	links
	daemons -o provider=auto
	echo_start
	begin_by_device "a device is taken away"
	moves "a device is taken away"
	T=100 run 'rdma link delete siw2'
	ok $? "host 2's device goes, under load" || diag "$(logs)"
	moves "a device is taken away, by TCP"
	over "a device is taken away"
	until_true 60 eval '[ "$(held)" = 0 ]'
	is "$(held)" 0 "a device is taken away: nothing of the stream's is left in the other" || diag "$(run 'rdma resource show qp; rdma resource show mr')" "$(logs)"
	soft_again "a device is taken away"
	run 'two-hosts on 2 rdma link add siw2 type siw netdev eth0'
	await 60 'sleep 4'	# longer than it is known that there is none
	begin_by_device "it comes back"
	over "it comes back"
	begin_by_device "a daemon is killed"
	moves "a daemon is killed"
	run 'kill -9 $(cat /tmp/iwarpd.pid.2)'
	broken "a daemon is killed"
	until_true 60 eval '[ "$(held)" = 0 ]'
	is "$(held)" 0 "a daemon is killed: nothing is left in the devices" || diag "$(run 'rdma resource show qp; rdma resource show mr')" "$(logs)"
	# by its path: env, which is busybox's, would take busybox's own
	daemon 2 -w '/usr/bin/setpriv --bounding-set -ipc_lock --inh-caps -ipc_lock sh -c "ulimit -l 64; exec \"\$@\"" sh' -o provider=auto
	await 60 'sleep 4'	# as above
	soft_again "too little memory to lock"
	at_least "$(run 'cat /tmp/iwarpd.2' | grep -c 'cannot be locked.*LimitMEMLOCK')" 1 "too little memory to lock: the log says what to raise" || diag "$(logs)"
	is "$(held)" 0 "too little memory to lock: nothing is left in the devices"
	stop echo 2
	daemons_end
	links_end
	ok $? "the devices can be taken away when nobody uses them"
}

for part in $parts; do
	t=$(now_ms)
	"part_$part"
	diag "$part: $(($(now_ms) - t)) ms"
done
done_testing
