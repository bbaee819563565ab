#!/bin/bash
# SPDX-License-Identifier: MIT
# What streams have carried: totals that never go back, metrics in a strict format, the dashboard, streams that have ended, rates of programs.
. "$(dirname "$0")/lib/rig.sh"
rig_up 2
PYTHON=/usr/bin/python3	# which has Debian's packages

host_bg_iw 2 server.log python3 "$RIG_TESTS/lib/talk.py" server 10.77.0.2 7001
host_port 2 7001
host_told 1 c python3 "$RIG_TESTS/lib/talk.py" client 10.77.0.2 7001
c=$!
mapped() { tell c 20 && [ "$(stream_count 1 "r['path'] == 'mapped'")" = 1 ]; }
until_true 20 mapped
ok $? "a stream is mapped" || diag "$(host_ctl 1 streams)"

# ---- totals ----
total() { host_ctl 1 -j status | json "'%d %d %d %d' % (d['tx_bytes'], d['rx_bytes'], d['tx_sends'] + d['tx_writes'] + d['tx_reads'], d['rx_fpdus'])"; }
grown() { # OLD NEW: none is less
	local a b i
	read -ra a <<<"$1"
	read -ra b <<<"$2"
	for i in "${!a[@]}"; do [ "${b[i]}" -ge "${a[i]}" ] || return 1; done
}
t0=$(total)
tell c "bulk 100000"
t1=$(total)
is "$(stream_count 1 "r['path'] == 'mapped'")" 1 "it is mapped still"
read -r tx0 rx0 _ <<<"$t0"
read -r tx1 rx1 _ <<<"$t1"
is "$((tx1 - tx0)) $((rx1 - rx0))" "100000 100000" "status counts what a mapped stream carries while it does"
grown "$t0" "$t1"
ok $? "and messages and FPDUs"

# ---- metrics ----
host_ctl 1 metrics >"$RIG_DIR/metrics"
is "$?" 0 "metrics"
if $PYTHON -c 'import prometheus_client' 2>/dev/null; then
	out=$($PYTHON - "$RIG_DIR/metrics" 2>&1 <<'PY'
import sys
from prometheus_client.openmetrics.parser import text_string_to_metric_families
n = 0
for f in text_string_to_metric_families(open(sys.argv[1]).read()):
    assert f.name.startswith("iwsock_") and f.documentation.endswith("."), f
    assert f.type in ("gauge", "counter", "histogram"), f
    assert f.samples, f
    n += len(f.samples)
print(n > 90)
PY
	)
	is "$out" "True" "a strict parser takes them"
else
	skip "a strict parser" "no python3-prometheus-client"
fi
is "$(tail -n 1 "$RIG_DIR/metrics")" "# EOF" "there is an end"
value() { sed -n "s/^$1 //p" "$RIG_DIR/metrics"; }
is "$(value 'iwsock_stream_bytes_total{direction="sent"}') $(value 'iwsock_stream_bytes_total{direction="received"}')" "$tx1 $rx1" "octets are those of status"
is "$(value 'iwsock_streams{transport="iwarp"}') $(value 'iwsock_peers{state="iwarp"}')" "1 1" "and so are streams and peers"
is "$(value 'iwsock_reasons_total{reason="accelerated",side="client"}')" 1 "one connection is accelerated"
is "$(value 'iwsock_upgrade_seconds_count') $(value 'iwsock_upgrade_seconds_bucket{le="+Inf"}')" "1 1" "whose time from its proposal is counted"
$PYTHON -c 'import sys; a, b = map(float, sys.argv[1:]); sys.exit(not (0 <= a and a * 1000 <= b))' "$(value iwsock_upgrade_seconds_sum)" \
	"$(host_ctl 1 -j streams | json "[r['since_proposal_ms'] for r in d][0]")"
