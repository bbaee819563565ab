#!/bin/bash
# SPDX-License-Identifier: MIT
# iwctl against a daemon: every sub-command, its exit codes, the stable names of --json, who may see what, and clients that misbehave.
. "$(dirname "$0")/lib/rig.sh"
rig_up 2
dir=$(host_dir 1)
ctl=$IW_BUILD/iwctl

# ---- names are an interface: this list only grows ----
keys() { python3 -c '
import json, sys
d = json.load(sys.stdin)
d = d[0] if isinstance(d, list) else d
print(" ".join(d))'; }
has() { # NAME GOT WANTED: every wanted word is there
	local w miss=
	for w in $3; do case " $2 " in *" $w "*) ;; *) miss+=" $w" ;; esac; done
	is "$miss" "" "$1"
}
conn="transport state side pid uid fd program local peer reason reason_number"
counts="tx_sends rx_sends tx_writes rx_writes tx_immediates rx_immediates tx_reads rx_reads tx_read_responses rx_read_responses
	tx_atomics rx_atomics tx_fpdus rx_fpdus tx_wire_bytes rx_wire_bytes tx_write_bytes rx_write_bytes tx_read_bytes rx_read_bytes
	rx_zero_tagged rx_tiny"
past="since_proposal_ms proposed_octets proposed_calls went_back"

has "status --json" "$(host_ctl 1 --json status | keys)" "version pid uid uptime_ms run_dir control_port system_bus programs peers
	$counts ended subscribers signals_missed upgrade_sum_ms upgrade_log2_ms tx_sizes_log4 streams_iwarp streams_local streams_pending streams_relay streams_closing plain proposed ends_switched ends_joined ends_upgraded ends_back stags tx_bytes rx_bytes crc markers large_fpdu keep_congestion provider device verbs ring_size
	inline_max read_threshold require_ipsec ipsec_policies"
is "$(host_ctl 1 -j streams)" "[]" "streams --json of an idle daemon is an empty list"
is "$(host_ctl 1 -j stags)" "[]" "and so is stags --json"
has "reasons --json" "$(host_ctl 1 -j reasons | keys)" "reason reason_number as_client as_server sentence advice"
is "$(host_ctl 1 -j reasons | json 'len(d)')" "$(grep -c '^X(' "$RIG_TESTS/../proto/reason.h")" "every reason of the table is told"

# ---- a connection over iWARP and a plain one ----
host_bg_iw 2 server.log socat TCP-LISTEN:7001,bind=10.77.0.2,reuseaddr,fork PIPE
host_bg 2 plain.log socat TCP-LISTEN:7002,bind=10.77.0.2,reuseaddr,fork EXEC:cat,nofork
host_port 2 7001 && host_port 2 7002
mkfifo "$RIG_DIR/in1" "$RIG_DIR/in2"
host_bg_iw 1 client1.log sh -c "exec nc -N 10.77.0.2 7001 <$RIG_DIR/in1"
c1=$!
exec 8>"$RIG_DIR/in1"
said=0
say_hello() { echo hello >&8 && said=$((said + 1)); }
over_iwarp() { say_hello; [ "$(stream_count "$1" "r['transport'] == 'iwarp'")" = 1 ]; }
until_true 20 over_iwarp 1 && until_true 20 over_iwarp 2
ok $? "a connection that is used comes to run over iWARP" || diag "$(host_ctl 1 streams; host_ctl 2 streams)"
host_bg_iw 1 client2.log sh -c "exec nc -N 10.77.0.2 7002 <$RIG_DIR/in2"
c2=$!
exec 9>"$RIG_DIR/in2"
echo hello >&9
until_true 10 grep -q hello "$RIG_DIR/client2.log"
ok $? "and one to a program without the library works"
waits() { [ "$(stream_count 1 "r['pid'] == $c2 and r['reason'] == 'unanswered'")" = 1 ]; }
until_true 10 waits
has "streams --json, iwarp" "$(host_ctl 1 -j streams | json "json.dumps([r for r in d if r['transport'] == 'iwarp'])" | keys)" \
	"id age_ms idle_ms tx_bytes rx_bytes $conn $counts $past since_upgrade_ms upgraded_at_tx upgraded_at_rx congestion congestion_told attempts path"
