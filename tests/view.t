#!/bin/bash
# SPDX-License-Identifier: MIT
# iwctl's lists as somebody asks for them: the width of a terminal, columns, order, filters, and again and again.
. "$(dirname "$0")/lib/rig.sh"
rig_up 2

host_bg_iw 2 server.log python3 "$RIG_TESTS/lib/talk.py" server 10.77.0.2 7001
host_bg 2 plain.log python3 "$RIG_TESTS/lib/talk.py" server 10.77.0.2 7002
host_port 2 7001 && host_port 2 7002
c7001='' c7002=''
for p in 7001 7002; do
	host_told 1 c$p python3 "$RIG_TESTS/lib/talk.py" client 10.77.0.2 $p
	eval "c$p=\$!"
done
used() { tell c7001 20 && [ "$(stream_count 1 "r['transport'] == 'iwarp'")" = 1 ] && [ "$(stream_count 1)" = 2 ]; }
until_true 20 used
ok $? "a connection over iWARP, and a plain one" || diag "$(host_ctl 1 streams)"
tell c7002 20

# ---- columns ----
all=$(sed -n '/^\t{ "streams"/,/^\t{ "peers"/p' "$RIG_TESTS/../iwctl/lists.c" | grep -o '{ ">*[A-Z]*",' | tr -dc 'A-Z\n' | tr '\n' ' ')
is "$(host_ctl 1 streams | head -n 1 | tr -s ' ' | sed 's/^ //') " "$all" "on a pipe all columns are shown"
is "$(host_ctl 1 streams -c peer,user,PID --sort=-peer | tr -s ' ')" "PEER USER PID
10.77.0.2:7002 0 $c7002
10.77.0.2:7001 0 $c7001" "--columns: these, in this order, and of those that are not shown otherwise"
is "$(host_ctl 1 reasons --columns as_client,no --sort no | sed -n '1p;2p' | tr -s ' ')" "AS CLIENT NO
 1 0" "of other lists, too"
is "$(host_ctl 1 streams -c id --filter transport=iwarp | grep -cx '[0-9a-f]\{16\}')" 1 "an ID has 16 digits"
is "$(host_ctl 1 streams -c id --filter transport=iwarp | tail -n 1 | sed 's/^0*//')" "$(host_ctl 1 -j streams | json "[r['id'] for r in d if r['transport'] == 'iwarp'][0]")" \
	"and is that of --json"

terminal() { python3 "$RIG_TESTS/lib/on_terminal.py" "$@"; }
ctl() { terminal "$1" "$2" "$3" env NO_COLOR=1 TERM=dumb "$IW_BUILD/iwctl" --run-dir "$(host_dir 1)" "${@:4}"; }
widest() { wc -L; }
for w in 60 80 100 132; do
	out=$(ctl $w 50 0 streams)
	at_most "$(widest <<<"$out")" $w "on a terminal of $w columns no line is longer"
	at_least "$(head -n 1 <<<"$out" | wc -w)" $((w / 16)) "and there are columns: $(head -n 1 <<<"$out" | tr -s ' ')"
done
is "$(ctl 400 50 0 streams | head -n 1 | tr -s ' ' | sed 's/^ //') " "$all" "on a wide one there are all"
out=$(ctl 10 50 0 streams | head -n 1)
is "$out" "PEER" "of a very narrow one the last column is the peer"
out=$(ctl 60 50 0 streams -c local,peer,transport,reason,id)
is "$(head -n 1 <<<"$out" | tr -s ' ')" "LOCAL PEER TRANSPORT REASON ID" "what was asked for is shown, however wide" || diag "$out"

# ---- order ----
order() { host_ctl 1 streams -c peer --sort "$1" | sed 1d | sed 's/.*://' | tr '\n' ' '; }
is "$(order peer) $(order -peer)" "7001 7002  7002 7001 " "--sort up and down"
tell c7001 "bulk 300000"
is "$(order -bytes) $(order bytes)" "7001 7002  7002 7001 " "by octets of both directions: what has none is lower than what has some"
is "$(host_ctl 1 -j streams --sort -peer | json "[r['peer'] for r in d]")" "['10.77.0.2:7002', '10.77.0.2:7001']" "and so with --json"
host_ctl 1 stags -c length --sort length | sed 1d | sort -n -c
ok $? "numbers are numbers"

