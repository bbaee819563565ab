# SPDX-License-Identifier: MIT
# Python asyncio: 200 connections at once, echo until all are upgraded, half-close.
host_bg_iw $S asyncio.log "$PY" "$NET" echo-server "$A" 7100
pid=$!
host_port $S 7100 || { fail "$T: server starts"; return; }
counts_begin $S $C
talk_until_up 200 timeout 600 "$PY" "$NET" echo-client "$A" 7100 200 50 "$D/more"
is "$got" "200 connections, 50 rounds each" "$T: echo"
counts_end "$T" 200 none
host_end $pid