has "streams --json, tcp" "$(host_ctl 1 -j streams | json "json.dumps([r for r in d if r['transport'] == 'tcp'])" | keys)" "id $conn $past"
is "$(host_ctl 1 -j streams | json "[(r['pid'], r['peer']) for r in d if r['transport'] == 'iwarp']")" "[($c1, '10.77.0.2:7001')]" "pid and peer are right"
# of the stream: what was on its way at the switch counts at one end and one way only
settled() { [ "$(grep -c hello "$RIG_DIR/client1.log")" = $said ]; }
octets() { host_ctl 1 -j streams | json "'%d %d' % next((r['tx_bytes'] + $1, r['rx_bytes'] + $1) for r in d if r['transport'] == 'iwarp')"; }
until_true 10 settled
wanted=$(octets 6)
say_hello
more() { settled && [ "$(octets 0)" = "$wanted" ]; }
until_true 10 more
ok $? "octets are right" || diag "wanted $wanted, got $(octets 0)"
is "$(host_ctl 1 -j streams | json "[r['proposed_calls'] < 5 and r['proposed_octets'] < 60 and r['since_proposal_ms'] >= r['since_upgrade_ms'] and \
	r['upgraded_at_tx'] % 6 == 0 and r['went_back'] == 0 for r in d if r['transport'] == 'iwarp']")" "[True]" "when it was proposed and upgraded" ||
	diag "$(host_ctl 1 -j streams)"
is "$(host_ctl 1 -j streams | json "[(r['pid'], r['reason']) for r in d if r['transport'] == 'tcp']")" \
	"[($c2, 'unanswered')]" "and the reason of the other one is right"
has "stags --json" "$(host_ctl 1 -j stags | keys)" "stag to uid length access stream"
has "peers --json" "$(host_ctl 1 -j peers | keys)" "address state reason reason_number session_in session_out streams"

out=$(host_ctl 1 why "$c2")
is $? 0 "why PID"
is "$(grep -c 'Reason 29, unanswered: ' <<<"$out") $(grep -c '^  Proposed .* ago, after .* calls and .* octets' <<<"$out")" "1 1" \
	"gives the reason in a sentence, and what is known of it" || diag "$out"
out=$(host_ctl 1 why 10.77.0.2:7001)
is "$(grep -c 'It runs over iWARP' <<<"$out") $(grep -c 'until it was proposed .*; switched .* ago; upgraded .* ago' <<<"$out")" "1 1" \
	"why ADDR:PORT finds the accelerated one only, and tells its life" || diag "$out"
is "$(host_ctl 1 -j why 10.77.0.2 | json "len(d['connections'])")" 2 "why ADDR finds both"
fd=$(host_ctl 1 -j streams | json "[r['fd'] for r in d if r['transport'] == 'iwarp'][0]")
host_ctl 1 why "$c1/$fd" >/dev/null
is $? 0 "why PID/FD"
out=$(host_ctl 1 why "$c1/0")
is $? 1 "why PID/FD of something else"
is "$(grep -c 'is not a socket' <<<"$out")" 1 "says what it is"
out=$(host_ctl 1 why $$)
is "$(grep -c 'does not have libiwsock.so loaded' <<<"$out")" 1 "why PID of a program without the library"
out=$(host_ctl 1 why 4194304)
is "$out" "There is no process 4194304." "why PID of no process"
out=$(host_ctl 1 why 192.0.2.1:9)
is $? 1 "why of an address nobody talks to"

# ---- check ----
out=$(host_ctl 1 check 10.77.0.2:7001)
is $? 0 "check of a host with a daemon" || diag "$out"
has "check --json" "$(host_ctl 1 -j check 10.77.0.2:7001 | keys)" "ok address port steps"
out=$(host_ctl 1 check '[fd77::9]:1')
is $? 1 "check of nobody" || diag "$out"

# ---- upgrade, downgrade ----
id=$(host_ctl 1 -j streams | json "[r['id'] for r in d if r['pid'] == $c2][0]")
out=$(host_ctl 1 downgrade "$id")
is "$? $(grep -c "^downgrade asked for: $id, nc (pid $c2), .* now plain$" <<<"$out")" "0 1" "downgrade of one that waits" || diag "$out"
out=$(host_ctl 1 why "$c2")
is "$(grep -c 'Reason 36, downgraded: ' <<<"$out")" 1 "is the reason then" || diag "$out"
err=$(host_ctl 1 downgrade "$id" 2>&1)
is "$? $(grep -c "$id: no downgrade: it is plain TCP, and stays so" <<<"$err")" "1 1" "and once is enough" || diag "$err"
has "upgrade --json" "$(host_ctl 1 upgrade --json "$id" | keys)" "asked why id $conn $past"
is "$(stream_count 1 "r['reason'] == 'unanswered'")" 1 "and it waits again"
id=$(host_ctl 1 -j streams | json "[r['id'] for r in d if r['transport'] == 'iwarp'][0]")
err=$(host_ctl 1 upgrade "$id" 2>&1)
is "$? $(grep -c 'it is upgraded' <<<"$err")" "1 1" "upgrade of one that is upgraded"
err=$(host_ctl 1 downgrade "$id" 2>&1)
is "$? $(grep -c 'cannot be undone' <<<"$err")" "1 1" "which stays so"
host_ctl 1 upgrade 2>/dev/null
is $? 2 "upgrade of nothing: usage"
host_ctl 1 downgrade 12x 2>/dev/null
is $? 2 "downgrade of what is no id: usage"