# ---- filters ----
passes() { # NAME FILTER... PORTS
	local name=$1 ports=${*: -1} f=()
	shift
	while [ $# -gt 1 ]; do f+=(--filter "$1"); shift; done
	is "$(host_ctl 1 streams -j --sort peer "${f[@]}" | json "' '.join(r['peer'][-4:] for r in d)")" "$ports" "--filter ${f[*]}: $name"
}
passes "a pattern" 'program=py*' "7001 7002"
passes "none such" program=redis ""
passes "an address" peer=10.77.0.2 "7001 7002"
passes "address and port" peer=10.77.0.2:7002 "7002"
passes "another" peer=10.77.0.1 ""
passes "of the other end" port=7001 "7001"
port=$(host_ctl 1 -j streams | json "[r['local'].split(':')[1] for r in d if r['peer'].endswith('7002')][0]")
passes "of this end" port="$port" "7002"
passes "a name" user=root "7001 7002"
passes "a number" user=12345 ""
passes "a transport" transport=tcp "7002"
passes "a reason" reason=unanswered "7002"
passes "its number" reason=29 "7002"
passes "all must hold" port=7001,transport=tcp ""
passes "also of several" port=7001 transport=iwarp "7001"
is "$(host_ctl 1 streams --filter port=7001 | wc -l)" 2 "and for people"

# ---- again and again ----
out=$(ctl 80 50 3 streams --watch 0.1)
is "$? $(($(grep -c $'\033\[2J' <<<"$out") >= 4))" "130 1" "--watch draws on a terminal until it is interrupted" || diag "$out"
out=$(ctl 80 3 1 streams -w0.1 | awk 'index($0, "[2J") { n++ } n == 1')
is "$(wc -l <<<"$out") $(tail -n 1 <<<"$out")" "2 2 more" "no more lines than the terminal has" || diag "$out"
lines() { [ "$(grep -c PROGRAM "$RIG_DIR/watch.log")" -ge 3 ]; }
host_bg 1 watch.log "$IW_BUILD/iwctl" --run-dir "$(host_dir 1)" streams --watch 0.1
watch=$!
until_true 20 lines
ok $? "on a pipe it is a block each time"
host_end $watch
is "$(grep -c $'\033' "$RIG_DIR/watch.log") $(($(grep -cx '' "$RIG_DIR/watch.log") >= 2))" "0 1" "with an empty line in between"
timeout 60 "$IW_BUILD/iwctl" --run-dir "$(host_dir 1)" -j streams --watch 0.1 2>/dev/null | head -n 200 >"$RIG_DIR/watch.json"
is "${PIPESTATUS[0]} $(python3 -c '
import json, sys
s, at, n = open(sys.argv[1]).read(), 0, 0
try:
    while True:
        d, end = json.JSONDecoder().raw_decode(s, at)
        at, n = end + 1, n + 1
except ValueError:
    print(n > 1)' "$RIG_DIR/watch.json")" "141 True" "with --json a document, and it ends with who reads"

# ---- what is wrong ----
wrong() { # NAME WORDS COMMAND...
	local name=$1 words=$2 err
	shift 2
	err=$(host_ctl 1 "$@" 2>&1)
	is "$? $(grep -c -- "$words" <<<"$err")" "2 1" "$name" || diag "$err"
}
wrong "an unknown column is named, and those that there are" 'streams has no column "frob"; it has pid, program, .*, id, reason, user, age, device$' streams --columns pid,frob
wrong "of --sort, too" 'peers has no column "pid"; it has address, ' peers --sort -pid
wrong "no column" 'no column ""' streams --columns pid,
wrong "an unknown term" '"colour="; there are program=, peer=, ' streams --filter colour=red
wrong "no term" '"red="; there are' streams --filter red
wrong "a term without value" 'peer=: a value is missing' streams --filter peer=
wrong "no port" 'port=65536: give a port, 1 to 65535' streams --filter port=65536
wrong "no user" 'there is no such user' streams --filter user=iwt-nobody
wrong "no transport" 'iwarp, local, pending or tcp' streams --filter transport=udp
wrong "no reason" "'iwctl reasons' shows them" streams --filter reason=frob
wrong "no seconds" 'give seconds, 0.1 to 86400' streams --watch 1e9
wrong "a filter for something else" '--filter is for streams' peers --filter peer=::1
wrong "columns of JSON" '--json has all names' streams --json --columns pid
wrong "an argument" '^usage: iwctl streams' streams frob
wrong "two places" 'exclude each other' streams --system
is "$(host_ctl 1 streams --help | grep -c -- '--watch')" 1 "--help"
is "$(host_ctl 1 streams --run-dir "$(host_dir 2)" -j --filter port=7001 | json "[r['side'] for r in d]")" "['server']" "options of all commands are taken behind it, too"

tell_end c7001 "$c7001"
tell_end c7002 "$c7002"
done_testing
