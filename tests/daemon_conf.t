#!/bin/bash
# SPDX-License-Identifier: MIT
# Settings that the daemon warns about, or does not start with.
. "$(dirname "$0")/lib/tap.sh"
: "${IW_BUILD:=$PWD/build/plain}"
[ "$(id -u)" = 0 ] || skip_all "not root"
dir=$(mktemp -d "${TMPDIR:-/tmp}/iwt-conf.XXXXXX")
daemon=
trap 'test -z "$daemon" || kill "$daemon" 2>/dev/null; rm -rf "$dir"' EXIT

# Start it in a network namespace of its own; its log is $dir/log.
start() {
	unshare -n "$IW_BUILD/iwarpd" -c "$dir/iwarpd.conf" -r "$dir/run" "$@" >"$dir/log" 2>&1 &
	daemon=$!
}
stop() {
	kill "$daemon" 2>/dev/null
	wait "$daemon"
	daemon=
}
logged() { grep -q "$1" "$dir/log"; }

: >"$dir/iwarpd.conf"
start
until_true 20 logged "control port"
ok $? "it starts with the defaults"
stop
logged "crc = off"
is $? 1 "crc is on by default: no warning"

# whoever starts it may have closed them: what is opened next must not be where the log goes
: >"$dir/log"
unshare -n "$IW_BUILD/iwarpd" -c "$dir/iwarpd.conf" -r "$dir/run" <&- >&- 2>&- &
daemon=$!
until_true 20 test -S "$dir/run/ctl.sock"
ok $? "it starts without standard input, output and error"
is "$(readlink "/proc/$daemon/fd/0" "/proc/$daemon/fd/1" "/proc/$daemon/fd/2" | sort -u)" /dev/null "and has none of its own in their place"
"$IW_BUILD/iwctl" --run-dir "$dir/run" --json streams <&- >&- 2>&-
ok $? "nor does iwctl talk to the daemon where its output goes"
stop

echo "crc = off" >"$dir/iwarpd.conf"
start
until_true 20 logged "crc = off.*IPsec"
ok $? "crc = off: a warning at start"
stop

# SEC-R12: what others may rewrite is not obeyed
for how in "chmod g+w" "chmod o+w" "chown nobody"; do
	: >"$dir/iwarpd.conf"
	chmod 644 "$dir/iwarpd.conf"
	chown root "$dir/iwarpd.conf"
	$how "$dir/iwarpd.conf"
	start
	wait "$daemon"
	is $? 2 "$how: a configuration that others may write is refused"
	daemon=
	logged "refused"
	ok $? "$how: and the log says so"
done
done_testing