# ---- who may see what ----
if command -v setpriv >/dev/null; then
	chmod 711 "$RIG_DIR" "$dir"
	cp "$ctl" "$RIG_DIR/iwctl"
	as() { setpriv --reuid 65534 --regid 65534 --clear-groups "$RIG_DIR/iwctl" --run-dir "$dir" "$@"; }
	is "$(as -j streams)" "[]" "another user does not see root's connections"
	is "$(as -j stags)" "[]" "nor STags"
	is "$(as -j downgrade "$id" | json "[(r['asked'], 'program' in r) for r in d]")" "[(False, False)]" "and cannot downgrade what he does not see"
	is "$(as -j status | json "d['streams_iwarp']")" 1 "but the totals"
	is "$(as -j reasons | json "sum(r['as_client'] for r in d)")" "$(host_ctl 1 -j reasons | json "sum(r['as_client'] for r in d)")" \
		"and the reasons"
else
	skip "another user" "no setpriv"
fi

# ---- usage ----
"$ctl" >/dev/null 2>&1
is $? 2 "no command: usage"
"$ctl" frobnicate 2>/dev/null
is $? 2 "unknown command: usage"
host_ctl 1 check 10.77.0.2 2>/dev/null
is $? 2 "check without port: usage"
host_ctl 1 check 10.77.0.2:99999 2>/dev/null
is $? 2 "check with a bad port: usage"
err=$("$ctl" --run-dir "$RIG_DIR/nowhere" status 2>&1)
is $? 3 "no daemon: exit code 3"
is "$(grep -c 'systemctl start iwarpd' <<<"$err")" 1 "and what to do"
is "$(host_ctl 1 status | grep -c $'\e')" 0 "no colour in a pipe"
# every sub-command, whose output cannot be written: exit code 4, and a sentence
printf 'iwarp both * *\n' >"$RIG_DIR/good.conf"
unwritten() { # NAME COMMAND...
	local name=$1 how err
	shift
	for how in full closed; do
		if [ $how = full ]; then err=$("$@" 2>&1 >/dev/full); else err=$("$@" 2>&1 >&-); fi
		is "$? $(grep -c 'standard output' <<<"$err")" "4 1" "$name: standard output that is $how" || diag "$err"
	done
}
for cmd in status metrics streams peers devices stags reasons "why $c1" "why $$" "check 10.77.0.2:7001" "streams --ended" "top --delay 0.1" "close ffff --json" "upgrade ffff --json" "close --idle 9999" \
	"check-policy $RIG_DIR/good.conf" --version --help "close --help" "streams --help" "top --help" "downgrade --help" "rping --help" \
	doctor "doctor --help" "service --help"; do
	# shellcheck disable=SC2086
	unwritten "$cmd" host_ctl 1 $cmd
	# shellcheck disable=SC2086
	case $cmd in *-*) ;; *) unwritten "--json $cmd" host_ctl 1 --json $cmd ;; esac
done

# ---- check-policy ----
printf 'iwarp both *\n# fine\niwarp both * *\nudp both * *\ntcp both * 10.0.0.0/33' >"$RIG_DIR/bad.conf"
err=$(cd "$RIG_DIR" && "$ctl" check-policy bad.conf 2>&1)
is "$?" 1 "check-policy of a file with errors"
is "$(grep -o 'bad.conf:[0-9]*' <<<"$err" | tr '\n' ' ')" "bad.conf:1 bad.conf:4 bad.conf:5 " "names every line that is wrong" || diag "$err"
is "$("$ctl" --json check-policy "$RIG_DIR/bad.conf" | json "(d['ok'], len(d['errors']), len(d['rules']), d['error'] == d['errors'][0])")" "(False, 3, 1, True)" \
	"and so does check-policy --json"