ok $? "and is none that it cannot be"
sizes=$(host_ctl 1 -j status | json "d['tx_sizes_log4'] == sorted(d['tx_sizes_log4']), len(d['tx_sizes_log4']), d['tx_sizes_log4'][-1] == d['tx_sends'] + d['tx_writes'] + d['tx_read_responses']")
is "$sizes" "True 9 True" "each message that was sent has its size"
is "$(sed -n 's/^iwsock_tx_message_bytes_bucket{le="\(.*\)"} .*/\1/p' "$RIG_DIR/metrics" | tr '\n' ' ')" \
	"64.0 256.0 1024.0 4096.0 16384.0 65536.0 262144.0 1048576.0 +Inf " "by powers of four"
is "$(host_ctl 1 -j metrics | json "sorted({k for f in d for k in f} - {'unit'})")" "['help', 'name', 'samples', 'type']" "metrics --json"
told=$(host_ctl 1 -j status | json "'\n'.join(sorted(k for k, v in d.items() if type(v) is int and k.split('_')[0] in ('tx', 'rx', 'used', 'refused', 'ends', 'streams')))")
missing=
for k in $told; do grep -q "\"$k\"" "$RIG_TESTS/../iwctl/metrics.c" || missing+=" $k"; done
is "$missing" "" "every total of status is a metric"

# ---- the dashboard ----
is "$(python3 -c '
import json, re, sys
text, dashboard = open(sys.argv[1]).read(), json.load(open(sys.argv[2]))
there = {re.split("[{ ]", line)[0] for line in text.splitlines() if line[0] != "#"}
asked = set(re.findall(r"iwsock_\w+", " ".join(t["expr"] for p in dashboard["panels"] for t in p["targets"])))
asked |= set(re.findall(r"iwsock_\w+", " ".join(str(v.get("query")) for v in dashboard["templating"]["list"])))
print(sorted(asked - there), len(asked) > 10)' "$RIG_DIR/metrics" "$RIG_TESTS/../docs/grafana.json")" "[] True" "docs/grafana.json asks for what there is"

# ---- rates ----
until_true 20 tell c "bulk 1000"
is "$(host_ctl 1 top -j -n 1 -d 0.1 | json "[(r['program'], r['processes'], r['streams'], r['local'], sorted(r)) for r in d]")" \
	"[('python3', 1, 1, 0, ['local', 'processes', 'program', 'rx_bytes_per_s', 'rx_messages_per_s', 'streams', 'tx_bytes_per_s', 'tx_messages_per_s'])]" \
	"top --json has a program" || diag "$(host_ctl 1 top)"
"$IW_BUILD/iwctl" --run-dir "$(host_dir 1)" top -j -n 8 -d 0.2 >"$RIG_DIR/top.json" &
top=$!
# all the while: nobody knows when its first look is
n=0
while rig_ours $top; do tell c "bulk 100000" && n=$((n + 1)) || break; done
wait $top
ok $? "several looks"
$PYTHON - "$RIG_DIR/top.json" "$((n * 100000))" <<'PY'
import json, sys
most = 2.5 * int(sys.argv[2])
s, at, looks = open(sys.argv[1]).read(), 0, []
while s[at:].strip():
    d, at = json.JSONDecoder().raw_decode(s, at)
    at += 1
    looks.append(d)
sums = [sum(l[0][k] for l in looks if l) * 0.2 for k in ("tx_bytes_per_s", "rx_bytes_per_s", "tx_messages_per_s")]
print("#", len(looks), sums)
sys.exit(not (len(looks) == 8 and 0 < sums[0] < most and 0 < sums[1] < most and sums[2] > 0))
PY
ok $? "see what goes by, and no more than there was"
out=$(host_ctl 1 top -d 0.1)
is "$(head -n 1 <<<"$out" | tr -s ' ')" "PROGRAM PROCESSES STREAMS LOCAL SENT/S RECEIVED/S MESSAGES OUT/S IN/S" "top, once on a pipe" || diag "$out"
for bad in "-n 0" "-n x" "-d 0" "frob"; do
	# shellcheck disable=SC2086
	host_ctl 1 top $bad >/dev/null 2>&1
	is $? 2 "top $bad: usage"
