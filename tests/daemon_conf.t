#!/bin/bash
# SPDX-License-Identifier: MIT
# Settings that the daemon warns about, does not start with, or reads again while it runs.
. "$(dirname "$0")/lib/tap.sh"
: "${IW_BUILD:=$PWD/build/plain}"
[ "$(id -u)" = 0 ] || skip_all "not root"
dir=$(mktemp -d "${TMPDIR:-/tmp}/iwt-conf.XXXXXX")
daemon=
trap 'test -z "$daemon" || kill "$daemon" 2>/dev/null; rm -rf "$dir"' EXIT

# Start it in a network namespace of its own; its log is $dir/log.
start() {
	: >"$dir/log"	# by us: what the last one said there is not to be taken for what this one says
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
	sees() { [ "$(grep -c "settings were read again; changed: nothing" "$dir/log")" = "$i" ]; }
	until_true 20 sees
	ok $? "SIGHUP $i: it reads its settings, which are what they were"
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

# ---- read again ----
status() { "$IW_BUILD/iwctl" --run-dir "$dir/run" -j status | python3 -c 'import json, sys; print(json.load(sys.stdin)[sys.argv[1]])' "$1"; }
hup() { # TEXT NAME: after a line more that has the text
	local n
	n=$(grep -c "$1" "$dir/log")
	more() { [ "$(grep -c "$1" "$dir/log")" -gt "$n" ]; }
	kill -HUP "$daemon"
	until_true 20 more "$1"
	ok $? "$2" || sed 's/^/# /' "$dir/log"
}
# a manager that says what it is told of a reload
timeout 60 python3 -c '
import socket, sys, time
s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
s.bind(sys.argv[1])
loading = False
while True:
    said = s.recv(4096).decode().splitlines()
    if "RELOADING=1" in said:
        at = int([x for x in said if x.startswith("MONOTONIC_USEC=")][0][15:])
        loading = 0 <= time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000 - at < 60000000
    elif loading and "READY=1" in said:
        sys.exit(print("reloading, ready"))
' "$dir/notify" >"$dir/said" &
listener=$!
until_true 20 test -S "$dir/notify"
echo "max_ird = 8" >"$dir/iwarpd.conf"
NOTIFY_SOCKET=$dir/notify start -o log_level=info -o inline_max=100
until_true 20 logged "control port"
cat >"$dir/iwarpd.conf" <<END
crc = off
ring_size = 64K
inline_max = 200
log_level = debug
run_dir = $dir/other
control_port = 875
END
hup "changed: crc, ring_size, max_ird$" "SIGHUP: what has changed is named, and what an option says is not"
wait $listener
is "$(cat "$dir/said")" "reloading, ready" "the service manager is told when it begins and ends"
rm "$dir/notify"
is "$(status ring_size) $(status inline_max) $(status crc) $(status control_port) $(status run_dir)" "65536 100 False 874 $dir/run" "and it is so, but for what stays"
is "$(grep -c "warning: as before until iwarpd is restarted: control_port$" "$dir/log")" 1 "which the log names" || sed 's/^/# /' "$dir/log"
is "$(grep -c "crc = off.*IPsec" "$dir/log")" 1 "crc = off: a warning"
hup "changed: nothing" "once more: nothing is new"
is "$(grep -c "crc = off.*IPsec" "$dir/log")" 1 "of which no warning is"
# what is wrong is all left alone
printf 'ring_size = 4M\n\nmax_ird = 99\n' >"$dir/iwarpd.conf"
hup "iwarpd.conf:3: max_ird = 99: not accepted; give 1 to 32" "a wrong line is named"
printf 'ring_size = 4M\ncontrol_port = 8740\n' >"$dir/iwarpd.conf"
hup "say trust_high_port = yes" "and settings that do not go together"
echo 'ring_size = 4M' >"$dir/iwarpd.conf"
chmod o+w "$dir/iwarpd.conf"
hup "refused" "and a file that others may write"
mv "$dir/iwarpd.conf" "$dir/away"
hup "iwarpd.conf: No such file" "and a file that is gone"
mkfifo "$dir/iwarpd.conf"
hup "not a regular file" "and a pipe, on which it does not wait"
rm "$dir/iwarpd.conf"
is "$(grep -c "error: all settings are as before" "$dir/log")" 5 "each time it says that nothing has changed"
is "$(status ring_size) $(status crc)" "65536 False" "and nothing has"
echo 'control_port = 874' >"$dir/iwarpd.conf"
hup "changed: crc, ring_size$" "what is not said any more is the default again"
is "$(status ring_size) $(status crc)" "1048576 True" "and it is so"
stop
: >"$dir/iwarpd.conf"
start
until_true 20 logged "control port"
"$IW_BUILD/iwctl" --run-dir "$dir/run" status >/dev/null
logged "debug:"
is $? 1 "log_level is info"
echo "log_level = debug" >"$dir/iwarpd.conf"
hup "changed: log_level" "log_level = debug"
"$IW_BUILD/iwctl" --run-dir "$dir/run" status >/dev/null
: >"$dir/iwarpd.conf"
hup "changed: log_level" "and info again"
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
	: >"$dir/log"
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
# As root and as iwarpd.service starts it; its status is 124 when it did not end by itself.
as_root() { timeout 60 unshare -n "$dir/iwarpd" -c "$dir/iwarpd.conf" -r "$dir/run" >"$dir/log" 2>&1; }
as_service() {
	${limit-timeout 60} unshare -n setpriv --reuid 990 --regid 990 --clear-groups env RUNTIME_DIRECTORY="$dir/run990" \
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
limit=exec as_service &
daemon=$!
until_true 20 logged "control port"
ok $? "a configuration of root's, and a run directory of the service's user: it starts" || sed 's/^/# /' "$dir/log"
stop

# nor is a run directory that is somebody else's: he would put his socket in the place of ours
for how in "chown nobody" "chmod o+w" "chmod g+w"; do
	rm -rf "$dir/run"
	install -d -m 755 "$dir/run"
	$how "$dir/run"
	as_root
	is $? 1 "$how: a run directory that others may write is refused"
done
done_testing