is "$("$ctl" --json check-policy "$RIG_DIR/good.conf" | json "(d['ok'], d['errors'], len(d['rules']))")" "(True, [], 1)" "check-policy --json of a good one"

# ---- a daemon that stands still ----
kill -STOP "$(daemon_pid 1)"
err=$(host_ctl 1 status 2>&1)
is "$? $(grep -c 'does not answer' <<<"$err")" "3 1" "a daemon that does not answer: exit code 3" || diag "$err"
kill -CONT "$(daemon_pid 1)"

# ---- clients that misbehave ----
python3 - "$dir/bus.sock" <<'PY'
import os, socket, struct, sys, random
seed = int.from_bytes(os.urandom(4), "little")
print("# seed", seed)
rnd = random.Random(seed)
path = sys.argv[1]
hello = b"\0AUTH EXTERNAL 30\r\nBEGIN\r\n"

def conn():
    s = socket.socket(socket.AF_UNIX)
    s.settimeout(5)
    s.connect(path)
    return s

def call(serial, member):
    f = b""
    for code, sig, v in ((1, b"o", b"/org/iwsock/Daemon1"), (2, b"s", b"org.iwsock.Daemon1"), (3, b"s", member)):
        f += b"\0" * (-len(f) % 8) + bytes([code, 1]) + sig + b"\0" + struct.pack("<I", len(v)) + v + b"\0"
    h = b"l\1\0\1" + struct.pack("<III", 0, serial, len(f)) + f
    return h + b"\0" * (-len(h) % 8)

for _ in range(50):                     # garbage, before and after the greeting
    s = conn()
    try:
        if rnd.random() < 0.5:
            s.sendall(hello)
        s.sendall(rnd.randbytes(rnd.randrange(1, 3000)))
    except OSError:
        pass
    s.close()
deaf = conn()                           # asks for ever and does not listen
deaf.sendall(hello)
deaf.setblocking(False)
n = 0
try:
    while n < 1000000:
        n += 1
        deaf.send(call(n, b"Reasons"))
except BlockingIOError:
    pass
print("# a deaf client was held up after", n, "questions")
sys.exit(n >= 1000000)
PY
ok $? "a client that asks and does not listen is held up"
timeout 10 "$ctl" --run-dir "$dir" status >/dev/null
is $? 0 "and others are still answered"

exec 8>&- 9>&-
until_true 10 rig_gone "$c1"
until_true 10 rig_gone "$c2"
is "$(host_ctl 1 -j status | json "'%d %d' % (d['tx_bytes'], d['rx_bytes'])")" "$wanted" "status counts the octets of streams that have ended, too"
# STags of control sessions (stream 0) stay
idle() { [ "$(host_ctl 1 -j stags | json "[r for r in d if r['stream'] != '0']")" = "[]" ] && [ "$(host_ctl 1 -j streams)" = "[]" ]; }
until_true 10 idle
ok $? "after the end there are no streams and no STags of streams" || diag "$(host_ctl 1 streams; host_ctl 1 stags)"

# ---- two programs of one host: rings ----
echo "rings always" >>"$IWSOCK_CONF"
host_bg_iw 1 near.log python3 "$RIG_TESTS/lib/talk.py" server 10.77.0.1 7003
host_port 1 7003
host_told 1 near python3 "$RIG_TESTS/lib/talk.py" client 10.77.0.1 7003
near=$!
by_rings() { tell near 20 && [ "$(host_ctl 1 -j streams | json "sorted((r['transport'], r['path']) for r in d if r['peer'].startswith('10.77.0.1:'))")" = \
	"[('local', 'rings'), ('local', 'rings')]" ]; }
until_true 20 by_rings
ok $? "of a pair of this host both ends are shown, and that its octets go by rings" || diag "$(host_ctl 1 streams)"
id=$(host_ctl 1 -j streams | json "[r['id'] for r in d if r['transport'] == 'local'][0]")
is "$(host_ctl 1 -j stags | json "[(r['to'], r['length'], r['access']) for r in d if r['stream'] == '$id']")" \
	"[('0x0', 65536, 'local-read,local-write'), ('0x0', 65536, 'local-read,local-write')]" "these are memory of the RNIC, that no peer has rights to"
tell_end near "$near"
ended() { [ "$(host_ctl 1 -j stags | json "[r for r in d if r['stream'] == '$id']")" = "[]" ]; }
until_true 10 ended
ok $? "until they end" || diag "$(host_ctl 1 stags)"
done_testing
