# SPDX-License-Identifier: MIT
# Python asyncio: 200 connections at once, echo until all are upgraded, half-close.
host_bg_iw $S asyncio.log "$PY" "$NET" echo-server "$A" 7100
pid=$!
host_port $S 7100 || { fail "$T: server starts"; return; }
counts_begin $S $C
# all of them talk until all are upgraded
all_up() {
	[ $(($(accel_count $S server) - RIG_COUNTS[2])) -ge 200 ] && [ $(($(accel_count $C client) - RIG_COUNTS[3])) -ge 200 ]
}
: >"$D/more"
host_bg_iw $C asyncio.client timeout 600 "$PY" "$NET" echo-client "$A" 7100 200 50 "$D/more"
client=$!
until_true 60 all_up
rm "$D/more"
wait $client
got=$(cat "$RIG_DIR/asyncio.client")
is "$got" "200 connections, 50 rounds each" "$T: echo"
counts_end "$T" 200 none
host_end $pid
