#!/bin/bash
# SPDX-License-Identifier: MIT
# iwctl doctor and iwrun, with a daemon and without; iwctl service where there is no systemd, or one that does not answer.
. "$(dirname "$0")/lib/rig.sh"
rig_need python3
rig_up 2
cd "$RIG_TESTS/.." || exit 1
ctl=$IW_BUILD/iwctl
# of host 1, in its network
doctor() { host_exec 1 "$ctl" --run-dir "$(host_dir 1)" doctor "$@"; }
lines() { grep -c "$1" <<<"$out"; }

# ---- iwrun ----
run=$RIG_DIR/iwrun
sed -e "s|@libdir@|$IW_BUILD|; s|@VERSION@|9.9|" conf/iwrun >"$run"
chmod 755 "$run"
# shellcheck disable=SC2016 # that shell's
is "$("$run" A=b sh -c 'echo "$A $LD_PRELOAD $1"' sh c)" "b $IW_BUILD/libiwsock.so c" "iwrun: a program has the library, arguments and NAME=VALUE"
# shellcheck disable=SC2016
is "$(LD_PRELOAD=/lib/x86_64-linux-gnu/libz.so.1 "$run" sh -c 'echo "$LD_PRELOAD"')" "$IW_BUILD/libiwsock.so:/lib/x86_64-linux-gnu/libz.so.1" "before what is there"
is "$("$run" --version)" "iwrun 9.9" "iwrun --version"
"$run" sh -c 'exit 7'
is $? 7 "exit status of the program"
"$run" "$RIG_DIR/nothing" 2>/dev/null
is $? 127 "of one that is not there"
"$run" "$RIG_DIR" 2>/dev/null
is $? 126 "of one that cannot be started"
err=$("$run" --frob true 2>&1)
is "$? $(grep -c 'unknown option --frob' <<<"$err")" "125 1" "an unknown option"
"$run" 2>/dev/null
is $? 125 "no program"
sed "s|@libdir@|$RIG_DIR/none|" conf/iwrun >"$RIG_DIR/iwrun2"
err=$(sh "$RIG_DIR/iwrun2" true 2>&1)
is "$? $(grep -c "$RIG_DIR/none/libiwsock.so is not there" <<<"$err")" "125 1" "no library" || diag "$err"

# ---- doctor ----
out=$(doctor)
is "$? $(lines '^ok .*library  *'"$IW_BUILD/libiwsock.so"'$') $(lines '^ok .*daemon ') $(lines '^ok .*control port ') $(lines '^bad')" "0 1 1 1 0" "doctor of a host with a daemon" || diag "$out"
is "$(doctor --json | json "(d['subject'], d['ok'], sorted(d['checks'][0]))")" "('this host', True, ['check', 'text', 'verdict'])" "--json"
out=$(doctor 10.77.0.2:7001)
is "$? $(lines '^ok *way .*answers at port')" "0 1" "the way to a host with a daemon" || diag "$out"
out=$(doctor)
is "$(lines '^ok *other hosts *1 with iwarpd')" 1 "which is known then" || diag "$out"
out=$(doctor nowhere.invalid:1)
is "$? $(lines '^bad *name ')" "1 1" "a name that does not resolve" || diag "$out"

host_bg_iw 1 server.log socat TCP-LISTEN:7001,bind=10.77.0.1,reuseaddr,fork PIPE
has=$!
host_bg 1 without.log socat TCP-LISTEN:7002,bind=10.77.0.1,reuseaddr,fork PIPE
without=$!
host_bg_iw 1 off.log env IWSOCK_DISABLE=1 socat TCP-LISTEN:7003,bind=10.77.0.1,reuseaddr,fork PIPE
off=$!
host_told 1 static "$IW_BUILD/tests/lib/echoer"
static=$!
host_port 1 7001 && host_port 1 7002 && host_port 1 7003
out=$(doctor "$has")
is "$? $(lines "^ok *process *socat\[$has\] has libiwsock.so at work")" "0 1" "a process with the library" || diag "$out"
out=$(doctor "$without")
is "$? $(lines "^bad *process *socat\[$without\] runs without")" "1 1" "one without" || diag "$out"
out=$(doctor "$off")
is "$? $(lines "^bad *process *socat\[$off\] has .* switched off there") $(lines 'Take IWSOCK_DISABLE out')" "1 1 1" "one where it is switched off" || diag "$out"
out=$(doctor "$static")
is "$? $(lines "^bad *process *echoer\[$static\] is statically linked")" "1 1" "a static one" || diag "$out"
tell_end static "$static"
out=$(doctor 4194304)
is "$? $(lines 'there is no process 4194304')" "1 1" "no such process"
"$ctl" doctor 0 2>/dev/null
is $? 2 "no number of a process: usage"
"$ctl" doctor a b 2>/dev/null
is $? 2 "two arguments: usage"
"$ctl" doctor fe80::1:2 2>/dev/null
is $? 2 "an IPv6 address without brackets: usage"
out=$(doctor)
is "$(lines '^warn *programs *1 have it loaded, and switched off')" 1 "the host's programs" || diag "$out"

# ---- a firewall, a host without daemon, a daemon that hangs, none ----
daemon_stop 2
out=$(doctor 10.77.0.2:7001)
is "$? $(lines '^bad *firewall *port 874 of 10.77.0.2 refuses')" "1 1" "nobody at the other host's control port" || diag "$out"
host_exec 2 ip rule add pref 1 ipproto tcp sport 874 blackhole && host_exec 2 ip rule add pref 1 iif eth0 ipproto tcp dport 874 blackhole
out=$(doctor 10.77.0.2:7001)
is "$? $(lines '^bad *firewall *port 874 of 10.77.0.2: no answer within')" "1 1" "a firewall drops it" || diag "$out"
kill -STOP "$(daemon_pid 1)"
out=$(doctor)
is "$? $(lines '^bad *daemon *iwarpd does not answer')" "1 1" "a daemon that does not answer" || diag "$out"
kill -CONT "$(daemon_pid 1)"
daemon_stop 1
out=$(doctor "$has")
is "$? $(lines '^bad *daemon ') $(lines "^ok *process *socat\[$has\] has libiwsock.so at work")" "1 1 1" "no daemon" || diag "$out"
out=$(doctor 10.77.0.2:7001)
is "$(lines '^bad *firewall *port 874 of 10.77.0.2: no answer within')" 1 "the firewall is seen without one" || diag "$out"

# ---- no systemd ----
service() { DBUS_SYSTEM_BUS_ADDRESS=unix:path=$RIG_DIR/bus timeout 30 "$ctl" service "$@" 2>&1; }
out=$(service redis on)
is "$? $(lines 'systemd cannot be asked: no system bus')" "4 1" "service without a system bus" || diag "$out"
python3 -c '
import signal, socket, sys
s = socket.socket(socket.AF_UNIX)
s.bind(sys.argv[1])
s.listen(9)
signal.pause()' "$RIG_DIR/bus" &
silent=$!
RIG_PIDS+=("$silent")
until_true 10 test -S "$RIG_DIR/bus"
out=$(service redis on)
is "$? $(lines 'the system bus does not answer')" "4 1" "one that does not answer" || diag "$out"
host_end "$silent"
for args in "redis" "redis enable" "redis on now" "redis check --restart" "redis on --frob" "a/b on" "redis.socket on"; do
	# shellcheck disable=SC2086
	service $args >/dev/null
	is $? 2 "service $args: usage"
done
service --help | grep -q '^usage: iwctl service NAME'
ok $? "service --help"
done_testing
