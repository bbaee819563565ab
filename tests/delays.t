#!/bin/bash
# SPDX-License-Identifier: MIT
# The steps by which maps change hands take longer by chance, in library and daemons: programs that are mapped, maps that come and go, daemons
# and programs that are killed. IW_SEED=n repeats what chance did; IW_LONG=1: every program.
. "$(dirname "$0")/lib/tap.sh"
cd "${IW_TOP:-$(dirname "$0")/..}" || exit 1
: "${IW_SEED:=$RANDOM}"
export IW_SEED
diag "IW_SEED=$IW_SEED"
b=$(mktemp -d "${TMPDIR:-/tmp}/delays.XXXXXX") || exit 1
trap 'rm -rf "$b"' EXIT

cp -a "$IW_BUILD"/{obj,pic,defs,libproto.a,iwctl} "$b"
mkdir "$b/tests"
cp -a "$IW_BUILD"/tests/{sock,lib} "$b/tests"
late=$(make -s DELAY="$IW_SEED" late-objects)
(cd "$b" && rm $late) && make -s B="$b" DELAY="$IW_SEED" "$b/iwarpd" "$b/libiwsock.so" >"$b/out" 2>&1 && grep -q maybe_late "$b/iwarpd" && grep -q maybe_late "$b/libiwsock.so"
ok $? "builds with delays" || sed 's/^/# /' "$b/out"

# part NAME TEST [argument...]
part() {
	local name=$1
	shift
	IW_BUILD=$b "$@" >"$b/out" 2>&1
	ok $? "$name" || grep -v '^ok ' "$b/out" | sed 's/^/# /' | tail -n 60
}
mapfile -t progs < <(ls tests/sock/*/*.c | sed 's|.*/||; s|\.c$||' | grep -v '^kill_' | shuf --random-source=<(yes "$IW_SEED") ${IW_LONG:--n 24})
part "maps come and go: f_ways ${progs[*]}" tests/sock.t -m restless f_ways "${progs[@]}"
part "rings: ${progs[*]}" tests/sock.t -m rings "${progs[@]}"
part "daemons die" tests/sock.t -m "killed-server killed-client" kill_mapped kill_mapped_close kill_mapped_fork
IW_ROUNDS=${IW_ROUNDS:-20} part "programs and daemons die" tests/kill.t
done_testing
