#!/bin/bash
# SPDX-License-Identifier: MIT
# Bad pointers: every intercepted call, every pointer it takes, on descriptors of every kind, gives under the library what it gives
# without it, the same errno and the same octets left unread; where libc itself crashes both do (tests/lib/badptr.c).
. "$(dirname "$0")/lib/rig.sh"

rig_need
rig_up 2
prog=$IW_BUILD/tests/lib/badptr
out=$RIG_DIR/out
cases=$("$prog" count)

# A call that is intercepted from now on is in the list, with cases or with the word that it takes no pointer.
is "$(comm -3 <("$prog" list | awk '{ print $1 }' | sort -u) <(awk '$2 == "intercepted" { print $1 }' "$RIG_TESTS/exports.list" | sort -u))" "" \
	"every exported name is in the sweep"
is "$("$prog" list | sort -u | awk '{ print $1 }' | uniq -d)" "" "none has cases and takes no pointer"
at_least "$cases" 20520 "cases of one run"

# complete NAME NUMBER: each case has said something, and no two are the same
complete() {
	is "$(wc -l <"$out.$1") $(awk '{ print $1, $2, $3, $4 }' "$out.$1" | sort -u | wc -l)" "$2 $2" "$1: every case once"
}
# same NAME REFERENCE
same() {
	cmp -s "$out.$2" "$out.$1"
	ok $? "$1: as without the library" || diff "$out.$2" "$out.$1" | head -n 40 | sed 's/^/# /'
}

host_exec 1 timeout 300 "$prog" run >"$out.plain"
complete plain "$cases"
# what the sweep is for is in it: pointers that are refused, pointers that serve, calls of libc that crash
at_least "$(grep -c ' -1 EFAULT' "$out.plain")" 4000 "cases the kernel refuses with EFAULT"
at_least "$(grep -c ': [0-9]' "$out.plain")" 2500 "cases that succeed"
at_least "$(grep -c ' signal 11$' "$out.plain")" 200 "cases libc crashes in"
host_exec 1 timeout 300 "$prog" run -c >"$out.connecting-plain"
complete connecting-plain "$cases"

host_exec_iw 1 env IWSOCK_RUNDIR="$RIG_DIR/none" timeout 300 "$prog" run >"$out.no-daemon"
same no-daemon plain
host_exec_iw 1 timeout 300 "$prog" run -c >"$out.connecting"
same connecting connecting-plain
host_exec_iw 1 env IW_TEST_STREAMS=1 timeout 600 "$prog" run >"$out.local"
same local plain
# two ends of each connection there are
at_least "$(ends 1 joined)" $((2 * $(grep -c '^\(connected\|accepted\) ' "$out.plain"))) "local: ends that were joined"

# the call itself exchanges the socket for the carrier, and then meets the pointer
daemon_stop 1 && daemon_start 1 -o go=at-once
printf 'upgrade_after 0\nupgrade_wait 1000\n' >"$RIG_DIR/wait.conf"
host_exec_iw 1 env IWSOCK_CONF="$RIG_DIR/wait.conf" timeout 600 "$prog" run >"$out.switching"
same switching plain
at_least "$(ends 1 switched)" 1000 "switching: ends that were"
RIG_OPTS[1]=
daemon_stop 1 && daemon_start 1

host_bg 2 port.plain "$prog" serve
host_bg_iw 2 port.iw env IW_TEST_STREAMS=1 "$prog" serve
until_true 10 [ -s "$RIG_DIR/port.plain" ] && until_true 10 [ -s "$RIG_DIR/port.iw" ]
ok $? "a peer on another host"
host_exec 1 timeout 300 "$prog" run "$(host_addr 2)" "$(cat "$RIG_DIR/port.plain")" >"$out.wire"
host_exec_iw 1 env IW_TEST_STREAMS=1 timeout 600 "$prog" run "$(host_addr 2)" "$(cat "$RIG_DIR/port.iw")" >"$out.remote"
complete remote "$(grep -c ^connected "$out.plain")"
same remote wire
at_least "$(ends 1 upgraded)" "$(grep -c ^connected "$out.plain")" "remote: ends that were upgraded"
done_testing