done

# ---- what has ended ----
is "$(host_ctl 1 -j streams --ended)" "[]" "nothing has ended"
t1=$(total)
tell_end c "$c"
over() { [ "$(host_ctl 1 -j streams --ended | json "len(d)")" = 1 ]; }
until_true 20 over
ok $? "one has"
t2=$(total)
grown "$t1" "$t2"
ok $? "no total has gone back" || diag "$t1; $t2"
is "$(host_ctl 1 -j streams --ended | json "[(r['how'], r['transport'], r['program'], r['pid'], r['peer'], r['side'], 'error' in r) for r in d]")" \
	"[('closed', 'iwarp', 'python3', $c, '10.77.0.2:7001', 'client', False)]" "who and how"
is "$(host_ctl 1 -j streams --ended | json "['%d %d' % (r['tx_bytes'], r['rx_bytes']) for r in d][0]")" "$(cut -d' ' -f 1,2 <<<"$t2")" "with all that it carried"
is "$(host_ctl 1 -j streams --ended | json "[r['duration_ms'] > 0 and r['since_end_ms'] >= 0 for r in d]")" "[True]" "and how long it lasted"
is "$(host_ctl 1 streams --ended -c peer,how,user | tail -n 1 | tr -s ' ')" "10.77.0.2:7001 closed 0" "columns"
is "$(host_ctl 1 streams -je --filter port=1)" "[]" "and filters"

host_told 1 d python3 "$RIG_TESTS/lib/talk.py" client 10.77.0.2 7001
d=$!
again() { tell d 20 && [ "$(stream_count 1 "r['transport'] == 'iwarp'")" = 1 ]; }
until_true 20 again
host_ctl 1 close "$(host_ctl 1 -j streams | json "d[0]['id']")" >/dev/null
ok $? "a stream is closed by the administrator"
tell_end d "$d"
first() { [ "$(host_ctl "$1" -j streams --ended | json "d[0]['how']")" = "$2" ]; }
until_true 20 first 1 administrator && until_true 20 first 2 reset
ok $? "which is how it ended, and at the other end a reset" || diag "$(host_ctl 1 streams --ended; host_ctl 2 streams --ended)"
is "$(host_ctl 2 -j streams --ended | json "(d[0]['error'], d[0]['error_number'], len(d))")" "('Connection reset by peer', 104, 2)" "that its program was told, and the latest is the first"
if command -v setpriv >/dev/null; then
	chmod 711 "$RIG_DIR" "$(host_dir 1)"
	cp "$IW_BUILD/iwctl" "$RIG_DIR/iwctl"
	is "$(setpriv --reuid 65534 --regid 65534 --clear-groups "$RIG_DIR/iwctl" --run-dir "$(host_dir 1)" -j streams --ended)" "[]" "another user does not see them"
else
	skip "another user" "no setpriv"
fi
host_ctl 1 peers --ended 2>/dev/null
is $? 2 "peers have no end: usage"

# ---- two programs of one host ----
host_bg_iw 1 near.log python3 "$RIG_TESTS/lib/talk.py" server 10.77.0.1 7003
host_port 1 7003
host_told 1 n python3 "$RIG_TESTS/lib/talk.py" client 10.77.0.1 7003
n=$!
joined() { tell n 20 && [ "$(stream_count 1 "r['transport'] == 'local'")" = 2 ]; }
until_true 20 joined
tell_end n "$n"
pair() { [ "$(host_ctl 1 -j streams --ended --filter port=7003 | json "sorted((r['side'], r['transport'], r['how'], 'tx_bytes' in r) for r in d)")" = \
	"[('client', 'local', 'closed', False), ('server', 'local', 'closed', False)]" ]; }
until_true 20 pair
ok $? "of a pair both ends have ended" || diag "$(host_ctl 1 streams --ended)"
done_testing
