#!/bin/bash
# SPDX-License-Identifier: MIT
# Pairs of one host that a daemon relays, since their program forked with octets of them unread: when the child has gone they go by their rings again, the daemon
# has nothing left of it, and is not needed any more.
. "$(dirname "$0")/lib/rig.sh"
PY=$(type -P python3) || skip_all "needs python3"
export PYTHONDONTWRITEBYTECODE=1
N=20

rig_up 2
echo "rings always" >>"$IWSOCK_CONF"
A=$(host_addr 1)
host_bg_iw 1 server.log "$PY" "$RIG_TESTS/lib/crowd.py" server "$A" 7501
host_port 1 7501
host_told 1 near "$PY" "$RIG_TESTS/lib/crowd.py" client "$A" 7501 $N
near=$!
path_is() { stream_count 1 "r['path'] == '$1'"; }
by_rings() { tell near "ask 20" && [ "$(path_is rings)" = $((2 * N)) ]; }
fds() { find "/proc/$(daemon_pid 1)/fd" -mindepth 1 | wc -l; }
until_true 20 by_rings
ok $? "$N pairs with rings" || diag "$(host_ctl 1 streams)"
before=$(fds)
# of how many some is in a ring, and not in the carrier, is a matter of who was awake
left() { tell near "leave $N" && [ "$(path_is relayed)" -gt 0 ]; }
for round in 1 2 3; do
	until_true 20 left
	ok $? "round $round: a child comes and goes while octets are unread: pairs are relayed" || diag "$(host_ctl 1 streams)"
	until_true 20 by_rings
	ok $? "and go by their rings again" || diag "$(host_ctl 1 streams)"
done
until_true 10 eval '[ "$(fds)" = "$before" ]'
ok $? "the daemon has no more descriptors than before" || diag "$before, $(fds)"
until_true 20 left
ok $? "some are relayed"
tell near "fork 10"
ok $? "a child asks on ten"
until_true 20 by_rings
ok $? "all go by their rings again" || diag "$(host_ctl 1 streams)"

daemon_stop 1
tell near "ask 5"
ok $? "without the daemon they go on"
tell_end near "$near"
is "$?" 0 "and come to a proper end" || diag "$(cat "$RIG_DIR/near.log")"
ended() { [ "$(grep -c 'ended EOF' "$RIG_DIR/server.log")" = $N ]; }
until_true 20 ended
ok $? "at the other end, too" || diag "$(cat "$RIG_DIR/server.log")"
done_testing
