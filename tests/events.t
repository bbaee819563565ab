#!/bin/bash
# SPDX-License-Identifier: MIT
# Signals of the daemon, and iwctl events: upgrades, ends, what stays plain, other hosts; each user his own; what is too much is counted.
. "$(dirname "$0")/lib/rig.sh"
rig_need socat nc
rig_up 2
dir=$(host_dir 1)

# listen NAME OPTION...: iwctl events of host 1 into NAME.log, as soon as it is subscribed
subscribers() { [ "$(host_ctl 1 -j status | json "d['subscribers']")" = "$1" ]; }
listeners=0
listen() {
	local name=$1
	shift
	rig_apart "$@" >"$RIG_DIR/$name.log" 2>&1 </dev/null &
	RIG_PIDS+=($!)
	listeners=$((listeners + 1))
	until_true 10 subscribers "$listeners"
	ok $? "$name is subscribed" || diag "$(cat "$RIG_DIR/$name.log")"
}
# told NAME CONDITION: there is such an event
told() { python3 -c '
import json, sys
sys.exit(not any(eval(sys.argv[2]) for e in map(json.loads, open(sys.argv[1]))))' "$RIG_DIR/$1.log" "$2"; }

is "$(host_ctl 1 -j status | json "d['subscribers'], d['signals_missed']")" "0 0" "at first nobody listens"
listen root "$IW_BUILD/iwctl" --run-dir "$dir" -j events
root=$!
listen people "$IW_BUILD/iwctl" --run-dir "$dir" events
if command -v setpriv >/dev/null; then
	chmod 711 "$RIG_DIR" "$dir"
	cp "$IW_BUILD/iwctl" "$RIG_DIR/iwctl"
	listen other setpriv --reuid 65534 --regid 65534 --clear-groups "$RIG_DIR/iwctl" --run-dir "$dir" -j events
fi
listen few "$IW_BUILD/iwctl" --run-dir "$dir" -j events --count 1
few=$!

# ---- one that is upgraded, and ends ----
host_bg_iw 2 server.log socat TCP-LISTEN:7001,bind=10.77.0.2,reuseaddr,fork PIPE
host_port 2 7001
mkfifo "$RIG_DIR/in"
host_bg_iw 1 client.log sh -c "exec nc -N 10.77.0.2 7001 <$RIG_DIR/in"
client=$!
exec 8>"$RIG_DIR/in"
upgraded() { echo hello >&8; told root "e['event'] == 'upgraded'"; }
until_true 20 upgraded
ok $? "an upgrade is told" || diag "$(cat "$RIG_DIR/root.log")"
id=$(host_ctl 1 -j streams | json "[r['id'] for r in d if r['transport'] == 'iwarp'][0]")
told root "e['event'] == 'upgraded' and (e['id'], e['pid'], e['uid'], e['program'], e['peer'], e['transport']) == ('$id', $client, 0, 'nc', '10.77.0.2:7001', 'iwarp')"
ok $? "with stream, program and addresses" || diag "$(cat "$RIG_DIR/root.log")"
told root "e['event'] == 'peer' and (e['address'], e['old_state'], e['state']) == ('10.77.0.2', 'unknown', 'iwarp')"
ok $? "and that the other host has a daemon" || diag "$(cat "$RIG_DIR/root.log")"
wait "$few"
is "$? $(wc -l <"$RIG_DIR/few.log")" "0 1" "--count 1 ends after one"
listeners=$((listeners - 1))
until_true 10 subscribers "$listeners"
ok $? "and is no subscriber any more"
exec 8>&-
until_true 20 told root "e['event'] == 'ended'"
ok $? "an end is told" || diag "$(cat "$RIG_DIR/root.log")"
ended=$(host_ctl 1 -j streams --ended | json "[(r['how'], r['tx_bytes'], r['rx_bytes']) for r in d if r['id'] == '$id'][0]")
told root "e['event'] == 'ended' and (e['id'], e['pid']) == ('$id', $client) and (e['how'], e['tx_bytes'], e['rx_bytes']) == $ended and e['tx_bytes'] > 0"
ok $? "how, and what it had carried" || diag "$(cat "$RIG_DIR/root.log")"

# ---- one that stays plain, and a pair of this host ----
printf 'upgrade_after 0\ntcp both * *:7002\n' >"$RIG_DIR/plain.conf"
host_bg 2 plain.log socat TCP-LISTEN:7002,bind=10.77.0.2,reuseaddr,fork PIPE
host_port 2 7002
echo hello | IWSOCK_CONF=$RIG_DIR/plain.conf host_exec_iw 1 nc -N 10.77.0.2 7002 >/dev/null
until_true 20 told root "e['event'] == 'plain' and (e['reason'], e['program'], e['peer']) == ('policy', 'nc', '10.77.0.2:7002')"
ok $? "one that stays plain is told, and why" || diag "$(cat "$RIG_DIR/root.log")"
host_bg_iw 1 local.log socat TCP-LISTEN:7003,bind=127.0.0.1,reuseaddr,fork PIPE
host_port 1 7003
mkfifo "$RIG_DIR/in2"
host_bg_iw 1 client2.log sh -c "exec nc -N 127.0.0.1 7003 <$RIG_DIR/in2"
exec 8>"$RIG_DIR/in2"
joined() { echo hello >&8; told root "e.get('transport') == 'local' and e['side'] == 'client'" && told root "e.get('transport') == 'local' and e['side'] == 'server'"; }
until_true 20 joined
ok $? "both ends of a pair of this host are told" || diag "$(cat "$RIG_DIR/root.log")"
exec 8>&-
both_ended() { told root "e['event'] == 'ended' and e['transport'] == 'local' and e['side'] == 'client'"; }
until_true 20 both_ended
ok $? "and its end" || diag "$(cat "$RIG_DIR/root.log")"

for what in "upgraded  $id, nc (pid $client), .* - 10.77.0.2:7001: iwarp" "ended  *$id, nc (pid $client), .*: closed after .* sent" "plain .*: policy" \
	"peer  *10.77.0.2: iwarp, was unknown"; do
	until_true 20 grep -q "^[0-9:]\{8\} $what" "$RIG_DIR/people.log"	# a listener of its own, who may be later
	ok $? "for people: ${what%% *}" || diag "$(cat "$RIG_DIR/people.log")"
done
if command -v setpriv >/dev/null; then
	until_true 20 grep -q '"peer"' "$RIG_DIR/other.log"
	is "$(python3 -c '
import json, sys
print(sorted({json.loads(line)["event"] for line in open(sys.argv[1])}))' "$RIG_DIR/other.log")" "['peer']" "another user learns of hosts, and of nothing else"
fi

# ---- too much ----
printf 'upgrade_after 0\ntcp both * *\n' >"$RIG_DIR/plain.conf"
cat >"$RIG_DIR/many.py" <<'PY'
import socket
for i in range(400):
    with socket.create_connection(("127.0.0.1", 7004)) as s:
        s.sendall(b"x")
        s.recv(1)
PY
cat >"$RIG_DIR/sink.py" <<'PY'
import socket
s = socket.create_server(("127.0.0.1", 7004))
while True:
    with s.accept()[0] as c:
        c.sendall(c.recv(1))
PY
host_bg 1 sink.log python3 "$RIG_DIR/sink.py"
host_port 1 7004
missed() { host_ctl 1 -j status | json "d['signals_missed']"; }
counts() { python3 -c '
import json, sys
n = [json.loads(line) for line in open(sys.argv[1])]
print(sum(e.get("missed", 0) for e in n), sum(e.get("reason") == "policy" for e in n))' "$RIG_DIR/root.log"; }
flood() {
	IWSOCK_CONF=$RIG_DIR/plain.conf host_exec_iw 1 python3 "$RIG_DIR/many.py"
	[ "$(missed)" -gt 0 ]
}
policy() { host_ctl 1 -j reasons | json "sum(r['as_client'] for r in d if r['reason'] == 'policy')"; }
until_true 20 flood
ok $? "of a flood something is left out"
all_told() {
	read -r left plain <<<"$(counts)"
	[ "$left" -gt 0 ] && [ $((left + plain)) = "$(policy)" ]
}
until_true 20 all_told
ok $? "what is left out is counted: none is lost unsaid" || diag "policy $(policy), told $(counts), status $(missed)"

daemon_stop 1
wait "$root"
is $? 3 "the daemon ends: exit code 3"
"$IW_BUILD/iwctl" --run-dir "$dir" events 2>/dev/null
is $? 3 "and without one, too"
"$IW_BUILD/iwctl" events --count 0 2>/dev/null
is $? 2 "wrong usage"
done_testing
