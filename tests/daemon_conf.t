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
is $? 4 "nor does iwctl talk to the daemon where its output goes; it failed, since nobody could read it"
stop

# SIGHUP is not the end, neither early nor late
: >"$dir/log"
rm -f "$dir/conf"
mkfifo "$dir/conf"
"$IW_BUILD/iwarpd" -o log_level=debug --check -c "$dir/conf" 2>"$dir/log" &
daemon=$!
exec 5<>"$dir/conf"
reads() { ls -l "/proc/$daemon/fd" | grep -q "$dir/conf"; }
until_true 20 reads
kill -HUP "$daemon"
exec 5>&-
wait "$daemon"
is $? 0 "SIGHUP while it starts: it goes on"
daemon=
start
until_true 20 logged "control port"
for i in 1 2 3; do
	kill -HUP "$daemon"
	sees() { [ "$(grep -c "SIGHUP does nothing" "$dir/log")" = "$i" ]; }
	until_true 20 sees
	ok $? "SIGHUP $i: it says that it does nothing"
done
"$IW_BUILD/iwctl" --run-dir "$dir/run" status >/dev/null
ok $? "and goes on"
kill "$daemon"
wait "$daemon"
is $? 0 "and ends as ever"
daemon=
# a terminal that goes away
: >"$dir/log"
script -qc "unshare -n '$IW_BUILD/iwarpd' -c '$dir/iwarpd.conf' -r '$dir/run' 2>'$dir/log'" /dev/null >/dev/null 2>&1 </dev/zero &
term=$!
until_true 20 logged "control port"
ok $? "it starts on a terminal"
kill $term
until_true 20 logged "stopping on signal 1"
ok $? "and ends with it"
wait $term 2>/dev/null
until_true 20 test ! -e "$dir/run/ctl.sock"

# --check says what a start would, and starts nothing
check() { "$IW_BUILD/iwarpd" --check -c "$dir/iwarpd.conf" "$@" 2>"$dir/log" >"$dir/out"; }
check
is "$? $(cat "$dir/log" "$dir/out")" "0 " "--check: nothing is wrong"
[ ! -e "$dir/run/ctl.sock" ]
ok $? "and nothing was started"
printf 'crc = on\n\nmax_ird = 33\n' >"$dir/iwarpd.conf"
check
is "$? $(cat "$dir/log")" "2 iwarpd: error: $dir/iwarpd.conf:3: max_ird = 33: not accepted; give 1 to 32" "--check: file, line, key and what is accepted"
echo 'control_port = 8740' >"$dir/iwarpd.conf"
check
is $? 2 "--check: settings that do not go together"
check -o trust_high_port=yes
is $? 0 "--check: with options"
check -o max_ird=0
is "$? $(cat "$dir/log")" "2 iwarpd: error: -o max_ird = 0: not accepted; give 1 to 32" "--check: a wrong option"
"$IW_BUILD/iwarpd" --check -c "$dir/none" 2>"$dir/log"
is $? 2 "--check: no such file"

echo "crc = off" >"$dir/iwarpd.conf"
start
until_true 20 logged "crc = off.*IPsec"
ok $? "crc = off: a warning at start"
stop

# what systemctl status shows has the words and counts of iwctl status
timeout 60 python3 -c '
import socket, sys
s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
s.bind(sys.argv[1])
while True:
    for line in s.recv(4096).decode().splitlines():
        if line.startswith("STATUS="):
            sys.exit(print(line))
' "$dir/notify" >"$dir/said" &
listener=$!
until_true 20 test -S "$dir/notify"
NOTIFY_SOCKET=$dir/notify start
wait $listener
is "$(cat "$dir/said")" "STATUS=0 streams iwarp, 0 local, 0 pending, 0 closing; 0 programs" "the line for systemctl status"
stop

# systemd's socket and control_port are two settings
passed='
import os, socket, sys
s = socket.socket(socket.AF_INET6)
s.bind(("::", int(sys.argv[1])))
s.listen()
os.set_inheritable(os.dup2(os.dup(s.fileno()), 3), True)
os.environ.update(LISTEN_FDS="1", LISTEN_PID=str(os.getpid()), LISTEN_FDNAMES="control")
os.execv(sys.argv[2], sys.argv[2:])
'
start_passed() {
	unshare -n python3 -c "$passed" "$1" "$IW_BUILD/iwarpd" -c "$dir/iwarpd.conf" -r "$dir/run" >"$dir/log" 2>&1 &
	daemon=$!
	until_true 20 "$IW_BUILD/iwctl" --run-dir "$dir/run" status
}
: >"$dir/iwarpd.conf"
start_passed 875
logged "warning: control_port is 874, but the socket that systemd passed listens on 875"
ok $? "a socket from systemd that listens elsewhere than control_port: a warning" || diag "$(cat "$dir/log")"
stop
start_passed 874
logged "but the socket"
is $? 1 "and none when it is the same"
stop

# SEC-R12: what others may rewrite is not obeyed
chmod 755 "$dir"
[ -z "${TMPDIR-}" ] || chmod a+x "$TMPDIR"
install -m 755 "$IW_BUILD/iwarpd" "$dir/iwarpd"
install -d -m 755 -o 990 "$dir/run990"
# For two seconds, as root and as iwarpd.service starts it; its status is 124 when it did not end by itself.
as_root() { timeout 2 unshare -n "$dir/iwarpd" -c "$dir/iwarpd.conf" -r "$dir/run" >"$dir/log" 2>&1; }
as_service() {
	timeout 2 unshare -n setpriv --reuid 990 --regid 990 --clear-groups env RUNTIME_DIRECTORY="$dir/run990" \
		"$dir/iwarpd" -c "$dir/iwarpd.conf" -o control_port=8740 -o trust_high_port=yes >"$dir/log" 2>&1
}
for who in as_root as_service; do
	for how in "chmod g+w" "chmod o+w" "chown nobody"; do
		rm -f "$dir/iwarpd.conf"
		install -m 644 /dev/null "$dir/iwarpd.conf"
		$how "$dir/iwarpd.conf"
		$who
		is $? 2 "$who, $how: a configuration that others may write is refused"
		logged "refused"
		ok $? "$who, $how: and the log says so"
	done
done
rm -f "$dir/iwarpd.conf"
install -m 644 /dev/null "$dir/iwarpd.conf"
as_service
is $? 124 "a configuration of root's, and a run directory of the service's user: it starts" || sed 's/^/# /' "$dir/log"

# nor is a run directory that is somebody else's: he would put his socket in the place of ours
for how in "chown nobody" "chmod o+w" "chmod g+w"; do
	rm -rf "$dir/run"
	install -d -m 755 "$dir/run"
	$how "$dir/run"
	as_root
	is $? 1 "$how: a run directory that others may write is refused"
done
done_testing
