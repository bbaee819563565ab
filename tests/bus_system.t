#!/bin/bash
# SPDX-License-Identifier: MIT
# The daemon on a system bus of our own, under the policy that is installed: iwctl --system, who may see what, and a bus that goes away.
. "$(dirname "$0")/lib/rig.sh"
rig_need dbus-daemon busctl setpriv
RIG_NO_DAEMON=1 rig_up 1

cat >"$RIG_DIR/bus.conf" <<XML
<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-BUS Bus Configuration 1.0//EN" "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig>
  <type>system</type>
  <listen>unix:path=$RIG_DIR/system_bus</listen>
  <auth>EXTERNAL</auth>
  <policy context="default">
    <allow user="*"/>
    <deny own="*"/>
    <deny send_type="method_call"/>
    <allow send_type="signal"/>
    <allow send_requested_reply="true" send_type="method_return"/>
    <allow send_requested_reply="true" send_type="error"/>
    <allow receive_type="method_call"/>
    <allow receive_type="method_return"/>
    <allow receive_type="error"/>
    <allow receive_type="signal"/>
    <allow send_destination="org.freedesktop.DBus" send_interface="org.freedesktop.DBus"/>
  </policy>
  <include>$RIG_DIR/policy.conf</include>
</busconfig>
XML
# the daemon is root here; at first its user is as unknown to the bus as one that is made after the policy was read
sed 's/<policy user="root">/<policy user="iwt-nobody-has-this-name">/' "$RIG_TESTS/../conf/org.iwsock.Daemon1.conf" >"$RIG_DIR/policy.conf"
chmod 755 "$RIG_DIR"
export DBUS_SYSTEM_BUS_ADDRESS=unix:path=$RIG_DIR/system_bus
host_bg 1 bus.log dbus-daemon --nofork --nopidfile --config-file="$RIG_DIR/bus.conf"
bus=$!
until_true 10 test -S "$RIG_DIR/system_bus"
ok $? "a bus runs" || diag "$(cat "$RIG_DIR/bus.log")"
daemon_start 1
warned() { [ "$(grep -c 'warning: bus: the system bus does not give us the name.*systemctl reload dbus' "$RIG_DIR/iwarpd.1.log")" = 1 ]; }
until_true 10 warned
ok $? "no right to the name: the daemon says so, and what to do"
cp "$RIG_TESTS/../conf/org.iwsock.Daemon1.conf" "$RIG_DIR/policy.conf"
busctl --address="$DBUS_SYSTEM_BUS_ADDRESS" call org.freedesktop.DBus /org/freedesktop/DBus org.freedesktop.DBus ReloadConfig
ok $? "the bus reads its policy again"
on_bus() { [ "$(host_ctl 1 -j status | json "d['system_bus']")" = True ]; }
until_true 10 on_bus
ok $? "the daemon has its name on the bus"
warned
ok $? "it was said once"

system() { "$IW_BUILD/iwctl" --system "$@"; }
is "$(system -j status | json "d['pid']")" "$(host_ctl 1 -j status | json "d['pid']")" "iwctl --system asks the same daemon"
busctl --address="$DBUS_SYSTEM_BUS_ADDRESS" introspect --xml-interface org.iwsock.Daemon1 /org/iwsock/Daemon1 >"$RIG_DIR/interface.xml"
out=$(python3 "$RIG_TESTS/lib/interface.py" "$RIG_DIR/interface.xml" | diff "$RIG_TESTS/bus_interface.list" -)
is "$out" "" "the interface is what tests/bus_interface.list says"
is "$(busctl --address="$DBUS_SYSTEM_BUS_ADDRESS" get-property org.iwsock.Daemon1 /org/iwsock/Daemon1 org.iwsock.Daemon1 Version)" \
	"s \"$(host_ctl 1 -j status | json "d['version']")\"" "it has properties"
for method in Unsubscribe Subscribe; do
	busctl --address="$DBUS_SYSTEM_BUS_ADDRESS" call org.iwsock.Daemon1 /org/iwsock/Daemon1 org.iwsock.Daemon1 "$method"
	ok $? "$method is answered"
