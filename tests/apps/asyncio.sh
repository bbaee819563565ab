# SPDX-License-Identifier: MIT
# Python asyncio: 200 connections at once, echo, half-close.
host_bg_iw $S asyncio.log "$PY" "$NET" echo-server "$A" 7100
pid=$!
host_port $S 7100 || { fail "asyncio server starts"; return; }
counts_begin $S $C
got=$(host_exec_iw $C timeout 600 "$PY" "$NET" echo-client "$A" 7100 200 50 2>&1)
is "$got" "200 connections, 50 rounds each" "asyncio: echo"
counts_end asyncio 200
host_end $pid
