#!/bin/bash
# SPDX-License-Identifier: MIT
# Pairs of one host whose ends sleep when octets come: rings are given up, as all comes by the carrier, and tried again once both ends are awake; not with 'rings always'.
. "$(dirname "$0")/lib/rig.sh"
PY=$(type -P python3) || skip_all "needs python3"
export PYTHONDONTWRITEBYTECODE=1
N=4

rig_up 2
A=$(host_addr 1)
ends_by() { [ "$(stream_count 1 "r['path'] == '$1'")" = "$2" ]; }
# crowd PORT LINE...: N connections, by a configuration of its own
crowd() {
	local port=$1
	shift
	printf '%s\n' "upgrade_after 0" "spin no" "$@" >"$RIG_DIR/$port.conf"
	host_bg_iw 1 "server.$port.log" env IWSOCK_CONF="$RIG_DIR/$port.conf" "$PY" "$RIG_TESTS/lib/crowd.py" server "$A" "$port"
	host_port 1 "$port"
	host_told 1 near env IWSOCK_CONF="$RIG_DIR/$port.conf" "$PY" "$RIG_TESTS/lib/crowd.py" client "$A" "$port" $N
	near=$!
}
over() {
	tell_end near "$near"
	is "$?" 0 "$1: they come to a proper end" || diag "$(cat "$RIG_DIR/near.log")"
	until_true 10 no_streams 1
	ok $? "$1: nothing is left"
}

crowd 7501 "rings always"
asleep() { tell near "ask 100" && ends_by rings $((2 * N)); }
until_true 20 asleep
ok $? "rings always: all ends have rings" || diag "$(host_ctl 1 streams)"
tell near "ask 200"
ends_by rings $((2 * N))
ok $? "and still have them, though who receives sleeps" || diag "$(host_ctl 1 streams)"
over "rings always"

crowd 7502
given_up() { tell near "ask 50" && ends_by carrier $((2 * N)); }
until_true 30 given_up
ok $? "rings yes: no end has any, as who receives sleeps" || diag "$(host_ctl 1 streams)"
tell near "flood"
some() { [ "$(stream_count 1 "r['path'] == 'rings'")" -gt 0 ]; }
until_true 60 some
ok $? "both are awake: there are rings again" || diag "$(host_ctl 1 streams)"
tell near "calm"
until_true 30 given_up
ok $? "and none, as they sleep" || diag "$(host_ctl 1 streams)"
over "rings yes"
done_testing