done
kill -STOP "$(daemon_pid 1)"
out=$(system status 2>&1)
is "$? $(grep -c 'does not answer: its process is stopped; nothing within 1 s' <<<"$out")" "3 1" "one that hangs is given up after a second" || diag "$out"
kill -CONT "$(daemon_pid 1)"
host_bg_iw 1 server.log socat TCP-LISTEN:7001,bind=127.0.0.1,reuseaddr,fork EXEC:cat,nofork
host_port 1 7001
is "$(system -j stags)" "[]" "root may ask for STags"
cp "$IW_BUILD/iwctl" "$RIG_DIR/iwctl"
as() { setpriv --reuid 65534 --regid 65534 --clear-groups "$RIG_DIR/iwctl" --system "$@"; }
is "$(as -j stags)" "[]" "another user, too, and sees his own"
is "$(as -j status | json "d['peers']")" 0 "and the totals"
for i in $(seq 40); do as -j streams >/dev/null || echo bad; done | sort -u >"$RIG_DIR/many"
is "$(cat "$RIG_DIR/many")" "" "forty askers after one another"


# ---- signals: to subscribers, each what he may see ----
signals() {
	local name=$1
	shift
	rig_apart "$@" >"$RIG_DIR/$name.log" 2>&1 </dev/null &
	RIG_PIDS+=($!)
}
subscribers() { [ "$(host_ctl 1 -j status | json "d['subscribers']")" = "$1" ]; }
others=(setpriv --reuid 65534 --regid 65534 --clear-groups)
signals root "$IW_BUILD/iwctl" --system -j events
root=$!
signals other "${others[@]}" "$RIG_DIR/iwctl" --system -j events
other=$!
until_true 10 subscribers 2
ok $? "two subscribe" || diag "$(cat "$RIG_DIR/root.log" "$RIG_DIR/other.log")"
signals spy "${others[@]}" busctl --address="$DBUS_SYSTEM_BUS_ADDRESS" monitor --match "type='signal',interface='org.iwsock.Daemon1',eavesdrop='true'"
signals match "${others[@]}" dbus-monitor --address "$DBUS_SYSTEM_BUS_ADDRESS" "type='signal',interface='org.iwsock.Daemon1'"
until_true 10 grep -q NameAcquired "$RIG_DIR/match.log"
ok $? "and one who only looks is there, too"
host_bg_iw 1 echo.log socat TCP-LISTEN:7002,bind=127.0.0.1,reuseaddr,fork PIPE
host_port 1 7002
mkfifo "$RIG_DIR/in"
host_bg_iw 1 client.log sh -c "exec nc -N 127.0.0.1 7002 <$RIG_DIR/in"
exec 8>"$RIG_DIR/in"
told() { echo hello >&8; grep -q '"event":"upgraded"' "$RIG_DIR/root.log"; }
until_true 20 told
ok $? "root is told of a connection" || diag "$(cat "$RIG_DIR/root.log"; host_ctl 1 streams)"
is "$(cat "$RIG_DIR/other.log")$(grep -c iwsock "$RIG_DIR/match.log" "$RIG_DIR/spy.log" | sed 's/.*://' | tr -d '0\n')" "" "nobody else is"
exec 8>&-
host_end "$other"
until_true 10 subscribers 1
ok $? "who leaves the bus is no subscriber"

host_end "$bus"
wait "$root"
is $? 3 "iwctl events ends with the bus"
until_true 10 subscribers 0
ok $? "and so do subscriptions"
is "$(host_ctl 1 -j status | json "d['pid']")" "$(daemon_pid 1)" "the daemon lives on without the bus"
off_bus() { [ "$(host_ctl 1 -j status | json "d['system_bus']")" = False ]; }
until_true 10 off_bus
ok $? "and knows that it is gone"
system status >/dev/null 2>&1
is $? 3 "iwctl --system without a bus: exit code 3"

rm -f "$RIG_DIR/system_bus"
host_bg 1 bus.log dbus-daemon --nofork --nopidfile --config-file="$RIG_DIR/bus.conf"
until_true 30 on_bus
ok $? "the bus comes back, and the daemon to it"
is "$(system -j status | json "d['pid']")" "$(daemon_pid 1)" "iwctl --system asks it again"
done_testing
