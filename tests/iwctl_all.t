#!/bin/bash
# SPDX-License-Identifier: MIT
# Every sub-command that iwctl --help names: the stable names of its --json, and that it ends within about a second, and says why, when the daemon hangs.
. "$(dirname "$0")/lib/rig.sh"
rig_need python3
rig_up 2
ctl=$IW_BUILD/iwctl

# ---- one connection over iWARP, one that has ended, a server that iwctl rping pings ----
host_bg_iw 2 server.log python3 "$RIG_TESTS/lib/talk.py" server 10.77.0.2 7001
host_bg 2 rping.log "$ctl" rping -s -P -a 10.77.0.2
host_port 2 7001 && host_port 2 7174
host_told 1 c python3 "$RIG_TESTS/lib/talk.py" client 10.77.0.2 7001
c=$!
mapped() { tell "$1" 20 && [ "$(stream_count 1 "r['path'] == 'mapped'")" = "$2" ]; }
until_true 20 mapped c 1
ok $? "a connection is mapped" || diag "$(host_ctl 1 streams)"
host_told 1 d python3 "$RIG_TESTS/lib/talk.py" client 10.77.0.2 7001
d=$!
until_true 20 mapped d 2
tell_end d "$d"
ended() { [ "$(host_ctl 1 -j streams --ended | json 'len(d)')" -ge 1 ]; }
until_true 20 ended
ok $? "another has ended"
echo "iwarp both * *" >"$RIG_DIR/good.conf"
id=$(host_ctl 1 -j streams | json "d[0]['id']")

# ---- what each is given here, and the names that it has: of an object, or of the first of a list; a.b[0].c looks deeper ----
conn="id pid uid fd program local peer transport state path side reason reason_number since_proposal_ms proposed_octets proposed_calls"
verdicts="subject ok checks checks[0].check checks[0].text checks[0].verdict"
declare -A args names alone
while IFS='|' read -r name how arguments wanted; do
	args[$name]=$arguments
	names[$name]=$wanted
	[ "$how" = daemon ] || alone[$name]=1	# "alone": has something to say without a daemon
done <<-EOF
	status|daemon||version pid uid uptime_ms run_dir control_port peers programs streams_iwarp streams_local streams_pending plain tx_bytes rx_bytes
	streams|daemon||$conn age_ms idle_ms tx_bytes rx_bytes tx_sends rx_sends tx_writes rx_writes tx_immediates rx_immediates tx_reads rx_reads tx_fpdus rx_fpdus
	top|daemon|-d 0.1|program processes streams local tx_bytes_per_s rx_bytes_per_s tx_messages_per_s rx_messages_per_s
	metrics|daemon||name type help samples samples[0].value
	why|daemon|$c|connections notes connections[0].transport connections[0].id
	check|daemon|10.77.0.2:7001|ok address port steps
	peers|daemon||address state reason reason_number session_in session_out streams
	devices|daemon||
	stags|daemon||stag to uid length access stream
	reasons|daemon||reason reason_number as_client as_server sentence advice
	check-policy|alone|$RIG_DIR/good.conf|ok errors rules rules[0].transport rules[0].when rules[0].program rules[0].address
	upgrade|daemon|$id|$conn asked why
	downgrade|daemon|$id|$conn asked why
	close|daemon|--idle 9999|
	events|daemon|--count 1|
	service|alone|nothing check|
	doctor|alone||$verdicts
	report|alone|-o $RIG_DIR/report.$RANDOM$RANDOM.tar.gz|file octets root parts parts[0].part parts[0].ok
	rping|alone|-c -a 10.77.0.2 -C 3|role ok pings octets us crc p2p validated
EOF
commands=$("$ctl" --help | sed -n 's/^  \([a-z-]\{2,\}\) .*/\1/p' | sort)
is "$commands" "$(printf '%s\n' "${!args[@]}" | sort)" "each sub-command has a row here"

missing() { # NAME...: of those, what the document on standard input does not have
	python3 -c '
import json, re, sys
def has(d, path):
    for part in path.replace("[0]", ".0").split("."):
        try:
            d = d[0] if part == "0" else d[part]
        except (KeyError, IndexError, TypeError):
            return False
    return True
d = json.load(sys.stdin)
d = d[0] if isinstance(d, list) and len(sys.argv) > 1 else d
print(" ".join(n for n in sys.argv[1:] if not has(d, n)))' "$@"
}
# rping is a program of host 1's network, and so is who looks at it
run() { host_exec 1 timeout 60 "$ctl" --run-dir "$(host_dir 1)" "$@"; }
for cmd in $commands; do
	[[ $cmd != service && $cmd != events ]] || continue	# tests/boot/service.t, tests/events.t
	# shellcheck disable=SC2086
	is "$(run --json "$cmd" ${args[$cmd]} 2>"$RIG_DIR/err" | missing ${names[$cmd]} 2>&1)" "" "$cmd --json: it has its names" || { cat "$RIG_DIR/err"; run --json "$cmd" ${args[$cmd]} | head -n 30; } | sed 's/^/# /'
done
is "$(run --json streams --ended | missing id program peer how reason since_end_ms duration_ms)" "" "streams --ended --json: it has its names" || run --json streams --ended | sed 's/^/# /'
is "$(run --json close "$id" | missing closed why id)" "" "close ID --json: it has its names"
tell_end c "$c"

# ---- it hangs ----
# how long it waited is what it says: a busy machine takes its time for all else
kill -STOP "$(daemon_pid 1)"
gone="iwarpd does not answer: its process is stopped; nothing within 1 s"
isnt_124() { [ "$1" != 124 ]; ok $? "$2"; }
hung() { # COMMAND ARGUMENT...
	local code
	out=$(run "$@" 2>&1)
	code=$?
	if [ -n "${alone[$cmd]-}" ]; then
		isnt_124 "$code" "$*: ends"
	else
		is "$code $(grep -c "$gone" <<<"$out")" "3 1" "$*: is given up after a second" || diag "$out"
	fi
}
for cmd in $commands; do
	# shellcheck disable=SC2086
	hung "$cmd" ${args[$cmd]}
	# shellcheck disable=SC2086
	hung --json "$cmd" ${args[$cmd]}
	[ "$cmd" != doctor ] || is "$(grep -c "$gone" <<<"$out")" 1 "doctor: is given up after a second" || diag "$out"
done
cmd=streams
hung streams --ended
hung streams --watch
cmd=top
hung top --count 3
cmd=close
hung close "$id"
cmd=doctor
hung doctor 10.77.0.2:7001
kill -CONT "$(daemon_pid 1)"

# ---- one whose socket takes nobody any more: it listens, and one has come that it does not accept ----
mkdir "$RIG_DIR/full"
host_bg 1 full.log python3 -c '
import signal, socket, sys
l = socket.socket(socket.AF_UNIX)
l.bind(sys.argv[1])
l.listen(0)
c = socket.socket(socket.AF_UNIX)
c.connect(sys.argv[1])
print("full", flush=True)
signal.pause()' "$RIG_DIR/full/bus.sock"
until_true 20 grep -q full "$RIG_DIR/full.log"
out=$(timeout 60 "$ctl" --run-dir "$RIG_DIR/full" status 2>&1)
is "$? $(grep -c 'it accepts nobody' <<<"$out")" "3 1" "a daemon that accepts nobody is given up" || diag "$out"
run status >/dev/null
ok $? "it is answered when the daemon goes on"
done_testing
